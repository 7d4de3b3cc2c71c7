//! Compares what a worker does with what is recorded, and stops at the first difference.
//!
//! A worker that replays is sent every checkpoint, and its engine compares each operation; here only what it adds is left
//! to judge. With `--execute` a worker is sent none, and everything it records is compared here.
//!
//! - Nothing that a worker sends is recorded anywhere.
//! - After the first difference nothing more is compared: what follows it is a consequence.

use std::collections::HashSet;

use tenure::workflow::{Digest, decided_digest};
use wire::answers::{Checkpoint, StartedChild};
use wire::requests::{CheckpointCall, ChildRun, Completed, Diverged, StepRecord, WaitFor};
use wire::{CheckpointOutcome, Json, Outcome, State, StepOutcome, Time};

use super::finding::Finding;
use super::recording::Recording;

/// How much of a value is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// Whether the worker does its steps itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is sent what is recorded.
    Replay,
    /// It is sent nothing, and executes every step.
    Execute,
}

/// What is known in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Same,
    Differs(Finding),
}

/// A call that fits the record: what the worker is answered.
#[derive(Debug)]
pub(super) struct Fits {
    pub(super) recorded_at: Time,
    pub(super) results: Vec<Checkpoint>,
    pub(super) children: Vec<StartedChild>,
}

/// Judges one run.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) recording: Recording,
    mode: Mode,
    /// The keys of steps that the worker recorded.
    seen: HashSet<String>,
    /// The time that the worker was told last.
    at: Time,
}

