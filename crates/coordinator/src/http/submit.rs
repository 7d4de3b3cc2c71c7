//! `POST /v1/runs`: one run, or many, each of which succeeds or fails alone.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use store::TaskKey;
use verdict::Answer;
use wire::answers::{Run, RunAccepted, SubmitResult, SubmitResults};
use wire::requests::{SubmitRun, WaitMs};
use wire::{Code, FieldError, Submit, TraceContext, parse_submit};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::audit::note_item;
use super::body::{JsonBody, LARGE_BYTES_MAX};
use super::caller::run_id;
use super::ends::ended_run;
use super::queue_limit::check_queue;
use super::sight::Sight;
use super::translate::{query, state, time};
use crate::admit::ClientPrincipal;
use crate::admit::principals::Principal as _;
use crate::item::{Reply, Submission};
use crate::requests::checked_submission;
use crate::submit_defaults::SubmitDefaults;

const KEY_HEADER: &str = "idempotency-key";
const TRACE_HEADER: &str = "traceparent";

pub(super) async fn submit(
    State(app): State<AppState>,
    principal: ClientPrincipal,
    headers: HeaderMap,
    uri: Uri,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Response, ApiError> {
    let WaitMs { wait_ms } = query(&uri)?;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    let key = key_header(&headers)?;
    let context = CallContext {
        principal: &principal,
        trace: trace_header(&headers),
        defaults: &app.inner.submit_defaults,
    };
    match (parse_submit(&body)?, key) {
        (Submit::One(run), key) => submit_one(&app, &context, *run, key, wait).await,
        (Submit::Many(_), _) if !wait.is_zero() => Err(ApiError::field(
            "waitMs",
            "belongs to a single run; wait for the runs of a batch with `POST /v1/waits`",
        )),
        (Submit::Many(runs), None) => submit_many(&app, &context, runs).await,
        (Submit::Many(_), Some(_)) => Err(ApiError::field(
            "Idempotency-Key",
            "belongs to a single run; in a batch give each item its own idempotencyKey",
        )),
    }
}

/// The idempotency key of a single run, if it has one.
pub(super) fn key_header(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(KEY_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::field("Idempotency-Key", "appears twice"));
    }
    let text = std::str::from_utf8(value.as_bytes()).unwrap_or_default();
    wire::idempotency_key("Idempotency-Key", Some(text))?;
    Ok(Some(text.to_owned()))
}

/// The trace of the call, if it has a readable one. It is not part of the request's meaning, so an
/// unreadable one refuses nothing.
pub(super) fn trace_header(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(TRACE_HEADER).iter();
    let (first, second) = (values.next()?, values.next());
    second.is_none().then(|| first.to_str().ok().map(str::to_owned)).flatten()
}

/// What all runs of one call share.
struct CallContext<'a> {
    principal: &'a ClientPrincipal,
    trace: Option<String>,
    defaults: &'a SubmitDefaults,
}

impl CallContext<'_> {
    /// A key that is limited to queues does not learn which run of another queue holds an idempotency key.
    fn without_foreign_run(&self, error: ApiError) -> ApiError {
        match (error.code, self.principal.queues()) {
            (Code::IdempotencyKeyReused, Some(_)) => {
                let message =
                    "the idempotency key belongs to a run that was submitted with a different body";
                ApiError { message: message.to_owned(), ..error }
            }
            _ => error,
        }
    }

    /// What the key may submit. A run without a readable trace belongs to the trace of the call.
    fn submission(&self, mut run: SubmitRun, key: Option<String>) -> Result<Submission, ApiError> {
        match &run.plan {
            Some(plan) => plan
                .steps
                .iter()
                .try_for_each(|it| check_queue(self.principal, "submit to", plan.queue_of(it)))?,
            None => check_queue(self.principal, "submit to", &run.queue)?,
        }
        let own = run.traceparent.filter(|text| TraceContext::parse(text).is_some());
        run.traceparent = own.or_else(|| self.trace.clone());
        let mut submission = checked_submission(self.principal.scope(), run, key, self.defaults);
        if let Some(call) = &mut submission.debounce {
            call.queues = self.principal.queues().map(Into::into);
        }
        Ok(submission)
    }
}

