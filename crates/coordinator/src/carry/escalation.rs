//! Escalation in a batch: a candidate becomes a question to people, and their word becomes what is done.
//!
//! The question is a run whose only step asks people ([`verdict::recovery::Question`]), submitted in the commit that escalates the
//! candidate. So it is in the inbox of approvals, and votes, quorum, expiry and withdrawal are those of every approval. However it
//! ends, its end is noted in the same commit, and whoever finds the note carries out the word, once. A person who names an action
//! for a candidate votes about the open question, or asks another one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use store::{Spec, TaskKey};
use verdict::approval::{self, DecideCall, VoteRefusal};
use verdict::budget::Limits;
use verdict::plan::{Capabilities, Stage};
use verdict::recovery::{
    Action, Candidate, CandidateState, Decider, Decision, KIND_APPROVAL, QUESTION_KEY,
    QUESTION_NUMBER, QUEUE, Question, RecoveryPolicy, RecoveryRefusal, Terms, Word,
};
use verdict::run::{RunAnswer, RunRefusal, RunRequest};
use verdict::{Answer, Digest, Json, Name, Policy, Refusal, Request, Scope, TaskId, Text};

use super::batch::submit;
use super::recovery::{EVALUATION_GRACE, Recovering, answered, refused};
use crate::allowances::Allowances;
use crate::item::Submission;

/// What people are to be asked.
#[derive(Default)]
pub(super) struct Proposed {
    /// `None` if the rules choose it.
    pub(super) action: Option<Action>,
    /// The API key of the evaluation that proposes it.
    pub(super) by: Option<Name>,
}

/// What a person says about a candidate.
pub(super) struct Said<'a> {
    pub(super) action: Action,
    pub(super) comment: Option<&'a Text>,
    /// The API key, and its roles.
    pub(super) key: &'a Name,
    pub(super) roles: &'a [Name],
}

impl Said<'_> {
    fn decision(&self) -> Decision {
        let (decider, comment) = (Decider::Person(self.key.clone()), self.comment.cloned());
        Decision { action: self.action, decider, propose: None, comment }
    }

    fn vote(&self, candidate: &Candidate, question: &Question) -> DecideCall {
        let quoted = |text: &Text| {
            Json::from(serde_json::to_string(text.as_str()).expect("text can be written"))
        };
        let decision = match self.action == question.action {
            true => approval::Decision::Approved,
            false => approval::Decision::Rejected,
        };
        DecideCall {
            number: QUESTION_NUMBER,
            key: self.key.clone(),
            roles: self.roles.to_vec(),
            decision,
            digest: Some(candidate.asked_digest(question)),
            comment: self.comment.map(quoted),
        }
    }
}

