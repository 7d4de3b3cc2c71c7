//! What the end of a task leaves for recovery, in the commit of that end.

use store::ObjectChange;
use store::recovery::{evaluation_change, failed_run_change};
use verdict::recovery::{FailedRun, RecoveryPolicy, is_evaluation};
use verdict::{Done, TaskId};

use super::Policies;

/// The note of an end, if a policy covers the run. The end of an evaluation is always noted: its candidate waits for it, unless
/// this very commit carries out what it named.
pub(crate) fn of_end(
    policies: &Policies,
    done: &Done,
    run: TaskId,
    is_evaluated: bool,
) -> Option<ObjectChange> {
    if is_evaluation(&done.kind) {
        return (!is_evaluated).then(|| evaluation_change(done));
    }
    let of_scope = policies.get(&done.scope)?;
    if run != done.id {
        return None;
    }
    let failed = FailedRun::of(done)?;
    RecoveryPolicy::of(of_scope.values(), &failed.queue, &failed.kind)?;
    Some(failed_run_change(&done.scope, &failed))
}
