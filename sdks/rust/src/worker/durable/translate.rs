//! Between the engine of durable functions and the wire: the same values, in the shapes of either side.
//!
//! It decides nothing.

use wire::answers::CheckpointAnswer;
use wire::requests::{
    AwaitedItem, ChildRun, DeclaredEffect, Diverged, Spend, StepError, StepRecord, WaitFor,
};
use wire::{StepOutcome, Time, WaitMode};
use workflow::{
    Answer, Awaited, ChildRecord, Difference, Divergence, Effect, Failure, Mode, Outcome, Seen,
    State, Stop, Wait,
};

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
        results: workflow::checkpoints(answer.results),
        should_cancel: answer.should_cancel == Some(true),
    }
}
