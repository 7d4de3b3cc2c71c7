//! The audit: administrative changes and refused calls.

use wire::admin::{AuditLog, AuditQuery, AuditVerified};

use super::{Client, Request};
use crate::Error;

/// The audit of the scopes that a client's key administers. See [`Client::audit`].
#[derive(Clone, Copy, Debug)]
pub struct Audit<'a> {
    client: &'a Client,
}

impl Client {
    /// The audit, to read and verify it. Needs a key with the role admin.
    pub fn audit(&self) -> Audit<'_> {
        Audit { client: self }
    }
}

impl Audit<'_> {
    /// A page of entries, newest first.
    pub fn list(&self) -> Request<AuditQuery, AuditLog> {
        Request::read(self.client, &["v1", "audit"], AuditQuery::default())
    }

    /// Verifies that the whole log is unchanged since it was written.
    pub async fn verify(&self) -> Result<AuditVerified, Error> {
        self.client.get_json(&["v1", "audit", "verify"], &()).await
    }
}
