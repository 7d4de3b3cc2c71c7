//! The stored form of approvals: in the row of their task, in its history, and as the body of their object.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use verdict::approval::{
    Approval, ApprovalCall, Approvals, DecideCall, Decision, Outcome, Terms, Vote,
};
use verdict::{Digest, Json, Name, Span, TaskId, Text, Time};

use super::scalars::{as_number, as_text};
use crate::objects::ApprovalBody;

#[derive(Serialize, Deserialize)]
#[serde(remote = "Terms")]
struct TermsForm {
    #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<Name>,
    #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<Name>,
    quorum: u32,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    expires_in: Option<Span>,
    #[serde(with = "optional_decision", default, skip_serializing_if = "Option::is_none")]
    default: Option<Decision>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    subject: Option<Text>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    content: Option<Text>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    shows: Option<Name>,
    #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
    done_by: Vec<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ApprovalCall")]
struct ApprovalCallForm {
    #[serde(with = "as_text")]
    item: Name,
    #[serde(with = "TermsForm")]
    terms: Terms,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    asked_by: Option<Name>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Decision", rename_all = "SCREAMING_SNAKE_CASE")]
enum DecisionForm {
    Approved,
    Rejected,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Outcome", rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum OutcomeForm {
    Approved,
    Rejected,
    Expired,
    Withdrawn,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Approval")]
struct ApprovalForm {
    number: u32,
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    wait: Option<Name>,
    #[serde(with = "TermsForm")]
    terms: Terms,
    #[serde(with = "as_number::opt", default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    asked_by: Option<Name>,
    #[serde(with = "as_number")]
    opened_at: Time,
    #[serde(with = "votes", default, skip_serializing_if = "Vec::is_empty")]
    votes: Vec<Vote>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Vote")]
struct VoteForm {
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "DecisionForm")]
    decision: Decision,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    comment: Option<Json>,
    #[serde(with = "as_number")]
    at: Time,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Approvals")]
pub(super) struct ApprovalsForm {
    opened: u32,
    #[serde(with = "approvals", default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<Approval>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DecideCall")]
pub(super) struct DecideCallForm {
    number: u32,
    #[serde(with = "as_text")]
    key: Name,
    #[serde(with = "names", default, skip_serializing_if = "Vec::is_empty")]
    roles: Vec<Name>,
    #[serde(with = "DecisionForm")]
    decision: Decision,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    #[serde(with = "as_text::opt", default, skip_serializing_if = "Option::is_none")]
    comment: Option<Json>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ApprovalBody")]
pub(super) struct ApprovalBodyForm {
    #[serde(with = "as_text")]
    task: TaskId,
    #[serde(with = "as_text")]
    run: TaskId,
    #[serde(with = "ApprovalForm")]
    approval: Approval,
    #[serde(with = "optional_outcome", default, skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
}

pub(super) mod names {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        names: &[Name],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(names.iter().map(Name::as_str))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Name>, D::Error> {
        Ok(Vec::<String>::deserialize(from)?.into_iter().map(Name::from).collect())
    }
}

super::run_forms::list!(votes, Vec<Vote>, Vote, "VoteForm");
super::run_forms::list!(approvals, Vec<Approval>, Approval, "ApprovalForm");
super::run_forms::list!(approval_calls, Vec<ApprovalCall>, ApprovalCall, "ApprovalCallForm");
super::forms::optional!(optional_decision, Decision, "DecisionForm");
super::forms::optional!(optional_outcome, Outcome, "OutcomeForm");
super::forms::boxed!(boxed_approval, Approval, ApprovalForm);
super::forms::boxed!(boxed_vote, Vote, VoteForm);

/// Terms that a step of a plan may have.
pub(super) mod shared_terms {
    use std::sync::Arc;

    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        terms: &Option<Arc<Terms>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form<'a>(#[serde(with = "TermsForm")] &'a Terms);
        terms.as_deref().map(Form).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Arc<Terms>>, D::Error> {
        #[derive(Deserialize)]
        struct Form(#[serde(with = "TermsForm")] Terms);
        Ok(Option::<Form>::deserialize(from)?.map(|form| Arc::new(form.0)))
    }
}

/// The same as a text of its own, for packed forms.
pub(super) fn terms_text(terms: &Terms) -> String {
    #[derive(Serialize)]
    struct Form<'a>(#[serde(with = "TermsForm")] &'a Terms);
    serde_json::to_string(&Form(terms)).expect("terms are plain JSON")
}

pub(super) fn read_terms(text: &str) -> Option<Terms> {
    #[derive(Deserialize)]
    struct Form(#[serde(with = "TermsForm")] Terms);
    serde_json::from_str::<Form>(text).ok().map(|form| form.0)
}
