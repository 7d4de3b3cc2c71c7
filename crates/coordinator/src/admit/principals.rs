//! Principals: what the holder of a verified API key may act as, and with which queues.
//!
//! Each is a type that only this module constructs, from a verified key with the right role: a route that wants one
//! cannot be given another. A limit to queues is read from the principal, never from the key, because it depends on
//! the role that the call needs. Which route wants which principal is in the table of routes.

use std::sync::Arc;

use store::ApiKey;
use verdict::{Name, Scope};

use super::api_key::{Role, Verified, client_queues, has_role};

/// A principal that is constructed only from a verified key with the right role.
pub(crate) trait Principal: Sized {
    /// The roles that admit a key, for the text of a refusal.
    const NEEDS: &'static str;

    fn admit(verified: &Verified) -> Option<Self>;

    fn key(&self) -> &ApiKey;

    /// The queues it is limited to; `None` for every queue.
    fn queues(&self) -> Option<&[Name]>;

    /// Whether the limit to queues includes this one.
    fn may_use(&self, queue: &str) -> bool {
        self.queues().is_none_or(|queues| queues.iter().any(|name| name.as_str() == queue))
    }
}

macro_rules! principal {
    ($(#[$doc:meta])* $name:ident, $needs:literal, $admits:expr, $queues:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            key: Arc<ApiKey>,
        }

        impl $name {
            pub fn scope(&self) -> &Scope {
                &self.key.scope
            }

            /// The public part of the key that was used.
            pub fn key(&self) -> &Name {
                &self.key.id
            }
        }

        impl Principal for $name {
            const NEEDS: &'static str = $needs;

            fn admit(verified: &Verified) -> Option<Self> {
                let admits: fn(&ApiKey) -> bool = $admits;
                admits(&verified.key).then(|| Self { key: verified.key.clone() })
            }

            fn key(&self) -> &ApiKey {
                &self.key
            }

            fn queues(&self) -> Option<&[Name]> {
                let queues: fn(&ApiKey) -> Option<&[Name]> = $queues;
                queues(&self.key)
            }
        }
    };
}

principal!(
    /// May submit, read and cancel runs of its scope.
    ClientPrincipal,
    "client",
    |key| has_role(key, Role::Client),
    client_queues
);
principal!(
    /// May lease tasks of its scope and report on them.
    WorkerPrincipal,
    "worker",
    |key| has_role(key, Role::Worker),
    |key| key.queues.as_deref()
);
principal!(
    /// May heartbeat and report on attempts of its scope, each with its task token. The key itself may be revoked.
    LeaseHolderPrincipal,
    "worker",
    |key| has_role(key, Role::Worker),
    |key| key.queues.as_deref()
);
principal!(
    /// May administer what it reaches.
    AdminPrincipal,
    "admin",
    |key| has_role(key, Role::Admin),
    |_| None
);
principal!(
    /// May read runs and queues of its scope.
    ReaderPrincipal,
    "client or reader",
    |key| has_role(key, Role::Client) || has_role(key, Role::Reader),
    reader_queues
);
principal!(
    /// May read what administrators see besides keys: the audit, limits, metrics. A reader that is limited to queues may
    /// not, because none of this is about queues.
    AuditorPrincipal,
    "admin, or reader without a limit to queues",
    |key| has_role(key, Role::Admin) || (has_role(key, Role::Reader) && key.queues.is_none()),
    |_| None
);

principal!(
    /// May decide approvals of its scope, as far as each of them allows.
    ApproverPrincipal,
    "approver or admin",
    |key| has_role(key, Role::Approver) || has_role(key, Role::Admin),
    |_| None
);
principal!(
    /// May read approvals of its scope. A key that is limited to queues may not: they are not listed by queue.
    ApprovalReaderPrincipal,
    "approver or admin, or client or reader without a limit to queues",
    |key| {
        has_role(key, Role::Approver)
            || has_role(key, Role::Admin)
            || (has_role(key, Role::Client) && client_queues(key).is_none())
            || (has_role(key, Role::Reader) && key.queues.is_none())
    },
    |_| None
);

