//! The values that one signing key needs repeatedly for task tokens: its header, and a key for each
//! scope in use. With them a token costs one MAC and no key derivation.
//!
//! The cache lives as long as its signing key: when that is rotated away, the keys derived from it
//! are dropped too and their memory is overwritten. A scope is cached only after a signature of it
//! was made or verified, so that forged claims cannot fill the cache.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use hmac::Mac;
use verdict::Scope;

use crate::{HmacSha256, SigningKey, mac};

const PURPOSE: &str = "task-token";

/// Far more tenants and workspaces than are active on one coordinator at once. At this limit all
/// are derived again, which costs a microsecond each.
const SCOPES_MAX: usize = 4_096;

/// The key of one scope, ready to sign.
pub(super) struct ScopeKey {
    scope: Scope,
    keyed: HmacSha256,
}

impl ScopeKey {
    pub(super) fn derive(signing: &SigningKey, scope: Scope) -> Self {
        let keyed = mac(&signing.derive(PURPOSE, &scope));
        Self { scope, keyed }
    }

    /// Shared text, where the claims hold a separate copy.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(super) fn sign(&self, text: &str) -> [u8; 32] {
        self.keyed.clone().chain_update(text).finalize().into_bytes().into()
    }

    /// Compares in constant time, wherever a wrong signature differs.
    pub(super) fn is_signature(&self, text: &str, signature: &[u8]) -> bool {
        self.keyed.clone().chain_update(text).verify_slice(signature).is_ok()
    }
}

pub(crate) struct TokenKeys {
    header: String,
    cache: RwLock<ScopeKeyCache>,
}

#[derive(Default)]
struct ScopeKeyCache {
    by_tenant: HashMap<Box<str>, HashMap<Box<str>, Arc<ScopeKey>>>,
    count: usize,
}

impl TokenKeys {
    pub(super) fn new(header: String) -> Self {
        Self { header, cache: RwLock::default() }
    }

    /// The first part of every token that the key signs.
    pub(super) fn header(&self) -> &str {
        &self.header
    }

    pub(super) fn find(&self, tenant: &str, workspace: &str) -> Option<Arc<ScopeKey>> {
        let cache = self.cache.read().expect("no code panics while it holds the keys");
        cache.by_tenant.get(tenant)?.get(workspace).cloned()
    }

    pub(super) fn remember(&self, key: ScopeKey) -> Arc<ScopeKey> {
        let key = Arc::new(key);
        let mut cache = self.cache.write().expect("no code panics while it holds the keys");
        if cache.count == SCOPES_MAX {
            *cache = ScopeKeyCache::default();
        }
        let (tenant, workspace) = (key.scope.tenant.as_str(), key.scope.workspace.as_str());
        let of_tenant = cache.by_tenant.entry(tenant.into()).or_default();
        if of_tenant.insert(workspace.into(), key.clone()).is_none() {
            cache.count += 1;
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(signing: &SigningKey, workspace: usize) -> ScopeKey {
        ScopeKey::derive(signing, Scope::new("acme", workspace.to_string().as_str()))
    }

    #[test]
    fn what_is_remembered_signs_as_what_is_derived() {
        let signing = SigningKey::new([7; 32], None);
        let keys = TokenKeys::new(String::new());
        assert!(keys.find("acme", "1").is_none());
        keys.remember(key(&signing, 1));
        let found = keys.find("acme", "1").unwrap();
        let signature = key(&signing, 1).sign("text");
        assert_eq!(found.sign("text"), signature);
        assert!(found.is_signature("text", &signature));
        assert!(!found.is_signature("test", &signature));
        assert!(!key(&signing, 2).is_signature("text", &signature), "another scope");
        assert!(keys.find("acm", "e1").is_none());
    }

    #[test]
    fn the_scopes_remembered_are_bounded() {
        let signing = SigningKey::new([7; 32], None);
        let keys = TokenKeys::new(String::new());
        for workspace in 0..=SCOPES_MAX {
            keys.remember(key(&signing, workspace));
        }
        keys.remember(key(&signing, SCOPES_MAX));
        assert!(keys.find("acme", "0").is_none());
        assert!(keys.find("acme", &SCOPES_MAX.to_string()).is_some());
        assert_eq!(keys.cache.read().unwrap().count, 1);
    }
}
