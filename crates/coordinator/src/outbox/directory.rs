//! Which endpoints there are, in memory: an end asks for its subscribers without a read, and a store without endpoints
//! pays nothing.
//!
//! A carrier notes the endpoints that it saves before their callers are answered. Changes through other coordinators are
//! noticed in two ways. A batch knows the version of the endpoints that its commit will be held to: where that is another
//! than the one known here, they are read again before it decides ([`EndpointDirectory::at`]). So every end that is
//! committed after an endpoint was registered is told, whoever decides it, and claims and settlements of effects go by the
//! endpoint as it is without its lock. For everything else they are read again every
//! second ([`crate::server`]).
//!
//! Invariant: what is known is at least as new as its version. It may be newer.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use store::effects::StoredEndpoint;
use store::{DynBrowse, Failure};
use verdict::{Name, Object, ObjectType, Scope};

use crate::object_snapshot::read_all;

/// How often endpoints are read because they changed while they were read. They change rarely: twice is already a
/// coincidence.
const READS_MAX: usize = 4;

/// The endpoints of each scope by name, as they were at one time.
pub(crate) type Endpoints = BTreeMap<Scope, BTreeMap<Name, Arc<StoredEndpoint>>>;

/// Shared by carriers, the deliverer and the API; cheap to clone.
#[derive(Clone)]
pub(crate) struct EndpointDirectory {
    known: Arc<RwLock<Known>>,
    browse: DynBrowse,
}

impl fmt::Debug for EndpointDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointDirectory").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Known {
    endpoints: Arc<Endpoints>,
    /// The version of the store that they belong to, or an older one.
    version: i64,
    /// How often they have changed here. What was read before the last change is out of date.
    changes: u64,
}

impl EndpointDirectory {
    pub(crate) async fn load(browse: &DynBrowse) -> Result<Self, Failure> {
        let directory = Self { known: Arc::default(), browse: browse.clone() };
        directory.reload().await?;
        Ok(directory)
    }

    /// Reads all endpoints again.
    pub(crate) async fn reload(&self) -> Result<(), Failure> {
        self.read_again(None).await.map(drop)
    }

    /// The endpoints for a batch that was given this version, at least as new as it.
    pub(crate) async fn at(&self, version: i64) -> Result<Arc<Endpoints>, Failure> {
        let known = {
            let known = self.read();
            (known.version == version).then(|| known.endpoints.clone())
        };
        match known {
            Some(endpoints) => Ok(endpoints),
            None => self.read_again(Some(version)).await,
        }
    }

    /// Reads all endpoints, which are at least as new as a version that somebody has seen. They replace what is known, unless
    /// that has changed meanwhile and may be newer.
    async fn read_again(&self, version: Option<i64>) -> Result<Arc<Endpoints>, Failure> {
        let mut endpoints = Arc::default();
        for _ in 0..READS_MAX {
            let before = self.read().changes;
            endpoints = Arc::new(read_all(&self.browse, ObjectType::Endpoint, put).await?);
            let mut known = self.write();
            if known.changes == before {
                let version = version.unwrap_or(known.version);
                *known = Known { endpoints: Arc::clone(&endpoints), version, changes: before + 1 };
                break;
            }
        }
        Ok(endpoints)
    }

    /// Notes endpoints that were saved. Call it once they are durable.
    pub(crate) fn note<'a>(&self, saved: impl Iterator<Item = &'a Object>) {
        let mut saved =
            saved.filter(|object| object.key.object_type == ObjectType::Endpoint).peekable();
        if saved.peek().is_none() {
            return;
        }
        let mut known = self.write();
        known.changes += 1;
        let endpoints = Arc::make_mut(&mut known.endpoints);
        saved.for_each(|object| put(endpoints, object));
    }

    pub(crate) fn snapshot(&self) -> Arc<Endpoints> {
        self.read().endpoints.clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().expect("no code panics while it changes the directory")
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().expect("no code panics while it changes the directory")
    }
}

/// Notes one endpoint. One that is no longer pending is deleted and has no effects left.
fn put(endpoints: &mut Endpoints, object: &Object) {
    let (scope, name) = (&object.key.scope, &object.key.id);
    match StoredEndpoint::of(object).filter(|_| object.is_pending) {
        Some(endpoint) => {
            let of_scope = endpoints.entry(scope.clone()).or_default();
            of_scope.insert(name.clone(), Arc::new(endpoint));
        }
        None => {
            if let Some(of_scope) = endpoints.get_mut(scope) {
                of_scope.remove(name);
            }
        }
    }
}
