//! One task with the rows that a view of its run shows beside it.
//!
//! A view needs four reads. Both engines make them in one snapshot: clients wait for the end of most runs,
//! and each of these waits ends with such a view.

use verdict::{ClosedAttempt, Subject, Task};

use crate::row::{Entry, Refused, StoredTask};

#[derive(Clone, Debug)]
pub struct TaskOverview {
    pub task: StoredTask,
    /// The first entry of the history, with the submission.
    pub first: Option<Entry>,
    /// The latest attempt, if it is closed and no other holds the lease.
    pub latest: Option<ClosedAttempt>,
    /// The oldest calls that were refused under the task's leases.
    pub refused: Vec<Refused>,
}

/// The number of the latest attempt, if it is closed and no other holds the lease.
pub(crate) fn latest_closed(subject: &Subject) -> Option<u32> {
    let closed = match subject {
        Subject::Absent => 0,
        Subject::Live(task) if Task::lease(task).is_some() => 0,
        Subject::Live(task) => task.attempt,
        Subject::Done(done) => done.attempt,
    };
    (closed > 0).then_some(closed)
}
