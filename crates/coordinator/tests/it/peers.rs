//! Several coordinators over one database: every one of them gives the same answer.

use coordinator::{Coordinator, Options};
use store::postgres::{self, Notify};
use store::{Browse, PeerHint, PostgresStore, RemoteChange, Store};
use storetest::Database;
use verdict::request::{Cancel, CancelMode};
use verdict::{Answer, AttemptOutcome, Policy, State};

use crate::harness::{
    PATIENCE, accepted, key, keyed, patient, poll, report_of, submission, succeeded,
};

async fn start(database: &Database, notify: Notify) -> Coordinator {
    let options = postgres::Options { notify, ..postgres::Options::new("test") };
    let store = PostgresStore::open(database.url(), options).await.expect("the database opens");
    let options = Options::default();
    Coordinator::start(store, options).await.expect("it starts")
}

/// No lease of these tests expires, however slow the machine is.
fn unhurried(kind: &str) -> coordinator::Submission {
    coordinator::Submission { policy: Policy::default(), ..submission(kind) }
}

async fn ends(coordinator: &Coordinator, task: verdict::TaskId) -> State {
    let look = |_| async {
        let found = coordinator.browse().find(&key(task)).await?;
        let state = found.and_then(|found| found.subject.state());
        Ok(state.filter(|state| state.is_terminal()))
    };
    let state = coordinator
        .watch_until(task, coordinator::Awaited::End, PATIENCE, look)
        .await
        .expect("it can be read");
    state.expect("it ends in time")
}

async fn a_life_through_two(notify: Notify) {
    let database = Database::create();
    let (one, two) = (start(&database, notify).await, start(&database, notify).await);
    // S2-52, S3-60: polled at one, submitted at the other, reported at both.
    let waiting = tokio::spawn({
        let two = two.clone();
        async move { two.lease(patient("w")).await }
    });
    let (task, _) = accepted(&one.submit(vec![unhurried("k")]).await[0]);
    let granted = waiting.await.expect("the store works").expect("the store works").remove(0);
    assert_eq!(granted.task.id, task);
    let report = report_of(&granted, succeeded("1"));
    let outcome = AttemptOutcome::Succeeded;
    let answer = one.report(granted.key(), report.clone()).await.expect("the store works").answer;
    assert_eq!(answer, Answer::Committed { outcome, state: State::Succeeded, replayed: false });
    let answer = two.report(granted.key(), report).await.expect("the store works").answer;
    assert_eq!(answer, Answer::Committed { outcome, state: State::Succeeded, replayed: true });
    assert_eq!(ends(&two, task).await, State::Succeeded);
}

#[tokio::test]
async fn a_task_lives_through_any_of_them() {
    a_life_through_two(Notify::On).await;
}

#[tokio::test]
async fn without_hints_they_find_out_by_looking() {
    a_life_through_two(Notify::Off).await;
}

/// Tasks that are submitted to the first coordinator while the second one starts and after.
const WAKE_UPS: usize = 12;

#[tokio::test]
async fn a_newcomer_misses_no_work() {
    // S2-52: a coordinator that is alone sends no hints, and learns of a newcomer only when it hears it.
    let database = Database::create();
    let one = start(&database, Notify::On).await;
    let (waiting, _) = accepted(&one.submit(vec![unhurried("k")]).await[0]);
    let two = start(&database, Notify::On).await;
    let granted = two.lease(patient("w")).await.expect("the store works").remove(0);
    assert_eq!(granted.task.id, waiting, "what waited before it started");
    for _ in 0..WAKE_UPS {
        let polling = tokio::spawn({
            let two = two.clone();
            async move { two.lease(patient("w")).await }
        });
        let (task, _) = accepted(&one.submit(vec![unhurried("k")]).await[0]);
        let granted = polling.await.expect("it ends").expect("the store works");
        let granted: Vec<_> = granted.iter().map(|granted| granted.task.id).collect();
        assert_eq!(granted, [task], "its poll waits no longer than until its next look");
    }
}

#[tokio::test]
async fn a_coordinator_is_one_however_many_of_its_writers_commit() {
    // S2-52: coordinators use these rows to share rates and to agree on rules.
    let database = Database::create();
    let open = async |name: &str| {
        let store = PostgresStore::open(database.url(), postgres::Options::new(name)).await;
        store.expect("the database opens")
    };
    let alone = open("one").await;
    assert_eq!(alone.status().committers, 2, "one for new work, one for calls under a lease");
    let options = Options::default();
    let one = Coordinator::start(alone.clone(), options).await.expect("it starts");
    let (task, _) = accepted(&one.submit(vec![unhurried("k")]).await[0]);
    let granted = one.lease(patient("w")).await.expect("the store works").remove(0);
    assert_eq!(granted.task.id, task);
    let report = one.report(granted.key(), report_of(&granted, succeeded("1"))).await;
    assert!(matches!(report.expect("the store works").answer, Answer::Committed { .. }));
    assert_eq!(alone.peers().await.expect("they are listed").len(), 1);
    // A second coordinator finds the database busy, and needs no second writer.
    assert_eq!(open("two").await.status().committers, 1);
}

