//! API keys: `tnr_<id>_<secret>_<checksum>`, shown once and stored as a digest.
//!
//! The checksum only detects typing mistakes, and lets scanners for leaked secrets recognise a key. A
//! key has a scope and a set of roles, and may be limited to queues. What its holder may act as is decided by
//! [`super::principals`].

use std::sync::Arc;

use store::ApiKey;
use verdict::{Digest, Name, Scope, Time};

use super::hex;
use crate::ids::Entropy;

const PREFIX: &str = "tnr";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 4;

/// `tnr`, three underscores and the three parts in hexadecimal.
const TEXT_BYTES: usize = PREFIX.len() + 3 + 2 * (ID_BYTES + SECRET_BYTES + CHECKSUM_BYTES);

/// What a key may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Submits, reads and cancels runs.
    Client,
    /// Leases tasks and reports on them.
    Worker,
    /// Administers keys and reads the audit.
    Admin,
    /// Reads what clients and administrators see, and changes nothing.
    Reader,
    /// Decides approvals.
    Approver,
}

/// The stored name of the role client in a key that is limited to queues. It differs from the plain name, because
/// coordinators of older versions limit only workers: they must not accept such a key as a client. And keys of older
/// versions, whose queues limit only their workers, keep their meaning.
const CLIENT_OF_QUEUES: &str = "client_of_queues";

impl Role {
    /// What the first key of a store may do. They allow everything but deciding approvals, which needs a separate key:
    /// no key decides what its own worker asked for.
    pub const ALL: [Role; 3] = [Role::Client, Role::Worker, Role::Admin];

    pub const fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Worker => "worker",
            Role::Admin => "admin",
            Role::Reader => "reader",
            Role::Approver => "approver",
        }
    }

    /// The role of a stored name. Newer versions may store names that this one does not know.
    pub(crate) fn of_stored(name: &str) -> Option<Role> {
        match name {
            "client" | CLIENT_OF_QUEUES => Some(Role::Client),
            "worker" => Some(Role::Worker),
            "admin" => Some(Role::Admin),
            "reader" => Some(Role::Reader),
            "approver" => Some(Role::Approver),
            _ => None,
        }
    }
}

/// Limits a new key to some queues.
pub(crate) fn limit_to_queues(mut key: ApiKey, queues: Vec<Name>) -> ApiKey {
    let client = Name::from(Role::Client.name());
    key.roles.iter_mut().filter(|role| **role == client).for_each(|role| {
        *role = CLIENT_OF_QUEUES.into();
    });
    ApiKey { queues: Some(queues), ..key }
}

/// The queues that a key may use as a client; `None` for every queue.
pub(super) fn client_queues(key: &ApiKey) -> Option<&[Name]> {
    let is_limited = key.roles.iter().any(|name| name.as_str() == CLIENT_OF_QUEUES);
    is_limited.then(|| key.queues.as_deref().unwrap_or_default())
}

/// A key that was just created: the only time its text is known.
#[derive(Clone)]
pub struct NewKey {
    pub id: Name,
    pub scope: Scope,
    pub roles: Vec<Role>,
    secret: NewSecret,
}

impl NewKey {
    pub fn generate(entropy: &mut dyn Entropy, scope: Scope, roles: &[Role]) -> Self {
        let mut id = [0; ID_BYTES];
        entropy.fill(&mut id);
        let id = Name::from(hex(&id));
        let secret = NewSecret::generate(entropy, &id);
        Self { id, scope, roles: roles.to_vec(), secret }
    }

    /// What the holder sends. Shown once, stored nowhere.
    pub fn text(&self) -> &str {
        self.secret.text()
    }

    /// The row for the store.
    pub fn row(&self, created_at: Time) -> ApiKey {
        ApiKey {
            id: self.id.clone(),
            scope: self.scope.clone(),
            roles: self.roles.iter().map(|role| role.name().into()).collect(),
            digest: self.secret.digest,
            created_at,
            name: None,
            queues: None,
            expires_at: None,
            revoked_at: None,
            previous: None,
            last_used_at: None,
        }
    }
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NewKey({PREFIX}_{}_…)", self.id)
    }
}

/// A secret for a key, new or rotated.
#[derive(Clone)]
pub(crate) struct NewSecret {
    text: String,
    pub(super) digest: Digest,
}

