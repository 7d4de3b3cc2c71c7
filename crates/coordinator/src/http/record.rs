//! `GET /v1/runs/{runId}/record`: the provenance of an ended run, computed again from its rows.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use store::{Browse, Failure, Store, TaskKey};
use verdict::event::Submitted;
use verdict::{Closed, Digest, Done, Event, Subject, record as provenance};
use wire::Code;
use wire::answers::{AttemptClaims, AttemptView, Record};

use super::caller::RunPath;
use super::declined::Declined;
use super::door::Door;
use super::run_view::{run_error, submitted};
use super::translate::{attempt_outcome, category, instant, skew, state, time};
use crate::admit::ClientPrincipal;

pub(super) async fn record<S: Store>(
    State(door): State<Door<S>>,
    principal: ClientPrincipal,
    RunPath(run): RunPath,
) -> Result<Json<Record>, Declined> {
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let found = door.read(Duration::ZERO, door.coordinator.browse().find(&key)).await?;
    let done = match found.map(|found| found.subject) {
        None | Some(Subject::Absent) => return Err(Declined::run_not_found()),
        Some(Subject::Live(_)) => {
            return Err(Declined::new(
                Code::NotFound,
                "the run has not ended; its record comes then",
            ));
        }
        Some(Subject::Done(done)) => done,
    };
    let (submitted, attempts) = door.read(Duration::ZERO, rows(&door, &key)).await?;
    let Some(submitted) = submitted else { return Err(broken(&done)) };
    if compute(&submitted, &attempts, &done) != done.record {
        return Err(broken(&done));
    }
    Ok(Json(view(&submitted, &attempts, &done)))
}

async fn rows<S: Store>(
    door: &Door<S>,
    key: &TaskKey,
) -> Result<(Option<Submitted>, Vec<Closed>), Failure> {
    let submitted = submitted(door, key).await?;
    Ok((submitted, door.coordinator.browse().attempts(key).await?))
}

/// What the rules computed step by step, once more from what is stored.
fn compute(submitted: &Submitted, attempts: &[Closed], done: &Done) -> Digest {
    let events = [Event::Submitted(Box::new(submitted.clone()))];
    let chain = match Subject::Absent.settle(&events, done.created_at) {
        Subject::Live(task) => task.chain,
        Subject::Absent | Subject::Done(_) => unreachable!("a submission makes a live task"),
    };
    let chain = attempts.iter().fold(chain, provenance::extend);
    provenance::seal_chain(chain, &done.end, done.created_at, done.completed_at)
}

fn broken(done: &Done) -> Declined {
    tracing::error!(task = %done.id, "the stored record does not agree with its rows");
    Declined::new(Code::Internal, "the record does not agree with its rows; run `tenure verify`")
}

fn view(submitted: &Submitted, attempts: &[Closed], done: &Done) -> Record {
    let output = done.end.output.as_ref();
    Record {
        run_id: done.id.run_name(),
        state: state(done.end.state),
        kind: done.kind.to_string(),
        queue: done.queue.to_string(),
        input_digest: submitted.input.to_string(),
        output_digest: output.map(|output| Digest::of(&[output.as_str().as_bytes()]).to_string()),
        error: run_error(&done.end),
        attempts: attempts.iter().map(attempt).collect(),
        created_at: time(done.created_at),
        started_at: done.started_at.map(time),
        completed_at: time(done.completed_at),
        duration_ms: done.completed_at.since(done.created_at).millis(),
        digest: done.record.to_string(),
    }
}

fn attempt(closed: &Closed) -> AttemptView {
    let claims = closed.claims.as_ref();
    let claims: AttemptClaims =
        claims.and_then(|claims| serde_json::from_str(claims.as_str()).ok()).unwrap_or_default();
    AttemptView {
        attempt: closed.attempt,
        lease_id: closed.lease.to_string(),
        fence: closed.fence.as_u64(),
        owner: closed.owner.to_string(),
        outcome: attempt_outcome(closed.outcome),
        reason: closed.reason.map(|reason| reason.name().to_owned()),
        category: closed.fault.as_ref().map(|fault| category(fault.category)),
        granted_at: time(closed.granted_at),
        started_at: closed.started_at.map(time),
        ended_at: time(closed.closed_at),
        report_digest: closed.report.map(|digest| digest.to_string()),
        clock_skew_ms: claims.completed_at.and_then(|at| skew(instant(at), closed.closed_at)),
        claims,
    }
}
