//! What a deployment has in flight and waiting: work orders with their run records, claims, pause states.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use store::objects::ObjectFilter;
use store::{Browse, Filter, LabelFilter, PAGE_BYTES_MAX, StoredTask};
use topology::deployment::{ArtifactRef, GateReason, PauseState, RunRecord};
use verdict::topology::{GATE_KIND, KEY_PREFIX, NAME_PREFIX};
use verdict::{Name, Object, ObjectType, Scope};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::names::DEPLOYMENT_LABEL;
use wire::topologies::{
    ClaimList, ClaimView, ClosePauseState, GateReasonView, ListPauseStates, ListWorkOrders,
    PauseStateList, PauseStateView, RunRecordView, WorkOrderList, WorkOrderView,
};
use wire::{Code, PauseStateState, WorkOrderState};

use super::super::api_error::ApiError;
use super::super::app_state::AppState;
use super::super::body::{API_BYTES_MAX, JsonBody};
use super::super::translate::{query, time};
use super::{asked, at, check_whole_workspace, decided, find, next_cursor, object, one};
use crate::admit::{ClientPrincipal, ReaderPrincipal};
use crate::item::TopologyCall;
use crate::topologies::rows::{
    DeploymentRow, PASSED, PauseRow, WorkOrderRow, pause_key, work_order_key,
};

/// Claims that are listed: more than one deployment has executors.
const CLAIMS_MAX: usize = 1_000;

pub(in crate::http) async fn list(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(deployment): Path<String>,
    uri: Uri,
) -> Result<Json<WorkOrderList>, ApiError> {
    let ListWorkOrders { state, cursor, limit } = query(&uri)?;
    check_whole_workspace(&principal)?;
    let scope = principal.scope();
    let row = find(&app, scope, &deployment).await?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let filter = ObjectFilter {
        status: state.map(|state| Name::from(state.as_str())),
        after: cursor.map(|id| work_order_key(scope, &row.prefix(), &id)),
        ..of_deployment(scope, &row, ObjectType::WorkOrder, limit)
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    let cursor = next_cursor(&filter, &found, |object| {
        WorkOrderRow::of(object).map_or_else(String::new, |row| row.order.id)
    });
    let rows = found.iter().filter_map(WorkOrderRow::of);
    Ok(Json(WorkOrderList { work_orders: rows.map(order_view).collect(), cursor }))
}

fn of_deployment(
    scope: &Scope,
    row: &DeploymentRow,
    object_type: ObjectType,
    limit: usize,
) -> ObjectFilter {
    ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(object_type),
        parent: Some(row.prefix().into()),
        limit,
        bytes: Some(PAGE_BYTES_MAX),
        ..ObjectFilter::default()
    }
}

fn order_view(row: WorkOrderRow) -> WorkOrderView {
    let state = match row.status() {
        PASSED => WorkOrderState::Passed,
        _ if row.record.is_some() => WorkOrderState::Failed,
        _ => WorkOrderState::Active,
    };
    let WorkOrderRow { order, task, record } = row;
    WorkOrderView {
        id: order.id,
        state,
        event: order.event,
        template: order.template,
        kind: order.kind,
        queue: order.queue,
        track: order.track,
        version: order.topology,
        artifacts: order.artifacts.iter().map(ArtifactRef::to_string).collect(),
        run_id: task,
        created_at: at(order.created_at),
        record: record.map(record_view),
    }
}

fn record_view(record: RunRecord) -> RunRecordView {
    let reason = |GateReason { check, message }| GateReasonView { check, message };
    RunRecordView {
        execution_status: word(&record.execution_status),
        gate_result: word(&record.gate_result),
        gate_reasons: record.gate_reasons.into_iter().map(reason).collect(),
        created_at: at(record.created_at),
    }
}

fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// The leases on events and work orders of the deployment, in the form of claim records.
pub(in crate::http) async fn claims(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(deployment): Path<String>,
) -> Result<Json<ClaimList>, ApiError> {
    check_whole_workspace(&principal)?;
    let scope = principal.scope();
    let row = find(&app, scope, &deployment).await?;
    let label = LabelFilter { name: DEPLOYMENT_LABEL.to_owned(), value: Some(row.name.clone()) };
    let mut filter = Filter {
        state: Some(verdict::State::Running),
        labels: vec![label],
        limit: CLAIMS_MAX,
        ..Filter::default()
    };
    let prefix = format!("{KEY_PREFIX}{}/", row.prefix());
    let mut claims = Vec::new();
    loop {
        let page = app.read(app.coordinator.browse().list(scope, &filter)).await?;
        claims.extend(page.tasks.iter().filter_map(|listed| claim(&listed.task, &prefix)));
        filter.before = page.next;
        if filter.before.is_none() || claims.len() >= CLAIMS_MAX {
            break;
        }
    }
    claims.sort_by(|a, b| {
        (&a.resource_type, &a.resource_id).cmp(&(&b.resource_type, &b.resource_id))
    });
    Ok(Json(ClaimList { claims }))
}

/// The lease of a task as the claim that it is: the key of its run names what is claimed.
fn claim(stored: &StoredTask, prefix: &str) -> Option<ClaimView> {
    let task = stored.subject.live()?;
    let lease = task.lease()?;
    let id = stored.spec.key.as_ref()?.as_str().strip_prefix(prefix)?;
    let is_event = task.queue.as_str().starts_with(NAME_PREFIX) && task.kind.as_str() != GATE_KIND;
    Some(ClaimView {
        resource_type: if is_event { "EVENT" } else { "WORKORDER" }.to_owned(),
        resource_id: id.to_owned(),
        owner_id: lease.owner.to_string(),
        lease_expires_at: time(lease.expires_at),
        heartbeat_at: time(lease.heartbeat_at),
        claim_version: u64::from(task.claim_version),
    })
}

pub(in crate::http) async fn pauses(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(deployment): Path<String>,
    uri: Uri,
) -> Result<Json<PauseStateList>, ApiError> {
    let ListPauseStates { state, cursor, limit } = query(&uri)?;
    check_whole_workspace(&principal)?;
    let scope = principal.scope();
    let row = find(&app, scope, &deployment).await?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let filter = ObjectFilter {
        status: state.map(|state| Name::from(state.as_str())),
        after: cursor.map(|id| pause_key(scope, &row.prefix(), &id)),
        ..of_deployment(scope, &row, ObjectType::PauseState, limit)
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    let cursor = next_cursor(&filter, &found, |object| {
        PauseRow::of(object).map_or_else(String::new, |row| row.pause.id)
    });
    let rows = found.iter().filter_map(PauseRow::of);
    Ok(Json(PauseStateList { pause_states: rows.map(pause_view).collect(), cursor }))
}

pub(in crate::http) async fn close_pause(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    Path(deployment): Path<String>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<PauseStateView>, ApiError> {
    check_whole_workspace(&principal)?;
    let ClosePauseState { id } = wire::parse(&body)?;
    app.coordinator.refuse_if_draining()?;
    let scope = principal.scope();
    let row = find(&app, scope, &deployment).await?;
    if one(&app, &pause_key(scope, &row.prefix(), &id)).await?.is_none() {
        return Err(no_pause());
    }
    let call = TopologyCall::ClosePause { id };
    let item = asked(scope, (&deployment, row.generation), call, principal.key());
    let closed: Object = object(decided(&app, item).await?)?;
    PauseRow::of(&closed).map(pause_view).map(Json).ok_or_else(no_pause)
}

fn no_pause() -> ApiError {
    ApiError::new(Code::NotFound, "the deployment has no pause state with this id")
}

fn pause_view(row: PauseRow) -> PauseStateView {
    let PauseRow { pause, is_closed } = row;
    let PauseState { id, reason, subject, actions, created_at } = pause;
    PauseStateView {
        id,
        state: if is_closed { PauseStateState::Closed } else { PauseStateState::Open },
        reason: word(&reason),
        subject: subject.map(|subject| subject.to_string()),
        actions,
        created_at: at(created_at),
    }
}
