//! The events of a history, one per line: the writer, what it saw, and its place in the order.
//!
//! A history is JSON lines. Clients and workers write a call when they make it (`invoke`) and when its answer arrives
//! (`return`); coordinators write their decisions; the nemesis writes the faults it injects. `at` is an order shared
//! by all writers: an event with a smaller `at` was over before one with a larger `at` began. It need not be a time.
//! All other members are optional unless the event is meaningless without them; a check that lacks a member skips
//! that event.
//!
//! Unknown members are refused: a misspelt member must not disable a check.

use serde::{Deserialize, Serialize};

use crate::durable::{DurableCall, Replay};
use crate::outbox::{Declared, Delivered};

/// The name of a task or run; the ULID is sufficient.
pub type Task = String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The order shared by all writers.
    pub at: u64,
    /// `client-3`, `worker-1`, `coordinator-2`, `nemesis`.
    pub who: String,
    /// The writer's monotonic clock in milliseconds, if all writers of the history read the same clock.
    pub clock: Option<u64>,
    pub what: EventKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A call is about to be made.
    Invoke(Invoke),
    /// The answer to a call, or the certainty that there will be none. A call without a `return` got no answer.
    Return(Return),
    /// A decision that a coordinator made durable.
    Decision(Decision),
    Fault(Fault),
    /// All tasks at one moment.
    Snapshot(Snapshot),
    /// A provenance record as it was read.
    Record(Record),
    /// A digest of the whole state.
    State(StateDigest),
    /// One record of the audit as it was read.
    Audit(Audit),
    /// How much of a limited resource is in use.
    Usage(Usage),
    /// What an attempt of a durable run was shown before it began.
    Replay(Replay),
    /// A person was told that a vote on an approval counts.
    Vote(Vote),
    /// What a reader was shown of a plan whose run has ended.
    Plan(EndedPlan),
    /// A caller asks for an effect.
    Declared(Declared),
    /// A receiver was called.
    Delivered(Delivered),
    /// Faults have stopped, and everything accepted had time to end.
    Settled(Settled),
}

/// The steps of a plan after the end of its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndedPlan {
    pub run: Task,
    pub state: State,
    /// Whether anybody asked to cancel the run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancelled: bool,
    pub steps: Vec<EndedStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndedStep {
    pub key: String,
    /// What it depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    pub state: State,
    /// A failure of it does not keep others from running.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tolerated: bool,
    /// By the coordinator's clock, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<i64>,
}

/// A vote that was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vote {
    pub approval: String,
    /// Whose vote it is.
    pub key: String,
    pub approves: bool,
    /// How many must approve.
    pub quorum: u32,
    /// What the vote decided, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    Submit,
    Lease,
    Started,
    Heartbeat,
    Report,
    Cancel,
    Get,
    /// Records steps and children of a durable run, and may wait.
    Checkpoint,
    Signal,
    /// Lets a diverged run go on.
    Resume,
    /// Changes keys or permissions.
    Administer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invoke {
    /// Unique in the history.
    pub call: u64,
    pub op: Operation,
    /// `tenant/workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// Idempotency key of a submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The content of a submission or a report, in any form that preserves equality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The id of a poll that may be retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<String>,
    /// The outcome in a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The submission has a plan whose steps are tasks: no worker leases the run itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plan: bool,
    /// An immediate cancel: the worker is not asked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// The largest number of tasks that a poll asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// The coordinator's time in milliseconds when the call was made, if the caller knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<i64>,
    /// The credential that the caller presents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Credential>,
    /// The change that an administrative call makes, in any form that preserves equality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// What the call asks to record of a durable run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<DurableCall>,
}

/// The credential that a caller presents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    pub class: Class,
    /// The lease that a task token was issued for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    Client,
    Worker,
    Admin,
    /// The token of one lease.
    Task,
    /// No credential, or one that was never issued.
    None,
}

