//! A release: a worker that stops hands its task back before the task is done.
//!
//! Replacing a worker is not the task's fault, so a release counts neither as a failure nor as a
//! lost worker, and the task keeps its queue position. It is not free either: grants of a task that
//! keeps being released are spaced, and their number is limited.

use super::cancel;
use crate::bounds;
use crate::done::{Category, End, Fault, Reason};
use crate::event::Next;
use crate::policy::RELEASES_MAX;
use crate::task::{Lease, State, Task};
use crate::time::Moment;

/// What becomes of a released task. A pending cancel ends it: nothing is running any more. A task
/// that was released too often ends as well; any other waits for its next worker.
pub(super) fn after(task: &Task, lease: &Lease, at: Moment) -> Next {
    let count = task.uncounted();
    if task.cancel.is_some() {
        Next::End(cancel::pending_end(task))
    } else if count > RELEASES_MAX {
        Next::End(exhausted_end())
    } else {
        let spaced = lease.acquired_at.plus(task.policy.release_spacing(count));
        bounds::retry(task, spaced.max(at.now))
    }
}

fn exhausted_end() -> End {
    let fault = Fault {
        category: Category::Infrastructure,
        message: "workers handed the task back more often than one task may be".into(),
        stack_trace: None,
        retryable: Some(false),
    };
    End {
        state: State::Failed,
        reason: Some(Reason::ReleasesExhausted),
        output: None,
        fault: Some(fault),
    }
}
