//! Coordinators with different versions of the rules over one database, while they are replaced one by
//! one.

use coordinator::{Coordinator, Options, RequestError, StopReason};
use store::postgres::Notify;
use store::{Browse, Failure, FailureKind, PeerHint, PostgresStore, RowsAfter};
use storetest::{MixedRules, OLDER};
use verdict::request::{Cancel, CancelMode};
use verdict::{Policy, Rules, SupportedRules, TaskId};

use crate::harness::{accepted, key, patient, report_of, submission, succeeded};

const NEWEST: u32 = Rules::Planted.number();

async fn start(
    stage: &MixedRules,
    name: &str,
    rules: SupportedRules,
    notify: Notify,
) -> Result<Coordinator, Failure> {
    let store = open(stage, name, rules, notify).await;
    Coordinator::start(store, Options::default()).await
}

async fn open(
    stage: &MixedRules,
    name: &str,
    rules: SupportedRules,
    notify: Notify,
) -> PostgresStore {
    let options = stage.options(name, rules, notify);
    let store = PostgresStore::open(stage.database.url(), options).await;
    store.expect("the database opens")
}

/// Submits a task whose lease ends only with a report.
async fn submit(coordinator: &Coordinator) -> TaskId {
    let unhurried = coordinator::Submission { policy: Policy::default(), ..submission("k") };
    accepted(&coordinator.submit(vec![unhurried]).await[0]).0
}

async fn decided_by(coordinator: &Coordinator, task: TaskId) -> Vec<u32> {
    let history = coordinator
        .browse()
        .rows(&key(task), RowsAfter::Entry(0), 100)
        .await
        .expect("it can be read")
        .history;
    history.iter().map(|entry| entry.rules).collect()
}

async fn in_force(coordinator: &Coordinator, number: u32) {
    while coordinator.store().status().rules != number {
        coordinator.store().peer_hint(PeerHint::Changed).await;
    }
}

async fn findings(coordinator: &Coordinator) -> Vec<store::verify::Finding> {
    store::verify::verify(coordinator.browse()).await.expect("it can be read").findings
}

#[tokio::test]
async fn a_rolling_upgrade_activates_the_newer_rules_when_the_last_older_one_is_gone() {
    // S2-52: the same answer from every coordinator, by the same rules.
    let stage = MixedRules::new();
    let old = start(&stage, "old", OLDER, Notify::On).await.expect("it starts");
    let one = start(&stage, "one", SupportedRules::NEXT, Notify::On).await.expect("it starts");
    let two = start(&stage, "two", SupportedRules::NEXT, Notify::On).await.expect("it starts");
    let task = submit(&one).await;
    let granted = old.lease(patient("w")).await.expect("the store works").remove(0);
    assert_eq!(decided_by(&two, task).await, [1, 1]);
    assert_eq!(old.stop().await, StopReason::Drained);
    drop(old);
    // There is no notification: each coordinator finds out and goes on with the work it had.
    in_force(&one, NEWEST).await;
    in_force(&two, NEWEST).await;
    let report = report_of(&granted, succeeded("1"));
    two.report(granted.key(), report).await.expect("the store works");
    assert_eq!(decided_by(&one, task).await, [1, 1, NEWEST]);
    let late = start(&stage, "old", OLDER, Notify::On).await.map(drop);
    assert_eq!(late.expect_err("it is refused").kind, FailureKind::UnknownRules);
    assert_eq!(findings(&one).await, []);
}

#[tokio::test]
async fn one_that_was_counted_as_gone_stops_instead_of_deciding_by_rules_that_are_over() {
    let stage = MixedRules::new();
    let old = start(&stage, "old", OLDER, Notify::Off).await.expect("it starts");
    let store = open(&stage, "new", SupportedRules::NEXT, Notify::Off).await;
    let new = Coordinator::start(store.clone(), Options::default()).await.expect("it starts");
    let task = submit(&old).await;
    // As if it had been stopped for longer than the others wait for a peer.
    let (client, connection) =
        tokio_postgres::connect(stage.database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let silence = "DELETE FROM tenure.batches b USING tenure.committers c \
        WHERE b.committer = c.committer AND c.name = 'old'; \
        UPDATE tenure.committers SET seen_at = seen_at - 60000 WHERE name = 'old'";
    client.batch_execute(silence).await.expect("it does as it is told");
    assert_eq!(store.agree_on_rules().await.expect("the database answers"), NEWEST);
    let cancel = Cancel { reason: None, mode: CancelMode::Graceful };
    let answer = old.cancel(key(task), cancel.clone()).await;
    // Nothing was written, so the call may be repeated at once, elsewhere.
    assert_eq!(answer.expect_err("nothing is decided"), RequestError::ShuttingDown);
    let StopReason::Outdated(why) = old.stopped().await else {
        panic!("{:?}", old.stopped().await)
    };
    let told = format!("version {NEWEST} of the rules is in force and this Tenure knows 1");
    assert!(why.contains(&told), "{why}");
    assert_eq!(decided_by(&new, task).await, [1], "it has decided nothing since");
    new.cancel(key(task), cancel).await.expect("the store works");
    assert_eq!(decided_by(&new, task).await, [1, NEWEST]);
    assert_eq!(findings(&new).await, []);
}
