//! Slots that runs hold for life, through whole coordinators: two of them that race for the last slot, and crowds that sleep with
//! theirs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use coordinator::{Coordinator, Granted, Options, Poll, Submission};
use store::postgres::{self, Notify};
use store::verify::verify;
use store::{Browse, FlowFilter, FlowKeyRow, PostgresStore, SqliteStore};
use storetest::{Database, ManualClock};
use verdict::flow::Hold;
use verdict::request::{Cancel, CancelMode, Outcome};
use verdict::{Category, Fault, FlowKey, Policy, Scope, Span, TaskId};

use crate::harness::{accepted, key, patient, poll, report_of, submission, succeeded};

/// Longer than any test: what is retried later than this sleeps.
const LONG: Span = Span::from_secs(86_400);

fn held(limit: u32, retry: Span) -> Submission {
    let flow = FlowKey { hold: Hold::Life, ..FlowKey::new("track", limit) };
    let policy = Policy { retry_base: retry, retry_cap: retry, ..Policy::default() };
    Submission { flow: Some(Box::new(flow)), policy, ..submission("k") }
}

fn failed() -> Outcome {
    Outcome::Failed(Fault {
        category: Category::UserCode,
        message: "it broke".into(),
        stack_trace: None,
        retryable: Some(true),
    })
}

async fn on_database(database: &Database) -> Coordinator {
    let options = postgres::Options { notify: Notify::On, ..postgres::Options::new("test") };
    let store = PostgresStore::open(database.url(), options).await.expect("the database opens");
    Coordinator::start(store, Options::default()).await.expect("it starts")
}

async fn row(coordinator: &Coordinator) -> FlowKeyRow {
    let scope = Scope::default();
    let filter = FlowFilter { scope, key: Some("track".into()), after: None, limit: 1, holders: 3 };
    let mut rows = coordinator.browse().flow_keys(&filter).await.expect("it can be read");
    rows.pop().expect("its tasks live")
}

async fn report(coordinator: &Coordinator, granted: &Granted, outcome: Outcome) {
    let report = report_of(granted, outcome);
    coordinator.report(granted.key(), report).await.expect("the store works");
}

/// The runs that were leased and have not ended.
type Open = Arc<Mutex<BTreeSet<TaskId>>>;

const LIMIT: usize = 2;