#[tokio::test]
async fn who_waits_elsewhere_is_told_which_tasks_have_ended() {
    // S2-52: as a hint, so that a waiter need not wait for its next poll of the store. It may arrive too early to
    // be received.
    let database = Database::create();
    let one = start(&database, Notify::On).await;
    let listener = PostgresStore::open(database.url(), postgres::Options::new("listener")).await;
    let listener = listener.expect("the database opens");
    let mut ended = Vec::new();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let heard = loop {
        assert!(tokio::time::Instant::now() < deadline, "no hint was heard of {ended:?}");
        let (task, _) = accepted(&one.submit(vec![unhurried("k")]).await[0]);
        one.cancel(key(task), Cancel { reason: None, mode: CancelMode::Graceful }).await.unwrap();
        ended.push(task);
        let timeout = tokio::time::sleep(std::time::Duration::from_millis(100));
        tokio::select! {
            heard = listener.peer_hint(PeerHint::Tasks) => break heard,
            () = timeout => {}
        }
    };
    let is_one =
        |change: &RemoteChange| matches!(change, RemoteChange::Ended(task) if ended.contains(task));
    assert!(heard.iter().all(is_one), "{heard:?} of {ended:?}");
}

#[tokio::test]
async fn a_key_and_a_cancel_hold_everywhere() {
    // S2-115, R-32: the same key at either coordinator; S4-57: cancelled through the other one.
    let database = Database::create();
    let (one, two) = (start(&database, Notify::On).await, start(&database, Notify::On).await);
    let (task, replayed) = accepted(&one.submit(vec![keyed("k", "order 1")]).await[0]);
    assert!(!replayed);
    assert_eq!(accepted(&two.submit(vec![keyed("k", "order 1")]).await[0]), (task, true));
    let cancel = Cancel { reason: None, mode: CancelMode::Graceful };
    two.cancel(key(task), cancel).await.expect("it is answered");
    assert_eq!(ends(&one, task).await, State::Cancelled);
    assert!(one.lease(poll("w")).await.unwrap().is_empty());
}

#[tokio::test]
async fn many_at_once_get_one_verdict_each() {
    // Proves: S2-52: two pools over one database grant no task twice, and lose none. W-1, S3-12: of equal reports exactly
    // one is the first.
    const TASKS: usize = 30;
    let database = Database::create();
    let both = [start(&database, Notify::On).await, start(&database, Notify::On).await];
    for n in 0..TASKS {
        let replies = both[n % 2].submit(vec![unhurried("k")]).await;
        accepted(&replies[0]);
    }
    let leasing = both.clone().map(|coordinator| {
        tokio::spawn(async move {
            let mut granted = Vec::new();
            while let Some(one) = coordinator.lease(poll("w")).await.unwrap().pop() {
                granted.push(one);
            }
            granted
        })
    });
    let mut granted = Vec::new();
    for leased in leasing {
        granted.extend(leased.await.unwrap());
    }
    // A worker that polled before the other's last ones were ready polls again.
    while granted.len() < TASKS {
        granted.extend(both[0].lease(patient("w")).await.unwrap());
    }
    let mut ids: Vec<_> = granted.iter().map(|granted| granted.task.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), TASKS);
    let reporting: Vec<_> = both
        .iter()
        .flat_map(|coordinator| granted.iter().map(move |it| (coordinator.clone(), it.clone())))
        .map(|(coordinator, granted)| {
            let report = report_of(&granted, succeeded("1"));
            tokio::spawn(async move { coordinator.report(granted.key(), report).await })
        })
        .collect();
    let mut first = 0;
    for reported in reporting {
        match reported.await.unwrap().expect("it is answered").answer {
            Answer::Committed { state: State::Succeeded, replayed, .. } => {
                first += usize::from(!replayed);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(first, TASKS);
    let verified = store::verify::verify(both[0].store().browse()).await.unwrap();
    assert_eq!((verified.tasks as usize, verified.findings), (TASKS, Vec::new()));
}

#[tokio::test]
async fn what_one_granted_is_reported_to_another_when_it_is_gone() {
    let database = Database::create();
    let (one, two) = (start(&database, Notify::On).await, start(&database, Notify::On).await);
    accepted(&one.submit(vec![unhurried("k")]).await[0]);
    let granted = one.lease(patient("w")).await.unwrap().remove(0);
    database.end_all_connections().await;
    drop(one);
    // S2-104: the other one's connections are gone too; it reconnects and decides.
    let report = report_of(&granted, succeeded("1"));
    let answered = loop {
        match two.report(granted.key(), report.clone()).await {
            Ok(answered) => break answered.answer,
            Err(coordinator::RequestError::Unavailable(_)) => tokio::task::yield_now().await,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert!(matches!(answered, Answer::Committed { state: State::Succeeded, .. }), "{answered:?}");
}

#[tokio::test]
async fn a_poll_at_one_hears_of_a_cancel_at_the_other() {
    // S4-49: as a hint, so that the worker need not wait for its next heartbeat. It may arrive too early to be received.
    let database = Database::create();
    let (one, two) = (start(&database, Notify::On).await, start(&database, Notify::On).await);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut cancelled = Vec::new();
    let told = loop {
        assert!(tokio::time::Instant::now() < deadline, "no signal came of {cancelled:?}");
        let (task, _) = accepted(&one.submit(vec![unhurried("k")]).await[0]);
        one.lease(patient("w")).await.expect("the store works");
        two.cancel(key(task), Cancel { reason: None, mode: CancelMode::Graceful }).await.unwrap();
        cancelled.push(task);
        let until = tokio::time::Instant::now() + std::time::Duration::from_millis(200);
        let waiting = coordinator::Poll { max: 0, until, ..poll("w") };
        let (_, signals) = one.lease_or_signal(waiting).await.expect("the store works");
        if !signals.is_empty() {
            break signals;
        }
    };
    assert!(told.iter().all(|task| cancelled.contains(task)), "{told:?} of {cancelled:?}");
}
