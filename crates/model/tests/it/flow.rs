//! Worlds of flow keys: no more slots held than the limit, no more starts than the rate, no slot that leaks, no parked task that is
//! forgotten; and planted bugs are found.

use tenure_model::flow::{
    self, FlowBounds, FlowProperty, Following, Indexed, Placed, SlotIndex, find,
};
use tenure_model::{Production, Rules};
use verdict::flow::{Hold, KeyUse, Move, Slots};
use verdict::{Context, FlowUses, Moment, ReadSet, Request, Span, Subject, Time, Verdict, decide};

/// One thread each: the tests run in parallel.
fn prove(bounds: FlowBounds) {
    let outcome = flow::explore(bounds, 1);
    assert!(outcome.is_proof(), "{outcome}");
    // A world without choices proves nothing.
    assert!(outcome.unique > 5_000, "{outcome}");
}

#[test]
fn one_slot_for_three_tasks() {
    prove(flow::one_slot());
}

#[test]
fn two_slots_for_four_tasks() {
    prove(flow::two_slots());
}

#[test]
fn two_limits_of_one_key() {
    prove(flow::two_limits());
}

#[test]
fn one_slot_held_for_life() {
    prove(flow::one_slot_for_life());
}

#[test]
fn two_slots_held_for_life() {
    prove(flow::two_slots_for_life());
}

#[test]
fn one_start_in_each_window() {
    prove(flow::one_start_at_a_time());
}

#[test]
fn two_starts_and_one_slot() {
    prove(flow::two_starts_and_one_slot());
}

struct Overfilling;

impl Rules for Overfilling {
    /// A grant that asks nobody about the key.
    fn decide(&self, read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let context = Context { flows: None, ..read_set.context };
        decide(ReadSet { context, ..read_set }, request, at)
    }
}

#[test]
fn a_grant_that_does_not_ask_its_key() {
    let found = find(flow::one_slot(), Overfilling, Following, FlowProperty::Held);
    assert!(found.is_some(), "the bug went unnoticed");
}

/// An index in which one thing is wrong: what it makes of the standing of a task.
struct Deaf(fn(Indexed, Indexed) -> bool);

impl SlotIndex for Deaf {
    fn follow(
        &self,
        slots: &mut Slots<u8>,
        at: Placed,
        before: Indexed,
        after: Indexed,
    ) -> Vec<Move<u8>> {
        let moves = Following.follow(slots, at, before, after);
        if (self.0)(before, after) { Vec::new() } else { moves }
    }
}

#[test]
fn a_free_slot_that_brings_nobody_back() {
    // The slots know who is next, and the ready order never hears of it.
    let is_freed = |before, _| before == Indexed::Leased;
    let found = find(flow::one_slot(), Production, Deaf(is_freed), FlowProperty::NoneForgotten);
    assert!(found.is_some(), "the bug went unnoticed");
}

struct Leaking;

impl SlotIndex for Leaking {
    /// A lease that ends without an end of its task keeps its slot.
    fn follow(
        &self,
        slots: &mut Slots<u8>,
        at: Placed,
        before: Indexed,
        after: Indexed,
    ) -> Vec<Move<u8>> {
        let is_lost = before == Indexed::Leased && after == Indexed::Away;
        let moves = Following.follow(slots, at, before, after);
        if is_lost { slots.hold(at.position.task()) } else { moves }
    }
}

struct Forgetful;

impl SlotIndex for Forgetful {
    /// A slot that should be kept for life goes with the lease.
    fn follow(
        &self,
        slots: &mut Slots<u8>,
        at: Placed,
        before: Indexed,
        after: Indexed,
    ) -> Vec<Move<u8>> {
        let after = if after == Indexed::Kept { Indexed::Away } else { after };
        Following.follow(slots, at, before, after)
    }
}

struct SecondSlot;

