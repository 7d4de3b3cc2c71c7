//! One branch's cursor: its counts, its time, and what it is doing.
//!
//! A branch does one thing at a time. While branches inside it are open, it waits for them; that is what makes its time
//! and its counts a function of the record.

use std::collections::BTreeMap;

use wire::Time;

use crate::key::Branch;
use crate::stop::{Misuse, SourceLine};

pub(crate) struct BranchState {
    /// The coordinator's time of the last result that this branch has seen.
    pub(crate) now: Time,
    /// The latest time of a branch inside it that has ended. It counts from the next operation on, so that it does not
    /// reach branches that are open beside that one.
    pub(crate) joined: Time,
    pub(crate) counts: BTreeMap<String, u64>,
    /// How many operations were entered since the last savepoint.
    pub(crate) index: u64,
    /// Results that have yet to be recorded.
    pub(crate) unrecorded: usize,
    pub(crate) is_open: bool,
    pub(crate) inner_open: usize,
    pub(crate) patches: BTreeMap<String, bool>,
    busy: Option<String>,
}

impl BranchState {
    pub(crate) fn open(now: Time) -> BranchState {
        BranchState {
            now,
            joined: now,
            counts: BTreeMap::new(),
            index: 0,
            unrecorded: 0,
            is_open: true,
            inner_open: 0,
            patches: BTreeMap::new(),
            busy: None,
        }
    }

    /// A name that is used again continues its counts.
    pub(crate) fn reopen(&mut self, now: Time) {
        self.is_open = true;
        self.now = self.now.max(now);
        self.joined = self.now;
    }

    /// Whether the branch can begin something.
    pub(crate) fn check_free(
        &self,
        branch: &Branch,
        wanted: &str,
        at: SourceLine,
    ) -> Result<(), Misuse> {
        let second = wanted.to_owned();
        if !self.is_open {
            return Err(Misuse::BranchOver { branch: branch.as_str().to_owned(), at });
        }
        match &self.busy {
            Some(first) => Err(Misuse::TwoAtOnce { first: first.clone(), second, at }),
            None => Ok(()),
        }
    }

    pub(crate) fn begin(
        &mut self,
        branch: &Branch,
        label: &str,
        at: SourceLine,
    ) -> Result<(), Misuse> {
        self.check_free(branch, label, at)?;
        if self.inner_open > 0 {
            let first = format!("{}/…", branch.as_str());
            return Err(Misuse::TwoAtOnce { first, second: label.to_owned(), at });
        }
        self.now = self.now.max(self.joined);
        self.busy = Some(label.to_owned());
        Ok(())
    }

    pub(crate) fn finish(&mut self) {
        self.busy = None;
    }
}
