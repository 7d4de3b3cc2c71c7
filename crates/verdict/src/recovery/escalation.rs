//! Escalation: what people are asked about a candidate, and what their word means.
//!
//! The question is an approval like any other, of a run that does nothing but ask ([`super::KIND_APPROVAL`]): the policy says who
//! may decide, how many must agree and what counts when they are silent, and people decide about the digest of
//! [`Candidate::asked_text`]: this action, for this candidate, within these limits. What they approved is carried out within the
//! narrower of what they saw and what the policy says then.

use super::candidate::{Candidate, CandidateState, Chosen, Decider, Decision};
use super::{Action, OutOfScope, RecoveryPolicy, RecoveryRefusal, Terms};
use crate::approval::{self, Outcome};
use crate::id::{Digest, Name, TaskId, Text};
use crate::time::{Span, Time};

/// The key of the step that asks, and so of its approval.
pub const QUESTION_KEY: &str = "decide";

/// The number of the approval of a run that asks: it has one.
pub const QUESTION_NUMBER: u32 = 1;

/// The roles of keys that decide where a policy names nobody.
const DEFAULT_ROLES: [&str; 2] = ["approver", "admin"];

/// Who decides about what was escalated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Deciders {
    /// Roles of API keys whose holders may decide.
    pub roles: Vec<Name>,
    /// API keys whose holders may decide.
    pub keys: Vec<Name>,
    /// How many must agree.
    pub quorum: u32,
    /// How long they may take; without it, as long as the candidate may be acted on.
    pub within: Option<Span>,
    /// What counts as decided when that time is over.
    pub default: Option<approval::Decision>,
}

impl Default for Deciders {
    fn default() -> Self {
        Self { roles: Vec::new(), keys: Vec::new(), quorum: 1, within: None, default: None }
    }
}

impl Deciders {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The roles that may decide.
    pub fn named_roles(&self) -> Vec<Name> {
        match self.roles.is_empty() && self.keys.is_empty() {
            true => DEFAULT_ROLES.map(Name::from).to_vec(),
            false => self.roles.clone(),
        }
    }

    /// Whether the holder of this key may decide.
    pub fn name(&self, key: &Name, roles: &[Name]) -> bool {
        self.keys.contains(key) || self.named_roles().iter().any(|role| roles.contains(role))
    }
}

/// What people were asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The task that asks.
    pub task: TaskId,
    /// What is done if they approve.
    pub action: Action,
    /// As many runs as they were told at most, and what each of them may cost.
    pub runs_max: u32,
    pub cost_micros: Option<u64>,
    /// The API key of the evaluation that escalated it: it does not decide what it proposed.
    pub asked_by: Option<Name>,
}

impl Question {
    /// The id of the approval.
    pub fn approval(&self) -> Name {
        approval::approval_id(self.task, QUESTION_NUMBER)
    }
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Word {
    pub outcome: Outcome,
    /// The key whose vote decided; `None` if time did.
    pub by: Option<Name>,
    pub comment: Option<Text>,
}

impl Candidate {
    /// The action that people are asked about: the one that was proposed, or the nearest to the suggestion that changes something.
    pub fn proposal(
        &self,
        proposed: Option<Action>,
        terms: &Terms,
    ) -> Result<Action, RecoveryRefusal> {
        match proposed {
            Some(action) if action == Action::Escalate || !terms.allows(action) => {
                Err(RecoveryRefusal::OutOfScope(OutOfScope::Action))
            }
            Some(action) => Ok(action),
            None => {
                let order =
                    [self.round.suggestion.action, Action::Retry, Action::Continue, Action::Notify];
                let is_one = |it: &Action| *it != Action::Escalate && terms.allows(*it);
                Ok(order.into_iter().find(is_one).unwrap_or(Action::Skip))
            }
        }
    }

    /// The question about this action, asked by this task.
    pub fn question(
        task: TaskId,
        action: Action,
        terms: &Terms,
        asked_by: Option<Name>,
    ) -> Question {
        let Terms { runs_max, cost_micros, .. } = *terms;
        Question { task, action, runs_max, cost_micros, asked_by }
    }

    /// The API key of the evaluation on whose proposal people decide.
    pub fn proposed_by(&self) -> Option<&Name> {
        self.open_question()?.asked_by.as_ref()
    }

