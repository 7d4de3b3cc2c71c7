//! A pause is effective when its act returns: a batch that is already past its check is waited for.

use store::{Administration, PauseChange, PostgresStore, QueuePause, Store, Writer};
use tokio_postgres::{Client, NoTls};
use verdict::Scope;

use super::{Postgres, options};

async fn connect(fixture: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(fixture.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn pause(store: &PostgresStore) -> Administration {
    let pause = QueuePause {
        scope: Scope::default(),
        queue: "images".into(),
        at: store.now(),
        by: "0123456789abcdef".into(),
        reason: None,
    };
    Administration { pauses: vec![PauseChange::Pause(pause)], ..Administration::default() }
}

/// Whether a session waits for a lock on the table of markers.
const WAITS: &str = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'ShareLock' \
    AND relation = 'tenure.batches'::regclass)";

#[tokio::test]
async fn a_pause_waits_for_the_batch_that_passed_its_check_before() {
    let fixture = Postgres::new();
    let store = PostgresStore::open(fixture.url(), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let (batch, watcher) = (connect(&fixture).await, connect(&fixture).await);
    // A batch of a peer between its marker and its COMMIT.
    let marker = "INSERT INTO tenure.batches (committer, n, at) \
        VALUES (decode(repeat('ab', 16), 'hex'), 1, 1)";
    batch.batch_execute(&format!("BEGIN; {marker}")).await.unwrap();
    let act = pause(&store);
    let pausing = tokio::spawn(async move { writer.administer(&act).await });
    while !watcher.query_one(WAITS, &[]).await.unwrap().get::<_, bool>(0) {
        assert!(!pausing.is_finished(), "the pause did not wait");
        tokio::task::yield_now().await;
    }
    assert!(!pausing.is_finished());
    batch.batch_execute("COMMIT").await.unwrap();
    pausing.await.unwrap().expect("the pause is effective now");
}
