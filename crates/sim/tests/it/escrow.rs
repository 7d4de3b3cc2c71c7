//! Worlds that show what can go wrong with budgets, a few for each bug of the museum.
//!
//! They are the first worlds of `scenarios::budgets_are_escrow_whatever_fails`. When the simulation draws differently and a bug
//! survives, run that test with `TENURE_LAB=mutant@NN` in a build with the feature `lab::FEATURE` of `xtask`: it names the
//! worlds in which NN shows.

use sim::coverage::CoverageGoal;
use sim::log::Keep;
use sim::{PlantedBug, Scenario};

/// How many worlds are played.
const WORLDS: u64 = 6;

/// How often these worlds reached the goal, in which nothing may go wrong.
fn reached(goal: CoverageGoal) -> u64 {
    let first = Scenario::Escrow.first_seed();
    let reached = (first..first + WORLDS).map(|seed| {
        let outcome = sim::run(seed, Keep::DigestOnly, PlantedBug::Nothing);
        assert_eq!(outcome.violation, None, "reproduce with: cargo xtask sim --seed {seed}");
        outcome.tally.goals.get(&goal).copied().unwrap_or(0)
    });
    reached.sum()
}

#[test]
fn the_end_of_a_child_is_charged_once() {
    // S2-67: what a child did not use comes back once, however often its message is sent.
    assert!(reached(CoverageGoal::ShareGivenBack) > 0, "no child gave anything back");
}

#[test]
fn a_run_that_halted_starts_nothing_more() {
    // S2-62, F86: a halt is an end.
    assert!(reached(CoverageGoal::BudgetHalted) > 0, "no run halted");
}
