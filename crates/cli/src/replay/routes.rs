//! The part of the HTTP interface that a worker uses, answered from recorded runs.
//!
//! Shapes are those of the wire, so a worker cannot tell it from a server. What no worker loop needs is refused with a text
//! that says where the call went. Nothing is decided here: [`super::stage`] knows the runs.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use wire::answers::{
    CheckpointAck, CheckpointAnswer, CheckpointAnswers, CompletedAck, HeartbeatAck,
    HeartbeatAnswer, HeartbeatAnswers, Leases, Problem, ReportAnswer, ReportAnswers, StartAnswer,
    StartAnswers, StartedAck, Version,
};
use wire::limits::WAIT_MS;
use wire::requests::{
    CheckpointCall, CheckpointCalls, Completed, Heartbeats, LeaseRequest, RecordsQuery, Report,
    Reports, Starts,
};
use wire::{Code, Outcome, State, Verdict};

use super::stage::{Refused, Stage, lease_expires_at};
use crate::duration;

/// As large as the largest call that a server takes.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Clone)]
pub(super) struct App {
    pub(super) stage: Arc<Stage>,
    pub(super) url: Arc<str>,
}

/// An error answer. Boxed, because nearly every call has another one.
type Answer = Result<Response, Box<Problem>>;

pub(super) fn routes(app: App) -> Router {
    Router::new()
        .route("/version", get(version))
        .route("/v1/leases", post(lease))
        .route("/v1/starts", post(starts))
        .route("/v1/heartbeats", post(heartbeats))
        .route("/v1/checkpoints", post(checkpoint_batch))
        .route("/v1/reports", post(reports))
        .route("/v1/tasks/{task}/started", post(started))
        .route("/v1/tasks/{task}/heartbeat", post(heartbeat))
        .route("/v1/tasks/{task}/checkpoints", post(checkpoint).get(checkpoints_after))
        .route("/v1/tasks/{task}/completed", post(completed))
        .fallback(elsewhere)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(app)
}

async fn version() -> Response {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    json(&Version { version, api: "v1".to_owned() })
}

async fn elsewhere() -> Response {
    let message =
        "a replay answers the calls of a worker about the task that it leased, and no others";
    answer(Err(problem(Code::NotFound, message)))
}

async fn lease(Shared(app): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    answer(poll(&app, &headers, &body).await)
}

/// Waits for a run, as long as the poll says.
async fn poll(app: &App, headers: &HeaderMap, body: &Bytes) -> Answer {
    check_key(app, headers)?;
    let request: LeaseRequest = read(body)?;
    let wait = Duration::from_millis(request.wait_ms.unwrap_or(0).min(*WAIT_MS.end()));
    let mut progress = app.stage.progress();
    let next = async {
        loop {
            progress.mark_unchanged();
            let leases = app.stage.grant(&request, &app.url);
            if !leases.is_empty() || progress.changed().await.is_err() {
                return leases;
            }
        }
    };
    let leases = match wait.is_zero() {
        true => app.stage.grant(&request, &app.url),
        false => timeout(wait, next).await.unwrap_or_default(),
    };
    Ok(json(&Leases {
        leases,
        signals: Vec::new(),
        announce_again: None,
        server_time: duration::now(),
    }))
}

async fn started(Shared(app): Shared<App>, headers: HeaderMap) -> Response {
    answer(leased(&app, bearer(&headers)).map(|()| {
        let (verdict, server_time) = (Verdict::Committed, duration::now());
        json(&StartedAck { acknowledged: true, verdict, server_time })
    }))
}

async fn starts(Shared(app): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    answer(start_all(&app, &headers, &body))
}

fn start_all(app: &App, headers: &HeaderMap, body: &Bytes) -> Answer {
    check_key(app, headers)?;
    let batch: Starts = read(body)?;
    let answers =
        batch.starts.into_iter().map(|item| match app.stage.is_leased(&item.task_token) {
            Ok(()) => StartAnswer {
                task_id: item.task_id,
                status: 200,
                verdict: Some(Verdict::Committed),
                state: Some(State::Running),
                ..StartAnswer::default()
            },
            Err(refused) => StartAnswer {
                task_id: item.task_id,
                status: refused.code().status(),
                verdict: refused.code().verdict(),
                error: Some(refused.code().as_str().to_owned()),
                ..StartAnswer::default()
            },
        });
    Ok(json(&StartAnswers { answers: answers.collect(), server_time: duration::now() }))
}

async fn heartbeat(Shared(app): Shared<App>, headers: HeaderMap) -> Response {
    answer(leased(&app, bearer(&headers)).map(|()| {
        json(&HeartbeatAck {
            left: None,
            acknowledged: true,
            verdict: Verdict::Committed,
            should_cancel: false,
            cancel_reason: None,
            lease_expires_at: lease_expires_at(),
            task_token: None,
            token_expires_at: None,
            server_time: duration::now(),
        })
    }))
}

async fn heartbeats(Shared(app): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    answer(heartbeat_all(&app, &headers, &body))
}

fn heartbeat_all(app: &App, headers: &HeaderMap, body: &Bytes) -> Answer {
    check_key(app, headers)?;
    let batch: Heartbeats = read(body)?;
    let answers = batch.heartbeats.into_iter().map(|item| {
        let is_leased = app.stage.is_leased(&item.task_token);
        let code = is_leased.err().map(Refused::code);
        HeartbeatAnswer {
            task_id: item.task_id,
            status: code.map_or(200, Code::status),
            verdict: code.map_or(Some(Verdict::Committed), Code::verdict),
            should_cancel: Some(false),
            lease_expires_at: code.is_none().then(lease_expires_at),
            error: code.map(|code| code.as_str().to_owned()),
            ..HeartbeatAnswer::default()
        }
    });
    Ok(json(&HeartbeatAnswers { answers: answers.collect(), server_time: duration::now() }))
}

