//! How many calls may be under way at once: to all endpoints, and to those of one tenant.
//!
//! A call keeps a connection open, and so a descriptor, for as long as the worker behind it has its lease. Endpoints that never
//! answer would otherwise take every descriptor of the server, and the store's next file could not be opened.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use verdict::Name;

/// Calls of all tenants. The program that serves keeps so many descriptors back.
pub(crate) const CALLS_MAX: usize = 1_024;

/// Calls of one tenant: half of them, so that one whose endpoints are stuck leaves room for others.
pub(crate) const CALLS_OF_TENANT_MAX: usize = CALLS_MAX / 2;

/// Shared by the lanes of all endpoints; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct CallsUnderWay(Arc<Mutex<HashMap<Name, usize>>>);

/// A call under way. It ends when this is dropped.
pub(super) struct Place {
    calls: CallsUnderWay,
    tenant: Name,
}

impl CallsUnderWay {
    /// How many more calls of a tenant may begin.
    pub(super) fn room(&self, tenant: &Name) -> usize {
        let calls = self.lock();
        let of_tenant = calls.get(tenant).copied().unwrap_or(0);
        let all: usize = calls.values().sum();
        CALLS_MAX.saturating_sub(all).min(CALLS_OF_TENANT_MAX.saturating_sub(of_tenant))
    }

    /// Begins a call, if there is room: the room may have gone to another endpoint since it was asked for.
    pub(super) fn begin(&self, tenant: &Name) -> Option<Place> {
        if self.room(tenant) == 0 {
            return None;
        }
        *self.lock().entry(tenant.clone()).or_default() += 1;
        Some(Place { calls: self.clone(), tenant: tenant.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        if let Some(count) = calls.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                calls.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_leaves_half_of_the_calls_to_others_and_all_of_them_are_bounded() {
        let calls = CallsUnderWay::default();
        let (stuck, other, third) = (Name::from("stuck"), Name::from("other"), Name::from("third"));
        let held: Vec<Place> = std::iter::from_fn(|| calls.begin(&stuck)).collect();
        assert_eq!((held.len(), calls.room(&stuck)), (CALLS_OF_TENANT_MAX, 0));
        let others: Vec<Place> = std::iter::from_fn(|| calls.begin(&other)).collect();
        assert_eq!(held.len() + others.len(), CALLS_MAX);
        assert!(calls.begin(&third).is_none(), "no descriptor is left for it");
        drop(others);
        assert_eq!(calls.room(&third), CALLS_OF_TENANT_MAX);
        assert_eq!(calls.room(&stuck), 0, "its own calls go on");
        drop(held);
        assert!(calls.lock().is_empty(), "a tenant without calls is not remembered");
    }
}
