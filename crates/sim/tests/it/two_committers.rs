//! Worlds that show what can go wrong with two committers of one coordinator, a few for each bug of the museum.
//!
//! They are a selection from the worlds of `scenarios::one_of_two_committers_fails_and_no_promise_does`, so that the
//! museum need not run all of them for each bug. When the simulation draws differently and a bug survives, run that
//! test with `TENURE_LAB=mutant@NN` in a build with the feature `lab::FEATURE` of `xtask`: it names the worlds in which
//! NN shows.

use sim::log::Keep;
use sim::{PlantedBug, Scenario};

/// Runs the worlds with these indexes in the scenario.
fn hold(worlds: &[u64]) {
    for world in worlds {
        let seed = Scenario::TwoCommitters.first_seed() + world;
        let outcome = sim::run(seed, Keep::DigestOnly, PlantedBug::Nothing);
        assert_eq!(outcome.violation, None, "reproduce with: cargo xtask sim --seed {seed}");
    }
}

#[test]
fn new_work_waits_while_no_worker_is_heard() {
    hold(&[4, 14, 20]);
}

#[test]
fn only_rounds_that_hear_workers_count_as_hearing() {
    hold(&[9, 14, 20]);
}

#[test]
fn a_refusal_of_new_work_extends_no_lease() {
    hold(&[11, 12, 13]);
}

#[test]
fn leases_of_dead_workers_end() {
    hold(&[0, 1, 2]);
}

#[test]
fn a_process_ends_as_a_whole() {
    hold(&[2, 8, 10]);
}

#[test]
fn a_stop_ends() {
    hold(&[1, 2, 3]);
}

#[test]
fn what_a_cancel_ended_is_forgotten() {
    hold(&[21, 28, 34]);
}

#[test]
fn heartbeats_do_not_wait_behind_submissions() {
    hold(&[2, 3, 5]);
}
