//! Flow keys at the sizes that users have, and under what goes wrong: a crowd behind one full key, many keys, tenants with
//! the same key, a coordinator that is gone.

use std::sync::Arc;

use coordinator::{Coordinator, Granted, Options, Poll, Submission};
use store::postgres::{self, Notify};
use store::verify::verify;
use store::{Browse, FlowFilter, FlowKeyRow, PostgresStore, SqliteStore, TaskKey};
use storetest::{Database, ManualClock};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use verdict::request::{Cancel, CancelMode, Outcome};
use verdict::{Category, Fault, FlowKey, Policy, Scope, Span};

use crate::harness::{PATIENCE, accepted, patient, poll, report_of, submission, succeeded};

fn limited(key: &str, limit: u32) -> Submission {
    let flow = Some(Box::new(FlowKey::new(key, limit)));
    // No lease of these tests expires, however slow the machine is.
    Submission { flow, policy: Policy::default(), ..submission("k") }
}

async fn on_file() -> (TempDir, Coordinator) {
    let folder = tempfile::tempdir().expect("there is room");
    let coordinator = open(&folder).await;
    (folder, coordinator)
}

async fn open(folder: &TempDir) -> Coordinator {
    let options = storetest::unsynced(Arc::new(ManualClock::default()));
    let store = SqliteStore::open(folder.path().join("tenure.db"), options).expect("it opens");
    Coordinator::start(store, Options::default()).await.expect("it starts")
}

async fn on_database(database: &Database) -> Coordinator {
    let options = postgres::Options { notify: Notify::On, ..postgres::Options::new("test") };
    let store = PostgresStore::open(database.url(), options).await.expect("the database opens");
    Coordinator::start(store, Options::default()).await.expect("it starts")
}

async fn submit(coordinator: &Coordinator, count: usize, one: impl Fn(usize) -> Submission) {
    const AT_ONCE: usize = 500;
    for from in (0..count).step_by(AT_ONCE) {
        let some = (from..count.min(from + AT_ONCE)).map(&one).collect();
        for answer in coordinator.submit(some).await {
            accepted(&answer);
        }
    }
}

/// Waits until something is granted.
async fn lease(coordinator: &Coordinator, max: usize) -> Vec<Granted> {
    let granted = coordinator.lease(Poll { max, ..patient("w") }).await.expect("the store works");
    assert!(!granted.is_empty(), "something is ready, and nothing was granted");
    granted
}

async fn succeed(coordinator: &Coordinator, granted: &Granted) {
    let report = report_of(granted, succeeded("1"));
    coordinator.report(granted.key(), report).await.expect("the store works");
}

async fn key(coordinator: &Coordinator, name: &str) -> Option<FlowKeyRow> {
    let scope = Scope::default();
    let filter = FlowFilter { scope, key: Some(name.into()), after: None, limit: 1, holders: 3 };
    coordinator.browse().flow_keys(&filter).await.expect("it can be read").pop()
}

/// A crowd waits behind one full key, at the head of its queue, and others pass it.
async fn others_pass_a_crowd(coordinator: &Coordinator, crowd: usize) {
    const OTHERS: usize = 100;
    let urgent = |_| Submission { priority: 9, ..limited("full", 1) };
    submit(coordinator, crowd, urgent).await;
    let holder = lease(coordinator, 1).await.remove(0);
    submit(coordinator, OTHERS, |n| match n % 2 {
        0 => Submission { policy: Policy::default(), ..submission("k") },
        _ => limited(&format!("other-{}", n % 7), 8),
    })
    .await;
    let mut passed = 0;
    while passed < OTHERS {
        for granted in lease(coordinator, 10).await {
            assert_eq!(granted.task.priority, 0, "nothing of the full key");
            succeed(coordinator, &granted).await;
            passed += 1;
        }
    }
    let full = key(coordinator, "full").await.expect("its tasks live");
    assert_eq!((full.held, full.parked()), (1, crowd as u64 - 1));
    // The crowd moves up one by one, the oldest first.
    let mut last = holder;
    for _ in 0..20 {
        succeed(coordinator, &last).await;
        let mut next = lease(coordinator, 10).await;
        assert_eq!(next.len(), 1, "one slot, one task");
        assert!(next[0].task.id > last.task.id, "by age");
        last = next.remove(0);
    }
}

