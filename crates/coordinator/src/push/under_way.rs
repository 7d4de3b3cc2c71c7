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
        room(&self.lock(), tenant)
    }

    /// Begins a call, if there is room: the room may have gone to another endpoint since it was asked for.
    pub(super) fn begin(&self, tenant: &Name) -> Option<Place> {
        let mut calls = self.lock();
        if room(&calls, tenant) == 0 {
            return None;
        }
        *calls.entry(tenant.clone()).or_default() += 1;
        drop(calls);
        Some(Place { calls: self.clone(), tenant: tenant.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn room(calls: &HashMap<Name, usize>, tenant: &Name) -> usize {
    let of_tenant = calls.get(tenant).copied().unwrap_or(0);
    let all: usize = calls.values().sum();
    CALLS_MAX.saturating_sub(all).min(CALLS_OF_TENANT_MAX.saturating_sub(of_tenant))
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
    fn no_more_calls_begin_than_there_is_room_for_however_many_try_at_once() {
        let calls = CallsUnderWay::default();
        let tenant = Name::from("busy");
        let begun: Vec<Place> = std::thread::scope(|scope| {
            let try_all = || -> Vec<Place> {
                (0..CALLS_OF_TENANT_MAX).filter_map(|_| calls.begin(&tenant)).collect()
            };
            let tries: Vec<_> = (0..8).map(|_| scope.spawn(try_all)).collect();
            tries.into_iter().flat_map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(begun.len(), CALLS_OF_TENANT_MAX);
    }

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
