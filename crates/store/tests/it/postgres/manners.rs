//! How the engine uses its database: tests for bugs that other systems had on PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use pgserver::{Server, Stop};
use store::postgres::{Notify, Options, PostgresStore};
use store::{Batch, Browse, Store, TaskKey, Want, Writer};
use storetest::Database;
use storetest::conformance::runs::stages;
use storetest::conformance::{Between, Call, CallResult, Driver, Poll, Submission, carry::carry};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};
use verdict::{Scope, TaskId};

use super::{Postgres, options};

fn want(max: usize) -> Want {
    Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max }
}

async fn submit(writer: &mut impl Writer, id: u128) {
    let mut batch = writer.begin().await.unwrap();
    let task = Submission::new(TaskId::from_u128(id), &Scope::default(), "images");
    carry(&mut batch, 1, Call::Submit(task)).await.unwrap();
    batch.commit().await.unwrap();
}

/// Whether a submission was acknowledged; `false` when the database is gone.
async fn is_submitted(writer: &mut impl Writer, id: u128) -> bool {
    let Ok(mut batch) = writer.begin().await else { return false };
    let task = Submission::new(TaskId::from_u128(id), &Scope::default(), "images");
    carry(&mut batch, 1, Call::Submit(task)).await.is_ok() && batch.commit().await.is_ok()
}

async fn lease_one(writer: &mut impl Writer, n: u128) -> usize {
    let mut batch = writer.begin().await.unwrap();
    let poll = Poll { want: want(1), worker: "ann".into(), name: None, first_lease: n << 32 };
    let said = carry(&mut batch, 1, Call::Poll(poll)).await.unwrap();
    batch.commit().await.unwrap();
    match said {
        CallResult::Granted(granted) => granted.len(),
        said => panic!("{said:?}"),
    }
}