#[tokio::test]
async fn twenty_thousand_tasks_behind_one_full_key_hold_nobody_up() {
    let (_folder, coordinator) = on_file().await;
    others_pass_a_crowd(&coordinator, 20_000).await;
}

#[tokio::test]
async fn thousands_of_tasks_behind_one_full_key_hold_nobody_up_in_a_database() {
    let database = Database::create();
    let coordinator = on_database(&database).await;
    others_pass_a_crowd(&coordinator, 3_000).await;
    assert_eq!(verify(coordinator.browse()).await.expect("it can be read").findings, []);
}

/// Every key is filled to its limit, emptied, and filled again.
async fn fill_and_empty(coordinator: &Coordinator, keys: usize) {
    submit(coordinator, 3 * keys, |n| limited(&format!("key-{:05}", n % keys), 1)).await;
    let mut left = 3 * keys;
    while left > 0 {
        let mut held = Vec::new();
        while held.len() < keys {
            held.extend(lease(coordinator, 100).await);
        }
        let names: std::collections::BTreeSet<_> =
            held.iter().filter_map(|it| it.task.flow()).map(|flow| flow.name.clone()).collect();
        assert_eq!(names.len(), keys, "one of each key");
        for granted in &held {
            succeed(coordinator, granted).await;
        }
        left -= keys;
    }
    assert_eq!(key(coordinator, "key-00000").await, None, "a key lives as long as its tasks");
}

#[tokio::test]
async fn thousands_of_keys_are_filled_and_emptied() {
    let (_folder, coordinator) = on_file().await;
    fill_and_empty(&coordinator, 2_000).await;
}

#[tokio::test]
async fn hundreds_of_keys_are_filled_and_emptied_in_a_database() {
    let database = Database::create();
    let coordinator = on_database(&database).await;
    fill_and_empty(&coordinator, 300).await;
    assert_eq!(verify(coordinator.browse()).await.expect("it can be read").findings, []);
}

#[tokio::test]
async fn tenants_with_the_same_key_do_not_wait_for_each_other() {
    let database = Database::create();
    let coordinator = on_database(&database).await;
    let scopes = [Scope::new("acme", "default"), Scope::new("bolt", "default")];
    for scope in &scopes {
        submit(&coordinator, 2, |_| Submission { scope: scope.clone(), ..limited("same", 1) })
            .await;
    }
    for scope in &scopes {
        let poll = Poll { scope: scope.clone(), max: 9, ..patient("w") };
        let granted = coordinator.lease(poll).await.expect("the store works");
        assert_eq!(granted.len(), 1, "{scope:?} has a slot of its own");
    }
}

#[tokio::test]
async fn slots_are_the_same_after_a_restart() {
    // Nothing is counted: who holds a slot follows from the rows.
    let (folder, first) = on_file().await;
    submit(&first, 6, |_| limited("acme", 2)).await;
    let held = lease(&first, 9).await;
    assert_eq!(held.len(), 2);
    first.stop().await;
    drop(first);
    let second = open(&folder).await;
    let row = key(&second, "acme").await.expect("its tasks live");
    assert_eq!((row.held, row.parked()), (2, 4));
    succeed(&second, &held[0]).await;
    assert_eq!(lease(&second, 9).await.len(), 1, "one slot, one task");
    assert_eq!(verify(second.browse()).await.expect("it can be read").findings, []);
}

