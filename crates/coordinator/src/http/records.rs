//! What a durable run has recorded, as the wire shows it: to its workers, and to people.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use store::{Browse, Failure, RecordsOf, RunRecord, StoredChild, StoredSignal, TaskKey};
use verdict::run::{Checkpoint, ChildEnd, Recorded, Spend, Step, StepOutcome, WaitRecord};
use verdict::{End, Fault, Name, State as TaskState, Text};
use wire::answers::{CheckpointError, Spent, Steps, TakenSignal, WaitOutcome};
use wire::limits::{PAGE_ITEMS_DEFAULT, RECORDED_BYTES_MAX};
use wire::requests::RecordsQuery;
use wire::{CheckpointKind, CheckpointOutcome};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::caller::RunPath;
use super::stages::stages_of;
use super::translate::{category, json, query, time};
use crate::admit::ReaderPrincipal;

/// How many records an envelope is filled from in one read. With results of usual size they fill its 64 KiB.
const ENVELOPE_RECORDS_MAX: usize = 1_000;

/// A page of records.
pub(super) struct Page {
    pub(super) checkpoints: Vec<wire::answers::Checkpoint>,
    /// The number after which the next page begins; `None` if this is the last one.
    pub(super) next_after: Option<u32>,
}

pub(super) async fn steps(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    RunPath(run): RunPath,
    uri: Uri,
) -> Result<Json<Steps>, ApiError> {
    let RecordsQuery { after, limit } = query(&uri)?;
    let key = TaskKey { scope: principal.scope().clone(), id: run };
    let browse = app.coordinator.browse();
    let found = app.read(browse.find(&key)).await?;
    found.ok_or_else(ApiError::run_not_found)?;
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let reading = read_page(browse, &key, after.unwrap_or(0), limit);
    let Page { checkpoints: steps, next_after } = app.read(reading).await?;
    Ok(Json(Steps { steps, next_after }))
}

/// Records numbered above `after`, at most `limit`.
pub(super) async fn read_page<B: Browse>(
    browse: &B,
    key: &TaskKey,
    after: u32,
    limit: usize,
) -> Result<Page, Failure> {
    let records = browse.records(key, RecordsOf::After(after), limit).await?;
    // A page may end early because of its size, so only an empty one is certainly the last.
    let next_after = records.last().map(RunRecord::number);
    Ok(Page { checkpoints: records.into_iter().map(view).collect(), next_after })
}

/// Whether an envelope of this run carries any record. A stage that has recorded nothing costs no read.
pub(super) fn has_records(run: &verdict::RunState) -> bool {
    run.checkpoints > start_of_records(run)
}

/// The number after which the records of an envelope begin: at the savepoint, or with the stage.
fn start_of_records(run: &verdict::RunState) -> u32 {
    let before_stage = stages_of(Some(run)).map_or(0, |stages| stages.since);
    run.savepoint.saturating_sub(1).max(before_stage)
}

/// What an envelope carries: records from the last savepoint on, up to 64 KiB.
pub(super) async fn envelope_page<B: Browse>(
    browse: &B,
    key: &TaskKey,
    run: &verdict::RunState,
) -> Result<Page, Failure> {
    let from = start_of_records(run);
    let records = browse.records(key, RecordsOf::After(from), ENVELOPE_RECORDS_MAX).await?;
    let last_recorded = run.checkpoints;
    let (checkpoints, _) = within_bytes(records, RECORDED_BYTES_MAX);
    let last = checkpoints.last().map_or(from, |last| last.number);
    Ok(Page { checkpoints, next_after: (last < last_recorded).then_some(last) })
}

/// As many records as fit, and whether some were left out. A record that is larger than all the room is left out too.
pub(super) fn within_bytes(
    records: Vec<RunRecord>,
    max: usize,
) -> (Vec<wire::answers::Checkpoint>, bool) {
    let mut room = max;
    let mut shown = Vec::new();
    for record in records {
        let checkpoint = view(record);
        let bytes = serde_json::to_vec(&checkpoint).map_or(usize::MAX, |text| text.len());
        let Some(left) = room.checked_sub(bytes) else { return (shown, true) };
        room = left;
        shown.push(checkpoint);
    }
    (shown, false)
}

fn view(record: RunRecord) -> wire::answers::Checkpoint {
    match record {
        RunRecord::Started(child) => started(&child),
        RunRecord::Checkpoint { checkpoint, taken, end } => recorded(&checkpoint, taken, end),
    }
}

/// A checkpoint without what depends on its kind.
fn blank(
    number: u32,
    key: &Name,
    at: verdict::Time,
    kind: CheckpointKind,
) -> wire::answers::Checkpoint {
    wire::answers::Checkpoint {
        number,
        key: key.to_string(),
        kind,
        outcome: CheckpointOutcome::Succeeded,
        result: None,
        error: None,
        input_digest: None,
        attempt: None,
        recorded_at: time(at),
        savepoint: false,
        spend: None,
        task_id: None,
        detached: false,
        wait: None,
    }
}

