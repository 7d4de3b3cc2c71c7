//! `POST /v1/tasks/{taskId}/completed`: the end of an attempt, as its worker reports it.

use axum::Json;
use axum::extract::{Path, State};
use verdict::{Answer, AttemptOutcome};
use wire::answers::CompletedAck;
use wire::requests::Completed;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{JsonBody, LARGE_BYTES_MAX};
use super::caller::caller;
use super::submit::unexpected;
use super::translate::{state, time};
use crate::admit::TaskPrincipal;
use crate::item::Reply;
use crate::requests::checked_report;

pub(super) async fn completed(
    State(app): State<AppState>,
    principal: TaskPrincipal,
    Path(task): Path<String>,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<CompletedAck>, ApiError> {
    let completed: Completed = wire::parse(&body)?;
    let (key, caller) = caller(&principal, &task, completed.attempt, &completed.worker_id)?;
    let asked = app.coordinator.report(key, checked_report(caller, completed)?);
    acknowledge(app.decided(asked).await?).map(Json)
}

pub(super) fn acknowledge(reply: Reply) -> Result<CompletedAck, ApiError> {
    let answered = reply?;
    match answered.answer {
        Answer::Committed { outcome, state: now, replayed } => Ok(CompletedAck {
            acknowledged: true,
            verdict: wire::Verdict::Committed,
            final_state: final_state(outcome),
            state: state(now),
            replayed,
            server_time: time(answered.at),
        }),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}

fn final_state(outcome: AttemptOutcome) -> wire::Outcome {
    match outcome {
        AttemptOutcome::Succeeded => wire::Outcome::Succeeded,
        AttemptOutcome::Failed => wire::Outcome::Failed,
        AttemptOutcome::Cancelled => wire::Outcome::Cancelled,
        AttemptOutcome::Released => wire::Outcome::Released,
        AttemptOutcome::Lost
        | AttemptOutcome::Undelivered
        | AttemptOutcome::Revoked
        | AttemptOutcome::Suspended
        | AttemptOutcome::Diverged => {
            unreachable!("only a report commits, and a report has none of these outcomes")
        }
    }
}