#[tokio::test]
async fn a_coordinator_that_is_gone_leaves_no_slot_behind_for_ever() {
    // It stops with slots held and tasks parked, and another one takes over where it was.
    let database = Database::create();
    let first = on_database(&database).await;
    submit(&first, 5, |_| limited("acme", 1)).await;
    let held = lease(&first, 9).await;
    assert_eq!(held.len(), 1);
    first.stop().await;
    drop(first);
    let second = on_database(&database).await;
    let mut last = held.into_iter().next().expect("one is held");
    for _ in 0..4 {
        succeed(&second, &last).await;
        let mut next = lease(&second, 9).await;
        assert_eq!(next.len(), 1, "one slot, one task");
        last = next.remove(0);
    }
    succeed(&second, &last).await;
    assert_eq!(key(&second, "acme").await, None);
}

/// Leases and ends attempts in every way, and checks each time that no key is too full.
async fn work_badly(coordinator: Coordinator, name: String, gone: CancellationToken) {
    while !gone.is_cancelled() {
        let poll = Poll { max: 3, ..poll(&name) };
        // A coordinator that stops grants nothing more.
        let Ok(granted) = coordinator.lease(poll).await else { return };
        check(&coordinator).await;
        for granted in granted {
            let number = granted.task.attempt as usize + granted.task.priority as usize;
            let outcome = match number % 4 {
                0 => failed(),
                1 => Outcome::Released,
                _ => succeeded("1"),
            };
            let _ = coordinator.report(granted.key(), report_of(&granted, outcome)).await;
        }
        tokio::task::yield_now().await;
    }
}

fn failed() -> Outcome {
    Outcome::Failed(Fault {
        category: Category::UserCode,
        message: "it broke".into(),
        stack_trace: None,
        retryable: Some(true),
    })
}

async fn check(coordinator: &Coordinator) {
    let (scope, limit) = (Scope::default(), 100);
    let filter = FlowFilter { scope, key: None, after: None, limit, holders: 0 };
    for row in coordinator.browse().flow_keys(&filter).await.expect("it can be read") {
        assert!(row.held <= u64::from(row.limit), "{row:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_ends_a_lease_and_whoever_stops_every_task_ends() {
    // Failures, releases and cancels through two coordinators, of which one stops in the middle; what it held expires.
    const ALL: usize = 90;
    let database = Database::create();
    let (one, two) = (on_database(&database).await, on_database(&database).await);
    let (retry_base, failures_max, lost_max) = (Span::from_millis(20), 50, 50);
    let policy = Policy { retry_base, failures_max, lost_max, ..submission("k").policy };
    for n in 0..ALL {
        let at = if n % 2 == 0 { &one } else { &two };
        let key = ["a", "b", "c"][n % 3];
        let task = Submission {
            priority: (n % 7) as i32,
            policy: policy.clone(),
            ..limited(key, [1, 2, 3][n % 3])
        };
        let (id, _) = accepted(&at.submit(vec![task]).await[0]);
        if n % 10 == 9 {
            let key = TaskKey { scope: Scope::default(), id };
            at.cancel(key, Cancel { reason: None, mode: CancelMode::Graceful }).await.ok();
        }
    }
    let gone = CancellationToken::new();
    let mut workers = tokio::task::JoinSet::new();
    for n in 0..4 {
        let at = if n % 2 == 0 { one.clone() } else { two.clone() };
        workers.spawn(work_badly(at, format!("w{n}"), gone.clone()));
    }
    let left = async |than: u64| {
        let scope = Scope::default();
        let filter = FlowFilter { scope, key: None, after: None, limit: 9, holders: 0 };
        let keys = two.browse().flow_keys(&filter).await.expect("it can be read");
        keys.iter().map(|row| row.live).sum::<u64>() <= than
    };
    until(async || left(ALL as u64 / 2).await).await;
    one.stop().await;
    until(async || left(0).await).await;
    gone.cancel();
    while let Some(worker) = workers.join_next().await {
        worker.expect("no worker saw a key that was too full");
    }
    assert_eq!(verify(two.browse()).await.expect("it can be read").findings, []);
}

/// Looks again and again until it is so.
async fn until(is_so: impl AsyncFn() -> bool) {
    let look = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("all tasks end");
}
