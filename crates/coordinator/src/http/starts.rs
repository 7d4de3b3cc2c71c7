//! `POST /v1/starts`: many starts in one call, one answer each.

use axum::Json;
use axum::extract::State;
use store::TaskKey;
use verdict::Request;
use verdict::request::{self, Caller};
use wire::answers::{StartAnswer, StartAnswers, StartedAck};
use wire::requests::StartItem;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{JsonBody, LARGE_BYTES_MAX};
use super::item_batch::{BatchedCall, Identity, OK, RefusedItem, Sent, answer_all};
use super::started::acknowledge;
use super::translate::instant;
use crate::admit::{LeaseHolderPrincipal, TokenScope};
use crate::item::{Item, Reply};

pub(super) async fn starts(
    State(app): State<AppState>,
    principal: LeaseHolderPrincipal,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<StartAnswers>, ApiError> {
    let answers = answer_all::<StartCall>(&app, &principal, &body).await?;
    Ok(Json(StartAnswers { answers, server_time: app.server_time() }))
}

struct StartCall;

impl BatchedCall for StartCall {
    type Item = StartItem;
    type Rest = Option<wire::Time>;
    type Memo = ();
    type Answer = StartAnswer;

    fn split(item: StartItem) -> (Identity, Option<wire::Time>) {
        let StartItem { task_id, task_token, attempt, worker_id, started_at } = item;
        (Identity { task_id, task_token, attempt, worker_id }, started_at)
    }

    fn translate(
        _: &AppState,
        _: &TokenScope,
        key: TaskKey,
        caller: Caller,
        started_at: Option<wire::Time>,
    ) -> Result<(Item, ()), ApiError> {
        let started = request::Started { caller, claimed_at: started_at.map(instant) };
        Ok((Item::asking(key, Request::Started(started)), ()))
    }

    async fn answer(_: &AppState, sent: &Sent<()>, reply: Reply) -> Result<StartAnswer, ApiError> {
        let StartedAck { acknowledged: _, verdict, server_time: _ } = acknowledge(reply)?;
        let task_id = sent.task_id.clone();
        Ok(StartAnswer { task_id, status: OK, verdict: Some(verdict), ..StartAnswer::default() })
    }

    fn refused(refused: RefusedItem) -> StartAnswer {
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
        StartAnswer {
            task_id,
            status,
            verdict,
            state,
            error,
            message,
            field,
            expected_attempt,
            received_attempt,
        }
    }
}
