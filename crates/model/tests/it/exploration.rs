//! The short form of every world: every property holds, every coverage goal is reached.

use std::collections::BTreeSet;

use tenure_model::{Bounds, Extent, coverage, explore, worlds};

/// One thread each: the tests run in parallel.
fn prove(bounds: Bounds) {
    let outcome = explore(bounds, 1);
    assert!(outcome.is_proof(), "{outcome}");
    // A world without choices proves nothing.
    assert!(outcome.unique > 10_000, "{outcome}");
}

#[test]
fn one_task_and_three_workers() {
    // leases, reports, counts and cancels, in every
    // order, with calls that are lost, repeated and late.
    prove(worlds::one_task_three_workers(Extent::Short));
}

#[test]
fn two_tasks_and_two_workers() {
    // S0-40, W-1: no call about one task affects the lease of another.
    prove(worlds::two_tasks_two_workers(Extent::Short));
}

#[test]
fn limits_and_a_clock_that_is_set_back() {
    // S2-113, W-21, W-31: deadline and attempt limit, whatever the clock does.
    prove(worlds::limits_and_clocks(Extent::Short));
}

#[test]
fn a_store_restored_from_a_backup() {
    // S3-24, R-1: leases granted before a restore have no authority, and fences still grow.
    prove(worlds::restored(Extent::Short));
}

#[test]
fn grants_that_nobody_answers() {
    // S2-100, W-19: a task whose workers never call fails in the end.
    prove(worlds::nobody_answers());
}

#[test]
fn grants_that_come_back() {
    // S2-100, W-19: a worker that disconnects on every grant delays the task more and more, and finally fails it.
    prove(worlds::grants_come_back());
}

#[test]
fn a_history_that_is_nearly_full() {
    // S2-41, W-27: the last attempts fit, the task ends, and no counter wraps around.
    prove(worlds::nearly_full());
}

#[test]
fn a_task_that_workers_hand_back_again_and_again() {
    // S2-100, W-19: a release is neither a failure nor a lost worker, and still not without end.
    prove(worlds::handed_back_by_workers());
}

#[test]
fn whatever_can_happen_must_happen_in_some_world() {
    let worlds = worlds::all(Extent::Short);
    let all: BTreeSet<String> = coverage::all().into_iter().collect();
    for bounds in &worlds {
        for mark in bounds.impossible() {
            assert!(all.contains(mark), "{} names no mark: {mark}", bounds.name);
        }
    }
    for mark in &all {
        let somewhere = worlds.iter().any(|bounds| !bounds.impossible().any(|never| never == mark));
        assert!(somewhere, "no world has to meet: {mark}");
    }
}
