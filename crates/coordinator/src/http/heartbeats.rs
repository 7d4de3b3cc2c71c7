//! `POST /v1/heartbeats`: many heartbeats in one call, one answer each.

use axum::Json;
use axum::extract::State;
use store::TaskKey;
use verdict::request::Heartbeat;
use wire::answers::{HeartbeatAck, HeartbeatAnswer, HeartbeatAnswers};
use wire::requests::HeartbeatItem;
use wire::{FieldError, parse_batch};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{JsonBody, LARGE_BYTES_MAX};
use super::caller::{caller, verify};
use super::heartbeat::{acknowledge, progress};
use super::reports::{check_scope, split};
use super::token_grace::TokenGrace;
use crate::admit::{LeaseHolderPrincipal, TaskPrincipal};

/// A batch answers 200, whatever the outcome of its items.
const OK: u16 = 200;

pub(super) async fn heartbeats(
    State(app): State<AppState>,
    principal: LeaseHolderPrincipal,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<HeartbeatAnswers>, ApiError> {
    let items: Vec<Result<HeartbeatItem, FieldError>> = parse_batch(&body)?;
    let mut asked = Vec::new();
    let mut token_grace = TokenGrace::default();
    let mut named = Vec::new();
    for item in items {
        let task_id = item.as_ref().map_or_else(|_| String::new(), |item| item.task_id.clone());
        let prepared = match item {
            Ok(item) => prepare(&app, &principal, item, &mut token_grace).await,
            Err(error) => Err(error.into()),
        };
        let token = prepared.map(|(token, key, heartbeat)| {
            asked.push((key, heartbeat));
            token
        });
        named.push((task_id, token));
    }
    let mut replies = app.decided(app.coordinator.heartbeats(asked)).await?.into_iter();
    let answers = named.into_iter().map(|(task_id, token)| {
        let answered = token.and_then(|token| {
            acknowledge(&app, &token, replies.next().expect("every heartbeat has a reply"))
        });
        answered.map_or_else(|no| refused(&task_id, no), |ack| alive(&task_id, ack))
    });
    let answers = answers.collect();
    Ok(Json(HeartbeatAnswers { answers, server_time: app.server_time() }))
}

async fn prepare(
    app: &AppState,
    principal: &LeaseHolderPrincipal,
    item: HeartbeatItem,
    token_grace: &mut TokenGrace,
) -> Result<(TaskPrincipal, TaskKey, Heartbeat), ApiError> {
    let HeartbeatItem {
        task_id,
        task_token,
        attempt,
        worker_id,
        heartbeat_at: _,
        progress_pct,
        message,
    } = item;
    let token = verify(app, &task_token, token_grace).await?;
    let (key, caller) = caller(&token, &task_id, attempt, &worker_id)?;
    check_scope(principal, &key)?;
    Ok((token, key, Heartbeat { caller, progress: progress(progress_pct, message) }))
}

fn alive(task_id: &str, ack: HeartbeatAck) -> HeartbeatAnswer {
    let HeartbeatAck {
        acknowledged: _,
        verdict,
        should_cancel,
        cancel_reason,
        lease_expires_at,
        task_token,
        token_expires_at,
        server_time: _,
    } = ack;
    HeartbeatAnswer {
        task_id: task_id.to_owned(),
        status: OK,
        verdict: Some(verdict),
        should_cancel: Some(should_cancel),
        cancel_reason,
        lease_expires_at: Some(lease_expires_at),
        task_token,
        token_expires_at,
        ..HeartbeatAnswer::default()
    }
}

fn refused(task_id: &str, error: ApiError) -> HeartbeatAnswer {
    let verdict = error.worker_verdict();
    let ApiError { code, message, verdict: _, state, attempts, field, retry_after: _, by: _ } =
        error;
    let (expected_attempt, received_attempt) = split(attempts);
    HeartbeatAnswer {
        task_id: task_id.to_owned(),
        status: code.status(),
        verdict,
        state,
        error: Some(code.as_str().to_owned()),
        message: Some(message),
        field,
        expected_attempt,
        received_attempt,
        ..HeartbeatAnswer::default()
    }
}
