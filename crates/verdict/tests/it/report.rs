//! Reports: how an attempt ended.

use verdict::request::{Caller, Outcome};
use verdict::{
    Answer, AttemptOutcome, Category, Json, LeaseId, Policy, Reason, Refusal, Request, State,
    WorkerVerdict,
};

use crate::world::{
    START, World, as_worker, cancelled, failed, fault, refusal, report, secs, succeeded,
};

fn committed(outcome: AttemptOutcome, state: State) -> Answer {
    Answer::Committed { outcome, state, replayed: false }
}

#[test]
fn a_report_sets_the_status_and_the_times_of_an_end_and_numbers_no_attempt() {
    // Proves: S2-60: status and timestamps of an end are the Runner's. Attempts are numbered by the grant (amended).
    let (mut world, caller) = World::running();
    let (granted, attempt) = (world.lease().acquired_at, world.task().attempt);
    world.wait(secs(5));
    world.report(&caller, failed(Category::UserCode));
    assert_eq!((world.state(), world.task().attempt), (State::Retry, attempt));
    let closed = world.closed.last().expect("the attempt is closed");
    assert_eq!((closed.granted_at, closed.closed_at), (granted, world.now));
    let caller = world.grant_when_due("bob");
    assert_eq!(world.task().attempt, attempt + 1, "the pool numbered it");
    world.wait(secs(7));
    // Nothing else sets them meanwhile.
    for request in [crate::world::start(&caller), crate::world::beat(&caller), Request::Sweep] {
        world.ask(request);
        assert_eq!((world.state(), world.task().attempt), (State::Running, attempt + 1));
    }
    world.report(&caller, succeeded());
    let done = world.done();
    assert_eq!((done.end.state, done.attempt), (State::Succeeded, attempt + 1));
    assert_eq!(done.completed_at, world.now);
}

#[test]
fn a_valid_success_is_committed_and_ends_the_task() {
    let (mut world, caller) = World::running();
    let answer = world.report(&caller, succeeded());
    // S3-13, S3-14, S3-15, S2-30: the lease was valid, the result is accepted, the task has ended.
    assert_eq!(answer, committed(AttemptOutcome::Succeeded, State::Succeeded));
    assert_eq!(world.state(), State::Succeeded);
    assert_eq!(world.done().end.output, Some(Json::from("{\"rows\":3}")));
    // S0-46, S0-47: the end and the release of the claim are one event, so neither precedes the
    // other.
    assert_eq!(world.events.len(), 1);
}

#[test]
fn a_report_without_a_start_implies_it() {
    let (mut world, caller) = World::running();
    world.wait(secs(4));
    world.report(&caller, succeeded());
    // accepted if lease and attempt are valid.
    assert_eq!(world.done().started_at, Some(START.plus(secs(4))));
    // S2-113: created, started, completed, in this order.
    let done = world.done();
    assert!(Some(done.created_at) <= done.started_at && done.started_at <= Some(done.completed_at));
}

#[test]
fn the_same_report_gets_the_same_answer_for_ever() {
    for outcome in [succeeded(), failed(Category::UserCode), cancelled()] {
        let (mut world, caller) = World::running();
        let first = world.report(&caller, outcome.clone());
        world.wait(secs(1_000_000));
        let Answer::Committed { outcome: recorded, state, .. } = first else { panic!("{first:?}") };
        // S3-12, S3-60, S3-62, S3-63, R-5: recorded once, answered as often as it is sent.
        let again = world.ask_in_vain(report(&caller, outcome));
        assert_eq!(again, Answer::Committed { outcome: recorded, state, replayed: true });
    }
}

#[test]
fn a_second_different_report_for_the_lease_is_rejected() {
    let (mut world, caller) = World::running();
    world.report(&caller, failed(Category::UserCode));
    let other = refusal(world.ask_in_vain(report(&caller, succeeded())));
    // S3-36, R-5: REJECTED, and the first report stands.
    assert_eq!(other, Refusal::ConflictingReport { state: State::Retry });
    assert_eq!(other.worker_verdict(), WorkerVerdict::Rejected);
    // S3-55: even after a later attempt has changed the task.
    world.grant_when_due("bob");
    let late = refusal(world.ask_in_vain(report(&caller, succeeded())));
    assert_eq!(late, Refusal::ConflictingReport { state: State::Running });
}

