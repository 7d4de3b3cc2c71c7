//! Many worlds. Together they must meet every situation and inject every kind of fault,
//! so that none can go quiet unnoticed.

use sim::campaign::{TWICE_EVERY, campaign};
use sim::fault::Fault;
use sim::mark::Mark;

const WORLDS: u64 = 180;

/// The least number of each kind of fault.
const FAULTS_MIN: u64 = 5;

#[test]
fn worlds_break_and_no_promise_does() {
    // S2-100, R-1, R-2, R-5, R-11: no acknowledged write is lost, one report wins, what ended never
    // changes, fences only grow, equal keys are one run, and what was accepted ends.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let totals = campaign(0..WORLDS, threads, |_| {});
    let told: Vec<String> = totals
        .failures
        .iter()
        .map(|(seed, what)| format!("{what}\nreproduce with: cargo xtask sim --seed {seed}\n"))
        .collect();
    assert!(told.is_empty(), "{} worlds failed\n\n{}", told.len(), told.join("\n"));
    assert_eq!(totals.seeds, WORLDS);
    assert!(totals.repeated >= WORLDS / TWICE_EVERY, "one in a hundred runs twice");
    for fault in Fault::ALL {
        let count = totals.tally.faults.get(fault).copied().unwrap_or(0);
        assert!(count >= FAULTS_MIN, "only {count} times: {}", fault.name());
    }
    for mark in Mark::ALL {
        assert!(totals.tally.marks.contains_key(mark), "never: {}", mark.name());
    }
}
