//! The coverage goals of an exploration: situations that must occur in at least one state.
//!
//! Goals are kept outside the states: reaching one must not make a state different.

use std::sync::atomic::{AtomicBool, Ordering};

use verdict::transition::{PLAIN_ROWS, TABLE, Transition};
use verdict::{Answer, AttemptOutcome, Event, Next, Reason, Refusal, Request, Subject};

use crate::ledger::{Decision, owner};

/// Answers, with the cases of each that a worker or client can distinguish.
const ANSWERS: [&str; 15] = [
    "accepted",
    "accepted again",
    "granted",
    "start acknowledged",
    "alive",
    "alive, told to stop",
    "SUCCEEDED committed",
    "FAILED committed",
    "CANCELLED committed",
    "committed again",
    "cancel accepted",
    "cancel accepted, running",
    "done",
    "nothing",
    "RELEASED committed",
];

const REFUSALS: [&str; 12] = [
    "refused: task not found",
    "refused: unknown lease",
    "refused: worker mismatch",
    "refused: conflicting report",
    "refused: attempt superseded",
    "refused: attempt unknown",
    "refused: task already terminal",
    "refused: attempt already completed",
    "refused: task expired",
    "refused: key reused",
    "refused: run already terminal",
    "refused: history full",
];

/// Situations in which several rules must work together.
const MOMENTS: [&str; 5] = [
    "a late report is refused",
    "a report is refused because the cancel came first",
    "a heartbeat is refused because the lease ran out",
    "a lease is extended after a gap",
    "a lease of an earlier epoch is refused",
];

/// What durable runs add stands at the end of each list; the worlds of runs have goals of their own.
const PLAIN_OUTCOMES: usize = AttemptOutcome::ALL.len() - 2;
const PLAIN_REASONS: usize = Reason::ALL.len() - 12;

const OUTCOMES_AT: usize = PLAIN_ROWS;
const REASONS_AT: usize = OUTCOMES_AT + PLAIN_OUTCOMES;
const ANSWERS_AT: usize = REASONS_AT + PLAIN_REASONS;
const REFUSALS_AT: usize = ANSWERS_AT + ANSWERS.len();
const MOMENTS_AT: usize = REFUSALS_AT + REFUSALS.len();
const COUNT: usize = MOMENTS_AT + MOMENTS.len();

pub struct CoverageGoals([AtomicBool; COUNT]);

impl Default for CoverageGoals {
    fn default() -> Self {
        Self([const { AtomicBool::new(false) }; COUNT])
    }
}

/// The names of all goals.
pub fn all() -> Vec<String> {
    (0..COUNT).map(name).collect()
}

fn name(goal: usize) -> String {
    match goal {
        OUTCOMES_AT..REASONS_AT => {
            format!("attempt ended {}", AttemptOutcome::ALL[goal - OUTCOMES_AT].name())
        }
        REASONS_AT..ANSWERS_AT => format!("because {}", Reason::ALL[goal - REASONS_AT].name()),
        ANSWERS_AT..REFUSALS_AT => ANSWERS[goal - ANSWERS_AT].to_owned(),
        REFUSALS_AT..MOMENTS_AT => REFUSALS[goal - REFUSALS_AT].to_owned(),
        MOMENTS_AT..COUNT => MOMENTS[goal - MOMENTS_AT].to_owned(),
        row => {
            let row = TABLE[row];
            let from = row.from.map_or("(nothing)", verdict::State::name);
            format!("{from} to {}, {}", row.to.name(), row.because)
        }
    }
}

impl CoverageGoals {
    pub fn reached(&self) -> Vec<String> {
        (0..COUNT).filter(|goal| self.0[*goal].load(Ordering::Relaxed)).map(name).collect()
    }

