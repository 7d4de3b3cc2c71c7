//! The sequential model of one task: which answers each call may get, and what it changes.
//!
//! This is the contract in its smallest form, restated on purpose, independently of the rules. It has no time: at any
//! moment a lease may expire and a waiting task may be granted to an unseen worker. Other invariants check that this
//! was not too early.

use std::collections::BTreeMap;

use crate::event::{Answer, Operation, Outcome, State};

/// The state of a task in the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Model {
    pub(crate) phase: Phase,
    pub(crate) attempt: u32,
    pub(crate) is_cancelled: bool,
    pub(crate) submitted: Option<String>,
    /// The report that closed each attempt.
    pub(crate) reports: BTreeMap<u32, Option<String>>,
    pub(crate) output: Option<String>,
    /// Another task asked for this one, and may call it off without a call about it.
    pub(crate) has_parent: bool,
    /// It has a plan, and ends with its steps.
    pub(crate) has_plan: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Absent,
    Waiting,
    Running,
    /// The lease has expired and no sweep has closed it: the task still shows as running.
    Lapsed,
    /// A durable run that waits for something other than a worker.
    Suspended,
    /// Its end is decided, and its children are still to end.
    Closing(State),
    Ended(State),
}

/// A call with its answer, or a lease that it was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) op: Operation,
    pub(crate) answer: Answer,
    pub(crate) code: Option<String>,
    pub(crate) attempt: Option<u32>,
    pub(crate) digest: Option<String>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) state: Option<State>,
    pub(crate) output: Option<String>,
    pub(crate) is_replayed: bool,
    /// A poll that may be retried, or an immediate cancel.
    pub(crate) may_repeat: bool,
    pub(crate) is_forced: bool,
    pub(crate) signals: bool,
    /// Whether the call may end its attempt: it waits or gives the run up to an operator.
    pub(crate) suspends: bool,
    /// Whether a submission has a plan.
    pub(crate) has_plan: bool,
}

impl Model {
    /// States that the task may reach without a call.
    pub(crate) fn by_itself(&self, attempts_max: u32) -> Vec<Model> {
        let mut next = Vec::new();
        match self.phase {
            Phase::Absent | Phase::Ended(_) => {}
            Phase::Closing(state) => next.push(self.with(Phase::Ended(state))),
            Phase::Waiting | Phase::Suspended => {
                if self.has_plan {
                    next.push(self.with(Phase::Ended(State::Succeeded)));
                } else if self.attempt < attempts_max && !self.is_cancelled {
                    next.push(Model { attempt: self.attempt + 1, ..self.with(Phase::Running) });
                }
                next.push(self.with(Phase::Ended(State::Failed)));
                // A child used more than it had.
                next.extend(self.halts());
            }
            Phase::Running => next.push(self.with(Phase::Lapsed)),
            Phase::Lapsed => {
                if !self.is_cancelled {
                    next.push(self.with(Phase::Waiting));
                }
                next.push(self.with(Phase::Ended(State::Failed)));
            }
        }
        let is_open = !matches!(self.phase, Phase::Closing(_) | Phase::Ended(_) | Phase::Absent);
        if is_open && self.has_parent && !self.is_cancelled {
            next.push(Model { is_cancelled: true, ..self.clone() });
        }
        if is_open && self.is_cancelled {
            next.push(self.with(Phase::Ended(State::Cancelled)));
            next.push(self.with(Phase::Ended(State::Failed)));
        }
        next
    }

    fn with(&self, phase: Phase) -> Model {
        Model { phase, ..self.clone() }
    }

    /// Every state in which the task may be after a step; empty if the answer cannot be explained here.
    pub(crate) fn after(&self, step: &Step) -> Vec<Model> {
        match step.answer {
            Answer::Info => self.effects(step),
            Answer::Fail => self.refuses(step),
            Answer::Ok => self.does(step),
        }
    }

