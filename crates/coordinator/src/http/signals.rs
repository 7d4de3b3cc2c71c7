//! `POST /v1/runs/{runId}/signals`, `POST /v1/runs/{runId}/resume` and `POST /v1/runs/{runId}/unpin`: what people and programs
//! tell a durable run.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use store::TaskKey;
use verdict::run::RunAnswer;
use verdict::{Answer, Refusal};
use wire::answers::{RunResumed, RunUnpinned, SignalAccepted};
use wire::requests::{ResumeRun, SendSignal, UnpinRun};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{API_BYTES_MAX, JsonBody, LARGE_BYTES_MAX};
use super::caller::RunPath;
use super::submit::{key_header, unexpected};
use super::translate::state;
use crate::admit::ClientPrincipal;
use crate::requests::checked_signal;

pub(super) async fn send(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    RunPath(run): RunPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let signal: SendSignal = wire::parse(&body)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let asked = app.coordinator.signal(key, checked_signal(signal, key_header(&headers)?));
    match run_answer(app.decided(asked).await??.answer)? {
        RunAnswer::Signalled { state: now, replayed } => {
            let accepted = SignalAccepted {
                run_id: run.run_name(),
                state: state(now),
                replayed: replayed.then_some(true),
            };
            Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
        }
        other => Err(unexpected(&Answer::Run(Box::new(other)))),
    }
}

pub(super) async fn resume(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    RunPath(run): RunPath,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let ResumeRun {} = wire::parse(&body)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    match run_answer(app.decided(app.coordinator.resume(key)).await??.answer)? {
        RunAnswer::Resumed { state: now } => {
            let resumed = RunResumed { run_id: run.run_name(), state: state(now) };
            Ok((StatusCode::ACCEPTED, Json(resumed)).into_response())
        }
        other => Err(unexpected(&Answer::Run(Box::new(other)))),
    }
}

pub(super) async fn unpin(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    RunPath(run): RunPath,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let UnpinRun {} = wire::parse(&body)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    match run_answer(app.decided(app.coordinator.unpin(key)).await??.answer)? {
        RunAnswer::Unpinned { state: now } => {
            let unpinned = RunUnpinned { run_id: run.run_name(), state: state(now) };
            Ok((StatusCode::ACCEPTED, Json(unpinned)).into_response())
        }
        other => Err(unexpected(&Answer::Run(Box::new(other)))),
    }
}

fn run_answer(answer: Answer) -> Result<RunAnswer, ApiError> {
    match answer {
        Answer::Run(answer) => Ok(*answer),
        Answer::Refused(Refusal::TaskNotFound) => Err(ApiError::run_not_found()),
        Answer::Refused(Refusal::KeyReused { .. }) => {
            let message = "another signal to this run was sent under the same idempotency key";
            Err(ApiError::new(wire::Code::IdempotencyKeyReused, message))
        }
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}
