//! Coordinators that support different versions of the rules decide by one that all of them support.

use store::moving::MoveFailure;
use store::postgres::copy_source::PostgresCopySource;
use store::postgres::{Notify, PEER_TIMEOUT, PostgresStore, PostgresWriter};
use store::{
    Batch, Browse, CommitFailure, Failure, FailureKind, RowsAfter, ScanDepth, Store, TaskKey, Want,
    Writer,
};
use storetest::conformance::carry::carry;
use storetest::conformance::{Call, Poll, Submission};
use tokio_postgres::{Client, NoTls};
use verdict::{Request, Rules, Scope, Span, SupportedRules, TaskId};

use storetest::Database;
use storetest::{MixedRules, OLDER};

const NEWEST: u32 = Rules::Planted.number();

/// Opens the store as one coordinator, with this name; it writes nothing between commits.
async fn open(stage: &MixedRules, name: &str, rules: SupportedRules) -> PostgresStore {
    let options = stage.options(name, rules, Notify::Off);
    PostgresStore::open(stage.database.url(), options).await.expect("the database opens")
}

async fn look(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn task(id: u128) -> TaskKey {
    TaskKey { scope: Scope::default(), id: TaskId::from_u128(id) }
}

fn submission(id: u128) -> Call {
    Call::Submit(Submission::new(TaskId::from_u128(id), &Scope::default(), "images"))
}

async fn submit(writer: &mut PostgresWriter, id: u128) {
    let mut batch = writer.begin().await.expect("a batch can be begun");
    carry(&mut batch, 1, submission(id)).await.expect("the store takes it");
    batch.commit().await.expect("it commits");
}

async fn lease(writer: &mut PostgresWriter, lease: u128) {
    let mut batch = writer.begin().await.expect("a batch can be begun");
    let want = Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max: 1 };
    let poll = Poll { want, worker: "ann".into(), name: None, first_lease: lease };
    carry(&mut batch, 1, Call::Poll(poll)).await.expect("the store takes it");
    batch.commit().await.expect("it commits");
}

/// The versions that decided about a task, in order.
async fn decided_by(store: &PostgresStore, id: u128) -> Vec<u32> {
    let history = store.browse().rows(&task(id), RowsAfter::Entry(0), 100).await.unwrap().history;
    history.iter().map(|entry| entry.rules).collect()
}