#[test]
fn a_replay_shows_the_task_as_it_is_now_and_the_attempt_as_it_was() {
    let (mut world, first) = World::running();
    world.report(&first, failed(Category::UserCode));
    let second = world.grant_when_due("bob");
    world.report(&second, succeeded());
    let again = world.ask_in_vain(report(&first, failed(Category::UserCode)));
    // the attempt's outcome and the task's state are separate.
    let answer = Answer::Committed {
        outcome: AttemptOutcome::Failed,
        state: State::Succeeded,
        replayed: true,
    };
    assert_eq!(again, answer);
}

#[test]
fn a_retryable_failure_waits_for_its_backoff() {
    let (mut world, caller) = World::running();
    let answer = world.report(&caller, failed(Category::Infrastructure));
    // R-6, S2-34, S2-68, S3-57: COMMITTED closes the attempt, and the policy decides on a retry.
    assert_eq!(answer, committed(AttemptOutcome::Failed, State::Retry));
    let task = world.task();
    // S2-35, R-17: the due time is decided once, here, and stored.
    let backoff = task.policy.backoff(task.id, 1, 1);
    assert_eq!(world.due(), START.plus(backoff));
    // S2-36: counters and times are kept.
    assert_eq!((task.attempt, task.failures, task.created_at), (1, 1, START));
    assert_eq!(task.started_at, Some(START));
}

#[test]
fn failures_are_counted_once_and_end_the_task_at_their_limit() {
    let mut world = World::queued();
    for attempt in 1..=3 {
        let caller = world.grant_when_due("ann");
        // W-3, R-15: attempts grow at acquisition and nowhere else.
        assert_eq!(world.task().attempt, attempt);
        world.report(&caller, failed(Category::UserCode));
    }
    // S2-32, S2-33, S2-69: attempts exhausted, with the last error.
    let done = world.done();
    assert_eq!((done.end.state, done.end.reason), (State::Failed, Some(Reason::AttemptsExhausted)));
    assert_eq!(done.end.fault, Some(fault(Category::UserCode, None)));
    assert_eq!((done.attempt, done.failures), (3, 3));
}

#[test]
fn categories_have_their_defaults() {
    let defaults = [
        // S4-59
        (Category::UserCode, State::Retry),
        // S4-60
        (Category::DataQuality, State::Failed),
        // S4-61
        (Category::Infrastructure, State::Retry),
        // S4-62
        (Category::Configuration, State::Failed),
        // S4-63
        (Category::Timeout, State::Retry),
    ];
    for (category, state) in defaults {
        let (mut world, caller) = World::running();
        world.report(&caller, failed(category));
        assert_eq!(world.state(), state, "{category:?}");
    }
}

#[test]
fn only_the_known_categories_are_read() {
    // the six categories of the contract; CANCELLED belongs to the outcome and is not a fault
    //
    let names: Vec<&str> = Category::ALL.iter().map(|category| category.name()).collect();
    let known = ["USER_CODE", "DATA_QUALITY", "INFRASTRUCTURE", "CONFIGURATION", "TIMEOUT"];
    assert_eq!(names, known);
    assert_eq!(Category::parse("UNKNOWN"), None);
    assert_eq!(Category::parse("CANCELLED"), None);
}

#[test]
fn a_hint_overrides_the_category_and_never_the_limit() {
    let never = Outcome::Failed(fault(Category::UserCode, Some(false)));
    let (mut world, caller) = World::running();
    world.report(&caller, never);
    // the worker's hint takes precedence over the category's default.
    assert_eq!(world.done().end.reason, Some(Reason::NotRetryable));

    let always = Outcome::Failed(fault(Category::Configuration, Some(true)));
    let once = Policy { failures_max: 1, ..Policy::default() };
    let (mut world, caller) = World::running();
    world.report(&caller, always.clone());
    assert_eq!(world.state(), State::Retry);
    // but policy may forbid the retry that the hint asks for.
    let (mut world, caller) = World::running_with(once);
    world.report(&caller, always);
    assert_eq!(world.done().end.reason, Some(Reason::AttemptsExhausted));
}

