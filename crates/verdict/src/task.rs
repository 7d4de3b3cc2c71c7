//! A task that has not ended: the state that decisions need, and what follows from it.

use crate::bounds;
use crate::budget::Balance;
use crate::flow::FlowKey;
use crate::id::{Digest, Fence, LeaseId, Name, Scope, TaskId, Text};
use crate::policy::Policy;
use crate::progress_clock::ProgressMark;
use crate::run::{Closing, Lineage, RunState, Waiting};
use crate::time::{Span, Time};

/// The state of a task. `Succeeded`, `Failed`, `Halted`, `Cancelled` and `Skipped` are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Queued,
    Running,
    Retry,
    Succeeded,
    Failed,
    Halted,
    Cancelled,
    /// Suspended until something comes, until an operator resumes it, or until its children have ended.
    Waiting,
    /// A step of a plan whose upstreams have not all ended, or that no worker has leased since.
    Blocked,
    /// A step of a plan that did not run, because an upstream did not succeed.
    Skipped,
}

impl State {
    pub const ALL: [State; 10] = [
        State::Queued,
        State::Running,
        State::Retry,
        State::Succeeded,
        State::Failed,
        State::Halted,
        State::Cancelled,
        State::Waiting,
        State::Blocked,
        State::Skipped,
    ];

    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            State::Succeeded | State::Failed | State::Halted | State::Cancelled | State::Skipped
        )
    }

    pub const fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Running => "running",
            State::Retry => "retry",
            State::Succeeded => "succeeded",
            State::Failed => "failed",
            State::Halted => "halted",
            State::Cancelled => "cancelled",
            State::Waiting => "waiting",
            State::Blocked => "blocked",
            State::Skipped => "skipped",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    pub id: TaskId,
    pub scope: Scope,
    pub kind: Name,
    pub queue: Name,
    /// Larger is more urgent.
    pub priority: i32,
    pub policy: Policy,
    pub created_at: Time,
    /// The first start of any attempt.
    pub started_at: Option<Time>,
    /// How many times a lease was acquired. The limits apply to the two counts below.
    pub attempt: u32,
    pub failures: u32,
    pub lost: u32,
    pub undelivered: u32,
    /// Grows with every acquisition, renewal, revocation and release; never reset (W-27).
    pub claim_version: u32,
    pub cancel: Option<CancelRequest>,
    pub phase: Phase,
    /// When something was last decided about this task. Time never runs backwards for it.
    pub decided_at: Time,
    /// Grows with every decision. Stores use it as the optimistic lock when they save.
    pub revision: u32,
    /// The number of history entries: one per decision that was not just a renewal.
    pub entries: u32,
    /// Digest over the submission and every closed attempt so far.
    pub chain: Digest,
    /// What a task of a durable run has besides; `None` for a plain task.
    pub run: Option<Box<RunState>>,
}

/// The state of a task that has not ended. A lease exists in `Running` and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Queued {
        due: Time,
    },
    Retry {
        due: Time,
    },
    Running(Lease),
    /// Boxed: a plain task never waits, and should not be larger for it.
    Waiting(Box<Waiting>),
}

/// The right to report for one attempt, until it expires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub id: LeaseId,
    pub owner: Name,
    pub fence: Fence,
    /// The poll that got the lease, so that a repeated poll finds it again.
    pub poll: Option<Name>,
    pub acquired_at: Time,
    /// The last successful renewal.
    pub heartbeat_at: Time,
    pub expires_at: Time,
    pub started_at: Option<Time>,
    /// Whether the owner has made a call under the lease: an undelivered grant is not a lost
    /// worker.
    pub heard: bool,
    pub progress: Option<Progress>,
    /// What the progress clock counts from; `None` without one, and until the owner has made a call.
    pub progress_mark: Option<ProgressMark>,
}

/// The progress that the worker last reported. What it says decides nothing; that it changed is progress
/// ([`crate::progress_clock`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Progress {
    pub percent: Option<u8>,
    pub message: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CancelRequest {
    pub requested_at: Time,
    pub reason: Option<Text>,
    /// When a heartbeat answer first carried the signal: the grace period counts from here.
    pub signalled_at: Option<Time>,
}

impl Task {
    pub fn state(&self) -> State {
        match &self.phase {
            Phase::Queued { .. } => State::Queued,
            Phase::Retry { .. } => State::Retry,
            Phase::Running(_) => State::Running,
            Phase::Waiting(waiting) => waiting.state(),
        }
    }

    pub fn lease(&self) -> Option<&Lease> {
        match &self.phase {
            Phase::Running(lease) => Some(lease),
            Phase::Queued { .. } | Phase::Retry { .. } | Phase::Waiting(_) => None,
        }
    }

    pub(crate) fn lease_mut(&mut self) -> Option<&mut Lease> {
        match &mut self.phase {
            Phase::Running(lease) => Some(lease),
            Phase::Queued { .. } | Phase::Retry { .. } | Phase::Waiting(_) => None,
        }
    }

