//! Store failures: definite answers, nothing lost, nothing invented.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coordinator::{Reply, RequestError, StopReason, UnavailableReason};
use store::{Browse, FailureKind, Filter};
use storetest::{ManualClock, MemoryStore};
use verdict::request::Heartbeat;
use verdict::{Answer, Scope, Span, State, Subject};

use crate::faulty::FaultyStore;
use crate::harness::{
    World, accepted, caller, keyed, poll, report_of, start, submission, succeeded,
};

pub(crate) async fn faulty_world() -> (World, FaultyStore) {
    let clock = Arc::new(ManualClock::default());
    let store = FaultyStore::over(MemoryStore::new(clock.clone()));
    (World { coordinator: start(store.clone()).await, clock }, store)
}

/// Why the store was unavailable, if that is the answer.
fn reason<T>(reply: &Result<T, RequestError>) -> Option<UnavailableReason> {
    match reply {
        Err(RequestError::Unavailable(outage)) => Some(outage.reason),
        _ => None,
    }
}

async fn all_tasks(store: &FaultyStore) -> Vec<store::StoredTask> {
    let filter = Filter { limit: 1_000, ..Filter::default() };
    store.inner.browse_all(&filter).await
}

trait BrowseAll {
    async fn browse_all(&self, filter: &Filter) -> Vec<store::StoredTask>;
}

impl BrowseAll for MemoryStore {
    async fn browse_all(&self, filter: &Filter) -> Vec<store::StoredTask> {
        let listing = store::Store::browse(self).list(&Scope::default(), filter).await;
        listing.expect("memory reads").tasks.into_iter().map(|listed| listed.task).collect()
    }
}

#[tokio::test]
async fn one_request_the_store_cannot_take_does_not_fail_its_batch() {
    // The batch is halved until the bad request is alone; only it gets the error.
    let (world, store) = faulty_world().await;
    store.faults.refuses_poison.store(true, Ordering::SeqCst);
    let mut batch: Vec<_> = (0..40).map(|_| submission("good")).collect();
    batch.insert(23, submission("poison"));
    let replies = world.coordinator.submit(batch).await;
    for (index, reply) in replies.iter().enumerate() {
        match index {
            23 => assert_eq!(*reply, Err(RequestError::Defect)),
            _ => assert!(!accepted(reply).1),
        }
    }
    assert_eq!(all_tasks(&store).await.len(), 40);
}

#[tokio::test]
async fn a_full_disk_is_a_clear_answer_and_service_goes_on_when_space_returns() {
    // F19, C3: a definite refusal, no trace, and no restart needed.
    let (world, store) = faulty_world().await;
    store.faults.fail_call(0, FailureKind::Full);
    let refused = world.coordinator.submit(vec![submission("k")]).await;
    assert_eq!(reason(&refused[0]), Some(UnavailableReason::DiskFull));
    assert!(all_tasks(&store).await.is_empty());
    store.faults.fail_every_write(FailureKind::Full);
    let unready = world.coordinator.is_progressing().await;
    assert_eq!(reason(&unready), Some(UnavailableReason::DiskFull), "readiness tells");
    store.faults.heal();
    world.round().await;
    world.submit(submission("k")).await;
    assert_eq!(all_tasks(&store).await.len(), 1);
}

#[tokio::test]
async fn a_commit_of_unknown_outcome_is_never_guessed() {
    // F20, C3: an error from COMMIT may hide a commit. The caller gets "unknown", the carrier ends; after reopening,
    // the same key finds what was in fact committed.
    let (world, store) = faulty_world().await;
    store.faults.commit_unknown.store(true, Ordering::SeqCst);
    let replies = world.coordinator.submit(vec![keyed("k", "a")]).await;
    assert_eq!(replies[0], Err(RequestError::Unknown));
    assert!(
        matches!(world.coordinator.stopped().await, StopReason::Fatal(why) if why.contains("disk"))
    );
    let later = world.coordinator.submit(vec![keyed("k", "b")]).await;
    assert_eq!(later[0], Err(RequestError::ShuttingDown));
    let reopened = start(store.inner.reopen()).await;
    let again = reopened.submit(vec![keyed("k", "a")]).await;
    assert!(accepted(&again[0]).1, "the first submission was recorded, and is found by its key");
}

#[tokio::test]
async fn overload_sheds_new_work_and_keeps_taking_reports() {
    // F44: while a commit hangs, submissions are refused long before reports are.
    let (world, store) = faulty_world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    store.faults.is_held.store(true, Ordering::SeqCst);
    let coordinator = &world.coordinator;
    let mut hanging = tokio::task::JoinSet::new();
    let shed = loop {
        let coordinator = coordinator.clone();
        hanging.spawn(async move { coordinator.submit(vec![submission("k")]).await });
        tokio::task::yield_now().await;
        match hanging.try_join_next() {
            Some(reply) => break reply.unwrap(),
            None => assert!(hanging.len() < 20_000, "the priority class is bounded"),
        }
    };
    assert_eq!(shed[0], Err(RequestError::Overloaded));
    let report = tokio::spawn({
        let (coordinator, granted) = (coordinator.clone(), granted.clone());
        let report = report_of(&granted, succeeded("1"));
        async move { coordinator.report(granted.key(), report).await }
    });
    tokio::task::yield_now().await;
    store.faults.is_held.store(false, Ordering::SeqCst);
    store.faults.released.notify_waiters();
    let answer = report.await.unwrap().unwrap().answer;
    assert!(matches!(answer, Answer::Committed { state: State::Succeeded, .. }));
    while let Some(reply) = hanging.join_next().await {
        let reply: Vec<Reply> = reply.unwrap();
        assert!(matches!(reply[0], Ok(_) | Err(RequestError::Overloaded)));
    }
}

