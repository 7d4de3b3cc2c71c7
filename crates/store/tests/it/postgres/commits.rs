//! Commits whose answer is lost, terminated connections, and old snapshots.

use std::sync::Arc;

use store::postgres::{Notify, Options, PostgresStore, PostgresWriter};
use store::{Batch, Browse, CommitFailure, Failure, FailureKind, Store, TaskKey, Want, Writer};
use storetest::Database;
use storetest::ManualClock;
use storetest::conformance::driver::caller;
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::{
    Between, Call, CallResult, Driver, Fixture, Poll, Submission, carry::carry,
};
use tokio_postgres::NoTls;
use verdict::{Scope, State, TaskId};

use super::cutting::{Cut, Proxy};
use super::{Postgres, options};

/// A store that is reached through a proxy.
struct BehindProxy {
    database: Database,
    proxy: Proxy,
}

impl BehindProxy {
    fn new() -> Self {
        let database = Database::create();
        let proxy = Proxy::start(database.folder());
        Self { database, proxy }
    }

    async fn open(&self) -> PostgresStore {
        let url = self.database.url_through(&self.proxy.folder());
        PostgresStore::open(&url, options(None)).await.expect("the database opens")
    }
}

fn submission(id: u128) -> Submission {
    Submission::new(TaskId::from_u128(id), &Scope::default(), "images")
}

async fn submit(store: &PostgresStore, id: u128) -> Result<(), CommitFailure> {
    let mut writer = store.writer().await.expect("there is a writer");
    submit_by(&mut writer, id).await
}

async fn submit_by(writer: &mut PostgresWriter, id: u128) -> Result<(), CommitFailure> {
    let mut batch = writer.begin().await.expect("a batch can be begun");
    carry(&mut batch, 1, Call::Submit(submission(id))).await.expect("the store takes it");
    batch.commit().await
}

