//! Builds of workers, and durable runs that stay with one of them.
//!
//! A worker may announce that the runs of a kind are pinned: only workers of the build that recorded something for a run may
//! continue it. A run is pinned with its first record, to the build of the worker that holds or last held its lease. Before
//! that nothing depends on the code that ran, so every build may begin it, however often a grant is lost.
//!
//! What a build is, and which workers run it, is not known here: a grant says it. Tasks with stages are never pinned, because
//! each stage is a kind with workers of its own. Children and forks are tasks that have no build yet.
//!
//! Invariants: only an unpin changes the build of a pinned run. A pinned run is offered in a queue that only polls of its
//! build ask for ([`pinned_queue`]), so that a poll without a build never meets it; the grant is checked all the same.

use std::borrow::Cow;

use crate::id::Name;
use crate::request::Grant;
use crate::run::{RunEvent, RunState};
use crate::task::Task;

/// Stands between the queue and the build in the name of a queue of pinned runs. No name that comes in has it.
const SEPARATOR: char = '@';

/// The build of a worker, as it announced it for a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Build {
    pub id: Name,
    /// Whether runs of the kind stay with the build, or may be continued by any.
    pub pins: bool,
}

/// The queue in which runs are offered that are pinned to a build.
pub fn pinned_queue(queue: &Name, build: &Name) -> Name {
    Name::from(format!("{queue}{SEPARATOR}{build}"))
}

/// The queue that a task was submitted to, from the one in which it is offered.
pub fn queue_of(offered_in: Name) -> Name {
    match offered_in.as_str().split_once(SEPARATOR) {
        Some((queue, _)) => Name::from(queue),
        None => offered_in,
    }
}

impl RunState {
    /// The build that the run is pinned to.
    pub fn pin(&self) -> Option<&Name> {
        let build = self.build.as_ref().filter(|build| build.pins && self.checkpoints > 0);
        build.map(|build| &build.id)
    }
}

impl Task {
    /// The build that the task is pinned to: no other may be granted it.
    pub fn pin(&self) -> Option<&Name> {
        self.run.as_ref()?.pin()
    }

    /// The queue in which the task is offered: its own, or that of its build.
    pub fn offered_in(&self) -> Cow<'_, Name> {
        match self.pin() {
            Some(build) => Cow::Owned(pinned_queue(&self.queue, build)),
            None => Cow::Borrowed(&self.queue),
        }
    }
}

/// Whether a worker of this build may take the task.
pub(crate) fn may_take(task: &Task, build: Option<&Build>) -> bool {
    task.pin().is_none_or(|pin| build.is_some_and(|build| build.id == *pin))
}

/// What the task remembers of the worker that takes it, if that is something new.
pub(crate) fn noted(task: &Task, grant: &Grant) -> Option<RunEvent> {
    let is_fixed = task.pin().is_some() || task.stages().is_some();
    let before = task.run.as_ref().and_then(|run| run.build.as_ref());
    let is_new = !is_fixed && before != grant.build.as_ref();
    is_new.then(|| RunEvent::BuildNoted(grant.build.clone()))
}