async fn submit_one(
    app: &AppState,
    context: &CallContext<'_>,
    run: SubmitRun,
    key: Option<String>,
    wait: Duration,
) -> Result<Response, ApiError> {
    let decided = decide_one(app, context.submission(run, key)?).await;
    let accepted = decided.map_err(|error| context.without_foreign_run(error))?;
    let run = end_of(app, context.principal, &accepted, wait).await;
    Ok(answer_accepted(RunAccepted { run, ..accepted }))
}

/// The accepted run if it ends in time. The run was accepted, whatever becomes of the wait: a failure to see the end is
/// told as no end.
async fn end_of(
    app: &AppState,
    principal: &ClientPrincipal,
    accepted: &RunAccepted,
    wait: Duration,
) -> Option<Box<Run>> {
    if wait.is_zero() {
        return None;
    }
    let key = TaskKey { scope: principal.scope().clone(), id: run_id(&accepted.run_id)? };
    let run = ended_run(app, &key, Sight::of(principal), wait).await.ok().flatten();
    run.filter(|_| app.check_still_valid(principal.key()).is_ok()).map(Box::new)
}

/// Submits one run: 201, or 200 if it was submitted before under its key.
pub(super) async fn answer_one(
    app: &AppState,
    submission: Submission,
) -> Result<Response, ApiError> {
    decide_one(app, submission).await.map(answer_accepted)
}

async fn decide_one(app: &AppState, submission: Submission) -> Result<RunAccepted, ApiError> {
    let submissions = vec![submission];
    app.charge_submissions(&submissions);
    let deciding = app.coordinator.submit(submissions);
    accepted(app.decided(deciding).await?.pop().expect("one submission has one reply"))
}

fn answer_accepted(accepted: RunAccepted) -> Response {
    let status = match accepted.replayed {
        Some(true) => StatusCode::OK,
        Some(false) | None => StatusCode::CREATED,
    };
    (status, Json(accepted)).into_response()
}

async fn submit_many(
    app: &AppState,
    context: &CallContext<'_>,
    runs: Vec<Result<SubmitRun, FieldError>>,
) -> Result<Response, ApiError> {
    let mut submissions = Vec::new();
    let mut faults = Vec::new();
    for run in runs {
        let checked = run.map_err(ApiError::from).and_then(|mut run| {
            let key = run.idempotency_key.take();
            context.submission(run, key)
        });
        faults.push(checked.map(|submission| submissions.push(submission)).err());
    }
    app.charge_submissions(&submissions);
    let mut replies = app.decided(app.coordinator.submit(submissions)).await?.into_iter();
    let results = faults.into_iter().map(|fault| match fault {
        Some(fault) => Err(fault),
        None => accepted(replies.next().expect("every submission has a reply")),
    });
    let results = results.map(|result| result.map_err(|error| context.without_foreign_run(error)));
    let results = results.map(|result| result.map_or_else(refused, SubmitResult::from)).collect();
    Ok(Json(SubmitResults { results }).into_response())
}

fn refused(error: ApiError) -> SubmitResult {
    note_item(&error);
    let ApiError { code, message, verdict: _, state, attempts: _, field, retry_after: _, by: _ } =
        error;
    let (error, message) = (Some(code.as_str().to_owned()), Some(message));
    SubmitResult { error, message, field, state, ..SubmitResult::default() }
}

fn accepted(reply: Reply) -> Result<RunAccepted, ApiError> {
    match reply?.answer {
        Answer::Accepted { task, state: now, created_at, replayed } => Ok(RunAccepted {
            run_id: task.run_name(),
            task_id: task.to_string(),
            state: state(now),
            created_at: time(created_at),
            replayed: replayed.then_some(true),
            run: None,
        }),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}

/// The rules have one kind of answer for each request; any other is a bug.
pub(super) fn unexpected(answer: &Answer) -> ApiError {
    tracing::error!(?answer, "an answer does not belong to its request");
    ApiError::new(Code::Internal, "internal error of the coordinator; report it with the requestId")
}
