//! `/v1/recovery`: policies, set by administrators; candidates, read by everybody and decided by people.
//!
//! A decision is carried in a batch like a request about a task. Lists read what is stored. A key that is limited to queues sees
//! no candidates, because they are not listed by queue, and the policies of its own queues alone.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use store::objects::{ObjectChange, ObjectFilter, ObjectLogFilter};
use store::recovery::{candidate_key, candidate_of};
use store::{Browse, PAGE_BYTES_MAX};
use verdict::recovery::{
    Deciders, Evaluator, OutOfScope, PolicyCall, PolicyRequest, RecoveryPolicy, RecoveryRefusal,
    Terms,
};
use verdict::{Answer, Name, Object, ObjectType, Scope, Span, Text};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::recovery::{
    CandidateEntry, CandidateHistory, CandidateHistoryQuery, CandidateList, CandidateView,
    DecideCandidate, DeleteRecoveryPolicy, EscalationTerms, ListCandidates, RecoveryPolicyList,
    RecoveryPolicyView, SetRecoveryPolicy,
};
use wire::{Code, RecoveryEvaluator};

use super::api_error::ApiError;
use super::app_state::{AppState, RequestId};
use super::audit::note_act;
use super::body::{API_BYTES_MAX, JsonBody};
use super::submit::unexpected;
use super::translate::{query, time};
use crate::admit::principals::Principal;
use crate::admit::{AdminPrincipal, ApproverPrincipal, ReaderPrincipal};
use crate::item::{RecoveryCall, RecoveryItem};
use crate::recovery::{action_of, candidate_view, policy_view};
use crate::requests::approval_decision;

/// More policies than kinds and queues that anybody tells apart; all of them are in memory.
const POLICIES_MAX: usize = 1_000;

const SET: &str = "recovery_policy.set";
const DELETED: &str = "recovery_policy.deleted";

pub(super) async fn list_policies(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
) -> Json<RecoveryPolicyList> {
    let known = app.coordinator.recovery().snapshot();
    let of_scope = known.get(principal.scope()).into_iter().flat_map(|known| known.values());
    let is_seen = |policy: &&RecoveryPolicy| is_within(&principal, policy);
    Json(RecoveryPolicyList { policies: of_scope.filter(is_seen).map(policy_view).collect() })
}

/// Whether a policy is about queues of the key alone. One for every queue is about others, too.
fn is_within(principal: &ReaderPrincipal, policy: &RecoveryPolicy) -> bool {
    match &policy.queue {
        Some(queue) => principal.may_use(queue.as_str()),
        None => principal.queues().is_none(),
    }
}