#[test]
fn a_worker_may_report_that_it_stopped() {
    let (mut world, caller) = World::running();
    world.cancel();
    world.beat(&caller);
    // S4-54, S4-27: outcome CANCELLED is committed and ends the task as cancelled.
    let answer = world.report(&caller, cancelled());
    assert_eq!(answer, committed(AttemptOutcome::Cancelled, State::Cancelled));
    assert_eq!(world.done().end.reason, Some(Reason::CancelRequested));
    // S3-67, S4-64: cancellation is neither a failure nor a reason to retry.
    assert_eq!(world.done().failures, 0);

    let (mut world, caller) = World::running();
    world.report(&caller, cancelled());
    assert_eq!(world.done().end.reason, Some(Reason::CancelledByWorker));
}

#[test]
fn a_lease_that_was_never_issued_is_rejected() {
    let (mut world, caller) = World::running();
    let invented = Caller { lease: LeaseId::from_u128(999), ..caller };
    let answer = refusal(world.ask_in_vain(report(&invented, succeeded())));
    // S3-34, S3-32, R-8: the lease was never issued for this task.
    assert_eq!(answer, Refusal::UnknownLease);
    assert_eq!(answer.worker_verdict(), WorkerVerdict::Rejected);
}

#[test]
fn an_unknown_task_is_rejected() {
    let (_, caller) = World::running();
    let answer = refusal(World::empty().ask_in_vain(report(&caller, succeeded())));
    // S3-33, R-35.
    assert_eq!(answer, Refusal::TaskNotFound);
    assert_eq!(answer.worker_verdict(), WorkerVerdict::Rejected);
}

#[test]
fn a_stale_worker_learns_which_attempt_counts_and_corrupts_nothing() {
    let (mut world, first) = World::running();
    world.lose();
    world.grant_when_due("bob");
    let stale = refusal(world.ask_in_vain(report(&first, succeeded())));
    // S4-32, S4-66, S4-67, S4-68, R-28: both numbers, no change.
    assert_eq!(stale, Refusal::AttemptSuperseded { expected: 2, received: 1 });
    // S3-23, S3-20, S3-21, R-8, S4-33, R-9: CANCELLED, the result is discarded.
    assert_eq!(stale.worker_verdict(), WorkerVerdict::Cancelled);
    // S3-25, S3-26: it is not a failure and schedules no retry.
    assert_eq!((world.task().failures, world.state()), (0, State::Running));
}

#[test]
fn an_attempt_that_was_never_granted_is_rejected() {
    let (mut world, caller) = World::running();
    let ahead = Caller { attempt: 5, ..caller };
    let answer = refusal(world.ask_in_vain(report(&ahead, succeeded())));
    // S4-65, S4-66: the attempt number is compared before anything changes.
    assert_eq!(answer, Refusal::AttemptUnknown { expected: 1, received: 5 });
    assert_eq!(answer.worker_verdict(), WorkerVerdict::Rejected);
}

#[test]
fn a_restored_store_invalidates_old_leases() {
    let (mut world, caller) = World::running();
    world.epoch = 2;
    // S3-24: CANCELLED, although the row still holds the lease.
    let answer = refusal(world.ask_in_vain(report(&caller, succeeded())));
    assert_eq!(answer, Refusal::TaskExpired { state: State::Running });
    assert_eq!(answer.worker_verdict(), WorkerVerdict::Cancelled);
    // S3-24: the same holds when the restored store does not know the lease: lost authority, not an
    // invalid call.
    let forgotten = Caller { lease: LeaseId::from_u128(999), ..caller };
    let answer = refusal(world.ask_in_vain(report(&forgotten, succeeded())));
    assert_eq!(answer.worker_verdict(), WorkerVerdict::Cancelled);
}

#[test]
fn only_the_owner_reports() {
    let (mut world, caller) = World::running();
    let answer = world.ask_in_vain(report(&as_worker(&caller, "eve"), succeeded()));
    // S3-3, S3-65: the lease names its owner, and no other worker has its authority.
    assert_eq!(refusal(answer), Refusal::WorkerMismatch);
}

#[test]
fn success_while_a_cancel_is_pending_is_recorded_truthfully() {
    let (mut world, caller) = World::running();
    world.cancel();
    world.beat(&caller);
    world.report(&caller, succeeded());
    // the first valid commit wins; the request stays on record.
    assert_eq!(world.state(), State::Succeeded);
    assert!(world.done().cancel.is_some());
}
