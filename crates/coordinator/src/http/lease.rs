//! `POST /v1/leases`: a worker polls for work.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use store::{Resources, Spec};
use verdict::{Name, Scope, Task, TaskId, Text};
use wire::answers::{Envelope, Leases, Signal};
use wire::limits::INTEGER_MAX;
use wire::names::ORIGIN_LABEL;
use wire::requests::LeaseRequest;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{API_BYTES_MAX, JsonBody};
use super::budget_view::left_of;
use super::delivery::Delivery;
use super::kinds::announced;
use super::queue_limit::{check_queue, check_served};
use super::records::{Page, envelope_page, has_records};
use super::stages::{self, StageInput, stages_of};
use super::steps;
use super::translate::{json, time};
use crate::admit::{TokenScope, WorkerPrincipal, token};
use crate::announcements::Known;
use crate::item::{Granted, Poll};

/// What one answer carries of inputs and of what tasks have recorded, composed inputs of plans included: those of a batch are
/// bounded where they are granted. Grants that do not fit are handed back at once, for the next poll.
const ENVELOPES_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(super) async fn lease(
    State(app): State<AppState>,
    principal: WorkerPrincipal,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let mut request: LeaseRequest = wire::parse(&body)?;
    check_queues(&principal, &request)?;
    let Some(Known { build }) = announced(&app, principal.scope(), &mut request) else {
        return Ok(Json(announce_again(&app)).into_response());
    };
    let wait = Duration::from_millis(request.wait_ms.unwrap_or(0));
    let names = |texts: &[String]| texts.iter().map(|text| Name::from(text.as_str())).collect();
    let (queues, kinds): (Vec<Name>, Option<Vec<Name>>) =
        (names(&request.queues), request.kinds.as_deref().map(names));
    let poll = Poll { build, ..poll(principal.scope(), request, wait) };
    let asked = app.coordinator.lease_or_signal(poll);
    let (granted, signalled) = app.decided_after(wait, asked).await??;
    if let Err(invalid) = app.check_still_valid(principal.key()) {
        // Its grants are handed back at once.
        app.coordinator.release(granted.iter().map(|it| (it.key(), it.lease())).collect());
        return Err(invalid);
    }
    let reach = |granted: &Granted| Reach::of(granted, &queues, kinds.as_deref());
    let (leases, granted) = envelopes(&app, principal.key(), granted, reach).await?;
    let signals = signalled.iter().map(|task| Signal { task_id: task.to_string() }).collect();
    let answer = Leases { leases, signals, announce_again: None, server_time: app.server_time() };
    if granted.is_empty() {
        return Ok(Json(answer).into_response());
    }
    let bytes = serde_json::to_vec(&answer).expect("an envelope is plain JSON");
    Ok(Delivery::new(app.coordinator.clone(), granted, bytes).into_response())
}

/// Answers a poll at once: its worker has to say once more what it can do.
fn announce_again(app: &AppState) -> Leases {
    let (leases, signals, server_time) = (Vec::new(), Vec::new(), app.server_time());
    Leases { leases, signals, announce_again: Some(true), server_time }
}

/// A worker's key may be limited to some queues, and none may serve those of the server.
fn check_queues(principal: &WorkerPrincipal, request: &LeaseRequest) -> Result<(), ApiError> {
    request.queues.iter().try_for_each(|queue| {
        check_served("queues", queue)?;
        check_queue(principal, "lease from", queue)
    })
}

fn poll(scope: &Scope, request: LeaseRequest, wait: Duration) -> Poll {
    let LeaseRequest {
        worker_id,
        queues,
        kinds,
        max,
        wait_ms: _,
        poll_id,
        announce: _,
        announced: _,
    } = request;
    let names = |texts: Vec<String>| texts.into_iter().map(Name::from).collect();
    Poll {
        scope: scope.clone(),
        worker: worker_id.into(),
        queues: names(queues),
        kinds: kinds.map(names),
        max: max as usize,
        until: tokio::time::Instant::now() + wait,
        poll: poll_id.map(Name::from),
        build: None,
    }
}

