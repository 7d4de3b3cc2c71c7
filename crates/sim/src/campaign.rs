//! Runs many seeds, on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::log::{Keep, Tally};
use crate::planted_bug::PlantedBug;
use crate::world::{Outcome, run};

/// One seed in this many is run twice, and both runs must leave the same trace.
pub const TWICE_EVERY: u64 = 100;

/// The combined result of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub seeds: u64,
    pub repeated: u64,
    pub runs: u64,
    pub simulated_ms: u64,
    pub slowest_drain_ms: u64,
    pub tally: Tally,
    /// Failed seeds, each with its first violation.
    pub failures: Vec<(u64, String)>,
}

impl Totals {
    pub fn faults(&self) -> u64 {
        self.tally.faults.values().sum()
    }

    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.runs += outcome.runs;
        self.simulated_ms += outcome.simulated_ms;
        self.slowest_drain_ms = self.slowest_drain_ms.max(outcome.drained_ms);
        self.tally.add(&outcome.tally);
        self.failures.extend(outcome.violation.map(|what| (outcome.seed, what)));
    }
}

/// Runs the seeds; `progress` is called after each one.
pub fn campaign(
    seeds: std::ops::Range<u64>,
    threads: usize,
    progress: impl Fn(&Totals) + Sync,
) -> Totals {
    let next = AtomicU64::new(seeds.start);
    let totals = Mutex::new(Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run(seed, Keep::DigestOnly, PlantedBug::Nothing);
                    let again = repeat(&outcome);
                    let mut totals = totals.lock().expect("no code panics while it adds");
                    totals.repeated += u64::from(again.is_some());
                    totals.failures.extend(again.flatten());
                    totals.add(outcome);
                    progress(&totals);
                }
            });
        }
    });
    let mut totals = totals.into_inner().expect("no code panics while it adds");
    totals.failures.sort();
    totals
}

/// Runs some seeds a second time; `Some(Some(…))` if the second run differed.
fn repeat(first: &Outcome) -> Option<Option<(u64, String)>> {
    if !first.seed.is_multiple_of(TWICE_EVERY) {
        return None;
    }
    let second = run(first.seed, Keep::DigestOnly, PlantedBug::Nothing);
    let differs = (second.digest != first.digest)
        .then(|| (first.seed, "the same seed left two different traces".to_owned()));
    Some(differs)
}