fn started(started: &StoredChild) -> wire::answers::Checkpoint {
    let StoredChild { number, at, child } = started;
    wire::answers::Checkpoint {
        outcome: CheckpointOutcome::Started,
        input_digest: Some(child.digest.to_string()),
        task_id: Some(child.id.to_string()),
        detached: child.is_detached,
        ..blank(*number, &child.key, *at, CheckpointKind::Child)
    }
}

fn recorded(
    checkpoint: &Checkpoint,
    taken: Vec<(Name, StoredSignal)>,
    end: Option<End>,
) -> wire::answers::Checkpoint {
    let Checkpoint { number, key, digest: _, attempt, at, recorded } = checkpoint;
    let kind = match recorded {
        Recorded::Step(_) => CheckpointKind::Step,
        Recorded::Wait(_) => CheckpointKind::Wait,
        Recorded::Child(_) => CheckpointKind::Child,
    };
    let plain = blank(*number, key, *at, kind);
    let plain = wire::answers::Checkpoint { attempt: (*attempt > 0).then_some(*attempt), ..plain };
    match recorded {
        Recorded::Step(step) => step_view(plain, step),
        Recorded::Wait(wait) => wait_view(plain, wait, taken),
        Recorded::Child(child) => child_end_view(plain, child, end),
    }
}

fn step_view(plain: wire::answers::Checkpoint, step: &Step) -> wire::answers::Checkpoint {
    let Step { outcome, input, spend, is_savepoint } = step;
    let (outcome, result, error) = match outcome {
        StepOutcome::Succeeded { result } => (CheckpointOutcome::Succeeded, result.as_ref(), None),
        StepOutcome::Failed { fault, reason } => {
            let reason = reason.as_ref().map(Text::to_string);
            (CheckpointOutcome::Failed, None, Some(fault_view(fault, reason)))
        }
    };
    wire::answers::Checkpoint {
        outcome,
        result: result.map(json),
        error,
        input_digest: input.map(|digest| digest.to_string()),
        spend: (*spend != Spend::default()).then(|| spent(*spend)),
        savepoint: *is_savepoint,
        ..plain
    }
}

pub(super) fn spent(spend: Spend) -> Spent {
    let Spend { cost_micros, tokens, tool_calls } = spend;
    Spent { cost_micros, tokens, tool_calls }
}

fn wait_view(
    plain: wire::answers::Checkpoint,
    wait: &WaitRecord,
    taken: Vec<(Name, StoredSignal)>,
) -> wire::answers::Checkpoint {
    let signals =
        taken.into_iter().map(|(item, StoredSignal { signal, is_taken: _ })| TakenSignal {
            key: item.to_string(),
            name: signal.name.to_string(),
            payload: signal.payload.as_ref().map(json),
        });
    let winner = wait.winner.as_ref().map(Name::to_string);
    let wait = Some(WaitOutcome { winner, signals: signals.collect() });
    wire::answers::Checkpoint { wait, ..plain }
}

/// The output of a child stays in its own row. A child that retention has removed is told by its state alone.
fn child_end_view(
    plain: wire::answers::Checkpoint,
    child: &ChildEnd,
    end: Option<End>,
) -> wire::answers::Checkpoint {
    let outcome = match child.state {
        TaskState::Succeeded => CheckpointOutcome::Succeeded,
        TaskState::Cancelled => CheckpointOutcome::Cancelled,
        _ => CheckpointOutcome::Failed,
    };
    let result = end.as_ref().and_then(|end| end.output.as_ref()).map(json);
    let error = (outcome != CheckpointOutcome::Succeeded).then(|| end_error(child.state, end));
    let task_id = Some(child.child.to_string());
    wire::answers::Checkpoint { outcome, result, error, task_id, ..plain }
}

fn end_error(state: TaskState, end: Option<End>) -> CheckpointError {
    let reason = end.as_ref().and_then(|end| end.reason).map(|reason| reason.name().to_owned());
    match end.and_then(|end| end.fault) {
        Some(fault) => fault_view(&fault, reason),
        None => CheckpointError {
            category: None,
            message: format!("the child ended as {}", state.name()),
            reason,
            stack_trace: None,
            retryable: None,
        },
    }
}

fn fault_view(fault: &Fault, reason: Option<String>) -> CheckpointError {
    let Fault { category: found, message, stack_trace, retryable } = fault;
    CheckpointError {
        category: Some(category(*found)),
        reason,
        message: message.to_string(),
        stack_trace: stack_trace.as_ref().map(Text::to_string),
        retryable: *retryable,
    }
}
