//! A golden file: one recorded run as JSON lines, in the shapes of the wire.
//!
//! The first line is the head, then comes each checkpoint in the order of the commits, then the end, then the seal. Each
//! line is an object with one member that says what it is. Files are kept for years, so a member may be added and never
//! changed; anything else is a new format. It says nothing about when a run is replayed or by whom.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use wire::answers::{Checkpoint, Run, RunError};
use wire::{Json, State, Time};

use super::seal::{Key, Seal, Sealed};
use crate::exit::{CliError, Exit};

/// The format that this version writes, and the only one so far.
const FORMAT: u32 = 1;

/// A recorded run.
#[derive(Clone, Debug)]
pub(crate) struct Golden {
    pub(crate) head: Head,
    pub(crate) checkpoints: Vec<Checkpoint>,
    pub(crate) end: End,
}

/// What every attempt of the run was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    pub(crate) format: u32,
    pub(crate) run_id: String,
    pub(crate) task_id: String,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) task_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asset_id: Option<String>,
    #[serde(default)]
    pub(crate) input: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<u64>,
    /// When the coordinator accepted the run: the beginning of the function's own time.
    pub(crate) created_at: Time,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    /// The latest attempt.
    pub(crate) attempt: u32,
    /// The version of the server that had the run.
    pub(crate) server: String,
    /// The version of the program that wrote the file.
    pub(crate) exporter: String,
}

impl Head {
    pub(crate) fn of(run: &Run, seed: Option<u64>, server: String) -> Head {
        Head {
            format: FORMAT,
            run_id: run.run_id.clone(),
            task_id: run.task_id.clone(),
            kind: run.kind.clone(),
            queue: run.queue.clone(),
            task_key: run.task_key.clone().unwrap_or_else(|| run.kind.clone()),
            asset_id: run.asset_id.clone(),
            input: run.input.clone().unwrap_or_default(),
            seed,
            created_at: run.created_at,
            labels: run.labels.clone(),
            attempt: run.attempt,
            server,
            exporter: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// How the run ended, or its state when it was exported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct End {
    pub(crate) state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<RunError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) completed_at: Option<Time>,
    /// How many lines there are between head and end.
    pub(crate) checkpoints: usize,
}

impl End {
    pub(crate) fn of(run: Run, checkpoints: usize) -> End {
        let Run { state, output, error, completed_at, .. } = run;
        End { state, output, error, completed_at, checkpoints }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Head(Head),
    Checkpoint(Checkpoint),
    End(End),
    Seal(Seal),
}

impl Line {
    fn append_to(&self, text: &mut String) {
        text.push_str(&serde_json::to_string(self).expect("lines have string keys"));
        text.push('\n');
    }
}

impl Golden {
    pub(crate) fn to_text(&self, key: Option<&Key>) -> String {
        let mut text = String::new();
        Line::Head(self.head.clone()).append_to(&mut text);
        for checkpoint in &self.checkpoints {
            Line::Checkpoint(checkpoint.clone()).append_to(&mut text);
        }
        Line::End(self.end.clone()).append_to(&mut text);
        let seal = Seal::of(&text, key);
        Line::Seal(seal).append_to(&mut text);
        text
    }

    /// Reads a file and checks its seal. What is unsigned or cannot be checked is for the caller to tell.
    pub(crate) fn read(file: &Path, key: Option<&Key>) -> Result<(Golden, Sealed), CliError> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            let message = format!("cannot read {}: {error}", file.display());
            CliError::new(Exit::Failed, "file_unusable", message)
                .hint("give the path of a file that `tenure export` wrote")
        })?;
        Golden::parse(&text, key).map_err(|problem| problem.cli_error(file))
    }

    fn parse(text: &str, key: Option<&Key>) -> Result<(Golden, Sealed), Problem> {
        let head = first_line(text)?;
        let (before, last) = split_last_line(text).ok_or(Problem::Cut)?;
        let sealed = match serde_json::from_str(last) {
            Ok(Line::Seal(seal)) => seal.check(before, key),
            _ => return Err(Problem::Cut),
        };
        match (sealed, key) {
            (Sealed::Changed, _) => return Err(Problem::Changed),
            (Sealed::Unsigned, Some(_)) => return Err(Problem::Unsigned),
            _ => {}
        }
        let (checkpoints, end) = body(before)?;
        Ok((Golden { head, checkpoints, end }, sealed))
    }
}

