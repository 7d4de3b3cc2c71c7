//! What passes through the intake: a request with its scope and its reply channel.

use std::sync::Arc;
use std::time::Duration;

use store::{BatchSpec, Failure, FailureKind, Spec, TaskKey, TaskWithSpec};
use tokio::sync::oneshot;
use tokio::time::Instant;
use topology::Topology;
use topology::deployment::{ArtifactRef, Event, PauseState};
use topology::fields::CheckedFields;
use verdict::effect::{Declared, EffectId};
use verdict::log::SentLog;
use verdict::recovery::{Action, ForkOutcome};
use verdict::request::{Caller, Undelivered};
use verdict::run::Then;
pub use verdict::schedule::{ScheduleCall, ScheduleRequest, ScheduleTarget};
pub use verdict::submission::{Fork, ForkItem, PlannedSteps, StepSubmission, Submission};
use verdict::topology::TopologyRefusal;
use verdict::{
    Answer, Balance, Digest, LeaseId, Name, ObjectKey, Request, Scope, Task, TaskId, Text, Time,
};

use crate::intake::PriorityClass;
use crate::subjects::ObjectRequest;
use crate::worker_build::WorkerBuild;

/// One request of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Submit {
        submission: Submission,
        /// The digest of the input, computed where the request arrived: the carrier has one thread for all of them.
        input: Digest,
    },
    /// A request about an existing task.
    About {
        key: TaskKey,
        request: Request,
        /// Lines that a worker sent with it.
        log: Option<Box<SentLog>>,
    },
    /// A checkpoint call that wants children, or whose steps ask for effects. Ids of children are assigned when it is
    /// decided, as those of submissions.
    WithChildren {
        key: TaskKey,
        /// The call, with placeholders for the submissions of its children.
        request: Request,
        /// In the order of the call's children.
        children: Box<[Submission]>,
        effects: Box<[Declared]>,
        /// The effects that its wait is for.
        watched: Box<[Watched]>,
        /// Lines that a worker sent with it.
        log: Option<Box<SentLog>>,
    },
    /// A request about an object.
    Object(Box<ObjectRequest>),
    /// A request about recovery.
    Recovery(Box<RecoveryItem>),
    /// A request about a deployment.
    Topology(Box<TopologyItem>),
}

/// An effect of the calling task, and the item of its wait that is for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) effect: EffectId,
    pub(crate) item: Name,
}

/// A request about recovery, of a person, of time, or of the one who carries out what was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryItem {
    pub scope: Scope,
    pub call: RecoveryCall,
    /// The API key of the caller; `None` if no person asks.
    pub by: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryCall {
    /// Count failures for the candidates of their signatures.
    Match { notes: Vec<ObjectKey> },
    /// The time of a candidate may be over.
    Expire { candidate: Name },
    /// A person names an action.
    Decide {
        candidate: Name,
        action: Action,
        comment: Option<Text>,
        /// The roles of the caller's key.
        roles: Vec<Name>,
    },
    /// What came of some failed runs of a round.
    Executed {
        candidate: Name,
        /// The evaluation of the round.
        round: TaskId,
        outcomes: Vec<(TaskId, ForkOutcome)>,
        /// No more runs of the round are left.
        is_last: bool,
    },
}

/// A request about a deployment, of a person, of time, or of a role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TopologyItem {
    pub(crate) scope: Scope,
    pub(crate) deployment: Name,
    /// The generation that the caller knows: rows of another one are not meant.
    pub(crate) generation: u32,
    pub(crate) call: TopologyCall,
    /// The API key of the caller; `None` if no person asks.
    pub(crate) by: Option<Name>,
}

#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "said in calls over HTTP only"))]
pub(crate) enum TopologyCall {
    /// Put a version in force.
    Apply(ComparedTopology),
    Pause,
    Resume,
    Delete,
    Create {
        artifact: ArtifactRef,
        fields: CheckedFields,
    },
    Move {
        artifact: ArtifactRef,
        to: String,
        /// The revision that the caller read.
        expect: Option<u64>,
        fields: Option<CheckedFields>,
        /// Whether the caller may make approvals, or changes that any person may make.
        is_approval: bool,
    },
    /// Emit an event that is made on request.
    Emit {
        event: String,
        key: String,
    },
    /// Time or a poll asks what roles do about an artifact.
    Advance {
        artifact: ArtifactRef,
    },
    /// An outside process says that its role does what it has to about an artifact that it read.
    Go {
        role: String,
        artifact: ArtifactRef,
        revision: u64,
    },
    /// Time has come for events at intervals.
    Tick,
    /// Every artifact was looked at since the deployment has this mark.
    Scanned {
        mark: String,
    },
    ClosePause {
        id: String,
    },
    /// The last event of a deleted deployment has ended.
    Settled,
    /// The task of an event ended otherwise than by its role: its pause state, and the end of the note that said so.
    Unprocessed {
        task: TaskId,
        pause: Box<PauseState>,
    },
    /// A role ends its claim on an event or work order, with everything that follows from it.
    Report(Box<RoleReport>),
}

