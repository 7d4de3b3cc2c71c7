//! `POST` and `GET /v1/tasks/{taskId}/checkpoints`: records of a durable run, under its lease.
//!
//! The answer to a call whose wait is over carries what was awaited. It is read after the commit, from what was recorded,
//! so a repeated call gets the same.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use store::effects::unique_key;
use store::{Browse, ObjectFilter, RecordsOf, TaskKey};
use verdict::decide::caller::reads_records_from;
use verdict::effect::{Declared, EffectId};
use verdict::request::Caller;
use verdict::run::{AwaitedEvent, Checkpointed, RunAnswer, Then};
use verdict::{Answer, Name, ObjectType, Subject};
use wire::Code;
use wire::answers::{CheckpointAck, Checkpoints, StartedChild};
use wire::limits::{PAGE_ITEMS_DEFAULT, RECORDED_BYTES_MAX};
use wire::requests::RecordsQuery;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{CHECKPOINT_BYTES_MAX, JsonBody};
use super::budget_view::left_of;
use super::caller::{caller, task_id};
use super::endpoints::check_endpoints;
use super::queue_limit::check_children;
use super::records::{Page, read_page, within_bytes};
use super::submit::unexpected;
use super::translate::{query, state, time};
use crate::admit::TaskPrincipal;
use crate::item::{Item, Reply, Watched};
use crate::requests::{checked_checkpoint, sent_log};

/// How many awaited children an answer may carry the ends of. A wait for more is read in pages: an answer has room for
/// 64 KiB.
const AWAITED_KEYS_MAX: usize = 1_000;

/// What an answer needs of its call: the keys of the wait, and of the children that it awaits.
pub(super) struct AwaitedKeys {
    wait: Option<Name>,
    children: Vec<Name>,
}

pub(super) async fn checkpoint(
    State(app): State<AppState>,
    principal: TaskPrincipal,
    Path(task): Path<String>,
    JsonBody(body): JsonBody<CHECKPOINT_BYTES_MAX>,
) -> Result<Json<CheckpointAck>, ApiError> {
    let call: wire::requests::CheckpointCall = wire::parse(&body)?;
    let (key, caller) = caller(&principal, &task, call.attempt, &call.worker_id)?;
    let (item, awaited) = request(&app, key.clone(), caller, call)?;
    check_children(&app, principal.token(), &item)?;
    check_endpoints(&app, &item).await?;
    check_watched(&app, &item).await?;
    let item = item.asked_by(principal.token().key.as_ref());
    let mut replies = app.decided(app.coordinator.ask(vec![item])).await?;
    let reply = replies.pop().expect("one request has one reply");
    acknowledge(&app, &principal, &key, &awaited, reply).await.map(Json)
}

pub(super) fn request(
    app: &AppState,
    key: TaskKey,
    caller: Caller,
    mut call: wire::requests::CheckpointCall,
) -> Result<(Item, AwaitedKeys), ApiError> {
    let log = sent_log(std::mem::take(&mut call.log));
    let request = checked_checkpoint(caller, &key.scope, call, &app.inner.submit_defaults)?;
    let item = request.into_item(key).with_log(log);
    app.check_rate_of_children(&item)?;
    let awaited = awaited_keys(&item);
    Ok((item, awaited))
}

/// A wait names effects that the task has declared, in this call or before.
pub(super) async fn check_watched(app: &AppState, item: &Item) -> Result<(), ApiError> {
    let Item::WithChildren { key, effects, watched, .. } = item else { return Ok(()) };
    let of = |declared: &Declared| EffectId::of_step(key.id, &declared.step, &declared.key);
    let before = watched.iter().filter(|it| !effects.iter().any(|other| of(other) == it.effect));
    for Watched { effect, item } in before {
        let filter = ObjectFilter {
            scope: Some(key.scope.clone()),
            object_type: Some(ObjectType::Effect),
            unique_key: Some(unique_key(*effect)),
            limit: 1,
            ..ObjectFilter::default()
        };
        if app.read(app.coordinator.browse().objects(&filter)).await?.is_empty() {
            let message =
                format!("waits in `{item}` for an effect that this task has not declared");
            return Err(ApiError::field("wait.for", &message));
        }
    }
    Ok(())
}

