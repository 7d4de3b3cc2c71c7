//! Replays a task's history entry by entry, and compares the result with what is stored.

use std::collections::VecDeque;

use verdict::plan::PlanEvent;
use verdict::request::Outcome;
use verdict::run::{Child, Recorded, RunEvent, Step, StepOutcome, Waiting};
use verdict::{
    ClosedAttempt, Context, Done, End, Event, Moment, Next, Phase, ReadSet, Request, Rules,
    Subject, Task, Time, Verdict, apply_verdict, closed_attempts, decide,
};

use super::flaw::{Flaw, FlawCode};
use super::row_cells::RowCells;
use super::run_check::RunCheck;
use crate::cells::TaskIdentity;
use crate::codec::packed_terms;
use crate::row::{Entry, Renewals, TaskRows};
use crate::tables::{
    Created, DoneRun, DoneState, LiveLease, LiveRun, LiveState, Names, Priority, Terms, long_wait,
};

/// The result of a history, as far as it was read.
pub(super) struct Replay {
    subject: Subject,
    latest: Option<(Time, u32)>,
    next: u32,
    /// Closed attempts that were not yet compared with their rows.
    closed: VecDeque<ClosedAttempt>,
    /// The first attempt that differs from its row.
    other_attempt: Option<String>,
    /// What a durable run recorded.
    run: RunCheck,
    wrong: Vec<Flaw>,
    /// The first entry that cannot be folded.
    broken: Option<String>,
}

impl Replay {
    pub(super) fn new() -> Self {
        Self {
            subject: Subject::Absent,
            latest: None,
            next: 1,
            closed: VecDeque::new(),
            other_attempt: None,
            run: RunCheck::default(),
            wrong: Vec::new(),
            broken: None,
        }
    }

    /// Folds the next entry. After one that does not fit, the rest is ignored.
    pub(super) fn entry(&mut self, entry: &Entry) {
        if self.broken.is_some() {
            return;
        }
        let n = self.next;
        self.next += 1;
        if entry.n != n {
            let broken = format!("history entry {} is in the place of entry {n}", entry.n);
            self.broken = Some(broken);
            return;
        }
        if self.latest.is_some_and(|(at, epoch)| entry.at < at || entry.epoch < epoch) {
            let older = format!("history entry {n} is older than the one before it");
            self.wrong.push(FlawCode::HistoryBroken.flaw(older));
        }
        self.latest = Some((entry.at, entry.epoch));
        if let Err(broken) = self.step(entry) {
            self.broken = Some(broken);
        }
    }

    /// Compares the next attempt row with what the history closed.
    pub(super) fn attempt(&mut self, attempt: &ClosedAttempt) {
        let n = attempt.attempt;
        let other = match self.closed.pop_front() {
            Some(closed) if closed == *attempt => return,
            Some(closed) if closed.attempt == n => {
                format!("its attempt {n} differs from its history")
            }
            Some(closed) => {
                format!("its attempt {n} is in the place of attempt {}", closed.attempt)
            }
            None => format!("its attempt {n} is stored, and its history has no such attempt"),
        };
        self.other_attempt.get_or_insert(other);
    }

    /// Takes the steps of a plan, which are read before the history: they are a payload of the submission.
    pub(super) fn steps(&mut self, part: &TaskRows) {
        self.run.steps(&part.steps);
    }

    /// Compares rows of a durable run with what the history recorded.
    pub(super) fn run_rows(&mut self, part: &TaskRows) {
        if self.broken.is_none() {
            self.run.rows(part);
        }
    }

    /// The children that the task asked for.
    pub(super) fn family(&self) -> impl Iterator<Item = &Child> {
        self.run.family()
    }

    fn step(&mut self, entry: &Entry) -> Result<(), String> {
        if let (Subject::Live(task), Some(loaded)) = (&mut self.subject, &entry.loaded) {
            if loaded.are_behind(task) {
                let forgets = format!("history entry {} lacks what was known before it", entry.n);
                self.wrong.push(FlawCode::HistoryBroken.flaw(forgets));
            }
            loaded.restore(task);
        }
        self.check_fit(entry)?;
        match self.decide_again(entry) {
            Some((verdict, at)) => {
                apply_verdict(&mut self.subject, verdict, at);
            }
            None => {
                let before = std::mem::replace(&mut self.subject, Subject::Absent);
                self.subject = before.settle(&entry.events, entry.at);
            }
        }
        self.closed.extend(closed_attempts(&entry.events).cloned());
        self.run.note(&entry.events);
        Ok(())
    }

