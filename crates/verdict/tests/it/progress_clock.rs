//! Progress apart from liveness: an attempt that lives and gets nowhere is found at the exact instant, and one that makes
//! progress is spared.

use verdict::explain::{Gate, explain};
use verdict::request::{Caller, Heartbeat};
use verdict::{
    Answer, AttemptOutcome, Event, OnStall, Policy, Progress, ProgressClock, Reason, Refusal,
    Renewals, Request, Span, State,
};

use crate::world::{START, World, beat, cancelled, refusal, secs, succeeded};

const AFTER: Span = Span::from_secs(20);

fn policy(action: OnStall) -> Policy {
    let progress_clock = Some(ProgressClock { after: AFTER, action });
    Policy { progress_clock, ..Policy::default() }
}

/// A task whose worker has started.
fn started(action: OnStall) -> (World, Caller) {
    let (mut world, caller) = World::running_with(policy(action));
    world.start(&caller);
    (world, caller)
}

fn said(caller: &Caller, percent: u8) -> Request {
    let progress = Some(Progress { percent: Some(percent), message: None });
    Request::Heartbeat(Heartbeat { caller: caller.clone(), progress })
}

/// Lets time pass in which the worker sends heartbeats and gets nowhere.
fn wedge(world: &mut World, caller: &Caller) {
    world.wait(secs(10));
    world.ask(beat(caller));
    world.now = world.task().stalls_at().expect("the clock runs");
}

#[test]
fn a_worker_that_lives_and_gets_nowhere_stalls_at_the_exact_instant() {
    let (mut world, caller) = started(OnStall::Warn);
    world.wait(secs(10));
    world.ask(said(&caller, 5));
    world.wait(secs(10));
    // The same progress again is a sign of life and nothing else.
    world.ask(said(&caller, 5));
    let due = START.plus(secs(10)).plus(AFTER);
    assert_eq!(world.task().wakes_at(), Some(due));
    world.wait_until_just_before(due);
    world.ask_in_vain(Request::Sweep);
    world.now = due;
    assert_eq!(world.sweep(), Answer::Done);
    assert_eq!(world.events, [Event::Stalled { since: START.plus(secs(10)) }]);
}

#[test]
fn a_worker_that_makes_progress_is_spared() {
    let (mut world, caller) = started(OnStall::Requeue);
    for percent in 1..100 {
        world.wait(secs(19));
        world.ask(said(&caller, percent));
        world.ask_in_vain(Request::Sweep);
    }
    assert_eq!(world.report(&caller, succeeded()), committed(State::Succeeded));
}

fn committed(state: State) -> Answer {
    let outcome = match state {
        State::Cancelled => AttemptOutcome::Cancelled,
        _ => AttemptOutcome::Succeeded,
    };
    Answer::Committed { outcome, state, replayed: false }
}

#[test]
fn a_grant_that_no_worker_answered_is_judged_by_its_lease_alone() {
    let (mut world, _) = World::running_with(policy(OnStall::Requeue));
    assert_eq!(world.task().stalls_at(), None);
    assert_eq!(world.task().wakes_at(), Some(world.lease().expires_at));
    world.lose();
    assert_eq!((world.task().undelivered, world.task().lost), (1, 0));
}

#[test]
fn the_first_call_of_a_worker_starts_the_clock_whichever_it_is() {
    let (mut world, caller) = World::running_with(policy(OnStall::Warn));
    world.wait(secs(7));
    world.ask(beat(&caller));
    assert_eq!(world.task().stalls_at(), Some(START.plus(secs(7)).plus(AFTER)));
}

#[test]
fn a_stall_is_warned_of_once_and_again_only_after_progress() {
    let (mut world, caller) = started(OnStall::Warn);
    wedge(&mut world, &caller);
    world.sweep();
    assert_eq!(world.lease().progress_mark.and_then(|mark| mark.stalled_at), Some(world.now));
    assert_eq!(world.task().wakes_at(), Some(world.lease().expires_at), "the clock stands still");
    world.ask_in_vain(Request::Sweep);
    world.ask(said(&caller, 50));
    assert_eq!(world.task().stalls_at(), Some(world.now.plus(AFTER)));
    wedge(&mut world, &caller);
    world.sweep();
    assert_eq!(world.events.len(), 1);
    assert_eq!((world.state(), world.task().lost), (State::Running, 0));
}

