//! Deployments of topologies: what is in force, its artifacts, its work orders, and what waits for people.

use serde::{Deserialize, Serialize};

use crate::check::{Check, Checked, name, names, optional_name, refuse, within};
use crate::limits::{PAGE_ITEMS, QUEUES_PER_POLL_MAX, WAIT_MS};
use crate::parse::Body;
use crate::{DeploymentState, Json, PauseStateState, Time, WorkOrderState};

/// The longest name of a deployment: queues are named after it.
const DEPLOYMENT_NAME_CHARS_MAX: usize = 48;

/// The longest cause of a pause state: three names and a number.
const PAUSE_ID_CHARS_MAX: usize = 600;

/// `POST /v1/deployments/{deployment}`: puts a topology in force, or another version of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyTopology {
    /// The topology as a JSON object, as its published JSON Schema describes it.
    pub topology: Json,
}

/// The body of a call that says all with its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeploymentCall {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct DeploymentView {
    pub name: String,
    pub state: DeploymentState,
    /// The name of the topology.
    pub topology: String,
    /// The digest of the version in force.
    pub version: String,
    /// How often the name was used, from 1: a deployment that was deleted and made again begins anew.
    pub generation: u32,
    pub created_at: Time,
    /// When this version was put in force.
    pub applied_at: Time,
    /// The declaration; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declaration: Option<Json>,
}

/// A page of deployments, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct DeploymentList {
    pub deployments: Vec<DeploymentView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// `GET /v1/deployments?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListDeployments {
    /// The `cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// What putting a version in force would change, and what stands in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct TopologyPlan {
    /// The version in force; absent if the deployment is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub to: String,
    pub differences: Vec<String>,
    /// While there is one, the version is refused.
    pub obstacles: Vec<String>,
    /// Work orders that end under the version that made them.
    pub in_flight: u32,
}

/// `POST /v1/deployments/{deployment}/artifacts/{type}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateArtifact {
    /// Unique among the artifacts of its type.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub id: String,
    /// An object, as the artifact type declares it; empty when absent.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub fields: Json,
}

/// `POST /v1/deployments/{deployment}/artifacts/{type}/{artifact}/transition`, and `…/approve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MoveArtifact {
    /// The status it enters.
    #[cfg_attr(feature = "openapi", schema(max_length = 64))]
    pub to: String,
    /// The revision that the caller read: the change is refused if there is a newer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub revision: Option<u64>,
    /// Its fields from now on; they stay as they are when absent.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub fields: Json,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ArtifactView {
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_by: Option<String>,
    /// The work order whose output passed its gate and waits for a person to confirm it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<String>,
    pub fields: Json,
    pub created_at: Time,
    /// When it entered its status.
    pub entered_at: Time,
}

/// A page of artifacts of one type, by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ArtifactList {
    pub artifacts: Vec<ArtifactView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// `GET /v1/deployments/{deployment}/artifacts/{type}?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListArtifacts {
    /// Only artifacts in this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The `cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// `POST /v1/deployments/{deployment}/events`: asks for an event that the topology declares with `on: request`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestEvent {
    #[serde(rename = "type")]
    #[cfg_attr(feature = "openapi", schema(max_length = 64))]
    pub event_type: String,
    /// Names the request: the same key is the same event.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub key: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct EventRequested {
    pub event_id: String,
    /// The task by which the event is processed.
    pub run_id: String,
}

/// A work order and, once it was judged, its run record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct WorkOrderView {
    pub id: String,
    pub state: WorkOrderState,
    /// The event that made it.
    pub event: String,
    pub template: String,
    pub kind: String,
    pub queue: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track: Option<String>,
    /// The version of the topology that made it.
    pub version: String,
    /// What it is about, each as `TYPE/ID`.
    pub artifacts: Vec<String>,
    pub run_id: String,
    pub created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RunRecordView>,
}

/// The one terminal record of a work order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RunRecordView {
    /// COMPLETED, BUDGET_EXHAUSTED, FAILED or LOST.
    pub execution_status: String,
    /// PASS or FAIL.
    pub gate_result: String,
    /// The checks that failed and why; empty after a pass.
    pub gate_reasons: Vec<GateReasonView>,
    pub created_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct GateReasonView {
    pub check: String,
    pub message: String,
}

