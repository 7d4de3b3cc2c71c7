//! Random numbers from a seed.

/// SplitMix64: small, and good enough to choose what to ask.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    pub(crate) fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }

    /// One of the last few, the latest most often.
    pub(crate) fn recent<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let back = self.below(6).min(self.below(6)) as usize;
        all.iter().rev().nth(back)
    }
}
