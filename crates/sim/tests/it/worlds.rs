//! Many worlds, in ranges that run in parallel. Each range must reach every coverage goal and inject every kind of
//! fault often enough, so that none can disappear unnoticed.

use sim::campaign::{TWICE_EVERY, campaign};
use sim::coverage::CoverageGoal;
use sim::fault::Fault;

/// Number of worlds in one range; there are four ranges.
const WORLDS: u64 = 260;

/// The least number of each kind of fault in one range: the rarest come about ten times, by chance.
const FAULTS_MIN: u64 = 5;

/// Threads of one range: the ranges themselves run in parallel.
const THREADS: usize = 1;

fn hold(range: u64) {
    let first = range * WORLDS;
    let totals = campaign(first..first + WORLDS, THREADS, |_| {});
    let told: Vec<String> = totals
        .failures
        .iter()
        .map(|(seed, what)| format!("{what}\nreproduce with: cargo xtask sim --seed {seed}\n"))
        .collect();
    assert!(told.is_empty(), "{} worlds failed\n\n{}", told.len(), told.join("\n"));
    assert_eq!(totals.seeds, WORLDS);
    assert!(totals.repeated >= WORLDS / TWICE_EVERY, "one in a hundred runs twice");
    for fault in Fault::ALL.iter().filter(|fault| !Fault::OF_SCENARIOS.contains(fault)) {
        let count = totals.tally.faults.get(fault).copied().unwrap_or(0);
        assert!(count >= FAULTS_MIN, "only {count} times: {}", fault.name());
    }
    let elsewhere = [
        CoverageGoal::OF_DURABLE_RUNS,
        CoverageGoal::OF_FLOW_KEYS,
        CoverageGoal::OF_SCHEDULES,
        CoverageGoal::OF_PLANS,
        CoverageGoal::OF_STALLS,
        CoverageGoal::OF_PEOPLE,
        CoverageGoal::OF_ESCROW,
        CoverageGoal::OF_RECOVERY,
        CoverageGoal::OF_DEPLOYMENTS,
    ]
    .concat();
    let is_here = |goal: &&CoverageGoal| !elsewhere.contains(goal);
    for goal in CoverageGoal::ALL.iter().filter(is_here) {
        assert!(totals.tally.goals.contains_key(goal), "never: {}", goal.name());
    }
}

#[test]
fn worlds_break_and_no_promise_does_in_the_first_range() {
    // S2-100, R-1, R-2, R-5, R-11: no acknowledged write is lost, one report wins, an ended task never changes,
    // fences only grow, equal keys are one run, and every accepted run ends.
    hold(0);
}

#[test]
fn worlds_break_and_no_promise_does_in_the_second_range() {
    hold(1);
}

#[test]
fn worlds_break_and_no_promise_does_in_the_third_range() {
    hold(2);
}

#[test]
fn worlds_break_and_no_promise_does_in_the_fourth_range() {
    hold(3);
}
