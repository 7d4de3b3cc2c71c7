//! Administration: API keys and the audit. Needs a key with the role admin.

use wire::admin::{
    AuditLog, AuditQuery, AuditVerified, CreateKey, Key, Keys, Limits, NewKey, RotateKey,
    RotateSigning, SetAside, SetLimits, SigningRotated, TenantLimits,
};

use super::Client;
use crate::Error;
use crate::transport::Retries;

impl Client {
    /// Makes a key. Tried once: repeating it after a lost answer would leave a key that nobody knows.
    pub async fn create_key(&self, wanted: &CreateKey) -> Result<NewKey, Error> {
        self.without_retries().call(&self.post(&["v1", "keys"], wanted)?).await
    }

    /// The keys that this client's key may administer; never their secrets.
    pub async fn keys(&self) -> Result<Keys, Error> {
        self.transport.call(&self.get(&["v1", "keys"], &())?).await
    }

    /// Gives a key a new secret. Tried once: repeating it would end the overlap of the secret in use.
    pub async fn rotate_key(&self, key_id: &str, how: &RotateKey) -> Result<NewKey, Error> {
        self.without_retries().call(&self.post(&["v1", "keys", key_id, "rotate"], how)?).await
    }

    /// Makes a key useless, at once and for ever.
    pub async fn revoke_key(&self, key_id: &str) -> Result<Key, Error> {
        let no_members = serde_json::Map::new();
        self.transport.call(&self.post(&["v1", "keys", key_id, "revoke"], &no_members)?).await
    }

    /// What was administered and refused, newest first.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AuditLog, Error> {
        self.transport.call(&self.get(&["v1", "audit"], query)?).await
    }

    /// Whether the whole audit is as it was written.
    pub async fn verify_audit(&self) -> Result<AuditVerified, Error> {
        self.transport.call(&self.get(&["v1", "audit", "verify"], &())?).await
    }

    /// Signs task tokens with a new key from now on.
    pub async fn rotate_signing(&self, how: &RotateSigning) -> Result<SigningRotated, Error> {
        self.without_retries().call(&self.post(&["v1", "signing-keys", "rotate"], how)?).await
    }

    /// The limits of tenants that this client's key may see.
    pub async fn limits(&self) -> Result<Limits, Error> {
        self.transport.call(&self.get(&["v1", "limits"], &())?).await
    }

    /// Limits what a tenant may use, from now on.
    pub async fn set_limits(&self, wanted: &SetLimits) -> Result<TenantLimits, Error> {
        self.transport.call(&self.post(&["v1", "limits"], wanted)?).await
    }

    /// Tasks that the server which answers cannot carry on, and why.
    pub async fn set_aside(&self) -> Result<SetAside, Error> {
        self.transport.call(&self.get(&["v1", "set-aside"], &())?).await
    }

    fn without_retries(&self) -> crate::transport::Transport {
        self.transport.clone().with_retries(Retries::NONE)
    }
}
