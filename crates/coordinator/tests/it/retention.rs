//! Retention while serving: in slices, exactly the tasks that the rule releases.
//!
//! Tokio's time is paused, so pauses between slices take no time; the store's clock is moved by hand.

#![expect(clippy::unwrap_used, reason = "a panic in a test is its report")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coordinator::{Coordinator, Options, SeededEntropy};
use store::{Browse, FailureKind, Filter};
use storetest::{ManualClock, MemoryStore};
use verdict::request::{Cancel, CancelMode};
use verdict::{Retention, Scope, Span, TaskId};

use crate::faulty::FaultyStore;
use crate::harness::{World, key, keyed, submission};

const DAY: Span = Span::from_secs(24 * 60 * 60);
/// The part of a day that is left out. The carrier sleeps that long by Tokio's clock, finds that the store's clock has
/// not moved, and sleeps again.
const ALMOST: Span = Span::from_secs(100);

async fn world(retention: Retention) -> (World, FaultyStore) {
    let clock = Arc::new(ManualClock::default());
    let store = FaultyStore::over(MemoryStore::new(clock.clone()));
    let coordinator = start(store.clone(), retention).await;
    (World { coordinator, clock }, store)
}

async fn start(store: FaultyStore, retention: Retention) -> Coordinator {
    let entropy = Box::new(SeededEntropy::new(7));
    let options = Options { entropy, retention, ..Options::default() };
    Coordinator::start(store, options).await.unwrap()
}

async fn end(world: &World, task: TaskId) {
    let cancel = Cancel { reason: None, mode: CancelMode::Graceful };
    world.coordinator.cancel(key(task), cancel).await.unwrap();
}

/// Submits this many tasks and ends them.
async fn ended(world: &World, count: usize) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for _ in 0..count {
        let task = world.submit(submission("k")).await;
        end(world, task).await;
        tasks.push(task);
    }
    tasks
}

/// Long enough for a walk and the pause after it, without any request.
pub(crate) async fn idle() {
    tokio::time::sleep(Duration::from_secs(120)).await;
}

async fn left(world: &World) -> Vec<TaskId> {
    let filter = Filter { limit: 10_000, ..Filter::default() };
    let listing = world.coordinator.browse().list(&Scope::default(), &filter).await.unwrap();
    let mut ids: Vec<TaskId> = listing
        .tasks
        .iter()
        .map(|listed| match &listed.task.subject {
            verdict::Subject::Live(task) => task.id,
            verdict::Subject::Done(done) => done.id,
            verdict::Subject::Absent => panic!("what is listed is there"),
        })
        .collect();
    ids.sort_unstable();
    ids
}

