//! Heartbeats.

use verdict::request::Heartbeat;
use verdict::task::Progress;
use verdict::verdict::CancelSignal;
use verdict::{Answer, Category, Event, Policy, Refusal, Request, Span, State, WorkerVerdict};

use crate::world::{START, World, as_worker, beat, failed, refusal, report, secs, succeeded};

#[test]
fn a_heartbeat_renews_by_the_time_it_was_received() {
    let (mut world, caller) = World::running();
    world.wait(secs(30));
    let received = START.plus(secs(30));
    let answer = world.beat(&caller);
    // the time of the accepted heartbeat plus the length of the lease.
    assert_eq!(answer, Answer::Alive { expires_at: received.plus(secs(90)), cancel: None });
    // S0-34, S4-20, S4-44, S2-102: the last renewal is tracked, at the time of receipt.
    assert_eq!(world.lease().heartbeat_at, received);
}

#[test]
fn work_longer_than_a_lease_goes_on_by_renewing_it() {
    let (mut world, caller) = World::running();
    for _ in 0..20 {
        world.wait(Policy::default().heartbeat_every);
        assert!(matches!(world.beat(&caller), Answer::Alive { .. }));
        assert_eq!(world.sweep(), Answer::Nothing);
    }
    // S0-42: ten minutes of work under a lease of ninety seconds.
    assert!(matches!(world.report(&caller, succeeded()), Answer::Committed { .. }));
}

#[test]
fn a_heartbeat_grants_nothing_and_leaves_no_history() {
    let (mut world, caller) = World::running();
    let before = world.task().clone();
    world.beat(&caller);
    let after = world.task();
    // S3-47, R-4: no attempt, no result, no entry; only the lease and its version change.
    assert_eq!((after.attempt, after.entries), (before.attempt, before.entries));
    assert!(!world.events.iter().any(Event::is_history));
    // a renewal increments the claim version by one.
    assert_eq!(after.claim_version, before.claim_version + 1);
    // and it does not count as a start.
    assert_eq!((after.started_at, world.lease().started_at), (None, None));
}

#[test]
fn heartbeats_twice_are_heartbeats_once() {
    let (mut world, caller) = World::running();
    let once = world.beat(&caller);
    let (expires_at, beat_at) = (world.lease().expires_at, world.lease().heartbeat_at);
    // S3-61: the same heartbeat delivered twice leaves the same lease and the same answer.
    assert_eq!(world.beat(&caller), once);
    assert_eq!((world.lease().expires_at, world.lease().heartbeat_at), (expires_at, beat_at));
}

#[test]
fn an_expired_lease_is_never_revived() {
    let (mut world, caller) = World::running();
    world.now = world.lease().expires_at;
    let answer = world.ask_in_vain(beat(&caller));
    // S3-49, S4-24: refused even before a sweep has run: 410 task_expired.
    assert_eq!(refusal(answer), Refusal::TaskExpired { state: State::Running });
    // S3-22, S3-66: and its report is CANCELLED, because the lease expired.
    let late = refusal(world.ask_in_vain(report(&caller, succeeded())));
    assert_eq!(late, Refusal::TaskExpired { state: State::Running });
    assert_eq!(late.worker_verdict(), WorkerVerdict::Cancelled);
}

#[test]
fn two_owners_cannot_both_renew() {
    let (mut world, first) = World::running();
    world.lose();
    let second = world.grant_when_due("bob");
    // S0-43: a lease that is not current renews nothing, in either spelling.
    let stale = refusal(world.ask_in_vain(beat(&first)));
    assert_eq!(stale, Refusal::AttemptSuperseded { expected: 2, received: 1 });
    let mixed = verdict::request::Caller { attempt: 2, ..first.clone() };
    assert!(matches!(refusal(world.ask_in_vain(beat(&mixed))), Refusal::TaskExpired { .. }));
    let stolen = as_worker(&second, "ann");
    assert_eq!(refusal(world.ask_in_vain(beat(&stolen))), Refusal::WorkerMismatch);
    assert!(matches!(world.beat(&second), Answer::Alive { .. }));
}

#[test]
fn a_heartbeat_after_the_end_is_told_to_abort() {
    let (mut world, caller) = World::succeeded();
    let answer = refusal(world.ask_in_vain(beat(&caller)));
    // S4-24, R-35: 410, not 409: there is nothing left to renew.
    assert_eq!(answer, Refusal::TaskExpired { state: State::Succeeded });
    let (mut world, caller) = World::running();
    world.report(&caller, failed(Category::UserCode));
    let answer = refusal(world.ask_in_vain(beat(&caller)));
    assert_eq!(answer, Refusal::TaskExpired { state: State::Retry });
}

#[test]
fn nothing_renews_beyond_the_attempts_limit_or_the_deadline() {
    let limited = Policy { attempt_limit: Some(secs(200)), ..Policy::default() };
    let ending = Policy { deadline: Some(START.plus(secs(200))), ..Policy::default() };
    for policy in [limited, ending] {
        let (mut world, caller) = World::running_with(policy);
        for _ in 0..6 {
            world.wait(secs(30));
            world.beat(&caller);
            // W-21, W-31: renewals are bounded by the end of the whole attempt.
            assert!(world.lease().expires_at <= START.plus(secs(200)));
        }
        assert_eq!(world.lease().expires_at, START.plus(secs(200)));
        world.wait(secs(20));
        assert!(matches!(refusal(world.beat(&caller)), Refusal::TaskExpired { .. }));
        // S2-101: an attempt that exceeds its limit is detected although the worker is alive.
        assert_eq!(world.sweep(), Answer::Done);
        assert_ne!(world.state(), State::Running);
    }
}

#[test]
fn progress_is_an_observation_and_the_last_one_counts() {
    let (mut world, caller) = World::running();
    let say = |percent| Progress { percent: Some(percent), message: Some("rows".into()) };
    for percent in [80, 20] {
        let progress = Some(say(percent));
        world.ask(Request::Heartbeat(Heartbeat { caller: caller.clone(), progress }));
        // the last write wins, even if the value decreases.
        assert_eq!(world.lease().progress, Some(say(percent)));
    }
    world.beat(&caller);
    assert_eq!(world.lease().progress, Some(say(20)));
}

#[test]
fn the_cancel_signal_comes_with_the_next_heartbeat() {
    let (mut world, caller) = World::running();
    world.start(&caller);
    world.cancel();
    // S4-48: the worker is only signalled, so the task keeps running and keeps its lease.
    assert_eq!(world.state(), State::Running);
    let answer = world.beat(&caller);
    // S4-22, S4-49: with the reason given in the cancel request.
    let signal = CancelSignal { reason: Some("user_requested".into()) };
    assert!(matches!(answer, Answer::Alive { cancel: Some(heard), .. } if heard == signal));
    // the grace period counts from this answer, and only from the first one.
    assert_eq!(world.task().grace_ends_at(), Some(START.plus(secs(30))));
    world.wait(Span::from_millis(500));
    world.beat(&caller);
    assert_eq!(world.task().grace_ends_at(), Some(START.plus(secs(30))));
}
