//! `GET /v1/approvals`, `GET /v1/approvals/{approvalId}` and `POST /v1/approvals/{approvalId}/decide`.
//!
//! The id of an approval names its task, so a decision is a request about that task and nothing is looked up before it.
//! Lists read the objects that follow from the decisions. A refused decision is written to the audit.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use store::objects::{APPROVAL_CLOSED, APPROVAL_PENDING, ApprovalBody, ObjectFilter};
use store::{Browse, PAGE_BYTES_MAX, RecordsOf, RunRecord, TaskKey};
use verdict::approval::{
    Approval, CONTENT_MAX, DecideCall, Decision, Outcome, Terms, Vote, VoteRefusal,
    parse_approval_id,
};
use verdict::run::{Recorded, RunAnswer, Step, StepOutcome};
use verdict::{Answer, Digest, Name, ObjectKey, ObjectType, Refusal, Scope};
use wire::approvals::{
    ApprovalDecided, ApprovalList, ApprovalView, DecideApproval, ListApprovals, VoteView,
};
use wire::limits::PAGE_ITEMS_DEFAULT;
use wire::{ApprovalDecision, ApprovalOutcome, ApprovalState, Code};

use super::api_error::ApiError;
use super::app_state::AppState;
use super::body::{API_BYTES_MAX, JsonBody};
use super::submit::unexpected;
use super::translate::{query, time};
use crate::admit::{ApprovalReaderPrincipal, ApproverPrincipal};
use crate::requests::approval_decision;

/// Content that a list has: some lines. A page of a thousand stays quick to read.
const LISTED_CONTENT_MAX: usize = 1024;

pub(super) async fn list(
    State(app): State<AppState>,
    principal: ApprovalReaderPrincipal,
    uri: Uri,
) -> Result<Json<ApprovalList>, ApiError> {
    let ListApprovals { state, cursor, limit } = query(&uri)?;
    let scope = principal.scope().clone();
    let after = match cursor {
        None => None,
        Some(cursor) => Some(object_key(&scope, &cursor).ok_or_else(|| {
            ApiError::field("cursor", "is not a valid cursor; use `cursor` of the previous page")
        })?),
    };
    let limit = limit.unwrap_or(PAGE_ITEMS_DEFAULT) as usize;
    let filter = ObjectFilter {
        scope: Some(scope),
        object_type: Some(ObjectType::Approval),
        status: state.map(|state| Name::from(status(state))),
        after,
        limit,
        bytes: Some(PAGE_BYTES_MAX),
        ..ObjectFilter::default()
    };
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    let cursor =
        (!filter.is_last(&found)).then(|| found.last().map(|last| last.key.id.to_string()));
    let bodies = found.iter().filter_map(ApprovalBody::of);
    Ok(Json(ApprovalList { approvals: bodies.map(view).collect(), cursor: cursor.flatten() }))
}

pub(super) async fn show(
    State(app): State<AppState>,
    principal: ApprovalReaderPrincipal,
    Path(id): Path<String>,
) -> Result<Json<ApprovalView>, ApiError> {
    let key = object_key(principal.scope(), &id).ok_or_else(not_found)?;
    let filter = ObjectFilter::one(&key);
    let found = app.read(app.coordinator.browse().objects(&filter)).await?;
    let body = found.first().and_then(ApprovalBody::of).ok_or_else(not_found)?;
    let content = content(&app, principal.scope(), &body).await?;
    Ok(Json(ApprovalView { content, ..view(body) }))
}

/// What people decide about: the text of the approval itself, or the output of the stage that it shows, byte for byte as its
/// digest covers it. `None` if there is none, and for an output that is too long to be read.
async fn content(
    app: &AppState,
    scope: &Scope,
    body: &ApprovalBody,
) -> Result<Option<String>, ApiError> {
    let Terms { content, shows, digest, .. } = &body.approval.terms;
    if let Some(content) = content {
        return Ok(Some(content.to_string()));
    }
    let Some(stage) = shows else { return Ok(None) };
    let (task, keys) = (TaskKey { scope: scope.clone(), id: body.task }, [stage.clone()]);
    let reading = app.coordinator.browse().records(&task, RecordsOf::Keys(&keys), 1);
    let records = app.read(reading).await?;
    let output = records.into_iter().find_map(|record| match record {
        RunRecord::Checkpoint { checkpoint, .. } => match checkpoint.recorded {
            Recorded::Step(Step { outcome: StepOutcome::Succeeded { result }, .. }) => result,
            _ => None,
        },
        _ => None,
    });
    let is_it = |output: &verdict::Json| {
        let text = output.as_str();
        text.len() <= CONTENT_MAX && Some(Digest::of_bytes(text.as_bytes())) == *digest
    };
    Ok(output.filter(is_it).map(|output| output.as_str().to_owned()))
}

