//! From values to cells: where the values of a row go.
//!
//! An engine takes a cell as a parameter of a statement, or into a column of many rows; `moving` digests it, and `verify`
//! compares it. [`crate::tables`] says which cells a row has, and in which order.

use std::borrow::Cow;

use verdict::{Done, Name, Scope, Task, TaskId, Time};

/// Takes cells one after the other. A cell that could not be taken is reported at the end of the row.
pub(crate) trait Cells {
    /// Says which column the next cell belongs to.
    fn begin(&mut self, _column: &'static str) {}

    fn text(&mut self, value: Option<&str>) -> &mut Self;
    fn bytes(&mut self, value: Option<&[u8]>) -> &mut Self;
    fn int(&mut self, value: Option<i32>) -> &mut Self;
    /// A count, which may use all 32 bits.
    fn count(&mut self, value: Option<u32>) -> &mut Self;
    fn long(&mut self, value: Option<i64>) -> &mut Self;
    fn flag(&mut self, value: Option<bool>) -> &mut Self;
}

/// What live and ended tasks have in common.
pub(crate) struct TaskIdentity<'a> {
    pub(crate) id: TaskId,
    pub(crate) scope: &'a Scope,
    /// The queue that the task is found in. A live task that is pinned to a build is offered in a queue of that build
    /// ([`Task::offered_in`]).
    pub(crate) queue: Cow<'a, Name>,
    pub(crate) kind: &'a Name,
    pub(crate) priority: i32,
    pub(crate) created_at: Time,
}

impl<'a> TaskIdentity<'a> {
    pub(crate) fn live(task: &'a Task) -> Self {
        let Task { id, scope, kind, priority, created_at, .. } = task;
        let (id, priority, created_at) = (*id, *priority, *created_at);
        Self { id, scope, queue: task.offered_in(), kind, priority, created_at }
    }

    /// The task as it was submitted: a task with stages began in the first of them.
    pub(crate) fn submitted(task: &'a Task) -> Self {
        let first = task.stages().and_then(|stages| stages.stages.first());
        let (kind, queue) = first.map_or((&task.kind, &task.queue), |it| (&it.kind, &it.queue));
        Self { kind, queue: Cow::Borrowed(queue), ..Self::live(task) }
    }

    pub(crate) fn done(done: &'a Done) -> Self {
        let Done { id, scope, queue, kind, priority, created_at, .. } = done;
        let (id, priority, created_at) = (*id, *priority, *created_at);
        Self { id, scope, queue: Cow::Borrowed(queue), kind, priority, created_at }
    }
}