/// The last stage of a task that the poll which leased it takes, if it takes any after the present one. Its token says so,
/// because a report that asks for the next stage comes with the token alone.
#[derive(Clone, Copy)]
pub(super) struct Reach(pub(super) Option<u32>);

impl Reach {
    fn of(granted: &Granted, queues: &[Name], kinds: Option<&[Name]>) -> Self {
        let stages = stages_of(granted.task.run.as_deref());
        Self(stages.and_then(|stages| stages.taken_until(queues, kinds)))
    }
}

/// The envelope of a grant whose worker is an endpoint: it is nobody's API key that holds the lease.
pub(crate) async fn push_envelope(
    app: &AppState,
    granted: &Granted,
) -> Result<Option<Envelope>, ApiError> {
    complete_envelope(app, None, granted, Reach(None)).await
}

/// The envelopes of the grants that one answer carries, and those grants. Where what a task recorded cannot be read, all grants are
/// handed back: a worker without it would do recorded steps again.
async fn envelopes(
    app: &AppState,
    held_by: &Name,
    mut granted: Vec<Granted>,
    reach: impl Fn(&Granted) -> Reach,
) -> Result<(Vec<Envelope>, Vec<Granted>), ApiError> {
    let (mut envelopes, mut bytes) = (Vec::with_capacity(granted.len()), 0);
    let mut fitting = granted.len();
    for (place, grant) in granted.iter().enumerate() {
        if bytes >= ENVELOPES_BYTES_MAX {
            fitting = place;
            break;
        }
        match complete_envelope(app, Some(held_by), grant, reach(grant)).await {
            Ok(envelope) => {
                bytes += envelope.as_ref().map_or(0, bytes_of);
                envelopes.extend(envelope);
            }
            Err(error) => {
                app.coordinator.release(granted.iter().map(|it| (it.key(), it.lease())).collect());
                return Err(error);
            }
        }
    }
    let back = granted.split_off(fitting);
    if !back.is_empty() {
        app.coordinator.release(back.iter().map(|it| (it.key(), it.lease())).collect());
    }
    Ok((envelopes, granted))
}

/// What the large parts of an envelope take.
fn bytes_of(envelope: &Envelope) -> usize {
    let recorded = envelope.checkpoints.iter().filter_map(|it| it.result.as_ref());
    envelope.input.text().len() + recorded.map(|result| result.text().len()).sum::<usize>()
}

/// The envelope of one grant; `None` if its stage or step ended instead, because its input cannot be resolved.
pub(super) async fn complete_envelope(
    app: &AppState,
    held_by: Option<&Name>,
    granted: &Granted,
    reach: Reach,
) -> Result<Option<Envelope>, ApiError> {
    if reach.0.is_some() {
        app.inner.plans_at_hand.keep(granted.key(), &granted.spec);
    }
    let envelope = envelope(app, held_by, granted, reach);
    let envelope = with_recorded(envelope, recorded(app, granted).await?);
    let input = match stages::input(app, granted).await? {
        Some(input) => Some(input),
        None => steps::input(app, granted).await?,
    };
    match input {
        None => Ok(Some(envelope)),
        Some(StageInput::Ready(input)) => {
            let stages = stages_of(granted.task.run.as_deref());
            let stage = stages.map(|stages| stages.stage().key.to_string());
            let task_key = stage.clone().unwrap_or(envelope.task_key);
            Ok(Some(Envelope { input, stage, task_key, ..envelope }))
        }
        Some(StageInput::Unresolved(message)) => {
            let deciding =
                app.coordinator.input_unresolved(granted.key(), granted.lease(), message);
            app.decided(deciding).await?;
            Ok(None)
        }
    }
}

