//! Granting a task to a worker, and taking back a grant that was not delivered.

use verdict::request::Submit;
use verdict::{
    Answer, AttemptOutcome, Category, Context, Fence, Policy, Reason, Request, Span, State, Time,
    apply,
};

use crate::world::{START, World, failed, secs, submission};

#[test]
fn an_acquisition_makes_a_lease_for_one_attempt() {
    let (world, caller) = World::running();
    let lease = world.lease();
    // S2-25, S2-26: the claim makes the task running, with a worker that holds it.
    assert_eq!((world.state(), lease.owner.as_str()), (State::Running, "ann"));
    // S0-33, R-2: the lease expires at an absolute time, one lease length after the acquisition.
    assert_eq!(lease.expires_at, START.plus(secs(90)));
    assert_eq!(lease.acquired_at, START);
    // attempt and claim version grow by one, together and only here.
    assert_eq!((caller.attempt, world.task().claim_version), (1, 1));
    assert_eq!(lease.fence, Fence::new(1, 1));
}

#[test]
fn a_task_without_a_claim_is_granted_and_a_leased_one_is_not() {
    let mut world = World::queued();
    // S0-38: no active claim, so acquisition succeeds.
    world.grant("ann");
    let second = world.grant_request("bob");
    // S0-40, W-1: the second claim gets nothing and changes nothing.
    assert_eq!(world.ask_in_vain(second), Answer::Nothing);
    assert_eq!(world.lease().owner.as_str(), "ann");
}

#[test]
fn an_expired_claim_is_taken_over_from_the_very_millisecond_of_its_end() {
    let (mut world, _) = World::running();
    world.beat(&world.caller());
    let end = world.lease().expires_at;
    world.wait_until_just_before(end);
    assert_eq!(world.ask_in_vain(Request::Sweep), Answer::Nothing);
    world.now = end;
    // S0-39, R-2: expired means that now has reached the expiry, not that it has passed it.
    assert_eq!(world.sweep(), Answer::Done);
    // S0-37, S0-48: the expiry is recorded, and another worker takes over at once.
    let second = world.grant("bob");
    assert_eq!((second.attempt, second.worker.as_str()), (2, "bob"));
    // the expiry was recorded as a separate event before the grant.
    assert_eq!(world.attempt_outcomes(), [(AttemptOutcome::Lost, Some(Reason::HeartbeatTimeout))]);
}

#[test]
fn the_fence_grows_from_lease_to_lease_and_is_never_reset() {
    let (mut world, first) = World::running();
    let first_fence = world.lease().fence;
    world.beat(&first);
    let between = world.task().claim_version;
    world.report(&first, failed(Category::Infrastructure));
    // W-27: the claim version survives the release.
    assert!(world.task().claim_version > between);
    world.grant_when_due("bob");
    assert!(world.lease().fence > first_fence);
    assert_eq!(world.lease().fence, Fence::new(1, world.task().claim_version));
}

#[test]
fn a_restored_store_gives_larger_fences_whatever_the_versions_say() {
    let (mut world, _) = World::running();
    let before = world.lease().fence;
    world.lose();
    world.epoch = 2;
    world.grant_when_due("bob");
    assert!(world.lease().fence > before);
    assert_eq!(world.lease().fence.epoch(), 2);
}

#[test]
fn nothing_is_granted_before_it_is_due() {
    let run_at = START.plus(secs(10));
    let mut world = World::empty();
    world.ask(Request::Submit(Submit { run_at: Some(run_at), ..submission(Policy::default()) }));
    world.wait_until_just_before(run_at);
    let early = world.grant_request("ann");
    assert_eq!(world.ask_in_vain(early), Answer::Nothing);
    world.now = run_at;
    world.grant("ann");
}

#[test]
fn a_retry_waits_for_its_backoff_and_then_goes_straight_to_running() {
    let (mut world, _) = World::retrying();
    world.wait_until_just_before(world.due());
    let early = world.grant_request("bob");
    // S3-68, S2-96: no worker retries before the policy's due time.
    assert_eq!(world.ask_in_vain(early), Answer::Nothing);
    world.wait(Span::from_millis(1));
    // S2-37, R-16: from retry to running by a claim that is due, with no state in between.
    let second = world.grant("bob");
    assert_eq!(world.state(), State::Running);
    // S2-96, S2-112: the grant is what counts the attempt.
    assert_eq!(second.attempt, 2);
}

#[test]
fn nothing_is_granted_after_the_deadline() {
    let deadline = START.plus(secs(10));
    let mut world = World::submitted(Policy { deadline: Some(deadline), ..Policy::default() });
    world.now = deadline;
    let late = world.grant_request("ann");
    // W-31: nothing starts after the deadline.
    assert_eq!(world.ask_in_vain(late), Answer::Nothing);
}

#[test]
fn a_lease_ends_no_later_than_limit_and_deadline() {
    let deadline = START.plus(secs(20));
    let by_deadline = Policy { deadline: Some(deadline), ..Policy::default() };
    let by_limit = Policy { attempt_limit: Some(secs(15)), ..by_deadline.clone() };
    // W-31: the first lease respects the bounds of the whole attempt.
    assert_eq!(World::running_with(by_deadline).0.lease().expires_at, deadline);
    assert_eq!(World::running_with(by_limit).0.lease().expires_at, START.plus(secs(15)));
}

#[test]
fn a_grant_whose_worker_was_heard_is_not_taken_back() {
    let (mut world, caller) = World::running();
    world.start(&caller);
    let release = Request::Undelivered(verdict::request::Undelivered { lease: caller.lease });
    assert_eq!(world.ask_in_vain(release), Answer::Nothing);
}

#[test]
fn a_cancelled_grant_that_could_not_be_handed_over_ends_the_task() {
    let (mut world, caller) = World::running();
    world.cancel();
    assert_eq!(world.undelivered(&caller), Answer::Done);
    // W-22: a cancel request is never forgotten, so the task does not wait for a grant that cannot
    // come.
    assert_eq!(world.state(), State::Cancelled);
    assert_eq!(world.done().end.reason, Some(Reason::CancelRequested));
}

#[test]
fn the_clock_never_runs_backwards_for_a_task() {
    let (mut world, caller) = World::running();
    world.wait(secs(5));
    world.beat(&caller);
    let renewed = world.lease().expires_at;
    world.now = Time::from_millis(START.millis() - 60_000);
    world.beat(&caller);
    // the server's time decides, and it only moves forward.
    assert_eq!(world.lease().heartbeat_at, START.plus(secs(5)));
    assert_eq!(world.lease().expires_at, renewed);
}

#[test]
fn a_paused_queue_grants_nothing() {
    let mut world = World::queued();
    let request = world.grant_request("ann");
    let context = Context { is_queue_paused: true, ..Context::default() };
    let (before, at) = (world.subject.clone(), world.moment());
    let applied = apply(&mut world.subject, context, &request, at);
    assert_eq!((applied.answer.clone(), applied.events()), (Answer::Nothing, &[][..]));
    assert_eq!(world.subject, before);
    // The same task is granted as soon as the queue is resumed.
    world.grant("ann");
}
