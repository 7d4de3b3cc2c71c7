//! Approvals: what a wait asks of people, how they are listed, and how one is decided.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::check::{Check, Checked, names, refuse, text, within};
use crate::limits::WAIT_MAX_MS;
use crate::parse::Body;
use crate::{ApprovalDecision, ApprovalOutcome, ApprovalState, Json, Role, Time, canonical};

/// Maximum roles, and maximum keys, that an approval names.
const DECIDERS_MAX: usize = 16;

/// Maximum bytes of the canonical text that people decide about: more than a person reads at once, and every vote writes it again.
pub const CONTENT_BYTES_MAX: usize = 64 * 1024;

/// Who decides, and about what. Without `roles` and `keys`: any key with the role approver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalTerms {
    /// Roles of API keys that may decide. Such a key also needs the role approver or admin, as everybody who decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 16))]
    pub roles: Vec<String>,
    /// Ids of API keys that may decide. Such a key also needs the role approver or admin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 16))]
    pub keys: Vec<String>,
    /// How many must approve; 1 when absent. One rejection rejects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 32))]
    pub quorum: Option<u32>,
    /// Excludes `expiresInMs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// The same as time from the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 315576000000u64))]
    pub expires_in_ms: Option<u64>,
    /// What counts at the expiry. Without it the outcome is EXPIRED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<ApprovalDecision>,
    /// For people: what it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// SHA-256 of what is approved, as 64 hexadecimal digits. Who decides must send the same. With `content` it may be left out,
    /// and must be that of the content otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// What is approved, shown to those who decide: any JSON value, up to 64 KiB. It is kept in its canonical form (RFC 8785), and
    /// `digest` is the SHA-256 of that text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Json>,
    /// In the step of a plan, instead of `subject`: a reference to the text that people are asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_from: Option<Json>,
}

/// `POST /v1/approvals/{approvalId}/decide`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecideApproval {
    pub decision: ApprovalDecision,
    /// The digest that the approval showed, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// `GET /v1/approvals?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListApprovals {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ApprovalState>,
    /// The `cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

/// A page of approvals, in the order in which their runs were submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ApprovalList {
    pub approvals: Vec<ApprovalView>,
    /// The `cursor` of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ApprovalView {
    pub approval_id: String,
    pub run_id: String,
    pub task_id: String,
    /// The key of the item that waits for it.
    pub key: String,
    pub state: ApprovalState,
    /// What came of it, once it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ApprovalOutcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What is approved, as text whose SHA-256 is `digest`, up to 64 KiB: the content that the run asked with, the output of a work
    /// order, or the action of an escalation. A list has it only up to 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// There is a content, which a list may leave out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_content: bool,
    pub roles: Vec<String>,
    pub keys: Vec<String>,
    pub quorum: u32,
    pub opened_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<ApprovalDecision>,
    pub votes: Vec<VoteView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct VoteView {
    /// The API key whose holder decided.
    pub key_id: String,
    pub decision: ApprovalDecision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    pub at: Time,
}

/// The vote is recorded: 200.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ApprovalDecided {
    pub approval_id: String,
    /// Pending while more votes are needed.
    pub state: ApprovalState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ApprovalOutcome>,
    pub server_time: Time,
}

impl Body for DecideApproval {}

impl Check for DecideApproval {
    fn check(&self) -> Checked {
        digest("digest", self.digest.as_deref())?;
        text("comment", self.comment.as_deref())
    }
}

impl Check for ListApprovals {
    fn check(&self) -> Checked {
        within("limit", self.limit.map(u64::from), 1..=1000)
    }
}

impl Check for ApprovalTerms {
    fn check(&self) -> Checked {
        if !self.keys.is_empty() {
            names("keys", &self.keys, DECIDERS_MAX)?;
        }
        let is_role = |role: &String| Role::from_str(role).is_ok();
        if self.roles.len() > DECIDERS_MAX || !self.roles.iter().all(is_role) {
            let roles = Role::ALL.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ");
            let problem = format!("may name roles of keys ({roles}); people are named in `keys`");
            return refuse("roles", problem);
        }
        within("quorum", self.quorum.map(u64::from), 1..=32)?;
        within("expiresInMs", self.expires_in_ms, WAIT_MAX_MS)?;
        if self.expires_at.is_some() && self.expires_in_ms.is_some() {
            return refuse("expiresInMs", "is given together with expiresAt; send one of them");
        }
        if self.default.is_some() && self.expires_at.is_none() && self.expires_in_ms.is_none() {
            return refuse(
                "default",
                "counts at the expiry, and there is none; send expiresInMs too",
            );
        }
        digest("digest", self.digest.as_deref())?;
        text("subject", self.subject.as_deref())?;
        self.content.as_ref().map_or(Ok(()), content)
    }
}

impl ApprovalTerms {
    /// The text that people decide about, if the terms have one and it has a canonical form.
    pub fn content_text(&self) -> Option<String> {
        canonical_text(self.content.as_ref()?)
    }
}

fn canonical_text(content: &Json) -> Option<String> {
    let mut text = Vec::with_capacity(content.text().len());
    canonical::rewrite(&mut text, content.text()).ok()?;
    String::from_utf8(text).ok()
}

fn content(content: &Json) -> Checked {
    match canonical_text(content) {
        None => refuse("content", "has a number that no double holds; write it as text"),
        Some(text) if text.len() > CONTENT_BYTES_MAX => refuse(
            "content",
            format!(
                "has {} bytes in its canonical form, and may have {CONTENT_BYTES_MAX}; store it where people can read it, and ask about its address and digest",
                text.len()
            ),
        ),
        Some(_) => Ok(()),
    }
}

fn digest(field: &str, digest: Option<&str>) -> Checked {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match digest {
        Some(text) if text.len() != 64 || !text.bytes().all(is_digit) => {
            refuse(field, "must be 64 hexadecimal digits in lower case")
        }
        _ => Ok(()),
    }
}
