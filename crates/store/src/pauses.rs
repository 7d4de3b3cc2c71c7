//! Paused queues: which there are, and how they change.
//!
//! A pause is a row beside the tasks. It is written like any administrative act, with its audit record
//! ([`crate::seam::Writer::administer`]), and read by every batch ([`crate::seam::Batch::paused`]). What a pause means
//! is a rule and not decided here.
//!
//! Invariant: a batch commits only if the paused queues are still those that it was given. When a pause is written and
//! [`crate::Browse::settings_in_force`] has returned, every batch that was given older ones has ended. So nothing is granted
//! from the queue afterwards, by any writer.

use std::collections::BTreeMap;
use std::sync::Arc;

use verdict::build::queue_of;
use verdict::{Digest, Name, Scope, Text, Time};

/// A queue that is paused, since when, by whom and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePause {
    pub scope: Scope,
    pub queue: Name,
    pub at: Time,
    /// The public part of the administrator's key.
    pub by: Name,
    pub reason: Option<Text>,
}

impl QueuePause {
    /// A digest of the row, for the audit.
    pub fn fingerprint(&self) -> Digest {
        let Self { scope, queue, at, by, reason } = self;
        Digest::of(&[
            scope.tenant.as_str().as_bytes(),
            scope.workspace.as_str().as_bytes(),
            queue.as_str().as_bytes(),
            &at.millis().to_be_bytes(),
            by.as_str().as_bytes(),
            reason.as_ref().map_or(&[], |reason| reason.as_str().as_bytes()),
        ])
    }
}

/// A change of a queue's pause. Pausing a paused queue replaces its row; resuming a queue that is not paused changes
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PauseChange {
    Pause(QueuePause),
    Resume { scope: Scope, queue: Name },
}

/// All paused queues, at one time. Cheap to clone; empty in nearly every store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PausedQueues {
    queues: Arc<BTreeMap<(Scope, Name), QueuePause>>,
}

impl PausedQueues {
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether tasks of this queue wait. Runs that are pinned to a build wait with their queue.
    pub fn contains(&self, scope: &Scope, queue: &Name) -> bool {
        !self.is_empty() && self.queues.contains_key(&(scope.clone(), queue_of(queue.clone())))
    }

    /// All of them, by scope and name.
    pub fn iter(&self) -> impl Iterator<Item = &QueuePause> {
        self.queues.values()
    }

    /// What they are after these changes.
    #[must_use]
    pub fn changed(&self, changes: &[PauseChange]) -> Self {
        if changes.is_empty() {
            return self.clone();
        }
        let mut queues = BTreeMap::clone(&self.queues);
        for change in changes {
            match change {
                PauseChange::Pause(pause) => {
                    queues.insert((pause.scope.clone(), pause.queue.clone()), pause.clone());
                }
                PauseChange::Resume { scope, queue } => {
                    queues.remove(&(scope.clone(), queue.clone()));
                }
            }
        }
        Self { queues: Arc::new(queues) }
    }
}

impl FromIterator<QueuePause> for PausedQueues {
    fn from_iter<I: IntoIterator<Item = QueuePause>>(pauses: I) -> Self {
        let keyed = pauses.into_iter().map(|it| ((it.scope.clone(), it.queue.clone()), it));
        Self { queues: Arc::new(keyed.collect()) }
    }
}
