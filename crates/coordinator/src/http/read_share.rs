//! What one tenant may take of the store's readers at once.
//!
//! A store has a handful of readers for everybody. A tenant whose reads are slow (a long list, a filter that hardly anything passes)
//! waits for its own reads, so that one reader is always left for others. A call that waits for a run to end holds no place
//! while it waits.
//!
//! The tenant of a request is known to its task: whatever reads on behalf of it needs not be told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use verdict::Name;

/// Reads of one tenant at a time. SQLite has four readers, PostgreSQL more.
pub(super) const READS_AT_ONCE: usize = 3;

tokio::task_local! {
    /// The tenant of the request that this task answers.
    pub(super) static TENANT: Name;
}

/// Shared by all requests.
#[derive(Default)]
pub(super) struct ReadShare {
    /// At most one entry for each tenant that reads.
    places: Mutex<HashMap<Name, Arc<Semaphore>>>,
}

impl ReadShare {
    /// Waits for a place of the tenant of this request. Reads without one (of probes, of the server itself) need none.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        let tenant = TENANT.try_with(Name::clone).ok()?;
        Some(self.place_of(&tenant).await)
    }

    /// Waits for a place of a tenant, where the task that reads is not the one that answers: a stream goes on after it.
    pub(super) async fn place_of(&self, tenant: &Name) -> OwnedSemaphorePermit {
        self.places_of(tenant).acquire_owned().await.expect("it is never closed")
    }

    fn places_of(&self, tenant: &Name) -> Arc<Semaphore> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|_, of_tenant| Arc::strong_count(of_tenant) > 1);
        let fresh = || Arc::new(Semaphore::new(READS_AT_ONCE));
        places.entry(tenant.clone()).or_insert_with(fresh).clone()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_tenant_waits_for_its_own_reads_and_for_those_of_no_other() {
        let share = ReadShare::default();
        let mut held = Vec::new();
        for _ in 0..READS_AT_ONCE {
            held.push(TENANT.scope("greedy".into(), share.place()).await);
        }
        assert!(TENANT.scope("greedy".into(), share.place()).now_or_never().is_none());
        assert!(TENANT.scope("other".into(), share.place()).now_or_never().is_some());
        assert!(share.place().now_or_never().is_some(), "nobody's read needs no place");
        held.pop();
        assert!(TENANT.scope("greedy".into(), share.place()).now_or_never().is_some());
        drop(held);
        share.places_of(&"last".into());
        assert_eq!(share.places.lock().unwrap().len(), 1, "nobody is kept for nothing");
    }
}
