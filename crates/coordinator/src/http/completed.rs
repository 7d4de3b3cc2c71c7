//! `POST /v1/tasks/{taskId}/completed`: the end of an attempt, as its worker reports it.

use axum::Json;
use axum::extract::{Path, State};
use store::TaskKey;
use verdict::plan::PlanAnswer;
use verdict::request::Caller;
use verdict::run::RunAnswer;
use verdict::{Answer, AttemptOutcome, Request};
use wire::answers::CompletedAck;
use wire::requests::Completed;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{CHECKPOINT_BYTES_MAX, JsonBody};
use super::caller::caller;
use super::endpoints::check_endpoints;
use super::next_stage;
use super::queue_limit::check_children;
use super::submit::unexpected;
use super::translate::{state, time};
use crate::admit::{TaskPrincipal, TokenScope};
use crate::item::{Item, Reply};
use crate::requests::{checked_last_call, checked_report, metered, sent_log};

pub(super) async fn completed(
    State(app): State<AppState>,
    principal: TaskPrincipal,
    Path(task): Path<String>,
    JsonBody(body): JsonBody<CHECKPOINT_BYTES_MAX>,
) -> Result<Json<CompletedAck>, ApiError> {
    let completed: Completed = wire::parse(&body)?;
    let (key, caller) = caller(&principal, &task, completed.attempt, &completed.worker_id)?;
    let asked = request(&app, principal.token(), key.clone(), caller, completed)?;
    check_children(&app, principal.token(), &asked)?;
    check_endpoints(&app, &asked).await?;
    let asked = asked.asked_by(principal.token().key.as_ref());
    let replies = app.decided(app.coordinator.ask(vec![asked])).await?;
    let reply = replies.into_iter().next().expect("one request has one reply");
    acknowledge(&app, principal.token(), &key, reply).await.map(Json)
}

/// A plain report, or the last call of a durable run: a report with which steps or children ride along. Either may ask for
/// the next stage.
pub(super) fn request(
    app: &AppState,
    token: &TokenScope,
    key: TaskKey,
    caller: Caller,
    completed: Completed,
) -> Result<Item, ApiError> {
    let wants_next = completed.next;
    let item = item(app, key, caller, completed)?;
    let asking = |request| next_stage::asking(app, token, request);
    Ok(if wants_next { item.map_request(asking) } else { item })
}

/// The report itself.
fn item(
    app: &AppState,
    key: TaskKey,
    caller: Caller,
    mut completed: Completed,
) -> Result<Item, ApiError> {
    let spend = completed.spend;
    let log = sent_log(std::mem::take(&mut completed.log));
    if completed.steps.is_empty() && completed.children.is_empty() {
        let report = checked_report(caller, completed)?;
        return Ok(Item::asking(key, metered(spend, Request::Report(report))).with_log(log));
    }
    let defaults = &app.inner.submit_defaults;
    let call = checked_last_call(caller, &key.scope, completed, defaults)?;
    let item = call.into_item(key).with_log(log);
    app.check_rate_of_children(&item)?;
    Ok(item.map_request(|request| metered(spend, request)))
}

/// The report of a pushed attempt: its answer goes to nobody, so it asks for no next stage. The error says what is wrong with
/// it.
pub(crate) async fn report_item(
    app: &AppState,
    key: TaskKey,
    caller: Caller,
    completed: Completed,
) -> Result<Item, String> {
    let item = item(app, key, caller, completed).map_err(|error| error.message)?;
    check_endpoints(app, &item).await.map_err(|error| error.message)?;
    Ok(item)
}

pub(super) async fn acknowledge(
    app: &AppState,
    token: &TokenScope,
    key: &TaskKey,
    reply: Reply,
) -> Result<CompletedAck, ApiError> {
    let answered = reply?;
    let (outcome, now, replayed, lease) = match answered.answer {
        Answer::Committed { outcome, state, replayed } => (outcome, state, replayed, None),
        Answer::Run(answer) => match *answer {
            RunAnswer::Plan(PlanAnswer::Advanced { outcome, state, replayed, lease }) => {
                (outcome, state, replayed, lease)
            }
            other => return Err(unexpected(&Answer::Run(Box::new(other)))),
        },
        Answer::Refused(refusal) => return Err(refusal.into()),
        other => return Err(unexpected(&other)),
    };
    let (next, now) = match lease {
        Some(lease) => next_stage::envelope(app, token, key, lease, answered.next).await,
        None => (None, now),
    };
    Ok(CompletedAck {
        acknowledged: true,
        verdict: wire::Verdict::Committed,
        final_state: final_state(outcome),
        state: state(now),
        replayed,
        next: next.map(Box::new),
        server_time: time(answered.at),
    })
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
