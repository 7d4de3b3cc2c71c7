//! Recovery as objects: policies, candidates, and the runs that failed. See [`verdict::recovery`].
//!
//! | type | id | status | unique key | parent |
//! |---|---|---|---|---|
//! | recovery_policy | its name | active, deleted | | |
//! | recovery_candidate | the digest of its signature | its state | the evaluation that may name an action, or the question to people | |
//! | failed_run | the run | [`NEW`], the evaluation of its candidate, [`CLOSED`] | | the run |
//!
//! A failed run is written in the commit of its end, due at once. Whoever finds it due counts it for its candidate, and the change of
//! its status in that commit is what keeps it from being counted twice. It is forgotten with its run. The log of a candidate is
//! its provenance: it only grows (A2-15).

use verdict::recovery::{Candidate, CandidateState, FailedRun, RecoveryPolicy, Word};
use verdict::{Done, Name, Object, ObjectKey, ObjectType, Scope, TaskId, Time};

use crate::codec::Stored;
use crate::objects::{ObjectChange, ObjectFilter, UniqueKey};

/// Statuses of objects of type failed run. Between the two it is the id of an evaluation.
pub const NEW: &str = "new";
pub const CLOSED: &str = "closed";

/// The status of a note that an evaluation ended without an action, or a question with the word of people.
pub const EVALUATION: &str = "evaluation";

/// Statuses of policies.
const ACTIVE: &str = "active";
const DELETED: &str = "deleted";

pub fn candidate_key(scope: &Scope, id: &Name) -> ObjectKey {
    key(scope, ObjectType::RecoveryCandidate, id.clone())
}

pub fn failed_run_key(scope: &Scope, run: TaskId) -> ObjectKey {
    key(scope, ObjectType::FailedRun, run.run_name().into())
}

fn key(scope: &Scope, object_type: ObjectType, id: Name) -> ObjectKey {
    ObjectKey { scope: scope.clone(), object_type, id }
}

/// Finds the candidate that waits for the end of this evaluation or question.
pub fn awaiting(scope: &Scope, evaluation: TaskId) -> UniqueKey {
    UniqueKey {
        scope: scope.clone(),
        object_type: ObjectType::RecoveryCandidate,
        unique_key: evaluation.to_string().into(),
    }
}

/// `None` for an object of another type, or one that cannot be read.
pub fn policy_of(object: &Object) -> Option<RecoveryPolicy> {
    let is_it = object.key.object_type == ObjectType::RecoveryPolicy;
    is_it.then(|| RecoveryPolicy::read(object.body.as_str()).ok()).flatten()
}

/// `None` for an object of another type, or one that cannot be read.
pub fn candidate_of(object: &Object) -> Option<Candidate> {
    let is_it = object.key.object_type == ObjectType::RecoveryCandidate;
    is_it.then(|| Candidate::read(object.body.as_str()).ok()).flatten()
}

/// `None` for an object of another type, one that cannot be read, or the end of an evaluation.
pub fn failed_run_of(object: &Object) -> Option<FailedRun> {
    let is_it =
        object.key.object_type == ObjectType::FailedRun && object.status.as_str() != EVALUATION;
    is_it.then(|| FailedRun::read(object.body.as_str()).ok()).flatten()
}

/// What people said, if a question was asked and has ended; `None` for every other note.
pub fn word_of(object: &Object) -> Option<Word> {
    let is_it =
        object.key.object_type == ObjectType::FailedRun && object.status.as_str() == EVALUATION;
    is_it.then(|| Word::read(object.body.as_str()).ok()).flatten()
}

/// What the object of a policy says. One that cannot be read allows nothing.
pub fn stored_policy(object: &Object) -> RecoveryPolicy {
    policy_of(object).unwrap_or_else(|| RecoveryPolicy::closed(object.key.id.clone()))
}

/// A policy after a change. A deleted one stays as an object, so that its log has everything.
pub fn policy_change(
    key: ObjectKey,
    revision: u32,
    policy: &RecoveryPolicy,
    at: Time,
    by: Option<Name>,
) -> ObjectChange {
    let after = Object {
        key,
        revision,
        status: if policy.is_deleted { DELETED } else { ACTIVE }.into(),
        due: None,
        unique_key: None,
        parent: None,
        is_pending: !policy.is_deleted,
        body: policy.write().into(),
    };
    ObjectChange { after, at, by }
}

/// A candidate after a change. It is pending while a program has something to do about it; one that waits for people is not.
pub fn candidate_change(
    scope: &Scope,
    candidate: &Candidate,
    revision: u32,
    at: Time,
    by: Option<Name>,
) -> ObjectChange {
    let state = candidate.state;
    let after = Object {
        key: candidate_key(scope, &candidate.signature.id()),
        revision,
        status: state.name().into(),
        due: candidate.due(),
        unique_key: candidate.awaited().map(|task| task.to_string().into()),
        parent: None,
        is_pending: matches!(state, CandidateState::Pending | CandidateState::Executing),
        body: candidate.write().into(),
    };
    ObjectChange { after, at, by }
}

