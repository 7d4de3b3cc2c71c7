//! What a role is told in one turn, and the version of the topology by which it decides.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use wire::{Json, Time};
use workflow::Failure;

use crate::payload;

/// A turn of a scheduler: one event, and what can be ordered for it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EventTurn {
    pub deployment: String,
    pub event: Event,
    /// The event's artifact, if it exists.
    #[serde(default)]
    pub subject: Option<Artifact>,
    /// Artifacts that could be taken together with it, oldest first.
    pub pending: Vec<Artifact>,
    /// The artifacts of each declared list, in order.
    pub lists: Vec<Vec<Artifact>>,
    /// What other deployments answered.
    pub answers: Vec<Answer>,
    /// Whether its work order exists.
    pub is_ordered: bool,
    /// The server's time.
    #[serde(deserialize_with = "millis")]
    pub now: Time,
    /// The version by which it is decided.
    #[serde(skip)]
    pub version: Version,
    /// Why the server refused what was decided before in this turn.
    #[serde(skip)]
    pub refusal: Option<String>,
}

/// A turn of a gate: one work order with its output, and what judges and people have answered so far.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OrderTurn {
    pub work_order: WorkOrder,
    /// The artifacts of the work order that exist.
    pub artifacts: Vec<Artifact>,
    /// The server's time.
    #[serde(deserialize_with = "millis")]
    pub now: Time,
    /// The version by which it is decided.
    #[serde(skip)]
    pub version: Version,
    /// Why the server refused what was decided before in this turn.
    #[serde(skip)]
    pub refusal: Option<String>,
}

impl OrderTurn {
    /// What the executor returned, as a type; null if it returned nothing.
    pub fn output<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let none = Json::null();
        let output = self.work_order.output.as_ref().map_or(&none, |bundle| &bundle.output);
        payload::read(output)
            .map_err(|why| Failure::data(format!("the output is not what this gate reads, {why}")))
    }

    /// What a judge or a person answered to a check that was asked.
    pub fn answer(&self, check: &str) -> Option<&Json> {
        self.work_order.asked.get(check)?.answer.as_ref()
    }
}

/// A turn of a readiness or a review: one artifact at its revision, about which the role has something to do.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ArtifactTurn {
    pub artifact: Artifact,
    /// The server's time.
    #[serde(deserialize_with = "millis")]
    pub now: Time,
    /// The version by which it is decided.
    #[serde(skip)]
    pub version: Version,
}

/// A version of a topology. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Version {
    digest: Arc<str>,
    declaration: Arc<Json>,
}

impl Version {
    pub(super) fn new(digest: &str, declaration: Json) -> Version {
        Version { digest: digest.into(), declaration: Arc::new(declaration) }
    }

    /// The digest of what it declares.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The topology as a JSON object, as its published JSON Schema describes it.
    pub fn declaration(&self) -> &Json {
        &self.declaration
    }
}

/// The name of one artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[non_exhaustive]
pub struct ArtifactRef {
    #[serde(rename = "type")]
    pub artifact_type: String,
    pub id: String,
}

impl fmt::Display for ArtifactRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.artifact_type, self.id)
    }
}

/// An artifact as it is when the turn is told.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Artifact {
    #[serde(rename = "type")]
    pub artifact_type: String,
    pub id: String,
    pub status: String,
    /// Grows with every change.
    pub revision: u64,
    /// Grows with every entry into a status, from 1.
    pub transition_no: u64,
    /// Work orders since a person last decided about it.
    pub cycles: u32,
    /// The work order that has taken it.
    #[serde(default)]
    pub reserved_by: Option<String>,
    /// The work order whose output passed and waits for a person to confirm it.
    #[serde(default)]
    pub passed: Option<String>,
    pub fields: Json,
    #[serde(deserialize_with = "millis")]
    pub created_at: Time,
    /// When it entered its status.
    #[serde(deserialize_with = "millis")]
    pub entered_at: Time,
}

impl Artifact {
    /// Its fields, as a type.
    pub fn fields<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let name = format_args!("{}/{}", self.artifact_type, self.id);
        payload::read(&self.fields).map_err(|why| {
            Failure::data(format!("the fields of {name} are not what this role reads, {why}"))
        })
    }
}

/// What happened, of a type that the topology declares.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Event {
    pub id: String,
    #[serde(rename = "type")]
    pub event_type: String,
    /// The artifact it is about; none for an event about the deployment itself.
    #[serde(default)]
    pub subject: Option<ArtifactRef>,
    /// The entry into a status that made it.
    #[serde(default)]
    pub transition_no: Option<u64>,
    #[serde(deserialize_with = "millis")]
    pub created_at: Time,
}

/// What another deployment answered.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Answer {
    /// The deployment that was asked.
    pub target: String,
    /// The type of artifact that was asked for.
    pub artifact: String,
    pub status: AnswerStatus,
    /// Empty unless the status is OK.
    pub results: Vec<Json>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum AnswerStatus {
    Ok,
    Denied,
    TargetUnavailable,
}

/// A work order whose executor has ended.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WorkOrder {
    pub id: String,
    /// The event that made it.
    pub event: String,
    pub template: String,
    /// The kind of executor it was dispatched to.
    pub kind: String,
    pub queue: String,
    #[serde(default)]
    pub track: Option<String>,
    /// The version of the topology that made it.
    pub topology: String,
    pub artifacts: Vec<ArtifactRef>,
    /// Everything that the executor was told.
    #[serde(default)]
    pub snapshot: Json,
    #[serde(rename = "budgetMs", deserialize_with = "span")]
    pub budget: Duration,
    #[serde(deserialize_with = "millis")]
    pub created_at: Time,
    /// Executors that raised.
    pub failures: u32,
    /// Executors that vanished.
    pub lost: u32,
    #[serde(default)]
    pub output: Option<OutputBundle>,
    /// What the gate has asked judges and people, by check.
    #[serde(default)]
    pub asked: BTreeMap<String, Asked>,
}

/// A question of a gate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Asked {
    #[serde(deserialize_with = "millis")]
    pub at: Time,
    /// Absent while it is awaited.
    #[serde(default)]
    pub answer: Option<Json>,
}

/// What an execution left.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OutputBundle {
    pub execution_status: ExecutionStatus,
    pub output: Json,
    #[serde(default)]
    pub notes: Option<String>,
    #[serde(deserialize_with = "millis")]
    pub created_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ExecutionStatus {
    Completed,
    BudgetExhausted,
    /// Every attempt raised.
    Failed,
    /// Every attempt vanished.
    Lost,
}

/// Turns say instants in milliseconds since 1970.
fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
    let ms = u64::deserialize(from)?;
    Ok(Time::from_ms(i64::try_from(ms).unwrap_or(i64::MAX)))
}

fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}
