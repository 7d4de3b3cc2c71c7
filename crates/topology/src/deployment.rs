//! What the roles of one deployment share: artifacts, events, work orders, run records and pause states.
//!
//! All identifiers are derived from what caused a row, never drawn: an event from the transition that made it, a work
//! order from its event, a pause state from its cause. Doing the same thing twice therefore finds the first one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The rows of a deployment, in memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Deployment {
    pub id: String,
    pub artifacts: BTreeMap<ArtifactRef, Artifact>,
    pub events: BTreeMap<String, Event>,
    pub work_orders: BTreeMap<String, WorkOrder>,
    /// By work order: one terminal record each, never changed.
    pub run_records: BTreeMap<String, RunRecord>,
    /// By cause and instant.
    pub pauses: BTreeMap<String, PauseState>,
}

/// The name of one artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct ArtifactRef {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
}

impl fmt::Display for ArtifactRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id)
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    #[serde(flatten)]
    pub name: ArtifactRef,
    pub status: String,
    /// Grows with every change: a change names the revision it read.
    pub revision: u64,
    /// Grows with every entry into a status, from 1.
    pub transition_no: u64,
    /// The entry whose event was emitted last. Once per entry, whatever is forgotten elsewhere.
    pub emitted: u64,
    /// Work orders since a person last decided about it.
    pub cycles: u32,
    /// The work order that has taken it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_by: Option<String>,
    /// The work order whose output passed and waits for a person to confirm it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<String>,
    pub fields: Value,
    pub created_at: u64,
    /// When it entered its status.
    pub entered_at: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// The artifact it is about; none for an event about the deployment itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<ArtifactRef>,
    /// The entry into a status that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transition_no: Option<u64>,
    pub created_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processed: Option<Processed>,
}

/// Why an event ended, unless the topology has a name of its own for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TerminalReason {
    Scheduled,
    MissingArtifact,
    NonExecutableStatus,
    Blocked,
    NothingPending,
}

/// A value of an enumeration as it is written outside.
pub(crate) fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// The end of an event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Processed {
    pub terminal_reason: String,
    pub processed_at: u64,
}

impl Event {
    /// The event that an artifact's current entry into its status makes.
    #[must_use]
    pub fn of_transition(kind: &str, artifact: &Artifact, now: u64) -> Self {
        let (subject, number) = (artifact.name.clone(), artifact.transition_no);
        Self {
            id: format!("{kind}/{subject}/{number}"),
            kind: kind.to_owned(),
            subject: Some(subject),
            transition_no: Some(number),
            created_at: now,
            processed: None,
        }
    }

    /// An event about the deployment itself, under a key that its cause determines.
    #[must_use]
    pub fn about_deployment(kind: &str, key: &str, now: u64) -> Self {
        let (id, kind) = (format!("{kind}/{key}"), kind.to_owned());
        Self { id, kind, subject: None, transition_no: None, created_at: now, processed: None }
    }

    /// The one work order that this event can make.
    #[must_use]
    pub fn work_order_id(&self) -> String {
        format!("wo/{}", self.id)
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkOrder {
    pub id: String,
    pub event: String,
    pub template: String,
    /// The kind of executor it is dispatched to.
    pub kind: String,
    pub queue: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track: Option<String>,
    /// The version of the topology that made it.
    pub topology: String,
    pub artifacts: Vec<ArtifactRef>,
    /// Everything the executor is told. It never changes.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub snapshot: Value,
    pub budget_ms: u64,
    pub created_at: u64,
    /// Executors that raised.
    pub failures: u32,
    /// Executors that vanished.
    pub lost: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputBundle>,
    /// What the gate has asked workers and people, by check.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<String, Asked>,
}

/// A question of a gate.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    pub at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// What an execution left: exactly one for each work order, never changed.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputBundle {
    pub execution_status: ExecutionStatus,
    pub output: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    pub created_at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExecutionStatus {
    Completed,
    BudgetExhausted,
    /// Every attempt raised.
    Failed,
    /// Every attempt vanished.
    Lost,
}

/// The one terminal record of a work order.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    pub work_order: String,
    pub event: String,
    pub artifacts: Vec<ArtifactRef>,
    pub topology: String,
    pub execution_status: ExecutionStatus,
    pub gate_result: GateResult,
    /// The checks that failed and why; empty after a pass.
    pub gate_reasons: Vec<GateReason>,
    pub created_at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GateResult {
    Pass,
    Fail,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct GateReason {
    pub check: String,
    pub message: String,
}

/// Something that waits for a person, with what to do next.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseState {
    /// Cause and instant: the same cause at the same instant is the same pause.
    pub id: String,
    pub reason: PauseReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<ArtifactRef>,
    /// One to three, the most important first.
    pub actions: Vec<String>,
    pub created_at: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PauseReason {
    RunComplete,
    GateFailed,
    BudgetExhausted,
    /// Unresolved blockers.
    Blocked,
    DeadlineOverdue,
    /// A person has to go on: the limit on cycles was reached, or an event could not be processed.
    Halted,
    /// The run of an event was cancelled before its role decided.
    Cancelled,
}

impl PauseState {
    /// `cause` and `instant` make the identity: never the time of writing.
    #[must_use]
    pub fn new(
        reason: PauseReason,
        cause: &str,
        instant: u64,
        actions: &[String],
        now: u64,
    ) -> Self {
        Self {
            id: format!("{}/{cause}/{instant}", word(&reason)),
            reason,
            subject: None,
            actions: actions.iter().take(crate::check::ACTIONS_MAX).cloned().collect(),
            created_at: now,
        }
    }

    #[must_use]
    pub fn about(mut self, subject: Option<&ArtifactRef>) -> Self {
        self.subject = subject.cloned();
        self
    }
}

impl Deployment {
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// A work order is active from its creation until its run record exists.
    #[must_use]
    pub fn is_active(&self, work_order: &WorkOrder) -> bool {
        !self.run_records.contains_key(&work_order.id)
    }
}
