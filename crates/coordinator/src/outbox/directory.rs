//! Which endpoints there are, in memory: an end asks for its subscribers without a read, and a store without endpoints
//! pays nothing.
//!
//! A carrier notes the endpoints that it saves before their callers are answered, so a coordinator that is alone is always
//! exact. Changes through other coordinators are read again every second ([`crate::server`]): until then, ends that they
//! decide may miss a subscription. Claims read the endpoint itself, under its lock.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use store::effects::StoredEndpoint;
use store::{Browse, DynBrowse, Failure, ObjectFilter};
use verdict::{Name, Object, ObjectType, Scope};

/// Endpoints read at once.
const PAGE: usize = 500;

/// The endpoints of each scope by name, as they were at one time.
pub(crate) type Endpoints = BTreeMap<Scope, BTreeMap<Name, Arc<StoredEndpoint>>>;

/// Shared by carriers, the deliverer and the API; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct EndpointDirectory {
    known: Arc<RwLock<Arc<Endpoints>>>,
}

impl EndpointDirectory {
    pub(crate) async fn load(browse: &DynBrowse) -> Result<Self, Failure> {
        let directory = Self::default();
        directory.reload(browse).await?;
        Ok(directory)
    }

    /// Reads all endpoints again.
    pub(crate) async fn reload(&self, browse: &DynBrowse) -> Result<(), Failure> {
        let (mut endpoints, mut after) = (Endpoints::new(), None);
        loop {
            let filter = ObjectFilter {
                object_type: Some(ObjectType::Endpoint),
                is_pending: true,
                after,
                limit: PAGE,
                ..ObjectFilter::default()
            };
            let page = browse.objects(&filter).await?;
            page.iter().for_each(|object| put(&mut endpoints, object));
            after = page.last().map(|last| last.key.clone());
            if page.len() < PAGE {
                break;
            }
        }
        *self.known.write().expect("no code panics while it changes the directory") =
            Arc::new(endpoints);
        Ok(())
    }

    /// Notes endpoints that were saved. Call it once they are durable.
    pub(crate) fn note<'a>(&self, saved: impl Iterator<Item = &'a Object>) {
        let mut saved =
            saved.filter(|object| object.key.object_type == ObjectType::Endpoint).peekable();
        if saved.peek().is_none() {
            return;
        }
        let mut known = self.known.write().expect("no code panics while it changes the directory");
        let endpoints = Arc::make_mut(&mut known);
        saved.for_each(|object| put(endpoints, object));
    }

    pub(crate) fn snapshot(&self) -> Arc<Endpoints> {
        self.known.read().expect("no code panics while it changes the directory").clone()
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
