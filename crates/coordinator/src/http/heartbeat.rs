//! `POST /v1/tasks/{taskId}/heartbeat`.

use axum::Json;
use axum::extract::{Path, State};
use verdict::{Answer, Progress, Request, Text, request};
use wire::answers::HeartbeatAck;
use wire::requests::Heartbeat;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{HEARTBEAT_BYTES_MAX, JsonBody};
use super::budget_view::left_of;
use super::caller::caller;
use super::submit::unexpected;
use super::translate::time;
use crate::admit::TaskPrincipal;
use crate::item::{Item, Reply};
use crate::requests::{metered, sent_log};

pub(super) async fn heartbeat(
    State(app): State<AppState>,
    principal: TaskPrincipal,
    Path(task): Path<String>,
    JsonBody(body): JsonBody<HEARTBEAT_BYTES_MAX>,
) -> Result<Json<HeartbeatAck>, ApiError> {
    let Heartbeat { attempt, worker_id, heartbeat_at: _, progress_pct, message, spend, log } =
        wire::parse(&body)?;
    let (key, caller) = caller(&principal, &task, attempt, &worker_id)?;
    let progress = progress(progress_pct, message);
    let beat = Request::Heartbeat(request::Heartbeat { caller, progress });
    let item = Item::asking(key, metered(spend, beat)).with_log(sent_log(log));
    let reply = app.decided(app.coordinator.ask(vec![item])).await?.pop();
    let reply = reply.expect("one request has one reply");
    acknowledge(&app, &principal, reply).map(Json)
}

pub(super) fn progress(percent: Option<f64>, message: Option<String>) -> Option<Progress> {
    if percent.is_none() && message.is_none() {
        return None;
    }
    // Checked to be from 0 to 100.
    let percent = percent.map(|percent| percent.round() as u8);
    Some(Progress { percent, message: message.map(Text::from) })
}

pub(super) fn acknowledge(
    app: &AppState,
    principal: &TaskPrincipal,
    reply: Reply,
) -> Result<HeartbeatAck, ApiError> {
    let answered = reply?;
    let (expires_at, cancel) = match answered.answer {
        Answer::Alive { expires_at, cancel } => (expires_at, cancel),
        Answer::Refused(refusal) => return Err(refusal.into()),
        other => return Err(unexpected(&other)),
    };
    let left = answered.balance.as_deref().and_then(left_of);
    let fresh = principal.refresh(&app.inner.keyring, answered.at);
    let reason = cancel.as_ref().and_then(|cancel| cancel.reason.as_ref());
    Ok(HeartbeatAck {
        acknowledged: true,
        verdict: wire::Verdict::Committed,
        should_cancel: cancel.is_some(),
        cancel_reason: reason.map(|reason| reason.as_str().to_owned()),
        lease_expires_at: time(expires_at),
        token_expires_at: fresh.as_ref().map(|fresh| time(fresh.expires_at)),
        task_token: fresh.map(|fresh| fresh.token),
        left,
        server_time: time(answered.at),
    })
}
