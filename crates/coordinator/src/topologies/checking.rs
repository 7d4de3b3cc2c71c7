//! Where values that tenants wrote are checked against schemas that tenants wrote: beside the batches, and never on a thread that
//! others wait for.
//!
//! Each check is bounded by counted work ([`topology::work`]), so this is about fairness: one tenant's checks take turns, and
//! wait for each other instead of for a thread. A small check is done where it is asked for; moving it would cost more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use verdict::Name;

/// Steps that are taken at once: a fraction of a millisecond.
const SMALL_STEPS: u64 = 20_000;

/// Larger checks at a time, of all tenants together. The machine has other work.
const AT_ONCE: usize = 2;

/// Shared; cheap to clone.
#[derive(Clone)]
pub(crate) struct Checking {
    places: Arc<Semaphore>,
    /// At most one entry for each tenant that has a check under way.
    turns: Arc<Mutex<HashMap<Name, Arc<Semaphore>>>>,
}

impl Default for Checking {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(AT_ONCE)), turns: Arc::default() }
    }
}

impl Checking {
    /// Does the check, which takes at most these steps.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        tenant: &Name,
        steps: u64,
        check: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if steps <= SMALL_STEPS {
            return check();
        }
        let turn = self.turn_of(tenant).acquire_owned().await.expect("it is never closed");
        let place = self.places.clone().acquire_owned().await.expect("it is never closed");
        // The check holds its places itself: a caller that disconnects does not end it, and must not make room for another one.
        let checked = tokio::task::spawn_blocking(move || {
            let _held = (turn, place);
            check()
        });
        let checked = checked.await;
        // A panic goes to the caller, as if it had happened there. Nothing cancels the check.
        checked.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn turn_of(&self, tenant: &Name) -> Arc<Semaphore> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has no check under way has only the entry itself.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_caller_that_disconnects_makes_no_room_for_another_check() {
        let checking = Checking::default();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (begun, mut has_begun) = tokio::sync::mpsc::channel::<()>(1);
        let check = move || {
            begun.blocking_send(()).unwrap();
            held.recv().unwrap();
        };
        let asked = tokio::spawn({
            let checking = checking.clone();
            async move { checking.run(&"a".into(), u64::MAX, check).await }
        });
        has_begun.recv().await.unwrap();
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        assert_eq!(checking.turn_of(&"a".into()).available_permits(), 0);
        release.send(()).unwrap();
        checking.run(&"a".into(), u64::MAX, || ()).await;
    }

    #[tokio::test]
    async fn a_small_check_is_done_at_once_and_a_large_one_elsewhere() {
        let checking = Checking::default();
        let here = std::thread::current().id();
        let thread = || std::thread::current().id();
        assert_eq!(checking.run(&"a".into(), SMALL_STEPS, thread).await, here);
        assert_ne!(checking.run(&"a".into(), SMALL_STEPS + 1, thread).await, here);
    }

    /// One tenant has at most one check under way, however many it asks for; another one needs not wait for the rest of them.
    #[tokio::test]
    async fn the_checks_of_one_tenant_take_turns() {
        let checking = Checking::default();
        let (under_way, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let many = (0..20).map(|_| {
            let (checking, under_way, most) = (checking.clone(), under_way.clone(), most.clone());
            let held = held.clone();
            tokio::spawn(async move {
                let check = move || {
                    most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    held.lock().unwrap().recv().unwrap();
                    under_way.fetch_sub(1, Ordering::SeqCst);
                };
                checking.run(&"greedy".into(), u64::MAX, check).await;
            })
        });
        let many: Vec<_> = many.collect();
        while under_way.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(checking.run(&"other".into(), u64::MAX, || 7).await, 7);
        (0..20).for_each(|_| release.send(()).unwrap());
        for check in many {
            check.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
        assert_eq!(checking.places.available_permits(), AT_ONCE);
        drop(checking.turn_of(&"last".into()));
        assert_eq!(checking.turns.lock().unwrap().len(), 1, "nobody is kept for nothing");
    }
}
