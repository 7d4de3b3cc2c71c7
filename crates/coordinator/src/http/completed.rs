//! `POST /v1/tasks/{taskId}/completed`: an attempt's end, in its worker's words.

use axum::Json;
use axum::extract::{Path, State};
use edge::canonical::Canonical;
use serde_json::{Value, json};
use store::Store;
use verdict::request::{Caller, Outcome, Report};
use verdict::{Answer, AttemptOutcome, Digest, Fault};
use wire::answers::CompletedAck;
use wire::requests::{Completed, ReportedError};
use wire::{FieldError, TraceContext};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{JsonBody, LARGE_BYTES_MAX};
use super::caller::caller;
use super::submit::unexpected;
use super::translate::{raw, reported_category, state, time};
use crate::admit::TaskPrincipal;
use crate::item::Reply;

pub(super) async fn completed<S: Store>(
    State(app): State<AppState<S>>,
    principal: TaskPrincipal,
    Path(task): Path<String>,
    JsonBody(body): JsonBody<LARGE_BYTES_MAX>,
) -> Result<Json<CompletedAck>, ApiError> {
    let completed: Completed = wire::parse(&body)?;
    let (key, caller) = caller(&principal, &task, completed.attempt, &completed.worker_id)?;
    let asked = app.coordinator.report(key, report(caller, completed)?);
    acknowledge(app.decided(asked).await?).map(Json)
}

pub(super) fn report(caller: Caller, completed: Completed) -> Result<Report, ApiError> {
    let digest = digest(&completed);
    let claims = claims(&completed);
    let Completed {
        attempt: _,
        worker_id: _,
        outcome,
        completed_at: _,
        output,
        error,
        metrics: _,
        cancelled_during_phase: _,
        partial_progress,
        traceparent: _,
    } = completed;
    let outcome = match outcome {
        wire::Outcome::Succeeded => Outcome::Succeeded { output: output.as_ref().map(raw) },
        wire::Outcome::Failed => Outcome::Failed(fault(error)?),
        // What was done until the stop is all the output there is (S4-35).
        wire::Outcome::Cancelled => {
            Outcome::Cancelled { output: partial_progress.as_ref().map(raw) }
        }
    };
    Ok(Report { caller, outcome, digest, claims })
}

fn fault(error: Option<ReportedError>) -> Result<Fault, ApiError> {
    let missing = || FieldError::new("error", "is missing; a FAILED report says why");
    let ReportedError { category, message, stack_trace, retryable } = error.ok_or_else(missing)?;
    let category = reported_category(category).ok_or_else(|| {
        FieldError::new("error.category", "CANCELLED belongs to the outcome CANCELLED alone")
    })?;
    Ok(Fault {
        category,
        message: message.into(),
        stack_trace: stack_trace.map(Into::into),
        retryable,
    })
}

/// What makes two reports the same report: outcome, output and error; not times, not metrics (R-5).
fn digest(completed: &Completed) -> Digest {
    let mut said = Canonical::object();
    said.value("error", &completed.error);
    said.scalar("outcome", &completed.outcome);
    said.json("output", completed.output.as_ref().unwrap_or(&wire::Json::null()));
    said.json(
        "partialProgress",
        completed.partial_progress.as_ref().unwrap_or(&wire::Json::null()),
    );
    said.digest()
}

/// What the worker says beside its outcome: kept with the attempt, decides nothing.
fn claims(completed: &Completed) -> Option<verdict::Json> {
    let Completed {
        completed_at,
        metrics,
        cancelled_during_phase,
        error,
        partial_progress,
        traceparent,
        ..
    } = completed;
    let trace = traceparent.as_deref().and_then(TraceContext::parse);
    let is_silent = completed_at.is_none()
        && metrics.is_none()
        && cancelled_during_phase.is_none()
        && error.is_none()
        && partial_progress.is_none()
        && trace.is_none();
    if is_silent {
        return None;
    }
    let cancelled = completed.outcome == wire::Outcome::Cancelled;
    let members = [
        ("completedAt", json!(completed_at)),
        ("metrics", json!(metrics)),
        ("cancelledDuringPhase", json!(cancelled_during_phase)),
        ("error", if cancelled { json!(error) } else { Value::Null }),
        ("partialProgress", if cancelled { Value::Null } else { json!(partial_progress) }),
        ("traceparent", json!(trace.map(|trace| trace.to_string()))),
    ];
    let said: serde_json::Map<String, Value> = members
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    (!said.is_empty()).then(|| Value::Object(said).to_string().into())
}

pub(super) fn acknowledge(reply: Reply) -> Result<CompletedAck, ApiError> {
    let answered = reply?;
    match answered.answer {
        Answer::Committed { outcome, state: now, replayed } => Ok(CompletedAck {
            acknowledged: true,
            verdict: wire::Verdict::Committed,
            final_state: final_state(outcome),
            state: state(now),
            replayed,
            server_time: time(answered.at),
        }),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(unexpected(&other)),
    }
}

fn final_state(outcome: AttemptOutcome) -> wire::Outcome {
    match outcome {
        AttemptOutcome::Succeeded => wire::Outcome::Succeeded,
        AttemptOutcome::Failed => wire::Outcome::Failed,
        AttemptOutcome::Cancelled => wire::Outcome::Cancelled,
        AttemptOutcome::Lost | AttemptOutcome::Undelivered | AttemptOutcome::Revoked => {
            unreachable!("only a report commits, and a report has none of these outcomes")
        }
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn a_report_is_compared_by_the_canonical_form_of_what_counts() {
        // R-5: spacing, order, times and metrics do not count; outcome, output, error and progress do.
        let texts = [
            r#"{"attempt":1,"workerId":"w","outcome":"SUCCEEDED","output":{"b":1.0, "a":2}}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"SUCCEEDED","output":{"a":2,"b":1},
                "completedAt":"2026-01-01T00:00:00Z","metrics":{"cpuTimeMs":1},
                "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"SUCCEEDED","output":{"a":2,"b":2}}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"SUCCEEDED"}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"CANCELLED","partialProgress":{"a":2}}"#,
            r#"{"attempt":1,"workerId":"w","outcome":"FAILED",
                "error":{"category":"TIMEOUT","message":"m","stackTrace":"s","retryable":false}}"#,
        ];
        let said: Vec<Completed> =
            texts.iter().map(|text| wire::parse(text.as_bytes()).unwrap()).collect();
        for completed in &said {
            let tree = json!({
                "outcome": completed.outcome,
                "output": completed.output,
                "error": completed.error,
                "partialProgress": completed.partial_progress,
            });
            let text = serde_json_canonicalizer::to_vec(&tree).unwrap();
            let wanted = Digest::from_bytes(Sha256::digest(text).into());
            assert_eq!(digest(completed), wanted, "{completed:?}");
        }
        assert_eq!(digest(&said[0]), digest(&said[1]));
        let mut apart: Vec<Digest> = said[1..].iter().map(digest).collect();
        apart.sort();
        apart.dedup();
        assert_eq!(apart.len(), said.len() - 1);
    }
}
