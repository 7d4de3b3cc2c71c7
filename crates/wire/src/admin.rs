//! Administration on the wire: API keys and the audit. Requests and answers are together here,
//! because only administrators use them.

use serde::{Deserialize, Serialize};

use crate::check::{Check, Checked, FieldError, name, names, optional_name, refuse, text, within};
use crate::limits::{
    INTEGER_MAX, KEY_OVERLAP_MS, PAGE_ITEMS, QUEUES_PER_KEY_MAX, REQUESTS_PER_SECOND,
};
use crate::parse::Body;
use crate::{Role, Time};

/// `POST /v1/keys`: a key for a program or a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateKey {
    /// The name of the key, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 5))]
    pub roles: Vec<Role>,
    /// The calling key's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub tenant_id: Option<String>,
    /// The calling key's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub workspace_id: Option<String>,
    /// The queues that the key may use as a client, worker or reader: submit to, lease from, see; every queue when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 256))]
    pub queues: Option<Vec<String>>,
    /// When the key expires; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

impl Body for CreateKey {}

impl Check for CreateKey {
    fn check(&self) -> Checked {
        text("name", self.name.as_deref())?;
        roles(&self.roles)?;
        optional_name("tenantId", self.tenant_id.as_deref())?;
        optional_name("workspaceId", self.workspace_id.as_deref())?;
        let Some(queues) = &self.queues else { return Ok(()) };
        if self.roles.iter().all(|role| matches!(role, Role::Admin | Role::Approver)) {
            return refuse(
                "queues",
                "limits the roles client, worker and reader, and this key has none of them",
            );
        }
        names("queues", queues, QUEUES_PER_KEY_MAX)
    }
}

fn roles(roles: &[Role]) -> Result<(), FieldError> {
    let is_repeated = (1..roles.len()).any(|at| roles[..at].contains(&roles[at]));
    if roles.is_empty() || is_repeated {
        return refuse(
            "roles",
            "must name at least one of client, worker, admin, reader and approver, and each at most once",
        );
    }
    Ok(())
}

/// `POST /v1/keys/{keyId}/rotate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateKey {
    /// How long the old secret stays valid; a day when absent, 0 to invalidate it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 2592000000u64))]
    pub overlap_ms: Option<u64>,
}

impl Body for RotateKey {
    fn from_empty() -> Option<RotateKey> {
        Some(RotateKey::default())
    }
}

impl Check for RotateKey {
    fn check(&self) -> Checked {
        within("overlapMs", self.overlap_ms, KEY_OVERLAP_MS)
    }
}

/// A key, without its secret, which only its holder has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Key {
    /// The public part: the second of the four parts of the key.
    pub key_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub roles: Vec<Role>,
    pub tenant_id: String,
    pub workspace_id: String,
    /// The queues it is limited to; every queue when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    pub created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
    /// Until when the secret before the last rotation stays valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_secret_until: Option<Time>,
    /// When it was last used, to the hour; absent when it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Time>,
}

/// A key that was just created or rotated: the only time its secret is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct NewKey {
    pub key: Key,
    /// What its holder sends as `Authorization: Bearer …`.
    pub secret: String,
}

/// `GET /v1/keys?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct ListKeys {
    /// Only keys after this one: the `nextAfter` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

impl Check for ListKeys {
    fn check(&self) -> Checked {
        optional_name("after", self.after.as_deref())?;
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

/// The keys that the calling key may administer, by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Keys {
    pub keys: Vec<Key>,
    /// The `after` of the next page; absent on the last one. A page may be shorter than its `limit`: it is large enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// `GET /v1/audit?…`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct AuditQuery {
    /// Only entries before this one: the `nextBefore` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 9007199254740991i64))]
    pub before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
}

impl Check for AuditQuery {
    fn check(&self) -> Checked {
        within("before", self.before, 1..=INTEGER_MAX)?;
        within("limit", self.limit.map(u64::from), PAGE_ITEMS)
    }
}

/// A page of the audit, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct AuditLog {
    pub entries: Vec<AuditEntry>,
    /// Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u64>,
}

