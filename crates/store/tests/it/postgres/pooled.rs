//! Through a pooler in transaction mode: each transaction may use another session of the database, and hints
//! are lost.

use std::sync::Arc;

use pgserver::Pooler;
use store::postgres::{Notify, Options};
use store::{PostgresStore, Store};
use storetest::Database;
use storetest::conformance::driver::{caller, key_of};
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::{Between, Driver, Fixture};
use storetest::{ManualClock, Writers};
use verdict::Scope;

use crate::differential::compare;
use crate::differential::coverage::Coverage;
use crate::memory::Memory;

/// A database of the shared server, behind a pooler.
struct Pooled {
    pooler: Pooler,
    database: Database,
}

impl Pooled {
    fn start() -> Self {
        let database = Database::create();
        Self { pooler: Pooler::start(&database.folder(), database.name()).unwrap(), database }
    }
}

impl Fixture for Pooled {
    type Store = PostgresStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> PostgresStore {
        self.database.settle().await;
        let clock = Some(clock as Arc<dyn store::Clock>);
        let options = Options { clock, notify: Notify::On, ..Options::new("pooled") };
        PostgresStore::open(&self.pooler.conninfo(), options).await.expect("the store opens")
    }
}

#[test]
fn a_random_life_through_a_pooler_is_the_same() {
    // F45, R-24: the same answers and rows as from the engine in memory.
    let mut coverage = Coverage::default();
    for seed in 5_000_000..5_000_002 {
        compare(seed, Memory::new(Writers::One), Pooled::start(), &mut coverage);
    }
    assert!(coverage.granted() > 5, "{coverage:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_flows_through_a_pooler_without_hints() {
    // F45, S2-104: two coordinators, two sessions for all of their connections, no state between transactions.
    let pooled = Pooled::start();
    let url = pooled.pooler.conninfo();
    let other = PostgresStore::open(&url, Options::new("other")).await.unwrap();
    // A prepared statement would have another meaning, or not exist, in the next transaction.
    assert!(!other.is_direct().await.unwrap());
    let mut driver = Driver::start(pooled, Between::Nothing).await;
    let scope = Scope::new("acme", "main");
    for n in 0..40 {
        let submission = driver.submission(&scope, "pooled").with_key(&format!("k{n}"));
        driver.submit(submission).await;
        let leased = driver.lease(&scope, "pooled", 1).await;
        let answer =
            driver.about(&key_of(&leased[0]), report(&caller(&leased[0]), succeeded())).await;
        assert!(!matches!(answer, verdict::Answer::Refused(_)), "{answer:?}");
    }
    let report = store::verify::verify(other.browse()).await.unwrap();
    assert_eq!((report.tasks, report.findings), (40, Vec::new()));
}