pub(super) async fn decide(
    State(app): State<AppState>,
    principal: ApproverPrincipal,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<API_BYTES_MAX>,
) -> Result<Json<ApprovalDecided>, ApiError> {
    let asked: DecideApproval = wire::parse(&body)?;
    let (task, number) = parse_approval_id(&id).ok_or_else(not_found)?;
    let key = TaskKey { scope: principal.scope().clone(), id: task };
    let call = decide_call(&principal, number, asked);
    let answered = app.decided(app.coordinator.decide(key, call)).await??;
    match answered.answer {
        Answer::Run(answer) => match *answer {
            RunAnswer::Voted { outcome } => Ok(Json(ApprovalDecided {
                approval_id: id,
                state: state_of(outcome),
                outcome: outcome.map(outcome_view),
                server_time: time(answered.at),
            })),
            other => Err(unexpected(&Answer::Run(Box::new(other)))),
        },
        Answer::Refused(refusal) => Err(refused(refusal).by(principal.key(), principal.scope())),
        other => Err(unexpected(&other)),
    }
}

fn decide_call(principal: &ApproverPrincipal, number: u32, asked: DecideApproval) -> DecideCall {
    let DecideApproval { decision, digest, comment } = asked;
    let quoted = |text: String| {
        verdict::Json::from(serde_json::to_string(&text).expect("text can be written"))
    };
    DecideCall {
        number,
        key: principal.key().clone(),
        roles: principal.roles(),
        decision: approval_decision(decision),
        digest: digest.as_deref().and_then(Digest::parse),
        comment: comment.map(quoted),
    }
}

fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::TaskNotFound => not_found(),
        refusal => refusal.into(),
    }
}

fn not_found() -> ApiError {
    ApiError::new(Code::ApprovalNotFound, "no approval has this id")
}

/// Why a vote or a wait for an approval was refused.
pub(super) fn from_refusal(refusal: VoteRefusal) -> ApiError {
    let (code, message) = match refusal {
        VoteRefusal::NotFound => return not_found(),
        VoteRefusal::Closed => {
            (Code::ApprovalClosed, "the approval was decided, has expired, or is no longer needed")
        }
        VoteRefusal::DigestMismatch => (
            Code::ApprovalDigestMismatch,
            "what is to be approved is not what you saw; read the approval again and send its digest",
        ),
        VoteRefusal::AlreadyVoted => (Code::AlreadyVoted, "this key has decided about it before"),
        VoteRefusal::NotNamed => {
            (Code::ApprovalForbidden, "the approval names neither this key nor a role of it")
        }
        VoteRefusal::OwnWork => (
            Code::ApprovalForbidden,
            "this key asked for the approval or did the work that is decided about; another key must decide",
        ),
    };
    ApiError::new(code, message)
}

fn object_key(scope: &Scope, id: &str) -> Option<ObjectKey> {
    parse_approval_id(id)?;
    let (scope, object_type) = (scope.clone(), ObjectType::Approval);
    Some(ObjectKey { scope, object_type, id: id.into() })
}

fn status(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Pending => APPROVAL_PENDING,
        ApprovalState::Closed => APPROVAL_CLOSED,
    }
}

fn state_of(outcome: Option<Outcome>) -> ApprovalState {
    if outcome.is_some() { ApprovalState::Closed } else { ApprovalState::Pending }
}

fn decision_view(decision: Decision) -> ApprovalDecision {
    match decision {
        Decision::Approved => ApprovalDecision::Approved,
        Decision::Rejected => ApprovalDecision::Rejected,
    }
}

fn outcome_view(outcome: Outcome) -> ApprovalOutcome {
    match outcome {
        Outcome::Approved => ApprovalOutcome::Approved,
        Outcome::Rejected => ApprovalOutcome::Rejected,
        Outcome::Expired => ApprovalOutcome::Expired,
        Outcome::Withdrawn => ApprovalOutcome::Withdrawn,
    }
}

fn view(body: ApprovalBody) -> ApprovalView {
    let ApprovalBody { task, run, approval, outcome } = body;
    let id = approval.id(task).to_string();
    let Approval { key, terms, expires_at, opened_at, votes, .. } = approval;
    let Terms { roles, keys, quorum, default, subject, digest, content, shows, .. } = terms;
    let has_content = content.is_some() || shows.is_some();
    let listed = content.filter(|content| content.as_str().len() <= LISTED_CONTENT_MAX);
    let texts = |names: Vec<Name>| names.iter().map(Name::to_string).collect();
    ApprovalView {
        approval_id: id,
        run_id: run.run_name(),
        task_id: task.to_string(),
        key: key.to_string(),
        state: state_of(outcome),
        outcome: outcome.map(outcome_view),
        subject: subject.map(|subject| subject.to_string()),
        digest: digest.map(|digest| digest.to_string()),
        content: listed.map(|content| content.to_string()),
        has_content,
        roles: texts(roles),
        keys: texts(keys),
        quorum,
        opened_at: time(opened_at),
        expires_at: expires_at.map(time),
        default: default.map(decision_view),
        votes: votes.into_iter().map(vote_view).collect(),
    }
}

fn vote_view(vote: Vote) -> VoteView {
    let Vote { key, decision, comment, at } = vote;
    let comment = comment.and_then(|json| serde_json::from_str(json.as_str()).ok());
    VoteView { key_id: key.to_string(), decision: decision_view(decision), comment, at: time(at) }
}

impl From<VoteRefusal> for ApiError {
    fn from(refusal: VoteRefusal) -> Self {
        from_refusal(refusal)
    }
}