impl Invoke {
    /// A call as it is recorded before it is made; members that do not apply stay empty.
    pub fn of(op: Operation) -> Self {
        Self {
            call: 0,
            op,
            scope: None,
            task: None,
            key: None,
            digest: None,
            worker: None,
            attempt: None,
            poll: None,
            outcome: None,
            plan: false,
            force: false,
            max: None,
            now: None,
            shown: None,
            change: None,
            durable: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The call succeeded.
    Ok,
    /// A definite refusal: nothing happened.
    Fail,
    /// The outcome is unknown: a timeout, a cut connection, a 5xx answer. The call may take effect at any later time.
    Info,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Return {
    pub call: u64,
    pub answer: Answer,
    /// The error code of the refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// COMMITTED, CANCELLED or REJECTED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
    /// The task that a submission created or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The task's state in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The task's attempt in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The task's output in the answer, in the form in which it was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When a renewed lease ends, by the coordinator's clock in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// The answer to a heartbeat asks the worker to stop.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancel: bool,
    /// The leases that a poll got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Granted>,
    /// The tasks that the call started, or that an earlier call started under the same keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Task>,
    /// The body of the answer, without the requested id and without the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The scopes whose tags appear in the answer: each scope tags everything it submits.
    #[serde(rename = "marks", default, skip_serializing_if = "Vec::is_empty")]
    pub scope_tags: Vec<String>,
}

impl Return {
    /// An answer without further members.
    pub fn of(answer: Answer) -> Self {
        Self {
            call: 0,
            answer,
            code: None,
            verdict: None,
            replayed: false,
            task: None,
            state: None,
            attempt: None,
            digest: None,
            expires: None,
            cancel: false,
            grants: Vec::new(),
            children: Vec::new(),
            body: None,
            scope_tags: Vec::new(),
        }
    }
}

/// A lease as its worker received it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Granted {
    pub task: Task,
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// How long the lease lasts without a renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
}

/// What caused a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Submit,
    Grant,
    Started,
    Heartbeat,
    Report,
    Cancel,
    Sweep,
    /// A grant that was not delivered is handed back.
    Undelivered,
    /// A lease is extended by a time in which no heartbeat could be recorded.
    Extend,
    Checkpoint,
    Signal,
    /// Another task of the same run asks for it, or has ended.
    Message,
    Resume,
}

/// One row of a task's history. Renewals may be omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    pub task: Task,
    /// From 1, without gaps; `None` for decisions that are not stored, such as a renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// The coordinator's time in milliseconds.
    pub now: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    pub cause: Cause,
    /// The state before the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<State>,
    pub after: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When the lease expires: the new value for a grant, a renewal or an extension, the old one for a closing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// The instant from which the task may be leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<i64>,
    /// Only with a submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_max: Option<u32>,
    /// How an attempt closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The report that closed the attempt, or the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Only where another task asked for this one: that task and the key there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Queued,
    Running,
    /// A durable run that waits, or whose end waits for its children.
    Waiting,
    Retry,
    Succeeded,
    Failed,
    Halted,
    Cancelled,
    /// A step of a plan that waits for other steps.
    Blocked,
    /// A step of a plan that did not run, because of another one.
    Skipped,
}

impl State {
    pub fn is_terminal(self) -> bool {
        let is_end = matches!(self, State::Succeeded | State::Failed | State::Halted);
        is_end || matches!(self, State::Cancelled | State::Skipped)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    Succeeded,
    Failed,
    Cancelled,
    Lost,
    Undelivered,
    Revoked,
    Released,
    Suspended,
    Diverged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Begin,
    End,
}

/// The beginning or the end of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// `down` means that no coordinator could receive calls: that time does not count against any worker.
    pub fault: String,
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The name of the fault during which no coordinator can receive calls.
pub const DOWN: &str = "down";

/// The detail of that fault where a database fails over.
pub const PRIMARY: &str = "the primary";

/// The names of faults whose end begins a recovery: a process restarts, a standby is promoted.
pub const RESTART: &str = "restart";
pub const FAILOVER: &str = "failover";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The coordinator's time.
    pub now: i64,
    /// How long after lease expiry a task may still be running: the sweep's interval plus some slack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack_ms: Option<i64>,
    pub tasks: Vec<TaskSnapshot>,
    /// The number of tasks according to another source, such as a metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSnapshot {
    pub task: Task,
    pub state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub task: Task,
    pub state: State,
    /// The digest of the record.
    pub digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The durable state when the coordinator died.
    Lost,
    /// The state that the next coordinator found.
    Recovered,
    /// The state before a call that must be refused, with no other call in progress.
    Asked,
    /// The state after that call.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateDigest {
    pub moment: Moment,
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// The change, as the call described it.
    pub change: String,
    /// The principal named as its author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// The resource: entries of a history, waiting polls, bytes of a log.
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    pub used: u64,
    pub limit: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {}

fn is_false(value: &bool) -> bool {
    !value
}