async fn state(store: &PostgresStore, id: u128) -> Option<State> {
    let key = TaskKey { scope: Scope::default(), id: TaskId::from_u128(id) };
    store.browse().find(&key).await.unwrap().and_then(|found| found.subject.state())
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found() {
    // S2-104: the answer is definite, not "unknown": it is committed, so it is acknowledged.
    let behind = BehindProxy::new();
    let store = behind.open().await;
    let mut writer = store.writer().await.expect("there is a writer");
    behind.proxy.cut(Cut::Answer);
    submit_by(&mut writer, 1).await.expect("looked up and found");
    assert!(behind.proxy.has_cut());
    assert_eq!(state(&store, 1).await, Some(State::Queued));
}

#[tokio::test]
async fn a_commit_that_never_arrived_is_decided_again() {
    // S2-104: nothing was committed, so the caller is told to decide again, and may.
    let behind = BehindProxy::new();
    let store = behind.open().await;
    let mut writer = store.writer().await.expect("there is a writer");
    behind.proxy.cut(Cut::Question);
    let lost = submit_by(&mut writer, 1).await.expect_err("nobody committed");
    let CommitFailure::RolledBack(Failure { kind: FailureKind::Conflict(_), .. }) = lost else {
        panic!("{lost:?}")
    };
    assert_eq!(state(&store, 1).await, None);
    submit_by(&mut writer, 1).await.expect("the second time it goes through");
    assert_eq!(state(&store, 1).await, Some(State::Queued));
}

#[tokio::test]
async fn ended_connections_cost_one_batch_at_most() {
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    submit(&store, 1).await.expect("it commits");
    let mut writer = store.writer().await.unwrap();
    let mut batch = writer.begin().await.unwrap();
    carry(&mut batch, 1, Call::Submit(submission(2))).await.unwrap();
    batch.moment().await.unwrap();
    database.end_all_connections().await;
    // S2-104: before COMMIT was sent the outcome is definite, and the next batch uses a new connection.
    match batch.commit().await {
        Err(CommitFailure::RolledBack(failure)) => assert!(failure.is_retryable(), "{failure:?}"),
        other => panic!("{other:?}"),
    }
    drop(writer);
    assert_eq!(state(&store, 2).await, None);
    submit(&store, 2).await.expect("it commits");
    assert_eq!(state(&store, 2).await, Some(State::Queued));
}

#[tokio::test]
async fn an_old_snapshot_changes_no_answer() {
    let fixture = Postgres::new();
    let (client, connection) =
        tokio_postgres::connect(fixture.database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let scope = Scope::default();
    let first = driver.add(&scope, "images").await;
    let old = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tenure.live";
    client.batch_execute(old).await.unwrap();
    for _ in 0..20 {
        driver.add(&scope, "images").await;
    }
    let leased = driver.lease(&scope, "images", 30).await;
    assert_eq!(leased.len(), 21);
    assert_eq!(leased[0].task.id, first.id);
    for ready in &leased {
        let key = TaskKey { scope: scope.clone(), id: ready.task.id };
        driver.about(&key, report(&caller(ready), succeeded())).await;
        assert_eq!(driver.load(&key).await.state(), Some(State::Succeeded));
    }
    // S2-52: a reader with the old snapshot sees the past; no worker is given a task because of it.
    assert_eq!(driver.lease(&scope, "images", 30).await, []);
    let row = client.query_one("SELECT count(*) FROM tenure.live", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}

fn want(max: usize) -> Want {
    Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max }
}

async fn lease(writer: &mut impl Writer, n: u128, max: usize) -> Vec<store::TaskWithSpec> {
    let mut batch = writer.begin().await.unwrap();
    let poll = Poll { want: want(max), worker: "ann".into(), name: None, first_lease: n << 32 };
    let said = carry(&mut batch, 1, Call::Poll(poll)).await.unwrap();
    batch.commit().await.unwrap();
    match said {
        CallResult::Granted(granted) => granted,
        said => panic!("{said:?}"),
    }
}

#[tokio::test]
async fn two_processes_never_lease_the_same_task() {
    // S2-52, W-1: two openings of one database share nothing but its contents.
    let database = Database::create();
    let clock = Arc::new(ManualClock::default());
    let mut stores = Vec::new();
    for _ in 0..2 {
        let options = Options { clock: Some(clock.clone()), ..options(None) };
        stores.push(PostgresStore::open(database.url(), options).await.unwrap());
    }
    for id in 1..=40 {
        submit(&stores[usize::from(id > 20)], id).await.unwrap();
    }
    let (mut one, mut two) = (stores[0].writer().await.unwrap(), stores[1].writer().await.unwrap());
    let mut leased = Vec::new();
    let mut n = 0;
    // Each knows its own tasks at once and finds the other's by polling, so neither waits for the other.
    while leased.len() < 40 {
        n += 1;
        assert!(n < 10_000, "only {} were found", leased.len());
        leased.extend(lease(&mut one, 2 * n, 3).await);
        leased.extend(lease(&mut two, 2 * n + 1, 3).await);
    }
    let mut ids: Vec<u128> = leased.iter().map(|ready| ready.task.id.as_u128()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=40).collect::<Vec<u128>>());
    // Reports go through either coordinator, whichever granted.
    for ready in &leased {
        let key = TaskKey { scope: Scope::default(), id: ready.task.id };
        let mut batch = two.begin().await.unwrap();
        let request = report(&caller(ready), succeeded());
        carry(&mut batch, 1, Call::About { key, request }).await.unwrap();
        batch.commit().await.unwrap();
    }
    let verified = store::verify::verify(stores[0].browse()).await.unwrap();
    assert_eq!((verified.tasks, verified.findings), (40, Vec::new()));
}

#[tokio::test]
async fn a_killed_process_leaves_its_tasks_to_others() {
    let mut fixture = Postgres::new();
    let clock = Arc::new(ManualClock::default());
    let killed = fixture.open(clock.clone()).await;
    submit(&killed, 1).await.unwrap();
    let mut writer = killed.writer().await.unwrap();
    let mut batch = writer.begin().await.unwrap();
    let now = batch.moment().await.unwrap().now;
    assert_eq!(batch.ready(&[want(1)], now).await.unwrap()[0].len(), 1);
    // The connection ends without notice, with the task locked and partly granted.
    fixture.database.end_all_connections().await;
    let options = Options { clock: Some(clock), notify: Notify::On, ..Options::new("other") };
    let other = PostgresStore::open(fixture.database.url(), options).await.unwrap();
    let mut writer = other.writer().await.unwrap();
    assert_eq!(lease(&mut writer, 1, 1).await.len(), 1);
    drop(batch);
}
