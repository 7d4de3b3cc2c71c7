//! A topology file as values: what may be written, and nothing of what it means.
//!
//! All shapes are plain structs with optional members instead of tagged unions, because a union is read through a buffer
//! that loses the place in the file; [`crate::check`] says which members belong together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::predicate::Predicate;
use crate::span::Span;

/// A set of roles over artifacts.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Declaration {
    /// The name of the topology.
    pub topology: String,
    /// What it is for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The artifact types, by name.
    pub artifacts: BTreeMap<String, ArtifactType>,
    /// The events, by type.
    pub events: BTreeMap<String, EventSource>,
    /// The tracks on which work orders run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tracks: BTreeMap<String, Track>,
    /// Templates of work orders, by name.
    pub work_orders: BTreeMap<String, WorkOrderTemplate>,
    /// The gates that judge outputs, by name.
    pub gates: BTreeMap<String, Gate>,
    /// The roles, by name.
    pub roles: BTreeMap<String, Role>,
    /// What schedulers of this topology may read from other deployments: artifact types, or `pause_state`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    #[serde(default)]
    pub limits: Limits,
}

/// One type of artifact: its fields, its statuses, and who may move it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactType {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// A JSON Schema of the artifact's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Every status an artifact can have.
    pub statuses: Vec<String>,
    /// The status of a new artifact.
    pub initial: String,
    /// Statuses that nothing leaves.
    #[serde(default, rename = "final", skip_serializing_if = "Vec::is_empty")]
    pub final_statuses: Vec<String>,
    /// Every status change that may happen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<Transition>,
    /// Where the artifact lists what blocks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blockers: Option<Blockers>,
}

/// One status change and the single authority that may make it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Transition {
    pub from: String,
    pub to: String,
    /// `approval` (a person approves a review), `person` (a person moves it at any time) or `role:NAME`.
    pub by: String,
}

/// A list of blockers in the artifact's fields.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Blockers {
    /// The path of the list.
    pub path: String,
    /// The member of each entry that is `true` once the blocker is resolved.
    pub resolved: String,
}

/// What makes an event.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventSource {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    pub on: Trigger,
    /// With `on: transition`: the artifact type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// With `on: transition`: the status whose every entry makes one event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// With `on: schedule`: the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// An artifact entered a status: once for each entry.
    Transition,
    /// Somebody asked for it.
    Request,
    /// An interval passed.
    Schedule,
}

/// A line of work orders.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Track {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Tracks with the same key share one slot: at most one of their work orders is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Tracks of the same key that go first when both have work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// What a scheduler orders.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkOrderTemplate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The kind of executor that does it.
    pub kind: String,
    /// The queue on which that executor polls.
    pub queue: String,
    pub budget: Budget,
    /// What the executor is told, first in the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The gate that judges the output.
    pub gate: String,
    /// How often the executor may raise or be lost before the work order goes to its gate without an output.
    #[serde(default = "default_attempts")]
    pub attempts: u32,
}

fn default_attempts() -> u32 {
    3
}

/// What one work order may use.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// The time from dispatch until the work order is stopped.
    pub time: Span,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cents: Option<u64>,
}

/// Checks on an output, and what follows.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Gate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// All must pass. Checks of data come first, then worker kinds, then people.
    pub checks: Vec<Check>,
    pub pass: Outcome,
    pub fail: Outcome,
}

/// One clause of a gate: exactly one of `require`, `schema`, `judge` and `people`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Check {
    /// The name that a run record gives as the reason.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require: Option<Predicate>,
    /// A JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<Judge>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub people: Option<People>,
}

/// A worker kind that judges the output.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Judge {
    pub kind: String,
    pub queue: String,
    /// Without an answer in this time the check fails.
    pub within: Span,
    /// What the answer must say; its members are under `answer`.
    pub pass: Predicate,
}

/// A person who judges the output.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct People {
    /// The question.
    pub ask: String,
    /// Without an answer in this time the check fails.
    pub within: Span,
}

