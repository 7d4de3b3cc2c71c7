//! `POST /v1/reports`: many reports in one call, one verdict each.

use axum::Json;
use axum::extract::State;
use store::TaskKey;
use verdict::request::Caller;
use wire::answers::{CompletedAck, ReportAnswer, ReportAnswers};
use wire::requests::{Completed, Report};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{CHECKPOINT_BYTES_MAX, JsonBody};
use super::completed::{acknowledge, request};
use super::item_batch::{BatchedCall, Identity, OK, RefusedItem, Sent, answer_all};
use crate::admit::{LeaseHolderPrincipal, TokenScope};
use crate::item::{Item, Reply};

pub(super) async fn reports(
    State(app): State<AppState>,
    principal: LeaseHolderPrincipal,
    JsonBody(body): JsonBody<CHECKPOINT_BYTES_MAX>,
) -> Result<Json<ReportAnswers>, ApiError> {
    let answers = answer_all::<ReportCall>(&app, &principal, &body).await?;
    Ok(Json(ReportAnswers { answers, server_time: app.server_time() }))
}

struct ReportCall;

impl BatchedCall for ReportCall {
    type Item = Report;
    type Rest = Completed;
    type Memo = ();
    type Answer = ReportAnswer;

    fn split(item: Report) -> (Identity, Completed) {
        let Report {
            task_id,
            task_token,
            attempt,
            worker_id,
            outcome,
            completed_at,
            output,
            error,
            metrics,
            cancelled_during_phase,
            partial_progress,
            traceparent,
            steps,
            children,
            spend,
            effects,
            next,
            log,
        } = item;
        let completed = Completed {
            attempt,
            worker_id: worker_id.clone(),
            outcome,
            completed_at,
            output,
            error,
            metrics,
            cancelled_during_phase,
            partial_progress,
            traceparent,
            steps,
            children,
            spend,
            effects,
            next,
            log,
        };
        (Identity { task_id, task_token, attempt, worker_id }, completed)
    }

    fn translate(
        app: &AppState,
        token: &TokenScope,
        key: TaskKey,
        caller: Caller,
        completed: Completed,
    ) -> Result<(Item, ()), ApiError> {
        Ok((request(app, token, key, caller, completed)?, ()))
    }

    async fn answer(
        app: &AppState,
        sent: &Sent<()>,
        reply: Reply,
    ) -> Result<ReportAnswer, ApiError> {
        let CompletedAck {
            acknowledged: _,
            verdict,
            final_state,
            state,
            replayed,
            next,
            server_time: _,
        } = acknowledge(app, sent.token.token(), &sent.key, reply).await?;
        Ok(ReportAnswer {
            task_id: sent.task_id.clone(),
            status: OK,
            verdict: Some(verdict),
            state: Some(state),
            final_state: Some(final_state),
            replayed: Some(replayed),
            next,
            ..ReportAnswer::default()
        })
    }

    fn refused(refused: RefusedItem) -> ReportAnswer {
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
        ReportAnswer {
            task_id,
            status,
            verdict,
            state,
            error,
            message,
            field,
            expected_attempt,
            received_attempt,
            ..ReportAnswer::default()
        }
    }
}
