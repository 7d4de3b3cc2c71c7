//! What a task of a durable run has in its own row: its lineage and what it counts. Everything else is loaded by key.

use crate::approval::Approvals;
use crate::bounds::next;
use crate::budget::Balance;
use crate::build::Build;
use crate::flow::FlowKey;
use crate::id::TaskId;
use crate::plan::PlanState;

use super::checkpoint::Spend;
use super::limits::SETBACKS_MAX;
use super::lineage::Lineage;
use super::signal::SignalCounts;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RunState {
    /// `None` for a root that a client submitted.
    pub lineage: Option<Lineage>,
    /// The run whose records it began with; `None` for all but forks.
    pub forked_from: Option<TaskId>,
    /// The number of the last checkpoint or started child: both share one order, because replay needs it.
    pub checkpoints: u32,
    pub steps: u32,
    /// The number of the checkpoint after which replay begins; 0 if that is the beginning.
    pub savepoint: u32,
    /// Children ever spawned, detached ones included.
    pub children: u32,
    /// Children of the run that have not ended, as far as their messages say.
    pub live_children: u32,
    pub signals: SignalCounts,
    /// What all steps used together.
    pub spend: Spend,
    /// Failures and lost workers before the last new checkpoint. The limits of the policy no longer count them.
    pub forgiven: u32,
    /// Attempts that ended because the task waited, or because its stage ended. They count towards no limit.
    pub suspensions: u32,
    /// Approvals that the task waits for.
    pub approvals: Approvals,
    /// What the task may use and has used; `None` without a budget.
    pub balance: Option<Box<Balance>>,
    /// The key that the task was submitted with; `None` without one.
    pub flow: Option<Box<FlowKey>>,
    /// The plan that the task has or belongs to.
    pub plan: Option<Box<PlanState>>,
    /// The build of the worker that last took the task, if it announced one for the kind.
    pub build: Option<Box<Build>>,
}

impl RunState {
    /// Whether one more failure or lost worker, after so many since the last checkpoint, is more than a task may have.
    pub(crate) fn is_worn_out(&self, failures: u32, lost: u32) -> bool {
        let total = self.forgiven.saturating_add(failures).saturating_add(lost);
        self.forgiven > 0 && total >= SETBACKS_MAX
    }

    /// The number of the checkpoint that is recorded next.
    pub(crate) fn next_checkpoint(&self) -> u32 {
        next(self.checkpoints)
    }
}
