//! All API keys, in memory, so that no request waits for the store to authenticate its caller.
//!
//! The store is the source of truth. A change is applied here when it is durable and before its
//! caller is answered, so a caller whose revocation was answered sees it in force (X12).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock};

use store::{ApiKey, Browse, Failure};
use verdict::{Span, Time};

use super::api_key::{KeyText, Verified, checksum, digest};
use super::change_turns::ChangeTurns;
use super::is_same;

#[derive(Clone, Default)]
pub struct ApiKeys {
    by_id: Arc<RwLock<ById>>,
    /// Held from the decision about a change until it is durable: changes are serialised.
    pub(super) changing: ChangeTurns,
}

/// How precisely the last use of a key is recorded: a write per request would cost more than the
/// request.
const USE_RECORDED_EVERY: Span = Span::from_secs(3600);

type ById = HashMap<String, KnownKey>;

/// A key, and the checksum of its current secret once that was sent: it is the same in every request.
#[derive(Clone)]
struct KnownKey {
    key: Arc<ApiKey>,
    checksum: Arc<OnceLock<String>>,
}

impl KnownKey {
    fn new(key: Arc<ApiKey>) -> Self {
        Self { key, checksum: Arc::default() }
    }
}

/// Why a credential is invalid. Only the holder of the right secret learns more than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("send a valid API key as `Authorization: Bearer tnr_…`")]
    Unknown,
    #[error("this API key has expired")]
    Expired,
    #[error("this API key was revoked")]
    Revoked,
    #[error("this API key was rotated and its old secret is no longer valid")]
    Rotated,
}

impl ApiKeys {
    pub async fn load<B: Browse>(browse: &B) -> Result<Self, Failure> {
        let keys = Self::default();
        keys.replace(browse.administration().await?.api_keys);
        Ok(keys)
    }

    pub(super) fn replace(&self, rows: Vec<ApiKey>) {
        *self.by_id.write().expect("no code panics while it holds the keys") = by_id(rows);
    }

    #[cfg(test)]
    pub(crate) fn of(rows: impl IntoIterator<Item = ApiKey>) -> Self {
        Self { by_id: Arc::new(RwLock::new(by_id(rows))), ..Self::default() }
    }

    /// Finds the key that was sent, if it exists and is valid.
    pub(crate) fn find(&self, text: &str, now: Time) -> Result<Verified, KeyError> {
        let (key, rotated_at) = self.matching(text)?;
        if rotated_at.is_some_and(|at| at.has_come(now)) {
            return Err(KeyError::Rotated);
        }
        usable(&key, now)?;
        Ok(Verified { key })
    }

    /// Finds the key that was sent, even if it was revoked, rotated or has expired. For calls in which something else
    /// is what authorises.
    pub(crate) fn find_even_unusable(&self, text: &str) -> Result<Verified, KeyError> {
        let (key, _) = self.matching(text)?;
        Ok(Verified { key })
    }

    /// The key whose secret was sent, and when that secret ends if it is the previous one.
    fn matching(&self, text: &str) -> Result<(Arc<ApiKey>, Option<Time>), KeyError> {
        let sent = KeyText::of(text).ok_or(KeyError::Unknown)?;
        let KnownKey { key, checksum: known } = self.known(sent.id).ok_or(KeyError::Unknown)?;
        let secret = digest(sent.id, sent.secret);
        let is_current = is_same(secret.bytes(), key.digest.bytes());
        let previous = key.previous.filter(|it| is_same(secret.bytes(), it.digest.bytes()));
        let computed = || checksum(sent.id, sent.secret);
        if is_current {
            let is_typed_right = known.get_or_init(computed) == sent.checksum;
            return is_typed_right.then_some((key, None)).ok_or(KeyError::Unknown);
        }
        let until =
            previous.filter(|_| computed() == sent.checksum).ok_or(KeyError::Unknown)?.until;
        Ok((key, Some(until)))
    }