/// What follows from a gate's result.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outcome {
    /// The status of the work order's artifacts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// For `pass`: whether the gate itself moves the artifacts, or leaves that to a person.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub auto_confirm: bool,
    /// An artifact that is made from the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creates: Option<Creates>,
    /// What a person does next: one to three sentences, the most important first.
    pub actions: Vec<String>,
    /// A list of sentences in the output that replaces `actions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions_from: Option<String>,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

fn is_no(value: &bool) -> bool {
    !*value
}

/// An artifact made from an output that passed.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Creates {
    pub artifact: String,
    /// The path of an object in the output that becomes the artifact's fields.
    pub from: String,
}

/// One role. `uses` names the logic; the other members configure it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Role {
    pub uses: Logic,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// `readiness`: the events it emits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emits: Vec<String>,
    /// `scheduler`: the event it processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// `scheduler`: artifacts that one work order takes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collect: Option<Collect>,
    /// `scheduler`: own artifacts that the snapshot lists without taking them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<Listing>,
    /// `scheduler`: what it asks every other registered deployment for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<String>,
    /// `scheduler`: the template of the work order it makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_order: Option<String>,
    /// `scheduler`: the status of the event's artifact once the work order exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// `scheduler`: the status of an artifact with unresolved blockers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// `scheduler`: what a person does about a blocked artifact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_actions: Vec<String>,
    /// `scheduler`, `deadline-monitor`: the track.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track: Option<String>,
    /// `scheduler`: names of terminal reasons that differ from the standard ones.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    pub reasons: Reasons,
    /// `runner`, `gate`: the templates whose work orders it takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work_orders: Vec<String>,
    /// `deadline-monitor`, `review`: the artifact type it looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// `deadline-monitor`: the path of the field that decides how long an artifact may rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgency: Option<String>,
    /// `deadline-monitor`: urgency → time since the last status change. A value that is missing has no deadline.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub after: BTreeMap<String, Span>,
    /// `deadline-monitor`: what a person does about an overdue artifact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// `review`: what an artifact must fulfil to be moved; its fields are under `artifact`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Predicate>,
    /// `readiness`, `review`, `scheduler`, `gate`: whether processes outside of the server take this role's turns.
    #[serde(default, skip_serializing_if = "is_no")]
    pub outside: bool,
    /// With `outside`: how long a process has an event or a work order unless it renews its turn. Standard: 30 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Span>,
}

/// The logic of a role. Every topology shares these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Logic {
    /// Emits an event for each entry of an artifact into a status.
    Readiness,
    /// Turns an event into a work order.
    Scheduler,
    /// Has work orders executed.
    Runner,
    /// Judges executed work orders.
    Gate,
    /// Watches how long artifacts rest.
    DeadlineMonitor,
    /// Moves artifacts that fulfil a condition, in the place of a person.
    Review,
}

/// Artifacts that one work order takes together.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Collect {
    /// The largest number of artifacts in one work order.
    pub at_most: u32,
}

/// Own artifacts in a snapshot.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listing {
    pub artifact: String,
    /// Only artifacts in this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    pub at_most: u32,
}

/// Names of an event's terminal reasons.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reasons {
    /// A work order was made. Standard: `SCHEDULED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<String>,
    /// The event's artifact does not exist. Standard: `MISSING_ARTIFACT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The artifact has left the status that made the event. Standard: `NON_EXECUTABLE_STATUS`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_executable: Option<String>,
    /// The artifact has unresolved blockers. Standard: `BLOCKED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// The artifact was taken by another work order. Standard: `NOTHING_PENDING`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing_pending: Option<String>,
}

impl Reasons {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What bounds a deployment.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Work orders that execute at the same time.
    pub executors: u32,
    /// Work orders for one artifact between two decisions of a person. Afterwards it waits for a person.
    pub cycles: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { executors: 3, cycles: 3 }
    }
}
