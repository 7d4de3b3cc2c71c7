//! Sessions of the console: a browser shows a key once, and a sealed cookie afterwards.
//!
//! A [`Session`] is sealed into the cookie ([`sealed`]), so that every coordinator of a store opens it and none has to
//! know it. It names the key, never its secret, and counts together with a page token only: a cookie is sent along with
//! calls of other pages on the same host, the token is not. The key is looked up again in every call, so a session ends
//! with its key.
//!
//! What no seal can say is in memory ([`ledger`]): which sessions were ended, how many a key has, and how much each of
//! them reads. One-time codes ([`codes`]) stand for a key until they are taken.

pub(crate) mod codes;
pub(crate) mod ledger;
mod sealed;

use verdict::{Digest, Name, Span, Time};

use super::api_key::{KeyText, Verified, digest};
use super::api_keys::{ApiKeys, KeyError};

/// A working day and its evening. A thief of a browser's storage has no more than the rest of it.
pub(crate) const SESSION_LIFE: Span = Span::from_secs(12 * 3600);

const ID_BYTES: usize = 16;

/// Told apart by these, so that one can be ended.
pub(crate) type SessionId = [u8; ID_BYTES];

/// What a cookie says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The key that logged in, and the digest of the secret that it had.
    pub(crate) key: Name,
    pub(crate) secret: Digest,
    /// The digest of the page token.
    pub(crate) page: Digest,
    pub(crate) began_at: Time,
    pub(crate) ends_at: Time,
}

/// The digest of a page token.
pub(crate) fn page_digest(token: &str) -> Digest {
    Digest::of(&[b"tenure console page token", token.as_bytes()])
}

/// The digest of the secret in the text of a key. It may be the one before a rotation: then a session ends with it.
pub(crate) fn secret_digest(text: &str) -> Option<Digest> {
    KeyText::of(text).map(|sent| digest(sent.id, sent.secret))
}

impl ApiKeys {
    /// The key of a session, if it is valid and still has the secret that logged in.
    pub(crate) fn of_session(
        &self,
        id: &Name,
        secret: &Digest,
        now: Time,
    ) -> Result<Verified, KeyError> {
        let key = self.get(id.as_str()).ok_or(KeyError::Unknown)?;
        super::api_keys::usable(&key, now)?;
        let previous = key.previous.filter(|it| it.digest == *secret && !it.until.has_come(now));
        if key.digest != *secret && previous.is_none() {
            return Err(KeyError::Rotated);
        }
        Ok(Verified { key })
    }
}

#[cfg(test)]
mod tests {
    use store::{ApiKey, PreviousSecret};
    use verdict::Scope;

    use super::*;
    use crate::admit::{NewKey, Role};
    use crate::ids::SeededEntropy;

    #[test]
    fn a_session_ends_with_its_key_and_with_its_secret() {
        let mut entropy = SeededEntropy::new(21);
        let new = NewKey::generate(&mut entropy, Scope::default(), &Role::ALL);
        let row = new.row(Time::from_millis(0));
        let at = Time::from_millis;
        let of = |keys: &ApiKeys, now| keys.of_session(&row.id, &row.digest, at(now)).map(|_| ());
        let keys = ApiKeys::of([row.clone()]);
        assert_eq!(of(&keys, 5), Ok(()));
        assert!(keys.of_session(&row.id, &Digest::of(&[b"x"]), at(5)).is_err());
        assert!(keys.of_session(&"other".into(), &row.digest, at(5)).is_err());
        let revoked = ApiKeys::of([ApiKey { revoked_at: Some(at(1)), ..row.clone() }]);
        assert_eq!(of(&revoked, 5), Err(KeyError::Revoked));
        let expiring = ApiKeys::of([ApiKey { expires_at: Some(at(9)), ..row.clone() }]);
        assert_eq!((of(&expiring, 8), of(&expiring, 9)), (Ok(()), Err(KeyError::Expired)));
        let previous = Some(PreviousSecret { digest: row.digest, until: at(9) });
        let rotated =
            ApiKeys::of([ApiKey { digest: Digest::of(&[b"y"]), previous, ..row.clone() }]);
        assert_eq!((of(&rotated, 8), of(&rotated, 9)), (Ok(()), Err(KeyError::Rotated)));
    }
}