#[tokio::test]
async fn whichever_store_call_fails_the_answers_stay_true() {
    // F33, C2, C3, A3: fail the n-th call, for every n, until a run sees no failure. Every answer matches what is
    // stored, and a repeated request succeeds.
    for kind in [FailureKind::Full, FailureKind::Unavailable] {
        let mut nth = 0;
        while run_with_failure(nth, kind).await {
            nth += 1;
            assert!(nth < 500, "a life is a bounded number of calls");
        }
        assert!(nth > 10, "failures were injected at {nth} calls");
    }
}

/// One life cycle with its `nth` store call failing. Returns whether the failure was reached.
async fn run_with_failure(nth: usize, kind: FailureKind) -> bool {
    let (world, store) = faulty_world().await;
    store.faults.fail_call(nth, kind);
    let (task, _) =
        until_ok(async || world.coordinator.submit(vec![keyed("k", "once")]).await.remove(0)).await;
    let granted = loop {
        // No lease, or an error because the store could not be read.
        let granted = world.coordinator.lease(poll("w")).await.unwrap_or_default();
        if let Some(granted) = granted.into_iter().next() {
            break granted;
        }
    };
    assert_eq!(granted.task.id, task);
    let mut answers = Vec::new();
    while answers.is_empty() {
        let report = report_of(&granted, succeeded("1"));
        answers.extend(world.coordinator.report(granted.key(), report).await);
    }
    assert!(matches!(answers[0].answer, Answer::Committed { replayed: false, .. }));
    let found = all_tasks(&store).await;
    assert_eq!(found.len(), 1, "nothing lost, nothing doubled");
    assert!(matches!(&found[0].subject, Subject::Done(done) if done.attempt == 1));
    store.faults.has_struck()
}

async fn until_ok(mut ask: impl AsyncFnMut() -> Reply) -> (verdict::TaskId, bool) {
    loop {
        let reply = ask().await;
        if reply.is_ok() {
            return accepted(&reply);
        }
    }
}

#[tokio::test]
async fn time_in_which_a_worker_was_refused_is_given_back_though_pulses_fitted() {
    // A8, F19: for most of a lease no heartbeat can be recorded, while an empty commit still fits. That was the
    // store's fault; the lease is extended by that time.
    let (world, store) = faulty_world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    world.started(&granted).await;
    store.faults.is_nearly_full.store(true, Ordering::SeqCst);
    for _ in 0..4 {
        world.clock.advance(Span::from_millis(400));
        let beat = Heartbeat { caller: caller(&granted), progress: None };
        let refused = world.coordinator.heartbeat(granted.key(), beat).await;
        assert_eq!(reason(&refused), Some(UnavailableReason::DiskFull));
        // A round without requests, in which a keep-alive commit may be written.
        let _ = world.coordinator.is_progressing().await;
    }
    store.faults.is_nearly_full.store(false, Ordering::SeqCst);
    world.round().await;
    world.pass(Span::from_secs(1)).await;
    assert!(matches!(world.heartbeat(&granted).await, Answer::Alive { .. }));
}

#[tokio::test]
async fn a_stall_while_a_stall_is_given_back_is_given_back_too() {
    // A8, F24: the disk hangs again, in the same commit that extends the leases.
    let (world, store) = faulty_world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    world.started(&granted).await;
    world.clock.advance(Span::from_secs(600));
    store.faults.stall_next_commit(world.clock.clone(), Span::from_secs(600));
    world.round().await;
    assert!(matches!(world.heartbeat(&granted).await, Answer::Alive { .. }));
}

#[tokio::test]
async fn a_batch_that_stood_still_before_it_looked_at_the_clock_ends_no_lease() {
    // A8, F09, F63: the machine stops between the carrier's stall check and that of the batch.
    let (world, store) = faulty_world().await;
    world.submit(submission("k")).await;
    let granted = world.lease_one("w").await;
    world.started(&granted).await;
    store.faults.stall_next_batch(world.clock.clone(), Span::from_secs(600));
    world.round().await;
    assert!(matches!(world.heartbeat(&granted).await, Answer::Alive { .. }));
    // And yet a worker that falls silent while it could be reached is replaced (S0-48).
    world.pass(Span::from_secs(3)).await;
    assert_eq!(world.lease_one("rival").await.task.attempt, 2);
}
