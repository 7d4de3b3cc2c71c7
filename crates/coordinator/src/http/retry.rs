//! `POST /v1/runs/{runId}/retry`.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use store::{StoredTask, TaskKey};
use verdict::plan::PlanState;
use verdict::redrive::{NotRetryable, Repeat};
use verdict::{Subject, Text};
use wire::requests::RetryRun;
use wire::{Code, TraceContext};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{API_BYTES_MAX, JsonBody};
use super::caller::RunPath;
use super::queue_limit::check_queue;
use super::submit::{answer_one, key_header, trace_header};
use super::translate::state;
use crate::admit::ClientPrincipal;
use crate::retries::{self, RetryCall, RetryRefused};

pub(super) async fn retry(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    RunPath(run): RunPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let asked: RetryRun = wire::parse(&body)?;
    let call = call(&headers, asked)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let reading = retries::find(app.coordinator.browse(), &key);
    let source = app.read(reading).await?.ok_or_else(ApiError::run_not_found)?;
    refuse_step(&source.found)?;
    let retry = retries::retry(source, call, app.coordinator.now());
    let retry = retry.ok_or_else(ApiError::run_not_found)??;
    // The steps of a plan may be in other queues than the run that the key may see.
    retry.queues().try_for_each(|queue| check_queue(&principal, "submit to", queue.as_str()))?;
    answer_one(&app, retry).await
}

fn call(headers: &HeaderMap, asked: RetryRun) -> Result<RetryCall, ApiError> {
    let trace = trace_header(headers).and_then(|text| TraceContext::parse(&text));
    let RetryRun { from_scratch } = asked;
    Ok(RetryCall {
        repeat: if from_scratch { Repeat::FromScratch } else { Repeat::Unrecorded },
        key: key_header(headers)?.map(Text::from),
        traceparent: trace.map(|trace| Text::from(trace.to_string())),
    })
}

/// A step has what it refers to only in its own run.
fn refuse_step(found: &StoredTask) -> Result<(), ApiError> {
    let run = match &found.subject {
        Subject::Done(done) => done.run.as_ref(),
        Subject::Live(_) | Subject::Absent => None,
    };
    match run.and_then(|run| run.plan.as_deref()) {
        Some(PlanState::Step(_)) => {
            let message = "the task is a step of a plan and is not repeated alone; retry its run";
            let state = found.subject.state().map(state);
            Err(ApiError { state, ..ApiError::new(Code::RunNotRetryable, message) })
        }
        _ => Ok(()),
    }
}

impl From<RetryRefused> for ApiError {
    fn from(refused: RetryRefused) -> Self {
        let message = match refused.why {
            NotRetryable::NotEnded => {
                "the run has not ended; wait for its end or cancel it, then retry it"
            }
            NotRetryable::Succeeded => {
                "the run succeeded, so a retry would do its work twice; submit a new run instead"
            }
            NotRetryable::Halted => {
                "the run stopped at a limit of its budget and is never retried; continue it with a larger budget (`tenure runs continue`)"
            }
            NotRetryable::HaltedPlan => {
                "the run stopped at a limit of its budget and is never retried, and a run with a plan is not continued; submit the plan as a new run with a larger budget"
            }
            NotRetryable::Recorded => {
                "the run has recorded steps or started children, and a retry would do them again; continue it from there (`tenure runs continue`), or say that everything is to be done again (`tenure runs retry --from-scratch`, `fromScratch` in the body)"
            }
            NotRetryable::DoneSteps => {
                "steps of the run's plan have succeeded, a retry would do them again, and a plan is not continued; say that everything is to be done again (`tenure runs retry --from-scratch`, `fromScratch` in the body), or submit what is left as a new run"
            }
            NotRetryable::Reserved => {
                "the run is the server's own work, a work order or an evaluation of recovery, which it starts again where that is needed"
            }
            NotRetryable::NoTime => {
                "the deadline of the run was not after its start, so a retry would fail at once; submit a new run with \
                 a later deadline"
            }
        };
        let state = Some(state(refused.state));
        Self { state, ..Self::new(refused.code(), message) }
    }
}