pub(super) async fn set_policy(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(name): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<RecoveryPolicyView>, ApiError> {
    let asked: SetRecoveryPolicy = wire::parse(&body)?;
    wire::check_name("policy", &name)?;
    let known = app.coordinator.recovery().snapshot();
    let of_scope = known.get(principal.scope());
    let is_new = of_scope.is_none_or(|known| !known.contains_key(&Name::from(name.as_str())));
    if is_new && of_scope.is_some_and(|known| known.len() >= POLICIES_MAX) {
        let message = format!("a workspace has at most {POLICIES_MAX} policies; delete one first");
        return Err(ApiError::field("policy", message));
    }
    let call = PolicyCall::Set(Box::new(policy(name.as_str().into(), asked)));
    let stored = change(&app, &principal, request, &name, call).await?;
    Ok(Json(policy_view(&stored)))
}

pub(super) async fn delete_policy(
    State(app): State<AppState>,
    principal: AdminPrincipal,
    Path(name): Path<String>,
    request: RequestId,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<RecoveryPolicyView>, ApiError> {
    let DeleteRecoveryPolicy {} = wire::parse(&body)?;
    let call = PolicyCall::Delete(name.as_str().into());
    let stored = change(&app, &principal, request, &name, call).await?;
    Ok(Json(policy_view(&stored)))
}

fn policy(name: Name, asked: SetRecoveryPolicy) -> RecoveryPolicy {
    let SetRecoveryPolicy {
        queue,
        kind,
        actions,
        attempts,
        runs_max,
        cost_micros,
        expires_ms,
        evaluator,
        approval,
    } = asked;
    let default = Terms::default();
    let actions = actions.map(|actions| actions.into_iter().map(action_of).collect());
    let terms = Terms {
        actions: actions.unwrap_or(default.actions),
        attempts: attempts.unwrap_or(default.attempts),
        runs_max: runs_max.unwrap_or(default.runs_max),
        cost_micros,
        expires: expires_ms.map_or(default.expires, Span::from_millis),
        evaluator: evaluator.map_or(default.evaluator, |evaluator| match evaluator {
            RecoveryEvaluator::BuiltIn => Evaluator::BuiltIn,
            RecoveryEvaluator::Workers => Evaluator::Workers,
        }),
        deciders: approval.map(deciders).unwrap_or_default(),
    };
    let (queue, kind) = (queue.map(Name::from), kind.map(Name::from));
    RecoveryPolicy { name, queue, kind, terms, is_deleted: false }
}

fn deciders(asked: EscalationTerms) -> Deciders {
    let EscalationTerms { roles, keys, quorum, expires_ms, default } = asked;
    let names = |names: Vec<String>| names.into_iter().map(Name::from).collect();
    Deciders {
        roles: names(roles),
        keys: names(keys),
        quorum: quorum.unwrap_or(1),
        within: expires_ms.map(Span::from_millis),
        default: default.map(approval_decision),
    }
}

/// Changes a policy, and writes who did it to the audit.
async fn change(
    app: &AppState,
    principal: &AdminPrincipal,
    request: RequestId,
    name: &str,
    call: PolicyCall,
) -> Result<RecoveryPolicy, ApiError> {
    app.coordinator.refuse_if_draining()?;
    let (scope, by) = (principal.scope().clone(), principal.key().clone());
    let action = match &call {
        PolicyCall::Set(_) => SET,
        PolicyCall::Delete(_) => DELETED,
    };
    let asked = PolicyRequest { scope, call, by };
    let answered = app.decided(app.coordinator.recovery_policy(asked)).await??;
    let stored = match answered.answer {
        Answer::Policy(policy) => *policy,
        Answer::Refused(refusal) => return Err(refusal.into()),
        other => return Err(unexpected(&other)),
    };
    let by = (principal.scope(), principal.key());
    note_act(app, by, action, name, request).await?;
    Ok(stored)
}

pub(super) async fn list(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    uri: Uri,
) -> Result<Json<CandidateList>, ApiError> {
    let ListCandidates { state, cursor, limit } = query(&uri)?;
    check_whole_workspace(&principal)?;
    let scope = principal.scope();
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let filter = ObjectFilter {
        scope: Some(scope.clone()),
        object_type: Some(ObjectType::RecoveryCandidate),
        status: state.map(|state| Name::from(state.as_str())),
        after: cursor.map(|cursor| candidate_key(scope, &Name::from(cursor))),
        limit,
        bytes: Some(PAGE_BYTES_MAX),
        ..ObjectFilter::default()
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    let cursor =
        (!filter.is_last(&found)).then(|| found.last().map(|last| last.key.id.to_string()));
    let candidates = found.iter().filter_map(candidate_of).map(candidate_view).collect();
    Ok(Json(CandidateList { candidates, cursor: cursor.flatten() }))
}

pub(super) async fn show(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(id): Path<String>,
) -> Result<Json<CandidateView>, ApiError> {
    check_whole_workspace(&principal)?;
    let object = find(&app, principal.scope(), &id).await?;
    let candidate = candidate_of(&object).ok_or_else(no_candidate)?;
    Ok(Json(candidate_view(candidate)))
}

/// The newest entries of its log, the newest first.
pub(super) async fn history(
    State(app): State<AppState>,
    principal: ReaderPrincipal,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<CandidateHistory>, ApiError> {
    let CandidateHistoryQuery { before, limit } = query(&uri)?;
    check_whole_workspace(&principal)?;
    let found = find(&app, principal.scope(), &id).await?;
    let before = before.unwrap_or(u32::MAX).min(found.revision.saturating_add(1));
    let first = before.saturating_sub(limit.unwrap_or(PAGE_ITEMS_DEFAULT)).max(1);
    let filter = ObjectLogFilter {
        key: Some(found.key.clone()),
        after: Some((found.key, first - 1)),
        limit: before.saturating_sub(first) as usize,
    };
    let log = app.read(app.coordinator.browse().object_log(&filter)).await?;
    let entries = log.into_iter().rev().filter_map(entry).collect();
    Ok(Json(CandidateHistory { entries, next_before: (first > 1).then_some(first) }))
}

fn entry(change: ObjectChange) -> Option<CandidateEntry> {
    let ObjectChange { after, at, by } = change;
    Some(CandidateEntry {
        revision: after.revision,
        at: time(at),
        key_id: by.map(|key| key.to_string()),
        candidate: candidate_view(candidate_of(&after)?),
    })
}

pub(super) async fn decide(
    State(app): State<AppState>,
    principal: ApproverPrincipal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<CandidateView>, ApiError> {
    let DecideCandidate { action, comment } = wire::parse(&body)?;
    let (action, comment) = (action_of(action), comment.map(Text::from));
    let roles = principal.roles();
    let call = RecoveryCall::Decide { candidate: id.into(), action, comment, roles };
    let (scope, by) = (principal.scope().clone(), Some(principal.key().clone()));
    let item = RecoveryItem { scope, call, by };
    let answered = app.decided(app.coordinator.recover(item)).await??;
    match answered.answer {
        Answer::Recovery(answer) => Ok(Json(candidate_view(answer.candidate))),
        Answer::Refused(refusal) => {
            Err(ApiError::from(refusal).by(principal.key(), principal.scope()))
        }
        other => Err(unexpected(&other)),
    }
}

fn check_whole_workspace(principal: &ReaderPrincipal) -> Result<(), ApiError> {
    if principal.queues().is_none() {
        return Ok(());
    }
    let message =
        "recovery candidates are not listed by queue, and this API key is limited to queues";
    let key = Principal::key(principal);
    Err(ApiError::new(Code::Forbidden, message).by(&key.id, &key.scope))
}

async fn find(app: &AppState, scope: &Scope, id: &str) -> Result<Object, ApiError> {
    let filter = ObjectFilter::one(&candidate_key(scope, &id.into()));
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    found.into_iter().next().ok_or_else(no_candidate)
}

fn no_candidate() -> ApiError {
    not_found("no recovery candidate of this workspace has this id")
}

fn not_found(message: &'static str) -> ApiError {
    ApiError::new(Code::RecoveryNotFound, message)
}

impl From<RecoveryRefusal> for ApiError {
    fn from(refusal: RecoveryRefusal) -> Self {
        match refusal {
            RecoveryRefusal::NotFound => no_candidate(),
            RecoveryRefusal::PolicyNotFound => {
                not_found("no recovery policy of this workspace has this name")
            }
            RecoveryRefusal::Closed { state } => {
                let message =
                    format!("the candidate is {}; nothing is to be decided", state.name());
                Self::new(Code::RecoveryClosed, message)
            }
            RecoveryRefusal::OutOfScope(which) => {
                Self::new(Code::RecoveryOutOfScope, out_of_scope(which))
            }
            RecoveryRefusal::NoAction => Self::field(
                "output",
                "must name an action, such as {\"action\": \"skip\"}; a confidence is from 0 to 1",
            ),
        }
    }
}

fn out_of_scope(which: OutOfScope) -> &'static str {
    match which {
        OutOfScope::Action => "the policy does not allow this action",
        OutOfScope::Revoked => "the policy of the candidate was deleted; only skip is left",
        OutOfScope::Expired => "the time of the candidate is over; only skip is left",
        OutOfScope::Evaluator => {
            "the policy has another evaluator since this evaluation was made; escalate it to people, or skip it"
        }
        OutOfScope::Unsure => {
            "an evaluation submits runs only with a confidence of at least 0.8; escalate it to people"
        }
    }
}