    fn set(&self, goal: usize) {
        // Most goals are already set: reading first keeps the cache line shared between cores.
        if !self.0[goal].load(Ordering::Relaxed) {
            self.0[goal].store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn decided(&self, decision: &Decision<'_>) {
        let answer = &decision.verdict.answer;
        match answer {
            Answer::Refused(refusal) => {
                self.set(REFUSALS_AT + refusal_index(refusal));
                self.moment_of_refusal(decision, refusal);
            }
            answer => self.set(ANSWERS_AT + answer_index(answer)),
        }
        for event in &decision.verdict.events {
            self.event(event);
        }
    }

    fn moment_of_refusal(&self, decision: &Decision<'_>, refusal: &Refusal) {
        let old = decision.request.caller().is_some_and(|caller| caller.epoch < decision.at.epoch);
        let expired = matches!(refusal, Refusal::TaskExpired { .. });
        let superseded = matches!(refusal, Refusal::AttemptSuperseded { .. });
        let cancelled =
            matches!(refusal, Refusal::TaskAlreadyTerminal { state: verdict::State::Cancelled });
        match decision.request {
            Request::Report(_) if expired || superseded => self.set(MOMENTS_AT),
            Request::Report(_) if cancelled => self.set(MOMENTS_AT + 1),
            Request::Heartbeat(_) if expired => self.set(MOMENTS_AT + 2),
            _ => {}
        }
        if expired && old {
            self.set(MOMENTS_AT + 4);
        }
    }

    fn event(&self, event: &Event) {
        match event {
            Event::AttemptClosed { closed, next } => {
                let outcome = AttemptOutcome::ALL.iter().position(|one| *one == closed.outcome);
                self.set(OUTCOMES_AT + outcome.expect("every outcome is listed"));
                self.reason(closed.reason);
                if let Next::End(end) = next {
                    self.reason(end.reason);
                }
            }
            Event::Ended(end) => self.reason(end.reason),
            Event::Extended { .. } => self.set(MOMENTS_AT + 3),
            Event::Submitted(_)
            | Event::Granted { .. }
            | Event::Started
            | Event::Renewed { .. }
            | Event::Stalled { .. }
            | Event::CancelRequested { .. }
            | Event::CancelSignalled
            | Event::Run(_) => {}
        }
    }

    fn reason(&self, reason: Option<Reason>) {
        if let Some(reason) = reason {
            let place = Reason::ALL.iter().position(|one| *one == reason);
            self.set(REASONS_AT + place.expect("every reason is listed"));
        }
    }

    pub(crate) fn changed(&self, decision: &Decision<'_>, after: &Subject) {
        let (from, Some(to)) = (decision.before.state(), after.state()) else { return };
        if from == Some(to) {
            return;
        }
        let owner = owner(decision, to);
        let reason = match after {
            Subject::Done(done) => done.end.reason,
            Subject::Live(_) | Subject::Absent => None,
        };
        let is_it = |row: &Transition| {
            let is_change = row.from == from && row.to == to && row.owner == owner;
            is_change && is_cause(row.because, reason)
        };
        if let Some(row) = TABLE.iter().position(is_it) {
            self.set(row);
        }
    }
}

/// Whether a row of the table is for ends with this reason: sweeps end waiting tasks for several.
fn is_cause(because: &str, reason: Option<Reason>) -> bool {
    match because {
        "undelivered" => reason == Some(Reason::Undelivered),
        "history full" => reason == Some(Reason::HistoryFull),
        "deadline" => reason == Some(Reason::DeadlineExceeded),
        _ => true,
    }
}

fn answer_index(answer: &Answer) -> usize {
    match answer {
        Answer::Accepted { replayed: false, .. } => 0,
        Answer::Accepted { replayed: true, .. } => 1,
        Answer::Granted => 2,
        Answer::Acknowledged => 3,
        Answer::Alive { cancel: None, .. } => 4,
        Answer::Alive { cancel: Some(_), .. } => 5,
        Answer::Committed { replayed: true, .. } => 9,
        Answer::Committed { outcome: AttemptOutcome::Succeeded, .. } => 6,
        Answer::Committed { outcome: AttemptOutcome::Failed, .. } => 7,
        Answer::Committed { outcome: AttemptOutcome::Released, .. } => 14,
        Answer::Committed { .. } => 8,
        Answer::CancelAccepted { state: verdict::State::Running, .. } => 11,
        Answer::CancelAccepted { .. } => 10,
        Answer::Done => 12,
        Answer::Nothing | Answer::Refused(_) => 13,
        Answer::Run(_)
        | Answer::Schedule(_)
        | Answer::Budget(_)
        | Answer::Policy(_)
        | Answer::Recovery(_)
        | Answer::Object(_) => {
            unreachable!("plain tasks get no such answer")
        }
    }
}

fn refusal_index(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::TaskNotFound => 0,
        Refusal::UnknownLease => 1,
        Refusal::WorkerMismatch => 2,
        Refusal::ConflictingReport { .. } => 3,
        Refusal::AttemptSuperseded { .. } => 4,
        Refusal::AttemptUnknown { .. } => 5,
        Refusal::TaskAlreadyTerminal { .. } => 6,
        Refusal::AttemptAlreadyCompleted { .. } => 7,
        Refusal::TaskExpired { .. } => 8,
        Refusal::KeyReused { .. } => 9,
        Refusal::RunAlreadyTerminal { .. } => 10,
        Refusal::HistoryFull { .. } => 11,
        Refusal::QuotaReached { .. } | Refusal::BudgetSpent(_) => {
            unreachable!(
                "quotas and budgets of scopes are looked at beside the rules that are explored here"
            )
        }
        Refusal::FlowLimitConflict { .. } | Refusal::DebounceForbidden { .. } => {
            unreachable!("no task of these worlds has a flow key")
        }
        Refusal::Run(_) | Refusal::Schedule(_) | Refusal::Recovery(_) | Refusal::Topology(_) => {
            unreachable!("plain tasks get no such refusal")
        }
    }
}