#[test]
fn a_stall_cancels_as_a_client_would() {
    let (mut world, caller) = started(OnStall::Cancel);
    wedge(&mut world, &caller);
    world.sweep();
    let names: Vec<&str> = world.events.iter().map(Event::name).collect();
    assert_eq!(names, ["stalled", "cancel_requested"]);
    let Answer::Alive { cancel: Some(signal), .. } = world.beat(&caller) else {
        panic!("the heartbeat carries the signal")
    };
    let reason = signal.reason.expect("a cancel for a stall has a reason");
    assert!(reason.as_str().starts_with("STALLED: "), "{}", reason.as_str());
    // Progress after the cancel does not take it back.
    world.ask(said(&caller, 99));
    assert_eq!(world.task().stalls_at(), None);
    assert_eq!(world.report(&caller, cancelled()), committed(State::Cancelled));
    assert_eq!(world.done().end.reason, Some(Reason::Stalled));
}

#[test]
fn a_worker_that_ignores_the_cancel_loses_its_lease_after_the_grace_period() {
    let (mut world, caller) = started(OnStall::Cancel);
    wedge(&mut world, &caller);
    world.sweep();
    world.beat(&caller);
    world.now = world.task().grace_ends_at().expect("the worker was told");
    world.sweep();
    let end = &world.done().end;
    assert_eq!((end.state, end.reason), (State::Failed, Some(Reason::CancelTimeout)));
}

#[test]
fn a_stalled_worker_that_then_falls_silent_leaves_a_cancelled_task() {
    let (mut world, caller) = started(OnStall::Cancel);
    wedge(&mut world, &caller);
    let long = Policy { cancel_grace: secs(3_600), ..world.task().policy.clone() };
    let mut world = {
        let (mut patient, caller) = World::running_with(long);
        patient.start(&caller);
        wedge(&mut patient, &caller);
        patient
    };
    world.sweep();
    world.now = world.lease().expires_at;
    world.sweep();
    let end = &world.done().end;
    assert_eq!((end.state, end.reason), (State::Cancelled, Some(Reason::Stalled)));
}

#[test]
fn a_stalled_task_is_taken_from_its_worker_and_offered_again_at_once() {
    let (mut world, caller) = started(OnStall::Requeue);
    wedge(&mut world, &caller);
    world.sweep();
    assert_eq!(world.attempt_outcomes(), [(AttemptOutcome::Revoked, Some(Reason::Stalled))]);
    assert_eq!((world.state(), world.due()), (State::Retry, world.now));
    assert_eq!((world.task().lost, world.task().failures), (1, 0));
    // The stuck worker has lost its authority: none of its calls counts any more.
    let expired = Refusal::TaskExpired { state: State::Retry };
    assert_eq!(refusal(world.ask_in_vain(beat(&caller))), expired);
    let next = world.grant("bob");
    assert!(world.lease().fence.as_u64() > 0 && next.attempt == 2);
    assert_eq!(world.lease().progress_mark, None, "each attempt has its own clock");
    world.start(&next);
    assert_eq!(world.report(&next, succeeded()), committed(State::Succeeded));
}

#[test]
fn a_task_that_stalls_every_worker_ends_like_one_that_loses_them() {
    // W-19: stalls and lost workers share one limit.
    let (mut world, _) = started(OnStall::Requeue);
    for attempt in 1..=3 {
        let caller = match attempt {
            1 => world.caller(),
            _ => world.grant_when_due("ann"),
        };
        world.start(&caller);
        if attempt == 2 {
            world.lose();
        } else {
            wedge(&mut world, &caller);
            world.sweep();
        }
    }
    let end = &world.done().end;
    assert_eq!((end.state, end.reason), (State::Failed, Some(Reason::Stalled)));
    assert_eq!(world.done().lost, 3);
}

#[test]
fn a_worker_that_is_silent_too_is_lost_and_not_stalled() {
    let long = ProgressClock { after: secs(90), action: OnStall::Requeue };
    let (mut world, caller) =
        World::running_with(Policy { progress_clock: Some(long), ..Policy::default() });
    world.start(&caller);
    world.lose();
    let lost = (AttemptOutcome::Lost, Some(Reason::HeartbeatTimeout));
    assert_eq!(world.attempt_outcomes(), [lost]);
}

#[test]
fn our_own_stall_is_given_back_to_the_progress_clock() {
    let (mut world, caller) = started(OnStall::Requeue);
    world.wait(secs(5));
    world.beat(&caller);
    let (stalled_since, due) = (world.now, world.task().stalls_at().expect("the clock runs"));
    world.wait(secs(60));
    world.extend(stalled_since, secs(60));
    assert_eq!(world.task().stalls_at(), Some(due.plus(secs(60))));
    world.ask_in_vain(Request::Sweep);
    // A silence of ours matters to the shortest of the two clocks.
    assert_eq!(world.task().policy.shortest_silence(), AFTER);
}

