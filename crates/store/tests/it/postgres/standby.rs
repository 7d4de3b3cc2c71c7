//! Commits that wait for a standby: an absent one is reported, and a commit that it lacks is not acknowledged.

use pgserver::{Server, Stop};
use store::postgres::{Missing, Options, PostgresWriter, Standbys};
use store::{
    Administration, ApiKey, Batch, Browse, CommitFailure, FailureKind, PostgresStore, Store,
    TaskKey, Writer,
};
use storetest::conformance::{Call, Submission, carry::carry};
use tokio_postgres::Client;
use verdict::{Digest, Scope, TaskId, Time};

use super::durability::set;
use super::options;
use super::private::client;

/// Far longer than any step takes on the slowest machine.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

async fn submit(writer: &mut impl Writer, id: u128) -> Result<(), CommitFailure> {
    let mut batch = writer.begin().await.unwrap();
    let task = Submission::new(TaskId::from_u128(id), &Scope::default(), "images");
    carry(&mut batch, 1, Call::Submit(task)).await.unwrap();
    batch.commit().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_commits_would_wait_for_ever_says_so() {
    // F35, S2-104: opening fails with what is missing and what to do; a read-only opening succeeds.
    let server = Server::builder().set("synchronous_standby_names", "s1").start().unwrap();
    let open = async |missing| {
        let options = Options { missing, ..options(None) };
        PostgresStore::open(&server.conninfo("postgres"), options).await
    };
    let refused = open(Missing::Create).await.err().expect("no commit would end");
    assert_eq!(refused.kind, FailureKind::Closed, "{refused:?}");
    assert!(refused.what.contains("more synchronous standbys than are connected"), "{refused:?}");
    assert!(refused.what.contains("; start those that synchronous_standby_names"), "{refused:?}");
    let standby = server.standby("s1").unwrap();
    server.until_followed("sync").unwrap();
    let store = open(Missing::Create).await.expect("now commits end");
    assert_eq!(store.durability().standbys, Standbys::Visible { following: 1, synchronous: 1 });
    assert_eq!(store.durability().warnings(), Vec::<&str>::new());
    let mut writer = store.writer().await.unwrap();
    submit(&mut writer, 1).await.expect("the standby has it");
    standby.stop(Stop::Immediate).unwrap();
    server.until_alone().unwrap();
    let looking = open(Missing::Refuse).await.expect("reading waits for nobody");
    assert!(looking.durability().lacks_standbys(), "{:?}", looking.durability());
    assert!(open(Missing::Create).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_told_nothing_but_that_it_joined_doubts_no_lossless_failover() {
    // C1, S2-104: an idle coordinator may be the first to reach the new server. It finds its own row there, as it was
    // acknowledged, so no lease is lost.
    let server = Server::builder().start().unwrap();
    let standby = server.standby("s1").unwrap();
    set(&client(&server).await, &[("synchronous_standby_names", "s1")]).await;
    server.until_followed("sync").unwrap();
    let store = PostgresStore::open(&either(&server, &standby), options(None)).await.unwrap();
    let mut idle = store.writer().await.unwrap();
    let epoch = store.status().epoch;
    server.kill().unwrap();
    standby.promote().unwrap();
    standby.set("synchronous_standby_names", "").unwrap();
    follow(&mut idle).await;
    assert_eq!(store.status().epoch, epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_may_have_lost_something_is_settled_whichever_writer_meets_it() {
    // A2, F35: the second writer of a coordinator has no row, and still it commits nothing to the new server in an
    // epoch in which the old server may have granted the same leases.
    let server = Server::builder().start().unwrap();
    drop(PostgresStore::open(&server.conninfo("postgres"), options(None)).await.unwrap());
    let standby = server.standby("s1").unwrap();
    let both = either(&server, &standby);
    let store = PostgresStore::open(&both, options(None)).await.unwrap();
    let _first = store.writer().await.unwrap();
    let mut second = store.writer().await.unwrap();
    submit(&mut second, 1).await.unwrap();
    let epoch = store.status().epoch;
    server.kill().unwrap();
    standby.promote().unwrap();
    follow(&mut second).await;
    assert!(store.status().epoch > epoch, "it is still {epoch}");
}

/// A key that is not revoked yet.
fn key(id: &str) -> ApiKey {
    ApiKey {
        id: id.into(),
        scope: Scope::default(),
        roles: vec!["client".into()],
        digest: Digest::of(&[b"secret"]),
        created_at: Time::from_millis(1),
        name: None,
        queues: None,
        expires_at: None,
        revoked_at: None,
        previous: None,
        last_used_at: None,
    }
}

/// Whether the key is revoked, if this coordinator can read it.
async fn is_revoked(store: &PostgresStore) -> Option<bool> {
    let keys = store.browse().administration().await.ok()?.api_keys;
    Some(keys[0].revoked_at.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_from_a_primary_that_another_has_taken_over_from() {
    // C7, F46: the old primary is still alive and takes writes, and every connection leads to it. A key that is
    // revoked on the new primary is revoked for a coordinator that only reads its keys, and stays so.
    let server = Server::builder().start().unwrap();
    drop(PostgresStore::open(&server.conninfo("postgres"), options(None)).await.unwrap());
    let standby = server.standby("s1").unwrap();
    let store = PostgresStore::open(&either(&server, &standby), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let act = Administration { keys: vec![key("k1")], ..Administration::default() };
    writer.administer(&act).await.unwrap();
    submit(&mut writer, 1).await.unwrap();
    assert_eq!(is_revoked(&store).await, Some(false));
    server.until_caught_up().unwrap();
    standby.promote().unwrap();
    standby.sql("postgres", "UPDATE tenure.api_keys SET revoked_at = 2").unwrap();
    let noticed = async {
        while is_revoked(&store).await != Some(true) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, noticed).await.expect("the revocation holds here too");
    for _ in 0..50 {
        assert_ne!(is_revoked(&store).await, Some(false), "the old primary was read again");
    }
    follow(&mut writer).await;
    let task = |server: &Server, id: u8| {
        let sql = format!("SELECT count(*) FROM tenure.inputs WHERE get_byte(id, 15) = {id}");
        server.sql("postgres", &sql).unwrap()
    };
    assert_eq!((task(&server, 100), task(&standby, 100)), ("0".to_owned(), "1".to_owned()));
}

/// Whether a task exists, if this coordinator can read it.
async fn is_there(store: &PostgresStore, id: u128) -> Option<bool> {
    let key = TaskKey { scope: Scope::default(), id: TaskId::from_u128(id) };
    store.browse().find(&key).await.ok().map(|found| found.is_some())
}

/// The looker has no transaction: inside one PostgreSQL shows again and again the sessions that there were at the first look.
async fn until_waiting_for_a_lock(looker: &Client) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while looker.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_in_use_during_a_failover_is_not_read_from_afterwards() {
    // C7, F46: a failover closes idle connections to the old primary. A connection in use returns to its pool later,
    // and the timeline check of each read keeps it from answering.
    let server = Server::builder().start().unwrap();
    drop(PostgresStore::open(&server.conninfo("postgres"), options(None)).await.unwrap());
    let standby = server.standby("s1").unwrap();
    let store = PostgresStore::open(&either(&server, &standby), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    submit(&mut writer, 1).await.unwrap();
    server.until_caught_up().unwrap();
    let (admin, looker) = (client(&server).await, client(&server).await);
    let lock = "BEGIN; LOCK TABLE tenure.inputs IN ACCESS EXCLUSIVE MODE";
    admin.batch_execute(lock).await.unwrap();
    let reader = store.clone();
    let reading = tokio::spawn(async move { is_there(&reader, 1).await });
    until_waiting_for_a_lock(&looker).await;
    standby.promote().unwrap();
    // The lock blocks every write on the old primary, so this one is on the new primary.
    let id = follow(&mut writer).await;
    assert!(!reading.is_finished(), "it keeps its connection all the while");
    admin.batch_execute("ROLLBACK").await.unwrap();
    reading.await.unwrap();
    let mut found = 0;
    for _ in 0..50 {
        let is_there = is_there(&store, id).await;
        assert_ne!(is_there, Some(false), "the old primary was read");
        found += usize::from(is_there == Some(true));
    }
    assert!(found > 0, "the new primary is read");
}

/// The address of both servers: the one that takes writes is used.
fn either(server: &Server, standby: &Server) -> String {
    format!(
        "host={},{} port={},{} user=postgres dbname=postgres",
        server.folder().display(),
        standby.folder().display(),
        server.port(),
        standby.port()
    )
}

/// Commits a task on the new server and returns its number. Connections to the dead server fail first.
async fn follow(writer: &mut PostgresWriter) -> u128 {
    let followed = async {
        let mut id = 100;
        while submit_now(writer, id).await.is_none() {
            id += 1;
            tokio::task::yield_now().await;
        }
        id
    };
    tokio::time::timeout(PATIENCE, followed).await.expect("the new server is found")
}

/// Submits a task, if the database can be reached now.
async fn submit_now(writer: &mut PostgresWriter, id: u128) -> Option<()> {
    let mut batch = writer.begin().await.ok()?;
    let task = Submission::new(TaskId::from_u128(id), &Scope::default(), "images");
    carry(&mut batch, 1, Call::Submit(task)).await.ok()?;
    batch.commit().await.ok()
}

/// A transaction, by its session and its start time.
type Waiting = (i32, String);

/// A transaction that waits for the standby, other than this one.
async fn who_waits(admin: &Client, but: &Waiting) -> Option<Waiting> {
    let sql = "SELECT pid, xact_start::text FROM pg_stat_activity \
        WHERE wait_event = 'SyncRep' AND application_name LIKE 'tenure %' AND (pid, xact_start::text) <> ($1, $2)";
    let rows = admin.query(sql, &[&but.0, &but.1]).await.unwrap();
    rows.first().map(|row| (row.get(0), row.get(1)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_found_again_is_told_when_a_standby_has_it() {
    // S2-104, A2: looking up a lost COMMIT must not acknowledge what a failover would still lose.
    let server = Server::builder().start().unwrap();
    let store = PostgresStore::open(&server.conninfo("postgres"), options(None)).await.unwrap();
    find_again(&server, store.writer().await.unwrap(), 1, "pg_terminate_backend").await;
    // Also for the second writer of a coordinator: only the first one has a row.
    let _first = store.writer().await.unwrap();
    find_again(&server, store.writer().await.unwrap(), 3, "pg_terminate_backend").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_made_to_stop_waiting_for_its_standby_is_not_acknowledged() {
    // S2-104, A2: PostgreSQL answers such a COMMIT with success, and only warns that the standby may not have it. The
    // engine acknowledges it when the standby has it, however often the wait is cancelled.
    let server = Server::builder().start().unwrap();
    let store = PostgresStore::open(&server.conninfo("postgres"), options(None)).await.unwrap();
    find_again(&server, store.writer().await.unwrap(), 1, "pg_cancel_backend").await;
}

/// Waits until a commit waits for the standby: sessions see the setting before the process does that makes commits wait. The
/// commit waits on, beside the test.
pub(super) async fn until_commits_wait(server: &Server, admin: &Client) {
    let write = "SELECT pg_logical_emit_message(true, 'probe', '')";
    let waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = $1";
    loop {
        let probe = client(server).await;
        let pid: i32 = probe.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let committing = tokio::spawn(async move { probe.batch_execute(write).await });
        while !committing.is_finished() {
            if !admin.query(waiting, &[&pid]).await.unwrap().is_empty() {
                return;
            }
        }
    }
}

/// Submits two tasks with the writer, the second one without a standby, with its wait ended in this way.
async fn find_again(server: &Server, mut writer: PostgresWriter, first: u128, ended: &str) {
    let admin = client(server).await;
    submit(&mut writer, first).await.unwrap();
    set(&admin, &[("synchronous_standby_names", "s1")]).await;
    until_commits_wait(server, &admin).await;
    let submitting = tokio::spawn(async move { submit(&mut writer, first + 1).await });
    let mut waits = 0;
    let mut waiting = (0, String::new());
    // The commit waits; then its wait ends, and the lookup of its outcome waits as well.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while waits < 2 {
        assert!(tokio::time::Instant::now() < deadline, "only {waits} waited for the standby");
        assert!(!submitting.is_finished(), "told before the standby has it: {submitting:?}");
        if let Some(next) = who_waits(&admin, &waiting).await {
            (waits, waiting) = (waits + 1, next);
        }
        if waits == 1 {
            admin.execute(&format!("SELECT {ended}($1)"), &[&waiting.0]).await.unwrap();
        }
        tokio::task::yield_now().await;
    }
    assert!(!submitting.is_finished());
    set(&admin, &[("synchronous_standby_names", "")]).await;
    submitting.await.unwrap().expect("nobody has to wait any more, and it is there");
}
