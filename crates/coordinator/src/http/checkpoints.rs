//! `POST /v1/checkpoints`: many calls with checkpoints at once, one answer each.

use axum::Json;
use axum::extract::State;
use store::TaskKey;
use verdict::request::Caller;
use wire::answers::{CheckpointAck, CheckpointAnswer, CheckpointAnswers};
use wire::requests::{CheckpointCall, CheckpointItem};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{CHECKPOINT_BYTES_MAX, JsonBody};
use super::checkpoint::{AwaitedKeys, acknowledge, request};
use super::item_batch::{BatchedCall, Identity, OK, RefusedItem, Sent, answer_all};
use crate::admit::{LeaseHolderPrincipal, TokenScope};
use crate::item::{Item, Reply};

pub(super) async fn checkpoints(
    State(app): State<AppState>,
    principal: LeaseHolderPrincipal,
    JsonBody(body): JsonBody<CHECKPOINT_BYTES_MAX>,
) -> Result<Json<CheckpointAnswers>, ApiError> {
    let answers = answer_all::<Checkpointing>(&app, &principal, &body).await?;
    Ok(Json(CheckpointAnswers { answers, server_time: app.server_time() }))
}

struct Checkpointing;

impl BatchedCall for Checkpointing {
    type Item = CheckpointItem;
    type Rest = CheckpointCall;
    type Memo = AwaitedKeys;
    type Answer = CheckpointAnswer;

    fn split(item: CheckpointItem) -> (Identity, CheckpointCall) {
        let (task_id, task_token, call) = item.into_call();
        let (attempt, worker_id) = (call.attempt, call.worker_id.clone());
        (Identity { task_id, task_token, attempt, worker_id }, call)
    }

    fn translate(
        app: &AppState,
        _: &TokenScope,
        key: TaskKey,
        caller: Caller,
        call: CheckpointCall,
    ) -> Result<(Item, AwaitedKeys), ApiError> {
        request(app, key, caller, call)
    }

    async fn answer(
        app: &AppState,
        sent: &Sent<AwaitedKeys>,
        reply: Reply,
    ) -> Result<CheckpointAnswer, ApiError> {
        let CheckpointAck {
            acknowledged: _,
            verdict,
            state,
            replayed,
            recorded_at,
            results,
            results_left_out,
            children,
            should_cancel,
            cancel_reason,
            lease_expires_at,
            task_token,
            token_expires_at,
            left,
            server_time: _,
        } = acknowledge(app, &sent.token, &sent.key, &sent.memo, reply).await?;
        Ok(CheckpointAnswer {
            task_id: sent.task_id.clone(),
            status: OK,
            verdict: Some(verdict),
            state: Some(state),
            replayed: Some(replayed),
            recorded_at: Some(recorded_at),
            results,
            results_left_out,
            children,
            should_cancel: Some(should_cancel),
            cancel_reason,
            lease_expires_at,
            task_token,
            token_expires_at,
            left,
            ..CheckpointAnswer::default()
        })
    }

    fn refused(refused: RefusedItem) -> CheckpointAnswer {
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
        CheckpointAnswer {
            task_id,
            status,
            verdict,
            state,
            error,
            message,
            field,
            expected_attempt,
            received_attempt,
            ..CheckpointAnswer::default()
        }
    }
}
