//! Chance that can be repeated: everything random in a test comes from one printed number.

/// The variable that repeats a seed.
const SEED: &str = "TENURE_CRASH_SEED";

/// SplitMix64: eight lines, and every seed is a good one.
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance { state: seed }
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// From the environment, or made up.
pub(crate) fn seed() -> u64 {
    match std::env::var(SEED) {
        Ok(text) => text.parse().expect("a seed is a number"),
        Err(_) => getrandom::u64().unwrap(),
    }
}

/// What to type to repeat a run.
pub(crate) fn repeat_with(seed: u64) -> String {
    format!("{SEED}={seed}")
}
