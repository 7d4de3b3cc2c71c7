//! A candidate: what failed alike, what is to be done about it, and what was done.
//!
//! ```text
//!   pending ──► executing ──► succeeded, failed
//!    │  │  └──► succeeded (notified), skipped
//!    │  └─────► escalated ──► the same, by people (an approval)
//!    └────────► failed (the evaluation ended without an action), expired
//! ```
//!
//! The same object serves a signature for good: once it is closed, the next failure opens it again, as long as attempts are left.

use super::{
    AUTOMATIC_MIN, Action, Evaluator, FailedRun, OutOfScope, QUIET, Question, RecoveryPolicy,
    RecoveryRefusal, Signature, Suggestion, Terms,
};
use crate::id::{Name, TaskId, Text};
use crate::time::{Span, Time};

/// The most runs that a candidate names as examples: a screen; notes name the others.
const SAMPLES_MAX: usize = 10;

/// How long a failure waits while what was decided about its like is carried out.
const EXECUTING_PAUSE: Span = Span::from_secs(5);

/// Owns the state of candidates (S2-17). It can make candidates and nothing else: no function of this module takes or returns a
/// task, and the owners of transitions of tasks are types that it cannot construct (S2-18).
#[derive(Clone, Copy)]
pub(super) struct Recovery(());

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CandidateState {
    /// Waits for its evaluation, or is being evaluated.
    Pending,
    /// Waits for people.
    Escalated,
    /// Runs are being submitted.
    Executing,
    /// What was decided is done.
    Succeeded,
    /// No run could be submitted, or the evaluation ended without an action.
    Failed,
    Skipped,
    /// Its time was over before it was decided or done.
    Expired,
    /// It has no attempts left; further failures are counted.
    Exhausted,
}

