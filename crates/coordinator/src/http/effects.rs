//! `/v1/effects`: what was decided to leave, where it stands, and what people decide about what did not arrive.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use store::effects::{
    DEAD, DELIVERED, IN_FLIGHT, LastTry, PENDING, QUEUED, StoredEffect, UNKNOWN, before_effects_of,
    endpoint_of, payload_key, unique_key,
};
use store::{Browse, ObjectChange, ObjectFilter, ObjectLogFilter};
use verdict::effect::{EffectId, EffectRequest, EffectState, Intent, Reconciled};
use verdict::{Name, Object, ObjectKey, ObjectType, Scope, TaskId, Text, Time};
use wire::Code;
use wire::effects::{
    EffectChange, EffectList, EffectView, ListEffects, ReconcileEffect, RedriveEffects, Redriven,
    TryView,
};
use wire::limits::PAGE_ITEMS_DEFAULT;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{API_BYTES_MAX, JsonBody};
use super::translate::{instant, json, query, time};
use crate::admit::{AdminPrincipal, AuditorPrincipal};
use crate::outbox::claims::{Undecided, decide_one};

/// Maximum entries of an effect's log that are shown: more than the tries of ten redrives.
const LOG_MAX: usize = 2_000;

/// Effects that one call redrives at most: each is a decision of its own.
const REDRIVEN_MAX: u64 = 1_000;

/// How often a decision about an effect is tried while another writer has it, and the pause between two tries.
const LOCKED_TRIES: usize = 20;
const LOCKED_PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn list(
    State(app): State<AppState>,
    principal: AuditorPrincipal,
    uri: Uri,
) -> Result<Json<EffectList>, ApiError> {
    let ListEffects { run_id, endpoint, state, cursor, limit } = query(&uri)?;
    let scope = principal.scope();
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let wanted = Wanted { run: run(run_id.as_deref())?, endpoint: endpoint.map(Name::from) };
    let after = cursor.map(|id| ObjectKey {
        scope: scope.clone(),
        object_type: ObjectType::Effect,
        id: id.into(),
    });
    let status = state.map(status_of);
    let found = wanted.page(&app, scope, status, after, limit).await?;
    let cursor = (found.len() == limit).then(|| found.last().map(|last| last.key.id.to_string()));
    let effects = found.iter().filter_map(StoredEffect::of).map(|stored| view(&stored)).collect();
    Ok(Json(EffectList { effects, cursor: cursor.flatten() }))
}

pub(super) async fn show(
    State(app): State<AppState>,
    principal: AuditorPrincipal,
    Path(id): Path<String>,
) -> Result<Json<EffectView>, ApiError> {
    let (key, stored) = find(&app, principal.scope(), &id).await?;
    let browse = app.coordinator.browse();
    let payload = ObjectFilter::one(&payload_key(&key.scope, stored.effect.intent.id));
    let payload = app.read(browse.objects(&payload)).await?;
    let log = ObjectLogFilter { key: Some(key), after: None, limit: LOG_MAX };
    let log = app.read(browse.object_log(&log)).await?;
    Ok(Json(EffectView {
        body: payload.first().map(|payload| json(&payload.body)),
        log: log.iter().filter_map(change_view).collect(),
        ..view(&stored)
    }))
}

pub(super) async fn redrive(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(id): Path<String>,
) -> Result<Json<EffectView>, ApiError> {
    decide(&app, &principal, &id, EffectRequest::Redrive).await
}

pub(super) async fn release(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(id): Path<String>,
) -> Result<Json<EffectView>, ApiError> {
    decide(&app, &principal, &id, EffectRequest::Release).await
}

