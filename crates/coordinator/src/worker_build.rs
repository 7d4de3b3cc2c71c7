//! The build that a worker announced, as far as grants depend on it: which of its kinds stay with a build.
//!
//! Equal announcements share one. It is read from the announcement when that is made; what a pin means is up to the rules
//! ([`verdict::build`]).

use std::collections::BTreeMap;

use verdict::{Build, Name, Task};

/// The build of a worker, with its kinds for which it says how runs and builds belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerBuild {
    id: Name,
    /// Whether runs of the kind are pinned.
    kinds: BTreeMap<Name, bool>,
}

impl WorkerBuild {
    pub fn new(id: Name, kinds: impl IntoIterator<Item = (Name, bool)>) -> Self {
        Self { id, kinds: kinds.into_iter().collect() }
    }

    pub fn id(&self) -> &Name {
        &self.id
    }

    /// Whether runs of some kind are pinned. Only then there may be runs that wait for this build.
    pub fn pins(&self) -> bool {
        self.kinds.values().any(|pins| *pins)
    }

    /// What the rules are told of the worker when it takes this task: also for a kind about which it says nothing, if the task
    /// is pinned to its build.
    pub(crate) fn for_task(&self, task: &Task) -> Option<Box<Build>> {
        let is_ours = task.pin() == Some(&self.id);
        let pins = self.kinds.get(&task.kind).copied().or(is_ours.then_some(true))?;
        Some(Box::new(Build { id: self.id.clone(), pins }))
    }
}