/// A checked topology. Two are the same if they are the same version.
#[derive(Clone, Debug)]
pub(crate) struct ComparedTopology(pub(crate) Arc<Topology>);

impl PartialEq for ComparedTopology {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest() == other.0.digest()
    }
}

/// What a role proposes, and the report that ends its claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RoleReport {
    /// The report that ends the claim; `None` where the task has ended already and only its rows are left.
    pub(crate) claim: Option<(TaskKey, Request)>,
    pub(crate) role: String,
    /// The version by which the role proposed.
    pub(crate) version: String,
    /// The event that it processes, if it is one.
    pub(crate) event: Option<Event>,
    pub(crate) changes: Vec<topology::proposal::Change>,
    /// Why nothing is to be changed although the claim may hold. Whoever has lost its claim learns that first.
    pub(crate) objection: Option<TopologyRefusal>,
}

impl Item {
    pub(crate) fn topology(
        scope: &Scope,
        deployment: &Name,
        generation: u32,
        call: TopologyCall,
    ) -> Self {
        let (scope, deployment) = (scope.clone(), deployment.clone());
        Item::Topology(Box::new(TopologyItem { scope, deployment, generation, call, by: None }))
    }

    pub(crate) fn recovery(scope: &Scope, call: RecoveryCall) -> Self {
        Item::Recovery(Box::new(RecoveryItem { scope: scope.clone(), call, by: None }))
    }

    pub(crate) fn submit(submission: Submission) -> Self {
        let input = Digest::of(&[submission.spec.input.as_str().as_bytes()]);
        Item::Submit { submission, input }
    }

    /// A request about an existing task.
    pub(crate) fn asking(key: TaskKey, request: Request) -> Self {
        Item::About { key, request, log: None }
    }

