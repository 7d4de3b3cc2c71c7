//! Cancels.

use verdict::request::CancelMode;
use verdict::{Answer, AttemptOutcome, Category, Reason, Refusal, State, WorkerVerdict};

use crate::world::{START, World, beat, cancel, failed, refusal, report, secs, succeeded};

fn accepted(state: State) -> Answer {
    Answer::CancelAccepted { state, requested_at: START }
}

#[test]
fn a_waiting_task_stops_at_once() {
    let mut world = World::queued();
    // S2-23, R-13: not yet leased, so cancelled immediately, and no attempt ever existed.
    assert_eq!(world.cancel(), accepted(State::Cancelled));
    assert_eq!(world.done().end.reason, Some(Reason::CancelRequested));
    assert_eq!((world.done().attempt, world.closed.len()), (0, 0));
    let (mut world, _) = World::retrying();
    // the same holds for a task that waits for a retry; a cancelled task is not retried.
    assert_eq!(world.cancel(), accepted(State::Cancelled));
    let again = world.grant_request("bob");
    assert_eq!(world.ask_in_vain(again), Answer::Nothing);
}

#[test]
fn cancelling_twice_changes_nothing() {
    let (mut world, _) = World::running();
    assert_eq!(world.cancel(), accepted(State::Running));
    world.wait(secs(7));
    // S3-59: the time of the first request is kept.
    assert_eq!(world.ask_in_vain(cancel(CancelMode::Graceful)), accepted(State::Running));
    let mut world = World::queued();
    world.cancel();
    assert_eq!(world.ask_in_vain(cancel(CancelMode::Graceful)), accepted(State::Cancelled));
}

#[test]
fn a_run_that_ended_otherwise_cannot_be_cancelled() {
    let (mut world, _) = World::succeeded();
    let answer = refusal(world.ask_in_vain(cancel(CancelMode::Immediate)));
    // S2-41, S2-111: an ended task stays ended.
    assert_eq!(answer, Refusal::RunAlreadyTerminal { state: State::Succeeded });
    let answer = refusal(World::empty().ask_in_vain(cancel(CancelMode::Graceful)));
    assert_eq!(answer, Refusal::TaskNotFound);
}

#[test]
fn a_worker_that_ignores_the_signal_is_cut_off_after_the_grace() {
    let (mut world, caller) = World::running();
    world.start(&caller);
    // S4-55: thirty seconds by default.
    assert_eq!(world.task().policy.cancel_grace, secs(30));
    world.cancel();
    world.wait(secs(10));
    world.beat(&caller);
    world.wait_until_just_before(START.plus(secs(40)));
    world.beat(&caller);
    assert_eq!(world.ask_in_vain(verdict::Request::Sweep), Answer::Nothing);
    let version = world.task().claim_version;
    world.now = START.plus(secs(40));
    assert_eq!(world.sweep(), Answer::Done);
    // S4-56, W-13, R-13: failed with CANCEL_TIMEOUT although it kept heartbeating.
    let done = world.done();
    assert_eq!((done.end.state, done.end.reason), (State::Failed, Some(Reason::CancelTimeout)));
    // the revocation increments the claim version, and the task is not retried.
    assert_eq!(done.claim_version, version + 1);
    assert_eq!(world.attempt_outcomes(), [(AttemptOutcome::Revoked, Some(Reason::CancelTimeout))]);
    // later calls of the worker get 410 and 409.
    let late = refusal(world.ask_in_vain(beat(&caller)));
    assert_eq!(late, Refusal::TaskExpired { state: State::Failed });
    let late = refusal(world.ask_in_vain(report(&caller, succeeded())));
    assert_eq!(late, Refusal::TaskAlreadyTerminal { state: State::Failed });
}

#[test]
fn a_worker_that_never_heard_the_signal_is_judged_from_the_request() {
    let (mut world, caller) = World::running();
    world.start(&caller);
    world.cancel();
    world.lose();
    // no heartbeat within one lease, so the grace period counts from the request.
    assert_eq!(world.done().end.reason, Some(Reason::CancelTimeout));

    let (mut world, caller) = World::running();
    world.start(&caller);
    world.wait(secs(89));
    world.cancel();
    world.lose();
    // the cancel was requested a second before the loss: the task ends as cancelled.
    assert_eq!(world.done().end.reason, Some(Reason::CancelRequested));
    assert_eq!(world.attempt_outcomes(), [(AttemptOutcome::Lost, Some(Reason::HeartbeatTimeout))]);
}

#[test]
fn a_forced_cancel_does_not_ask() {
    let (mut world, caller) = World::running();
    world.start(&caller);
    // S4-57: the lease is revoked at once.
    assert_eq!(world.force(), accepted(State::Cancelled));
    assert_eq!(world.done().end.reason, Some(Reason::CancelForced));
    let late = refusal(world.ask_in_vain(report(&caller, succeeded())));
    assert_eq!(late.worker_verdict(), WorkerVerdict::Cancelled);
}

#[test]
fn a_forced_cancel_may_follow_a_patient_one() {
    let (mut world, _) = World::running();
    world.cancel();
    world.wait(secs(2));
    assert_eq!(world.force(), accepted(State::Cancelled));
    assert_eq!(world.done().cancel.as_ref().map(|cancel| cancel.requested_at), Some(START));
}

#[test]
fn a_pending_cancel_takes_the_place_of_a_retry() {
    let (mut world, caller) = World::running();
    world.cancel();
    world.report(&caller, failed(Category::Infrastructure));
    // R-12, W-22: not retried; the worker's report is kept.
    assert_eq!(world.state(), State::Cancelled);
    assert!(world.done().end.fault.is_some());

    let (mut world, caller) = World::running();
    world.cancel();
    world.report(&caller, failed(Category::DataQuality));
    assert_eq!(world.done().end.reason, Some(Reason::NotRetryable));
}
