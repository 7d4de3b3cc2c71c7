//! Administration: API keys, limits, budgets, pauses of queues and the audit. Changes need a key with the role admin.

use wire::admin::{
    AuditLog, AuditQuery, AuditVerified, CreateKey, Key, Keys, Limits, ListKeys, NewKey, RotateKey,
    RotateSigning, SetAside, SetLimits, SigningRotated, TenantLimits,
};
use wire::pausing::{PauseQueue, QueueStatus, ResumeQueue};
use wire::scope_budgets::{ScopeBudget, ScopeBudgets, SetBudget};

use super::Client;
use crate::Error;
use crate::transport::Retries;

impl Client {
    /// Creates a key. Tried once: a repetition after a lost answer would leave a key whose secret
    /// is lost.
    pub async fn create_key(&self, wanted: &CreateKey) -> Result<NewKey, Error> {
        self.without_retries().call(&self.post(&["v1", "keys"], wanted)?).await
    }

    /// The keys that this client's key may administer, without their secrets.
    pub async fn keys(&self) -> Result<Keys, Error> {
        let (mut all, mut query) = (Vec::new(), ListKeys::default());
        loop {
            let mut page: Keys = self.transport.call(&self.get(&["v1", "keys"], &query)?).await?;
            all.append(&mut page.keys);
            match page.next_after.take() {
                Some(after) => query.after = Some(after),
                None => {
                    page.keys = all;
                    return Ok(page);
                }
            }
        }
    }

    /// Gives a key a new secret. Tried once: a repetition would end the overlap of the secret in
    /// use.
    pub async fn rotate_key(&self, key_id: &str, how: &RotateKey) -> Result<NewKey, Error> {
        self.without_retries().call(&self.post(&["v1", "keys", key_id, "rotate"], how)?).await
    }

    /// Revokes a key, at once and permanently.
    pub async fn revoke_key(&self, key_id: &str) -> Result<Key, Error> {
        let no_members = serde_json::Map::new();
        self.transport.call(&self.post(&["v1", "keys", key_id, "revoke"], &no_members)?).await
    }

    /// Administrative changes and refused calls, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AuditLog, Error> {
        self.transport.call(&self.get(&["v1", "audit"], query)?).await
    }

    /// Verifies that the whole audit log is unchanged since it was written.
    pub async fn verify_audit(&self) -> Result<AuditVerified, Error> {
        self.transport.call(&self.get(&["v1", "audit", "verify"], &())?).await
    }

    /// Signs task tokens with a new key from now on.
    pub async fn rotate_signing(&self, how: &RotateSigning) -> Result<SigningRotated, Error> {
        self.without_retries().call(&self.post(&["v1", "signing-keys", "rotate"], how)?).await
    }

    /// The limits of the tenants that this client's key may see.
    pub async fn limits(&self) -> Result<Limits, Error> {
        self.transport.call(&self.get(&["v1", "limits"], &())?).await
    }

    /// Sets the limits of a tenant, from now on.
    pub async fn set_limits(&self, wanted: &SetLimits) -> Result<TenantLimits, Error> {
        self.transport.call(&self.post(&["v1", "limits"], wanted)?).await
    }

    /// The budgets of the tenants and workspaces that this client's key may see, and what is used of them.
    pub async fn budgets(&self) -> Result<ScopeBudgets, Error> {
        self.transport.call(&self.get(&["v1", "budgets"], &())?).await
    }

    /// Sets the budget of a tenant or workspace, from now on. Without a limit it removes the budget.
    pub async fn set_budget(&self, wanted: &SetBudget) -> Result<ScopeBudget, Error> {
        self.transport.call(&self.post(&["v1", "budgets"], wanted)?).await
    }

    /// Tasks that the answering server cannot continue, and why.
    pub async fn set_aside(&self) -> Result<SetAside, Error> {
        self.transport.call(&self.get(&["v1", "set-aside"], &())?).await
    }

    /// Pauses a queue: when this returns, nothing is leased from it any more. Everything else goes on.
    pub async fn pause_queue(&self, queue: &str, how: &PauseQueue) -> Result<QueueStatus, Error> {
        let path = ["v1", "queues", &in_path(queue), "pause"];
        self.transport.call(&self.post(&path, how)?).await
    }

    /// Resumes a paused queue.
    pub async fn resume_queue(&self, queue: &str, how: &ResumeQueue) -> Result<QueueStatus, Error> {
        let path = ["v1", "queues", &in_path(queue), "resume"];
        self.transport.call(&self.post(&path, how)?).await
    }

    pub(super) fn without_retries(&self) -> crate::transport::Transport {
        self.transport.clone().with_retries(Retries::NONE)
    }
}

/// A queue's name as a segment of a path, which has no escapes.
fn in_path(queue: &str) -> String {
    queue.replace('/', "~")
}