    /// The same with the lines that a worker sent.
    #[must_use]
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "said in calls over HTTP only"))]
    pub(crate) fn with_log(mut self, sent: Option<Box<SentLog>>) -> Self {
        if let Item::About { log, .. } | Item::WithChildren { log, .. } = &mut self {
            *log = sent;
        }
        self
    }

    /// Lines that came with a call under a lease: its task, its caller, and the lines.
    pub(crate) fn log(&self) -> Option<(&TaskKey, &Caller, &SentLog)> {
        let (Item::About { key, request, log } | Item::WithChildren { key, request, log, .. }) =
            self
        else {
            return None;
        };
        Some((key, request.caller()?, log.as_deref()?))
    }

    /// The hand-back of a grant that no worker received.
    pub(crate) fn undelivered(key: TaskKey, lease: LeaseId) -> Self {
        Item::asking(key, Request::Undelivered(Undelivered { lease }))
    }

    /// Where what it is about lives.
    pub(crate) fn scope(&self) -> &Scope {
        match self {
            Item::Submit { submission, .. } => &submission.scope,
            Item::About { key, .. } | Item::WithChildren { key, .. } => &key.scope,
            Item::Object(request) => request.scope(),
            Item::Recovery(item) => &item.scope,
            Item::Topology(item) => &item.scope,
        }
    }

    /// The task that a request is about, and the request; `None` for one that is about no task.
    pub(crate) fn about(&self) -> Option<(&TaskKey, &Request)> {
        match self {
            Item::About { key, request, .. } | Item::WithChildren { key, request, .. } => {
                Some((key, request))
            }
            Item::Topology(item) => match &item.call {
                TopologyCall::Report(report) => {
                    report.claim.as_ref().map(|(key, request)| (key, request))
                }
                _ => None,
            },
            Item::Submit { .. } | Item::Object(_) | Item::Recovery(_) => None,
        }
    }

    /// The same with this in place of its request about a task.
    #[must_use]
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "said in calls over HTTP only"))]
    pub(crate) fn map_request(mut self, change: impl FnOnce(Request) -> Request) -> Self {
        if let Item::About { request, .. } | Item::WithChildren { request, .. } = &mut self {
            *request = change(std::mem::replace(request, Request::Sweep));
        }
        self
    }

    /// Notes the API key under which the calling attempt was leased: it may not decide what the attempt asks for, nor about what
    /// it has done.
    #[must_use]
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "said in calls over HTTP only"))]
    pub(crate) fn asked_by(mut self, key: Option<&Name>) -> Self {
        if let Item::About { request, .. } | Item::WithChildren { request, .. } = &mut self {
            if let Some(call) = request.checkpoint_call_mut() {
                if let Then::Wait(wait) = &mut call.then {
                    wait.approvals.iter_mut().for_each(|call| call.asked_by = key.cloned());
                }
                call.asked_by = key.cloned();
            } else if let Some(report) = request.report_mut() {
                report.by = key.cloned();
            }
        }
        self
    }

    /// The scope in which the request may create tasks: its tenant's quota holds for it.
    pub(crate) fn creates_in(&self) -> Option<&Scope> {
        match self {
            Item::WithChildren { key, children, .. } => {
                (!children.is_empty()).then_some(&key.scope)
            }
            _ => self.starts_in(),
        }
    }

    /// The scope in which the request may start a run: its budgets hold for it.
    pub(crate) fn starts_in(&self) -> Option<&Scope> {
        match self {
            Item::Submit { submission, .. } => Some(&submission.scope),
            Item::WithChildren { key, request, .. } => {
                has_detached_child(request).then_some(&key.scope)
            }
            Item::Object(request) => Some(request.scope()),
            Item::Topology(item) => Some(&item.scope),
            Item::About { .. } | Item::Recovery(_) => None,
        }
    }

    /// The lease that a call quotes, used to find its closed attempt.
    pub(crate) fn quoted_lease(&self) -> Option<LeaseId> {
        self.about().and_then(|(_, request)| request.caller()).map(|caller| caller.lease)
    }

    /// The priority class in which it waits for a batch.
    pub(crate) fn class(&self) -> PriorityClass {
        match self {
            // It makes tasks, as a submission does.
            Item::Topology(_) => PriorityClass::NewWork,
            Item::About { request: Request::Undelivered(_), .. } => PriorityClass::Leased,
            _ if self.quoted_lease().is_some() => PriorityClass::Leased,
            Item::About { .. }
            | Item::WithChildren { .. }
            | Item::Submit { .. }
            | Item::Object(_)
            | Item::Recovery(_) => PriorityClass::NewWork,
        }
    }
}

/// Children of the parent's own run are paid from its own budget.
fn has_detached_child(request: &Request) -> bool {
    let call = request.checkpoint_call();
    call.is_some_and(|call| call.children.iter().any(|child| child.is_detached))
}

/// Requests that arrived together and are answered together; each is decided separately.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) items: Vec<Item>,
    pub(crate) reply: oneshot::Sender<Vec<Reply>>,
}

/// The result of one request.
pub type Reply = Result<Answered, RequestError>;

/// The answer of a verdict, sent after its batch was durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub answer: Answer,
    /// The store's time at the decision.
    pub at: Time,
    /// When the first step of a checkpoint call was recorded: by this decision, or by an earlier one that it repeats.
    pub recorded_at: Option<Time>,
    /// What the task may use and has used, after this decision.
    pub balance: Option<Box<Balance>>,
    /// The task as it was leased again, where the decision leased its next stage.
    pub next: Option<Box<Task>>,
}

/// Why a request got no verdict. Never a refusal by the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("too many requests are waiting; try again later")]
    Overloaded,
    #[error("the coordinator is shutting down; try again in a moment")]
    ShuttingDown,
    /// Definite: nothing was changed.
    #[error("the store could not take the request because {0}; nothing was changed")]
    Unavailable(Outage),
    /// The commit's outcome is unknown. Repeating the request with the same key or report is safe.
    #[error(
        "the outcome is unknown because the store failed during the commit; a report, or a submission with an idempotency key, is safe to repeat"
    )]
    Unknown,
    /// This request alone violated an assertion or could not be stored; nothing was changed.
    #[error("the request failed because of a bug in the coordinator; nothing was changed")]
    Defect,
    /// The task cannot be read, decided or stored, and is tried again after this time; nothing was
    /// changed.
    #[error("the task is set aside because it cannot be processed; the server's log says why")]
    SetAside(Duration),
}