async fn look(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

const OTHERS: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
    AND backend_type = 'client backend' AND pid <> pg_backend_pid()";

#[tokio::test]
async fn a_batch_that_is_dropped_half_way_leaves_no_transaction_open() {
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    submit(&mut writer, 1).await;
    let mut batch = writer.begin().await.unwrap();
    let now = batch.moment().await.unwrap().now;
    assert_eq!(batch.ready(&[want(1)], now).await.unwrap()[0].len(), 1);
    drop(batch);
    // `begin` waits until the dropped batch has ended, and sends nothing itself.
    let next = writer.begin().await.unwrap();
    let open = format!("{OTHERS} AND xact_start IS NOT NULL");
    assert_eq!(count(&look(&database).await, &open).await, 0);
    drop(next);
    // F40, S2-52: nothing of it remains on any connection; the next poll gets the task.
    assert_eq!(lease_one(&mut writer, 1).await, 1);
}

#[tokio::test]
async fn after_an_empty_database_was_opened_every_connection_is_prepared() {
    // The tables are created while the store is opened. A connection from before that has no prepared statements, ever.
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    assert_eq!(store.unprepared_connections(), 0);
    let pooled = store.fill_pools().await.unwrap();
    assert_eq!((pooled > 2, store.unprepared_connections()), (true, 0));
    // Without tables none is prepared, and that is noticed.
    let other = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let client = look(&database).await;
    client.batch_execute("ALTER SCHEMA tenure RENAME TO elsewhere").await.unwrap();
    assert_eq!(other.fill_pools().await.unwrap(), pooled);
    assert_eq!(other.unprepared_connections(), pooled);
}

#[tokio::test]
async fn a_name_that_means_something_else_costs_one_batch_at_most() {
    // prepared statements exist on every connection, and a table changes under them.
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    assert!(store.is_direct().await.unwrap());
    let mut writer = store.writer().await.unwrap();
    submit(&mut writer, 1).await;
    submit(&mut writer, 2).await;
    assert_eq!(lease_one(&mut writer, 1).await, 1);
    let change = "ALTER TABLE tenure.inputs ALTER COLUMN goal TYPE varchar";
    look(&database).await.batch_execute(change).await.unwrap();
    let mut batch = writer.begin().await.unwrap();
    let now = batch.moment().await.unwrap().now;
    let refused = batch.ready(&[want(1)], now).await.expect_err("what was planned is no more");
    assert!(refused.is_retryable(), "{refused:?}");
    drop(batch);
    assert_eq!(lease_one(&mut writer, 2).await, 1);
}

#[tokio::test]
async fn a_batch_itself_notifies_nobody() {
    // A notification inside a batch would serialize all commits of the database.
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let (client, mut told) = listen(&database).await;
    let mut writer = store.writer().await.unwrap();
    for id in 1..=5 {
        submit(&mut writer, id).await;
    }
    // An earlier notification would arrive before this one, and there is none.
    client.batch_execute("NOTIFY tenure, 'me'").await.unwrap();
    assert_eq!(told.recv().await.unwrap(), "me");
}

/// A client, and what it hears on the channel of hints.
async fn listen(database: &Database) -> (Client, mpsc::Receiver<String>) {
    let (client, mut connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    let (tell, told) = mpsc::channel(1_024);
    tokio::spawn(async move {
        loop {
            let next = std::future::poll_fn(|context| connection.poll_message(context)).await;
            match next {
                Some(Ok(AsyncMessage::Notification(note))) => {
                    // The test may have ended.
                    let _ = tell.send(note.payload().to_owned()).await;
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
        }
    });
    client.batch_execute("LISTEN tenure").await.unwrap();
    (client, told)
}

#[tokio::test]
async fn hints_begin_when_there_is_a_peer_to_hear_them() {
    let database = Database::create();
    let (client, mut told) = listen(&database).await;
    let hinting = |name: &str| Options { notify: Notify::On, ..Options::new(name) };
    let store = PostgresStore::open(database.url(), hinting("first")).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    // It greets, says that it listens, and nothing else: there is no peer.
    let greeting = told.recv().await.unwrap();
    let first = greeting.strip_suffix("\ngreeting").expect("the session greets").to_owned();
    for id in 1..=5 {
        submit(&mut writer, id).await;
    }
    client.batch_execute("NOTIFY tenure, 'end'").await.unwrap();
    loop {
        match told.recv().await.unwrap() {
            heard if heard == "end" => break,
            heard => assert_eq!(heard, first, "a hint without a peer"),
        }
    }
    // A peer says that it listens. The hint of what is submitted before that is heard is not sent.
    let _second = PostgresStore::open(database.url(), hinting("second")).await.unwrap();
    let mut id = 5;
    while !told.recv().await.unwrap().starts_with(&format!("{first}\n")) {
        id += 1;
        submit(&mut writer, id).await;
    }
}

/// Counts how often rows of live tasks are written.
const COUNTED: &str = "CREATE TABLE public.writes (n int); \
    CREATE FUNCTION public.count_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \
        'BEGIN INSERT INTO public.writes VALUES (1); RETURN NULL; END'; \
    CREATE TRIGGER counted AFTER UPDATE ON tenure.live FOR EACH ROW EXECUTE FUNCTION public.count_write()";

#[tokio::test]
async fn a_stage_at_the_same_place_is_written_once() {
    let fixture = Postgres::new();
    let (client, connection) = tokio_postgres::connect(fixture.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    client.batch_execute(COUNTED).await.unwrap();
    stages::stay_at_their_place(&mut driver).await;
    assert_eq!(count(&client, "SELECT count(*) FROM public.writes").await, stages::WRITES);
}

/// Leases, one after the other.
const ROUNDS: u128 = 300;
/// How often the engine may read a queue from its head without a hint.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// Reads of further pages, and the first read.
const LOOKS_MORE: u128 = 8;

#[tokio::test]
async fn tasks_are_taken_by_their_key_and_not_by_walking_the_queue() {
    // An old snapshot keeps every leased task at the head of its queue: a scan for each grant would pass all of them.
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    for id in 1..=ROUNDS {
        submit(&mut writer, id).await;
    }
    let client = look(&database).await;
    let began = tokio::time::Instant::now();
    for n in 1..=ROUNDS {
        assert_eq!(lease_one(&mut writer, n).await, 1);
    }
    let looks = began.elapsed().as_millis() / LOOK_EVERY.as_millis() + LOOKS_MORE;
    drop((writer, store));
    // Sessions report their statistics when they end.
    while count(&client, OTHERS).await > 0 {
        tokio::task::yield_now().await;
    }
    let scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'live_ready'";
    let scans = count(&client, scans).await;
    assert!(scans.unsigned_abs() as u128 <= looks, "{scans} walks for {ROUNDS} leases");
}

/// More than can be submitted before a database that was told to stop has stopped.
const SUBMISSIONS_MAX: u128 = 100_000;

#[tokio::test]
async fn what_was_acknowledged_outlives_the_death_of_the_database() {
    // S2-104: the engine waits for everything that the database is configured to wait for. This one writes its WAL in
    // the background only every ten seconds, so an engine that does not wait loses acknowledged commits. A commit of
    // any other session flushes the WAL for all of them: tasks are submitted until the database is gone.
    let alone = Arc::new(Server::builder().set("wal_writer_delay", "10s").start().unwrap());
    let store = PostgresStore::open(&alone.conninfo("postgres"), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    submit(&mut writer, 1).await;
    let dying = Arc::clone(&alone);
    let dying = tokio::task::spawn_blocking(move || dying.stop(Stop::Immediate));
    let mut acknowledged = 1;
    while acknowledged < SUBMISSIONS_MAX && is_submitted(&mut writer, acknowledged + 1).await {
        acknowledged += 1;
    }
    dying.await.unwrap().unwrap();
    drop(writer);
    alone.start().unwrap();
    let again =
        PostgresStore::open(&alone.conninfo("postgres"), Options::new("again")).await.unwrap();
    for id in 1..=acknowledged {
        let key = TaskKey { scope: Scope::default(), id: TaskId::from_u128(id) };
        let found = again.browse().find(&key).await.unwrap();
        assert!(found.is_some(), "task {id} of {acknowledged} is lost");
    }
}
