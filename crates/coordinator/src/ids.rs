//! New ids: monotonic ULIDs, from injected time and randomness.

use verdict::desk::IdBlock;
use verdict::{LeaseId, TaskId, Time};

/// A source of randomness.
pub trait Entropy: Send + 'static {
    fn fill(&mut self, bytes: &mut [u8]);
}

/// The operating system's generator.
#[derive(Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system always has randomness");
    }
}

/// The operating system's generator, read in larger blocks. For ids, which are not secrets: unused
/// bytes stay in memory.
pub struct BufferedEntropy {
    stock: [u8; BUFFER_BYTES],
    left: usize,
}

/// Enough for a hundred ids per system call.
const BUFFER_BYTES: usize = 1024;

impl Default for BufferedEntropy {
    fn default() -> Self {
        Self { stock: [0; BUFFER_BYTES], left: 0 }
    }
}

impl Entropy for BufferedEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        if bytes.len() > BUFFER_BYTES {
            return OsEntropy.fill(bytes);
        }
        if bytes.len() > self.left {
            OsEntropy.fill(&mut self.stock);
            self.left = BUFFER_BYTES;
        }
        let rest = self.left - bytes.len();
        bytes.copy_from_slice(&self.stock[rest..self.left]);
        self.left = rest;
    }
}

/// A deterministic generator for simulations: the same bytes for the same seed.
pub struct SeededEntropy(rand_chacha::ChaCha8Rng);

impl SeededEntropy {
    pub fn new(seed: u64) -> Self {
        use rand_chacha::rand_core::SeedableRng;
        Self(rand_chacha::ChaCha8Rng::seed_from_u64(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        use rand_chacha::rand_core::Rng;
        self.0.fill_bytes(bytes);
    }
}

const RANDOM_BITS: u32 = 80;

/// The smallest id that a task submitted at this time can have.
pub fn first_task_at(time: Time) -> TaskId {
    TaskId::from_u128((time.millis().max(0) as u128) << RANDOM_BITS)
}

/// When a task with this id was submitted, to the millisecond.
pub fn submitted_at(id: TaskId) -> Time {
    let millis = id.as_u128() >> RANDOM_BITS;
    Time::from_millis(i64::try_from(millis).expect("48 bits fit"))
}

/// Generates ids, each larger than all before it.
pub struct Ids {
    entropy: Box<dyn Entropy>,
    last: u128,
}

impl Ids {
    pub fn new(entropy: impl Entropy) -> Self {
        Self::boxed(Box::new(entropy))
    }

    pub fn boxed(entropy: Box<dyn Entropy>) -> Self {
        Self { entropy, last: 0 }
    }

    /// A task id: time first, so that ids sort by acceptance.
    pub fn task(&mut self, now: Time) -> TaskId {
        TaskId::from_u128(self.next(now))
    }

    pub fn lease(&mut self, now: Time) -> LeaseId {
        LeaseId::from_u128(self.next(now))
    }

    /// Ids for one decision, which takes as many as it needs. All later ids are larger.
    pub(crate) fn block(&mut self, now: Time) -> IdBlock {
        let first = self.next(now);
        self.last += IdBlock::LENGTH;
        IdBlock::starting_at(first)
    }

    /// Randomness for another purpose, from the same source.
    pub(crate) fn fork(&mut self) -> SeededEntropy {
        let mut seed = [0; 8];
        self.entropy.fill(&mut seed);
        SeededEntropy::new(u64::from_be_bytes(seed))
    }

    fn next(&mut self, now: Time) -> u128 {
        let millis = now.millis().max(0) as u128;
        let fresh = (millis << RANDOM_BITS) | self.random();
        self.last = if fresh > self.last { fresh } else { self.last + 1 };
        self.last
    }

    fn random(&mut self) -> u128 {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes[6..]);
        // The top bit stays free, so that counting up within a millisecond cannot overflow into the
        // next.
        u128::from_be_bytes(bytes) & !(1 << (RANDOM_BITS - 1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_of_a_time_begin_with_its_first_one() {
        let (before, at) = (Time::from_millis(41), Time::from_millis(42));
        let mut ids = Ids::new(SeededEntropy::new(7));
        let earlier: Vec<TaskId> = (0..100).map(|_| ids.task(before)).collect();
        let later: Vec<TaskId> = (0..100).map(|_| ids.task(at)).collect();
        assert!(earlier.iter().all(|id| *id < first_task_at(at)));
        assert!(later.iter().all(|id| *id >= first_task_at(at)));
    }

    #[test]
    fn what_is_in_stock_is_given_once() {
        let mut entropy = BufferedEntropy::default();
        let mut given = BTreeSet::new();
        for _ in 0..BUFFER_BYTES {
            let mut bytes = [0; 10];
            entropy.fill(&mut bytes);
            assert!(given.insert(bytes), "the same number twice");
        }
        let mut large = vec![0; BUFFER_BYTES + 1];
        entropy.fill(&mut large);
        assert!(large.iter().any(|byte| *byte != 0));
    }
}