principal!(
    /// May ask about itself: any valid key.
    KeyHolderPrincipal,
    "client, worker, reader, approver or admin",
    |_| true,
    |_| None
);

impl WorkerPrincipal {
    /// Whether the key is an administrator's as well.
    pub(crate) fn is_admin(&self) -> bool {
        has_role(&self.key, Role::Admin)
    }
}

impl ApproverPrincipal {
    /// The roles of the key, by name.
    pub(crate) fn roles(&self) -> Vec<Name> {
        let roles = self.key.roles.iter().filter_map(|name| Role::of_stored(name.as_str()));
        roles.map(|role| role.name().into()).collect()
    }
}

/// A key that is also a client reads at least what a client reads.
fn reader_queues(key: &ApiKey) -> Option<&[Name]> {
    if has_role(key, Role::Client) { client_queues(key) } else { key.queues.as_deref() }
}

#[cfg(test)]
mod tests {
    use verdict::Time;

    use super::*;
    use crate::admit::api_key::limit_to_queues;
    use crate::admit::{ApiKeys, NewKey};
    use crate::ids::SeededEntropy;

    /// A verified key with these roles, limited to the queue `a` by `limit`.
    fn verified(roles: &[Role], limit: fn(ApiKey, Vec<Name>) -> ApiKey) -> Verified {
        let new = NewKey::generate(&mut SeededEntropy::new(1), Scope::default(), roles);
        let row = limit(new.row(Time::default()), vec!["a".into()]);
        ApiKeys::of([row]).find(new.text(), Time::default()).expect("the key is valid")
    }

    /// As a version did that limited only workers.
    fn limit_worker(key: ApiKey, queues: Vec<Name>) -> ApiKey {
        ApiKey { queues: Some(queues), ..key }
    }

    fn unlimited(key: ApiKey, _: Vec<Name>) -> ApiKey {
        key
    }

    #[test]
    fn a_reader_is_no_client_and_no_administrator() {
        // X10: it reads, and opens no route that writes.
        let reader = verified(&[Role::Reader], unlimited);
        assert!(ReaderPrincipal::admit(&reader).is_some());
        assert!(AuditorPrincipal::admit(&reader).is_some());
        assert!(ClientPrincipal::admit(&reader).is_none());
        assert!(WorkerPrincipal::admit(&reader).is_none());
        assert!(AdminPrincipal::admit(&reader).is_none());
        let limited = verified(&[Role::Reader], limit_to_queues);
        assert!(AuditorPrincipal::admit(&limited).is_none());
        let queues = ReaderPrincipal::admit(&limited).and_then(|it| Some(it.queues()?.to_vec()));
        assert_eq!(queues, Some(vec!["a".into()]));
    }

    #[test]
    fn queues_limit_every_role_of_a_new_key_but_admin() {
        let all = [Role::Client, Role::Worker, Role::Admin, Role::Reader];
        let key = verified(&all, limit_to_queues);
        let only_a = Some(&[Name::from("a")][..]);
        assert_eq!(ClientPrincipal::admit(&key).expect("a client").queues(), only_a);
        assert_eq!(WorkerPrincipal::admit(&key).expect("a worker").queues(), only_a);
        assert_eq!(ReaderPrincipal::admit(&key).expect("a reader").queues(), only_a);
        assert_eq!(AdminPrincipal::admit(&key).expect("an admin").queues(), None);
    }

    #[test]
    fn a_key_of_an_older_version_keeps_its_meaning() {
        // Its queues limit the worker and not the client.
        let key = verified(&[Role::Client, Role::Worker], limit_worker);
        assert_eq!(ClientPrincipal::admit(&key).expect("a client").queues(), None);
        assert_eq!(ReaderPrincipal::admit(&key).expect("a reader").queues(), None);
        assert!(WorkerPrincipal::admit(&key).expect("a worker").queues().is_some());
    }

    #[test]
    fn an_older_version_does_not_accept_a_limited_client() {
        // It compares stored names with `client`, and knows no limit of clients.
        let key = verified(&[Role::Client], limit_to_queues);
        assert!(key.key().roles.iter().all(|name| name.as_str() != Role::Client.name()));
    }
}
