//! `GET /v1/runs/{runId}/record`: the provenance of an ended run, recomputed from its rows.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Browse, Failure, RowsAfter, TaskKey};
use verdict::event::Submitted;
use verdict::plan::PlanState;
use verdict::run::{Checkpoint, Recorded, Spend, StepOutcome};
use verdict::{
    ClosedAttempt, Digest, Done, Event, RunState, State as TaskState, Subject, record as provenance,
};
use wire::CheckpointOutcome;
use wire::Code;
use wire::answers::{AttemptClaims, AttemptView, Record, RecordedRun, ToolCall};
use wire::limits::PAGE_ITEMS;
use wire::requests::RecordQuery;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::RunPath;
use super::records::spent;
use super::run_view::{run_error, submitted};
use super::translate::{attempt_outcome, category, instant, query, skew, state, time};
use crate::admit::ReaderPrincipal;

/// The most attempts in one answer: all of them, except for runs that were lost many times.
const PAGE: u32 = *PAGE_ITEMS.end() as u32;

/// The most steps in one answer: enough for what people look at.
const TOOL_CALLS_MAX: usize = 1_000;

pub(super) async fn record(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    RunPath(run): RunPath,
    uri: Uri,
) -> Result<Json<Record>, ApiError> {
    let asked: RecordQuery = query(&uri)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let found = app.read(app.coordinator.browse().find(&key)).await?;
    let (subject, spec) = found.map(|found| (found.subject, found.spec)).unzip();
    let done = match subject {
        None | Some(Subject::Absent) => return Err(ApiError::run_not_found()),
        Some(Subject::Live(_)) => {
            return Err(ApiError::new(
                Code::NotFound,
                "the run has not ended; the record is written at its end",
            ));
        }
        Some(Subject::Done(done)) => done,
    };
    let reading = provenance_of(&app, &key, &done, &asked);
    let Some(provenance) = app.read(reading).await? else {
        return Err(broken(&done));
    };
    if provenance.digest != done.record {
        return Err(broken(&done));
    }
    let goal = spec.and_then(|spec| spec.goal).map(|goal| goal.to_string());
    let calls = app.read(tool_calls(&app, &key, &done)).await?;
    let ToolCalls { shown: tool_calls, left_out } = calls;
    let tool_calls_left_out = Some(left_out).filter(|left_out| *left_out > 0);
    Ok(Json(Record { goal, tool_calls, tool_calls_left_out, ..view(provenance, &done) }))
}

/// The completed steps (S2-97): those that the run recorded, or those of its plan. As many as one answer has room for, and how
/// many more there are.
struct ToolCalls {
    shown: Vec<ToolCall>,
    left_out: u32,
}

async fn tool_calls(app: &AppState, key: &TaskKey, done: &Done) -> Result<ToolCalls, Failure> {
    let (mut shown, mut last) = (Vec::new(), 0);
    let is_plan = is_plan(done.run.as_deref());
    let recorded = done.run.as_ref().map_or(0, |run| run.steps);
    let mut count = if is_plan { 0 } else { recorded };
    // The steps of a run are counted; those of a plan that were not skipped are not.
    while is_plan || shown.len() < count.min(TOOL_CALLS_MAX as u32) as usize {
        let after = RowsAfter::Checkpoint(last);
        let page = app.coordinator.browse().rows(key, after, TOOL_CALLS_MAX).await?.checkpoints;
        let Some(newest) = page.last() else { break };
        last = newest.number;
        for call in page.iter().filter_map(|it| tool_call(it).or_else(|| step_of_plan(it, is_plan)))
        {
            count += u32::from(is_plan);
            if shown.len() < TOOL_CALLS_MAX {
                shown.push(call);
            }
        }
    }
    let left_out = count.saturating_sub(u32::try_from(shown.len()).unwrap_or(u32::MAX));
    Ok(ToolCalls { shown, left_out })
}

fn is_plan(run: Option<&RunState>) -> bool {
    matches!(run.and_then(|run| run.plan.as_deref()), Some(PlanState::Root(_)))
}

/// A step of a plan is a task of its own, whose end its run has recorded. One that was skipped was not completed.
fn step_of_plan(checkpoint: &Checkpoint, is_plan: bool) -> Option<ToolCall> {
    let Recorded::Child(end) = &checkpoint.recorded else { return None };
    let outcome = match end.state {
        _ if !is_plan => return None,
        TaskState::Skipped => return None,
        TaskState::Succeeded => CheckpointOutcome::Succeeded,
        _ => CheckpointOutcome::Failed,
    };
    Some(ToolCall {
        key: checkpoint.key.to_string(),
        outcome,
        attempt: None,
        recorded_at: time(checkpoint.at),
        spend: None,
    })
}

