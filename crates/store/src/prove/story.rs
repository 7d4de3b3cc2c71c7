//! The story of one task: what a person wants to read of it, collected while its rows are checked.
//!
//! A run may have thousands of attempts and steps: the story keeps the first of each, and counts all.

use std::collections::BTreeSet;

use verdict::run::{Checkpoint, Recorded, Spend};
use verdict::{ClosedAttempt, Name, Subject};

use crate::row::{StoredTask, TaskRows};

/// How many attempts, and how many checkpoints, a story shows.
const SHOWN_MAX: usize = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStory {
    pub task: StoredTask,
    /// How far it is below the run that is proved.
    pub depth: usize,
    /// Its key in its parent.
    pub key: Option<Name>,
    pub decisions: u64,
    /// The versions of the rules that decided.
    pub rules: BTreeSet<u32>,
    pub attempts: u64,
    pub first_attempts: Vec<ClosedAttempt>,
    pub checkpoints: u64,
    /// Without the results of steps.
    pub first_checkpoints: Vec<Checkpoint>,
    pub children: u64,
    pub signals: u64,
    pub refused_calls: u64,
}

impl TaskStory {
    pub(super) fn new(task: StoredTask, depth: usize, key: Option<Name>) -> Self {
        Self {
            task,
            depth,
            key,
            decisions: 0,
            rules: BTreeSet::new(),
            attempts: 0,
            first_attempts: Vec::new(),
            checkpoints: 0,
            first_checkpoints: Vec::new(),
            children: 0,
            signals: 0,
            refused_calls: 0,
        }
    }

    pub(super) fn see(&mut self, rows: &TaskRows) {
        self.decisions += rows.history.len() as u64;
        self.rules.extend(rows.history.iter().map(|entry| entry.rules));
        self.attempts += rows.attempts.len() as u64;
        let room = SHOWN_MAX - self.first_attempts.len();
        self.first_attempts.extend(rows.attempts.iter().take(room).cloned());
        self.checkpoints += rows.checkpoints.len() as u64;
        let room = SHOWN_MAX - self.first_checkpoints.len();
        let short = rows.checkpoints.iter().take(room).map(without_result);
        self.first_checkpoints.extend(short);
        self.children += rows.children.len() as u64;
        self.signals += rows.signals.len() as u64;
        self.refused_calls += rows.refused.len() as u64;
    }

    /// What all its steps used together.
    pub fn spend(&self) -> Spend {
        let run = match &self.task.subject {
            Subject::Live(task) => task.run.as_deref(),
            Subject::Done(done) => done.run.as_deref(),
            Subject::Absent => None,
        };
        run.map_or_else(Spend::default, |run| run.spend)
    }
}

fn without_result(checkpoint: &Checkpoint) -> Checkpoint {
    let recorded = match &checkpoint.recorded {
        Recorded::Step(_) => crate::tables::with_result(checkpoint.recorded.clone(), None),
        other => other.clone(),
    };
    Checkpoint { recorded, ..checkpoint.clone() }
}
