//! The format of a case: what the model coordinator offers, how it breaks the wire, and what is judged.
//!
//! A case is a JSON file, `protocol/conformance/<group>/<name>.json`. It says nothing about the order in which an SDK makes
//! its calls or how it batches them: rules and judgements speak about *items*, the parts of batches. Unknown members are
//! refused, since a misspelt judgement would judge nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How long a case may take when it does not say. One that passes ends long before; a busy machine may need it.
const TIMEOUT_MS_DEFAULT: u64 = 20_000;
/// How long a case that has all it wants still watches for what must not happen.
const SETTLE_MS_DEFAULT: u64 = 250;

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// `group/name`, as the file.
    pub case: String,
    /// What it shows, in one sentence.
    pub about: String,
    /// Ids of the contract.
    #[serde(default)]
    pub proves: Vec<String>,
    /// What an SDK must have for this case: `tasks`, `durable`, `push`, `isolate`, `codec`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The fault in the wire that must make it fail.
    pub fault: String,
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// How long the wire is still watched when every judgement holds.
    #[serde(default = "settle_ms")]
    pub settle_ms: u64,
    /// It judges milliseconds, or keeps the processor busy: no other case runs beside it.
    #[serde(default)]
    pub alone: bool,
    pub subject: Subject,
    /// How far the coordinator's clock is ahead of the machine's.
    #[serde(default)]
    pub skew_ms: i64,
    #[serde(default)]
    pub offer: Vec<Offer>,
    /// Runs that exist before the subject asks for them.
    #[serde(default)]
    pub runs: Vec<KnownRun>,
    #[serde(default)]
    pub rules: Vec<Rule>,
    #[serde(default, rename = "do")]
    pub actions: Vec<Action>,
    pub expect: Vec<Expect>,
}

fn timeout_ms() -> u64 {
    TIMEOUT_MS_DEFAULT
}

fn settle_ms() -> u64 {
    SETTLE_MS_DEFAULT
}

/// The program under test. It gets this member as JSON in `TENURE_CONFORM`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    pub role: Role,
    #[serde(default = "concurrency")]
    pub concurrency: u32,
    #[serde(default = "shutdown_timeout_ms")]
    pub shutdown_timeout_ms: u64,
    #[serde(default = "processes")]
    pub processes: usize,
    /// How many addresses of the coordinator `TENURE_URL` names.
    #[serde(default = "processes")]
    pub addresses: usize,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

fn concurrency() -> u32 {
    4
}

/// Short, since a case ends by ending its subject.
fn shutdown_timeout_ms() -> u64 {
    200
}

fn processes() -> usize {
    1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Worker,
    Client,
}

/// A task that is granted to a worker that asks for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Offer {
    /// Its name in the rest of the case.
    #[serde(rename = "as")]
    pub name: String,
    pub kind: String,
    #[serde(default)]
    pub input: Value,
    #[serde(default = "one")]
    pub attempt: u32,
    /// How many attempts there may be: a lost lease or a failure is followed by another one until then.
    #[serde(default = "one")]
    pub attempts: u32,
    #[serde(default = "lease_ms")]
    pub lease_ms: u64,
    #[serde(default)]
    pub heartbeat_ms: Option<u64>,
    #[serde(default = "grace_ms")]
    pub grace_ms: u64,
    /// What is recorded already.
    #[serde(default)]
    pub checkpoints: Vec<Value>,
    /// As much of them as the envelope carries; the rest is read in pages.
    #[serde(default)]
    pub page: Option<usize>,
    #[serde(default)]
    pub stage: Option<String>,
    #[serde(default)]
    pub budget_left: Option<Value>,
    /// How long one attempt may take.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// How long after its submission the run ends, whatever its lease says.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// Offered this long after the subject is ready.
    #[serde(default)]
    pub after_ms: u64,
    /// Offered only by an action.
    #[serde(default)]
    pub held: bool,
    /// The same lease is granted this many times.
    #[serde(default = "one")]
    pub copies: u32,
    /// How many equal tasks are offered: the second is called `name-2`.
    #[serde(default = "one")]
    pub count: u32,
    /// Timers are over at once, and the record says that they lasted.
    #[serde(default)]
    pub skip_time: bool,
    /// When children end that the model ends itself.
    #[serde(default)]
    pub child_ms: u64,
}

fn one() -> u32 {
    1
}

fn lease_ms() -> u64 {
    10_000
}

fn grace_ms() -> u64 {
    5_000
}

/// A run that a client may ask for.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KnownRun {
    pub run_id: String,
    pub state: String,
    #[serde(default)]
    pub output: Option<Value>,
    #[serde(default)]
    pub error: Option<Value>,
    #[serde(default)]
    pub attempt: u32,
}

/// Picks entries of the log: all members that are given must fit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pick {
    /// A part of a call: `poll`, `start`, `heartbeat`, `checkpoint`, `report`, `submit`, `read`, ….
    pub item: Option<String>,
    /// What the code of the subject said; `*` for anything.
    pub mark: Option<String>,
    /// Something that the kit saw: `ready`, `exit`, `granted`, `stderr`, ….
    pub event: Option<String>,
    /// The model ended the lease of this task, since it was not renewed.
    pub lease_end: Option<String>,
    /// The name of the task.
    pub of: Option<String>,
    pub attempt: Option<u32>,
    /// Members that the entry has.
    pub with: Option<Value>,
    /// Only the n-th of those that fit, from 1.
    pub nth: Option<usize>,
    /// Only those from the n-th on.
    pub from: Option<usize>,
    /// Only those up to the n-th.
    pub to: Option<usize>,
    /// Each one: for rules and actions, which otherwise take the first.
    #[serde(default)]
    pub every: bool,
    /// Not an entry but a time since the subject was ready.
    pub ms: Option<u64>,
}

