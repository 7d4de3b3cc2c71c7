//! Grants that are handed back undelivered: the first costs nothing, a series of them pauses and
//! ends the task.

use verdict::policy::UNDELIVERED_MAX;
use verdict::{Answer, AttemptOutcome, Category, Policy, Reason, Request, Span, State, Time};

use crate::world::{START, World, failed, secs};

/// Hands back `count` grants in a row, each as soon as it is due, and returns the length of each
/// pause.
fn pauses(world: &mut World, count: u32) -> Vec<Span> {
    let one = |_| {
        let caller = world.grant_when_due("ann");
        assert_eq!(world.undelivered(&caller), Answer::Done);
        world.due().since(world.now)
    };
    (0..count).map(one).collect()
}

#[test]
fn a_single_grant_that_came_back_keeps_its_place_and_costs_nothing() {
    let (mut world, caller) = World::running();
    assert_eq!(world.undelivered(&caller), Answer::Done);
    assert_eq!((world.state(), world.due()), (State::Retry, START));
    let task = world.task();
    assert_eq!((task.failures, task.lost, task.undelivered), (0, 0, 1));
    assert_eq!(world.attempt_outcomes(), [(AttemptOutcome::Undelivered, Some(Reason::HandedBack))]);
    assert_eq!(world.grant("bob").attempt, 2);
}

#[test]
fn grants_that_come_back_in_a_row_wait_longer_and_longer_and_then_the_task_ends() {
    let mut world = World::queued();
    let pauses = pauses(&mut world, UNDELIVERED_MAX - 1);
    assert_eq!(pauses[0], Span::ZERO);
    let is_growing = pauses.windows(2).all(|pair| pair[0] < pair[1] || pair[1] >= secs(300));
    assert!(is_growing, "{pauses:?}");
    let caller = world.grant_when_due("ann");
    world.undelivered(&caller);
    // S2-10, S2-54: the pool takes its grant back and sets no outcome; the sweep that is due at once does.
    assert_eq!((world.state(), world.task().wakes_at()), (State::Retry, Some(world.now)));
    let again = world.grant_request("bob");
    assert_eq!(world.ask_in_vain(again), Answer::Nothing);
    assert_eq!(world.sweep(), Answer::Done);
    // W-19: a task that cannot be delivered ends, as if each grant had expired without a call.
    let done = world.done();
    assert_eq!((done.end.state, done.end.reason), (State::Failed, Some(Reason::Undelivered)));
    assert_eq!((done.attempt, done.failures, done.lost), (UNDELIVERED_MAX, 0, 0));
}

#[test]
fn a_policy_without_pauses_does_not_make_hand_backs_free() {
    let hasty = Policy { retry_base: Span::ZERO, retry_cap: Span::ZERO, ..Policy::default() };
    let mut world = World::submitted(hasty);
    let total: u64 =
        pauses(&mut world, UNDELIVERED_MAX - 1).iter().map(|pause| pause.millis()).sum();
    // Longer than a proxy needs to restart: no transient fault ends a task.
    assert_eq!(total, 255_000);
}

#[test]
fn a_task_with_short_leases_rests_a_part_of_one_first() {
    let policy = Policy {
        lease: secs(2),
        retry_base: Span::ZERO,
        retry_cap: Span::ZERO,
        ..Policy::default()
    };
    let mut world = World::submitted(policy);
    let expected = [0, 250, 500, 1_000].map(Span::from_millis);
    assert_eq!(pauses(&mut world, 4), expected);
}

#[test]
fn unheard_grants_and_hand_backs_are_one_row_that_a_call_ends() {
    let mut world = World::queued();
    for _ in 0..UNDELIVERED_MAX / 2 {
        world.grant_when_due("ann");
        world.lose();
        let caller = world.grant_when_due("ann");
        world.undelivered(&caller);
    }
    world.sweep();
    assert_eq!(world.done().end.reason, Some(Reason::Undelivered));

    let mut world = World::queued();
    pauses(&mut world, UNDELIVERED_MAX - 1);
    let caller = world.grant_when_due("ann");
    world.report(&caller, failed(Category::UserCode));
    assert_eq!(world.task().undelivered, 0, "somebody was there");
    assert_eq!(pauses(&mut world, 1), [Span::ZERO]);
}

#[test]
fn nothing_is_granted_within_the_pause() {
    let mut world = World::queued();
    pauses(&mut world, 2);
    world.wait_until_just_before(world.due());
    let early = world.grant_request("bob");
    assert_eq!(world.ask_in_vain(early), Answer::Nothing);
}

#[test]
fn a_grant_that_came_back_is_handed_back_once() {
    let (mut world, caller) = World::running();
    world.undelivered(&caller);
    let again = Request::Undelivered(verdict::request::Undelivered { lease: caller.lease });
    assert_eq!(world.ask_in_vain(again), Answer::Nothing);
    assert_eq!(world.now, Time::from_millis(START.millis()));
}
