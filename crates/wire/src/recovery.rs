//! Recovery: what may be done about runs that lost their workers or spent their attempts, and what was done.

use serde::{Deserialize, Serialize};

use crate::approvals::ApprovalTerms;
use crate::check::{Check, Checked, optional_name, refuse, within};
use crate::limits::{
    ESCALATION_EXPIRES_MS, INTEGER_MAX, PAGE_ITEMS, RECOVERY_ATTEMPTS, RECOVERY_EXPIRES_MS,
    RECOVERY_RUNS,
};
use crate::parse::Body;
use crate::{ApprovalDecision, CandidateState, RecoveryAction, RecoveryEvaluator, Time};

/// As long as any reason that people write for others.
const COMMENT_CHARS_MAX: usize = 1_000;

/// `POST /v1/recovery/policies/{policy}`: for which runs recovery is wanted, and what it may do. What is absent has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetRecoveryPolicy {
    /// Only runs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub queue: Option<String>,
    /// Only runs of this kind. The most particular policy is that of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub kind: Option<String>,
    /// What may be done; retry, notify and escalate when absent. Nothing (`skip`) may always be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 5))]
    pub actions: Option<Vec<RecoveryAction>>,
    /// How many candidates one failure signature may have, one after the other; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10))]
    pub attempts: Option<u32>,
    /// How many runs one candidate may submit; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub runs_max: Option<u32>,
    /// What each of these runs may cost at most, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 9007199254740991u64))]
    pub cost_micros: Option<u64>,
    /// How long a candidate may be acted on; a day when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 10000, maximum = 2592000000u64))]
    pub expires_ms: Option<u64>,
    /// Who evaluates candidates; the server when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluator: Option<RecoveryEvaluator>,
    /// Who decides about what is escalated; any key with the role approver or admin when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<EscalationTerms>,
}

/// Who decides about what is escalated: the terms of its approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EscalationTerms {
    /// Roles of API keys that may decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 16))]
    pub roles: Vec<String>,
    /// Ids of API keys that may decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 16))]
    pub keys: Vec<String>,
    /// How many must approve; 1 when absent. One rejection rejects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 32))]
    pub quorum: Option<u32>,
    /// How long they may take; as long as the candidate may be acted on when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1000, maximum = 2592000000u64))]
    pub expires_ms: Option<u64>,
    /// What counts when that time is over, as long as the candidate may still be acted on. Nothing is done without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<ApprovalDecision>,
}

/// The body of a call that says all with its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteRecoveryPolicy {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RecoveryPolicyView {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub actions: Vec<RecoveryAction>,
    pub attempts: u32,
    pub runs_max: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    pub expires_ms: u64,
    pub evaluator: RecoveryEvaluator,
    pub approval: EscalationTerms,
}

/// The policies of the workspace, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct RecoveryPolicyList {
    pub policies: Vec<RecoveryPolicyView>,
}

/// `GET /v1/recovery/candidates?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListCandidates {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<CandidateState>,
    /// The `cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// A page of candidates, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CandidateList {
    pub candidates: Vec<CandidateView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// What failed alike, what is to be done about it, and what was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CandidateView {
    pub candidate_id: String,
    pub state: CandidateState,
    /// The policy under which it was opened last.
    pub policy: String,
    pub kind: String,
    pub queue: String,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// The message, with `#` for words that have digits.
    pub pattern: String,
    pub first_at: Time,
    pub last_at: Time,
    /// How many runs failed so.
    pub count: u64,
    /// How many runs were submitted for it.
    pub forked: u64,
    /// How often it was opened.
    pub attempts: u32,
    /// The task that evaluates it.
    pub task_id: String,
    pub opened_at: Time,
    pub expires_at: Time,
    /// How many failed runs it is about since it was opened last.
    pub runs: u64,
    pub suggestion: SuggestionView,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<ChosenView>,
    /// What people were asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionView>,
    /// How many of `runs` could not be submitted again.
    pub refused: u32,
    /// The code of the last of these refusals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<String>,
    /// The latest failures.
    pub samples: Vec<SampleView>,
}

