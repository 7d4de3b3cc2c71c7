//! Worlds of flow keys: no more leases than the limit, no slot that leaks, no parked task that is forgotten; and planted bugs
//! are found.

use tenure_model::flow::{
    self, FlowBounds, FlowProperty, Following, Indexed, Placed, SlotIndex, find,
};
use tenure_model::{Production, Rules};
use verdict::flow::{Move, Slots};
use verdict::{Context, Moment, ReadSet, Request, Verdict, decide};

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

#[test]
fn a_lost_worker_that_keeps_its_slot() {
    let found = find(flow::one_slot(), Production, Leaking, FlowProperty::NoLeak);
    assert!(found.is_some(), "the bug went unnoticed");
}
