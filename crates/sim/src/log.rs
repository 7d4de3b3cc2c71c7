//! The result of a simulated run: its trace, its counts, and its first violation.
//!
//! The trace is a digest over every line; the lines themselves are kept only on request. Everything here depends on
//! the seed alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use sha2::{Digest, Sha256};

use crate::coverage::CoverageGoal;
use crate::fault::Fault;

/// Whether to keep the lines of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Lines,
    DigestOnly,
}

/// How often each fault and each coverage goal occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub faults: BTreeMap<Fault, u64>,
    pub goals: BTreeMap<CoverageGoal, u64>,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        other.faults.iter().for_each(|(fault, n)| *self.faults.entry(*fault).or_default() += n);
        other.goals.iter().for_each(|(goal, n)| *self.goals.entry(*goal).or_default() += n);
    }
}

struct LogState {
    now: u64,
    digest: Sha256,
    lines: Option<Vec<String>>,
    line: String,
    tally: Tally,
    violation: Option<String>,
}

/// The log of one world, shared by all its parts.
#[derive(Clone)]
pub struct Log(Arc<Mutex<LogState>>);

impl Log {
    pub fn new(keep: Keep) -> Self {
        Self(Arc::new(Mutex::new(LogState {
            now: 0,
            digest: Sha256::new(),
            lines: (keep == Keep::Lines).then(Vec::new),
            line: String::new(),
            tally: Tally::default(),
            violation: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.0.lock().expect("no code panics while it writes the log")
    }

    pub fn set_now(&self, millis: u64) {
        self.state().now = millis;
    }

    pub fn now(&self) -> u64 {
        self.state().now
    }

    pub fn say(&self, what: std::fmt::Arguments<'_>) {
        let mut state = self.state();
        let state = &mut *state;
        state.line.clear();
        let now = state.now;
        write!(state.line, "{:>4}.{:03} {what}", now / 1000, now % 1000)
            .expect("a string takes every text");
        state.digest.update(state.line.as_bytes());
        state.digest.update(b"\n");
        if let Some(lines) = &mut state.lines {
            lines.push(state.line.clone());
        }
    }

    pub fn fault(&self, fault: Fault) {
        *self.state().tally.faults.entry(fault).or_default() += 1;
    }

    pub fn reach_goal(&self, goal: CoverageGoal) {
        *self.state().tally.goals.entry(goal).or_default() += 1;
    }

    /// Records a violation. Only the first one counts: later ones may be its consequences.
    pub fn violate(&self, invariant: &str, what: std::fmt::Arguments<'_>) {
        self.say(format_args!("VIOLATION {invariant}: {what}"));
        let text = format!("{invariant}: {what}");
        self.state().violation.get_or_insert(text);
    }

    pub fn is_violated(&self) -> bool {
        self.state().violation.is_some()
    }

    pub fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    pub fn tally(&self) -> Tally {
        self.state().tally.clone()
    }

    pub fn lines(&self) -> Vec<String> {
        self.state().lines.clone().unwrap_or_default()
    }

    /// The digest over every line so far, in hexadecimal.
    pub fn digest(&self) -> String {
        let digest = self.state().digest.clone().finalize();
        digest[..16].iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes every text");
            text
        })
    }
}