async fn checkpoint(
    Shared(app): Shared<App>,
    Path(task): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(read::<CheckpointCall>(&body).and_then(|call| {
        let answer = app.stage.checkpoint(task, bearer(&headers), &call);
        acknowledged(answer).map(|ack| json(&ack))
    }))
}

/// The answer to a single call.
fn acknowledged(answer: CheckpointAnswer) -> Result<CheckpointAck, Box<Problem>> {
    if let Some(error) = answer.error {
        let code = error.parse().unwrap_or(Code::Internal);
        return Err(problem(code, &answer.message.unwrap_or_default()));
    }
    let server_time = duration::now();
    Ok(CheckpointAck {
        left: None,
        acknowledged: true,
        verdict: Verdict::Committed,
        state: answer.state.unwrap_or(State::Running),
        replayed: answer.replayed == Some(true),
        recorded_at: answer.recorded_at.unwrap_or(server_time),
        results: answer.results,
        results_left_out: false,
        children: answer.children,
        should_cancel: false,
        cancel_reason: None,
        lease_expires_at: answer.lease_expires_at,
        task_token: None,
        token_expires_at: None,
        server_time,
    })
}

async fn checkpoint_batch(Shared(app): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    answer(checkpoint_all(&app, &headers, &body))
}

fn checkpoint_all(app: &App, headers: &HeaderMap, body: &Bytes) -> Answer {
    check_key(app, headers)?;
    let batch: CheckpointCalls = read(body)?;
    let answers = batch.checkpoints.into_iter().map(|item| {
        let (task_id, token, call) = item.into_call();
        app.stage.checkpoint(task_id, &token, &call)
    });
    Ok(json(&CheckpointAnswers { answers: answers.collect(), server_time: duration::now() }))
}

async fn checkpoints_after(
    Shared(app): Shared<App>,
    Query(query): Query<RecordsQuery>,
    headers: HeaderMap,
) -> Response {
    let page = app.stage.page(bearer(&headers), query.after.unwrap_or(0));
    answer(page.map(|page| json(&page)).map_err(refusal))
}

async fn completed(Shared(app): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    answer(read::<Completed>(&body).and_then(|report| {
        app.stage.completed(bearer(&headers), &report).map_err(refusal)?;
        Ok(json(&CompletedAck {
            acknowledged: true,
            verdict: Verdict::Committed,
            final_state: report.outcome,
            state: state_after(report.outcome),
            replayed: false,
            next: None,
            server_time: duration::now(),
        }))
    }))
}

async fn reports(Shared(app): Shared<App>, headers: HeaderMap, body: Bytes) -> Response {
    answer(report_all(&app, &headers, &body))
}

fn report_all(app: &App, headers: &HeaderMap, body: &Bytes) -> Answer {
    check_key(app, headers)?;
    let batch: Reports = read(body)?;
    let answers = batch.reports.into_iter().map(|report| {
        let (task_id, token, report) = single(report);
        let code = app.stage.completed(&token, &report).err().map(Refused::code);
        ReportAnswer {
            task_id,
            status: code.map_or(200, Code::status),
            verdict: code.map_or(Some(Verdict::Committed), Code::verdict),
            state: Some(state_after(report.outcome)),
            final_state: Some(report.outcome),
            replayed: Some(false),
            error: code.map(|code| code.as_str().to_owned()),
            ..ReportAnswer::default()
        }
    });
    Ok(json(&ReportAnswers { answers: answers.collect(), server_time: duration::now() }))
}

/// Task, token, and the report as a single call has it.
fn single(report: Report) -> (String, String, Completed) {
    let completed = Completed {
        spend: None,
        attempt: report.attempt,
        worker_id: report.worker_id,
        outcome: report.outcome,
        completed_at: report.completed_at,
        output: report.output,
        error: report.error,
        metrics: report.metrics,
        cancelled_during_phase: report.cancelled_during_phase,
        partial_progress: report.partial_progress,
        traceparent: report.traceparent,
        steps: report.steps,
        children: report.children,
        effects: report.effects,
        next: false,
        log: Vec::new(),
    };
    (report.task_id, report.task_token, completed)
}

fn state_after(outcome: Outcome) -> State {
    match outcome {
        Outcome::Succeeded => State::Succeeded,
        Outcome::Failed => State::Failed,
        Outcome::Cancelled => State::Cancelled,
        Outcome::Released => State::Queued,
    }
}

fn leased(app: &App, token: &str) -> Result<(), Box<Problem>> {
    app.stage.is_leased(token).map_err(refusal)
}

fn refusal(refused: Refused) -> Box<Problem> {
    problem(refused.code(), refused.code().title())
}

/// Other programs of this machine can reach the port; only the worker was given the key.
fn check_key(app: &App, headers: &HeaderMap) -> Result<(), Box<Problem>> {
    if bearer(headers) == app.stage.api_key {
        return Ok(());
    }
    Err(problem(Code::Unauthenticated, "use the key in TENURE_API_KEY"))
}

fn bearer(headers: &HeaderMap) -> &str {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Box<Problem>> {
    serde_json::from_slice(body)
        .map_err(|error| problem(Code::InvalidArgument, &format!("the body is not valid: {error}")))
}

fn problem(code: Code, message: &str) -> Box<Problem> {
    Box::new(Problem::new(code, message, duration::now()).for_worker())
}

fn answer(answer: Answer) -> Response {
    answer.unwrap_or_else(|problem| {
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
        let body = serde_json::to_string(&*problem).expect("problems have string keys");
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    })
}

fn json<T: Serialize>(value: &T) -> Response {
    let body = serde_json::to_string(value).expect("answers have string keys");
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