pub(super) async fn reconcile(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<EffectView>, ApiError> {
    let ReconcileEffect { arrived } = wire::parse(&body)?;
    let found = if arrived { Reconciled::Arrived } else { Reconciled::NotArrived };
    decide(&app, &principal, &id, EffectRequest::Reconcile(found)).await
}

pub(super) async fn redrive_many(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<Redriven>, ApiError> {
    let RedriveEffects { run_id, endpoint, since } = wire::parse(&body)?;
    app.coordinator.refuse_if_draining()?;
    let wanted = Wanted { run: run(run_id.as_deref())?, endpoint: endpoint.map(Name::from) };
    let (since, scope) = (since.map(instant), principal.scope());
    let (mut after, mut redriven) = (None, 0);
    loop {
        let page = wanted.page(&app, scope, Some(DEAD), after, PAGE_ITEMS_DEFAULT as usize).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for stored in page.iter().filter_map(StoredEffect::of) {
            if since.is_some_and(|since| stored.effect.intent.decided_at < since) {
                continue;
            }
            if redriven == REDRIVEN_MAX {
                return Ok(Json(Redriven { redriven, more: true }));
            }
            match ask(&app, &principal, &stored.key(), EffectRequest::Redrive).await? {
                Ok(_) => redriven += 1,
                // Somebody else was faster.
                Err(Undecided::Refused(_) | Undecided::Missing) => {}
                Err(Undecided::Locked) => return Err(locked()),
            }
        }
    }
    Ok(Json(Redriven { redriven, more: false }))
}

/// Which effects are wanted.
struct Wanted {
    run: Option<TaskId>,
    endpoint: Option<Name>,
}

impl Wanted {
    async fn page(
        &self,
        app: &AppState,
        scope: &Scope,
        status: Option<&str>,
        after: Option<ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Object>, ApiError> {
        // The effects of one endpoint stand together in the order of keys.
        let first = self.endpoint.as_ref().map(|endpoint| before_effects_of(scope, endpoint));
        let filter = ObjectFilter {
            scope: Some(scope.clone()),
            object_type: Some(ObjectType::Effect),
            status: status.map(Name::from),
            parent: self.run.map(|run| run.run_name().into()),
            after: after.into_iter().chain(first).max(),
            limit,
            ..ObjectFilter::default()
        };
        let mut found = app.read(app.coordinator.browse().objects(&filter)).await?;
        if let Some(endpoint) = &self.endpoint {
            found.retain(|object| endpoint_of(&object.key).as_ref() == Some(endpoint));
        }
        Ok(found)
    }
}

fn run(id: Option<&str>) -> Result<Option<TaskId>, ApiError> {
    let parse = |id: &str| {
        let parsed = TaskId::parse(id).filter(|_| id.starts_with("run_"));
        parsed.ok_or_else(|| ApiError::field("runId", "is not the id of a run"))
    };
    id.map(parse).transpose()
}

async fn find(
    app: &AppState,
    scope: &Scope,
    id: &str,
) -> Result<(ObjectKey, StoredEffect), ApiError> {
    let id = EffectId::parse(id).ok_or_else(not_found)?;
    let filter = ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::Effect),
        unique_key: Some(unique_key(id)),
        limit: 1,
        ..ObjectFilter::default()
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    let object = found.into_iter().next().ok_or_else(not_found)?;
    let stored = StoredEffect::of(&object).ok_or_else(not_found)?;
    Ok((object.key, stored))
}

async fn decide(
    app: &AppState,
    principal: &AdminPrincipal,
    id: &str,
    request: EffectRequest,
) -> Result<Json<EffectView>, ApiError> {
    app.coordinator.refuse_if_draining()?;
    let (key, _) = find(app, principal.scope(), id).await?;
    match ask(app, principal, &key, request).await? {
        Ok(stored) => Ok(Json(view(&stored))),
        Err(Undecided::Missing) => Err(not_found()),
        Err(Undecided::Locked) => Err(locked()),
        Err(Undecided::Refused(_)) => Err(ApiError::new(
            Code::EffectStateMismatch,
            "only a dead effect can be redriven or released, and only an unknown one reconciled",
        )),
    }
}

/// Asks until no other writer has the effect.
async fn ask(
    app: &AppState,
    principal: &AdminPrincipal,
    key: &ObjectKey,
    request: EffectRequest,
) -> Result<Result<StoredEffect, Undecided>, ApiError> {
    for _ in 0..LOCKED_TRIES {
        let by = Some(principal.key().clone());
        let deciding = decide_one(&app.coordinator, key, request, None, by);
        match app.decided(deciding).await?? {
            Err(Undecided::Locked) => tokio::time::sleep(LOCKED_PAUSE).await,
            decided => return Ok(decided),
        }
    }
    Ok(Err(Undecided::Locked))
}

fn not_found() -> ApiError {
    ApiError::new(Code::EffectNotFound, "no effect has this id")
}

fn locked() -> ApiError {
    ApiError::new(Code::Unavailable, "another coordinator works on the effect; try again")
}

fn status_of(state: wire::EffectState) -> &'static str {
    match state {
        wire::EffectState::Queued => QUEUED,
        wire::EffectState::Pending => PENDING,
        wire::EffectState::InFlight => IN_FLIGHT,
        wire::EffectState::Delivered => DELIVERED,
        wire::EffectState::Unknown => UNKNOWN,
        wire::EffectState::Dead => DEAD,
    }
}

fn state_view(state: &EffectState) -> wire::EffectState {
    match state {
        EffectState::Queued => wire::EffectState::Queued,
        EffectState::Pending { .. } => wire::EffectState::Pending,
        EffectState::InFlight(_) => wire::EffectState::InFlight,
        EffectState::Delivered { .. } => wire::EffectState::Delivered,
        EffectState::Unknown { .. } => wire::EffectState::Unknown,
        EffectState::Dead { .. } => wire::EffectState::Dead,
    }
}

fn try_view(last_try: &LastTry) -> TryView {
    let LastTry { at, status, note } = last_try;
    TryView { at: time(*at), status: *status, note: note.as_ref().map(Text::to_string) }
}

fn change_view(change: &ObjectChange) -> Option<EffectChange> {
    let StoredEffect { effect, last_try, .. } = StoredEffect::of(&change.after)?;
    Some(EffectChange {
        at: time(change.at),
        state: state_view(&effect.state),
        tries: effect.tries,
        last_try: last_try.as_ref().map(try_view),
        key_id: change.by.as_ref().map(Name::to_string),
    })
}

fn settled_at(state: &EffectState) -> Option<Time> {
    match state {
        EffectState::Delivered { at } | EffectState::Dead { at, .. } => Some(*at),
        EffectState::Unknown { since } => Some(*since),
        EffectState::Queued | EffectState::Pending { .. } | EffectState::InFlight(_) => None,
    }
}

fn view(stored: &StoredEffect) -> EffectView {
    let StoredEffect { effect, run, digest: _, last_try } = stored;
    let Intent { id, task, endpoint, aggregate, kind, decided_at, .. } = &effect.intent;
    let (reason, blocks) = match effect.state {
        EffectState::Dead { reason, is_passed, .. } => {
            (Some(reason.name().to_owned()), Some(!is_passed))
        }
        EffectState::Unknown { .. } => (None, Some(true)),
        _ => (None, None),
    };
    EffectView {
        effect_id: id.to_string(),
        run_id: run.run_name(),
        task_id: task.to_string(),
        endpoint: endpoint.to_string(),
        r#type: kind.to_string(),
        aggregate: aggregate.to_string(),
        sequence: effect.number,
        state: state_view(&effect.state),
        reason,
        blocks,
        tries: effect.tries,
        decided_at: time(*decided_at),
        due_at: effect.state.due().map(time),
        settled_at: settled_at(&effect.state).map(time),
        last_try: last_try.as_ref().map(try_view),
        body: None,
        log: Vec::new(),
    }
}
