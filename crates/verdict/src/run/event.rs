//! What happens to a durable run, besides what happens to every task.

use crate::approval::{Approval, Outcome, Vote};
use crate::budget::BudgetEvent;
use crate::build::Build;
use crate::done::End;
use crate::event::Submitted;
use crate::id::{Digest, TaskId};
use crate::plan::PlanEvent;
use crate::request::CancelMode;

use super::checkpoint::Checkpoint;
use super::lineage::Lineage;
use super::loaded::{Child, ChildRef};
use super::request::ChildCall;
use super::signal::Signal;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunEvent {
    /// The first event of a task that another task's call made.
    Spawned {
        submitted: Box<Submitted>,
        lineage: Lineage,
    },
    /// A step, a wait or the end of a child is recorded. The checkpoint of an open wait makes the task ready.
    Checkpointed(Box<Checkpoint>),
    /// A child is recorded, and its parent asks for it.
    ChildSpawned(Box<ChildCall>),
    /// A child of the run that this one was forked from. It is part of the record, and belongs to the other run.
    ChildInherited(Box<Child>),
    SignalReceived(Box<Signal>),
    /// Something that the task waits for has come, and so much is still missing.
    WaitAdvanced {
        missing: u32,
    },
    /// The task's end is decided while no attempt is open, and waits for its children.
    Closing(End, CancelMode),
    /// A slice of the children of a closing task is cancelled.
    ChildrenCancelled {
        children: Vec<ChildRef>,
        mode: CancelMode,
        has_more: bool,
    },
    /// A closing task is to revoke the leases of its children instead of asking.
    Hastened,
    /// An operator lets a diverged task continue.
    Resumed,
    /// A worker of this build took the task, or one that announced none.
    BuildNoted(Option<Box<Build>>),
    /// An operator lets workers of every build continue a pinned run. It has no build until one takes it.
    Unpinned,
    ApprovalOpened(Box<Approval>),
    ApprovalVoted {
        number: u32,
        vote: Box<Vote>,
    },
    /// It was decided, or its time is over. A signal follows.
    ApprovalClosed {
        number: u32,
        outcome: Outcome,
    },
    /// The task takes over what another run recorded.
    Forked {
        from: TaskId,
        /// The digest of the other run's record.
        record: Digest,
    },
    /// About a budget.
    Budget(Box<BudgetEvent>),
    /// About a plan.
    Plan(Box<PlanEvent>),
}

impl RunEvent {
    pub fn name(&self) -> &'static str {
        match self {
            RunEvent::Spawned { .. } => "spawned",
            RunEvent::Checkpointed(_) => "checkpointed",
            RunEvent::ChildSpawned(_) => "child_spawned",
            RunEvent::ChildInherited(_) => "child_inherited",
            RunEvent::Forked { .. } => "forked",
            RunEvent::SignalReceived(_) => "signal_received",
            RunEvent::WaitAdvanced { .. } => "wait_advanced",
            RunEvent::Closing(..) => "closing",
            RunEvent::ChildrenCancelled { .. } => "children_cancelled",
            RunEvent::Hastened => "hastened",
            RunEvent::Resumed => "resumed",
            RunEvent::BuildNoted(_) => "build_noted",
            RunEvent::Unpinned => "unpinned",
            RunEvent::ApprovalOpened(_) => "approval_opened",
            RunEvent::ApprovalVoted { .. } => "approval_voted",
            RunEvent::ApprovalClosed { .. } => "approval_closed",
            RunEvent::Budget(event) => event.name(),
            RunEvent::Plan(event) => event.name(),
        }
    }
}
