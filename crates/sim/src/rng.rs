//! Randomness derived from the seed alone. Every part of the world has a separate random stream, so a change in one
//! part does not shift the values another part sees.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The consumers of randomness, one stream each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Options,
    Nemesis,
    Network,
    StoreFaults,
    Entropy,
    Database,
    Transactions,
    Upgrade,
    Scenario,
    Committers,
    Operator,
    IdleWorker(u32),
    Intruder(u32),
    Client(u32),
    Worker(u32),
    Releases(u32),
    Planner(u32),
    Person(u32),
    Evaluator(u32),
    Owner,
    Executor(u32),
    Inspector(u32),
}

impl Stream {
    fn number(self) -> u64 {
        match self {
            Stream::Options => 0,
            Stream::Nemesis => 1,
            Stream::Network => 2,
            Stream::StoreFaults => 3,
            Stream::Entropy => 4,
            Stream::Database => 5,
            Stream::Transactions => 6,
            Stream::Upgrade => 7,
            Stream::Scenario => 8,
            Stream::Committers => 9,
            Stream::Operator => 10,
            Stream::Client(n) => 1 << 32 | u64::from(n),
            Stream::Worker(n) => 2 << 32 | u64::from(n),
            Stream::IdleWorker(n) => 3 << 32 | u64::from(n),
            Stream::Intruder(n) => 4 << 32 | u64::from(n),
            Stream::Releases(n) => 5 << 32 | u64::from(n),
            Stream::Planner(n) => 6 << 32 | u64::from(n),
            Stream::Person(n) => 7 << 32 | u64::from(n),
            Stream::Evaluator(n) => 8 << 32 | u64::from(n),
            Stream::Owner => 11,
            Stream::Executor(n) => 9 << 32 | u64::from(n),
            Stream::Inspector(n) => 10 << 32 | u64::from(n),
        }
    }
}

/// A probability in thousandths.
pub(crate) type PerMille = u32;

#[derive(Clone, Debug)]
pub(crate) struct SimRng(ChaCha8Rng);

impl SimRng {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream.number());
        Self(generator)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A value from `low` to `high`, both included. The modulo bias is far below what a test could detect.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "a range has its ends in order");
        low + self.number() % (high - low + 1)
    }

    pub(crate) fn chance(&mut self, per_mille: PerMille) -> bool {
        self.between(0, 999) < u64::from(per_mille)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.between(0, from.len() as u64 - 1) as usize]
    }

    /// A value from the range, or 0, with equal chance: swarm testing switches whole features off.
    pub(crate) fn sometimes(&mut self, low: u64, high: u64) -> u64 {
        if self.chance(500) { self.between(low, high) } else { 0 }
    }
}
