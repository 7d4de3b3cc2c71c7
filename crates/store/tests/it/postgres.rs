//! The PostgreSQL engine passes the suite that the reference engine passes, and keeps the guarantees
//! that only it gives.

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

mod clocks;
mod commits;
mod constraints;
mod crowded;
mod cutting;
mod durability;
mod encrypted;
mod fan_in;
mod flows;
mod keys;
mod late;
mod manners;
mod order;
mod outages;
mod pauses;
mod plans;
mod pooled;
mod prefetch;
mod private;
mod refills;
mod refusals;
mod retold;
mod rules;
mod run_constraints;
mod standby;

use std::sync::Arc;

use store::PostgresStore;
use store::postgres::{Notify, Options};
use storetest::ManualClock;
use storetest::conformance::Fixture;

use storetest::Database;

pub(crate) struct Postgres {
    database: Database,
}

impl Postgres {
    pub(crate) fn new() -> Self {
        Self { database: Database::create() }
    }

    pub(crate) fn url(&self) -> &str {
        self.database.url()
    }
}

/// Without hints: changes of peers are found by polling.
pub(crate) fn options(clock: Option<Arc<ManualClock>>) -> Options {
    let clock = clock.map(|clock| clock as Arc<dyn store::Clock>);
    Options { clock, notify: Notify::Off, ..Options::new("check") }
}

impl Fixture for Postgres {
    type Store = PostgresStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> PostgresStore {
        // A background task rolls back what was dropped before; a newly started process would find that
        // done.
        self.database.settle().await;
        let store = PostgresStore::open(self.database.url(), options(Some(clock))).await;
        store.expect("the database opens")
    }
}

mod conformance {
    use super::Postgres;

    storetest::conformance_checks! { Postgres::new() }
}