/// Leases, fails each run once, and ends it when it comes back; until all runs have ended.
async fn work(at: Coordinator, name: String, open: Open, done: Arc<AtomicUsize>, all: usize) {
    while done.load(Ordering::SeqCst) < all {
        for granted in at.lease(poll(&name)).await.expect("the store works") {
            {
                let mut open = open.lock().expect("nobody panics");
                let is_new = open.insert(granted.task.id);
                assert_eq!(is_new, granted.task.attempt == 1, "who began goes on");
                assert!(open.len() <= LIMIT, "{open:?}");
            }
            if granted.task.attempt == 1 {
                report(&at, &granted, failed()).await;
                continue;
            }
            // Before the report, which lets the next one begin.
            open.lock().expect("nobody panics").remove(&granted.task.id);
            report(&at, &granted, succeeded("1")).await;
            done.fetch_add(1, Ordering::SeqCst);
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_coordinators_share_slots_that_are_held_for_life() {
    // Each run sleeps with its slot between its two attempts; the last free one is raced for by both.
    const ALL: usize = 40;
    let database = Database::create();
    let (one, two) = (on_database(&database).await, on_database(&database).await);
    for n in 0..ALL {
        let at = if n % 2 == 0 { &one } else { &two };
        accepted(&at.submit(vec![held(LIMIT as u32, Span::from_millis(5))]).await[0]);
    }
    let (open, done) = (Open::default(), Arc::new(AtomicUsize::new(0)));
    let mut workers = tokio::task::JoinSet::new();
    for n in 0..4 {
        let at = if n % 2 == 0 { one.clone() } else { two.clone() };
        workers.spawn(work(at, format!("w{n}"), open.clone(), done.clone(), ALL));
    }
    while let Some(worker) = workers.join_next().await {
        worker.expect("no worker saw more runs under way than slots");
    }
    assert_eq!(verify(one.browse()).await.expect("it can be read").findings, []);
}

/// Lets so many runs sleep with their slots, which are all that the key has.
async fn sleep_with_slots(coordinator: &Coordinator, sleepers: usize) -> Vec<TaskId> {
    const AT_ONCE: usize = 100;
    for from in (0..sleepers).step_by(AT_ONCE) {
        let some = (from..sleepers.min(from + AT_ONCE)).map(|_| held(sleepers as u32, LONG));
        for answer in coordinator.submit(some.collect()).await {
            accepted(&answer);
        }
    }
    let mut asleep = Vec::new();
    while asleep.len() < sleepers {
        let poll = Poll { max: AT_ONCE, ..patient("w") };
        let granted = coordinator.lease(poll).await.expect("the store works");
        assert!(!granted.is_empty(), "{} sleep, and more fit", asleep.len());
        for granted in granted {
            report(coordinator, &granted, failed()).await;
            asleep.push(granted.task.id);
        }
    }
    asleep
}

/// Others pass a full key whose holders all sleep; the end of one of them lets the next one in, at whichever coordinator waits.
async fn others_pass_sleepers(one: &Coordinator, two: &Coordinator, sleepers: usize) {
    const OTHERS: usize = 50;
    let asleep = sleep_with_slots(one, sleepers).await;
    let waits = |_| Submission { priority: 9, ..held(sleepers as u32, LONG) };
    let waiting: Vec<TaskId> = one
        .submit((0..OTHERS).map(waits).collect())
        .await
        .iter()
        .map(|it| accepted(it).0)
        .collect();
    let plain = |_| Submission { policy: Policy::default(), ..submission("k") };
    one.submit((0..OTHERS).map(plain).collect()).await.iter().for_each(|it| {
        accepted(it);
    });
    let mut passed = 0;
    while passed < OTHERS {
        let poll = Poll { max: 9, ..patient("w") };
        for granted in two.lease(poll).await.expect("the store works") {
            assert!(granted.task.flow().is_none(), "nothing of the full key");
            report(two, &granted, succeeded("1")).await;
            passed += 1;
        }
    }
    let full = row(one).await;
    assert_eq!((full.held, full.parked()), (sleepers as u64, OTHERS as u64));
    for (asleep, next) in asleep.iter().zip(&waiting).take(10) {
        let cancel = Cancel { reason: None, mode: CancelMode::Graceful };
        let (granted, cancelled) =
            tokio::join!(two.lease(patient("w")), one.cancel(key(*asleep), cancel));
        cancelled.expect("the store works");
        let granted = granted.expect("the store works");
        assert_eq!(granted.iter().map(|it| it.task.id).collect::<Vec<_>>(), [*next]);
    }
    assert_eq!(row(one).await.held, sleepers as u64);
    assert_eq!(verify(one.browse()).await.expect("it can be read").findings, []);
}

#[tokio::test]
async fn ten_thousand_runs_that_sleep_with_their_slots_hold_nobody_else_up() {
    let folder = tempfile::tempdir().expect("there is room");
    let options = storetest::unsynced(Arc::new(ManualClock::default()));
    let store = SqliteStore::open(folder.path().join("tenure.db"), options).expect("it opens");
    let coordinator = Coordinator::start(store, Options::default()).await.expect("it starts");
    others_pass_sleepers(&coordinator, &coordinator, 10_000).await;
}

#[tokio::test]
async fn runs_that_sleep_with_their_slots_hold_nobody_else_up_in_a_database() {
    let database = Database::create();
    let (one, two) = (on_database(&database).await, on_database(&database).await);
    others_pass_sleepers(&one, &two, 500).await;
}
