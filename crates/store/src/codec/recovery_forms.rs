//! The stored form of recovery: the bodies of policies, candidates and failed runs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::approval::{Decision, Outcome};
use verdict::recovery::{
    Action, Because, Candidate, CandidateState, Chosen, Deciders, Evaluator, FailedRun, Question,
    RecoveryPolicy, Round, Sample, Signature, Suggestion, Terms, Word,
};
use verdict::{Category, Name, Reason, Span, TaskId, Text, Time};

use super::approval_forms::names;
use super::scalars::{as_number, as_text};

#[derive(Serialize, Deserialize)]
#[serde(remote = "RecoveryPolicy")]
pub(super) struct RecoveryPolicyForm {
    #[serde(with = "as_text")]
    name: Name,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    queue: Option<Name>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    kind: Option<Name>,
    #[serde(with = "TermsForm")]
    terms: Terms,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_deleted: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Terms")]
struct TermsForm {
    #[serde(with = "actions")]
    actions: Vec<Action>,
    attempts: u32,
    runs_max: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost_micros: Option<u64>,
    #[serde(with = "as_number")]
    expires: Span,
    #[serde(with = "as_text")]
    evaluator: Evaluator,
    #[serde(with = "DecidersForm", default, skip_serializing_if = "Deciders::is_default")]
    deciders: Deciders,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Deciders")]
struct DecidersForm {
    #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<Name>,
    #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<Name>,
    quorum: u32,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    within: Option<Span>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    default: Option<Decision>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Question")]
struct QuestionForm {
    #[serde(with = "as_text")]
    task: TaskId,
    #[serde(with = "as_text")]
    action: Action,
    runs_max: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cost_micros: Option<u64>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    asked_by: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Word")]
pub(super) struct WordForm {
    #[serde(with = "as_text")]
    outcome: Outcome,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    by: Option<Name>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    comment: Option<Text>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Action", rename_all = "snake_case")]
enum ActionForm {
    Retry,
    Continue,
    Notify,
    Escalate,
    Skip,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FailedRun")]
pub(super) struct FailedRunForm {
    #[serde(with = "as_text")]
    run: TaskId,
    #[serde(with = "as_text")]
    kind: Name,
    #[serde(with = "as_text")]
    queue: Name,
    #[serde(with = "as_text")]
    reason: Reason,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    category: Option<Category>,
    #[serde(with = "as_text")]
    message: Text,
    #[serde(with = "as_number")]
    failed_at: Time,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Signature")]
struct SignatureForm {
    #[serde(with = "as_text")]
    kind: Name,
    #[serde(with = "as_text")]
    queue: Name,
    #[serde(with = "as_text")]
    reason: Reason,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    category: Option<Category>,
    #[serde(with = "as_text")]
    pattern: Text,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Candidate")]
pub(super) struct CandidateForm {
    #[serde(with = "SignatureForm")]
    signature: Signature,
    #[serde(with = "as_text")]
    policy: Name,
    #[serde(with = "as_text")]
    state: CandidateState,
    #[serde(with = "as_number")]
    first_at: Time,
    #[serde(with = "as_number")]
    last_at: Time,
    count: u64,
    attempts: u32,
    forked: u64,
    #[serde(with = "samples", default, skip_serializing_if = "Vec::is_empty")]
    samples: Vec<Sample>,
    #[serde(with = "RoundForm")]
    round: Round,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Round")]
struct RoundForm {
    #[serde(with = "as_text")]
    task: TaskId,
    #[serde(with = "as_number")]
    opened_at: Time,
    #[serde(with = "as_number")]
    expires_at: Time,
    runs: u64,
    #[serde(with = "SuggestionForm")]
    suggestion: Suggestion,
    #[serde(with = "optional_chosen", default, skip_serializing_if = "Option::is_none")]
    chosen: Option<Chosen>,
    #[serde(with = "optional_question", default, skip_serializing_if = "Option::is_none")]
    question: Option<Question>,
    forked: u32,
    refused: u32,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    last_refusal: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Suggestion")]
struct SuggestionForm {
    #[serde(with = "as_text")]
    action: Action,
    confidence: u16,
    #[serde(with = "as_text")]
    because: Because,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Chosen")]
struct ChosenForm {
    #[serde(with = "as_text")]
    action: Action,
    #[serde(with = "as_number")]
    at: Time,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    by: Option<Name>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    comment: Option<Text>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Sample")]
struct SampleForm {
    #[serde(with = "as_text")]
    run: TaskId,
    #[serde(with = "as_number")]
    at: Time,
    #[serde(with = "as_text")]
    message: Text,
}

super::run_forms::list!(actions, Vec<Action>, Action, "ActionForm");
super::run_forms::list!(samples, Vec<Sample>, Sample, "SampleForm");
super::forms::optional!(optional_chosen, Chosen, "ChosenForm");
super::forms::optional!(optional_question, Question, "QuestionForm");