    /// When the task may be leased; `None` while it is leased or its end is decided.
    pub fn claimable_at(&self) -> Option<Time> {
        match &self.phase {
            Phase::Queued { due } | Phase::Retry { due } => Some(*due),
            Phase::Running(_) => None,
            Phase::Waiting(waiting) => waiting.claimable_at(),
        }
    }

    /// When time alone will next change something about the task: the instant at which it must be
    /// swept.
    pub fn wakes_at(&self) -> Option<Time> {
        let has_no_time = self.balance().is_some_and(Balance::is_active_over);
        let is_spent = has_no_time || bounds::is_spent(self);
        let spent = self.claimable_at().filter(|_| is_spent);
        let expiry = self.run.as_ref().and_then(|run| run.approvals.next_expiry());
        [self.wakes_by_phase(), spent, expiry, self.ttl_ends_at()].into_iter().flatten().min()
    }

    fn wakes_by_phase(&self) -> Option<Time> {
        match &self.phase {
            Phase::Queued { .. } | Phase::Retry { .. } => self.time_ends_at(),
            Phase::Waiting(waiting) => {
                let slice = self.plan_root().and_then(|root| root.due);
                [waiting.wakes_at(self.time_ends_at()), slice].into_iter().flatten().min()
            }
            Phase::Running(lease) => {
                let early = [self.grace_ends_at(), self.stalls_at()].into_iter().flatten();
                Some(early.fold(lease.expires_at, Time::min))
            }
        }
    }

    /// When the grace period of a signalled cancel ends. Before the signal, only the lease expiry
    /// counts.
    pub fn grace_ends_at(&self) -> Option<Time> {
        let signalled_at = self.cancel.as_ref()?.signalled_at?;
        Some(signalled_at.plus(self.policy.cancel_grace))
    }

    /// How many attempts counted neither as a failure nor as a lost worker, the open one included:
    /// those that were released, and those that no worker heard of. Attempts that ended because the task waited count
    /// as nothing at all.
    pub fn uncounted(&self) -> u32 {
        let counted = self.failures.saturating_add(self.lost);
        let other = self.run.as_ref().map_or(0, |run| run.forgiven.saturating_add(run.suspensions));
        self.attempt.saturating_sub(counted).saturating_sub(other)
    }

    /// The run that the task belongs to: its own, unless it is a child.
    pub fn run_id(&self) -> TaskId {
        let lineage = self.run.as_ref().and_then(|run| run.lineage.as_ref());
        lineage.and_then(Lineage::run).unwrap_or(self.id)
    }

    /// What the task may use and has used.
    pub fn balance(&self) -> Option<&Balance> {
        self.run.as_ref()?.balance.as_deref()
    }

    pub(crate) fn balance_mut(&mut self) -> Option<&mut Balance> {
        self.run.as_mut()?.balance.as_deref_mut()
    }

    /// The key whose slots the task needs; `None` also if an ancestor holds what it would need.
    pub fn flow(&self) -> Option<&FlowKey> {
        self.run.as_ref()?.flow.as_deref().filter(|flow| !flow.is_shared())
    }

    /// When the wall clock of the budget stops the task.
    pub fn wall_end(&self) -> Option<Time> {
        self.balance()?.until
    }

    /// When time ends a task that no worker holds, whatever it waits for.
    fn time_ends_at(&self) -> Option<Time> {
        [self.policy.deadline, self.wall_end()].into_iter().flatten().min()
    }

    /// How many children must end before the task can.
    pub fn live_children(&self) -> u32 {
        self.run.as_ref().map_or(0, |run| run.live_children)
    }

    /// The end that is decided, if it waits for children.
    pub fn closing(&self) -> Option<&Closing> {
        match &self.phase {
            Phase::Waiting(waiting) => match &**waiting {
                Waiting::Closing(closing) => Some(closing),
                Waiting::For(_)
                | Waiting::Ready { .. }
                | Waiting::Diverged(_)
                | Waiting::Blocked { .. }
                | Waiting::Steps => None,
            },
            Phase::Queued { .. } | Phase::Retry { .. } | Phase::Running(_) => None,
        }
    }

    /// The expiry of a lease acquired at `acquired_at` and renewed at `now`: one lease length
    /// later, but never beyond the attempt limit or the deadline (W-21, W-31).
    pub fn lease_end(&self, acquired_at: Time, now: Time) -> Time {
        self.bound_lease(acquired_at, now.plus(self.policy.lease), Span::ZERO)
    }

    /// Cuts a lease expiry to what the attempt limit, the deadline and the budget allow. A gap of ours is not the worker's time.
    pub fn bound_lease(&self, acquired_at: Time, wanted: Time, gap: Span) -> Time {
        let limit = self.policy.attempt_limit.map(|limit| acquired_at.plus(limit));
        let budget = self.balance().and_then(|balance| balance.halts_at(acquired_at, gap));
        [limit, self.policy.deadline, budget].into_iter().flatten().fold(wanted, Time::min)
    }
}
