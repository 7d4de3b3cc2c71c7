//! The records of a durable run: folded from its history, and compared with their rows.
//!
//! Results are compared by their digests, so that a run with many large results takes little memory.

use std::collections::BTreeMap;

use verdict::plan::{Blame, PlanEvent, PlanForm, PlanRequest, PlanState, PlanStep};
use verdict::run::{
    Checkpoint, Child, Loaded, Recorded, Records, RunEvent, RunRequest, Signal, Waiting,
};
use verdict::{Digest, Event, Json, Name, Phase, Request, Subject, Task};

use super::flaw::{Flaw, FlawCode};
use crate::row::TaskRows;
use crate::runs::StoredStep;
use crate::tables::with_result;

/// What the history recorded so far, and what its rows were found to be.
#[derive(Default)]
pub(super) struct RunCheck {
    records: Records,
    children: u64,
    signals: u64,
    /// The digest of each signal, also of those that were taken since.
    received: BTreeMap<u32, Digest>,
    checkpoint_rows: u64,
    child_rows: u64,
    signal_rows: u64,
    pending_rows: u64,
    /// The steps of the plan in order, and what each of them is stored to wait for.
    steps: Vec<PlanStep>,
    counts: BTreeMap<Name, (u32, Option<Blame>)>,
    /// How many steps the plan has that was submitted.
    planned: u64,
    differing: Vec<String>,
}

impl RunCheck {
    /// What a store loads to decide this request.
    pub(super) fn load(&self, subject: &Subject, request: &Request) -> Loaded {
        self.records.load(subject, request)
    }

    /// Takes stored steps, which are read in order and before the history.
    pub(super) fn steps(&mut self, rows: &[StoredStep]) {
        for row in rows {
            if row.place as usize != self.steps.len() {
                self.differing.push(format!("step {}", row.key()));
            }
            self.counts.insert(row.key().clone(), (row.missing, row.blame.clone()));
            self.steps.push(row.step.clone());
        }
    }

    /// The request of a submission is stored without its steps.
    pub(super) fn restore_steps(&mut self, request: &mut Request) {
        let Request::Run(run) = request else { return };
        let RunRequest::Plan(PlanRequest::Submit(submit)) = &mut **run else { return };
        if let PlanForm::Steps { count, .. } = submit.form {
            self.planned = u64::from(count);
            submit.steps = self.steps.as_slice().into();
            self.records.put_steps(&self.steps);
        }
    }

    pub(super) fn note(&mut self, events: &[Event]) {
        for event in events {
            let Event::Run(event) = event else { continue };
            match &**event {
                RunEvent::ChildSpawned(_) | RunEvent::ChildInherited(_) => self.children += 1,
                RunEvent::Plan(event) => {
                    if let PlanEvent::StepsSpawned(steps) = &**event {
                        self.children += steps.len() as u64;
                    }
                }
                RunEvent::SignalReceived(signal) => {
                    self.signals += 1;
                    self.received.insert(signal.number, signal_digest(signal));
                }
                _ => {}
            }
            let shortened = Event::Run(Box::new(shortened((**event).clone())));
            self.records.note(std::slice::from_ref(&shortened));
        }
    }

    /// Compares a page of rows. All entries were noted before.
    pub(super) fn rows(&mut self, part: &TaskRows) {
        for row in &part.checkpoints {
            self.checkpoint_rows += 1;
            let recorded = self.records.checkpoint(&row.key);
            if recorded != Some(&with_digest(row.clone())) {
                self.differing.push(format!("checkpoint {}", row.number));
            }
        }
        for row in &part.children {
            self.child_rows += 1;
            if self.records.child(&row.child.key) != Some(&row.child) {
                self.differing.push(format!("child {}", row.child.key));
            }
        }
        for row in &part.signals {
            self.signal_rows += 1;
            self.pending_rows += u64::from(!row.is_taken);
            let number = row.signal.number;
            let is_pending = self.records.pending().any(|signal| signal.number == number);
            let is_same = self.received.get(&number) == Some(&signal_digest(&row.signal));
            if !is_same || is_pending == row.is_taken {
                self.differing.push(format!("signal {number}"));
            }
        }
    }

    /// The differences.
    pub(super) fn end(mut self) -> Vec<Flaw> {
        for row in self.records.plan().rows() {
            let key = &row.step.child.key;
            if self.counts.get(key) != Some(&(row.missing, row.blame.clone())) {
                self.differing.push(format!("step {key}"));
            }
        }
        let flaw = |what: String| FlawCode::StepDiffers.flaw(what);
        let differs = |what| flaw(format!("its {what} differs from its history"));
        let mut wrong: Vec<Flaw> = self.differing.iter().take(WRONG_MAX).map(differs).collect();
        let counts = [
            ("checkpoints", self.records.checkpoints().count() as u64, self.checkpoint_rows),
            ("children", self.children, self.child_rows),
            ("signals", self.signals, self.signal_rows),
            ("steps", self.planned, self.steps.len() as u64),
            ("pending signals", self.records.pending().count() as u64, self.pending_rows),
        ];
        let missing = counts.iter().filter(|(_, recorded, rows)| recorded != rows);
        wrong.extend(missing.map(|(what, recorded, rows)| {
            flaw(format!("its history has {recorded} {what} and {rows} are stored"))
        }));
        wrong
    }