/// The format is read before anything else: of another one, nothing else can be understood.
fn first_line(text: &str) -> Result<Head, Problem> {
    #[derive(Deserialize)]
    struct Any {
        head: Format,
    }
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let first = text.lines().next().unwrap_or_default();
    let any: Any = serde_json::from_str(first).map_err(|_| Problem::NotGolden)?;
    if any.head.format != FORMAT {
        return Err(Problem::Format(any.head.format));
    }
    match serde_json::from_str(first) {
        Ok(Line::Head(head)) => Ok(head),
        Ok(_) => Err(Problem::NotGolden),
        Err(error) => Err(Problem::Line(1, error.to_string())),
    }
}

/// Everything before the last line, and that line, which must have its line break.
fn split_last_line(text: &str) -> Option<(&str, &str)> {
    let whole = text.strip_suffix('\n')?;
    let at = whole.rfind('\n')? + 1;
    Some((&text[..at], &whole[at..]))
}

fn body(before: &str) -> Result<(Vec<Checkpoint>, End), Problem> {
    let mut checkpoints: Vec<Checkpoint> = Vec::new();
    let mut end = None;
    for (n, line) in before.lines().enumerate().skip(1) {
        let wrong = |why: &str| Problem::Line(n + 1, why.to_owned());
        match serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))? {
            _ if end.is_some() => return Err(wrong("it comes after the end")),
            Line::Checkpoint(next) => {
                if checkpoints.last().is_some_and(|last| last.number >= next.number) {
                    return Err(wrong("its number does not follow the one before it"));
                }
                checkpoints.push(next);
            }
            Line::End(it) if it.checkpoints != checkpoints.len() => {
                return Err(wrong("it counts other checkpoints than there are"));
            }
            Line::End(it) => end = Some(it),
            Line::Head(_) | Line::Seal(_) => return Err(wrong("it belongs elsewhere")),
        }
    }
    Ok((checkpoints, end.ok_or(Problem::Cut)?))
}

/// Why a file cannot be replayed.
#[derive(Debug, PartialEq, Eq)]
enum Problem {
    NotGolden,
    Format(u32),
    Cut,
    Changed,
    Unsigned,
    Line(usize, String),
}

impl Problem {
    fn cli_error(self, file: &Path) -> CliError {
        let file = file.display();
        match self {
            Problem::NotGolden => CliError::usage(
                "golden_invalid",
                format!("{file} is not a golden file: its first line is not a head"),
            )
            .hint("give files that `tenure export` wrote"),
            Problem::Line(n, why) => CliError::usage(
                "golden_invalid",
                format!("{file} cannot be understood in line {n}: {why}"),
            )
            .hint("export the run again, or use the version of Tenure that wrote the file"),
            Problem::Format(found) => CliError::new(
                Exit::Conflict,
                "golden_format",
                format!("{file} has format {found}, and this version reads format {FORMAT}"),
            )
            .hint("replay it with a newer Tenure, or export the run again"),
            Problem::Cut => CliError::new(
                Exit::Conflict,
                "golden_cut",
                format!("{file} has no seal at its end: a part of it is missing"),
            )
            .hint("copy the file again, or export the run again"),
            Problem::Changed => CliError::new(
                Exit::Conflict,
                "golden_changed",
                format!("{file} is not what was exported, or was signed with another key"),
            )
            .hint("restore the file, export the run again, or give the key that signed it"),
            Problem::Unsigned => CliError::new(
                Exit::Conflict,
                "golden_unsigned",
                format!("{file} is not signed, and a key was given to check it with"),
            )
            .hint("export it again with the key, or replay it without one"),
        }
    }
}

#[cfg(test)]
mod tests;
