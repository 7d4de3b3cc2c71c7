//! A state that is neither waiting nor running needs no special case in a store: such a task is unfinished, it is not
//! claimable, and it has no lease. The tests write one that the rules do not know, past the checks.

use std::sync::Arc;

use rusqlite::Connection;
use store::sqlite::{Options, SqliteStore};
use store::{Batch, Browse, QueueDepth, Selection, Want, Writer};
use storetest::ManualClock;
use storetest::conformance::{Between, Driver, Fixture};
use tokio_postgres::NoTls;
use verdict::{Name, Scope};

use crate::postgres::Postgres;

/// A file in a folder that lives as long as the test.
struct File(tempfile::TempDir);

impl File {
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("tenure.db")
    }
}

impl Fixture for File {
    type Store = SqliteStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> SqliteStore {
        SqliteStore::open(self.path(), Options::new(clock)).expect("the file opens")
    }
}

/// Submits three tasks, leases the first, and lets the caller hold the second.
async fn three_tasks<F: Fixture>(driver: &mut Driver<F>) -> Vec<u8> {
    let scope = Scope::default();
    driver.add(&scope, "images").await;
    assert_eq!(driver.lease(&scope, "images", 1).await.len(), 1);
    let held = driver.add(&scope, "images").await;
    driver.add(&scope, "images").await;
    held.id.as_u128().to_be_bytes().to_vec()
}

async fn is_counted_and_not_granted<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let depths = driver.browse().queues(None).await.expect("browsing works");
    let [QueueDepth { ready, delayed, running, unfinished, .. }] = depths[..] else {
        panic!("{depths:?}")
    };
    assert_eq!((ready, delayed, running, unfinished), (1, 0, 1, 3));
    let tenants = [Name::from("default")];
    assert_eq!(driver.browse().unfinished(&tenants).await.expect("browsing works"), [3]);
    let want = Want { scope, queues: vec!["images".into()], kinds: None, max: 3 };
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let now = batch.moment().await.expect("there is a clock").now;
    let ready = batch.ready(&[want], now).await.expect("the others are read");
    assert_eq!(ready[0].len(), 1, "only the task that waits");
    let selection = Selection::Running { after: None };
    let running = batch.select(selection, 3).await.expect("the others are read");
    assert_eq!(running.len(), 1, "only the task that runs");
}

#[tokio::test]
async fn a_file_counts_a_task_that_neither_waits_nor_runs() {
    let file = File(tempfile::tempdir().unwrap());
    let path = file.path();
    let mut driver = Driver::start(file, Between::Nothing).await;
    let held = three_tasks(&mut driver).await;
    let raw = Connection::open(&path).unwrap();
    raw.pragma_update(None, "ignore_check_constraints", true).unwrap();
    raw.execute_batch("DROP TRIGGER live_changes_by_the_rules").unwrap();
    let hold = "UPDATE live SET state = 'held', claimable_at = NULL WHERE id = ?1";
    assert_eq!(raw.execute(hold, [held]).unwrap(), 1);
    drop(raw);
    driver.reopen().await;
    is_counted_and_not_granted(&mut driver).await;
}

#[tokio::test]
async fn a_database_counts_a_task_that_neither_waits_nor_runs() {
    let fixture = Postgres::new();
    let (client, connection) = tokio_postgres::connect(fixture.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let held = three_tasks(&mut driver).await;
    let unchecked = "ALTER TABLE tenure.live DROP CONSTRAINT live_state_check; \
        ALTER TABLE tenure.live DISABLE TRIGGER USER";
    client.batch_execute(unchecked).await.unwrap();
    let hold = "UPDATE tenure.live SET state = 'held', claimable_at = NULL WHERE id = $1";
    assert_eq!(client.execute(hold, &[&held]).await.unwrap(), 1);
    driver.reopen().await;
    is_counted_and_not_granted(&mut driver).await;
}
