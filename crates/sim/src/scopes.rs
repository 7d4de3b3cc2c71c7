//! The tenants and workspaces that share the coordinators, and their keys.

use coordinator::SeededEntropy;
use coordinator::admit::{NewKey, Role};
use verdict::Scope;

/// Keys of the first scope that exist only to be revoked.
const SPARE_KEYS: usize = 3;

/// A scope with the keys of its clients and workers.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// `tenant/workspace`.
    pub(crate) scope: String,
    pub(crate) client_key: String,
    pub(crate) worker_key: String,
    /// Keys that may decide approvals, one for each person.
    pub(crate) approver_keys: Vec<String>,
    /// The key of the owner of a deployment; empty where there is none.
    pub(crate) owner_key: String,
}

/// The admin key, and the keys that the administrator may revoke.
#[derive(Clone, Debug)]
pub(crate) struct Administrator {
    pub(crate) key: String,
    pub(crate) spare_keys: Vec<String>,
}

/// The keys of all scopes.
pub(crate) struct Scopes {
    pub(crate) keys: Vec<NewKey>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) administrator: Option<Administrator>,
}

impl Scopes {
    /// The first scope, which every world has.
    pub(crate) fn first(entropy: &mut SeededEntropy) -> Self {
        let mut scopes = Self { keys: Vec::new(), accesses: Vec::new(), administrator: None };
        scopes.add(entropy, Scope::default());
        scopes
    }

    /// Adds scopes up to `count`. Every second one is another workspace of the previous tenant.
    pub(crate) fn extend(&mut self, entropy: &mut SeededEntropy, count: u32) {
        for n in 1..count {
            let scope = Scope::new(format!("t{}", n / 2), format!("w{}", n % 2));
            self.add(entropy, scope);
        }
        if count > 1 {
            self.administer(entropy);
        }
    }

    fn add(&mut self, entropy: &mut SeededEntropy, scope: Scope) {
        let client = NewKey::generate(entropy, scope.clone(), &[Role::Client]);
        let worker = NewKey::generate(entropy, scope.clone(), &[Role::Worker]);
        self.accesses.push(Access {
            scope: format!("{}/{}", scope.tenant, scope.workspace),
            client_key: client.text().to_owned(),
            worker_key: worker.text().to_owned(),
            approver_keys: Vec::new(),
            owner_key: String::new(),
        });
        self.keys.extend([client, worker]);
    }

    /// Adds people to the first scope.
    pub(crate) fn add_people(&mut self, entropy: &mut SeededEntropy, count: u32) {
        for _ in 0..count {
            let person = NewKey::generate(entropy, Scope::default(), &[Role::Approver]);
            self.accesses[0].approver_keys.push(person.text().to_owned());
            self.keys.push(person);
        }
    }

    /// Adds an owner with all roles to the first scope.
    pub(crate) fn add_owner(&mut self, entropy: &mut SeededEntropy) {
        let owner = NewKey::generate(entropy, Scope::default(), &Role::ALL);
        self.accesses[0].owner_key = owner.text().to_owned();
        self.keys.push(owner);
    }

    fn administer(&mut self, entropy: &mut SeededEntropy) {
        let admin = NewKey::generate(entropy, Scope::default(), &[Role::Admin]);
        let mut spare_keys = Vec::new();
        for _ in 0..SPARE_KEYS {
            let spare = NewKey::generate(entropy, Scope::default(), &[Role::Worker]);
            spare_keys.push(spare.text().split('_').nth(1).unwrap_or_default().to_owned());
            self.keys.push(spare);
        }
        self.administrator = Some(Administrator { key: admin.text().to_owned(), spare_keys });
        self.keys.push(admin);
    }
}
