//! One signing key: 32 random bytes that never leave this module, from which every other key is derived.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use verdict::{Scope, Time};

use crate::admit::token_keys::TokenKeys;
use crate::admit::{hex, token};
use crate::ids::Entropy;

pub(in crate::admit) type HmacSha256 = Hmac<Sha256>;

/// As long as the output of the hash it keys.
pub(super) const KEY_BYTES: usize = 32;

/// Enough to tell keys apart in a header; not a secret.
pub(in crate::admit) const KID_BYTES: usize = 8;

/// One key. Its name is public, its bytes are not.
#[derive(Clone)]
pub(crate) struct SigningKey {
    pub(super) kid: String,
    pub(super) master: [u8; KEY_BYTES],
    /// From this instant on nothing it signed counts; `None` for the one in use.
    pub(super) not_after: Option<Time>,
    pub(super) token_keys: Arc<TokenKeys>,
}

/// What a key that signs no more leaves behind: enough to check the seals it made, and to make none but
/// seals.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SealingKey {
    pub(super) kid: String,
    pub(super) key: [u8; KEY_BYTES],
}

const SEALING: &str = "audit-seal";

impl SigningKey {
    pub(in crate::admit) fn new(master: [u8; KEY_BYTES], not_after: Option<Time>) -> Self {
        let digest = Sha256::new().chain_update(b"tenure kid").chain_update(master).finalize();
        let kid = hex(&digest[..KID_BYTES]);
        let token_keys = Arc::new(TokenKeys::new(token::header(&kid)));
        Self { kid, master, not_after, token_keys }
    }

    pub(in crate::admit) fn token_keys(&self) -> &TokenKeys {
        &self.token_keys
    }

    /// All tenants' entries are one log, so that their scope is nobody's.
    pub(super) fn sealing(&self) -> [u8; KEY_BYTES] {
        self.derive(SEALING, &Scope::default())
    }

    pub(super) fn counts(&self, now: Time) -> bool {
        self.not_after.is_none_or(|end| !end.has_come(now))
    }

    /// A key of its own for each purpose and scope: what is moved to another tenant fails in
    /// cryptography before it fails in logic.
    pub(in crate::admit) fn derive(&self, purpose: &str, scope: &Scope) -> [u8; KEY_BYTES] {
        let (tenant, workspace) = (scope.tenant.as_str(), scope.workspace.as_str());
        // HKDF-SHA-256: extract with an empty salt, expand to one block.
        let pseudorandom = mac(&[0; 32]).chain_update(self.master).finalize().into_bytes();
        let mut expand = mac(&pseudorandom.into());
        for part in [purpose, tenant, workspace] {
            // The length in front keeps `a`, `bc` and `ab`, `c` apart.
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

pub(super) fn fresh(entropy: &mut dyn Entropy) -> Arc<SigningKey> {
    let mut master = [0; KEY_BYTES];
    entropy.fill(&mut master);
    Arc::new(SigningKey::new(master, None))
}

pub(super) fn kid_bytes(kid: &str) -> [u8; KID_BYTES] {
    std::array::from_fn(|at| {
        let pair = kid.get(2 * at..2 * at + 2).expect("a key's name has two digits for each byte");
        u8::from_str_radix(pair, 16).expect("a key's name is hexadecimal")
    })
}

pub(in crate::admit) fn mac(key: &[u8; KEY_BYTES]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes keys of any length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::Keyring;

    #[test]
    fn purposes_and_scopes_have_keys_of_their_own() {
        let ring = Keyring::from_bytes([9; 32]);
        let scopes = [Scope::new("a", "bc"), Scope::new("ab", "c"), Scope::default()];
        let mut keys: Vec<[u8; 32]> = Vec::new();
        for scope in &scopes {
            keys.push(ring.current().derive("task-token", scope));
            keys.push(ring.current().derive("cursor", scope));
        }
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
