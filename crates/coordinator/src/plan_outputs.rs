//! What the steps of a plan returned: the checkpoints of stages, and the ends of children under a root.
//!
//! Read beside the batches, for inputs, contents and conditions that refer to earlier steps. Nothing here changes: what is read has
//! ended.

use std::collections::HashMap;

use store::{Browse, Failure, RecordsOf, RunRecord, TaskKey};
use verdict::run::{Recorded, StepOutcome};
use verdict::{End, Name, Text};

/// What stages recorded: the output, or the failure's reason.
pub(crate) type StageEnds = HashMap<Name, Result<Option<wire::Json>, Option<Text>>>;

/// Only valid JSON is ever stored.
pub(crate) fn stored_json(json: &verdict::Json) -> wire::Json {
    wire::Json::from_text(json.as_str().to_owned()).expect("only valid JSON is ever stored")
}

/// How children of a root ended. One page may not hold all of them.
pub(crate) async fn ends_of_steps<B: Browse>(
    browse: &B,
    root: &TaskKey,
    mut missing: Vec<Name>,
) -> Result<HashMap<Name, End>, Failure> {
    let mut ends = HashMap::new();
    while !missing.is_empty() {
        // A child that has ended has two records.
        let limit = missing.len() * 2;
        let found = browse.records(root, RecordsOf::Keys(&missing), limit).await?;
        let ended: Vec<(Name, Option<End>)> = found.into_iter().filter_map(ended_child).collect();
        if ended.is_empty() {
            break;
        }
        missing.retain(|key| !ended.iter().any(|(ended, _)| ended == key));
        ends.extend(ended.into_iter().filter_map(|(key, end)| Some((key, end?))));
    }
    Ok(ends)
}

fn ended_child(record: RunRecord) -> Option<(Name, Option<End>)> {
    match record {
        RunRecord::Checkpoint { checkpoint, end, .. } => match checkpoint.recorded {
            Recorded::Child(_) => Some((checkpoint.key, end)),
            Recorded::Step(_) | Recorded::Wait(_) => None,
        },
        RunRecord::Started(_) => None,
    }
}

/// What became of stages that have ended. One page may not hold all of their outputs.
pub(crate) async fn ends_of_stages<B: Browse>(
    browse: &B,
    task: &TaskKey,
    mut missing: Vec<Name>,
) -> Result<StageEnds, Failure> {
    let mut ends = StageEnds::new();
    while !missing.is_empty() {
        let found = browse.records(task, RecordsOf::Keys(&missing), missing.len()).await?;
        let before = ends.len();
        for record in found {
            let RunRecord::Checkpoint { checkpoint, .. } = record else { continue };
            let Recorded::Step(step) = checkpoint.recorded else { continue };
            let end = match step.outcome {
                StepOutcome::Succeeded { result } => Ok(result.as_ref().map(stored_json)),
                StepOutcome::Failed { reason, .. } => Err(reason),
            };
            ends.insert(checkpoint.key, end);
        }
        if ends.len() == before {
            break;
        }
        missing.retain(|key| !ends.contains_key(key));
    }
    Ok(ends)
}