impl CandidateState {
    pub const ALL: [CandidateState; 8] = [
        CandidateState::Pending,
        CandidateState::Escalated,
        CandidateState::Executing,
        CandidateState::Succeeded,
        CandidateState::Failed,
        CandidateState::Skipped,
        CandidateState::Expired,
        CandidateState::Exhausted,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            CandidateState::Pending => "pending",
            CandidateState::Escalated => "escalated",
            CandidateState::Executing => "executing",
            CandidateState::Succeeded => "succeeded",
            CandidateState::Failed => "failed",
            CandidateState::Skipped => "skipped",
            CandidateState::Expired => "expired",
            CandidateState::Exhausted => "exhausted",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    pub const fn is_live(self) -> bool {
        matches!(
            self,
            CandidateState::Pending | CandidateState::Escalated | CandidateState::Executing
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub signature: Signature,
    /// The policy under which it was opened last.
    pub policy: Name,
    pub state: CandidateState,
    pub first_at: Time,
    pub last_at: Time,
    /// How many runs failed so.
    pub count: u64,
    /// How often it was opened since its signature was quiet.
    pub attempts: u32,
    /// How many runs were submitted for it.
    pub forked: u64,
    /// The latest failures, in order.
    pub samples: Vec<Sample>,
    /// The last time that it was opened.
    pub round: Round,
}

/// One opening of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Round {
    /// The task that evaluates it.
    pub task: TaskId,
    pub opened_at: Time,
    pub expires_at: Time,
    /// How many failed runs it is about.
    pub runs: u64,
    pub suggestion: Suggestion,
    pub chosen: Option<Chosen>,
    /// What people were asked last.
    pub question: Option<Question>,
    pub forked: u32,
    pub refused: u32,
    /// The code of the last refusal.
    pub last_refusal: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chosen {
    pub action: Action,
    pub at: Time,
    /// The API key of the person; `None` if an evaluation chose, or time did.
    pub by: Option<Name>,
    pub comment: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sample {
    pub run: TaskId,
    pub at: Time,
    pub message: Text,
}

/// What becomes of a failure whose signature is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It opens the candidate: an evaluation is to be submitted.
    Opens,
    /// It joins those that the candidate is about.
    Joins,
    /// It is looked at again then.
    Waits(Time),
    /// It is counted, and nothing else.
    Counts,
}

/// Who names an action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Decider {
    /// The holder of the evaluation's lease, with how sure it says it is, in thousandths.
    Evaluation { by: Evaluator, confidence: Option<u16> },
    /// A person, by API key.
    Person(Name),
}

impl Decider {
    /// Whether it is an evaluation of one evaluator while the policy trusts another: it was queued before the policy changed.
    fn is_replaced(&self, terms: &Terms) -> bool {
        match self {
            Decider::Evaluation { by, .. } => *by != terms.evaluator,
            Decider::Person(_) => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    pub action: Action,
    pub decider: Decider,
    /// What people are asked about, where they are to decide.
    pub propose: Option<Action>,
    pub comment: Option<Text>,
}

/// What became of one failed run that was to be submitted again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ForkOutcome {
    Forked(TaskId),
    /// With the code of the refusal.
    Refused(Name),
}

impl Candidate {
    /// What becomes of a failure of the signature that this candidate is for.
    pub fn standing(found: Option<&Candidate>, terms: &Terms, now: Time) -> Standing {
        let Some(candidate) = found else { return Standing::Opens };
        match candidate.state {
            CandidateState::Pending | CandidateState::Escalated => Standing::Joins,
            // A run of this very round may fail again: it must not join it.
            CandidateState::Executing => Standing::Waits(now.plus(EXECUTING_PAUSE)),
            _ if candidate.is_quiet(now) || candidate.attempts < terms.attempts => Standing::Opens,
            _ => Standing::Counts,
        }
    }

    fn is_quiet(&self, now: Time) -> bool {
        self.last_at.plus(QUIET).has_come(now)
    }

    /// Failures open the candidate of their signature, for the first time or again. `task` is its evaluation.
    ///
    /// # Panics
    /// Without a failure: nothing opens a candidate but a failure.
    pub fn opened(
        found: Option<Candidate>,
        failed: &[FailedRun],
        policy: &RecoveryPolicy,
        task: TaskId,
        now: Time,
    ) -> Self {
        let first = failed.first().expect("a failure opens a candidate");
        let signature = Signature::of(first);
        let was_quiet = found.as_ref().is_some_and(|candidate| candidate.is_quiet(now));
        let before = found.as_ref().map_or(0, |candidate| candidate.attempts);
        let attempts = if was_quiet { 1 } else { before + 1 };
        let round = Round {
            task,
            opened_at: now,
            expires_at: now.plus(policy.terms.expires),
            runs: 0,
            suggestion: Suggestion::of(&signature, 0, attempts, &policy.terms),
            chosen: None,
            question: None,
            forked: 0,
            refused: 0,
            last_refusal: None,
        };
        let candidate = Self {
            signature,
            policy: policy.name.clone(),
            state: CandidateState::Pending,
            first_at: found.as_ref().map_or(first.failed_at, |it| it.first_at),
            last_at: now,
            count: found.as_ref().map_or(0, |it| it.count),
            attempts,
            forked: found.as_ref().map_or(0, |it| it.forked),
            samples: found.map_or_else(Vec::new, |it| it.samples),
            round,
        };
        candidate.joined(failed, &policy.terms, now)
    }

    /// More failures of the kind that it is about.
    #[must_use]
    pub fn joined(mut self, failed: &[FailedRun], terms: &Terms, now: Time) -> Self {
        self.note(failed, now);
        self.round.runs += failed.len() as u64;
        self.round.suggestion =
            Suggestion::of(&self.signature, self.round.runs, self.attempts, terms);
        self
    }

    /// Failures that nothing is done about.
    #[must_use]
    pub fn counted(mut self, failed: &[FailedRun], now: Time) -> Self {
        self.note(failed, now);
        self.in_state(CandidateState::Exhausted)
    }

    fn note(&mut self, failed: &[FailedRun], now: Time) {
        self.count += failed.len() as u64;
        self.last_at = self.last_at.max(now);
        let sample =
            |it: &FailedRun| Sample { run: it.run, at: it.failed_at, message: it.message.clone() };
        self.samples.extend(failed.iter().map(sample));
        let surplus = self.samples.len().saturating_sub(SAMPLES_MAX);
        self.samples.drain(..surplus);
    }

    /// What was named becomes what is done, if the policy as it is now allows it.
    pub fn decided(
        self,
        decision: Decision,
        policy: Option<&RecoveryPolicy>,
        now: Time,
    ) -> Result<Self, RecoveryRefusal> {
        self.check(&decision, policy, now)?;
        let Decision { action, decider, propose: _, comment } = decision;
        let by = match decider {
            Decider::Evaluation { .. } => None,
            Decider::Person(key) => Some(key),
        };
        Ok(self.chosen(Chosen { action, at: now, by, comment }))
    }

    /// Whether what is named may be done: something is open to be decided, and the policy as it is now allows it.
    pub fn check(
        &self,
        decision: &Decision,
        policy: Option<&RecoveryPolicy>,
        now: Time,
    ) -> Result<(), RecoveryRefusal> {
        self.check_open(&decision.decider)?;
        self.check_scope(decision, policy, now)
    }

    pub(super) fn chosen(mut self, chosen: Chosen) -> Self {
        let action = chosen.action;
        self.round.chosen = Some(chosen);
        self.in_state(match action {
            Action::Retry | Action::Continue => CandidateState::Executing,
            Action::Notify => CandidateState::Succeeded,
            Action::Escalate => CandidateState::Escalated,
            Action::Skip => CandidateState::Skipped,
        })
    }

    /// An evaluation decides what is pending; people also what waits for them.
    fn check_open(&self, decider: &Decider) -> Result<(), RecoveryRefusal> {
        let is_open = match decider {
            Decider::Evaluation { .. } => self.state == CandidateState::Pending,
            Decider::Person(_) => {
                matches!(self.state, CandidateState::Pending | CandidateState::Escalated)
            }
        };
        is_open.then_some(()).ok_or(RecoveryRefusal::Closed { state: self.state })
    }

    fn check_scope(
        &self,
        decision: &Decision,
        policy: Option<&RecoveryPolicy>,
        now: Time,
    ) -> Result<(), RecoveryRefusal> {
        let out = |which| Err(RecoveryRefusal::OutOfScope(which));
        let action = decision.action;
        if action == Action::Skip {
            return Ok(());
        }
        let Some(policy) = policy.filter(|policy| !policy.is_deleted) else {
            return out(OutOfScope::Revoked);
        };
        if !policy.terms.allows(action) {
            return out(OutOfScope::Action);
        }
        if self.round.expires_at.has_come(now) {
            return out(OutOfScope::Expired);
        }
        if action == Action::Escalate {
            self.proposal(decision.propose, &policy.terms)?;
        } else if decision.decider.is_replaced(&policy.terms) {
            return out(OutOfScope::Evaluator);
        }
        if action == Action::Escalate && self.state == CandidateState::Escalated {
            return Err(RecoveryRefusal::Closed { state: self.state });
        }
        match &decision.decider {
            Decider::Evaluation { confidence, .. } if action.forks() => {
                let suggested = self.round.suggestion;
                let own = || if suggested.action == action { suggested.confidence } else { 0 };
                match confidence.unwrap_or_else(own) < AUTOMATIC_MIN {
                    true => out(OutOfScope::Unsure),
                    false => Ok(()),
                }
            }
            Decider::Evaluation { .. } | Decider::Person(_) => Ok(()),
        }
    }

    /// How many runs may still be submitted under the policy as it is now: none if that was deleted.
    pub fn room(&self, policy: Option<&RecoveryPolicy>, now: Time) -> u32 {
        let is_over = self.round.expires_at.has_come(now);
        let policy = policy.filter(|policy| !policy.is_deleted && !is_over);
        let runs_max = policy.map_or(0, |policy| self.bounds(&policy.terms).runs_max);
        runs_max.saturating_sub(self.round.forked)
    }

    /// Some of its runs were submitted, or refused. With the last of them it is done.
    #[must_use]
    pub fn executed(mut self, outcomes: &[ForkOutcome], is_last: bool) -> Self {
        for outcome in outcomes {
            match outcome {
                ForkOutcome::Forked(_) => {
                    self.round.forked += 1;
                    self.forked += 1;
                }
                ForkOutcome::Refused(code) => {
                    self.round.refused += 1;
                    self.round.last_refusal = Some(code.clone());
                }
            }
        }
        match (is_last, self.round.forked) {
            (false, _) => self,
            (true, 0) => self.in_state(CandidateState::Failed),
            (true, _) => self.in_state(CandidateState::Succeeded),
        }
    }

    /// Its time is over; `None` if it is not, or nothing waits.
    pub fn expired(self, now: Time) -> Option<Self> {
        let is_over = self.state.is_live() && self.round.expires_at.has_come(now);
        is_over.then(|| self.in_state(CandidateState::Expired))
    }

    /// The evaluation with this task ended without an action; `None` if it was not waited for any more.
    pub fn evaluation_failed(self, task: TaskId) -> Option<Self> {
        let is_awaited = self.state == CandidateState::Pending && self.round.task == task;
        is_awaited.then(|| self.in_state(CandidateState::Failed))
    }

    pub(super) fn in_state(self, state: CandidateState) -> Self {
        self.owned_by(Recovery(()), state)
    }

    /// The one place where the state of a candidate changes.
    fn owned_by(self, _: Recovery, state: CandidateState) -> Self {
        Self { state, ..self }
    }

    /// When time changes it.
    pub fn due(&self) -> Option<Time> {
        self.state.is_live().then_some(self.round.expires_at)
    }

    /// The task whose end it waits for: the evaluation that may still name an action, or the question to people.
    pub fn awaited(&self) -> Option<TaskId> {
        match self.state {
            CandidateState::Pending => Some(self.round.task),
            _ => self.open_question().map(|question| question.task),
        }
    }
}
