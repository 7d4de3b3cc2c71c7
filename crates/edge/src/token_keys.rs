//! The values that one signing key needs repeatedly for task tokens: its header, and a key for each
//! scope in use. With them a token costs one MAC and no key derivation.
//!
//! All tokens of a scope begin with the same text, so its part of the MAC is computed once and each
//! token goes on from there. Many processors have no instruction for SHA-256, and on them the MAC is
//! most of what a token costs: hence that, and the library with the fastest hash in plain instructions.
//!
//! The cache lives as long as its signing key: when that is rotated away, the keys derived from it
//! are dropped too. A scope is cached only after a signature of it
//! was made or verified, so that forged claims cannot fill the cache.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use ring::hmac::{self, Context, HMAC_SHA256, Key, Tag};
use verdict::Scope;

use crate::{SigningKey, token};

const PURPOSE: &str = "task-token";

/// Far more tenants and workspaces than are active on one coordinator at once. At this limit all
/// are derived again, which costs a microsecond each.
const SCOPES_MAX: usize = 4_096;

/// The key of one scope, ready to sign.
pub(super) struct ScopeKey {
    scope: Scope,
    key: Key,
    first_claims: String,
    /// What all tokens of the scope begin with.
    first: String,
    /// The MAC after that text.
    begun: Context,
}

impl ScopeKey {
    pub(super) fn derive(signing: &SigningKey, scope: Scope) -> Self {
        let key = Key::new(HMAC_SHA256, &signing.derive(PURPOSE, &scope));
        let first_claims = token::first_claims(&scope);
        let first = token::first_text(signing.token_keys().header(), &first_claims);
        let mut begun = Context::with_key(&key);
        begun.update(first.as_bytes());
        Self { scope, key, first_claims, first, begun }
    }

    /// Shared text, where the claims hold a separate copy.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The beginning of the claims, up to those that differ.
    pub(super) fn first_claims(&self) -> &str {
        &self.first_claims
    }

    pub(super) fn sign(&self, text: &str) -> Tag {
        let Some(rest) = text.strip_prefix(self.first.as_str()) else {
            return hmac::sign(&self.key, text.as_bytes());
        };
        let mut mac = self.begun.clone();
        mac.update(rest.as_bytes());
        mac.sign()
    }

    /// Compares in constant time, wherever a wrong signature differs.
    pub(super) fn is_signature(&self, text: &str, signature: &[u8]) -> bool {
        is_same(self.sign(text).as_ref(), signature)
    }
}

/// The length of a signature is public; where two differ is not.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |found, (one, other)| found | (one ^ other));
    one.len() == other.len() && std::hint::black_box(difference) == 0
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
    use ::hmac::Mac;

    use super::*;
    use crate::mac;

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
        let signature = signature.as_ref();
        assert_eq!(found.sign("text").as_ref(), signature);
        assert!(found.is_signature("text", signature));
        assert!(!found.is_signature("test", signature));
        for end in 0..signature.len() {
            assert!(!found.is_signature("text", &signature[..end]), "a part of it");
        }
        assert!(!key(&signing, 2).is_signature("text", signature), "another scope");
        assert!(keys.find("acm", "e1").is_none());
    }

    #[test]
    fn a_mac_that_goes_on_from_the_first_text_is_that_of_the_whole() {
        // S4-10: by the other implementation of HMAC-SHA256, with and without the usual beginning.
        let signing = SigningKey::new([7; 32], None);
        let key = key(&signing, 1);
        for text in [key.first.clone() + "rest", key.first.clone(), key.first[1..].to_owned()] {
            let whole = mac(&signing.derive(PURPOSE, &key.scope)).chain_update(&text).finalize();
            assert_eq!(key.sign(&text).as_ref(), whole.into_bytes().as_slice(), "{text}");
        }
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