/// A page of work orders, by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct WorkOrderList {
    pub work_orders: Vec<WorkOrderView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// `GET /v1/deployments/{deployment}/workorders?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListWorkOrders {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<WorkOrderState>,
    /// The `cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// The claim on one event or work order. Its members have the names of the claim record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ClaimView {
    /// EVENT or WORKORDER.
    pub resource_type: String,
    pub resource_id: String,
    /// The worker that has it.
    pub owner_id: String,
    pub lease_expires_at: Time,
    /// When the claim was made or last renewed.
    pub heartbeat_at: Time,
    /// Only grows: with every claim, renewal and release.
    pub claim_version: u64,
}

/// The claims of a deployment, by id of what is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ClaimList {
    pub claims: Vec<ClaimView>,
}

/// Something in a deployment that waits for a person, with what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct PauseStateView {
    /// Reason, cause and instant: the same cause at the same instant is the same pause.
    pub id: String,
    pub state: PauseStateState,
    /// RUN_COMPLETE, GATE_FAILED, BUDGET_EXHAUSTED, BLOCKED, DEADLINE_OVERDUE, HALTED or CANCELLED.
    pub reason: String,
    /// What it is about, as `TYPE/ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// One to three, the most important first.
    pub actions: Vec<String>,
    pub created_at: Time,
}

/// A page of pause states, by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct PauseStateList {
    pub pause_states: Vec<PauseStateView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// `GET /v1/deployments/{deployment}/pause-states?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListPauseStates {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PauseStateState>,
    /// The `cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// `POST /v1/deployments/{deployment}/pause-states/close`: somebody has seen to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClosePauseState {
    #[cfg_attr(feature = "openapi", schema(max_length = 600))]
    pub id: String,
}

/// The most turns that one call takes.
pub const TURNS_MAX: u64 = 64;

/// The longest reason of a turn that is given back, in characters.
const RETURN_REASON_CHARS_MAX: usize = 1_000;

/// `POST /v1/deployments/{deployment}/roles/{role}/turns`: a process takes turns of a role with `outside: true`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TakeTurns {
    /// Unique for each process.
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 64))]
    pub max: u32,
    /// How long to wait while there is nothing; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 30000))]
    pub wait_ms: Option<u64>,
    /// Digests of versions that the process has: their declarations are not sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 32))]
    pub known: Vec<String>,
}

/// Turns, and the declarations by which they are to be decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Turns {
    pub turns: Vec<Turn>,
    /// The versions of the turns that the process did not name.
    pub versions: Vec<TurnVersion>,
    pub server_time: Time,
}

/// One turn: what a role is told, for one decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Turn {
    /// What a scheduler or gate holds; a readiness and a review hold nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<TurnClaim>,
    /// When the claim ends unless it is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Time>,
    /// The digest of the version by which it is decided.
    pub version: String,
    /// An event with what belongs to it, an executed work order with its output, or an artifact.
    pub told: Json,
}

/// The declaration of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct TurnVersion {
    pub version: String,
    pub declaration: Json,
}

/// The claim of a turn. It is lost when its lease ends, and no later process has the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnClaim {
    #[cfg_attr(feature = "openapi", schema(max_length = 128))]
    pub task_id: String,
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub attempt: u32,
    #[cfg_attr(feature = "openapi", schema(max_length = 128))]
    pub lease_id: String,
    /// The fencing token of the lease.
    pub fence: u64,
}

/// `POST /v1/deployments/{deployment}/roles/{role}/turns/renew`: keeps a turn, and tells it as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenewTurn {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    pub claim: TurnClaim,
}

/// `POST /v1/deployments/{deployment}/roles/{role}/turns/return`: gives a turn back, to be tried again after a pause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReturnTurn {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    pub claim: TurnClaim,
    /// Why, for people.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1000))]
    pub reason: String,
}

/// `POST /v1/deployments/{deployment}/roles/{role}/proposals`: what a process decided in its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Propose {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub worker_id: String,
    /// The claim of the turn, for a scheduler or gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<TurnClaim>,
    /// An object with the member `decision`: ORDER with `take` and `snapshot`, END with `reason`, BLOCK, ASK with `checks`, PASS,
    /// FAIL with `reasons`, or GO with `artifact` and `revision`.
    pub decision: Json,
}

