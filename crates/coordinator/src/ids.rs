//! New ids: ULIDs that only grow, from injected time and randomness.

use verdict::{LeaseId, TaskId, Time};

/// Where randomness comes from.
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

/// The same bytes for the same seed: for simulations.
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

/// Makes ids that are larger than every id it made before.
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
        // The top bit stays free, so that counting up within a millisecond cannot reach the next.
        u128::from_be_bytes(bytes) & !(1 << (RANDOM_BITS - 1))
    }
}