    fn does(&self, step: &Step) -> Vec<Model> {
        let fits = |model: &Model| step.state.is_none_or(|state| model.shows(state));
        let next = match step.op {
            Operation::Get => self.is_read_as(step),
            Operation::Submit if step.is_replayed => {
                self.stay(self.phase != Phase::Absent && self.submitted == step.digest)
            }
            Operation::Lease if step.may_repeat && self.holds(step) => vec![self.clone()],
            Operation::Report if step.is_replayed => {
                self.stay(step.attempt.and_then(|a| self.reports.get(&a)) == Some(&step.digest))
            }
            // Its answer is as old as the first call.
            Operation::Checkpoint if step.is_replayed => return self.repeats(step),
            Operation::Heartbeat if step.signals != self.is_cancelled => Vec::new(),
            _ => self.effects(step),
        };
        next.into_iter().filter(fits).collect()
    }

    /// The effects of a call that is accepted.
    fn effects(&self, step: &Step) -> Vec<Model> {
        match step.op {
            Operation::Get | Operation::Administer => vec![self.clone()],
            Operation::Submit if self.phase == Phase::Absent => {
                let has_plan = step.has_plan;
                let phase = if has_plan { Phase::Suspended } else { Phase::Waiting };
                vec![Model { submitted: step.digest.clone(), has_plan, ..self.with(phase) }]
            }
            Operation::Submit => Vec::new(),
            Operation::Lease => self.grant(step),
            Operation::Started | Operation::Heartbeat if self.holds(step) => vec![self.clone()],
            Operation::Started | Operation::Heartbeat => Vec::new(),
            Operation::Checkpoint => self.record(step),
            Operation::Signal | Operation::Resume => self.stay(self.phase != Phase::Absent),
            Operation::Report => self.close(step),
            Operation::Cancel => self.cancel(step),
        }
    }

    /// A repeated call either ended its attempt before, whatever became of the task since, or is under its lease.
    fn repeats(&self, step: &Step) -> Vec<Model> {
        match step.state {
            Some(State::Running) => self.stay(self.holds(step)),
            Some(State::Halted) => self.stay(matches!(
                self.phase,
                Phase::Ended(State::Halted) | Phase::Closing(State::Halted)
            )),
            _ => self.stay(step.suspends && self.phase != Phase::Absent),
        }
    }

    /// A call that records keeps the lease, or ends its attempt because what it waits for is not there.
    fn record(&self, step: &Step) -> Vec<Model> {
        if !self.holds(step) {
            return Vec::new();
        }
        let suspended = step.suspends.then(|| self.with(Phase::Suspended));
        suspended.into_iter().chain([self.clone()]).chain(self.halts()).collect()
    }

    /// What was used crosses a limit. Its worker is told so even if children are still to end.
    fn halts(&self) -> [Model; 2] {
        [Phase::Ended(State::Halted), Phase::Closing(State::Halted)].map(|phase| self.with(phase))
    }

    fn grant(&self, step: &Step) -> Vec<Model> {
        let is_next = step.attempt == Some(self.attempt + 1);
        let is_free = matches!(self.phase, Phase::Waiting | Phase::Suspended);
        if !is_free || self.is_cancelled || !is_next {
            return Vec::new();
        }
        vec![Model { attempt: self.attempt + 1, ..self.with(Phase::Running) }]
    }

    fn close(&self, step: &Step) -> Vec<Model> {
        if !self.holds(step) {
            return Vec::new();
        }
        let mut reports = self.reports.clone();
        reports.insert(self.attempt, step.digest.clone());
        let phase = |phase| Model {
            reports: reports.clone(),
            output: step.digest.clone(),
            ..self.with(phase)
        };
        let ended = |state| [phase(Phase::Ended(state)), phase(Phase::Closing(state))];
        match step.outcome {
            Some(Outcome::Succeeded) | None => {
                ended(State::Succeeded).into_iter().chain(ended(State::Halted)).collect()
            }
            Some(Outcome::Cancelled) => ended(State::Cancelled).to_vec(),
            // A release ends a task only after a cancel, or when there were too many of them.
            Some(_) => {
                let again = Model { reports: reports.clone(), ..self.with(Phase::Waiting) };
                let ends = [State::Failed, State::Cancelled, State::Halted].map(ended);
                let may_retry = !self.is_cancelled;
                ends.into_iter().flatten().chain(may_retry.then_some(again)).collect()
            }
        }
    }

