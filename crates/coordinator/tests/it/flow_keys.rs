//! Flow keys through whole coordinators: two of them over one database, and one with many keys.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use coordinator::{Coordinator, Options, Poll, Submission};
use store::postgres::{self, Notify};
use store::verify::verify;
use store::{Browse, DynBrowse, FlowFilter, PostgresStore, SqliteStore};
use storetest::{Database, ManualClock};
use verdict::flow::debounce::DebounceCall;
use verdict::flow::{Debounce, Rate, Terms, UNLIMITED};
use verdict::{FlowKey, Policy, Scope, Span, State, Subject, TaskId, Time};

use crate::harness::{accepted, key, patient, poll, report_of, submission, succeeded};

fn limited(key: &str, limit: u32) -> Submission {
    let flow = Some(Box::new(FlowKey::new(key, limit)));
    // No lease of these tests expires, however slow the machine is.
    Submission { flow, policy: Policy::default(), ..submission("k") }
}

async fn check(browse: &DynBrowse) {
    let (scope, limit) = (Scope::default(), 2_000);
    let filter = FlowFilter { scope, key: None, after: None, limit, holders: 0 };
    for row in browse.flow_keys(&filter).await.expect("it can be read") {
        assert!(row.held <= u64::from(row.limit), "{row:?}");
    }
}

async fn start(database: &Database) -> Coordinator {
    let options = postgres::Options { notify: Notify::On, ..postgres::Options::new("test") };
    let store = PostgresStore::open(database.url(), options).await.expect("the database opens");
    Coordinator::start(store, Options::default()).await.expect("it starts")
}

