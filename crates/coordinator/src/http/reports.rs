//! `POST /v1/reports`: many reports in one call, one verdict each. A bad item never affects the
//! others.

use axum::Json;
use axum::extract::State;
use store::TaskKey;
use verdict::request;
use wire::answers::{CompletedAck, ReportAnswer, ReportAnswers};
use wire::requests::{Completed, Report};
use wire::{FieldError, parse_batch};

use super::api_error::{ApiError, Attempts};
use super::app_state::AppState;
use super::body::{JsonBody, LARGE_BYTES_MAX};
use super::caller::{caller, verify};
use super::completed::acknowledge;
use super::token_grace::TokenGrace;
use crate::admit::LeaseHolderPrincipal;
use crate::requests::checked_report;

/// A batch answers 200, whatever the outcome of its items.
const OK: u16 = 200;

pub(super) async fn reports(
    State(app): State<AppState>,
    principal: LeaseHolderPrincipal,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<ReportAnswers>, ApiError> {
    let items: Vec<Result<Report, FieldError>> = parse_batch(&body)?;
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
    let mut replies = app.decided(app.coordinator.reports(asked)).await?.into_iter();
    let answers = named.into_iter().map(|(task_id, prepared)| {
        let answered =
            prepared.and_then(|()| acknowledge(replies.next().expect("every report has a reply")));
        answered.map_or_else(|no| refused(&task_id, no), |ack| committed(&task_id, ack))
    });
    Ok(Json(ReportAnswers { answers: answers.collect(), server_time: app.server_time() }))
}

/// The same checks as for a single call, in the same order.
async fn prepare(
    app: &AppState,
    principal: &LeaseHolderPrincipal,
    item: Report,
    token_grace: &mut TokenGrace,
) -> Result<(TaskKey, request::Report), ApiError> {
    let Report {
        task_id,
        task_token,
        attempt,
        worker_id,
        outcome,
        completed_at,
        output,
        error,
        metrics,
        cancelled_during_phase,
        partial_progress,
        traceparent,
    } = item;
    let token = verify(app, &task_token, token_grace).await?;
    let (key, caller) = caller(&token, &task_id, attempt, &worker_id)?;
    check_scope(principal, &key)?;
    let completed = Completed {
        attempt,
        worker_id,
        outcome,
        completed_at,
        output,
        error,
        metrics,
        cancelled_during_phase,
        partial_progress,
        traceparent,
    };
    Ok((key, checked_report(caller, completed)?))
}

/// A worker's key is limited to its scope, whatever token comes with it.
pub(super) fn check_scope(principal: &LeaseHolderPrincipal, key: &TaskKey) -> Result<(), ApiError> {
    if *principal.scope() == key.scope {
        return Ok(());
    }
    let message = "the task token belongs to another scope than the API key";
    Err(ApiError::new(wire::Code::InvalidToken, message))
}

fn committed(task_id: &str, ack: CompletedAck) -> ReportAnswer {
    let CompletedAck { acknowledged: _, verdict, final_state, state, replayed, server_time: _ } =
        ack;
    ReportAnswer {
        task_id: task_id.to_owned(),
        status: OK,
        verdict: Some(verdict),
        state: Some(state),
        final_state: Some(final_state),
        replayed: Some(replayed),
        ..ReportAnswer::default()
    }
}

fn refused(task_id: &str, error: ApiError) -> ReportAnswer {
    let verdict = error.worker_verdict();
    let ApiError { code, message, verdict: _, state, attempts, field, retry_after: _, by: _ } =
        error;
    let (expected_attempt, received_attempt) = split(attempts);
    ReportAnswer {
        task_id: task_id.to_owned(),
        status: code.status(),
        verdict,
        state,
        error: Some(code.as_str().to_owned()),
        message: Some(message),
        field,
        expected_attempt,
        received_attempt,
        ..ReportAnswer::default()
    }
}

pub(super) fn split(attempts: Option<Attempts>) -> (Option<u32>, Option<u32>) {
    attempts.map(|attempts| (attempts.expected, attempts.received)).unzip()
}
