//! `/v1/deployments`: topologies in force, put there and paused by administrators.
//!
//! Whatever changes something is decided in a batch like a request about a task; lists read what is stored. A key that is limited to
//! queues cannot use deployments, because their work goes to queues that the topology names.

pub(super) mod artifacts;
pub(super) mod orders;
mod planning;
pub(super) mod turns;

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use store::objects::ObjectFilter;
use store::{Browse, PAGE_BYTES_MAX};
use topology::Topology;
use verdict::topology::TopologyRefusal;
use verdict::{Answer, Name, Object, ObjectKey, ObjectType, Scope};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::topologies::{
    ApplyTopology, DeploymentCall, DeploymentList, DeploymentView, EventRequested, ListDeployments,
    RequestEvent, TopologyPlan, check_deployment,
};
use wire::{Code, DeploymentState};

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::audit::note_act;
use super::body::{API_BYTES_MAX, JsonBody, LARGE_BYTES_MAX};
use super::submit::unexpected;
use super::translate::{query, time};
use crate::admit::principals::Principal;
use crate::admit::{AdminPrincipal, ClientPrincipal, ReaderPrincipal};
use crate::item::{ComparedTopology, TopologyCall, TopologyItem};
use crate::topologies::rows::{DeploymentRow, deployment_key, deployment_of, instant};

/// More deployments than anybody oversees; all of them are in memory.
const DEPLOYMENTS_MAX: usize = 1_000;

const APPLIED: &str = "topology.applied";
const PAUSED: &str = "deployment.paused";
const RESUMED: &str = "deployment.resumed";
const DELETED: &str = "deployment.deleted";

pub(super) async fn list(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    uri: Uri,
) -> Result<Json<DeploymentList>, ApiError> {
    let ListDeployments { cursor, limit } = query(&uri)?;
    check_whole_workspace(&principal)?;
    let scope = principal.scope();
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let filter = ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::Deployment),
        is_pending: true,
        after: cursor.map(|cursor| deployment_key(scope, &cursor)),
        limit,
        bytes: Some(PAGE_BYTES_MAX),
        ..ObjectFilter::default()
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    let cursor = next_cursor(&filter, &found, |object| object.key.id.to_string());
    let rows = found.iter().filter_map(deployment_of).filter(|row| !row.is_deleted);
    Ok(Json(DeploymentList { deployments: rows.map(|row| view(&row, None)).collect(), cursor }))
}

pub(super) async fn show(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(name): Path<String>,
) -> Result<Json<DeploymentView>, ApiError> {
    check_whole_workspace(&principal)?;
    let row = find(&app, principal.scope(), &name).await?;
    let topology = version(&app, principal.scope(), &row).await?;
    Ok(Json(view(&row, topology.as_deref())))
}