impl NewSecret {
    pub(crate) fn generate(entropy: &mut dyn Entropy, id: &Name) -> Self {
        let mut secret = [0; SECRET_BYTES];
        entropy.fill(&mut secret);
        let (id, secret) = (id.as_str(), hex(&secret));
        let text = format!("{PREFIX}_{id}_{secret}_{}", checksum(id, &secret));
        Self { text, digest: digest(id, &secret) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

pub(super) fn checksum(id: &str, secret: &str) -> String {
    let digest = Digest::of(&[b"tenure api key checksum", id.as_bytes(), secret.as_bytes()]);
    hex(&digest.bytes()[..CHECKSUM_BYTES])
}

pub(super) fn digest(id: &str, secret: &str) -> Digest {
    Digest::of(&[b"tenure api key", id.as_bytes(), secret.as_bytes()])
}

/// The parts of a text that has the form of a key. Its checksum may be wrong.
#[derive(Clone, Copy)]
pub(super) struct KeyText<'a> {
    pub(super) id: &'a str,
    pub(super) secret: &'a str,
    pub(super) checksum: &'a str,
}

impl<'a> KeyText<'a> {
    pub(super) fn of(text: &'a str) -> Option<Self> {
        if text.len() != TEXT_BYTES {
            return None;
        }
        let mut parts = text.split('_');
        let is_ours = parts.next()? == PREFIX;
        let (id, secret, checksum) = (parts.next()?, parts.next()?, parts.next()?);
        (is_ours && parts.next().is_none()).then_some(Self { id, secret, checksum })
    }
}

/// A key whose secret was correct. Its roles say which principals it may become.
#[derive(Clone, Debug)]
pub(crate) struct Verified {
    pub(super) key: Arc<ApiKey>,
}

impl Verified {
    pub(crate) fn key(&self) -> &ApiKey {
        &self.key
    }
}

pub(super) fn has_role(key: &ApiKey, role: Role) -> bool {
    key.roles.iter().any(|name| Role::of_stored(name.as_str()) == Some(role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::ApiKeys;
    use crate::admit::principals::{AdminPrincipal, ClientPrincipal, Principal, WorkerPrincipal};
    use crate::ids::SeededEntropy;

    fn keys(new: &[&NewKey]) -> ApiKeys {
        ApiKeys::of(new.iter().map(|key| key.row(Time::default())))
    }

    #[test]
    fn a_key_opens_exactly_its_roles() {
        // X10: a client key is not a worker key, whatever it claims.
        let new = NewKey::generate(&mut SeededEntropy::new(1), Scope::default(), &[Role::Client]);
        let keys = keys(&[&new]);
        let found = keys.find(new.text(), Time::default()).unwrap();
        assert!(ClientPrincipal::admit(&found).is_some());
        assert!(WorkerPrincipal::admit(&found).is_none());
        assert!(AdminPrincipal::admit(&found).is_none());
    }

    #[test]
    fn every_changed_character_is_refused() {
        // X01, X17: the checksum and the secret are both needed, and compared in constant time.
        let mut entropy = SeededEntropy::new(2);
        let new = NewKey::generate(&mut entropy, Scope::default(), &Role::ALL);
        let other = NewKey::generate(&mut entropy, Scope::default(), &Role::ALL);
        let keys = keys(&[&new, &other]);
        assert_eq!(new.text().len(), TEXT_BYTES);
        // Afterwards its checksum is known.
        assert!(keys.find(new.text(), Time::default()).is_ok());
        for at in 0..new.text().len() {
            let mut bytes = new.text().as_bytes().to_vec();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            assert!(keys.find(&changed, Time::default()).is_err(), "character {at}");
            assert!(keys.find(&new.text()[..at], Time::default()).is_err());
        }
        let id = KeyText::of(new.text()).unwrap().id;
        let secret = KeyText::of(other.text()).unwrap().secret;
        let mixed = format!("{PREFIX}_{id}_{secret}_{}", checksum(id, secret));
        assert!(keys.find(&mixed, Time::default()).is_err(), "another key's secret");
    }

    #[test]
    fn neither_store_nor_log_holds_the_secret() {
        let new = NewKey::generate(&mut SeededEntropy::new(3), Scope::default(), &Role::ALL);
        let secret = KeyText::of(new.text()).unwrap().secret;
        let seen = format!("{new:?} {:?}", new.row(Time::default()));
        assert!(!seen.contains(secret));
    }
}
