//! Maps by task: ids are made here and partly random, so that spreading them needs no secret.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use verdict::TaskId;

pub(super) type ById<T> = HashMap<TaskId, T, BuildHasherDefault<IdHasher>>;
pub(super) type Ids = HashSet<TaskId, BuildHasherDefault<IdHasher>>;

/// Consecutive ids differ in their last bits only: a product with this carries them everywhere.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_u128(&mut self, id: u128) {
        let mixed = (id as u64) ^ ((id >> 64) as u64).rotate_left(32) ^ self.0;
        let product = u128::from(mixed) * u128::from(SPREAD);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(16) {
            let mut whole = [0; 16];
            whole[..chunk.len()].copy_from_slice(chunk);
            self.write_u128(u128::from_le_bytes(whole));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
