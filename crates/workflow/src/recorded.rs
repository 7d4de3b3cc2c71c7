//! What the coordinator recorded, as the engine reads it.
//!
//! It decides nothing. One thing is derived here: the coordinator records a wait as one checkpoint that says what
//! satisfied it, and the engine knows a checkpoint of each item that arrived.

use wire::answers::{self, CheckpointError};
use wire::{CheckpointKind, CheckpointOutcome, ErrorCategory, Json};

use crate::approval::decided_digest;
use crate::command::{Checkpoint, Outcome};
use crate::{Digest, Failure};

/// Begins the key of a wait.
const WAIT: &str = "wait:";
/// Begins the name of a child in its key.
const CHILD: &str = "child:";
/// Ends the key of the timer beside an operation.
const TIMEOUT: &str = ".timeout";
/// Begins the name of an approval in its key.
const APPROVAL: &str = "approval:";
/// Separates a name from its count in the key of an operation.
const COUNT: char = '#';

/// The checkpoints of a lease's envelope, of an answer or of a golden file.
pub fn checkpoints(recorded: Vec<answers::Checkpoint>) -> Vec<Checkpoint> {
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
    let CheckpointError { category, reason, message, retryable, .. } = error;
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
/// in checkpoints of their own; the timer beside one has not.
fn arrival(recorded: answers::Checkpoint) -> Option<Checkpoint> {
    let wait = recorded.wait.unwrap_or_default();
    let only = || recorded.key.strip_prefix(WAIT).filter(|key| key.contains(COUNT));
    let key = wait.winner.as_deref().or_else(only)?.to_owned();
    let name = key.rsplit_once('/').map_or(key.as_str(), |(_, name)| name);
    if name.starts_with(CHILD) && !name.ends_with(TIMEOUT) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_winner_of_a_wait_arrives_and_a_call_ends_in_its_own_checkpoint() {
        let wait = |key: &str, wait: serde_json::Value| {
            let recorded = json!({"number": 1, "key": key, "kind": "WAIT", "outcome": "SUCCEEDED",
                "recordedAt": "2026-01-01T00:00:00.000Z", "wait": wait});
            let recorded = serde_json::from_value(recorded).expect("a checkpoint of the wire");
            checkpoints(vec![recorded]).pop().map(|arrived| arrived.key)
        };
        let many = "wait:9f0000000000000000000000000000aa";
        assert_eq!(wait("wait:sleep:cool-off#1", json!({})).as_deref(), Some("sleep:cool-off#1"));
        let late = json!({"winner": "done/child:c#1.timeout"});
        assert_eq!(wait(many, late).as_deref(), Some("done/child:c#1.timeout"));
        assert_eq!(wait(many, json!({"winner": "done/child:c#1"})), None);
        assert_eq!(wait(many, json!({})), None);
    }
}