impl Judge {
    pub(super) fn new(recording: Recording, mode: Mode) -> Judge {
        let at = recording.golden.head.created_at;
        Judge { recording, mode, seen: HashSet::new(), at }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// `Err` is the end of the replay.
    pub(super) fn call(&mut self, call: &CheckpointCall) -> Result<Fits, Judged> {
        if let Some(diverged) = &call.diverged {
            return Err(Judged::Differs(of_worker(diverged)));
        }
        let (children, at) = self.items(&call.steps, &call.children)?;
        self.at = at.unwrap_or(self.at);
        call.wait.as_ref().map_or(Ok(()), |wait| self.same_questions(wait))?;
        let results = match &call.wait {
            None => Vec::new(),
            Some(wait) => match self.recording.satisfied(wait) {
                Some(results) => results,
                None => return Err(self.beyond("a wait", &wait.key)),
            },
        };
        Ok(Fits { recorded_at: self.at, results, children })
    }

    /// The end of the worker's attempt.
    pub(super) fn completed(&mut self, report: &Completed) -> Judged {
        match self.items(&report.steps, &report.children) {
            Err(judged) => judged,
            Ok(_) => self.end(report),
        }
    }

    /// The tasks of the children, and when the last of all items was recorded.
    fn items(
        &mut self,
        steps: &[StepRecord],
        children: &[ChildRun],
    ) -> Result<(Vec<StartedChild>, Option<Time>), Judged> {
        let mut at = None;
        for step in steps {
            at = at.max(Some(self.step(step)?));
        }
        let mut tasks = Vec::new();
        for child in children {
            let (task, started_at) = self.child(child)?;
            tasks.push(task);
            at = at.max(Some(started_at));
        }
        Ok((tasks, at))
    }

    fn step(&mut self, step: &StepRecord) -> Result<Time, Judged> {
        let Some(recorded) = self.recording.step(&step.key) else {
            return Err(self.beyond("a step", &step.key));
        };
        if let Some((recorded, actual)) = difference(recorded, step) {
            let key = step.key.clone();
            return Err(Judged::Differs(Finding::Step { key, recorded, actual }));
        }
        let recorded_at = recorded.recorded_at;
        self.seen.insert(step.key.clone());
        Ok(recorded_at)
    }

    fn child(&self, child: &ChildRun) -> Result<(StartedChild, Time), Judged> {
        let Some(recorded) = self.recording.started_child(&child.key) else {
            return Err(self.beyond("a child", &child.key));
        };
        if let Some((recorded, actual)) = other_input(recorded, child.input_digest.as_deref()) {
            let key = child.key.clone();
            return Err(Judged::Differs(Finding::Step { key, recorded, actual }));
        }
        let task_id = recorded.task_id.clone().unwrap_or_default();
        Ok((StartedChild { key: child.key.clone(), task_id }, recorded.recorded_at))
    }

    /// Whether people are asked about what they decided about.
    fn same_questions(&self, wait: &WaitFor) -> Result<(), Judged> {
        for item in &wait.items {
            let Some(asked) = &item.approval else { continue };
            let Some(told) = self.recording.told(&item.key) else { continue };
            let recorded = decided_digest(told).map(|digest| digest.to_string());
            if recorded != asked.digest {
                let about = |digest: &Option<String>| {
                    format!("about {}", digest.as_deref().unwrap_or("nothing in particular"))
                };
                let (recorded, actual) = (about(&recorded), about(&asked.digest));
                let key = item.key.clone();
                return Err(Judged::Differs(Finding::Step { key, recorded, actual }));
            }
        }
        Ok(())
    }

    /// The worker does something new. Before an engine does so, it has compared everything that is recorded.
    fn beyond(&self, what: &'static str, key: &str) -> Judged {
        if !self.recording.has_own_end() {
            return Judged::Same;
        }
        Judged::Differs(Finding::Unrecorded { what, key: key.to_owned() })
    }

    fn end(&self, report: &Completed) -> Judged {
        let end = &self.recording.golden.end;
        let is_same = match (end.state, report.outcome) {
            _ if !self.recording.has_own_end() => report.outcome != Outcome::Released,
            (State::Succeeded, Outcome::Succeeded) => {
                digest(end.output.as_ref()) == digest(report.output.as_ref())
            }
            (State::Failed, Outcome::Failed) => {
                let category = end.error.as_ref().and_then(|error| error.category);
                category == report.error.as_ref().map(|error| error.category)
            }
            _ => false,
        };
        if !is_same {
            return Judged::Differs(Finding::End {
                recorded: self.recorded_end(),
                actual: said(report),
            });
        }
        match self.left_out() {
            Some(key) => Judged::Differs(Finding::LeftOut { key }),
            None => Judged::Same,
        }
    }

    /// A recorded step that an executing worker did not take.
    fn left_out(&self) -> Option<String> {
        if self.mode == Mode::Replay {
            return None;
        }
        let mut steps = self.recording.succeeded_steps();
        steps.find(|step| !self.seen.contains(&step.key)).map(|step| step.key.clone())
    }

    fn recorded_end(&self) -> String {
        let end = &self.recording.golden.end;
        match &end.error {
            Some(error) => format!("{}: {}", end.state, shown(&crate::runs::reason(error))),
            None => format!("{} with {}", end.state, value(end.output.as_ref())),
        }
    }
}

fn of_worker(diverged: &Diverged) -> Finding {
    let Diverged { branch, index, recorded, actual } = diverged.clone();
    Finding::Diverged { branch, index, recorded, actual }
}

fn difference(recorded: &Checkpoint, step: &StepRecord) -> Option<(String, String)> {
    if let Some(other) = other_input(recorded, step.input_digest.as_deref()) {
        return Some(other);
    }
    let outcome = match step.outcome {
        StepOutcome::Succeeded => CheckpointOutcome::Succeeded,
        StepOutcome::Failed => CheckpointOutcome::Failed,
    };
    let is_same = recorded.outcome == outcome
        && (outcome == CheckpointOutcome::Failed
            || digest(recorded.result.as_ref()) == digest(step.result.as_ref()));
    let describe =
        |outcome: CheckpointOutcome, result: Option<&Json>, error: Option<&str>| match error {
            Some(message) => format!("{outcome}: {}", shown(message)),
            None => format!("{outcome} with {}", value(result)),
        };
    (!is_same).then(|| {
        let error = recorded.error.as_ref().map(|error| error.message.as_str());
        let now = step.error.as_ref().map(|error| error.message.as_str());
        (
            describe(recorded.outcome, recorded.result.as_ref(), error),
            describe(outcome, step.result.as_ref(), now),
        )
    })
}

/// Digests are compared where both sides have one.
fn other_input(recorded: &Checkpoint, actual: Option<&str>) -> Option<(String, String)> {
    let (recorded, actual) = (recorded.input_digest.as_deref()?, actual?);
    let input = |digest: &str| format!("input {digest}");
    (recorded != actual).then(|| (input(recorded), input(actual)))
}

/// Absent and null are the same value.
fn digest(json: Option<&Json>) -> Digest {
    json.map_or_else(|| Digest::of_json(&Json::null()), Digest::of_json)
}

/// A short value as it is; of a long one the digest tells more than its beginning.
fn value(json: Option<&Json>) -> String {
    let text = json.map_or("null", Json::text);
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return text.to_owned();
    }
    format!("{} bytes, SHA-256 {}", text.len(), digest(json))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

fn said(report: &Completed) -> String {
    match &report.error {
        Some(error) => format!("{}: {}, {}", report.outcome, error.category, shown(&error.message)),
        None => format!("{} with {}", report.outcome, value(report.output.as_ref())),
    }
}

#[cfg(test)]
mod tests;