/// An administrative change, or a refused call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct AuditEntry {
    pub n: u64,
    pub at: Time,
    /// The scope of the key that was changed, or of the one that was refused.
    pub tenant_id: String,
    pub workspace_id: String,
    /// The id of the key that asked; `server` for the first key of a store, `anonymous` without one.
    pub actor: String,
    /// `key.created`, `key.rotated`, `key.revoked`, `signing.rotated`, `limits.set`, `queue.paused`, `queue.resumed` or
    /// `refused`.
    pub action: String,
    /// The id of the key, the tenant or the queue that was changed, or the route that was refused.
    pub object: String,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How many refusals this entry stands for; 1 otherwise.
    pub times: u32,
    /// Digest of the key before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_digest: Option<String>,
    /// Digest of the key after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// `POST /v1/signing-keys/rotate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateSigning {
    /// A key has leaked: every older task token is refused at once. Running attempts are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emergency: Option<bool>,
}

impl Body for RotateSigning {
    fn from_empty() -> Option<RotateSigning> {
        Some(RotateSigning::default())
    }
}

impl Check for RotateSigning {
    fn check(&self) -> Checked {
        Ok(())
    }
}

/// Task tokens are signed with a new key from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct SigningRotated {
    /// The public name of the new key.
    pub kid: String,
    /// Until when older tokens stay valid; absent after an emergency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_until: Option<Time>,
}

/// `POST /v1/limits`: sets the limits of a tenant. An absent limit is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetLimits {
    #[cfg_attr(
        feature = "openapi",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._:/-]{1,128}$")
    )]
    pub tenant_id: String,
    /// Calls of clients and polls of workers per second; heartbeats, reports and administration are never limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000000))]
    pub requests_per_second: Option<u32>,
    /// How many requests may arrive at once after a pause; the number per second when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000000))]
    pub burst: Option<u32>,
    /// The quota of runs that wait or run; 0 accepts no new runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 9007199254740991u64))]
    pub unfinished_runs: Option<u64>,
}

impl Body for SetLimits {}

impl Check for SetLimits {
    fn check(&self) -> Checked {
        name("tenantId", &self.tenant_id)?;
        let rate = self.requests_per_second.map(u64::from);
        within("requestsPerSecond", rate, REQUESTS_PER_SECOND)?;
        within("burst", self.burst.map(u64::from), REQUESTS_PER_SECOND)?;
        if self.burst.is_some() && self.requests_per_second.is_none() {
            return refuse("burst", "needs requestsPerSecond, which is absent");
        }
        within("unfinishedRuns", self.unfinished_runs, 0..=INTEGER_MAX)
    }
}

/// The limits of a tenant and its usage; a limit that is absent is not set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct TenantLimits {
    pub tenant_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished_runs: Option<u64>,
    /// How many runs wait or run at this moment.
    pub unfinished_runs_now: u64,
    /// How many requests may come at once at this moment, where there is a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_left_now: Option<u32>,
    /// When a request was last refused because of the rate, since the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_at: Option<Time>,
    pub changed_at: Time,
}

/// The limits that the calling key may see, by tenant. A tenant that is not named has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct Limits {
    pub limits: Vec<TenantLimits>,
}

/// A task that cannot be read, decided or stored, and is skipped for now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct TaskSetAside {
    pub task_id: String,
    /// What went wrong the last time.
    pub why: String,
    /// When it was first found, since the server started.
    pub since: Time,
    /// How often it was tried.
    pub tries: u32,
    /// When it is tried again; absent when it is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The tasks that this server has set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct SetAside {
    pub tasks: Vec<TaskSetAside>,
    /// Messages between tasks that cannot be decided, of all servers that share the store; the first 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<ParkedMessage>,
}

/// A message from one task to another that the rules refuse. It stays, and blocks only messages of the same pair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct ParkedMessage {
    pub from_task_id: String,
    pub to_task_id: String,
    /// The code of the refusal.
    pub why: String,
}

/// What a check of the whole audit found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct AuditVerified {
    pub entries: u64,
    /// Entries from before there were seals have none.
    pub sealed: u64,
    /// Whether the end was compared with the anchor outside of the store; if not, truncation is not detected.
    pub anchored: bool,
    /// The first entry that is wrong comes first.
    pub findings: Vec<AuditFinding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(not(feature = "answering"), non_exhaustive)]
pub struct AuditFinding {
    /// The first entry it is about.
    pub n: u64,
    pub message: String,
}
