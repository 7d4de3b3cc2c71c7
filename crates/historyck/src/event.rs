//! One line of a history: who saw what, and in which order.
//!
//! A history is JSON lines. Clients and workers write a call when they make it (`invoke`) and when they are
//! answered (`return`); coordinators write what they decided; whoever breaks things writes that down too.
//! `at` is an order that all writers share: an event with a smaller `at` was over before one with a larger
//! `at` began. It need not be a time. Everything else is optional unless it is needed to understand the event;
//! a check that lacks what it needs says nothing about that event.
//!
//! Members that are unknown here are refused: a misspelt member must not turn a check off.

use serde::{Deserialize, Serialize};

/// A task's or run's name; the ULID is enough.
pub type Task = String;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The order all writers share.
    pub at: u64,
    /// `client-3`, `worker-1`, `coordinator-2`, `nemesis`.
    pub who: String,
    /// The writer's monotonic clock in milliseconds, where all writers of a history read one and the same.
    pub clock: Option<u64>,
    pub what: EventKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A call is about to be made.
    Invoke(Invoke),
    /// Its answer came, or it is known that none will. A call without a `return` is one without an answer.
    Return(Return),
    /// What a coordinator decided, and made durable.
    Decision(Decision),
    Fault(Fault),
    /// All tasks at one moment.
    Snapshot(Snapshot),
    /// A provenance record as somebody read it.
    Record(Record),
    /// A digest over the whole state.
    State(StateDigest),
    /// One record of the audit, as it was read.
    Audit(Audit),
    /// How much of something is used that has a limit.
    Usage(Usage),
    /// Faults are over and everything accepted had its time to end.
    Settled(Settled),
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
    /// Changes who may do what.
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
    /// What a submission or a report says, in any form in which equal means equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The name of a poll that may be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<String>,
    /// What a report says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// A cancel that does not ask.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// How much is asked for at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// The coordinator's time in milliseconds when the call was made, where the caller knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<i64>,
    /// What the caller shows to be let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Credential>,
    /// What an administrative call is to change, in any form in which equal means equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// What a caller shows to be let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    pub class: Class,
    /// The lease that a task's token was issued for.
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
    /// Nothing, or nothing that was ever issued.
    None,
}

impl Invoke {
    /// A call as it is written down before it is made; members that do not apply stay empty.
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
            force: false,
            max: None,
            now: None,
            shown: None,
            change: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Ok,
    /// A definite refusal: nothing happened.
    Fail,
    /// Nobody can say: a timeout, a cut connection, an answer 5xx. It may take effect at any later time.
    Info,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Return {
    pub call: u64,
    pub answer: Answer,
    /// The refusal's stable name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// COMMITTED, CANCELLED or REJECTED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
    /// The task a submission made or found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The task's state as answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The task's attempt as read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The task's output as read, in the form in which it was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When a renewed lease ends, by the coordinator's clock in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// A heartbeat's answer asks the worker to stop.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cancel: bool,
    /// What a poll got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Granted>,
    /// The answer as it came, without the name that was asked for and without the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The scopes whose tags stand in the answer: each scope tags whatever it submits.
    #[serde(rename = "marks", default, skip_serializing_if = "Vec::is_empty")]
    pub scope_tags: Vec<String>,
}

impl Return {
    /// An answer with nothing in it but what it is.
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
            body: None,
            scope_tags: Vec::new(),
        }
    }
}

/// A lease as its worker got it.
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

/// What made a coordinator decide.
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
    /// A grant nobody received is handed back.
    Undelivered,
    /// A lease gets back the time nobody could be heard.
    Extend,
}

/// One row of a task's history. Renewals may be left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    pub task: Task,
    /// From 1, without gaps; `None` for what is not kept, such as a renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
    /// The coordinator's time in milliseconds.
    pub now: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    pub cause: Cause,
    /// The state it was decided on.
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
    /// When the lease ends: as it is after a grant, a renewal or an extension, as it was before a closing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// From when on the task may be leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<i64>,
    /// With a submission.
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
    /// The report that closed it, or what was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Queued,
    Running,
    Retry,
    Succeeded,
    Failed,
    Halted,
    Cancelled,
}

impl State {
    pub fn is_terminal(self) -> bool {
        matches!(self, State::Succeeded | State::Failed | State::Halted | State::Cancelled)
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Begin,
    End,
}

/// Something was broken, or mended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// `down` means that no coordinator could hear: those who wait are not to blame for that time.
    pub fault: String,
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The name of the fault during which nobody can be heard.
pub const DOWN: &str = "down";

/// The names of faults whose end begins a recovery: a process is started again, a standby is promoted.
pub const RESTART: &str = "restart";
pub const FAILOVER: &str = "failover";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The coordinator's time.
    pub now: i64,
    /// How long after its lease's end a task may still be running: the sweep's pace and some slack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack_ms: Option<i64>,
    pub tasks: Vec<TaskSnapshot>,
    /// How many tasks somebody else counted, such as a metric.
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
    /// The record's own digest.
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
    /// What was durable when the coordinator went.
    Lost,
    /// What the next one found.
    Recovered,
    /// What was there before a call that must be refused, while nobody else called.
    Asked,
    /// What was there after it.
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
    /// What was changed, as the call said it.
    pub change: String,
    /// Who is named as having done it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Entries of a history, waiting polls, bytes of a log.
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