/// What a version would change, and what stands in its way.
pub(super) async fn plan(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(name): Path<String>,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<TopologyPlan>, ApiError> {
    check_whole_workspace(&principal)?;
    let after = checked(&app, principal.scope(), &name, &body).await?;
    let before = deployed(&app, principal.scope(), &name).await?;
    Ok(Json(planning::plan(&app, principal.scope(), before.as_ref(), &after).await?))
}

pub(super) async fn apply(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(name): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<DeploymentView>, ApiError> {
    let scope = principal.scope();
    let after = checked(&app, scope, &name, &body).await?;
    let before = deployed(&app, scope, &name).await?;
    let known = app.coordinator.topologies().snapshot();
    let count = known.get(scope).map_or(0, std::collections::BTreeMap::len);
    if before.is_none() && count >= DEPLOYMENTS_MAX {
        let message =
            format!("a workspace has at most {DEPLOYMENTS_MAX} deployments; delete one first");
        return Err(ApiError::field("deployment", message));
    }
    let plan = planning::plan(&app, scope, before.as_ref(), &after).await?;
    if !plan.obstacles.is_empty() {
        let message = format!(
            "{}; nothing was changed. `tenure topology plan` shows everything",
            plan.obstacles.join("; ")
        );
        return Err(ApiError::new(Code::DeploymentConflict, message));
    }
    let generation = before.map_or(0, |row| row.generation);
    let call = TopologyCall::Apply(ComparedTopology(after.clone()));
    let row = administer(&app, &principal, (&name, generation), call, (APPLIED, request)).await?;
    Ok(Json(view(&row, Some(&after))))
}

/// The topology in a body, checked.
async fn checked(
    app: &AppState,
    scope: &Scope,
    name: &str,
    body: &[u8],
) -> Result<Arc<Topology>, ApiError> {
    let ApplyTopology { topology } = wire::parse(body)?;
    check_deployment(name)?;
    let text = topology.text().to_owned();
    // Compiling its patterns takes about as long as the file is large.
    let steps = text.len() as u64;
    let read = move || topology::read(&text);
    let read = app.coordinator.topologies().checking().run(&scope.tenant, steps, read).await;
    let topology = read.map_err(|problems| {
        let said: Vec<String> = problems
            .iter()
            .map(|it| match it.path.is_empty() {
                true => it.message.clone(),
                false => format!("{}: {}", it.path, it.message),
            })
            .collect();
        ApiError::field("topology", format!("is not valid: {}", said.join("; ")))
    })?;
    Ok(Arc::new(topology))
}

macro_rules! plain_change {
    ($name:ident, $call:expr, $action:expr) => {
        pub(super) async fn $name(
            State(app): State<AppState>,
            principal: AdminPrincipal,
            Path(name): Path<String>,
            request: RequestId,
            JsonBody(body): JsonBody<API_BYTES_MAX>,
        ) -> Result<Json<DeploymentView>, ApiError> {
            let DeploymentCall {} = wire::parse(&body)?;
            let row = find(&app, principal.scope(), &name).await?;
            let named = (name.as_str(), row.generation);
            let row = administer(&app, &principal, named, $call, ($action, request)).await?;
            Ok(Json(view(&row, None)))
        }
    };
}

plain_change!(pause, TopologyCall::Pause, PAUSED);
plain_change!(resume, TopologyCall::Resume, RESUMED);

pub(super) async fn delete(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(name): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<DeploymentView>, ApiError> {
    let DeploymentCall {} = wire::parse(&body)?;
    let row = find(&app, principal.scope(), &name).await?;
    let active = planning::active_orders(&app, principal.scope(), &row).await?;
    if active > 0 {
        let message = match active {
            1 => "1 work order is active; let it end, or cancel its run, before you delete the deployment".to_owned(),
            _ => format!(
                "{active} work orders are active; let them end, or cancel their runs, before you delete the deployment"
            ),
        };
        return Err(ApiError::new(Code::DeploymentConflict, message));
    }
    let (named, call) = ((name.as_str(), row.generation), TopologyCall::Delete);
    let row = administer(&app, &principal, named, call, (DELETED, request)).await?;
    Ok(Json(view(&row, None)))
}

pub(super) async fn request_event(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    Path(name): Path<String>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<(StatusCode, Json<EventRequested>), ApiError> {
    check_whole_workspace(&principal)?;
    let RequestEvent { event_type, key } = wire::parse(&body)?;
    let row = find(&app, principal.scope(), &name).await?;
    let event_id = format!("{event_type}/{key}");
    let call = TopologyCall::Emit { event: event_type, key };
    let item = asked(principal.scope(), (&name, row.generation), call, principal.key());
    match decided(&app, item).await? {
        Answer::Accepted { task, .. } => {
            let requested = EventRequested { event_id, run_id: task.run_name() };
            Ok((StatusCode::CREATED, Json(requested)))
        }
        other => Err(unexpected(&other)),
    }
}

/// Changes a deployment, and writes who did it to the audit.
async fn administer(
    app: &AppState,
    principal: &AdminPrincipal,
    named: (&str, u32),
    call: TopologyCall,
    (action, request): (&'static str, RequestId),
) -> Result<DeploymentRow, ApiError> {
    app.coordinator.refuse_if_draining()?;
    let item = asked(principal.scope(), named, call, principal.key());
    let object = object(decided(app, item).await?)?;
    let row = deployment_of(&object).ok_or_else(not_found)?;
    let by = (principal.scope(), principal.key());
    note_act(app, by, action, named.0, request).await?;
    Ok(row)
}

fn asked(
    scope: &Scope,
    (deployment, generation): (&str, u32),
    call: TopologyCall,
    by: &Name,
) -> TopologyItem {
    TopologyItem {
        scope: scope.clone(),
        deployment: deployment.into(),
        generation,
        call,
        by: Some(by.clone()),
    }
}

async fn decided(app: &AppState, item: TopologyItem) -> Result<Answer, ApiError> {
    let answered = app.decided(app.coordinator.deploy(item)).await??;
    match answered.answer {
        // Nobody who asks this way is a worker.
        Answer::Refused(refusal) => Err(ApiError { verdict: None, ..ApiError::from(refusal) }),
        answer => Ok(answer),
    }
}

fn object(answer: Answer) -> Result<Object, ApiError> {
    match answer {
        Answer::Object(object) => Ok(*object),
        other => Err(unexpected(&other)),
    }
}

async fn one(app: &AppState, key: &ObjectKey) -> Result<Option<Object>, ApiError> {
    let filter = ObjectFilter::one(key);
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    Ok(found.into_iter().next())
}

/// The deployment with this name, unless it was deleted.
async fn deployed(
    app: &AppState,
    scope: &Scope,
    name: &str,
) -> Result<Option<DeploymentRow>, ApiError> {
    let found = one(app, &deployment_key(scope, name)).await?;
    Ok(found.as_ref().and_then(deployment_of).filter(|row| !row.is_deleted))
}

async fn find(app: &AppState, scope: &Scope, name: &str) -> Result<DeploymentRow, ApiError> {
    deployed(app, scope, name).await?.ok_or_else(not_found)
}

async fn version(
    app: &AppState,
    scope: &Scope,
    row: &DeploymentRow,
) -> Result<Option<Arc<Topology>>, ApiError> {
    let directory = app.coordinator.topologies();
    let reading = directory.version(app.coordinator.browse(), scope, &row.version);
    app.read(reading).await
}

fn not_found() -> ApiError {
    TopologyRefusal::DeploymentNotFound.into()
}

fn check_whole_workspace<P: Principal>(principal: &P) -> Result<(), ApiError> {
    if principal.queues().is_none() {
        return Ok(());
    }
    let message = "deployments are not used by queue, and this API key is limited to queues";
    let key = Principal::key(principal);
    Err(ApiError::new(Code::Forbidden, message).by(&key.id, &key.scope))
}

/// The cursor of the next page; `None` on the last one.
fn next_cursor(
    filter: &ObjectFilter,
    found: &[Object],
    cursor: impl Fn(&Object) -> String,
) -> Option<String> {
    found.last().filter(|_| !filter.is_last(found)).map(cursor)
}

fn view(row: &DeploymentRow, topology: Option<&Topology>) -> DeploymentView {
    let state = match (row.is_deleted, row.is_paused) {
        (true, _) => DeploymentState::Deleted,
        (false, true) => DeploymentState::Paused,
        (false, false) => DeploymentState::Active,
    };
    DeploymentView {
        name: row.name.clone(),
        state,
        topology: row.topology.clone(),
        version: row.version.clone(),
        generation: row.generation,
        created_at: at(row.created_at),
        applied_at: at(row.applied_at),
        declaration: topology.map(|topology| written(topology.declaration())),
    }
}

fn written(value: &impl serde::Serialize) -> wire::Json {
    let text = serde_json::to_string(value).expect("what was read can be written again");
    wire::Json::from_text(text).expect("it was just written")
}

impl From<TopologyRefusal> for ApiError {
    fn from(refusal: TopologyRefusal) -> Self {
        match refusal {
            TopologyRefusal::DeploymentNotFound => {
                Self::new(Code::DeploymentNotFound, "no deployment of this workspace has this name")
            }
            TopologyRefusal::ArtifactNotFound => Self::new(
                Code::ArtifactNotFound,
                "the deployment has no artifact with this type and id",
            ),
            TopologyRefusal::ArtifactExists => Self::new(
                Code::ArtifactExists,
                "the deployment has an artifact with this type and id; it was not changed",
            ),
            TopologyRefusal::NotAllowed(why) => {
                Self::new(Code::TransitionNotAllowed, why.to_string())
            }
            TopologyRefusal::OwnWork => Self::new(
                Code::ApprovalForbidden,
                "this key executed a work order about the artifact since it was last approved; another key must approve",
            ),
            TopologyRefusal::Stale(why) => Self::new(Code::ArtifactChanged, why.to_string()),
            TopologyRefusal::Invalid(why) => Self::new(Code::InvalidArgument, why.to_string()),
            TopologyRefusal::Incompatible(why) => {
                Self::new(Code::DeploymentConflict, why.to_string())
            }
        }
    }
}

/// The time of a row.
fn at(millis: u64) -> wire::Time {
    time(instant(millis))
}
