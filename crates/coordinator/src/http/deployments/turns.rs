//! `/v1/deployments/{deployment}/roles/{role}`: processes outside of the coordinator take the turns of a role.
//!
//! Executors are workers too, and what they say must not change the control plane. A role therefore needs a key that names it:
//! a worker's key limited to queues among which is [`role_right`], or one that is an administrator's as well.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use store::TaskKey;
use topology::outside::Decision;
use verdict::request::Caller;
use verdict::topology::role_right;
use verdict::{Answer, Fence, LeaseId, Name};
use wire::Code;
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::topologies::{
    Propose, Proposed, RenewTurn, ReturnTurn, TakeTurns, Turn, TurnClaim, TurnVersion, Turns,
};

use super::super::api_error::ApiError;
use super::super::app_state::AppState;
use super::super::body::{API_BYTES_MAX, JsonBody, LARGE_BYTES_MAX};
use super::super::caller::task_id;
use super::super::delivery::Delivery;
use super::super::submit::unexpected;
use super::super::translate::time;
use super::{find, version, written};
use crate::admit::WorkerPrincipal;
use crate::admit::principals::Principal;
use crate::item::Granted;
use crate::topologies::roles::turns::{Claim, Place, Told, TurnOf};
use crate::topologies::roles::{Interrupted, Roles};

pub(in crate::http) async fn take(
    State(app): State<AppState>,
    principal: WorkerPrincipal,
    Path((deployment, role)): Path<(String, String)>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let TakeTurns { worker_id, max, wait_ms, known } = wire::parse(&body)?;
    app.coordinator.refuse_if_draining()?;
    let place = place(&app, &principal, &deployment, role).await?;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    let until = tokio::time::Instant::now() + wait;
    let (roles, worker) = (roles(&app), Name::from(worker_id));
    let (mut granted, mut turns, mut told) = (Vec::new(), Vec::new(), Vec::new());
    if place.is_claiming() {
        let taking = roles.take_turns(&place, &worker, max as usize, until);
        for (grant, it) in app.decided_after(wait, taking).await?? {
            turns.push(claimed_turn(&grant, &it));
            granted.push(grant);
            told.push(it);
        }
    } else {
        let taking = roles.take_artifacts(&place, max as usize, until);
        told = app.decided_after(wait, taking).await??;
        turns = told.iter().map(|it| turn(it, None)).collect();
    }
    if let Err(invalid) = app.check_still_valid(principal.key()) {
        app.coordinator.release(granted.iter().map(|it| (it.key(), it.lease())).collect());
        return Err(invalid);
    }
    let versions = versions(&told, &known);
    let answer = Turns { turns, versions, server_time: app.server_time() };
    if granted.is_empty() {
        return Ok(Json(answer).into_response());
    }
    let bytes = serde_json::to_vec(&answer).expect("a turn is plain JSON");
    Ok(Delivery::new(app.coordinator.clone(), granted, bytes).into_response())
}

