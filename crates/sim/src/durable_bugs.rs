//! Planted bugs that only durable runs, plans and progress clocks can show.

use store::{Change, Loaded, MessageChanges};
use verdict::{AttemptOutcome, ClosedAttempt, Subject, Task};

use crate::escrow;
use crate::planted_bug::PlantedBug;

/// Leaves out a part of what a request needs.
pub(crate) fn forget(bug: PlantedBug, loaded: &mut verdict::run::Loaded) {
    match bug {
        PlantedBug::LosesWakeUps => loaded.signals.clear(),
        PlantedBug::DoublesChildren => loaded.children.clear(),
        PlantedBug::ForgetsSteps => loaded.checkpoints.clear(),
        PlantedBug::ForgetsBlame => {
            let rows = loaded.plan.iter_mut().flat_map(|plan| &mut plan.downstreams);
            rows.for_each(|row| row.blame = None);
        }
        PlantedBug::ForgetsDownstreams => {
            loaded.plan.iter_mut().for_each(|plan| plan.downstreams.clear());
        }
        _ => {}
    }
}

/// Leaves out the votes of open approvals.
pub(crate) fn forget_votes(loaded: &mut Loaded) {
    let Loaded::Subject(Subject::Live(task)) = loaded else { return };
    for approval in task.run.iter_mut().flat_map(|run| &mut run.approvals.open) {
        approval.votes.clear();
    }
}

/// Drops messages that are to be decided later.
pub(crate) fn lose_messages(messages: &mut MessageChanges) {
    let decided = std::mem::take(&mut messages.decided);
    let is_saved_now = |key: &store::MessageKey| messages.saved.iter().any(|it| it.key() == *key);
    messages.decided = decided.into_iter().filter(|key| !is_saved_now(key)).collect();
    messages.saved.clear();
}

/// Takes back what attempts settled that were lost.
pub(crate) fn drop_lost_spend(changes: &mut [Change]) {
    for change in changes {
        let lost = |closed: &&ClosedAttempt| closed.outcome == AttemptOutcome::Lost;
        let lost = change.closed.iter().filter(lost).count() as u64;
        let run = match &mut change.after {
            Subject::Live(task) => task.run.as_mut(),
            Subject::Done(done) => done.run.as_mut(),
            Subject::Absent => None,
        };
        if let Some(balance) = run.and_then(|run| run.balance.as_mut()) {
            balance.used.tokens = balance.used.tokens.saturating_sub(lost * escrow::RESERVE);
        }
    }
}

/// Leaves out the progress clock of a task.
pub(crate) fn forget_progress_clock(bug: PlantedBug, task: &mut Task) {
    if bug == PlantedBug::ForgetsProgressClock {
        task.policy.progress_clock = None;
    }
}
