//! `POST /v1/heartbeats`: many heartbeats in one call, one answer each.

use axum::Json;
use axum::extract::State;
use store::TaskKey;
use verdict::request::{Caller, Heartbeat};
use verdict::{Progress, Request};
use wire::answers::{HeartbeatAck, HeartbeatAnswer, HeartbeatAnswers};
use wire::requests::{HeartbeatItem, LogLine, Spend};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{JsonBody, LARGE_BYTES_MAX};
use super::heartbeat::{acknowledge, progress};
use super::item_batch::{BatchedCall, Identity, OK, RefusedItem, Sent, answer_all};
use crate::admit::{LeaseHolderPrincipal, TokenScope};
use crate::item::{Item, Reply};
use crate::requests::{metered, sent_log};

pub(super) async fn heartbeats(
    State(app): State<AppState>,
    principal: LeaseHolderPrincipal,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<HeartbeatAnswers>, ApiError> {
    let answers = answer_all::<HeartbeatCall>(&app, &principal, &body).await?;
    Ok(Json(HeartbeatAnswers { answers, server_time: app.server_time() }))
}

struct HeartbeatCall;

impl BatchedCall for HeartbeatCall {
    type Item = HeartbeatItem;
    type Rest = (Option<Progress>, Option<Spend>, Vec<LogLine>);
    type Memo = ();
    type Answer = HeartbeatAnswer;

    fn split(item: HeartbeatItem) -> (Identity, Self::Rest) {
        let HeartbeatItem {
            task_id,
            task_token,
            attempt,
            worker_id,
            heartbeat_at: _,
            progress_pct,
            message,
            spend,
            log,
        } = item;
        let progress = progress(progress_pct, message);
        (Identity { task_id, task_token, attempt, worker_id }, (progress, spend, log))
    }

    fn translate(
        _: &AppState,
        _: &TokenScope,
        key: TaskKey,
        caller: Caller,
        (progress, spend, log): Self::Rest,
    ) -> Result<(Item, ()), ApiError> {
        let request = Request::Heartbeat(Heartbeat { caller, progress });
        let item = Item::asking(key, metered(spend, request));
        Ok((item.with_log(sent_log(log)), ()))
    }

    async fn answer(
        app: &AppState,
        sent: &Sent<()>,
        reply: Reply,
    ) -> Result<HeartbeatAnswer, ApiError> {
        let HeartbeatAck {
            acknowledged: _,
            verdict,
            should_cancel,
            cancel_reason,
            lease_expires_at,
            task_token,
            token_expires_at,
            left,
            server_time: _,
        } = acknowledge(app, &sent.token, reply)?;
        Ok(HeartbeatAnswer {
            task_id: sent.task_id.clone(),
            status: OK,
            verdict: Some(verdict),
            should_cancel: Some(should_cancel),
            cancel_reason,
            lease_expires_at: Some(lease_expires_at),
            task_token,
            token_expires_at,
            left,
            ..HeartbeatAnswer::default()
        })
    }

    fn refused(refused: RefusedItem) -> HeartbeatAnswer {
        let RefusedItem {
            task_id,
            status,
            verdict,
            state,
            error,
            message,
            field,
            expected_attempt,
            received_attempt,
        } = refused;
        HeartbeatAnswer {
            task_id,
            status,
            verdict,
            state,
            error,
            message,
            field,
            expected_attempt,
            received_attempt,
            ..HeartbeatAnswer::default()
        }
    }
}
