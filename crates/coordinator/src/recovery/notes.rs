//! What the end of a task leaves for recovery, in the commit of that end.

use store::ObjectChange;
use store::recovery::{evaluation_change, failed_run_change};
use verdict::approval::ApprovalChange;
use verdict::recovery::{FailedRun, RecoveryPolicy, Word, is_own};
use verdict::{Done, TaskId, Text};

use super::Policies;

/// The note of an end, if a policy covers the run. The end of an evaluation, or of a question to people, is always noted: its
/// candidate waits for it, unless this very commit carries out what it named. `approvals` are those that the end closed.
pub(crate) fn of_end(
    policies: &Policies,
    done: &Done,
    run: TaskId,
    is_evaluated: bool,
    approvals: &[ApprovalChange],
) -> Option<ObjectChange> {
    if is_own(&done.kind) {
        let word = approvals.first().and_then(word);
        return (!is_evaluated).then(|| evaluation_change(done, word.as_ref()));
    }
    let of_scope = policies.get(&done.scope)?;
    if run != done.id {
        return None;
    }
    let failed = FailedRun::of(done)?;
    RecoveryPolicy::of(of_scope.values(), &failed.queue, &failed.kind)?;
    Some(failed_run_change(&done.scope, &failed))
}

/// What people said, if the approval is closed.
pub(crate) fn word(change: &ApprovalChange) -> Option<Word> {
    let outcome = change.outcome?;
    let last = change.approval.votes.last().filter(|vote| change.by.as_ref() == Some(&vote.key));
    let comment = last.and_then(|vote| vote.comment.as_ref());
    let comment = comment.and_then(|json| serde_json::from_str::<String>(json.as_str()).ok());
    Some(Word { outcome, by: change.by.clone(), comment: comment.map(Text::from) })
}