/// A decision was carried out with everything that follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Proposed {
    pub verdict: crate::Verdict,
    pub server_time: Time,
}

/// Checks the name of a deployment.
pub fn check_deployment(value: &str) -> Result<(), crate::FieldError> {
    let starts = value.starts_with(|c: char| c.is_ascii_alphabetic());
    let rest = value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if starts && rest && value.len() <= DEPLOYMENT_NAME_CHARS_MAX {
        return Ok(());
    }
    refuse(
        "deployment",
        format!(
            "is not a valid name; a letter, then letters, digits, _ and -, at most {DEPLOYMENT_NAME_CHARS_MAX} in all"
        ),
    )
}

impl Body for ApplyTopology {}
impl Body for DeploymentCall {}
impl Body for CreateArtifact {}
impl Body for MoveArtifact {}
impl Body for RequestEvent {}
impl Body for ClosePauseState {}
impl Body for TakeTurns {}
impl Body for RenewTurn {}
impl Body for ReturnTurn {}
impl Body for Propose {}

impl Check for ApplyTopology {
    fn check(&self) -> Checked {
        match self.topology.text().starts_with('{') {
            true => Ok(()),
            false => refuse("topology", "must be an object"),
        }
    }
}

impl Check for DeploymentCall {
    fn check(&self) -> Checked {
        Ok(())
    }
}

impl Check for CreateArtifact {
    fn check(&self) -> Checked {
        name("id", &self.id)
    }
}

impl Check for MoveArtifact {
    fn check(&self) -> Checked {
        name("to", &self.to)?;
        within("revision", self.revision, 1..=u64::from(u32::MAX))
    }
}

impl Check for RequestEvent {
    fn check(&self) -> Checked {
        name("type", &self.event_type)?;
        name("key", &self.key)
    }
}

impl Check for ClosePauseState {
    fn check(&self) -> Checked {
        match self.id.chars().count() {
            1..=PAUSE_ID_CHARS_MAX => Ok(()),
            _ => refuse("id", format!("must be 1 to {PAUSE_ID_CHARS_MAX} characters")),
        }
    }
}

impl Check for TakeTurns {
    fn check(&self) -> Checked {
        name("workerId", &self.worker_id)?;
        within("max", Some(u64::from(self.max)), 1..=TURNS_MAX)?;
        within("waitMs", self.wait_ms, WAIT_MS)?;
        match self.known.is_empty() {
            true => Ok(()),
            false => names("known", &self.known, QUEUES_PER_POLL_MAX),
        }
    }
}

impl Check for TurnClaim {
    fn check(&self) -> Checked {
        name("claim.taskId", &self.task_id)?;
        within("claim.attempt", Some(u64::from(self.attempt)), 1..=u64::from(u32::MAX))?;
        name("claim.leaseId", &self.lease_id)
    }
}

impl Check for RenewTurn {
    fn check(&self) -> Checked {
        name("workerId", &self.worker_id)?;
        self.claim.check()
    }
}

impl Check for ReturnTurn {
    fn check(&self) -> Checked {
        name("workerId", &self.worker_id)?;
        self.claim.check()?;
        match self.reason.chars().count() {
            1..=RETURN_REASON_CHARS_MAX => Ok(()),
            _ => refuse("reason", format!("must be 1 to {RETURN_REASON_CHARS_MAX} characters")),
        }
    }
}

impl Check for Propose {
    fn check(&self) -> Checked {
        name("workerId", &self.worker_id)?;
        if !self.decision.text().starts_with('{') {
            return refuse("decision", "must be an object");
        }
        self.claim.as_ref().map_or(Ok(()), Check::check)
    }
}

impl Check for ListDeployments {
    fn check(&self) -> Checked {
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for ListArtifacts {
    fn check(&self) -> Checked {
        optional_name("status", self.status.as_deref())?;
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for ListWorkOrders {
    fn check(&self) -> Checked {
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for ListPauseStates {
    fn check(&self) -> Checked {
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}