    pub(super) fn family(&self) -> impl Iterator<Item = &Child> {
        self.records.children()
    }

    /// Whether an event of a durable run can apply to this task. The fold itself assumes so.
    pub(super) fn fits(&self, task: &Task, event: &RunEvent) -> bool {
        match event {
            RunEvent::Spawned { .. } => false,
            RunEvent::Plan(event) => match &**event {
                PlanEvent::Planned(PlanForm::Stages { stages, .. }) => {
                    let is_new = task.plan().is_none() && task.attempt == 0;
                    is_new && task.claimable_at().is_some() && !stages.is_empty()
                }
                PlanEvent::StageEntered(turn) => {
                    let stages = task.stages().filter(|_| task.lease().is_none());
                    stages.is_some_and(|it| (turn.stage as usize) < it.stages.len())
                }
                PlanEvent::Planned(PlanForm::Steps { count, .. }) => {
                    task.plan().is_none() && task.claimable_at().is_some() && *count > 0
                }
                PlanEvent::StepsSpawned(steps) => task.plan_root().is_some_and(|root| {
                    steps.len() as u64 <= u64::from(root.steps.saturating_sub(root.spawned))
                }),
                PlanEvent::StepBlamed(_) | PlanEvent::DownstreamsTold { .. } => {
                    task.plan_root().is_some()
                }
                PlanEvent::Released { .. } => matches!(task.plan(), Some(PlanState::Step(_))),
                PlanEvent::Prepared { .. } => task.preparing().is_some(),
                PlanEvent::DoneBy(_) => {
                    matches!(task.plan(), Some(PlanState::Step(_) | PlanState::Root(_)))
                }
                PlanEvent::StepSpawned { .. } => false,
            },
            RunEvent::Budget(_) => task.balance().is_some(),
            RunEvent::Checkpointed(checkpoint) => self.fits_checkpoint(task, checkpoint),
            RunEvent::ChildInherited(_) | RunEvent::Forked { .. } => task.attempt == 0,
            RunEvent::ChildSpawned(_)
            | RunEvent::SignalReceived(_)
            | RunEvent::ApprovalOpened(_) => true,
            RunEvent::ApprovalVoted { number, .. } | RunEvent::ApprovalClosed { number, .. } => {
                task.run.as_ref().is_some_and(|run| run.approvals.find(*number).is_some())
            }
            RunEvent::WaitAdvanced { .. } => is_waiting(task, |it| matches!(it, Waiting::For(_))),
            RunEvent::Closing(end, _) => end.state.is_terminal(),
            RunEvent::ChildrenCancelled { .. } | RunEvent::Hastened => task.closing().is_some(),
            RunEvent::BuildNoted(_) => task.lease().is_some() && task.pin().is_none(),
            RunEvent::Unpinned => task.pin().is_some(),
            RunEvent::Resumed => is_waiting(task, |it| matches!(it, Waiting::Diverged(_))),
        }
    }

    fn fits_checkpoint(&self, task: &Task, checkpoint: &Checkpoint) -> bool {
        match &checkpoint.recorded {
            Recorded::Step(_) => true,
            Recorded::Wait(wait) => {
                let counts = task.run.as_ref().map_or_else(Default::default, |run| run.signals);
                let bytes: u64 = wait.taken.iter().map(|taken| u64::from(taken.bytes)).sum();
                wait.taken.len() as u64 <= u64::from(counts.pending)
                    && bytes <= u64::from(counts.pending_bytes)
            }
            Recorded::Child(_) => {
                let child = self.records.child(&checkpoint.key);
                task.live_children() > 0 && child.is_some_and(|child| child.end.is_none())
            }
        }
    }
}

/// A store with this many differing rows of one task needs a backup, not a longer list.
const WRONG_MAX: usize = 20;

fn is_waiting(task: &Task, is_so: impl Fn(&Waiting) -> bool) -> bool {
    matches!(&task.phase, Phase::Waiting(waiting) if is_so(waiting))
}

fn shortened(event: RunEvent) -> RunEvent {
    match event {
        RunEvent::Checkpointed(checkpoint) => {
            RunEvent::Checkpointed(Box::new(with_digest(*checkpoint)))
        }
        event => event,
    }
}

/// The checkpoint with the digest of its result. A history whose row has another result keeps the digest itself.
fn with_digest(checkpoint: Checkpoint) -> Checkpoint {
    let digest = crate::tables::result_of(&checkpoint.recorded).map(digest_of);
    let recorded = with_result(checkpoint.recorded, digest);
    Checkpoint { recorded, ..checkpoint }
}

fn signal_digest(signal: &Signal) -> Digest {
    let Signal { number, name, key, payload, digest } = signal;
    let key = key.as_ref().map(|key| [b"key ", key.as_str().as_bytes()].concat());
    let payload =
        payload.as_ref().map(|payload| [b"payload ", payload.as_str().as_bytes()].concat());
    Digest::of(&[
        &number.to_be_bytes(),
        name.as_str().as_bytes(),
        &key.unwrap_or_default(),
        &payload.unwrap_or_default(),
        digest.bytes(),
    ])
}

fn digest_of(result: &Json) -> Json {
    if crate::codec::payload_digest::is_digest(result) {
        return result.clone();
    }
    Json::from(format!("{{\"sha256\":\"{}\"}}", Digest::of(&[result.as_str().as_bytes()])))
}
