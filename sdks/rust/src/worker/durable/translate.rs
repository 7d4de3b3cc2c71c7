//! Between the engine of durable functions and the wire: the same values, in the shapes of either side.
//!
//! It decides nothing. One thing is derived here: the coordinator records a wait as one checkpoint that says what
//! satisfied it, and the engine knows a checkpoint of each item that arrived.

use wire::answers::{self, CheckpointAnswer, CheckpointError};
use wire::requests::{
    AwaitedItem, ChildRun, DeclaredEffect, Diverged, Spend, StepError, StepRecord, WaitFor,
};
use wire::{CheckpointKind, CheckpointOutcome, ErrorCategory, Json, StepOutcome, Time, WaitMode};
use workflow::{
    Answer, Awaited, Checkpoint, ChildRecord, Difference, Digest, Divergence, Effect, Failure,
    Mode, Outcome, Seen, State, Stop, Wait, decided_digest,
};

/// Begins the key of a wait.
const WAIT: &str = "wait:";
/// Begins the name of a child in its key.
const CHILD: &str = "child:";
/// Begins the name of an approval in its key.
const APPROVAL: &str = "approval:";
/// Separates a name from its count in the key of an operation.
const COUNT: char = '#';

pub(super) fn step(step: workflow::StepRecord) -> StepRecord {
    let workflow::StepRecord { key, outcome, result, error, input_digest, .. } = step;
    let workflow::StepRecord { spend, savepoint, .. } = step;
    StepRecord {
        key,
        outcome: match outcome {
            Outcome::Succeeded | Outcome::Started => StepOutcome::Succeeded,
            Outcome::Failed | Outcome::Cancelled => StepOutcome::Failed,
        },
        result,
        error: error.map(step_error),
        input_digest: input_digest.map(|digest| digest.to_string()),
        spend: spend.map(|spend| Spend {
            cost_micros: spend.cost_micros,
            tokens: spend.tokens,
            tool_calls: spend.tool_calls,
        }),
        savepoint,
    }
}

