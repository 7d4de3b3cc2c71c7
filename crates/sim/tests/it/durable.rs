//! Worlds that show what can go wrong with durable runs, a few for each bug of the museum.
//!
//! They are a selection from the worlds of `scenarios::durable_runs_survive_everything_and_do_each_thing_once`. When the
//! simulation draws differently and a bug survives, run that test with `TENURE_LAB=mutant@NN` in a build with the feature
//! `lab::FEATURE` of `xtask`: it names the worlds in which NN shows.

use sim::coverage::CoverageGoal;
use sim::log::Keep;
use sim::{PlantedBug, Scenario};

/// Worlds in which a worker oversleeps, and comes back with a step while another attempt is under way.
const PAUSED_WORKERS: &[u64] = &[10, 22, 41, 56, 59];

#[test]
fn a_paused_worker_that_comes_back_records_nothing() {
    // E2, E3, F80: its call is refused, and what the other attempt records is the only result.
    let mut refused = 0;
    for world in PAUSED_WORKERS {
        let seed = Scenario::Durable.first_seed() + world;
        let outcome = sim::run(seed, Keep::DigestOnly, PlantedBug::Nothing);
        assert_eq!(outcome.violation, None, "reproduce with: cargo xtask sim --seed {seed}");
        let goal = CoverageGoal::SupersededCheckpointRefused;
        refused += outcome.tally.goals.get(&goal).copied().unwrap_or(0);
    }
    assert!(refused > 0, "nobody came back in these worlds: choose others");
}
