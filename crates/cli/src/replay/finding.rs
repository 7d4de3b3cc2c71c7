//! What a replay found: the first difference of a run, or why there was no replay.

use serde_json::{Value, json};

/// Why a run did not replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The engine of the worker found another operation than the recorded one.
    Diverged { branch: String, index: u32, recorded: String, actual: String },
    /// A step or child of the same key, with another input or result.
    Step { key: String, recorded: String, actual: String },
    /// Something new in a run whose end is recorded.
    Unrecorded { what: &'static str, key: String },
    /// A recorded step that the worker did not take.
    LeftOut { key: String },
    /// Another end.
    End { recorded: String, actual: String },
    /// The worker asked for other work only.
    NotTaken { kind: String, queue: String, asked: Vec<String> },
    /// The worker did nothing more about it.
    Silent { was_leased: bool, span: String },
    /// The worker ended first.
    Exited { how: String },
}

impl Finding {
    /// One sentence.
    pub(super) fn sentence(&self) -> String {
        match self {
            Finding::Diverged { .. } => "the code does not fit the record".to_owned(),
            Finding::Step { key, .. } => format!("{key} is not what was recorded"),
            Finding::Unrecorded { what, key } => {
                format!("the code goes on with {what} that the record does not have: {key}")
            }
            Finding::LeftOut { key } => format!("the code ended without the recorded step {key}"),
            Finding::End { .. } => "the run ends in another way".to_owned(),
            Finding::NotTaken { kind, queue, asked } => format!(
                "the worker does not ask for {kind} on {queue}; it asks for {}",
                asked.join("; ")
            ),
            Finding::Silent { was_leased: true, span } => {
                format!("the worker took the run and did nothing more for {span}")
            }
            Finding::Silent { was_leased: false, span } => {
                format!("the worker asked for no work for {span}")
            }
            Finding::Exited { how } => format!("the worker ended before the run did: {how}"),
        }
    }

    /// Names and values for people, one per line.
    pub(super) fn details(&self) -> Vec<(&'static str, String)> {
        let compared = |recorded: &String, actual: &String| {
            vec![("recorded", recorded.clone()), ("now", actual.clone())]
        };
        match self {
            Finding::Diverged { branch, index, recorded, actual } => {
                let branch = if branch.is_empty() { "the function's own" } else { branch };
                let place = [("branch", branch.to_owned()), ("index", index.to_string())];
                place.into_iter().chain(compared(recorded, actual)).collect()
            }
            Finding::Step { recorded, actual, .. } | Finding::End { recorded, actual } => {
                compared(recorded, actual)
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let (word, key) = match self {
            Finding::Diverged { .. } => ("diverged", None),
            Finding::Step { key, .. } => ("otherStep", Some(key)),
            Finding::Unrecorded { key, .. } => ("unrecorded", Some(key)),
            Finding::LeftOut { key } => ("leftOut", Some(key)),
            Finding::End { .. } => ("otherEnd", None),
            Finding::NotTaken { .. } => ("notTaken", None),
            Finding::Silent { .. } => ("silent", None),
            Finding::Exited { .. } => ("exited", None),
        };
        let mut found = json!({"finding": word, "message": self.sentence()});
        if let Some(key) = key {
            found["key"] = json!(key);
        }
        if let Finding::Diverged { branch, index, .. } = self {
            found["branch"] = json!(branch);
            found["index"] = json!(index);
        }
        if let Finding::Diverged { recorded, actual, .. }
        | Finding::Step { recorded, actual, .. }
        | Finding::End { recorded, actual } = self
        {
            found["recorded"] = json!(recorded);
            found["actual"] = json!(actual);
        }
        found
    }
}
