//! The guides to stalls and plans, run as written: their workers are programs without code of ours.

use crate::guides::{self, Reader};
use crate::home::{Home, Process};

const STALLS: &str = include_str!("../../../../docs/guide/stalls.md");
const PLANS: &str = include_str!("../../../../docs/guide/plans.md");

/// The programs of a guide that go on until they are stopped, without the coordinator, which every guide starts first.
fn start(home: &Home, guide: &'static str) -> Vec<Process> {
    let terminals = guides::terminals(guide);
    assert_eq!(terminals.first(), Some(&"tenure dev"), "{terminals:?}");
    let program = |line: &&str| {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("tenure"), "{line}");
        Process::start(home.tenure(&words.collect::<Vec<_>>()))
    };
    terminals[1..].iter().map(program).collect()
}

#[test]
fn the_guide_to_stalls_is_true() {
    let home = Home::new();
    let _dev = guides::dev(&home);
    let _workers = start(&home, STALLS);
    let mut reader = Reader::new(&home);
    let printed: String = guides::blocks(STALLS).iter().map(|block| reader.follow(block)).collect();
    for part in ["stalled", "watch ended with exit code", "cancelled", "STALLED"] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
}

#[test]
fn the_guide_to_plans_is_true() {
    let home = Home::new();
    let _dev = guides::dev(&home);
    let _workers = start(&home, PLANS);
    let mut reader = Reader::new(&home);
    // The reader saves the first plan under the name that the commands use.
    let first = guides::fenced(PLANS, "yaml")[0];
    std::fs::write(home.path().join("plan.yaml"), first).unwrap();
    let printed: String = guides::blocks(PLANS).iter().map(|block| reader.follow(block)).collect();
    for part in ["One task with 2 stages", "\"draft\"", "\"review\"", "succeeded"] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
}
