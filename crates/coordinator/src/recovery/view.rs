//! Candidates and policies as the API shows them. Evaluations get the same view as people.

use verdict::recovery::{
    Action, CONFIDENCE_MAX, Candidate, CandidateState, Chosen, Question, Round, Sample, Signature,
    Suggestion,
};
use verdict::{Name, Text, Time};
use wire::RecoveryAction;
use wire::recovery::{CandidateView, ChosenView, QuestionView, SampleView, SuggestionView};

pub(crate) fn candidate_view(candidate: Candidate) -> CandidateView {
    let id = candidate.signature.id();
    let asked = candidate.round.question.as_ref().map(|it| question_view(&candidate, it));
    let Candidate { signature, policy, state, first_at, last_at, count, attempts, .. } = candidate;
    let Candidate { forked, samples, round, .. } = candidate;
    let Signature { kind, queue, reason, category, pattern } = signature;
    let Round { task, opened_at, expires_at, runs, suggestion, chosen, .. } = round;
    let Round { refused, last_refusal, .. } = round;
    CandidateView {
        candidate_id: id.to_string(),
        state: state_view(state),
        policy: policy.to_string(),
        kind: kind.to_string(),
        queue: queue.to_string(),
        reason: reason.name().to_owned(),
        category: category.map(|category| category.name().to_owned()),
        pattern: pattern.to_string(),
        first_at: time(first_at),
        last_at: time(last_at),
        count,
        forked,
        attempts,
        task_id: task.to_string(),
        opened_at: time(opened_at),
        expires_at: time(expires_at),
        runs,
        suggestion: suggestion_view(suggestion),
        chosen: chosen.map(chosen_view),
        question: asked,
        refused,
        last_refusal: last_refusal.as_ref().map(Name::to_string),
        samples: samples.into_iter().map(sample_view).collect(),
    }
}

fn suggestion_view(suggestion: Suggestion) -> SuggestionView {
    let Suggestion { action, confidence, because } = suggestion;
    SuggestionView {
        action: action_view(action),
        confidence: f64::from(confidence) / f64::from(CONFIDENCE_MAX),
        because: because.name().to_owned(),
    }
}

fn chosen_view(chosen: Chosen) -> ChosenView {
    let Chosen { action, at, by, comment } = chosen;
    ChosenView {
        action: action_view(action),
        at: time(at),
        key_id: by.as_ref().map(Name::to_string),
        comment: comment.as_ref().map(Text::to_string),
    }
}

fn question_view(candidate: &Candidate, question: &Question) -> QuestionView {
    QuestionView {
        approval_id: question.approval().to_string(),
        action: action_view(question.action),
        asked: candidate.asked_text(question).to_string(),
        digest: candidate.asked_digest(question).to_string(),
    }
}

fn sample_view(sample: Sample) -> SampleView {
    let Sample { run, at, message } = sample;
    SampleView { run_id: run.run_name(), at: time(at), message: message.to_string() }
}

fn state_view(state: CandidateState) -> wire::CandidateState {
    match state {
        CandidateState::Pending => wire::CandidateState::Pending,
        CandidateState::Escalated => wire::CandidateState::Escalated,
        CandidateState::Executing => wire::CandidateState::Executing,
        CandidateState::Succeeded => wire::CandidateState::Succeeded,
        CandidateState::Failed => wire::CandidateState::Failed,
        CandidateState::Skipped => wire::CandidateState::Skipped,
        CandidateState::Expired => wire::CandidateState::Expired,
        CandidateState::Exhausted => wire::CandidateState::Exhausted,
    }
}

pub(crate) fn action_view(action: Action) -> RecoveryAction {
    match action {
        Action::Retry => RecoveryAction::Retry,
        Action::Continue => RecoveryAction::Continue,
        Action::Notify => RecoveryAction::Notify,
        Action::Escalate => RecoveryAction::Escalate,
        Action::Skip => RecoveryAction::Skip,
    }
}

pub(crate) fn action_of(action: RecoveryAction) -> Action {
    match action {
        RecoveryAction::Retry => Action::Retry,
        RecoveryAction::Continue => Action::Continue,
        RecoveryAction::Notify => Action::Notify,
        RecoveryAction::Escalate => Action::Escalate,
        RecoveryAction::Skip => Action::Skip,
    }
}

fn time(time: Time) -> wire::Time {
    wire::Time::from_ms(time.millis())
}

#[cfg(feature = "http")]
pub(crate) fn policy_view(
    policy: &verdict::recovery::RecoveryPolicy,
) -> wire::recovery::RecoveryPolicyView {
    use verdict::recovery::Evaluator;

    let terms = &policy.terms;
    wire::recovery::RecoveryPolicyView {
        name: policy.name.to_string(),
        queue: policy.queue.as_ref().map(Name::to_string),
        kind: policy.kind.as_ref().map(Name::to_string),
        actions: terms.actions.iter().copied().map(action_view).collect(),
        attempts: terms.attempts,
        runs_max: terms.runs_max,
        cost_micros: terms.cost_micros,
        expires_ms: terms.expires.millis(),
        evaluator: match terms.evaluator {
            Evaluator::BuiltIn => wire::RecoveryEvaluator::BuiltIn,
            Evaluator::Workers => wire::RecoveryEvaluator::Workers,
        },
        approval: escalation_view(&terms.deciders),
    }
}

#[cfg(feature = "http")]
fn escalation_view(deciders: &verdict::recovery::Deciders) -> wire::recovery::EscalationTerms {
    use verdict::approval::Decision;

    let texts = |names: Vec<Name>| names.iter().map(Name::to_string).collect();
    wire::recovery::EscalationTerms {
        roles: texts(deciders.named_roles()),
        keys: texts(deciders.keys.clone()),
        quorum: Some(deciders.quorum),
        expires_ms: deciders.within.map(verdict::Span::millis),
        default: deciders.default.map(|decision| match decision {
            Decision::Approved => wire::ApprovalDecision::Approved,
            Decision::Rejected => wire::ApprovalDecision::Rejected,
        }),
    }
}
