//! A disk that loses unsynced writes when its power is cut.
//!
//! Each file exists twice in memory: as programs see it, and as it would be after a power cut. A sync
//! makes the second equal to the first. At a cut each write since the last sync is lost, kept or torn at a
//! sector, as the seed decides; from then on every operation fails until the power is back. The disk can
//! also be full, or fail to sync.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

const SECTOR: usize = 512;

#[derive(Default)]
struct Image {
    current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Op>,
}

enum Op {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl Op {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Op::Write { at, bytes } => {
                let end = at + bytes.len();
                if file.len() < end {
                    file.resize(end, 0);
                }
                file[*at..end].copy_from_slice(bytes);
            }
            Op::Truncate(size) => file.resize(*size, 0),
        }
    }
}

/// A kind of call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Write,
    Sync,
}

/// How an operation can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskError {
    /// The power is out.
    Dead,
    Full,
    SyncFailed,
    WriteFailed,
}

struct DiskState {
    files: HashMap<String, Image>,
    operations: u64,
    cut_at: Option<u64>,
    is_off: bool,
    is_full: bool,
    syncs_fail: bool,
    /// Which call fails, after how many more of its kind.
    failing: Option<(Call, u64)>,
    has_failed: bool,
    /// Handles from before the last restart stay invalid.
    life: u64,
    seed: u64,
}

pub(crate) struct Disk(Mutex<DiskState>);

impl Disk {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(DiskState {
            files: HashMap::new(),
            operations: 0,
            cut_at: None,
            is_off: false,
            is_full: false,
            syncs_fail: false,
            failing: None,
            has_failed: false,
            life: 0,
            seed,
        }))
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap()
    }

    /// The power goes out at the `count`-th operation from now.
    pub(crate) fn cut_after(&self, count: u64) {
        let mut state = self.state();
        state.cut_at = Some(state.operations + count);
    }

    pub(crate) fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// The power is back, with the data that survived.
    pub(crate) fn restart(&self) {
        let mut state = self.state();
        state.cut_at = None;
        if !state.is_off {
            state.lose_power();
        }
        state.is_off = false;
        state.life += 1;
    }

    pub(crate) fn fill(&self) {
        self.state().is_full = true;
    }

    pub(crate) fn make_room(&self) {
        self.state().is_full = false;
    }

    pub(crate) fn fail_syncs(&self) {
        self.state().syncs_fail = true;
    }

    /// The `n`-th call of a kind from now fails, once.
    pub(crate) fn fail_call(&self, call: Call, n: u64) {
        let mut state = self.state();
        state.failing = Some((call, n));
        state.has_failed = false;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    pub(crate) fn heal(&self) {
        let mut state = self.state();
        state.syncs_fail = false;
        state.failing = None;
    }

    pub(crate) fn random(&self, below: u64) -> u64 {
        self.state().random(below)
    }

    pub(crate) fn life(&self) -> u64 {
        self.state().life
    }

    pub(crate) fn open(&self, name: &str) {
        self.state().files.entry(name.to_owned()).or_default();
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.state().files.contains_key(name)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), DiskError> {
        let mut state = self.state();
        state.tick()?;
        state.files.remove(name);
        Ok(())
    }

    pub(crate) fn size(&self, name: &str, life: u64) -> Result<usize, DiskError> {
        Ok(self.state().file(name, life)?.current.len())
    }

    /// Returns how many bytes were read.
    pub(crate) fn read(
        &self,
        name: &str,
        life: u64,
        at: usize,
        to: &mut [u8],
    ) -> Result<usize, DiskError> {
        let mut state = self.state();
        let file = &state.file(name, life)?.current;
        let from = file.get(at..).unwrap_or_default();
        let count = from.len().min(to.len());
        to[..count].copy_from_slice(&from[..count]);
        to[count..].fill(0);
        Ok(count)
    }

    pub(crate) fn write(
        &self,
        name: &str,
        life: u64,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), DiskError> {
        let mut state = self.state();
        state.tick()?;
        if state.fails(Call::Write) {
            return Err(DiskError::WriteFailed);
        }
        let is_full = state.is_full;
        let file = state.file(name, life)?;
        if is_full && file.current.len() < at + bytes.len() {
            return Err(DiskError::Full);
        }
        file.change(Op::Write { at, bytes: bytes.to_vec() });
        Ok(())
    }

    pub(crate) fn truncate(&self, name: &str, life: u64, size: usize) -> Result<(), DiskError> {
        let mut state = self.state();
        state.tick()?;
        state.file(name, life)?.change(Op::Truncate(size));
        Ok(())
    }

    pub(crate) fn sync(&self, name: &str, life: u64) -> Result<(), DiskError> {
        let mut state = self.state();
        state.tick()?;
        if state.syncs_fail || state.fails(Call::Sync) {
            return Err(DiskError::SyncFailed);
        }
        let Image { durable, unsynced, .. } = state.file(name, life)?;
        unsynced.drain(..).for_each(|op| op.apply(durable));
        Ok(())
    }
}

impl Image {
    fn change(&mut self, op: Op) {
        op.apply(&mut self.current);
        self.unsynced.push(op);
    }
}

impl DiskState {
    fn file(&mut self, name: &str, life: u64) -> Result<&mut Image, DiskError> {
        if self.is_off || self.life != life {
            return Err(DiskError::Dead);
        }
        Ok(self.files.entry(name.to_owned()).or_default())
    }

    fn tick(&mut self) -> Result<(), DiskError> {
        self.operations += 1;
        if self.cut_at == Some(self.operations) && !self.is_off {
            self.lose_power();
        }
        if self.is_off { Err(DiskError::Dead) } else { Ok(()) }
    }

    /// Whether this is the call chosen to fail.
    fn fails(&mut self, call: Call) -> bool {
        match &mut self.failing {
            Some((chosen, left)) if *chosen == call => {
                *left = left.saturating_sub(1);
                let fails = *left == 0 && !self.has_failed;
                self.has_failed |= fails;
                fails
            }
            _ => false,
        }
    }

    fn lose_power(&mut self) {
        self.is_off = true;
        let mut files = std::mem::take(&mut self.files);
        // In order of name, so that a seed has one outcome.
        let mut names: Vec<&String> = files.keys().collect();
        names.sort();
        let fates: HashMap<String, Vec<u64>> = names
            .into_iter()
            .map(|name| {
                let fates = files[name].unsynced.iter().map(|_| self.random(3)).collect();
                (name.clone(), fates)
            })
            .collect();
        for (name, file) in &mut files {
            for (op, fate) in file.unsynced.drain(..).zip(&fates[name]) {
                survive(op, *fate, &mut file.durable);
            }
            file.current.clone_from(&file.durable);
        }
        self.files = files;
    }

    /// SplitMix: small, seeded, and good enough to choose.
    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

/// Applies an unsynced operation: lost, kept, or torn in the middle.
fn survive(op: Op, fate: u64, durable: &mut Vec<u8>) {
    match (fate, op) {
        (0, _) => {}
        (1, Op::Write { at, mut bytes }) => {
            bytes.truncate(bytes.len() / 2 / SECTOR * SECTOR);
            Op::Write { at, bytes }.apply(durable);
        }
        (_, op) => op.apply(durable),
    }
}
