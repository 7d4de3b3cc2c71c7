//! The database's clock is set while coordinators run.
//!
//! The server uses the machine's clock, which no test may set. So the sessions of a store find another
//! `clock_timestamp()` before the server's. It is ahead by the offset in a table.

use std::time::Duration;

use store::postgres::{Notify, Options};
use store::{Batch, Decided, FailureKind, PostgresStore, Store, Writer};
use storetest::Database;
use tokio_postgres::{Client, NoTls};
use verdict::{Span, Time};

use super::options;

/// Far longer than any step takes on the slowest machine, and far shorter than the clock is set back.
const PATIENCE: Duration = Duration::from_secs(120);

const SETTABLE: &str = "CREATE SCHEMA lab; \
    CREATE TABLE lab.clock (ahead interval NOT NULL); \
    INSERT INTO lab.clock VALUES ('0'); \
    CREATE FUNCTION lab.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE SECURITY DEFINER AS \
        'SELECT pg_catalog.clock_timestamp() + ahead FROM lab.clock'; \
    GRANT USAGE ON SCHEMA lab TO public";

/// A database whose clock can be set.
struct Clocked {
    database: Database,
    admin: Client,
}

impl Clocked {
    async fn create() -> Self {
        let database = Database::create();
        let (admin, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        admin.batch_execute(SETTABLE).await.unwrap();
        let found = format!("ALTER DATABASE {} SET search_path = lab, pg_catalog", database.name());
        admin.batch_execute(&found).await.unwrap();
        Self { database, admin }
    }

    async fn set(&self, ahead: &str) {
        self.admin
            .execute("UPDATE lab.clock SET ahead = $1::text::interval", &[&ahead])
            .await
            .unwrap();
    }

    async fn open(&self, options: Options) -> PostgresStore {
        PostgresStore::open(self.database.url(), options).await.unwrap()
    }
}

/// The time a batch decides by, in a batch that commits.
async fn decide(writer: &mut impl Writer) -> Time {
    let mut batch = writer.begin().await.unwrap();
    let now = batch.moment().await.unwrap().now;
    batch.save(Decided::keep_alive()).await.unwrap();
    batch.commit().await.unwrap();
    now
}

#[tokio::test(flavor = "multi_thread")]
async fn time_goes_on_when_the_database_clock_is_set_back() {
    // F61, B4, B8: when the clock is set back by an hour, nothing waits for that hour, decisions stay in order, and a
    // coordinator that starts meanwhile is not behind.
    let clocked = Clocked::create().await;
    let store = clocked.open(options(None)).await;
    let mut writer = store.writer().await.unwrap();
    let noon = decide(&mut writer).await;
    clocked.set("-50 minutes").await;
    let mut last = decide(&mut writer).await;
    assert!(last >= noon && last.since(noon) < Span::from_secs(60), "{noon:?} and then {last:?}");
    let goes_on = async {
        while last.since(noon) < Span::from_millis(300) {
            let next = decide(&mut writer).await;
            assert!(next >= last, "{next:?} after {last:?}");
            last = next;
        }
    };
    tokio::time::timeout(PATIENCE, goes_on).await.expect("time goes on");
    let again = clocked.open(options(None)).await;
    let mut starts = again.writer().await.unwrap();
    let first = decide(&mut starts).await;
    assert!(first >= last, "it begins at {first:?}, after {last:?}");
    // The clock is right again, which is almost an hour ahead of the coordinators' time.
    clocked.set("0").await;
    let (one, other) = (decide(&mut writer).await, decide(&mut starts).await);
    assert!(one >= first.min(last) && other >= first);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_coordinator_hears_what_time_the_others_have() {
    // F61 with several: a starting coordinator learns the time from the rows of the others, even without a commit.
    let clocked = Clocked::create().await;
    let told = |name| Options { notify: Notify::On, ..Options::new(name) };
    let store = clocked.open(told("first")).await;
    let _writer = store.writer().await.unwrap();
    clocked.set("-30 minutes").await;
    let before = store.now();
    let again = clocked.open(told("second")).await;
    assert!(again.now() >= before, "{:?} and not {before:?}", again.now());
    assert!(again.now().since(before) < Span::from_secs(60), "{:?}", again.now());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_for_more_than_an_hour_is_refused_at_a_start() {
    // F61: the same if the last commit was long ago.
    let clocked = Clocked::create().await;
    drop(clocked.open(options(None)).await.writer().await.unwrap());
    clocked.set("-2 hours").await;
    let refused = PostgresStore::open(clocked.database.url(), options(None)).await.err().unwrap();
    assert_eq!(refused.kind, FailureKind::Closed);
    assert!(refused.what.contains("ahead of the database's clock"), "{refused:?}");
}