pub(crate) fn counted(world: &World, name: &str) -> u64 {
    let mut text = String::new();
    let registry = world.coordinator.registry();
    prometheus_client::encoding::text::encode(&mut text, registry).expect("metrics are text");
    let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
    line.and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_older_than_the_rule_goes_by_itself_and_the_rest_stays() {
    let (world, _) = world(Retention { age: Some(DAY), tasks: None }).await;
    let waits = world.submit(submission("k")).await;
    let old = ended(&world, 3).await;
    world.clock.advance(Span::from_secs(3_600));
    let young = ended(&world, 2).await;
    world.clock.advance(Span::from_millis(DAY.millis() - 3_600_000 - ALMOST.millis()));
    idle().await;
    assert_eq!(left(&world).await.len(), 6, "all are too young");
    world.clock.advance(ALMOST);
    world.round().await;
    idle().await;
    assert_eq!(left(&world).await, [vec![waits], young].concat());
    assert_eq!(counted(&world, "tenure_tasks_forgotten_total"), old.len() as u64);
    let report = store::verify::verify(world.coordinator.browse()).await.unwrap();
    assert_eq!(report.findings, []);
}

#[tokio::test(start_paused = true)]
async fn a_key_holds_for_a_day_though_the_rule_is_shorter() {
    // nothing is deleted while its idempotency key finds it.
    let (world, _) = world(Retention { age: Some(Span::ZERO), tasks: Some(0) }).await;
    let task = world.submit(keyed("k", "order 1")).await;
    end(&world, task).await;
    world.submit(submission("later")).await;
    world.clock.advance(Span::from_millis(DAY.millis() - ALMOST.millis()));
    idle().await;
    assert_eq!(world.submit(keyed("k", "order 1")).await, task);
    world.clock.advance(ALMOST);
    world.round().await;
    idle().await;
    assert!(!left(&world).await.contains(&task));
    assert_ne!(world.submit(keyed("k", "order 1")).await, task);
}

#[tokio::test(start_paused = true)]
async fn beyond_the_number_to_keep_the_first_submitted_go_first() {
    let (world, _) = world(Retention { age: None, tasks: Some(4) }).await;
    let tasks = ended(&world, 10).await;
    world.clock.advance(DAY);
    world.round().await;
    idle().await;
    assert_eq!(left(&world).await, tasks[6..]);
    // From now on, ended tasks are counted as they end, and deleted when they are a day old.
    let more = ended(&world, 3).await;
    idle().await;
    assert_eq!(left(&world).await, [&tasks[9..], &more].concat());
    world.clock.advance(DAY);
    ended(&world, 1).await;
    idle().await;
    assert_eq!(left(&world).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_restart_counts_again_and_goes_on() {
    let (first, store) = world(Retention::FOR_EVER).await;
    let tasks = ended(&first, 600).await;
    first.clock.advance(DAY);
    idle().await;
    assert_eq!(left(&first).await.len(), 600, "without a rule nothing goes");
    first.coordinator.stop().await;
    let reopened = FaultyStore::over(store.inner.reopen());
    let retention = Retention { age: None, tasks: Some(100) };
    let coordinator = start(reopened, retention).await;
    let second = World { coordinator, clock: first.clock };
    idle().await;
    idle().await;
    assert_eq!(left(&second).await, tasks[500..]);
}

#[tokio::test(start_paused = true)]
async fn a_server_with_nothing_to_forget_does_not_wake_for_it() {
    // An idle server neither reads nor writes for retention.
    let (world, store) = world(Retention { age: Some(DAY), tasks: Some(100) }).await;
    ended(&world, 3).await;
    idle().await;
    store.faults.fail_call(usize::MAX, FailureKind::Unavailable);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let (calls, walks) = store.faults.calls();
    // The carrier checks once a minute whether its clock is right, at the cost of one empty round.
    assert!(calls <= 61 * 8, "{calls} calls of the store in an idle hour");
    assert_eq!(walks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_asked_again_later_and_nothing_is_half_forgotten() {
    let (world, store) = world(Retention { age: Some(DAY), tasks: None }).await;
    ended(&world, 3).await;
    world.clock.advance(DAY);
    store.faults.fail_every_write(FailureKind::Full);
    let _ = world.coordinator.is_progressing().await;
    idle().await;
    assert_eq!(left(&world).await.len(), 3);
    store.faults.heal();
    world.round().await;
    idle().await;
    assert_eq!(left(&world).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_forgot_and_whose_answer_is_lost_ends_nobody_and_is_counted_again() {
    // F38, S2-104: which tasks were deleted is unknown, so everything is counted anew: no more is ever deleted than the
    // rule releases.
    let (world, store) = world(Retention { age: None, tasks: Some(4) }).await;
    let tasks = ended(&world, 10).await;
    store.faults.forgetting_unknown.store(true, Ordering::SeqCst);
    world.clock.advance(DAY);
    world.round().await;
    idle().await;
    assert!(!store.faults.forgetting_unknown.load(Ordering::SeqCst), "it was reached");
    world.round().await;
    idle().await;
    assert_eq!(left(&world).await, tasks[6..]);
    world.submit(submission("k")).await;
}