    /// The differences between the history and the stored task with its attempts.
    pub(super) fn compare(self, stored: &Subject) -> Vec<Flaw> {
        if let Some(broken) = self.broken {
            return vec![FlawCode::HistoryBroken.flaw(broken)];
        }
        let mut wrong = self.wrong;
        match (stored, &self.subject) {
            (Subject::Live(stored), Subject::Live(folded)) => {
                wrong.extend(compare_live(stored, folded))
            }
            (Subject::Done(stored), Subject::Done(folded)) => {
                wrong.extend(compare_done(stored, folded))
            }
            (stored, folded) => {
                let name =
                    |subject: &Subject| subject.state().map_or("absent", |state| state.name());
                let (stored, folded) = (name(stored), name(folded));
                let what = format!("it is stored as {stored} and its history says {folded}");
                wrong.push(FlawCode::TaskDiffers.flaw(what));
            }
        }
        let unstored = |closed: &ClosedAttempt| {
            format!("its attempt {} is in its history, and its row is missing", closed.attempt)
        };
        let other = self.other_attempt.or_else(|| self.closed.front().map(unstored));
        wrong.extend(other.map(|what| FlawCode::AttemptDiffers.flaw(what)));
        wrong.extend(self.run.end());
        wrong
    }

    /// The fold assumes that events fit; those in a store may not.
    fn check_fit(&self, entry: &Entry) -> Result<(), String> {
        let mut subject = self.subject.clone();
        for event in &entry.events {
            if !self.fits(&subject, event) {
                return Err(format!("history entry {} does not fit the state before it", entry.n));
            }
            subject = subject.settle(std::slice::from_ref(event), entry.at);
        }
        Ok(())
    }

    /// What the rules decide about the entry, if that equals what the entry records.
    fn decide_again(&mut self, entry: &Entry) -> Option<(Verdict, Moment)> {
        // A version that this build does not know can only be folded.
        let rules = Rules::of(entry.rules)?;
        let at = Moment { now: entry.at, epoch: entry.epoch, rules };
        // Only accepted submissions have an entry, and it does not hold how many runs the tenant had. So a submission
        // is decided again without a quota: everything else about it is proved.
        let mut request = with_payloads(entry);
        self.run.restore_steps(&mut request);
        let loaded = self.run.load(&self.subject, &request);
        let context = Context { run: Some(&loaded), ..Context::default() };
        let verdict = decide(ReadSet { subject: &self.subject, context }, &request, at);
        let is_same = verdict.events == entry.events;
        if !is_same {
            let what = format!("the rules decide history entry {} differently", entry.n);
            self.wrong.push(FlawCode::DecisionDiffers.flaw(what));
        }
        (is_same && self.subject.dated(at) == at).then_some((verdict, at))
    }
}

/// A report may be stored without its payloads. No rule reads them, so the recorded ones will do.
fn with_payloads(entry: &Entry) -> Request {
    let mut request = entry.request.clone();
    let Some(report) = request.report_mut() else { return request };
    for event in &entry.events {
        let Event::AttemptClosed { closed, next } = event else { continue };
        report.claims.clone_from(&closed.claims);
        if let Outcome::Succeeded { output } | Outcome::Cancelled { output } = &mut report.outcome
            && let Next::End(end) = next
        {
            output.clone_from(&end.output);
        }
    }
    // What the report of a stage says is in the stage's checkpoint.
    if let Outcome::Succeeded { output } = &mut report.outcome
        && let Some(result) = stage_result(&entry.events)
    {
        *output = result;
    }
    request
}

/// The result of the stage that a report ended, if it ended one well.
fn stage_result(events: &[Event]) -> Option<Option<verdict::Json>> {
    events.iter().find_map(|event| {
        let Event::Run(event) = event else { return None };
        let RunEvent::Checkpointed(checkpoint) = &**event else { return None };
        match &checkpoint.recorded {
            Recorded::Step(Step { outcome: StepOutcome::Succeeded { result }, .. }) => {
                Some(result.clone())
            }
            _ => None,
        }
    })
}

