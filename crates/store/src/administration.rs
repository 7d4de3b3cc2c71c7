//! Rows of administration: the keys that open the HTTP interface, and who changed what.
//!
//! Both stand outside the state machine of tasks. A change of a key and the record of it are written
//! in one transaction ([`crate::seam::Writer::administer`]); records are only ever added.

use verdict::{Digest, Name, Scope, TaskId, Text, Time};

use crate::failure::{Failure, FailureKind};

/// A key that opens the HTTP interface. Only digests of its secrets are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The public part, by which it is found and named.
    pub id: Name,
    pub scope: Scope,
    pub roles: Vec<Name>,
    pub digest: Digest,
    pub created_at: Time,
    /// What people call it.
    pub name: Option<Text>,
    /// The queues a worker may lease from; `None` means every queue.
    pub queues: Option<Vec<Name>>,
    pub expires_at: Option<Time>,
    pub revoked_at: Option<Time>,
    /// The secret before the last rotation, while it still counts.
    pub previous: Option<PreviousSecret>,
    /// Roughly: see [`Administration::uses`].
    pub last_used_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousSecret {
    pub digest: Digest,
    pub until: Time,
}

impl ApiKey {
    /// Over everything the row says, so that a record shows whether it was changed since. Its use is no
    /// change.
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
    // Names hold no line breaks, and an empty list is not the same as none.
    names.map_or(Vec::new(), |names| {
        names.iter().flat_map(|name| [name.as_str().as_bytes(), b"\n"].concat()).collect()
    })
}

fn instant(time: Option<Time>) -> Vec<u8> {
    time.map_or(Vec::new(), |time| time.millis().to_be_bytes().to_vec())
}

/// What a tenant may use at most; `None` means without that limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantLimits {
    pub tenant: Name,
    pub requests_per_second: Option<u32>,
    /// Requests that may come at once after a pause.
    pub burst: Option<u32>,
    /// Runs that wait or run.
    pub unfinished_runs: Option<u64>,
    pub changed_at: Time,
}

impl TenantLimits {
    /// Over everything the row says, so that a record shows whether it was changed since.
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

/// A name of a key that the store does not have, and that key's code over a record and the seal before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal(pub [u8; Seal::BYTES]);

impl Seal {
    pub const BYTES: usize = 40;
}

/// Something that was administered, or refused to somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub at: Time,
    /// Whose affair it is: the scope of what was changed, or of who was refused.
    pub scope: Scope,
    /// The public part of the key that asked, or a word for who has none.
    pub actor: Name,
    pub action: Name,
    /// What it was done to, or which route was refused.
    pub object: Text,
    /// Why it was refused; `None` when it was done.
    pub code: Option<Name>,
    /// How many events like this one the row stands for.
    pub times: u32,
    pub before: Option<Digest>,
    pub after: Option<Digest>,
    pub request: Option<Name>,
    /// By which a change of this record, or of the order, is noticed; made by who has the key.
    pub seal: Option<Seal>,
}

/// A record with its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// From 1, without gaps.
    pub n: u64,
    pub audit: Audit,
}

/// What one administrative act writes, all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Administration {
    /// Rows as they are from now on; a key is found by its id.
    pub keys: Vec<ApiKey>,
    /// Rows as they are from now on; a row is found by its tenant.
    pub limits: Vec<TenantLimits>,
    /// Keys that were used, and about when. No change of a key, so that it needs no record.
    pub uses: Vec<(Name, Time)>,
    pub audit: Vec<Audit>,
    /// The last record of the log that these were sealed behind. If another one stands there by now, somebody
    /// else was first: a conflict, and nothing is written.
    pub follows: Option<u64>,
    /// The signing keys as they are from now on, where coordinators share them through the store.
    pub ring: Option<RingChange>,
}

/// Signing keys, sealed with a key that the store does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRing {
    /// Grows with every change.
    pub version: u64,
    pub sealed: Vec<u8>,
}

/// A change of the signing keys; a conflict if they are not the ones it was made from any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingChange {
    /// The version it was made from; `None` for the first.
    pub before: Option<u64>,
    pub sealed: Vec<u8>,
}

/// Which records to show, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only this tenant's affairs; `None` for everybody's.
    pub tenant: Option<Name>,
    /// And of that, only this workspace's; `None` for all of them.
    pub workspace: Option<Name>,
    /// Only records before this one.
    pub before: Option<u64>,
    pub limit: usize,
}

/// Somebody else has written to the log since the last look at its end.
pub fn audit_conflict() -> Failure {
    let kind = FailureKind::Conflict(TaskId::from_u128(0));
    Failure::new(kind, "another coordinator wrote to the audit first")
}

/// One coordinator has such a store alone.
pub(crate) fn no_shared_ring() -> Failure {
    Failure::new(FailureKind::Invalid, "the signing keys of this store are in a file")
}
