//! Which recovery policies there are, in memory: an end asks for its policy without a read, and a store without policies pays
//! nothing.
//!
//! A carrier notes the policies that it saves before their callers are answered. Changes through other coordinators are read
//! again every second ([`crate::server`]): until then, ends that they decide may leave no note. What a policy allows is read
//! under the lock of its row.

use std::sync::Arc;

use store::recovery::policy_of;
use store::{DynBrowse, Failure};
use tokio::sync::Notify;
use verdict::recovery::RecoveryPolicy;
use verdict::{Object, ObjectType};

use crate::directory::{ByName, Directory, Listed, put_by_name};

/// The policies of each scope by name, as they were at one time. An empty one means that ends cost nothing.
pub(crate) type Policies = ByName<RecoveryPolicy>;

impl Listed for RecoveryPolicy {
    const TYPE: ObjectType = ObjectType::RecoveryPolicy;
    type Listing = Policies;

    fn put(listing: &mut Policies, object: &Object) {
        let found = policy_of(object).filter(|policy| !policy.is_deleted);
        put_by_name(listing, &object.key, found);
    }
}

/// Shared by carriers, the recoverer and the API; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RecoveryDirectory {
    known: Directory<RecoveryPolicy>,
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
        self.known.reload(browse, |_| ()).await.map(drop)
    }

    /// Notes policies that were saved, and that candidates have changed. Call it once they are durable.
    pub(crate) fn note<'a>(&self, saved: impl Iterator<Item = &'a Object> + Clone) {
        let is_candidate = |it: &Object| it.key.object_type == ObjectType::RecoveryCandidate;
        if saved.clone().any(is_candidate) {
            self.nudge();
        }
        self.known.note(saved);
    }

    pub(crate) fn snapshot(&self) -> Arc<Policies> {
        self.known.snapshot()
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
