//! Which recovery policies there are, in memory: an end asks for its policy without a read, and a store without policies pays
//! nothing.
//!
//! A carrier notes the policies that it saves before their callers are answered. Changes through other coordinators are read
//! again every second ([`crate::server`]): until then, ends that they decide may leave no note. What a policy allows is read
//! under the lock of its row.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::recovery::policy_of;
use store::{DynBrowse, Failure};
use tokio::sync::Notify;
use verdict::recovery::RecoveryPolicy;
use verdict::{Name, Object, ObjectType, Scope};

use crate::object_snapshot::{ObjectSnapshot, read_all};

/// The policies of each scope by name, as they were at one time.
pub(crate) type Policies = BTreeMap<Scope, BTreeMap<Name, RecoveryPolicy>>;

/// Shared by carriers, the recoverer and the API; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RecoveryDirectory {
    known: ObjectSnapshot<Policies>,
    /// Candidates have changed.
    changed: Arc<Notify>,
}

impl RecoveryDirectory {
    pub(crate) async fn load(browse: &DynBrowse) -> Result<Self, Failure> {
        let directory = Self::default();
        directory.reload(browse).await?;
        Ok(directory)
    }

    /// Reads all policies again.
    pub(crate) async fn reload(&self, browse: &DynBrowse) -> Result<(), Failure> {
        let read = || read_all(browse, ObjectType::RecoveryPolicy, put);
        self.known.reload(read, |_, _| ()).await
    }

    /// Notes policies that were saved, and that candidates have changed. Call it once they are durable.
    pub(crate) fn note<'a>(&self, saved: impl Iterator<Item = &'a Object> + Clone) {
        let is_candidate = |it: &Object| it.key.object_type == ObjectType::RecoveryCandidate;
        if saved.clone().any(is_candidate) {
            self.nudge();
        }
        let is_policy = |it: &&Object| it.key.object_type == ObjectType::RecoveryPolicy;
        let mut saved = saved.filter(is_policy).peekable();
        if saved.peek().is_some() {
            self.known.note(|policies| saved.for_each(|object| put(policies, object)));
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Policies> {
        self.known.get()
    }

    /// Says that candidates have changed. A hint: what it misses is found by a scan.
    fn nudge(&self) {
        self.changed.notify_one();
    }

    #[cfg(feature = "http")]
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

fn put(policies: &mut Policies, object: &Object) {
    let scope = &object.key.scope;
    match policy_of(object).filter(|policy| !policy.is_deleted) {
        Some(policy) => {
            policies.entry(scope.clone()).or_default().insert(policy.name.clone(), policy);
        }
        None => {
            if let Some(of_scope) = policies.get_mut(scope) {
                of_scope.remove(&object.key.id);
                // An empty map means that ends cost nothing.
                if of_scope.is_empty() {
                    policies.remove(scope);
                }
            }
        }
    }
}