    fn known(&self, id: &str) -> Option<KnownKey> {
        self.by_id.read().expect("no code panics while it holds the keys").get(id).cloned()
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<ApiKey>> {
        self.known(id).map(|known| known.key)
    }

    /// All keys, sorted by id.
    pub(crate) fn all(&self) -> Vec<Arc<ApiKey>> {
        let by_id = self.by_id.read().expect("no code panics while it holds the keys");
        let mut all: Vec<Arc<ApiKey>> = by_id.values().map(|known| known.key.clone()).collect();
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }

    /// Whether a key that was valid when a call began still is.
    pub(crate) fn is_usable(&self, id: &str, now: Time) -> bool {
        self.get(id).is_some_and(|key| usable(&key, now).is_ok())
    }

    /// Whether to record a use of the key. If so, it is noted in memory at once.
    pub(crate) fn should_record_use(&self, verified: &Verified, now: Time) -> bool {
        let known = verified.key().last_used_at;
        if known.is_some_and(|at| now.since(at) < USE_RECORDED_EVERY) {
            return false;
        }
        let mut by_id = self.by_id.write().expect("no code panics while it holds the keys");
        let id = verified.key().id.as_str();
        let Some(KnownKey { key, .. }) = by_id.get_mut(id) else { return false };
        // Another call may have been faster.
        if key.last_used_at != known {
            return false;
        }
        *key = Arc::new(ApiKey { last_used_at: Some(now), ..ApiKey::clone(key) });
        true
    }

    pub(super) fn put(&self, key: ApiKey) -> Arc<ApiKey> {
        let key = Arc::new(key);
        let mut by_id = self.by_id.write().expect("no code panics while it holds the keys");
        by_id.insert(key.id.as_str().to_owned(), KnownKey::new(key.clone()));
        key
    }
}

fn by_id(rows: impl IntoIterator<Item = ApiKey>) -> ById {
    let known = |key: ApiKey| (key.id.as_str().to_owned(), KnownKey::new(Arc::new(key)));
    rows.into_iter().map(known).collect()
}

pub(super) fn usable(key: &ApiKey, now: Time) -> Result<(), KeyError> {
    if key.revoked_at.is_some() {
        return Err(KeyError::Revoked);
    }
    if key.expires_at.is_some_and(|at| at.has_come(now)) {
        return Err(KeyError::Expired);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use store::PreviousSecret;
    use verdict::Scope;

    use super::*;
    use crate::admit::{NewKey, Role};
    use crate::ids::SeededEntropy;

    fn time(millis: i64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn a_key_counts_exactly_inside_its_life() {
        let new = NewKey::generate(&mut SeededEntropy::new(4), Scope::default(), &Role::ALL);
        let row = new.row(time(0));
        let expiring = ApiKeys::of([ApiKey { expires_at: Some(time(100)), ..row.clone() }]);
        assert!(expiring.find(new.text(), time(99)).is_ok());
        assert_eq!(expiring.find(new.text(), time(100)).unwrap_err(), KeyError::Expired);
        assert!(!expiring.is_usable(new.id.as_str(), time(100)));
        let revoked = ApiKeys::of([ApiKey { revoked_at: Some(time(5)), ..row }]);
        assert_eq!(revoked.find(new.text(), time(1)).unwrap_err(), KeyError::Revoked);
        assert!(!revoked.is_usable("no such key", time(1)));
    }

    #[test]
    fn a_rotated_secret_counts_until_its_overlap_ends() {
        let mut entropy = SeededEntropy::new(5);
        let new = NewKey::generate(&mut entropy, Scope::default(), &Role::ALL);
        let secret = crate::admit::api_key::NewSecret::generate(&mut entropy, &new.id);
        let row = new.row(time(0));
        let previous = PreviousSecret { digest: row.digest, until: time(50) };
        let rotated =
            ApiKeys::of([ApiKey { digest: secret.digest, previous: Some(previous), ..row }]);
        for now in [0, 49, 50, 1_000_000] {
            assert!(rotated.find(secret.text(), time(now)).is_ok());
        }
        assert!(rotated.find(new.text(), time(49)).is_ok());
        assert_eq!(rotated.find(new.text(), time(50)).unwrap_err(), KeyError::Rotated);
    }
}
