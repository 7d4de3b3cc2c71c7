//! What one request about a durable run names.

use verdict::plan::PlanNeed;
use verdict::run::{Loaded, Named};
use verdict::{Request, Subject, Task};

use crate::row::TaskKey;

/// What to load for one request besides its task. The task is among [`crate::Lookup::tasks`] of the same call, or the
/// batch has locked it before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLookup {
    pub task: TaskKey,
    pub named: Named,
}

impl RunLookup {
    /// What a request names; `None` for a plain one. A sweep asks with [`RunLookup::sweep`].
    pub fn of(task: &TaskKey, request: &Request) -> Option<Self> {
        let Request::Run(_) = request else { return None };
        let named = Named::by(request);
        (!named.is_empty()).then(|| Self { task: task.clone(), named })
    }

    /// What the sweep of a selected task names; `None` if there is nothing to load, as for every plain task.
    pub fn sweep(task: &Task) -> Option<Self> {
        let run = task.run.as_ref()?;
        let (named, subject) = (Named::by(&Request::Sweep), Subject::Live(task.clone()));
        let has_signals = run.signals.pending > 0 && named.needs_signals(&subject);
        let key = TaskKey { scope: task.scope.clone(), id: task.id };
        let has_slice = named.slice_of(&subject).is_some();
        let has_steps = PlanNeed::of(&named, &subject).is_some();
        (has_signals || has_slice || has_steps).then_some(Self { task: key, named })
    }

    /// Leaves out what the task, now that it is known, does not need: an engine may load pending signals before it knows
    /// whether the task waits.
    pub fn fit(&self, subject: &Subject, mut loaded: Loaded) -> Loaded {
        if !self.named.needs_signals(subject) {
            loaded.signals.clear();
        }
        loaded
    }
}