/// What the evidence speaks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct SuggestionView {
    pub action: RecoveryAction,
    /// From 0 to 1.
    pub confidence: f64,
    pub because: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ChosenView {
    pub action: RecoveryAction,
    pub at: Time,
    /// The API key of the person; absent if an evaluation chose, or time did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A question to people: an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct QuestionView {
    pub approval_id: String,
    /// What is done if they approve.
    pub action: RecoveryAction,
    /// What exactly is approved: the text whose SHA-256 is the digest.
    pub asked: String,
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct SampleView {
    pub run_id: String,
    pub at: Time,
    pub message: String,
}

/// `POST /v1/recovery/candidates/{candidate}/decide`: what a person decides about a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecideCandidate {
    pub action: RecoveryAction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub comment: Option<String>,
}

/// `GET /v1/recovery/candidates/{candidate}/history?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct CandidateHistoryQuery {
    /// Only revisions before this one: `nextBefore` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1))]
    pub before: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// What became of a candidate, the newest first. Nothing is ever removed from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CandidateHistory {
    pub entries: Vec<CandidateEntry>,
    /// `before` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct CandidateEntry {
    pub revision: u32,
    pub at: Time,
    /// The API key that made the change; absent if no person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The candidate from then on.
    pub candidate: CandidateView,
}

/// The input of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct EvaluationInput {
    /// As it was when the evaluation was submitted.
    pub candidate: CandidateView,
    /// What the policy allows.
    pub actions: Vec<RecoveryAction>,
}

/// The output of an evaluation: what its worker names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationOutput {
    pub action: RecoveryAction,
    /// From 0 to 1; that of the suggestion, if it is followed without a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// With `escalate`: what people are asked about; what is suggested without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propose: Option<RecoveryAction>,
}

impl Body for SetRecoveryPolicy {}
impl Body for DeleteRecoveryPolicy {}
impl Body for DecideCandidate {}

impl Check for SetRecoveryPolicy {
    fn check(&self) -> Checked {
        optional_name("queue", self.queue.as_deref())?;
        optional_name("kind", self.kind.as_deref())?;
        if let Some(actions) = &self.actions {
            let is_repeated = |n: usize| actions[..n].contains(&actions[n]);
            if (0..actions.len()).any(is_repeated) {
                return refuse("actions", "names an action twice");
            }
        }
        within("attempts", self.attempts.map(u64::from), RECOVERY_ATTEMPTS)?;
        within("runsMax", self.runs_max.map(u64::from), RECOVERY_RUNS)?;
        within("costMicros", self.cost_micros, 1..=INTEGER_MAX)?;
        within("expiresMs", self.expires_ms, RECOVERY_EXPIRES_MS)?;
        self.approval.as_ref().map_or(Ok(()), EscalationTerms::check)
    }
}

impl EscalationTerms {
    /// As the terms of every approval, within the time of candidates.
    fn check(&self) -> Checked {
        within("approval.expiresMs", self.expires_ms, ESCALATION_EXPIRES_MS)?;
        let Self { roles, keys, quorum, expires_ms, default } = self.clone();
        let terms = ApprovalTerms {
            roles,
            keys,
            quorum,
            expires_in_ms: expires_ms,
            default,
            ..ApprovalTerms::default()
        };
        Check::check(&terms)
    }
}

impl Check for DeleteRecoveryPolicy {
    fn check(&self) -> Checked {
        Ok(())
    }
}

impl Check for DecideCandidate {
    fn check(&self) -> Checked {
        let chars = self.comment.as_ref().map_or(0, |comment| comment.chars().count());
        if chars > COMMENT_CHARS_MAX {
            return refuse("comment", format!("must be at most {COMMENT_CHARS_MAX} characters"));
        }
        Ok(())
    }
}

impl Check for ListCandidates {
    fn check(&self) -> Checked {
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

impl Check for CandidateHistoryQuery {
    fn check(&self) -> Checked {
        within("before", self.before.map(u64::from), 1..=u64::from(u32::MAX))?;
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}