/// The note of the end of a run, due at once.
pub fn failed_run_change(scope: &Scope, failed: &FailedRun) -> ObjectChange {
    note(scope, failed.run, NEW, failed.write(), failed.failed_at)
}

/// The note that an evaluation ended otherwise than by naming an action, or that a question to people ended, with their word. It is
/// due at once.
pub fn evaluation_change(done: &Done, word: Option<&Word>) -> ObjectChange {
    let body = word.map_or_else(|| "{}".to_owned(), Stored::write);
    note(&done.scope, done.id, EVALUATION, body, done.completed_at)
}

fn note(scope: &Scope, run: TaskId, status: &str, body: String, at: Time) -> ObjectChange {
    let after = Object {
        key: failed_run_key(scope, run),
        revision: 1,
        status: status.into(),
        due: Some(at),
        unique_key: None,
        parent: Some(run.run_name().into()),
        is_pending: true,
        body: body.into(),
    };
    ObjectChange { after, at, by: None }
}

/// A note after it was looked at: due again then, or not at all.
pub fn looked_at(before: &Object, status: Name, due: Option<Time>, at: Time) -> ObjectChange {
    let after = Object {
        revision: before.revision + 1,
        is_pending: due.is_some(),
        status,
        due,
        ..before.clone()
    };
    ObjectChange { after, at, by: None }
}

/// The failed runs that a round of a candidate is about and that nothing was done about yet.
pub fn of_round(scope: &Scope, evaluation: TaskId, limit: usize) -> ObjectFilter {
    ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::FailedRun),
        status: Some(evaluation.to_string().into()),
        limit,
        ..ObjectFilter::default()
    }
}

#[cfg(test)]
mod tests {
    use verdict::approval;
    use verdict::recovery::{Action, Decider, Deciders, Decision, Evaluator, Terms, policy_key};
    use verdict::{Category, Reason, Span};

    use super::*;

    fn policy() -> RecoveryPolicy {
        RecoveryPolicy {
            name: "p".into(),
            queue: Some("images".into()),
            kind: None,
            terms: Terms {
                actions: Action::ALL.to_vec(),
                cost_micros: Some(7),
                deciders: Deciders {
                    roles: vec!["admin".into()],
                    keys: vec!["key_1".into()],
                    quorum: 2,
                    within: Some(Span::from_secs(9)),
                    default: Some(approval::Decision::Rejected),
                },
                ..Terms::default()
            },
            is_deleted: false,
        }
    }

    fn failed() -> FailedRun {
        FailedRun {
            run: TaskId::from_u128(1),
            kind: "resize".into(),
            queue: "images".into(),
            reason: Reason::AttemptsExhausted,
            category: Some(Category::Timeout),
            message: "no \"answer\"".into(),
            failed_at: Time::from_millis(5),
        }
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let (scope, policy, failed) = (Scope::default(), policy(), failed());
        let key = policy_key(&scope, &policy.name);
        let saved = policy_change(key, 1, &policy, Time::from_millis(6), None).after;
        assert_eq!(policy_of(&saved), Some(policy.clone()));
        let note = failed_run_change(&scope, &failed).after;
        assert_eq!(failed_run_of(&note), Some(failed.clone()));
        let (task, now) = (TaskId::from_u128(9), Time::from_millis(6));
        let open = Candidate::opened(None, &[failed], &policy, task, now);
        let decider = Decider::Person("key".into());
        let comment = Some("go".into());
        let decision = Decision { action: Action::Retry, decider, propose: None, comment };
        let chosen = open.clone().decided(decision, Some(&policy), now).unwrap();
        let by = Some("key_1".into());
        let question = Candidate::question(TaskId::from_u128(10), Action::Retry, &policy.terms, by);
        let asked = open.clone().asked(question);
        for candidate in [open, chosen, asked] {
            let object = candidate_change(&scope, &candidate, 1, now, None).after;
            assert_eq!(candidate_of(&object), Some(candidate));
        }
    }

    #[test]
    fn an_evaluation_finds_its_candidate_only_while_it_may_decide() {
        let (scope, policy) = (Scope::default(), policy());
        let (task, now) = (TaskId::from_u128(9), Time::from_millis(6));
        let open = Candidate::opened(None, &[failed()], &policy, task, now);
        let object = candidate_change(&scope, &open, 1, now, None).after;
        assert_eq!(object.unique_key, Some(awaiting(&scope, task).unique_key));
        let decision = Decision {
            action: Action::Skip,
            decider: Decider::Evaluation { by: Evaluator::BuiltIn, confidence: None },
            propose: None,
            comment: None,
        };
        let skipped = open.decided(decision, Some(&policy), now).unwrap();
        let object = candidate_change(&scope, &skipped, 2, now, None).after;
        assert_eq!((object.unique_key, object.due, object.is_pending), (None, None, false));
    }
}
