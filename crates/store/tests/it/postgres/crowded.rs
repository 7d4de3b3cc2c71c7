//! Slow queries of callers: the coordinator's own queries do not wait for them, and the database cancels those whose
//! caller has gone.

use std::time::Duration;

use store::{AuditFilter, Batch, Browse, PostgresStore, Store, Writer};
use storetest::Database;
use storetest::conformance::{Call, Submission, carry::carry};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};
use verdict::{Scope, TaskId};

use super::options;

/// How many queries of callers the engine runs concurrently.
pub(super) const READERS: i64 = 4;
/// Far longer than any step takes on the slowest machine, and shorter than the server's statement timeout.
const PATIENCE: Duration = Duration::from_secs(50);

async fn admin(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Locks a table that only administrators read.
pub(super) async fn hold_the_audit(other: &Client) {
    other.batch_execute("BEGIN; LOCK TABLE tenure.audit IN ACCESS EXCLUSIVE MODE").await.unwrap();
}

/// Waits until this many sessions of the store wait for a lock.
pub(super) async fn until_so_many_wait(admin: &Client, expected: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
        AND application_name LIKE 'tenure %' AND wait_event_type = 'Lock'";
    let waiting = async || -> i64 { admin.query_one(sql, &[]).await.unwrap().get(0) };
    let waited = tokio::time::timeout(PATIENCE, async {
        while waiting().await != expected {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "{} wait, and not {expected}", waiting().await);
}

/// Queries the audit, this many times concurrently.
pub(super) fn ask_for_the_audit(store: &PostgresStore, times: i64) -> JoinSet<bool> {
    let mut asking = JoinSet::new();
    for _ in 0..times {
        let browse = store.browse().clone();
        let filter = AuditFilter { limit: 10, ..AuditFilter::default() };
        asking.spawn(async move { browse.audit(&filter).await.is_ok() });
    }
    asking
}

async fn submit(writer: &mut impl Writer, id: u128) {
    let mut batch = writer.begin().await.unwrap();
    let task = Submission::new(TaskId::from_u128(id), &Scope::default(), "images");
    carry(&mut batch, 1, Call::Submit(task)).await.unwrap();
    batch.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_coordinator_needs_does_not_wait_for_slow_questions() {
    // F44, A8, B6: slow queries hold every connection for callers, and more callers wait for one. Batches, the next
    // wake, keys, limits, signing keys and peers have separate connections.
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let mut both = [store.writer().await.unwrap(), store.writer().await.unwrap()];
    let (admin, other) = (admin(&database).await, admin(&database).await);
    hold_the_audit(&other).await;
    let mut asking = ask_for_the_audit(&store, 2 * READERS);
    until_so_many_wait(&admin, READERS).await;
    for round in 0..3 {
        for (writer, n) in both.iter_mut().zip(1..) {
            submit(writer, 10 * round + n).await;
            writer.next_wake().await.expect("when to wake");
        }
        let rows = store.browse().administration().await.expect("keys, limits, signing keys");
        assert_eq!(rows.coordinators, 1);
    }
    until_so_many_wait(&admin, READERS).await;
    other.batch_execute("ROLLBACK").await.unwrap();
    let mut answered = 0;
    while let Some(asked) = asking.join_next().await {
        answered += i64::from(asked.unwrap());
    }
    assert!(answered >= READERS, "whoever had a connection is answered in the end");
}

/// Every caller gives up while the server runs its query, and the server stops the query.
pub(super) async fn questions_that_are_given_up_end(
    store: &PostgresStore,
    admin: &Client,
    other: &Client,
) {
    hold_the_audit(other).await;
    for _ in 0..2 {
        let mut asking = ask_for_the_audit(store, READERS);
        until_so_many_wait(admin, READERS).await;
        asking.abort_all();
        while asking.join_next().await.is_some() {}
        // The table is still locked: only a cancelled session stops waiting for it.
        until_so_many_wait(admin, 0).await;
        store.browse().latest().await.expect("the next caller is answered");
    }
    other.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_was_given_up_ends_on_the_server_too() {
    // F44: a caller that gives up does not occupy a connection, and does not keep the database busy.
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let (admin, other) = (admin(&database).await, admin(&database).await);
    questions_that_are_given_up_end(&store, &admin, &other).await;
}
