//! `POST /v1/starts`: many starts in one call, one answer each. A bad item never affects the others.

use axum::Json;
use axum::extract::State;
use store::TaskKey;
use verdict::request;
use wire::answers::{StartAnswer, StartAnswers, StartedAck};
use wire::requests::StartItem;
use wire::{FieldError, parse_batch};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{JsonBody, LARGE_BYTES_MAX};
use super::caller::{caller, verify};
use super::reports::{check_scope, split};
use super::started::acknowledge;
use super::token_grace::TokenGrace;
use super::translate::instant;
use crate::admit::LeaseHolderPrincipal;

/// A batch answers 200, whatever the outcome of its items.
const OK: u16 = 200;

pub(super) async fn starts(
    State(app): State<AppState>,
    principal: LeaseHolderPrincipal,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<StartAnswers>, ApiError> {
    let items: Vec<Result<StartItem, FieldError>> = parse_batch(&body)?;
    let mut asked = Vec::new();
    let mut token_grace = TokenGrace::default();
    let mut named = Vec::new();
    for item in items {
        let task_id = item.as_ref().map_or_else(|_| String::new(), |item| item.task_id.clone());
        let prepared = match item {
            Ok(item) => prepare(&app, &principal, item, &mut token_grace).await,
            Err(error) => Err(error.into()),
        };
        named.push((task_id, prepared.map(|pair| asked.push(pair))));
    }
    let mut replies = app.decided(app.coordinator.starts(asked)).await?.into_iter();
    let answers = named.into_iter().map(|(task_id, prepared)| {
        let answered =
            prepared.and_then(|()| acknowledge(replies.next().expect("every start has a reply")));
        answered.map_or_else(|no| refused(&task_id, no), |ack| begun(&task_id, ack))
    });
    Ok(Json(StartAnswers { answers: answers.collect(), server_time: app.server_time() }))
}

/// The same checks as for a single call, in the same order.
async fn prepare(
    app: &AppState,
    principal: &LeaseHolderPrincipal,
    item: StartItem,
    token_grace: &mut TokenGrace,
) -> Result<(TaskKey, request::Started), ApiError> {
    let StartItem { task_id, task_token, attempt, worker_id, started_at } = item;
    let token = verify(app, &task_token, token_grace).await?;
    let (key, caller) = caller(&token, &task_id, attempt, &worker_id)?;
    check_scope(principal, &key)?;
    Ok((key, request::Started { caller, claimed_at: started_at.map(instant) }))
}

fn begun(task_id: &str, ack: StartedAck) -> StartAnswer {
    let StartedAck { acknowledged: _, verdict, server_time: _ } = ack;
    StartAnswer {
        task_id: task_id.to_owned(),
        status: OK,
        verdict: Some(verdict),
        ..StartAnswer::default()
    }
}

fn refused(task_id: &str, error: ApiError) -> StartAnswer {
    let verdict = error.worker_verdict();
    let ApiError { code, message, verdict: _, state, attempts, field, retry_after: _, by: _ } =
        error;
    let (expected_attempt, received_attempt) = split(attempts);
    StartAnswer {
        task_id: task_id.to_owned(),
        status: code.status(),
        verdict,
        state,
        error: Some(code.as_str().to_owned()),
        message: Some(message),
        field,
        expected_attempt,
        received_attempt,
    }
}