    fn cancel(&self, step: &Step) -> Vec<Model> {
        let asked = Model { is_cancelled: true, ..self.clone() };
        match self.phase {
            Phase::Absent => Vec::new(),
            Phase::Waiting | Phase::Suspended => asked.calls_off(),
            Phase::Running | Phase::Lapsed if step.is_forced => asked.calls_off(),
            Phase::Running | Phase::Lapsed | Phase::Closing(_) => vec![asked],
            Phase::Ended(State::Cancelled) if self.is_cancelled => vec![self.clone()],
            Phase::Ended(_) => Vec::new(),
        }
    }

    /// It is cancelled at once, or as soon as its children have ended.
    fn calls_off(&self) -> Vec<Model> {
        [Phase::Ended(State::Cancelled), Phase::Closing(State::Cancelled)]
            .map(|phase| self.with(phase))
            .to_vec()
    }

    fn refuses(&self, step: &Step) -> Vec<Model> {
        let ended = matches!(self.phase, Phase::Ended(_) | Phase::Closing(_));
        let attempt = step.attempt.unwrap_or(self.attempt);
        match step.code.as_deref() {
            Some("task_not_found" | "run_not_found") => self.stay(self.phase == Phase::Absent),
            Some("attempt_mismatch") => self.stay(attempt != self.attempt),
            Some("task_already_terminal") => self.refuses_terminal(step, ended),
            Some("task_expired") => self.stay(!self.holds(step)),
            Some("attempt_already_completed") => {
                // A checkpoint that suspends its attempt completes it as a report does.
                let is_suspended = self.phase == Phase::Suspended && attempt == self.attempt;
                self.stay(is_suspended || self.reports.contains_key(&attempt))
            }
            Some("conflicting_report") => {
                let reported = self.reports.get(&attempt);
                self.stay(reported.is_some_and(|report| *report != step.digest))
            }
            Some("run_already_terminal") => self.stay(ended),
            Some("idempotency_key_reused") => {
                self.stay(self.phase != Phase::Absent && self.submitted != step.digest)
            }
            // Any other refusal is about the caller, not about the task.
            _ => vec![self.clone()],
        }
    }

    /// A start after a cancel is refused, and ends the task.
    fn refuses_terminal(&self, step: &Step, ended: bool) -> Vec<Model> {
        if step.op == Operation::Started && self.is_cancelled && self.holds(step) {
            return vec![self.with(Phase::Ended(State::Cancelled))];
        }
        self.stay(ended)
    }

    fn holds(&self, step: &Step) -> bool {
        self.phase == Phase::Running && step.attempt.is_none_or(|a| a == self.attempt)
    }

    fn stay(&self, explained: bool) -> Vec<Model> {
        if explained { vec![self.clone()] } else { Vec::new() }
    }

    fn is_read_as(&self, step: &Step) -> Vec<Model> {
        let attempt = step.attempt.is_none_or(|attempt| attempt == self.attempt);
        // The output of a plan is made of those of its steps.
        let output = step.output.is_none() || step.output == self.output || self.has_plan;
        self.stay(self.phase != Phase::Absent && attempt && output)
    }

    /// Whether an answer may show `state` for a task in this state of the model.
    fn shows(&self, state: State) -> bool {
        match self.phase {
            Phase::Absent => false,
            Phase::Waiting => matches!(state, State::Queued | State::Retry),
            Phase::Running | Phase::Lapsed => state == State::Running,
            Phase::Closing(State::Halted) => matches!(state, State::Waiting | State::Halted),
            Phase::Suspended | Phase::Closing(_) => state == State::Waiting,
            Phase::Ended(ended) => state == ended,
        }
    }
}
