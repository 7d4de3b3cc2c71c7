//! Which endpoints there are, in memory: an end asks for its subscribers without a read, and a store without endpoints
//! pays nothing.
//!
//! Each batch goes by the endpoints at the version that its commit will be held to. So every end that is committed after an
//! endpoint was registered is told, by every coordinator, and claims and settlements of effects go by the endpoint as it is
//! without its lock.

use std::fmt;
use std::sync::Arc;

use store::effects::StoredEndpoint;
use store::{DynBrowse, Failure};
use verdict::{Object, ObjectType};

use crate::directory::{ByName, Directory, Listed, put_by_name};

/// The endpoints of each scope by name, as they were at one time.
pub(crate) type Endpoints = ByName<Arc<StoredEndpoint>>;

impl Listed for StoredEndpoint {
    const TYPE: ObjectType = ObjectType::Endpoint;
    type Listing = Endpoints;

    /// One that is no longer pending is deleted and has no effects left.
    fn put(listing: &mut Endpoints, object: &Object) {
        let found = StoredEndpoint::of(object).filter(|_| object.is_pending);
        put_by_name(listing, &object.key, found.map(Arc::new));
    }
}

/// Shared by carriers, the deliverer and the API; cheap to clone.
#[derive(Clone)]
pub(crate) struct EndpointDirectory {
    known: Directory<StoredEndpoint>,
    browse: DynBrowse,
}

impl fmt::Debug for EndpointDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointDirectory").finish_non_exhaustive()
    }
}

impl EndpointDirectory {
    pub(crate) async fn load(browse: &DynBrowse) -> Result<Self, Failure> {
        let directory = Self { known: Directory::default(), browse: browse.clone() };
        directory.reload().await?;
        Ok(directory)
    }

    /// Reads all endpoints again.
    pub(crate) async fn reload(&self) -> Result<(), Failure> {
        self.known.reload(&self.browse, |_| ()).await.map(drop)
    }

    /// The endpoints for a batch that was given this version, at least as new as it.
    pub(crate) async fn at(&self, version: i64) -> Result<Arc<Endpoints>, Failure> {
        self.known.at(&self.browse, version).await
    }

    /// Notes endpoints that were saved. Call it once they are durable.
    pub(crate) fn note<'a>(&self, saved: impl Iterator<Item = &'a Object>) {
        self.known.note(saved);
    }

    pub(crate) fn snapshot(&self) -> Arc<Endpoints> {
        self.known.snapshot()
    }
}