async fn gone(store: &PostgresStore, name: &str) {
    loop {
        let peers = store.peers().await.unwrap();
        let of_name = |it: &&store::postgres::Peer| it.name.as_str() == name;
        if peers.iter().filter(of_name).all(|peer| peer.stopped_at.is_some()) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn rolled_back(failure: CommitFailure) -> Failure {
    match failure {
        CommitFailure::RolledBack(failure) => failure,
        CommitFailure::Unknown(failure) => panic!("in doubt: {failure:?}"),
    }
}

#[tokio::test]
async fn all_decide_by_what_all_know_until_the_older_one_has_left() {
    let stage = MixedRules::new();
    let old = open(&stage, "old", OLDER).await;
    let mut older = old.writer().await.unwrap();
    let new = open(&stage, "new", SupportedRules::NEXT).await;
    let mut newer = new.writer().await.unwrap();
    submit(&mut older, 1).await;
    lease(&mut newer, 1 << 32).await;
    assert_eq!(decided_by(&new, 1).await, [1, 1]);
    // It waits, however often it is asked.
    assert_eq!(new.agree_on_rules().await.unwrap(), 1);
    drop(older);
    gone(&new, "old").await;
    assert_eq!(new.agree_on_rules().await.unwrap(), NEWEST);
    let begun = newer.begin().await.unwrap().moment().await.unwrap().rules;
    assert_eq!((new.status().rules, begun), (NEWEST, Rules::Planted));
    let mut batch = newer.begin().await.unwrap();
    let request = Request::Cancel(verdict::request::Cancel {
        reason: None,
        mode: verdict::request::CancelMode::Graceful,
    });
    carry(&mut batch, 1, Call::About { key: task(1), request }).await.unwrap();
    batch.commit().await.unwrap();
    assert_eq!(decided_by(&new, 1).await, [1, 1, NEWEST]);
    // S2-114: each entry is decided again by the version it names.
    assert_eq!(store::verify::verify(new.browse()).await.unwrap().findings, []);
}

#[tokio::test]
async fn one_that_was_killed_is_waited_for_until_it_is_missed() {
    let stage = MixedRules::new();
    let old = open(&stage, "old", OLDER).await;
    let mut older = old.writer().await.unwrap();
    let new = open(&stage, "new", SupportedRules::NEXT).await;
    let _newer = new.writer().await.unwrap();
    stage.clock.advance(Span::from_millis(PEER_TIMEOUT.millis() - 1));
    assert_eq!(new.agree_on_rules().await.unwrap(), 1, "it may only be slow");
    // Its commit renews its presence.
    submit(&mut older, 1).await;
    stage.clock.advance(Span::from_millis(PEER_TIMEOUT.millis() - 1));
    assert_eq!(new.agree_on_rules().await.unwrap(), 1, "it works");
    stage.clock.advance(Span::from_millis(1));
    assert_eq!(new.agree_on_rules().await.unwrap(), 1, "whoever activates is itself not heard of");
    let client = look(&stage.database).await;
    let present = "UPDATE tenure.committers SET seen_at = $1 WHERE name = 'new'";
    client.execute(present, &[&new.now().millis()]).await.unwrap();
    assert_eq!(new.agree_on_rules().await.unwrap(), NEWEST);
}

#[tokio::test]
async fn an_older_one_that_comes_late_is_refused() {
    let stage = MixedRules::new();
    let new = open(&stage, "new", SupportedRules::NEXT).await;
    let newer = new.writer().await.unwrap();
    assert_eq!(new.status().rules, NEWEST, "alone it begins with its newest");
    let old = open(&stage, "old", OLDER).await;
    let refused = old.writer().await.map(drop).unwrap_err();
    assert_eq!(refused.kind, FailureKind::UnknownRules);
    let said = refused.to_string();
    let told = format!("version {NEWEST} of the rules is in force and this Tenure knows 1; start");
    assert!(said.contains(&told), "{said}");
    // Also when no other coordinator is left: decisions made with the newer version stay.
    drop(newer);
    gone(&new, "new").await;
    let refused = old.writer().await.map(drop).unwrap_err();
    assert_eq!(refused.kind, FailureKind::UnknownRules);
    let names = new.peers().await.unwrap();
    assert!(names.iter().all(|peer| peer.name.as_str() == "new"), "it has not joined");
}

#[tokio::test]
async fn a_silent_one_that_comes_back_decides_nothing_by_rules_that_are_over() {
    let stage = MixedRules::new();
    let old = open(&stage, "old", OLDER).await;
    let mut older = old.writer().await.unwrap();
    let new = open(&stage, "new", SupportedRules::NEXT).await;
    let mut newer = new.writer().await.unwrap();
    let mut begun_by_old = older.begin().await.unwrap();
    carry(&mut begun_by_old, 1, submission(1)).await.unwrap();
    let mut begun_by_new = newer.begin().await.unwrap();
    carry(&mut begun_by_new, 1, submission(2)).await.unwrap();
    // As if it had been stopped for longer than its peers wait for it.
    look(&stage.database)
        .await
        .batch_execute("UPDATE tenure.committers SET seen_at = seen_at - 60000 WHERE name = 'old'")
        .await
        .unwrap();
    assert_eq!(new.agree_on_rules().await.unwrap(), NEWEST);
    for mut batch in [begun_by_old, begun_by_new] {
        assert_eq!(batch.moment().await.unwrap().rules, Rules::V1);
        let failure = rolled_back(batch.commit().await.unwrap_err());
        assert!(matches!(failure.kind, FailureKind::Conflict(_)), "{failure:?}");
    }
    // One decides again with the new version; the other cannot, and reports why.
    assert_eq!(newer.begin().await.unwrap().moment().await.unwrap().rules, Rules::Planted);
    let stopped = older.begin().await.map(drop).unwrap_err();
    assert_eq!(stopped.kind, FailureKind::UnknownRules);
    assert!(
        new.browse().scan(None, 10, ScanDepth::Task).await.unwrap().is_empty(),
        "nothing of it happened"
    );
}

#[tokio::test]
async fn on_no_task_an_older_version_decides_after_a_newer_one() {
    let stage = MixedRules::new();
    let old = open(&stage, "old", OLDER).await;
    let older = old.writer().await.unwrap();
    let (one, two) = (
        open(&stage, "one", SupportedRules::NEXT).await,
        open(&stage, "two", SupportedRules::NEXT).await,
    );
    let (mut first, mut second) = (one.writer().await.unwrap(), two.writer().await.unwrap());
    submit(&mut first, 1).await;
    let mut begun_before = first.begin().await.unwrap();
    begun_before.moment().await.unwrap();
    drop(older);
    gone(&two, "old").await;
    assert_eq!(two.agree_on_rules().await.unwrap(), NEWEST);
    lease(&mut second, 1 << 32).await;
    // It locks the task after a coordinator that decided with the newer version.
    let request = Request::Cancel(verdict::request::Cancel {
        reason: None,
        mode: verdict::request::CancelMode::Immediate,
    });
    carry(&mut begun_before, 1, Call::About { key: task(1), request }).await.unwrap();
    let failure = rolled_back(begun_before.commit().await.unwrap_err());
    assert!(matches!(failure.kind, FailureKind::Conflict(_)), "{failure:?}");
    assert_eq!(decided_by(&two, 1).await, [1, NEWEST]);
}

#[tokio::test]
async fn whoever_joins_sees_what_is_being_activated() {
    let stage = MixedRules::new();
    let old = open(&stage, "old", OLDER).await;
    let mut client = look(&stage.database).await;
    let activation = client.transaction().await.unwrap();
    activation.batch_execute("UPDATE tenure.meta SET rules = 2").await.unwrap();
    let joining = tokio::spawn({
        let old = old.clone();
        async move { old.writer().await.map(drop) }
    });
    let waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() \
        AND wait_event_type = 'Lock'";
    let others = look(&stage.database).await;
    while others.query(waits, &[]).await.unwrap().is_empty() {
        assert!(!joining.is_finished(), "it waits for the activation");
        tokio::task::yield_now().await;
    }
    activation.commit().await.unwrap();
    let mut refused = joining.await.unwrap().unwrap_err();
    if matches!(refused.kind, FailureKind::Conflict(_)) {
        // It waited longer than the row lock timeout; a later writer finds the activated version.
        refused = old.writer().await.map(drop).unwrap_err();
    }
    assert_eq!(refused.kind, FailureKind::UnknownRules);
}

#[tokio::test]
async fn the_rules_in_force_never_go_back() {
    // S2-108: not even for the owner of the table.
    let stage = MixedRules::new();
    let new = open(&stage, "new", SupportedRules::NEXT).await;
    let _newer = new.writer().await.unwrap();
    let client = look(&stage.database).await;
    let refused = client.batch_execute("UPDATE tenure.meta SET rules = 1").await.unwrap_err();
    assert!(refused.as_db_error().unwrap().message().contains("never go back"), "{refused:?}");
}

#[tokio::test]
async fn a_store_of_newer_rules_is_not_copied_to_where_older_ones_would_decide() {
    let stage = MixedRules::new();
    drop(open(&stage, "new", SupportedRules::NEXT).await);
    look(&stage.database).await.batch_execute("UPDATE tenure.meta SET rules = 99").await.unwrap();
    let refused = PostgresCopySource::begin(stage.database.url(), "here").await.map(drop);
    let Err(MoveFailure::Source(failure)) = refused else { panic!("{refused:?}") };
    assert_eq!(failure.kind, FailureKind::UnknownRules);
}
