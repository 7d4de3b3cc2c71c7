//! Rows of administration: API keys, tenant limits, and the audit of who changed them.
//!
//! They are outside the state machine of tasks. A change of a key and its audit record are written
//! in one transaction ([`crate::seam::Writer::administer`]). The audit is append-only.

use verdict::{Digest, Name, Scope, TaskId, Text, Time};

use crate::failure::{Failure, FailureKind};
use crate::pauses::PauseChange;
use crate::record_seals::RecordSeal;

/// An API key of the HTTP interface. Only digests of its secrets are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The public part, which identifies the key.
    pub id: Name,
    pub scope: Scope,
    pub roles: Vec<Name>,
    pub digest: Digest,
    pub created_at: Time,
    /// A name for people.
    pub name: Option<Text>,
    /// The queues a worker may lease from; `None` means every queue.
    pub queues: Option<Vec<Name>>,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
    /// The secret before the last rotation, while it is still accepted.
    pub previous: Option<PreviousSecret>,
    /// Approximate: see [`Administration::uses`].
    pub last_used_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousSecret {
    pub digest: Digest,
    pub until: Time,
}

impl ApiKey {
    /// A digest of every field of the row, so that an audit record shows whether the row was changed since.
    /// The time of last use is left out.
    pub fn fingerprint(&self) -> Digest {
        let Self { id, scope, roles, digest, created_at, .. } = self;
        let times = [Some(*created_at), self.expires_at, self.revoked_at];
        let mut fields: Vec<Vec<u8>> = vec![
            id.as_str().into(),
            scope.tenant.as_str().into(),
            scope.workspace.as_str().into(),
            list(Some(roles)),
            digest.bytes().to_vec(),
            self.name.as_ref().map_or(Vec::new(), |name| name.as_str().into()),
            list(self.queues.as_ref()),
        ];
        fields.extend(times.map(instant));
        let previous = self.previous;
        fields.push(previous.map_or(Vec::new(), |previous| previous.digest.bytes().to_vec()));
        fields.push(instant(previous.map(|previous| previous.until)));
        Digest::of(&fields.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
}

fn list(names: Option<&Vec<Name>>) -> Vec<u8> {
    // Names contain no line breaks, and an empty list differs from `None`.
    names.map_or(Vec::new(), |names| {
        names.iter().flat_map(|name| [name.as_str().as_bytes(), b"\n"].concat()).collect()
    })
}

fn instant(time: Option<Time>) -> Vec<u8> {
    time.map_or(Vec::new(), |time| time.millis().to_be_bytes().to_vec())
}

/// The limits of a tenant; `None` means unlimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    pub tenant: Name,
    pub requests_per_second: Option<u32>,
    /// Requests that may arrive at once after a pause.
    pub burst: Option<u32>,
    /// Runs that are waiting or running.
    pub unfinished_runs: Option<u64>,
    pub changed_at: Time,
}

impl TenantLimits {
    /// A digest of every field of the row, so that an audit record shows whether the row was changed since.
    pub fn fingerprint(&self) -> Digest {
        let number =
            |number: Option<u64>| number.map_or(Vec::new(), |it| it.to_be_bytes().to_vec());
        let fields = [
            self.tenant.as_str().as_bytes().to_vec(),
            number(self.requests_per_second.map(u64::from)),
            number(self.burst.map(u64::from)),
            number(self.unfinished_runs),
            instant(Some(self.changed_at)),
        ];
        Digest::of(&fields.each_ref().map(Vec::as_slice))
    }
}

/// The name of a key that the store does not have, and that key's MAC of a record and the previous seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal(pub [u8; Seal::BYTES]);

impl Seal {
    pub const BYTES: usize = 40;
}

/// An administrative act, or a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub at: Time,
    /// The scope of what was changed, or of the refused caller.
    pub scope: Scope,
    /// The public part of the caller's key, or a word for a caller without one.
    pub actor: Name,
    pub action: Name,
    /// What was changed, or which route was refused.
    pub object: Text,
    /// Why it was refused; `None` for an act that was done.
    pub code: Option<Name>,
    /// How many equal events the row stands for.
    pub times: u32,
    pub before: Option<Digest>,
    pub after: Option<Digest>,
    pub request: Option<Name>,
    /// Reveals a change of this record or of the order. Made by the holder of the sealing key.
    pub seal: Option<Seal>,
}

/// A record with its position in the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// Numbered from 1, without gaps.
    pub n: u64,
    pub audit: Audit,
}

/// What one administrative act writes, atomically.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Administration {
    /// The new rows; a key is found by its id.
    pub keys: Vec<ApiKey>,
    /// The new rows; a row is found by its tenant.
    pub limits: Vec<TenantLimits>,
    /// Changes of pauses, in order.
    pub pauses: Vec<PauseChange>,
    /// Keys that were used, and roughly when. Not a change of a key, so it needs no record.
    pub uses: Vec<(Name, Time)>,
    pub audit: Vec<Audit>,
    /// New seals over records of ended tasks. One that does not follow the newest seal of its tenant is left out:
    /// another coordinator was first, and the reader of the chain sees whose seal is there.
    pub record_seals: Vec<RecordSeal>,
    /// The last record of the audit when these were sealed. If it is no longer the last one, another process wrote
    /// first: a conflict, and nothing is written.
    pub follows: Option<u64>,
    /// The new signing keys, where coordinators share them through the store.
    pub ring: Option<RingChange>,
}

/// Signing keys, sealed with a key that the store does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRing {
    /// Grows with every change.
    pub version: u64,
    pub sealed: Vec<u8>,
}

/// A change of the signing keys. A conflict if the stored ring is no longer the one it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingChange {
    /// The version it was made from; `None` for the first.
    pub before: Option<u64>,
    pub sealed: Vec<u8>,
}

/// What a store keeps beside tasks and the audit, in one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdministrationRows {
    pub api_keys: Vec<ApiKey>,
    /// The limits of every tenant that has some, by name.
    pub tenant_limits: Vec<TenantLimits>,
    /// The signing keys that coordinators share through the store. `None` where one coordinator has the store
    /// alone: then the keys are in a file.
    pub ring: Option<SealedRing>,
    /// How many coordinators work on the store, as far as is known. A hint: they divide shared limits by it.
    pub coordinators: u32,
}

/// Which records to show, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only records of this tenant; `None` for all tenants.
    pub tenant: Option<Name>,
    /// And of those, only records of this workspace; `None` for all workspaces.
    pub workspace: Option<Name>,
    /// Only records before this one.
    pub before: Option<u64>,
    pub limit: usize,
}

/// Another process has appended to the audit since its end was last read.
pub fn audit_conflict() -> Failure {
    let kind = FailureKind::Conflict(TaskId::from_u128(0));
    Failure::new(kind, "another coordinator wrote to the audit first")
}

/// Such a store is used by one coordinator only.
pub(crate) fn no_shared_ring() -> Failure {
    Failure::new(FailureKind::Invalid, "the signing keys of this store are in a file")
}
