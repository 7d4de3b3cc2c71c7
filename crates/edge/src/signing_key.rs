//! One signing key: 32 random bytes, from which every other key is derived.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use verdict::{Scope, Time};

use crate::token_keys::TokenKeys;
use crate::{hex, token};

pub type HmacSha256 = Hmac<Sha256>;

/// The output length of the hash.
pub const KEY_BYTES: usize = 32;

/// Enough to distinguish keys in a header; not a secret.
pub const KID_BYTES: usize = 8;

/// One key. Its name is public, its bytes are not.
#[derive(Clone)]
pub struct SigningKey {
    kid: String,
    master: [u8; KEY_BYTES],
    /// From this instant on its signatures are refused; `None` for the key in use.
    not_after: Option<Time>,
    token_keys: Arc<TokenKeys>,
}

impl SigningKey {
    pub fn new(master: [u8; KEY_BYTES], not_after: Option<Time>) -> Self {
        let digest = Sha256::new().chain_update(b"tenure kid").chain_update(master).finalize();
        let kid = hex(&digest[..KID_BYTES]);
        let token_keys = Arc::new(TokenKeys::new(token::header(&kid)));
        Self { kid, master, not_after, token_keys }
    }

    pub(crate) fn token_keys(&self) -> &TokenKeys {
        &self.token_keys
    }

    /// The public key id.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The secret itself, for code that stores keys.
    pub fn master(&self) -> &[u8; KEY_BYTES] {
        &self.master
    }

    pub fn not_after(&self) -> Option<Time> {
        self.not_after
    }

    /// The same key with another expiry, and with the keys already derived from it.
    pub fn with_not_after(&self, not_after: Option<Time>) -> Self {
        Self { not_after, ..self.clone() }
    }

    pub fn is_valid_at(&self, now: Time) -> bool {
        self.not_after.is_none_or(|end| !end.has_come(now))
    }

    /// Derives a separate key for each purpose and scope: a token moved to another tenant fails in
    /// cryptography before it fails in logic.
    pub fn derive(&self, purpose: &str, scope: &Scope) -> [u8; KEY_BYTES] {
        let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
        // HKDF-SHA-256: extract with an empty salt, expand to one block.
        let pseudorandom = mac(&[0; 32]).chain_update(self.master).finalize().into_bytes();
        let mut expand = mac(&pseudorandom.into());
        for part in [purpose, tenant, workspace] {
            // The length prefix keeps `a`, `bc` and `ab`, `c` apart.
            expand.update(&(part.len() as u32).to_be_bytes());
            expand.update(part.as_bytes());
        }
        expand.chain_update([1]).finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.kid)
    }
}

pub fn mac(key: &[u8; KEY_BYTES]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes keys of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_and_scopes_have_keys_of_their_own() {
        let key = SigningKey::new([9; 32], None);
        let scopes = [Scope::new("a", "bc"), Scope::new("ab", "c"), Scope::default()];
        let mut keys: Vec<[u8; 32]> = Vec::new();
        for scope in &scopes {
            keys.push(key.derive("task-token", scope));
            keys.push(key.derive("cursor", scope));
        }
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