pub(in crate::http) async fn renew(
    State(app): State<AppState>,
    principal: WorkerPrincipal,
    Path((deployment, role)): Path<(String, String)>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<Turn>, ApiError> {
    let RenewTurn { worker_id, claim } = wire::parse(&body)?;
    let place = place(&app, &principal, &deployment, role).await?;
    let held = held(&place, &worker_id, &claim)?;
    match app.decided(roles(&app).renew_turn(&place, &held)).await?? {
        Ok((expires_at, told)) => {
            let lease_expires_at = Some(time(expires_at));
            Ok(Json(Turn { lease_expires_at, ..turn(&told, Some(claim)) }))
        }
        Err(answer) => Err(refused(answer)),
    }
}

pub(in crate::http) async fn give_back(
    State(app): State<AppState>,
    principal: WorkerPrincipal,
    Path((deployment, role)): Path<(String, String)>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<Proposed>, ApiError> {
    let ReturnTurn { worker_id, claim, reason } = wire::parse(&body)?;
    let place = place(&app, &principal, &deployment, role).await?;
    let held = held(&place, &worker_id, &claim)?;
    let answer = app.decided(roles(&app).return_turn(&place, &held, &reason)).await??;
    committed(&app, answer)
}

pub(in crate::http) async fn propose(
    State(app): State<AppState>,
    principal: WorkerPrincipal,
    Path((deployment, role)): Path<(String, String)>,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<Proposed>, ApiError> {
    let Propose { worker_id, claim, decision } = wire::parse(&body)?;
    app.coordinator.refuse_if_draining()?;
    let place = place(&app, &principal, &deployment, role).await?;
    let decision = parsed(&decision)?;
    let roles = roles(&app);
    let answer = match (place.is_claiming(), claim) {
        (true, Some(claim)) => {
            let held = held(&place, &worker_id, &claim)?;
            app.decided(roles.carry_out(&place, &held, &decision)).await??
        }
        (false, None) => app.decided(roles.go(&place, &decision)).await??,
        (true, None) => {
            return Err(ApiError::field("claim", "is missing; a scheduler and a gate hold one"));
        }
        (false, Some(_)) => {
            let message = "is for schedulers and gates; a readiness and a review hold none";
            return Err(ApiError::field("claim", message));
        }
    };
    committed(&app, answer)
}

fn parsed(decision: &wire::Json) -> Result<Decision, ApiError> {
    let parsed: Decision = serde_json::from_str(decision.text())
        .map_err(|error| ApiError::field("decision", format!("is none: {error}")))?;
    if let Decision::Order { snapshot, .. } = &parsed
        && snapshot.to_string().len() > PAYLOAD_BYTES_MAX
    {
        let message = format!("the snapshot is larger than {PAYLOAD_BYTES_MAX} bytes");
        return Err(ApiError::new(Code::ResultTooLarge, message));
    }
    Ok(parsed)
}

fn roles(app: &AppState) -> Roles {
    Roles::new(app.coordinator.as_ref().clone())
}

/// The role, if the key may take its turns and the version in force leaves them to processes outside.
async fn place(
    app: &AppState,
    principal: &WorkerPrincipal,
    deployment: &str,
    role: String,
) -> Result<Place, ApiError> {
    check_right(principal, deployment, &role)?;
    let scope = principal.scope();
    let row = find(app, scope, deployment).await?;
    let Some(topology) = version(app, scope, &row).await? else {
        let message = "this server cannot read the version in force";
        return Err(ApiError::new(Code::DeploymentConflict, message));
    };
    let Some(declared) = topology.role(&role) else {
        let names: Vec<&str> = topology.declaration().roles.keys().map(String::as_str).collect();
        let message = format!("the deployment has no role {role}; it has {}", names.join(", "));
        return Err(ApiError::new(Code::RoleNotFound, message));
    };
    if !declared.outside {
        let message = format!(
            "the server takes the turns of {role} itself; declare the role with `outside: true` to take them"
        );
        return Err(ApiError::new(Code::RoleNotOutside, message));
    }
    Ok(Place { scope: scope.clone(), row, topology, role })
}

fn check_right(principal: &WorkerPrincipal, deployment: &str, role: &str) -> Result<(), ApiError> {
    let right = role_right(deployment, role);
    let is_named = principal.queues().is_some_and(|it| it.iter().any(|it| it.as_str() == right));
    if is_named || principal.is_admin() {
        return Ok(());
    }
    let message = format!(
        "this API key may not take turns of {role}; make one with `tenure keys create --role worker --queue {right}`"
    );
    let key = Principal::key(principal);
    Err(ApiError::new(Code::Forbidden, message).by(&key.id, &key.scope))
}

/// The claim that a caller says to have.
fn held(place: &Place, worker: &str, claim: &TurnClaim) -> Result<Claim, ApiError> {
    let TurnClaim { task_id: task, attempt, lease_id, fence } = claim;
    let Some(id) = task_id(task) else {
        return Err(ApiError::field("claim.taskId", "is no id of a task"));
    };
    let Some(lease) = LeaseId::parse(lease_id) else {
        return Err(ApiError::field("claim.leaseId", "is no id of a lease"));
    };
    let epoch = Fence::from_u64(*fence).epoch();
    let caller = Caller { worker: worker.into(), attempt: *attempt, lease, epoch };
    Ok(Claim { key: TaskKey { scope: place.scope.clone(), id }, caller })
}

fn claimed_turn(granted: &Granted, told: &Told) -> Turn {
    let lease = granted.task.lease().expect("a granted task has a lease");
    let claim = TurnClaim {
        task_id: granted.task.id.to_string(),
        attempt: granted.task.attempt,
        lease_id: lease.id.to_string(),
        fence: lease.fence.as_u64(),
    };
    Turn { lease_expires_at: Some(time(lease.expires_at)), ..turn(told, Some(claim)) }
}

fn turn(told: &Told, claim: Option<TurnClaim>) -> Turn {
    let json = match &told.turn {
        TurnOf::Event(turn) => written(turn),
        TurnOf::Order(turn) => written(turn),
        TurnOf::Artifact(turn) => written(turn),
    };
    let version = told.version.digest().to_owned();
    Turn { claim, lease_expires_at: None, version, told: json }
}

/// The declarations that the caller does not have.
fn versions(told: &[Told], known: &[String]) -> Vec<TurnVersion> {
    let mut found: Vec<TurnVersion> = Vec::new();
    for version in told.iter().map(|it| &it.version) {
        let digest = version.digest();
        let is_sent = found.iter().any(|it| it.version == digest);
        if !is_sent && !known.iter().any(|it| it == digest) {
            let declaration = written(version.declaration());
            found.push(TurnVersion { version: digest.to_owned(), declaration });
        }
    }
    found
}

fn committed(app: &AppState, answer: Answer) -> Result<Json<Proposed>, ApiError> {
    match answer {
        Answer::Committed { .. } | Answer::Object(_) => {
            let verdict = wire::Verdict::Committed;
            Ok(Json(Proposed { verdict, server_time: app.server_time() }))
        }
        other => Err(refused(other)),
    }
}

fn refused(answer: Answer) -> ApiError {
    match answer {
        Answer::Refused(refusal) => ApiError { verdict: None, ..ApiError::from(refusal) },
        other => unexpected(&other),
    }
}

impl From<Interrupted> for ApiError {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::Store(failure) => failure.into(),
            Interrupted::Refused(error) => error.into(),
        }
    }
}