/// An outage: why the store refuses writes, and when to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Outage {
    pub reason: UnavailableReason,
    pub retry_after: Duration,
}

/// Why the store is unavailable, in words that any client may see. Details go to the operator's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnavailableReason {
    #[error("its disk is full")]
    DiskFull,
    #[error(
        "its file was deleted or moved while the server ran (the operator must put it back, or stop the server and \
         restore a backup)"
    )]
    FileMissing,
    #[error("it did not answer as expected")]
    NotResponding,
    #[error("other requests keep changing the task")]
    Contended,
    #[error("leases from before the start are still being recovered")]
    Recovering,
}

impl UnavailableReason {
    pub(crate) fn of(failure: &Failure) -> Self {
        match failure.kind {
            FailureKind::Full => UnavailableReason::DiskFull,
            FailureKind::Missing => UnavailableReason::FileMissing,
            FailureKind::Conflict(_) => UnavailableReason::Contended,
            FailureKind::Invalid
            | FailureKind::Closed
            | FailureKind::InUse
            | FailureKind::Exists
            | FailureKind::Unfinished
            | FailureKind::Untrusted
            | FailureKind::UnknownRules
            | FailureKind::Unavailable
            | FailureKind::Overloaded
            | FailureKind::Fatal => UnavailableReason::NotResponding,
        }
    }
}

/// A worker waiting for work.
#[derive(Debug)]
pub struct Poll {
    pub scope: Scope,
    pub worker: Name,
    pub queues: Vec<Name>,
    pub kinds: Option<Vec<Name>>,
    pub max: usize,
    /// When to stop waiting for the first task.
    pub until: Instant,
    /// A name for the poll. A repeated poll with the same name gets the same leases.
    pub poll: Option<Name>,
    /// The build that the worker announced, if it matters for some of its kinds.
    pub build: Option<Arc<WorkerBuild>>,
}

/// A poll with its reply channel.
#[derive(Debug)]
pub(crate) struct WaitingPoll {
    pub(crate) poll: Poll,
    pub(crate) reply: oneshot::Sender<Result<Vec<BatchGrant>, RequestError>>,
}

/// A worker that waits for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingWorker {
    pub worker: Name,
    pub polls: Vec<WaitingPolls>,
}

/// Workers that wait, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingPage {
    pub workers: Vec<WaitingWorker>,
    /// Whether there are more workers than one answer looks at.
    pub is_cut: bool,
}

/// Polls of one worker that ask for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingPolls {
    pub queues: Vec<Name>,
    pub kinds: Option<Vec<Name>>,
    pub count: usize,
    /// How many tasks they would take together.
    pub max: usize,
}

/// A leased task as its batch knows it: what it was submitted with may be left to be read after the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchGrant {
    /// Running, with its lease.
    pub(crate) task: Task,
    pub(crate) spec: BatchSpec,
    pub(crate) at: Time,
}

impl BatchGrant {
    pub(crate) fn new(ready: TaskWithSpec, at: Time) -> Self {
        Self { task: ready.task, spec: ready.spec, at }
    }

    pub(crate) fn key(&self) -> TaskKey {
        TaskKey { scope: self.task.scope.clone(), id: self.task.id }
    }

    pub(crate) fn lease(&self) -> LeaseId {
        self.task.lease().expect("a granted task has a lease").id
    }

    /// With what the task was submitted with.
    pub(crate) fn complete(self, spec: Spec) -> Granted {
        Granted { task: self.task, spec, at: self.at }
    }
}

/// A leased task with everything its worker needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Running, with its lease.
    pub task: Task,
    pub spec: Spec,
    pub at: Time,
}

impl Granted {
    pub fn key(&self) -> TaskKey {
        TaskKey { scope: self.task.scope.clone(), id: self.task.id }
    }

    pub fn lease(&self) -> LeaseId {
        self.task.lease().expect("a granted task has a lease").id
    }

    /// The caller that a worker of this lease acts as.
    pub fn caller(&self) -> Caller {
        let lease = self.task.lease().expect("a granted task has a lease");
        Caller {
            worker: lease.owner.clone(),
            attempt: self.task.attempt,
            lease: lease.id,
            epoch: lease.fence.epoch(),
        }
    }
}
