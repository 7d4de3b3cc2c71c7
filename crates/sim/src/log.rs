//! What a simulated run leaves behind: its trace, its counts, and the first thing that was wrong.
//!
//! The trace is a digest over every line; the lines themselves are kept only when somebody reads them.
//! Nothing here depends on anything but the seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use sha2::{Digest, Sha256};

use crate::fault::Fault;
use crate::mark::Mark;

/// Whether somebody wants to read the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Lines,
    DigestOnly,
}

/// How often what was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub faults: BTreeMap<Fault, u64>,
    pub marks: BTreeMap<Mark, u64>,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        other.faults.iter().for_each(|(fault, n)| *self.faults.entry(*fault).or_default() += n);
        other.marks.iter().for_each(|(mark, n)| *self.marks.entry(*mark).or_default() += n);
    }
}

struct Pages {
    now: u64,
    digest: Sha256,
    lines: Option<Vec<String>>,
    line: String,
    tally: Tally,
    violation: Option<String>,
}

/// Shared by everything in one world.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Pages>>);

impl Log {
    pub fn new(keep: Keep) -> Self {
        Self(Arc::new(Mutex::new(Pages {
            now: 0,
            digest: Sha256::new(),
            lines: (keep == Keep::Lines).then(Vec::new),
            line: String::new(),
            tally: Tally::default(),
            violation: None,
        })))
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().expect("no code panics while it writes the log")
    }

    pub fn set_now(&self, millis: u64) {
        self.pages().now = millis;
    }

    pub fn now(&self) -> u64 {
        self.pages().now
    }

    pub fn say(&self, what: std::fmt::Arguments<'_>) {
        let mut pages = self.pages();
        let pages = &mut *pages;
        pages.line.clear();
        let now = pages.now;
        write!(pages.line, "{:>4}.{:03} {what}", now / 1000, now % 1000)
            .expect("a string takes every text");
        pages.digest.update(pages.line.as_bytes());
        pages.digest.update(b"\n");
        if let Some(lines) = &mut pages.lines {
            lines.push(pages.line.clone());
        }
    }

    pub fn fault(&self, fault: Fault) {
        *self.pages().tally.faults.entry(fault).or_default() += 1;
    }

    pub fn mark(&self, mark: Mark) {
        *self.pages().tally.marks.entry(mark).or_default() += 1;
    }

    /// Something that must never be. The first one counts: what follows may be its consequence.
    pub fn violate(&self, invariant: &str, what: std::fmt::Arguments<'_>) {
        self.say(format_args!("VIOLATION {invariant}: {what}"));
        let text = format!("{invariant}: {what}");
        self.pages().violation.get_or_insert(text);
    }

    pub fn is_violated(&self) -> bool {
        self.pages().violation.is_some()
    }

    pub fn violation(&self) -> Option<String> {
        self.pages().violation.clone()
    }

    pub fn tally(&self) -> Tally {
        self.pages().tally.clone()
    }

    pub fn lines(&self) -> Vec<String> {
        self.pages().lines.clone().unwrap_or_default()
    }

    /// The digest over every line so far, as text.
    pub fn digest(&self) -> String {
        let digest = self.pages().digest.clone().finalize();
        digest[..16].iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes every text");
            text
        })
    }
}