/// What happens to an item instead of, or beside, what the model decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    pub on: Pick,
    /// The rule begins when there is such an entry: a wait for it does not depend on the speed of the machine.
    #[serde(default)]
    pub after: Option<Pick>,
    /// The rule is over when there is such an entry.
    #[serde(default)]
    pub until: Option<Pick>,
    pub answer: Answer,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Answer {
    pub drop: Option<Drop>,
    /// The answer comes so much later.
    pub delay_ms: Option<u64>,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub field: Option<String>,
    pub retry_after_ms: Option<u64>,
    /// Only the header says when to come back.
    #[serde(default)]
    pub only_header: bool,
    /// A whole body that is not the model's.
    pub text: Option<String>,
    /// Members of the answer that are replaced.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// The length of the lease in the answer.
    pub lease_ms: Option<i64>,
    /// The answer has a new task token.
    #[serde(default)]
    pub new_token: bool,
    /// The poll is answered as if it had asked for so many.
    pub max: Option<u32>,
    /// The poll is told that this task has a signal.
    pub signal_for: Option<String>,
    /// The model takes the lease away, with the answer that says so.
    #[serde(default)]
    pub revoke: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drop {
    /// Nothing is decided.
    Before,
    /// It is decided, and the answer is lost.
    After,
    /// It is decided, and half of the answer arrives.
    Half,
}

/// Something that the kit does.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Action {
    pub after: Pick,
    #[serde(default)]
    pub delay_ms: u64,
    /// Which process, from 1, for signals.
    #[serde(default)]
    pub process: Option<usize>,
    /// Asks to cancel the task.
    pub cancel: Option<String>,
    pub signal: Option<SendSignal>,
    pub decide: Option<Decide>,
    pub deliver: Option<Deliver>,
    pub end_child: Option<EndChild>,
    pub end_run: Option<EndRun>,
    #[serde(default)]
    pub sigterm: bool,
    #[serde(default)]
    pub sigkill: bool,
    #[serde(default)]
    pub sigstop: bool,
    #[serde(default)]
    pub sigcont: bool,
    /// Kills the process and starts it again. Its leases are over at once.
    #[serde(default)]
    pub restart: bool,
    /// The coordinator does not answer for this long.
    pub restart_server: Option<u64>,
    /// The coordinator was restored: it knows no lease.
    #[serde(default)]
    pub new_epoch: bool,
    pub skew_ms: Option<i64>,
    /// Offers a task that was held.
    pub offer: Option<String>,
    /// A line for the standard input of a client.
    pub call: Option<Value>,
    pub push: Option<Push>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendSignal {
    pub of: String,
    pub name: String,
    #[serde(default)]
    pub payload: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decide {
    pub of: String,
    pub by: String,
    pub decision: String,
    #[serde(default)]
    pub comment: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deliver {
    pub of: String,
    /// `DELIVERED`, `FAILED` or `UNKNOWN`.
    pub outcome: String,
    #[serde(default)]
    pub reason: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndChild {
    pub of: String,
    pub key: String,
    #[serde(default)]
    pub result: Option<Value>,
    #[serde(default)]
    pub error: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndRun {
    /// The n-th run that was submitted, from 1.
    pub run: usize,
    pub state: String,
    #[serde(default)]
    pub output: Option<Value>,
    #[serde(default)]
    pub error: Option<Value>,
}

/// A task that is sent to the push handler of a client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Push {
    pub offer: String,
    /// The number of the call whose answer says where the handler listens.
    pub to: u64,
    /// Signed for this URL instead.
    #[serde(default)]
    pub url: Option<String>,
    #[serde(default)]
    pub secret: Option<String>,
    /// How many copies are sent, one after the other's answer.
    #[serde(default = "one")]
    pub copies: u32,
}

/// One judgement.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// How many there are: with `is`, `atLeast`, `atMost`.
    pub count: Option<Pick>,
    pub is: Option<usize>,
    pub at_least: Option<usize>,
    pub at_most: Option<usize>,
    /// There is at least one, and each has these members.
    pub with: Option<Pick>,
    /// The members of `with`, or the names of those of `same`, `differ`, `rising`.
    pub members: Option<Value>,
    pub never: Option<Pick>,
    /// Of `never`: only after the first of these.
    pub after: Option<Pick>,
    /// The first of each, one after the other.
    pub order: Option<Vec<Pick>>,
    /// Every one of the first is earlier than the first of the second.
    pub before: Option<[Pick; 2]>,
    /// The time between neighbours: with `maxMs`, `minMs`.
    pub gap: Option<Pick>,
    /// The time from the first of one to the first of the other.
    pub within: Option<[Pick; 2]>,
    pub max_ms: Option<u64>,
    pub min_ms: Option<u64>,
    /// Members that are equal in all.
    pub same: Option<Pick>,
    /// Members that are different in all.
    pub differ: Option<Pick>,
    /// Members that never shrink.
    pub rising: Option<Pick>,
    /// What a client answered.
    pub says: Option<Value>,
    /// The exit code of every process.
    pub exit: Option<Value>,
    /// Each pid that this task marked is gone when its lease ends.
    pub gone: Option<String>,
    /// At least one of these holds.
    pub any: Option<Vec<Expect>>,
}