#[test]
fn a_clock_that_does_not_run_is_not_moved_by_our_own_stall() {
    let (mut world, caller) = started(OnStall::Warn);
    wedge(&mut world, &caller);
    world.sweep();
    let mark = world.lease().progress_mark;
    let since = world.now;
    world.wait(secs(30));
    world.extend(since, secs(30));
    assert_eq!(world.lease().progress_mark, mark);
}

#[test]
fn a_pending_cancel_stops_the_clock() {
    let (mut world, _) = started(OnStall::Requeue);
    world.cancel();
    assert_eq!(world.task().stalls_at(), None);
    world.wait(AFTER);
    world.ask_in_vain(Request::Sweep);
}

#[test]
fn a_restored_store_does_not_cancel_for_the_stall_that_it_caused() {
    let (mut world, caller) = started(OnStall::Cancel);
    wedge(&mut world, &caller);
    world.epoch = 2;
    world.sweep();
    assert!(world.task().cancel.is_none());
    world.ask_in_vain(Request::Sweep);
    world.lose();
    assert_eq!(world.state(), State::Retry);
}

#[test]
fn what_heartbeats_changed_rebuilds_the_clock() {
    let (mut world, caller) = started(OnStall::Warn);
    wedge(&mut world, &caller);
    world.sweep();
    let before = world.task().clone();
    world.wait(secs(3));
    world.ask(said(&caller, 7));
    let mut rebuilt = before;
    Renewals::of(world.task()).restore(&mut rebuilt);
    assert_eq!(rebuilt.lease().map(|it| it.progress_mark), Some(world.lease().progress_mark));
}

#[test]
fn the_clock_is_among_the_reasons_that_a_task_is_explained_with() {
    let (mut world, caller) = started(OnStall::Cancel);
    let clock = ProgressClock { after: AFTER, action: OnStall::Cancel };
    let until = Some(START.plus(AFTER));
    let gate = Gate::Progress { clock, since: START, stalled_at: None, until };
    assert!(explain(&world.subject, None, world.moment()).contains(&gate));
    wedge(&mut world, &caller);
    world.sweep();
    let gate = Gate::Progress { clock, since: START, stalled_at: Some(world.now), until: None };
    assert!(explain(&world.subject, None, world.moment()).contains(&gate));
}

/// A task without a clock of its own whose worker has started.
fn plain() -> (World, Caller) {
    let (mut world, caller) = World::running();
    world.start(&caller);
    (world, caller)
}

/// Sends heartbeats that say nothing until just before the instant.
fn only_heartbeats(world: &mut World, caller: &Caller, until: verdict::Time) {
    while world.now.plus(secs(60)) < until {
        world.wait(secs(60));
        world.ask(beat(caller));
        world.ask_in_vain(Request::Sweep);
    }
}

#[test]
fn no_attempt_only_sends_heartbeats_for_ever() {
    // Proves: S2-100, S2-101: a worker that lives and says nothing else loses the task after a day, which is due again at once.
    let (mut world, caller) = plain();
    let due = START.plus(verdict::progress_clock::AFTER_DEFAULT);
    only_heartbeats(&mut world, &caller, due);
    assert_eq!(world.task().wakes_at(), Some(due), "the sweep comes at that instant");
    world.now = due;
    assert_eq!(world.sweep(), Answer::Done);
    assert_eq!(world.task().state(), State::Retry);
    assert_eq!(world.task().lost, 1, "it counts like a lost worker, so the third one ends it");
    let late = refusal(world.ask(beat(&caller)));
    assert!(matches!(late, Refusal::TaskExpired { .. }), "{late:?}");
}

#[test]
fn work_of_days_that_says_how_far_it_is_goes_on() {
    let (mut world, caller) = plain();
    for percent in 1..=9 {
        let noon = world.now.plus(Span::from_secs(12 * 60 * 60));
        only_heartbeats(&mut world, &caller, noon);
        world.ask(said(&caller, percent));
    }
    assert!(world.now > START.plus(Span::from_secs(4 * 24 * 60 * 60)), "it took days");
    assert_eq!(world.report(&caller, succeeded()), committed(State::Succeeded));
}

#[test]
fn a_plain_task_remembers_nothing_for_the_clock_that_nobody_asked_for() {
    let (mut world, caller) = plain();
    world.wait(secs(10));
    world.ask(beat(&caller));
    assert_eq!(world.lease().progress_mark, None);
    let long = Policy { lease: Span::from_secs(24 * 60 * 60), ..Policy::default() };
    assert_eq!(long.clock().after, Span::from_secs(48 * 60 * 60), "two leases at least");
}
