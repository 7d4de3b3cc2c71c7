//! Replays golden files: runs as `tenure export` wrote them, against the code of today.
//!
//! Nothing is executed. A file that was cut or changed is refused; what it means for the run is the same as for a real
//! coordinator: the code must ask for what is recorded and end as the run did.

use std::io;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, Waker};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use wire::answers::Checkpoint;
use wire::{Json, State, Time};

use super::FlowTest;
use crate::command::{self, Command, Outcome, Start};
use crate::recorded;
use crate::run::Run;
use crate::stop::Stop;
use crate::{Digest, DigestFn, Failure};

/// Why code does not fit a golden file.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("{path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{path} is not as it was exported: {why}. Export the run again")]
    Damaged { path: PathBuf, why: String },
    #[error("{path}: {why}")]
    Sealed { path: PathBuf, why: String },
    #[error("{path}: {stop}")]
    Stopped { path: PathBuf, stop: Stop },
    #[error("{path}: {difference}")]
    Different { path: PathBuf, difference: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    task_id: String,
    #[serde(default)]
    input: Json,
    #[serde(default)]
    seed: Option<u64>,
    created_at: Time,
    attempt: u32,
}

#[derive(Deserialize)]
struct End {
    state: State,
    #[serde(default)]
    output: Option<Json>,
}

#[derive(Deserialize)]
struct Seal {
    sha256: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Line {
    Head(Head),
    Checkpoint(Box<Checkpoint>),
    End(End),
    Seal(Seal),
}

struct Golden {
    head: Head,
    checkpoints: Vec<Checkpoint>,
    end: Option<End>,
}

/// A golden file with plain payloads.
struct Opened {
    head: Head,
    checkpoints: Vec<command::Checkpoint>,
    end: Option<End>,
}

impl Golden {
    fn opened(self, open: &dyn Fn(Json) -> Result<Json, String>) -> Result<Opened, String> {
        let Golden { mut head, checkpoints, mut end } = self;
        let named = |what: String| move |why: String| format!("{what} {why}");
        head.input = open(head.input).map_err(named("the input".to_owned()))?;
        let mut checkpoints = recorded::checkpoints(checkpoints);
        for recorded in &mut checkpoints {
            let what = format!("what is recorded as `{}`", recorded.key);
            recorded.result = recorded.result.take().map(open).transpose().map_err(named(what))?;
        }
        if let Some(end) = &mut end {
            let output = end.output.take().map(open).transpose();
            end.output = output.map_err(named("the output".to_owned()))?;
        }
        Ok(Opened { head, checkpoints, end })
    }
}

impl FlowTest<'_> {
    /// Replays a golden file, as `tenure export` wrote it, with this function. The input is that of the file.
    pub fn replay(&self, path: impl AsRef<Path>) -> Result<(), ReplayError> {
        self.replay_opened(path.as_ref(), &Ok, None)
    }

    /// The same for a file of payloads that a codec wrote: `open` gives their plain form, or says why it cannot, and
    /// `digest` identifies inputs.
    pub fn replay_opened(
        &self,
        path: &Path,
        open: &dyn Fn(Json) -> Result<Json, String>,
        digest: Option<DigestFn>,
    ) -> Result<(), ReplayError> {
        let unreadable = |source| ReplayError::Unreadable { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let damaged = |why| ReplayError::Damaged { path: path.to_owned(), why };
        let golden = read(&text).map_err(damaged)?;
        let sealed = |why| ReplayError::Sealed { path: path.to_owned(), why };
        let Opened { head, checkpoints, end } = golden.opened(open).map_err(sealed)?;
        let start = Start {
            task_id: head.task_id,
            origin: None,
            fence: u64::from(head.attempt) + 1,
            seed: head.seed.unwrap_or_default(),
            created_at: head.created_at,
            input: head.input,
            checkpoints,
        };
        let mut run = Run::with_digest(start, self.function.clone(), digest);
        let command = match run.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(command)) => Some(command),
            Poll::Ready(Err(stop)) => {
                return Err(ReplayError::Stopped { path: path.to_owned(), stop });
            }
            Poll::Pending => None,
        };
        let different = |difference| ReplayError::Different { path: path.to_owned(), difference };
        compare(command, end).map_err(different)
    }
}

fn read(text: &str) -> Result<Golden, String> {
    let Some((body, last)) = text.trim_end_matches('\n').rsplit_once('\n') else {
        return Err("it has no seal".to_owned());
    };
    let body = &text[..body.len() + 1];
    let seal = match serde_json::from_str(last) {
        Ok(Line::Seal(seal)) => seal,
        _ => return Err("its last line is no seal".to_owned()),
    };
    if Digest::from_bytes(Sha256::digest(body).into()).to_string() != seal.sha256 {
        return Err("its seal is that of another text".to_owned());
    }
    let (mut head, mut checkpoints, mut end) = (None, Vec::new(), None);
    for (number, line) in body.lines().enumerate() {
        let line = serde_json::from_str(line);
        match line.map_err(|error| format!("line {}: {error}", number + 1))? {
            Line::Head(found) => head = Some(found),
            Line::Checkpoint(found) => checkpoints.push(*found),
            Line::End(found) => end = Some(found),
            Line::Seal(_) => return Err(format!("line {} is a second seal", number + 1)),
        }
    }
    let head = head.ok_or_else(|| "it has no head".to_owned())?;
    Ok(Golden { head, checkpoints, end })
}

/// The first command of a replay is the end of the run, or the run was not over.
fn compare(command: Option<Command>, end: Option<End>) -> Result<(), String> {
    let outcome = match end.as_ref().map(|end| end.state) {
        Some(State::Succeeded) => Outcome::Succeeded,
        Some(State::Failed) => Outcome::Failed,
        _ => {
            let is_over = matches!(command, Some(Command::Complete(_)));
            return if is_over {
                Err("the code ends where the run went on".to_owned())
            } else {
                Ok(())
            };
        }
    };
    let report = match command {
        Some(Command::Complete(report)) => report,
        Some(Command::Execute { key, .. }) => {
            return Err(format!("the code executes `{key}` after the recorded end"));
        }
        _ => return Err("the code goes on after the recorded end".to_owned()),
    };
    let more = report.steps.iter().map(|step| &step.key);
    if let Some(key) = more.chain(report.children.iter().map(|child| &child.key)).next() {
        return Err(format!("the code records `{key}`, which the run did not"));
    }
    if report.outcome != outcome {
        let why = report.error.as_ref().map(Failure::to_string).unwrap_or_default();
        return Err(format!("recorded {outcome:?}, now {:?} {why}", report.outcome));
    }
    let digest = |output: Option<Json>| Digest::of_json(&output.unwrap_or_default());
    let recorded = end.and_then(|end| end.output);
    if outcome == Outcome::Succeeded && digest(recorded) != digest(report.output) {
        return Err("the code returns another output than the recorded one".to_owned());
    }
    Ok(())
}
