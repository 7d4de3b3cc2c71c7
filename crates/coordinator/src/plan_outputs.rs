//! What the steps of a plan returned: the checkpoints of stages, and the ends of children under a root.
//!
//! Read beside the batches, for inputs, contents and conditions that refer to earlier steps. Nothing here changes: what is read has
//! ended. Outputs are kept only of the steps that are asked for, and no more than [`OUTPUTS_BYTES_MAX`] of them.

use std::collections::{BTreeSet, HashMap};

use store::{Browse, Failure, RecordsOf, RunRecord, TaskKey};
use verdict::run::{Recorded, StepOutcome};
use verdict::{End, Name, Text};
use wire::limits::PAYLOAD_BYTES_MAX;

/// The outputs that are in memory for one step that refers to them: what 32 of the largest size have.
pub(crate) const OUTPUTS_BYTES_MAX: usize = 32 * PAYLOAD_BYTES_MAX;

/// What is asked of a plan's earlier steps.
pub(crate) struct Wanted {
    pub(crate) names: Vec<Name>,
    /// The names of which the output is wanted, too.
    pub(crate) outputs: BTreeSet<Name>,
}

#[cfg(feature = "http")]
impl Wanted {
    pub(crate) fn outputs_of(names: BTreeSet<Name>) -> Self {
        Self { names: names.iter().cloned().collect(), outputs: names }
    }
}

/// How steps ended.
pub(crate) enum Ends<T> {
    Found {
        ends: HashMap<Name, T>,
        /// What was read for it.
        bytes: usize,
    },
    /// The outputs have more than [`OUTPUTS_BYTES_MAX`].
    TooLarge,
}

impl<T> Ends<T> {
    pub(crate) fn map<U>(self, change: impl Fn(T) -> U) -> Ends<U> {
        match self {
            Ends::Found { ends, bytes } => {
                let ends = ends.into_iter().map(|(name, end)| (name, change(end))).collect();
                Ends::Found { ends, bytes }
            }
            Ends::TooLarge => Ends::TooLarge,
        }
    }
}

/// What stages recorded: the output, or the failure's reason.
pub(crate) type StageEnd = Result<Option<wire::Json>, Option<Text>>;

/// Only valid JSON is ever stored.
pub(crate) fn stored_json(json: &verdict::Json) -> wire::Json {
    wire::Json::from_text(json.as_str().to_owned()).expect("only valid JSON is ever stored")
}

/// How children of a root ended. One page may not hold all of them.
pub(crate) async fn ends_of_steps<B: Browse>(
    browse: &B,
    root: &TaskKey,
    Wanted { names: mut missing, outputs }: Wanted,
) -> Result<Ends<End>, Failure> {
    let (mut ends, mut bytes, mut kept) = (HashMap::new(), 0, 0);
    while !missing.is_empty() {
        // A child that has ended has two records.
        let limit = missing.len() * 2;
        let found = browse.records(root, RecordsOf::Keys(&missing), limit).await?;
        let ended: Vec<(Name, Option<End>)> = found.into_iter().filter_map(ended_child).collect();
        if ended.is_empty() {
            break;
        }
        missing.retain(|key| !ended.iter().any(|(ended, _)| ended == key));
        for (key, end) in ended {
            let Some(mut end) = end else { continue };
            let length = end.output.as_ref().map_or(0, |output| output.as_str().len());
            bytes += length;
            match outputs.contains(&key) {
                true => kept += length,
                false => end.output = None,
            }
            ends.insert(key, end);
        }
        if kept > OUTPUTS_BYTES_MAX {
            return Ok(Ends::TooLarge);
        }
    }
    Ok(Ends::Found { ends, bytes })
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
    Wanted { names: mut missing, outputs }: Wanted,
) -> Result<Ends<StageEnd>, Failure> {
    let (mut ends, mut bytes, mut kept) = (HashMap::new(), 0, 0);
    while !missing.is_empty() {
        let found = browse.records(task, RecordsOf::Keys(&missing), missing.len()).await?;
        let before = ends.len();
        for record in found {
            let RunRecord::Checkpoint { checkpoint, .. } = record else { continue };
            let Recorded::Step(step) = checkpoint.recorded else { continue };
            let end = match step.outcome {
                StepOutcome::Succeeded { result } => {
                    let length = result.as_ref().map_or(0, |output| output.as_str().len());
                    bytes += length;
                    let is_wanted = outputs.contains(&checkpoint.key);
                    kept += if is_wanted { length } else { 0 };
                    Ok(result.filter(|_| is_wanted).as_ref().map(stored_json))
                }
                StepOutcome::Failed { reason, .. } => Err(reason),
            };
            ends.insert(checkpoint.key, end);
        }
        if kept > OUTPUTS_BYTES_MAX {
            return Ok(Ends::TooLarge);
        }
        if ends.len() == before {
            break;
        }
        missing.retain(|key| !ends.contains_key(key));
    }
    Ok(Ends::Found { ends, bytes })
}

/// What is said of a step whose [`Ends`] are too large.
pub(crate) fn too_large() -> String {
    format!(
        "the outputs that it refers to have more than {OUTPUTS_BYTES_MAX} bytes together; refer to fewer of them"
    )
}