impl Recovering<'_> {
    /// Where people are to decide, they are asked in this commit.
    pub(super) fn asking(
        &mut self,
        scope: &Scope,
        candidate: Candidate,
        proposed: Proposed,
        policy: Option<&RecoveryPolicy>,
    ) -> Candidate {
        let Some(policy) = policy.filter(|_| candidate.state == CandidateState::Escalated) else {
            return candidate;
        };
        match candidate.proposal(proposed.action, &policy.terms) {
            Ok(action) => self.ask(scope, candidate, (action, proposed.by), policy),
            // It was checked before. Whoever decides names an action then.
            Err(_) => candidate,
        }
    }

    fn ask(
        &mut self,
        scope: &Scope,
        candidate: Candidate,
        (action, by): (Action, Option<Name>),
        policy: &RecoveryPolicy,
    ) -> Candidate {
        // Whose proposal is decided stays known when people are asked about another action.
        let by = by.or_else(|| candidate.proposed_by().cloned());
        let asked = (action, by.clone());
        let submission = question(scope, &candidate, asked, policy, self.at.now);
        let input = Digest::of(&[submission.spec.input.as_str().as_bytes()]);
        // As for evaluations: recovery uses up nobody's quota.
        let free = Allowances::default();
        match submit(self.work, self.ids, &submission, input, self.at, &free) {
            Answer::Accepted { task, .. } => {
                candidate.asked(Candidate::question(task, action, &policy.terms, by))
            }
            // Without a question it waits for somebody who names an action.
            _ => candidate,
        }
    }

    pub(super) fn decide_by_person(&mut self, scope: &Scope, id: &Name, said: &Said<'_>) -> Answer {
        let Some(candidate) = self.candidate(scope, id) else {
            return refused(RecoveryRefusal::NotFound);
        };
        let policy = self.policy(scope, &candidate);
        if let Err(refusal) = candidate.check(&said.decision(), policy.as_ref(), self.at.now) {
            return refused(refusal);
        }
        if let Some(question) = candidate.question_about(said.action).cloned() {
            return self.vote(scope, candidate, &question, policy.as_ref(), said);
        }
        let deciders = policy.as_ref().map(|it| it.terms.deciders.clone()).unwrap_or_default();
        let refuse = |why| Answer::Refused(Refusal::Run(RunRefusal::Approval(why)));
        if !deciders.name(said.key, said.roles) {
            return refuse(VoteRefusal::NotNamed);
        }
        // The key that evaluated it decides nothing in place of the people that it asked.
        if candidate.proposed_by() == Some(said.key) {
            return refuse(VoteRefusal::OwnWork);
        }
        match (said.action, policy.as_ref()) {
            (Action::Retry | Action::Continue | Action::Notify, Some(policy))
                if deciders.quorum > 1 =>
            {
                self.propose(scope, candidate, policy, said)
            }
            (_, policy) => self.decide_alone(scope, candidate, policy, said),
        }
    }

    /// One word is enough: it is done, or people are asked.
    fn decide_alone(
        &mut self,
        scope: &Scope,
        candidate: Candidate,
        policy: Option<&RecoveryPolicy>,
        said: &Said<'_>,
    ) -> Answer {
        let awaited = candidate.awaited();
        match candidate.decided(said.decision(), policy, self.at.now) {
            Ok(after) => {
                let after = self.asking(scope, after, Proposed::default(), policy);
                self.act(scope, &after, Some(said.key.clone()));
                self.cancel(scope, awaited);
                answered(&after.signature.id(), after)
            }
            Err(refusal) => refused(refusal),
        }
    }

    /// Others must agree: they are asked about this action instead, and the caller has voted.
    fn propose(
        &mut self,
        scope: &Scope,
        candidate: Candidate,
        policy: &RecoveryPolicy,
        said: &Said<'_>,
    ) -> Answer {
        let awaited = candidate.awaited();
        let escalating = Decision { action: Action::Escalate, ..said.decision() };
        let is_asked = candidate.state == CandidateState::Escalated;
        let escalated = match is_asked {
            true => Ok(candidate),
            false => candidate.decided(escalating, Some(policy), self.at.now),
        };
        let candidate = match escalated {
            Ok(candidate) => self.ask(scope, candidate, (said.action, None), policy),
            Err(refusal) => return refused(refusal),
        };
        self.cancel(scope, awaited);
        self.act(scope, &candidate, Some(said.key.clone()));
        match candidate.question_about(said.action).cloned() {
            Some(question) => self.vote(scope, candidate, &question, Some(policy), said),
            None => answered(&candidate.signature.id(), candidate),
        }
    }

    /// A vote about the open question. If it decides, what was decided is done in this commit.
    fn vote(
        &mut self,
        scope: &Scope,
        candidate: Candidate,
        question: &Question,
        policy: Option<&RecoveryPolicy>,
        said: &Said<'_>,
    ) -> Answer {
        let call = said.vote(&candidate, question);
        let key = TaskKey { scope: scope.clone(), id: question.task };
        let request = Request::Run(Box::new(RunRequest::Decide(call)));
        self.work.is_evaluated = true;
        let answer = self.work.decide(&key, Cow::Owned(request), self.at);
        self.work.is_evaluated = false;
        let outcome = match answer {
            Answer::Run(answer) => match *answer {
                RunAnswer::Voted { outcome } => outcome,
                _ => None,
            },
            other => return other,
        };
        let id = candidate.signature.id();
        let Some(outcome) = outcome else { return answered(&id, candidate) };
        let word = Word { outcome, by: Some(said.key.clone()), comment: said.comment.cloned() };
        let after = candidate.clone().answered(question.task, word, policy, self.at.now);
        let Some(after) = after else { return answered(&id, candidate) };
        self.act(scope, &after, Some(said.key.clone()));
        answered(&id, after)
    }

    /// The question of a task has ended: what people said is done.
    pub(super) fn people_said(&mut self, scope: &Scope, task: TaskId, word: Word) {
        let awaiting = self.work.recoveries.awaiting(scope, task);
        let Some(candidate) = awaiting.and_then(|key| self.work.recoveries.candidate(&key)) else {
            return;
        };
        let (policy, by) = (self.policy(scope, &candidate), word.by.clone());
        if let Some(after) = candidate.answered(task, word, policy.as_ref(), self.at.now) {
            self.act(scope, &after, by);
        }
    }
}

/// The run that asks people: one step, which no worker gets.
fn question(
    scope: &Scope,
    candidate: &Candidate,
    (action, by): (Action, Option<Name>),
    policy: &RecoveryPolicy,
    now: verdict::Time,
) -> Submission {
    let Terms { deciders, .. } = &policy.terms;
    // The digest does not cover the task, which has no id yet.
    let asked = Candidate::question(TaskId::from_u128(0), action, &policy.terms, by);
    let terms = candidate.asked_terms(&asked, deciders, now);
    let input = Json::from(candidate.asked_text(&asked).to_string());
    let deadline = Some(candidate.round.expires_at.plus(EVALUATION_GRACE));
    let stage = Stage {
        key: QUESTION_KEY.into(),
        kind: KIND_APPROVAL.into(),
        queue: QUEUE.into(),
        policy: Policy::default(),
        ceiling: Limits::default(),
        time_limit: None,
        input: Digest::of(&[input.as_str().as_bytes()]),
        has_references: false,
        continues_on_error: false,
        is_always: false,
        is_gate: false,
        may: Capabilities::ALL,
        asks: Some(Arc::new(terms)),
        is_prepared: false,
    };
    Submission {
        scope: scope.clone(),
        kind: KIND_APPROVAL.into(),
        queue: QUEUE.into(),
        priority: 0,
        policy: Policy { deadline, ..Policy::default() },
        run_at: None,
        delay: None,
        deadline_in: None,
        budget: None,
        flow: None,
        debounce: None,
        spec: Spec {
            fingerprint: Digest::of(&[input.as_str().as_bytes()]),
            input,
            goal: None,
            task_key: Some(candidate.signature.id()),
            asset_id: None,
            resources: None,
            labels: BTreeMap::new(),
            traceparent: None,
            key: None,
        },
        stages: Some(Arc::from([stage])),
        fork: None,
        steps: None,
    }
}
