//! The reference engine passes the suite, with one writer and with two.

use std::sync::Arc;

use store::conformance::Fixture;
use store::{ManualClock, MemoryStore, Writers};

pub(crate) struct Memory {
    writers: Writers,
    store: Option<MemoryStore>,
}

impl Memory {
    pub(crate) fn new(writers: Writers) -> Self {
        Self { writers, store: None }
    }
}

impl Fixture for Memory {
    type Store = MemoryStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> MemoryStore {
        let store = match &self.store {
            Some(store) => store.reopen(),
            None => MemoryStore::with_writers(clock, self.writers),
        };
        self.store = Some(store.clone());
        store
    }
}

mod one_writer {
    use super::{Memory, Writers};

    store::conformance_checks! { Memory::new(Writers::One) }
}

mod two_writers {
    use super::{Memory, Writers};

    store::conformance_checks! { Memory::new(Writers::Two) }
}