/// Leases and reports until all tasks have ended.
async fn work(coordinator: Coordinator, name: String, done: Arc<AtomicUsize>, all: usize) {
    while done.load(Ordering::SeqCst) < all {
        let granted = coordinator.lease(poll(&name)).await.expect("the store works");
        for granted in granted {
            check(coordinator.browse()).await;
            let report = report_of(&granted, succeeded("1"));
            coordinator.report(granted.key(), report).await.expect("the store works");
            done.fetch_add(1, Ordering::SeqCst);
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_coordinators_share_the_slots_of_a_key() {
    // Over all coordinators, in every snapshot; and every task ends.
    const ALL: usize = 60;
    let database = Database::create();
    let (one, two) = (start(&database).await, start(&database).await);
    for n in 0..ALL {
        let at = if n % 2 == 0 { &one } else { &two };
        accepted(&at.submit(vec![limited(["a", "b", "c"][n % 3], 2)]).await[0]);
    }
    let done = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for n in 0..6 {
        let at = if n % 2 == 0 { one.clone() } else { two.clone() };
        workers.spawn(work(at, format!("w{n}"), done.clone(), ALL));
    }
    while let Some(worker) = workers.join_next().await {
        worker.expect("no worker saw a key that was too full");
    }
    assert_eq!(verify(one.browse()).await.expect("it can be read").findings, []);
}

#[tokio::test]
async fn many_keys_are_filled_and_no_other_task_waits_for_them() {
    const KEYS: usize = 1_000;
    let folder = tempfile::tempdir().expect("there is room");
    let options = storetest::unsynced(Arc::new(ManualClock::default()));
    let store = SqliteStore::open(folder.path().join("tenure.db"), options).expect("it opens");
    let coordinator = Coordinator::start(store, Options::default()).await.expect("it starts");
    for n in 0..KEYS {
        let tasks = (0..4).map(|_| limited(&format!("key-{n}"), 2)).collect();
        for answer in coordinator.submit(tasks).await {
            accepted(&answer);
        }
    }
    let plain = Submission { priority: -5, ..submission("k") };
    let (plain, _) = accepted(&coordinator.submit(vec![plain]).await[0]);
    let mut granted = Vec::new();
    while granted.len() < 2 * KEYS + 1 {
        let more =
            coordinator.lease(Poll { max: 50, ..patient("w") }).await.expect("the store works");
        assert!(!more.is_empty(), "{} are leased, and more fit", granted.len());
        granted.extend(more);
    }
    assert_eq!(granted.last().map(|it| it.task.id), Some(plain), "the least urgent comes last");
    check(coordinator.browse()).await;
    assert_eq!(coordinator.lease(poll("w")).await.expect("the store works").len(), 0);
}

/// Leases and reports until all tasks have ended, and notes when each was granted.
async fn work_at_a_rate(
    coordinator: Coordinator,
    name: String,
    granted_at: Arc<Mutex<Vec<Time>>>,
    all: usize,
) {
    while granted_at.lock().expect("nobody panics").len() < all {
        // A poll that waits: what wakes it is the rate.
        let until = tokio::time::Instant::now() + std::time::Duration::from_secs(2);
        let poll = Poll { until, ..poll(&name) };
        for granted in coordinator.lease(poll).await.expect("the store works") {
            let lease = granted.task.lease().expect("it is leased").acquired_at;
            granted_at.lock().expect("nobody panics").push(lease);
            let report = report_of(&granted, succeeded("1"));
            coordinator.report(granted.key(), report).await.expect("the store works");
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_coordinators_share_the_rate_of_a_key() {
    // Over all coordinators, in every window; and every task starts, woken by nothing but the rate.
    const ALL: usize = 24;
    let rate = Rate { count: 3, per: Span::from_millis(250) };
    let flow = FlowKey::new("acme", Terms { limit: UNLIMITED, rate: Some(rate) });
    let database = Database::create();
    let (one, two) = (start(&database).await, start(&database).await);
    for n in 0..ALL {
        let task = Submission { flow: Some(Box::new(flow.clone())), ..limited("other", 1) };
        let at = if n % 2 == 0 { &one } else { &two };
        accepted(&at.submit(vec![task]).await[0]);
    }
    let granted_at = Arc::new(Mutex::new(Vec::new()));
    let mut workers = tokio::task::JoinSet::new();
    for n in 0..4 {
        let at = if n % 2 == 0 { one.clone() } else { two.clone() };
        workers.spawn(work_at_a_rate(at, format!("w{n}"), granted_at.clone(), ALL));
    }
    while let Some(worker) = workers.join_next().await {
        worker.expect("no worker failed");
    }
    let mut granted_at = granted_at.lock().expect("nobody panics").clone();
    granted_at.sort_unstable();
    assert_eq!(granted_at.len(), ALL);
    for window in granted_at.windows(rate.count as usize + 1) {
        let (first, last) = (window[0], window[rate.count as usize]);
        assert!(last.since(first) >= rate.per, "{window:?}");
    }
    assert_eq!(verify(one.browse()).await.expect("it can be read").findings, []);
}

/// A submission that waits for a newer one with its key.
fn waiting(key: &str, span_ms: u64) -> Submission {
    let debounce = Debounce::new(Span::from_millis(span_ms), None);
    Submission { debounce: Some(DebounceCall::new(debounce)), ..limited(key, UNLIMITED) }
}

/// How a run is: whom it was replaced by, if it was.
async fn replaced_by(browse: &DynBrowse, id: TaskId) -> Option<String> {
    let found = browse.find(&key(id)).await.expect("it can be read").expect("it is kept");
    match found.subject {
        Subject::Done(done) => {
            assert_eq!(done.end.state, State::Cancelled);
            assert_eq!(done.attempt, 0, "what started is not touched");
            Some(done.cancel.and_then(|it| it.reason).expect("it says why").to_string())
        }
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_coordinators_leave_one_run_of_a_key_waiting() {
    // Both take submissions with the same keys at the same moment: each run but the last of a key names the one that replaced it,
    // no two the same, and nobody waits beside another.
    const EACH: usize = 40;
    let database = Database::create();
    let (one, two) = (start(&database).await, start(&database).await);
    let submit = async |at: &Coordinator| {
        let mut runs = Vec::new();
        for n in 0..EACH {
            let key = ["a", "b"][n % 2];
            let tasks = vec![waiting(key, 3_600_000), waiting(key, 3_600_000)];
            runs.extend(at.submit(tasks).await.iter().map(|it| (key, accepted(it).0)));
        }
        runs
    };
    let (first, second) = tokio::join!(submit(&one), submit(&two));
    let all: Vec<(&str, TaskId)> = [first, second].concat();
    assert_eq!(all.len(), 4 * EACH);
    let mut waits: Vec<&str> = Vec::new();
    let mut named: BTreeSet<String> = BTreeSet::new();
    for (key, id) in &all {
        match replaced_by(one.browse(), *id).await {
            None => waits.push(key),
            Some(reason) => {
                let newer = all.iter().find(|(_, it)| reason.contains(&it.run_name()));
                assert_eq!(newer.map(|(it, _)| it), Some(key), "{reason}");
                assert!(named.insert(reason), "each replaced one");
            }
        }
    }
    waits.sort_unstable();
    assert_eq!(waits, ["a", "b"]);
    assert_eq!(verify(one.browse()).await.expect("it can be read").findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_replaced_or_started_and_never_both() {
    // Waits end while others submit: whoever started was replaced by nobody, whoever was replaced never started, and the last one
    // of all runs.
    const ALL: usize = 60;
    let database = Database::create();
    let (one, two) = (start(&database).await, start(&database).await);
    let (mut runs, mut started) = (Vec::new(), BTreeSet::new());
    for n in 0..ALL {
        let at = if n % 2 == 0 { &one } else { &two };
        let task = waiting("acme", 20);
        let ((granted, more), replies) = tokio::join!(
            async { tokio::join!(one.lease(poll("w1")), two.lease(poll("w2"))) },
            at.submit(vec![task])
        );
        runs.push(accepted(&replies[0]).0);
        let granted = [granted.expect("the store works"), more.expect("the store works")].concat();
        started.extend(granted.iter().map(|it| it.task.id));
    }
    let last = *runs.last().expect("there are runs");
    while !started.contains(&last) {
        let granted = one.lease(patient("w1")).await.expect("the store works");
        started.extend(granted.iter().map(|it| it.task.id));
    }
    for id in runs {
        let is_replaced = replaced_by(one.browse(), id).await.is_some();
        assert_ne!(is_replaced, started.contains(&id), "{id}");
    }
    assert_eq!(verify(one.browse()).await.expect("it can be read").findings, []);
}
