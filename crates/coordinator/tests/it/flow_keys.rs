//! Flow keys through whole coordinators: two of them over one database, and one with many keys.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use coordinator::{Coordinator, Options, Poll, Submission};
use store::postgres::{self, Notify};
use store::verify::verify;
use store::{Browse, DynBrowse, FlowFilter, PostgresStore, SqliteStore};
use storetest::{Database, ManualClock};
use verdict::flow::{Rate, Terms, UNLIMITED};
use verdict::{FlowKey, Policy, Scope, Span, Time};

use crate::harness::{accepted, patient, poll, report_of, submission, succeeded};

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