fn awaited_keys(item: &Item) -> AwaitedKeys {
    let call = item.about().and_then(|(_, request)| request.checkpoint_call());
    let Some(Then::Wait(wait)) = call.map(|call| &call.then) else {
        return AwaitedKeys { wait: None, children: Vec::new() };
    };
    let child = |item: &verdict::run::Awaited| match &item.event {
        AwaitedEvent::Child(key) => Some(key.clone()),
        AwaitedEvent::Time(_) | AwaitedEvent::Signal(_) => None,
    };
    AwaitedKeys {
        wait: Some(wait.key.clone()),
        children: wait.items.iter().filter_map(child).collect(),
    }
}

pub(super) async fn acknowledge(
    app: &AppState,
    principal: &TaskPrincipal,
    key: &TaskKey,
    awaited: &AwaitedKeys,
    reply: Reply,
) -> Result<CheckpointAck, ApiError> {
    let answered = reply?;
    let (at, recorded_at) = (answered.at, answered.recorded_at);
    let left = answered.balance.as_deref().and_then(left_of);
    let done = match answered.answer {
        Answer::Run(answer) => match *answer {
            RunAnswer::Checkpointed(done) => done,
            other => return Err(unexpected(&Answer::Run(Box::new(other)))),
        },
        Answer::Refused(refusal) => return Err(refusal.into()),
        other => return Err(unexpected(&other)),
    };
    let (results, results_left_out) = results(app, key, awaited, &done).await?;
    let Checkpointed { state: now, replayed, children, expires_at, cancel, .. } = done;
    let fresh = expires_at.and_then(|_| principal.refresh(&app.inner.keyring, at));
    let reason = cancel.as_ref().and_then(|cancel| cancel.reason.as_ref());
    let started = |(key, id): (Name, verdict::TaskId)| StartedChild {
        key: key.to_string(),
        task_id: id.to_string(),
    };
    Ok(CheckpointAck {
        acknowledged: true,
        verdict: wire::Verdict::Committed,
        state: state(now),
        replayed,
        recorded_at: time(recorded_at.unwrap_or(at)),
        results,
        results_left_out,
        children: children.into_iter().map(started).collect(),
        should_cancel: cancel.is_some(),
        cancel_reason: reason.map(|reason| reason.as_str().to_owned()),
        lease_expires_at: expires_at.map(time),
        token_expires_at: fresh.as_ref().map(|fresh| time(fresh.expires_at)),
        task_token: fresh.map(|fresh| fresh.token),
        left,
        server_time: time(at),
    })
}

/// What was awaited, if the wait is over: the wait's own checkpoint and the ends of the children that it was for.
async fn results(
    app: &AppState,
    key: &TaskKey,
    awaited: &AwaitedKeys,
    done: &Checkpointed,
) -> Result<(Vec<wire::answers::Checkpoint>, bool), ApiError> {
    let (Some(wait), Some(record)) = (&awaited.wait, &done.wait) else {
        return Ok((vec![], false));
    };
    let is_wanted = |child: &&Name| record.winner.as_ref().is_none_or(|winner| winner == *child);
    let children = awaited.children.iter().filter(is_wanted);
    let keys: Vec<Name> = std::iter::once(wait).chain(children).cloned().collect();
    if keys.len() > AWAITED_KEYS_MAX {
        return Ok((Vec::new(), true));
    }
    // A child that has ended has two records.
    let limit = 2 * keys.len();
    let reading = app.coordinator.browse().records(key, RecordsOf::Keys(&keys), limit);
    let records = app.read(reading).await?;
    let (mut results, left_out) = within_bytes(records, RECORDED_BYTES_MAX);
    results.retain(|found| found.outcome != wire::CheckpointOutcome::Started);
    Ok((results, left_out))
}

pub(super) async fn list(
    State(app): State<AppState>,
    principal: TaskPrincipal,
    Path(task): Path<String>,
    uri: Uri,
) -> Result<Json<Checkpoints>, ApiError> {
    let RecordsQuery { after, limit } = query(&uri)?;
    let token = principal.token();
    if task_id(&task) != Some(token.task) {
        let message = "the task token belongs to another task";
        return Err(ApiError::new(Code::InvalidToken, message));
    }
    let key = TaskKey { scope: token.scope.clone(), id: token.task };
    let found = app.read(app.coordinator.browse().find(&key)).await?;
    let subject = found.map_or(Subject::Absent, |found| found.subject);
    let from = reads_records_from(&subject, token.lease)?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let after = after.unwrap_or(0).max(from);
    let reading = read_page(app.coordinator.browse(), &key, after, limit);
    let Page { checkpoints, next_after } = app.read(reading).await?;
    Ok(Json(Checkpoints { checkpoints, next_after }))
}