/// What a step asks for.
pub(super) fn effects(step: &mut workflow::StepRecord) -> Vec<DeclaredEffect> {
    let (key, effects) = (step.key.clone(), std::mem::take(&mut step.effects));
    let effect = |effect: Effect| {
        let Effect { key: name, endpoint, r#type, aggregate, body } = effect;
        DeclaredEffect { key: name, step: key.clone(), endpoint, r#type, aggregate, body }
    };
    effects.into_iter().map(effect).collect()
}

fn step_error(failure: Failure) -> StepError {
    let Failure { category, reason, message, retryable, .. } = failure;
    StepError { category, reason, message, stack_trace: None, retryable }
}

pub(super) fn child(child: ChildRecord) -> ChildRun {
    let ChildRecord { key, input_digest, detached, run } = child;
    let input_digest = Some(input_digest.to_string());
    ChildRun { detached, input_digest, ..ChildRun::new(key, run) }
}

pub(super) fn wait(wait: Wait) -> WaitFor {
    let Wait { key, mode, items, max_ms } = wait;
    let mode = match mode {
        Mode::All => WaitMode::All,
        Mode::Any => WaitMode::Any,
    };
    WaitFor { key, mode, items: items.into_iter().map(awaited).collect(), max_ms }
}

fn awaited(item: Awaited) -> AwaitedItem {
    let none = AwaitedItem::default();
    match item {
        Awaited::Timer { key, until } => AwaitedItem { key, until: Some(until), ..none },
        Awaited::Signal { key, signal } => AwaitedItem { key, signal: Some(signal), ..none },
        Awaited::Child { key, child } => AwaitedItem { key, child: Some(child), ..none },
        Awaited::Effect { key, effect } => AwaitedItem { key, effect: Some(effect), ..none },
        Awaited::Approval { key, approval } => {
            AwaitedItem { key, approval: Some(*approval), ..none }
        }
    }
}

/// Why a run stops, for the people who see the run.
pub(super) fn diverged(stop: &Stop) -> Diverged {
    match stop {
        Stop::Diverged(divergence) => diverged_at(divergence),
        Stop::Misused(misuse) => Diverged { actual: misuse.to_string(), ..Diverged::default() },
    }
}

fn diverged_at(divergence: &Divergence) -> Diverged {
    let Divergence { difference, branch, index, recorded, actual, at } = divergence;
    let actual = match difference {
        Difference::Operation => key_of(actual),
        Difference::Input => with_input(actual),
        Difference::Unreached => "nothing: the code never reaches it".to_owned(),
        Difference::Unreadable(problem) => format!("a type that cannot read it: {problem}"),
    };
    let recorded = match difference {
        Difference::Input => with_input(recorded),
        _ => key_of(recorded),
    };
    Diverged {
        branch: branch.clone(),
        index: u32::try_from(*index).unwrap_or(u32::MAX),
        recorded,
        actual: at.map_or(actual.clone(), |at| format!("{actual} ({at})")),
    }
}

fn key_of(seen: &Option<Seen>) -> String {
    seen.as_ref().map_or_else(|| "nothing".to_owned(), |seen| seen.key.clone())
}

fn with_input(seen: &Option<Seen>) -> String {
    let digest = seen.as_ref().and_then(|seen| seen.input_digest);
    let digest = digest.map_or_else(|| "none".to_owned(), |digest| digest.to_string());
    format!("{} with input {digest}", key_of(seen))
}

/// What was recorded, as the engine reads it.
pub(super) fn checkpoints(recorded: Vec<answers::Checkpoint>) -> Vec<Checkpoint> {
    recorded.into_iter().filter_map(checkpoint).collect()
}

fn checkpoint(recorded: answers::Checkpoint) -> Option<Checkpoint> {
    if recorded.kind == CheckpointKind::Wait {
        return arrival(recorded);
    }
    let outcome = match recorded.outcome {
        CheckpointOutcome::Started => Outcome::Started,
        CheckpointOutcome::Succeeded => Outcome::Succeeded,
        CheckpointOutcome::Failed => Outcome::Failed,
        CheckpointOutcome::Cancelled => Outcome::Cancelled,
    };
    Some(Checkpoint {
        key: recorded.key,
        outcome,
        result: recorded.result,
        error: recorded.error.map(|error| failure(error, outcome)),
        input_digest: recorded.input_digest.and_then(|digest| digest.parse::<Digest>().ok()),
        recorded_at: recorded.recorded_at,
        savepoint: recorded.savepoint,
    })
}

fn failure(error: CheckpointError, outcome: Outcome) -> Failure {
    let CheckpointError { category, reason, message, stack_trace: _, retryable } = error;
    // The coordinator itself ends children without a category.
    let by_coordinator = match outcome {
        Outcome::Cancelled => ErrorCategory::Cancelled,
        _ => ErrorCategory::Infrastructure,
    };
    let mut failure = Failure::new(category.unwrap_or(by_coordinator), message);
    (failure.reason, failure.retryable) = (reason, retryable);
    failure
}

/// The item that satisfied a wait: the winner, or the only one, whose key the wait's key contains. Children have ended
/// in checkpoints of their own.
fn arrival(recorded: answers::Checkpoint) -> Option<Checkpoint> {
    let wait = recorded.wait.unwrap_or_default();
    let only = || recorded.key.strip_prefix(WAIT).filter(|key| key.contains(COUNT));
    let key = wait.winner.as_deref().or_else(only)?.to_owned();
    let name = key.rsplit_once('/').map_or(key.as_str(), |(_, name)| name);
    if name.starts_with(CHILD) {
        return None;
    }
    let is_approval = name.starts_with(APPROVAL);
    let taken = wait.signals.into_iter().find(|signal| signal.key == key);
    let value = taken.and_then(|signal| signal.payload).unwrap_or_else(Json::null);
    Some(Checkpoint {
        key,
        outcome: Outcome::Succeeded,
        // What people decided about is to an approval what its input is to a step.
        input_digest: is_approval.then(|| decided_digest(&value)).flatten(),
        result: Some(value),
        error: None,
        recorded_at: recorded.recorded_at,
        savepoint: false,
    })
}

/// The answer to a committed call.
pub(super) fn answer(answer: CheckpointAnswer, server_time: Time) -> Answer {
    // A repeated call that ended its attempt has no lease, although another attempt may be running by now.
    let has_lease = answer.lease_expires_at.is_some();
    let state = match answer.state {
        Some(wire::State::Running) | None if has_lease => State::Running,
        Some(wire::State::Running | wire::State::Waiting) | None => State::Waiting,
        Some(_) => State::Halted,
    };
    Answer {
        state,
        recorded_at: answer.recorded_at.unwrap_or(server_time),
        results: checkpoints(answer.results),
        should_cancel: answer.should_cancel == Some(true),
    }
}
