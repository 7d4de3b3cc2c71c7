//! What an engine provides to be tested.

use std::sync::Arc;

use store::seam::Store;

use super::driver::Driver;
use crate::ManualClock;

/// Creates a store, and reopens it.
pub trait Fixture: Send + 'static {
    type Store: Store;

    /// The first call opens an empty store, later calls the same data again. All earlier stores and writers
    /// are dropped by then.
    fn open(&mut self, clock: Arc<ManualClock>) -> impl Future<Output = Self::Store> + Send;
}

/// What happens before every step of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    Nothing,
    Reopen,
}

/// Runs one check on a fresh store.
pub fn run<F: Fixture>(fixture: F, between: Between, check: impl AsyncFnOnce(&mut Driver<F>)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has a timer and sockets to give");
    runtime.block_on(async {
        let mut driver = Driver::start(fixture, between).await;
        check(&mut driver).await;
    });
}