/// What the task has recorded; `None` for a plain task, without any read.
async fn recorded(app: &AppState, granted: &Granted) -> Result<Option<Page>, ApiError> {
    let Some(run) = granted.task.run.as_ref().filter(|run| has_records(run)) else {
        return Ok(None);
    };
    let key = granted.key();
    let reading = envelope_page(app.coordinator.browse(), &key, run);
    app.read(reading).await.map(Some)
}

fn with_recorded(envelope: Envelope, page: Option<Page>) -> Envelope {
    let Some(Page { checkpoints, next_after }) = page else { return envelope };
    Envelope { checkpoints, checkpoints_after: next_after, ..envelope }
}

fn envelope(app: &AppState, held_by: Option<&Name>, granted: &Granted, reach: Reach) -> Envelope {
    let Granted { task, spec, at } = granted;
    let lease = task.lease().expect("a granted task has a lease");
    let issued = token::issue(
        &app.inner.keyring,
        &token_scope(task, held_by.cloned(), reach),
        token::lifetime(task.policy.deadline, task.policy.cancel_grace, *at),
        *at,
    );
    let Spec {
        input,
        goal: _,
        task_key,
        asset_id,
        resources,
        labels,
        traceparent: _,
        key: _,
        fingerprint: _,
    } = spec;
    Envelope {
        task_id: task.id.to_string(),
        run_id: task.run_id().run_name(),
        tenant_id: task.scope.tenant.to_string(),
        workspace_id: task.scope.workspace.to_string(),
        task_key: task_key.as_ref().unwrap_or(&task.kind).to_string(),
        asset_id: asset_id.as_ref().map(Text::to_string),
        resources: resources.map(resources_view),
        kind: task.kind.to_string(),
        queue: task.queue.to_string(),
        attempt: task.attempt,
        lease_id: lease.id.to_string(),
        fence: lease.fence.as_u64(),
        input: json(input),
        enqueued_at: time(task.created_at),
        deadline: task.policy.deadline.map(time),
        lease_expires_at: time(lease.expires_at),
        callback_base_url: app.inner.callback_base_url.clone(),
        task_token: issued.token,
        token_expires_at: time(issued.expires_at),
        heartbeat_interval_ms: task.policy.heartbeat_every.millis(),
        heartbeat_timeout_ms: task.policy.lease.millis(),
        cancel_grace_period_ms: task.policy.cancel_grace.millis(),
        labels: labels.clone(),
        traceparent: app.coordinator.traceparent(granted),
        seed: Some(task.policy.seed.unwrap_or_else(|| seed_of(task.id))),
        origin: labels.get(ORIGIN_LABEL).cloned(),
        parent_task_id: parent_of(task).map(|parent| parent.to_string()),
        stage: None,
        checkpoints: Vec::new(),
        checkpoints_after: None,
        budget_left: task.balance().and_then(left_of),
    }
}

/// A seed for a task that was submitted without one: the random part of its id, as far as every JSON parser keeps it.
pub(crate) fn seed_of(id: TaskId) -> u64 {
    id.as_u128() as u64 & INTEGER_MAX
}

fn parent_of(task: &Task) -> Option<TaskId> {
    let lineage = task.run.as_ref()?.lineage.as_ref()?;
    lineage.parent().map(|(parent, _)| parent)
}

fn token_scope(task: &Task, key: Option<Name>, Reach(until): Reach) -> TokenScope {
    let lease = task.lease().expect("a granted task has a lease");
    TokenScope {
        scope: task.scope.clone(),
        task: task.id,
        attempt: task.attempt,
        lease: lease.id,
        epoch: lease.fence.epoch(),
        key,
        until,
    }
}

fn resources_view(resources: Resources) -> wire::requests::Resources {
    let Resources { memory_bytes, cpu_millicores, timeout_ms } = resources;
    wire::requests::Resources { memory_bytes, cpu_millicores, timeout_ms }
}