fn tool_call(checkpoint: &Checkpoint) -> Option<ToolCall> {
    let Recorded::Step(step) = &checkpoint.recorded else { return None };
    let outcome = match step.outcome {
        StepOutcome::Succeeded { .. } => CheckpointOutcome::Succeeded,
        StepOutcome::Failed { .. } => CheckpointOutcome::Failed,
    };
    Some(ToolCall {
        key: checkpoint.key.to_string(),
        outcome,
        attempt: (checkpoint.attempt > 0).then_some(checkpoint.attempt),
        recorded_at: time(checkpoint.at),
        spend: (step.spend != Spend::default()).then(|| spent(step.spend)),
    })
}

/// The provenance of an ended run: all of it is computed, and a page of attempts is shown.
struct Provenance {
    submitted: Submitted,
    digest: Digest,
    shown: Vec<AttemptView>,
    /// The versions of the rules that decided.
    rules: BTreeSet<u32>,
}

/// `None` where the history does not begin with a submission.
async fn provenance_of(
    app: &AppState,
    key: &TaskKey,
    done: &Done,
    asked: &RecordQuery,
) -> Result<Option<Provenance>, Failure> {
    let Some(submitted) = submitted(app, key).await? else { return Ok(None) };
    let (after, limit) = (asked.after.unwrap_or(0), asked.limit.unwrap_or(PAGE) as usize);
    let (mut chain, mut shown, mut last) = (begun(&submitted, done), Vec::new(), 0);
    loop {
        let browse = app.coordinator.browse();
        let page = browse.rows(key, RowsAfter::Attempt(last), PAGE as usize).await?.attempts;
        let Some(closed) = page.last() else { break };
        last = closed.attempt;
        let wanted = page.iter().filter(|closed| closed.attempt > after);
        shown.extend(wanted.take(limit - shown.len()).map(attempt));
        chain = page.iter().fold(chain, provenance::extend);
    }
    let of_rows = provenance::seal_chain(chain, &done.end, done.created_at, done.completed_at);
    let Replayed { folded, rules } = replay(app, key).await?;
    // The record of a durable run has its checkpoints between its attempts, in the order of the history.
    let digest = match (&done.run, folded) {
        (None, _) => of_rows,
        (Some(_), Subject::Done(folded)) => folded.record,
        (Some(_), _) => return Ok(None),
    };
    Ok(Some(Provenance { submitted, digest, shown, rules }))
}

/// What the history says of a task.
struct Replayed {
    folded: Subject,
    rules: BTreeSet<u32>,
}

async fn replay(app: &AppState, key: &TaskKey) -> Result<Replayed, Failure> {
    let (mut folded, mut rules, mut last) = (Subject::Absent, BTreeSet::new(), 0);
    loop {
        let browse = app.coordinator.browse();
        let page = browse.rows(key, RowsAfter::Entry(last), PAGE as usize).await?.history;
        let Some(entry) = page.last() else { return Ok(Replayed { folded, rules }) };
        last = entry.n;
        rules.extend(page.iter().map(|entry| entry.rules));
        for entry in &page {
            if let (Subject::Live(task), Some(loaded)) = (&mut folded, &entry.loaded) {
                loaded.restore(task);
            }
            folded = folded.settle(&entry.events, entry.at);
        }
    }
}

/// The first digest of the chain that the rules compute step by step: that of the submission.
fn begun(submitted: &Submitted, done: &Done) -> Digest {
    let events = [Event::Submitted(Box::new(submitted.clone()))];
    match Subject::Absent.settle(&events, done.created_at) {
        Subject::Live(task) => task.chain,
        Subject::Absent | Subject::Done(_) => unreachable!("a submission makes a live task"),
    }
}

fn broken(done: &Done) -> ApiError {
    tracing::error!(task = %done.id, "a stored record does not match its rows");
    ApiError::new(Code::Internal, "the record does not match its rows; run `tenure verify`")
}

fn view(provenance: Provenance, done: &Done) -> Record {
    let Provenance { submitted, digest: _, shown, rules } = provenance;
    let next_after = shown.last().map(|last| last.attempt).filter(|last| *last < done.attempt);
    let output = done.end.output.as_ref();
    Record {
        run_id: done.id.run_name(),
        tool_calls: Vec::new(),
        tool_calls_left_out: None,
        state: state(done.end.state),
        kind: done.kind.to_string(),
        queue: done.queue.to_string(),
        input_digest: submitted.input.to_string(),
        goal: None,
        output_digest: output.map(|output| Digest::of(&[output.as_str().as_bytes()]).to_string()),
        error: run_error(&done.end),
        attempts: shown,
        next_after,
        created_at: time(done.created_at),
        started_at: done.started_at.map(time),
        completed_at: time(done.completed_at),
        duration_ms: done.completed_at.since(done.created_at).millis(),
        decisions: done.entries,
        rules: rules.into_iter().collect(),
        durable: done.run.as_deref().map(recorded_run),
        digest: done.record.to_string(),
    }
}

fn recorded_run(run: &RunState) -> RecordedRun {
    RecordedRun {
        steps: run.steps,
        checkpoints: run.checkpoints,
        children: run.children,
        signals: run.signals.received,
        suspensions: run.suspensions,
        spend: spent(run.spend),
    }
}

fn attempt(closed: &ClosedAttempt) -> AttemptView {
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
