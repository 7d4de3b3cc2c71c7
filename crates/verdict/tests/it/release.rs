//! Releases: a worker that stops hands its task back without a penalty, and not without end.

use verdict::policy::RELEASES_MAX;
use verdict::request::{Caller, Outcome};
use verdict::{
    Answer, AttemptOutcome, Category, Policy, Reason, Refusal, Span, State, WorkerVerdict,
};

use crate::world::{START, World, failed, refusal, report, secs, succeeded};

fn release(world: &mut World, caller: &Caller) -> Answer {
    world.report(caller, Outcome::Released)
}

/// Releases `count` grants, each after it was held for `held`, and returns the pause before each next grant.
fn pauses(world: &mut World, count: u32, held: Span) -> Vec<Span> {
    let one = |_| {
        let caller = world.grant_when_due("ann");
        world.wait(held);
        release(world, &caller);
        world.due().since(world.now)
    };
    (0..count).map(one).collect()
}

#[test]
fn a_released_task_is_leased_again_and_nothing_was_counted() {
    let (mut world, caller) = World::running();
    world.start(&caller);
    world.wait(secs(60));
    let answer = release(&mut world, &caller);
    let outcome = AttemptOutcome::Released;
    assert_eq!(answer, Answer::Committed { outcome, state: State::Retry, replayed: false });
    assert_eq!(world.attempt_outcomes(), [(outcome, Some(Reason::Released))]);
    let task = world.task();
    assert_eq!((task.failures, task.lost, task.undelivered), (0, 0, 0));
    // An attempt that lasted for a while is followed at once.
    assert_eq!(world.due(), world.now);
    assert_eq!(world.grant("bob").attempt, 2);
}

#[test]
fn many_restarts_of_its_workers_do_not_fail_a_long_run() {
    let policy = Policy { failures_max: 1, lost_max: 1, lease: secs(600), ..Policy::default() };
    let mut world = World::submitted(policy);
    // Attempts that last longer than the longest spacing follow each other at once.
    assert_eq!(pauses(&mut world, 20, secs(301)), [Span::ZERO; 20]);
    let caller = world.grant("ann");
    world.report(&caller, succeeded());
    assert_eq!((world.state(), world.done().attempt), (State::Succeeded, 21));
}

#[test]
fn the_released_attempt_has_no_authority_any_more() {
    let (mut world, caller) = World::running();
    release(&mut world, &caller);
    // repeated, it gets its answer; another report of the lease is refused.
    let again = world.ask_in_vain(report(&caller, Outcome::Released));
    assert!(matches!(again, Answer::Committed { replayed: true, .. }), "{again:?}");
    let other = refusal(world.ask_in_vain(report(&caller, succeeded())));
    assert_eq!(other, Refusal::ConflictingReport { state: State::Retry });
    let beat = refusal(world.beat(&caller));
    assert_eq!(beat, Refusal::TaskExpired { state: State::Retry });
    let next = world.grant_when_due("bob");
    // S3-49: and a later lease does not revive it.
    let late = refusal(world.beat(&caller));
    assert_eq!(late.worker_verdict(), WorkerVerdict::Cancelled);
    assert_eq!(world.report(&next, succeeded()), committed_success());
}

fn committed_success() -> Answer {
    let (outcome, state) = (AttemptOutcome::Succeeded, State::Succeeded);
    Answer::Committed { outcome, state, replayed: false }
}

#[test]
fn a_release_before_the_start_implies_no_start() {
    let (mut world, caller) = World::running();
    release(&mut world, &caller);
    assert_eq!((world.closed[0].started_at, world.task().started_at), (None, None));
}

#[test]
fn a_worker_that_hands_back_at_once_waits_longer_and_longer() {
    let mut world = World::queued();
    let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map(secs);
    assert_eq!(pauses(&mut world, 11, Span::ZERO), expected);
    world.wait_until_just_before(world.due());
    let early = world.grant_request("bob");
    assert_eq!(world.ask_in_vain(early), Answer::Nothing);
}

#[test]
fn the_time_until_the_next_grant_counts_from_the_last_one() {
    let (mut world, caller) = World::running();
    world.wait(Span::from_millis(400));
    release(&mut world, &caller);
    assert_eq!(world.due(), START.plus(secs(1)));
}

#[test]
fn a_task_with_short_leases_waits_few_of_them() {
    let mut world = World::submitted(Policy { lease: secs(2), ..Policy::default() });
    let expected = [1, 2, 4, 8, 8, 8].map(secs);
    assert_eq!(pauses(&mut world, 6, Span::ZERO), expected);
}

#[test]
fn releases_are_limited_and_failures_are_not_among_them() {
    // S2-100, W-19: a task that nobody works on ends.
    let mut world = World::submitted(Policy { failures_max: 3, ..Policy::default() });
    let caller = world.grant("ann");
    world.report(&caller, failed(Category::UserCode));
    pauses(&mut world, RELEASES_MAX, Span::ZERO);
    assert_eq!((world.state(), world.task().uncounted()), (State::Retry, RELEASES_MAX));
    let caller = world.grant_when_due("ann");
    release(&mut world, &caller);
    let done = world.done();
    let reason = Some(Reason::ReleasesExhausted);
    assert_eq!((done.end.state, done.end.reason), (State::Failed, reason));
    assert_eq!((done.failures, done.lost), (1, 0));
    assert_eq!(world.closed.last().unwrap().reason, Some(Reason::Released));
}

#[test]
fn a_release_with_a_cancel_pending_ends_the_task() {
    let (mut world, caller) = World::running();
    world.cancel();
    world.beat(&caller);
    let answer = release(&mut world, &caller);
    let outcome = AttemptOutcome::Released;
    // S4-48: the worker has stopped, and nobody will start again.
    assert_eq!(answer, Answer::Committed { outcome, state: State::Cancelled, replayed: false });
    assert_eq!(world.done().end.reason, Some(Reason::CancelRequested));
}