impl Replay {
    /// Whether an event can apply to a task in this state. The fold itself assumes so.
    fn fits(&self, subject: &Subject, event: &Event) -> bool {
        match (subject, event) {
            (Subject::Live(task), Event::Run(event)) => self.run.fits(task, event),
            _ => fits(subject, event),
        }
    }
}

fn is_spawning(event: &RunEvent) -> bool {
    match event {
        RunEvent::Spawned { .. } => true,
        RunEvent::Plan(event) => matches!(**event, PlanEvent::StepSpawned { .. }),
        _ => false,
    }
}

fn fits(subject: &Subject, event: &Event) -> bool {
    let ends_well = |end: &End| end.state.is_terminal();
    match (subject, event) {
        (Subject::Absent, Event::Submitted(_)) => true,
        (Subject::Absent, Event::Run(event)) => is_spawning(event),
        (Subject::Absent | Subject::Done(_), _) | (_, Event::Submitted(_)) => false,
        (Subject::Live(task), Event::Granted { .. }) => task.lease().is_none(),
        (Subject::Live(task), Event::Started | Event::Renewed { .. } | Event::Extended { .. }) => {
            task.lease().is_some()
        }
        (Subject::Live(task), Event::Stalled { .. }) => task.lease().is_some(),
        (Subject::Live(_), Event::CancelRequested { .. }) => true,
        (Subject::Live(task), Event::CancelSignalled) => task.cancel.is_some(),
        (Subject::Live(task), Event::AttemptClosed { next, .. }) => {
            task.lease().is_some()
                && match next {
                    Next::Retry { .. } => true,
                    Next::Stage(turn) => task
                        .stages()
                        .is_some_and(|stages| (turn.stage as usize) < stages.stages.len()),
                    Next::End(end) => ends_well(end),
                    Next::Wait(waiting) => match &**waiting {
                        Waiting::Closing(closing) => ends_well(&closing.end),
                        _ => true,
                    },
                }
        }
        (Subject::Live(_), Event::Ended(end)) => ends_well(end),
        (Subject::Live(_), Event::Run(_)) => true,
    }
}

fn compare_live(stored: &Task, folded: &Task) -> Option<Flaw> {
    let mut folded = folded.clone();
    let renewals = Renewals::of(stored);
    let is_behind = renewals.are_behind(&folded);
    renewals.restore(&mut folded);
    if let (Phase::Running(folded), Phase::Running(stored)) = (&mut folded.phase, &stored.phase) {
        folded.progress.clone_from(&stored.progress);
    }
    let mut names = live_cells(stored).differing(&live_cells(&folded));
    if is_behind {
        names.push("revision");
    }
    let items = |task| long_wait(task).map(|wait| wait.items.clone());
    if items(stored) != items(&folded) {
        names.push("waiting");
    }
    differs(&names)
}

fn live_cells(task: &Task) -> RowCells {
    RowCells::of(|cells| {
        write_identity(cells, &TaskIdentity::live(task));
        Terms::write(cells, Some(&packed_terms::Terms::of(task)));
        LiveState::write(cells, task);
        LiveLease::write(cells, task);
        LiveRun::write(cells, task);
    })
}

fn compare_done(stored: &Done, folded: &Done) -> Option<Flaw> {
    differs(&done_cells(stored).differing(&done_cells(folded)))
}

fn done_cells(done: &Done) -> RowCells {
    RowCells::of(|cells| {
        write_identity(cells, &TaskIdentity::done(done));
        DoneState::write(cells, done);
        DoneRun::write(cells, done.run.as_deref());
    })
}

fn write_identity(cells: &mut RowCells, task: &TaskIdentity<'_>) {
    Names::write(cells, task);
    Priority::write(cells, task.priority);
    Created::write(cells, task.created_at);
}

fn differs(names: &[&str]) -> Option<Flaw> {
    let what = || format!("it differs from its history in {}", names.join(", "));
    (!names.is_empty()).then(|| FlawCode::TaskDiffers.flaw(what()))
}