impl Rules for SecondSlot {
    /// A task that holds its slot for life needs another one to be leased again.
    fn decide(&self, read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut subject = read_set.subject.clone();
        if let Subject::Live(task) = &mut subject
            && let Some(flow) = task.run.as_mut().and_then(|run| run.flow.as_mut())
            && matches!(request, Request::Grant(_))
        {
            flow.hold = Hold::Lease;
        }
        decide(ReadSet { subject: &subject, ..read_set }, request, at)
    }
}

#[test]
fn a_holder_that_needs_a_second_slot() {
    let found = find(flow::one_slot_for_life(), SecondSlot, Following, FlowProperty::Granted);
    assert!(found.is_some(), "the bug went unnoticed");
}

struct Hasty;

impl Rules for Hasty {
    /// A grant that asks for a slot, and not for the rate.
    fn decide(&self, read_set: ReadSet<'_>, request: &Request, at: Moment) -> Verdict {
        let mut flows = FlowUses::default();
        let key = "acme".into();
        let in_use = read_set.context.flows.and_then(|flows| flows.get(&key));
        flows.put(key, in_use.map(|in_use| KeyUse { rate: None, ..in_use }));
        let context = Context { flows: Some(&flows), ..read_set.context };
        decide(ReadSet { context, ..read_set }, request, at)
    }
}

#[test]
fn a_grant_that_does_not_ask_for_the_rate() {
    let found = find(flow::one_start_at_a_time(), Hasty, Following, FlowProperty::Rate);
    assert!(found.is_some(), "the bug went unnoticed");
}

/// An index that does something else when time passes.
struct Clock(fn(&mut Slots<u8>, Time) -> Vec<Move<u8>>);

impl SlotIndex for Clock {
    fn follow(
        &self,
        slots: &mut Slots<u8>,
        at: Placed,
        before: Indexed,
        after: Indexed,
    ) -> Vec<Move<u8>> {
        Following.follow(slots, at, before, after)
    }

    fn advance(&self, slots: &mut Slots<u8>, now: Time) -> Vec<Move<u8>> {
        (self.0)(slots, now)
    }
}

#[test]
fn an_open_key_that_brings_nobody_back() {
    let is_silent = |slots: &mut Slots<u8>, now| {
        slots.advance(now);
        Vec::new()
    };
    let world = flow::one_start_at_a_time();
    let found = find(world, Production, Clock(is_silent), FlowProperty::NoneForgotten);
    assert!(found.is_some(), "the bug went unnoticed");
}

#[test]
fn windows_that_begin_at_full_units() {
    // Twice as many start around a border.
    let by_the_clock = |slots: &mut Slots<u8>, now: Time| {
        if now.millis() % 2 == 0 {
            slots.forget_starts(Span::from_millis(0));
        }
        slots.advance(now)
    };
    let world = flow::one_start_at_a_time();
    let found = find(world, Production, Clock(by_the_clock), FlowProperty::Rate);
    assert!(found.is_some(), "the bug went unnoticed");
}

struct Oblivious;

impl SlotIndex for Oblivious {
    fn follow(
        &self,
        slots: &mut Slots<u8>,
        at: Placed,
        before: Indexed,
        after: Indexed,
    ) -> Vec<Move<u8>> {
        Following.follow(slots, at, before, after)
    }

    /// A start that is not recorded.
    fn start(&self, _: &mut Slots<u8>, _: Time) -> Vec<Move<u8>> {
        Vec::new()
    }
}

#[test]
fn a_start_that_nobody_remembers() {
    let world = flow::two_starts_and_one_slot();
    let found = find(world, Production, Oblivious, FlowProperty::Rate);
    assert!(found.is_some(), "the bug went unnoticed");
}

#[test]
fn a_slot_for_life_that_goes_with_the_lease() {
    let found = find(flow::one_slot_for_life(), Production, Forgetful, FlowProperty::NoLeak);
    assert!(found.is_some(), "the bug went unnoticed");
}

#[test]
fn a_lost_worker_that_keeps_its_slot() {
    let found = find(flow::one_slot(), Production, Leaking, FlowProperty::NoLeak);
    assert!(found.is_some(), "the bug went unnoticed");
}