    /// What exactly is approved, as canonical JSON.
    pub fn asked_text(&self, question: &Question) -> Text {
        let (action, id, round) = (question.action.name(), self.signature.id(), self.round.task);
        let cost = question.cost_micros.map(|most| format!(r#""costMicros":{most},"#));
        let (cost, runs) = (cost.unwrap_or_default(), question.runs_max);
        Text::from(format!(
            r#"{{"action":"{action}","candidateId":"{id}",{cost}"runsMax":{runs},"taskId":"{round}"}}"#
        ))
    }

    /// The digest about which people decide.
    pub fn asked_digest(&self, question: &Question) -> Digest {
        Digest::of_bytes(self.asked_text(question).as_str().as_bytes())
    }

    /// The terms of the approval.
    pub fn asked_terms(
        &self,
        question: &Question,
        deciders: &Deciders,
        now: Time,
    ) -> approval::Terms {
        let signature = &self.signature;
        let (kind, queue, reason) = (&signature.kind, &signature.queue, signature.reason.name());
        let subject = format!(
            "{} for {} failed run(s) of {kind} on {queue} ({reason}: {})",
            question.action.name(),
            self.round.runs,
            signature.pattern.as_str()
        );
        let within = deciders.within.map(|span| now.plus(span));
        let expires_at = within.unwrap_or(self.round.expires_at).min(self.round.expires_at);
        approval::Terms {
            roles: deciders.named_roles(),
            keys: deciders.keys.clone(),
            quorum: deciders.quorum,
            expires_at: Some(expires_at),
            expires_in: None,
            default: deciders.default,
            subject: Some(Text::from(subject)),
            digest: Some(self.asked_digest(question)),
            content: Some(self.asked_text(question)),
            shows: None,
            done_by: question.asked_by.iter().cloned().collect(),
        }
    }

    /// People are asked.
    #[must_use]
    pub fn asked(mut self, question: Question) -> Self {
        self.round.question = Some(question);
        self
    }

    /// The open question, if naming this action is a vote about it.
    pub fn question_about(&self, action: Action) -> Option<&Question> {
        let question = self.open_question()?;
        (action == question.action || action == Action::Skip).then_some(question)
    }

    pub(super) fn open_question(&self) -> Option<&Question> {
        let is_open = self.state == CandidateState::Escalated;
        self.round.question.as_ref().filter(|_| is_open)
    }

    /// What people said is done, within the policy as it is now; `None` if nobody waits for the word of this task.
    #[must_use]
    pub fn answered(
        self,
        task: TaskId,
        word: Word,
        policy: Option<&RecoveryPolicy>,
        now: Time,
    ) -> Option<Self> {
        let action = self.open_question().filter(|it| it.task == task)?.action;
        let Word { outcome, by, comment } = word;
        let comment = comment.or_else(|| by.is_none().then(|| "nobody decided in time".into()));
        let chosen = |action| Chosen { action, at: now, by: by.clone(), comment: comment.clone() };
        Some(match outcome {
            Outcome::Approved => match self.check_people(action, policy, now) {
                Ok(()) => self.chosen(chosen(action)),
                Err(refusal) => self.beyond(refusal),
            },
            Outcome::Rejected => self.chosen(chosen(Action::Skip)),
            Outcome::Expired => self.in_state(CandidateState::Expired),
            Outcome::Withdrawn => self.in_state(CandidateState::Failed),
        })
    }

    fn check_people(
        &self,
        action: Action,
        policy: Option<&RecoveryPolicy>,
        now: Time,
    ) -> Result<(), RecoveryRefusal> {
        let decider = Decider::Person("".into());
        self.check(&Decision { action, decider, propose: None, comment: None }, policy, now)
    }

    /// What was approved may not be done any more.
    fn beyond(mut self, refusal: RecoveryRefusal) -> Self {
        if refusal == RecoveryRefusal::OutOfScope(OutOfScope::Expired) {
            return self.in_state(CandidateState::Expired);
        }
        self.round.last_refusal = Some(refusal.name().into());
        self.in_state(CandidateState::Failed)
    }

    /// Within which terms its runs are submitted: those of the policy, and no more than people approved.
    pub fn bounds(&self, terms: &Terms) -> Terms {
        let Some(question) = &self.round.question else { return terms.clone() };
        let costs = [terms.cost_micros, question.cost_micros];
        Terms {
            runs_max: terms.runs_max.min(question.runs_max),
            cost_micros: costs.into_iter().flatten().min(),
            ..terms.clone()
        }
    }
}
