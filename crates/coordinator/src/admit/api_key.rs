//! API keys: `tnr_<id>_<secret>_<checksum>`, shown once and kept as a digest.
//!
//! The checksum only tells a typing mistake, and a scanner for leaked secrets, what a key looks like.
//! A key has a scope and a set of roles; each role is a principal type of its own.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use store::{ApiKey, Browse, Failure, Store};
use verdict::{Digest, Name, Scope, Time};

use super::{hex, is_same};
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
    /// Administers.
    Admin,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Client, Role::Worker, Role::Admin];

    pub const fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Worker => "worker",
            Role::Admin => "admin",
        }
    }
}

/// A key that was just made: the only time its text is known.
#[derive(Clone)]
pub struct NewKey {
    pub id: Name,
    pub scope: Scope,
    pub roles: Vec<Role>,
    text: String,
    digest: Digest,
}

impl NewKey {
    pub fn generate(entropy: &mut dyn Entropy, scope: Scope, roles: &[Role]) -> Self {
        let mut bytes = [0; ID_BYTES + SECRET_BYTES];
        entropy.fill(&mut bytes);
        let (id, secret) = (hex(&bytes[..ID_BYTES]), hex(&bytes[ID_BYTES..]));
        let text = format!("{PREFIX}_{id}_{secret}_{}", checksum(&id, &secret));
        let digest = digest(&id, &secret);
        Self { id: id.into(), scope, roles: roles.to_vec(), text, digest }
    }

    /// What the holder sends. Shown to people once, kept nowhere.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the store keeps.
    pub fn row(&self, created_at: Time) -> ApiKey {
        ApiKey {
            id: self.id.clone(),
            scope: self.scope.clone(),
            roles: self.roles.iter().map(|role| role.name().into()).collect(),
            digest: self.digest,
            created_at,
        }
    }
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NewKey({PREFIX}_{}_…)", self.id)
    }
}

fn checksum(id: &str, secret: &str) -> String {
    let digest = Digest::of(&[b"tenure api key checksum", id.as_bytes(), secret.as_bytes()]);
    hex(&digest.bytes()[..CHECKSUM_BYTES])
}

fn digest(id: &str, secret: &str) -> Digest {
    Digest::of(&[b"tenure api key", id.as_bytes(), secret.as_bytes()])
}

/// All keys, in memory, so that no request waits for the store to learn who asks.
#[derive(Clone, Default)]
pub struct ApiKeys {
    by_id: Arc<RwLock<HashMap<String, ApiKey>>>,
}

impl ApiKeys {
    pub async fn load<S: Store>(store: &S) -> Result<Self, Failure> {
        let keys = Self::default();
        keys.reload(store).await?;
        Ok(keys)
    }

    /// Reads the keys again: new ones count from now on, removed ones no longer.
    pub async fn reload<S: Store>(&self, store: &S) -> Result<(), Failure> {
        let rows = store.browse().api_keys().await?;
        let by_id = rows.into_iter().map(|key| (key.id.as_str().to_owned(), key)).collect();
        *self.by_id.write().expect("no code panics while it holds the keys") = by_id;
        Ok(())
    }

    /// The key that was sent, if it is one of ours.
    pub(crate) fn find(&self, text: &str) -> Option<Verified> {
        let (id, secret) = parts(text)?;
        let by_id = self.by_id.read().expect("no code panics while it holds the keys");
        let key = by_id.get(id)?;
        is_same(digest(id, secret).bytes(), key.digest.bytes())
            .then(|| Verified { key: key.clone() })
    }
}

fn parts(text: &str) -> Option<(&str, &str)> {
    if text.len() != TEXT_BYTES {
        return None;
    }
    let mut parts = text.split('_');
    let (prefix, id, secret, sum) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_ours = prefix == PREFIX && parts.next().is_none() && sum == checksum(id, secret);
    is_ours.then_some((id, secret))
}

/// A key whose secret was right. Its roles say what it may become.
pub(crate) struct Verified {
    key: ApiKey,
}

impl Verified {
    fn has(&self, role: Role) -> bool {
        self.key.roles.iter().any(|name| name.as_str() == role.name())
    }
}

/// A principal that only a verified key with the right role becomes.
pub(crate) trait Principal: Sized {
    const ROLE: Role;
    fn admit(verified: Verified) -> Option<Self>;
}

macro_rules! principal {
    ($(#[$doc:meta])* $name:ident, $role:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            scope: Scope,
            key: Name,
        }

        impl $name {
            pub fn scope(&self) -> &Scope {
                &self.scope
            }

            /// The public part of the key that was used.
            pub fn key(&self) -> &Name {
                &self.key
            }
        }

        impl Principal for $name {
            const ROLE: Role = $role;

            fn admit(verified: Verified) -> Option<Self> {
                verified.has($role).then(|| Self { scope: verified.key.scope, key: verified.key.id })
            }
        }
    };
}

principal!(
    /// May submit, read and cancel runs of its scope.
    ClientPrincipal,
    Role::Client
);
principal!(
    /// May lease tasks of its scope and report on them.
    WorkerPrincipal,
    Role::Worker
);
principal!(
    /// May administer its scope.
    AdminPrincipal,
    Role::Admin
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SeededEntropy;

    fn keys(new: &[&NewKey]) -> ApiKeys {
        let rows = new.iter().map(|key| (key.id.as_str().to_owned(), key.row(Time::default())));
        ApiKeys { by_id: Arc::new(RwLock::new(rows.collect())) }
    }

    #[test]
    fn a_key_opens_exactly_its_roles() {
        // X10: a client key is no worker key, whatever it says.
        let new = NewKey::generate(&mut SeededEntropy::new(1), Scope::default(), &[Role::Client]);
        let keys = keys(&[&new]);
        let find = || keys.find(new.text()).unwrap();
        assert!(ClientPrincipal::admit(find()).is_some());
        assert!(WorkerPrincipal::admit(find()).is_none());
        assert!(AdminPrincipal::admit(find()).is_none());
    }

    #[test]
    fn every_changed_character_is_refused() {
        // X01, X17: the checksum and the secret are both needed, and compared in constant time.
        let mut entropy = SeededEntropy::new(2);
        let new = NewKey::generate(&mut entropy, Scope::default(), &Role::ALL);
        let other = NewKey::generate(&mut entropy, Scope::default(), &Role::ALL);
        let keys = keys(&[&new, &other]);
        assert_eq!(new.text().len(), TEXT_BYTES);
        for at in 0..new.text().len() {
            let mut bytes = new.text().as_bytes().to_vec();
            bytes[at] ^= 1;
            assert!(keys.find(&String::from_utf8(bytes).unwrap()).is_none(), "character {at}");
            assert!(keys.find(&new.text()[..at]).is_none());
        }
        let (id, _) = parts(new.text()).unwrap();
        let (_, secret) = parts(other.text()).unwrap();
        let mixed = format!("{PREFIX}_{id}_{secret}_{}", checksum(id, secret));
        assert!(keys.find(&mixed).is_none(), "another key's secret");
    }

    #[test]
    fn neither_store_nor_log_holds_the_secret() {
        let new = NewKey::generate(&mut SeededEntropy::new(3), Scope::default(), &Role::ALL);
        let (_, secret) = parts(new.text()).unwrap();
        let seen = format!("{new:?} {:?}", new.row(Time::default()));
        assert!(!seen.contains(secret));
    }
}
