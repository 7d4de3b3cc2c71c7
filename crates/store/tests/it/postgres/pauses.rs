//! A pause is in force once the batches that had passed their check have ended, and no batch waits for that.

use store::{Administration, Browse, PauseChange, PostgresStore, QueuePause, Store, Writer};
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

/// What a batch of a peer does between its first statement and its COMMIT.
fn batch_under_way(n: i64) -> String {
    let marker =
        "INSERT INTO tenure.batches (committer, n, at) VALUES (decode(repeat('ab', 16), 'hex')";
    format!("BEGIN; {marker}, {n}, 1)")
}

/// Rounds of later batches, each with a few round trips, in which a wait that is too short would end.
const ROUNDS: i64 = 100;

#[tokio::test]
async fn a_pause_is_in_force_when_the_batches_that_passed_their_check_have_ended() {
    let fixture = Postgres::new();
    let store = PostgresStore::open(fixture.url(), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let (before, mut later) = (connect(&fixture).await, connect(&fixture).await);
    before.batch_execute(&batch_under_way(1)).await.unwrap();
    writer.administer(&pause(&store)).await.expect("writing the pause waits for no batch");
    let waiting = tokio::spawn(async move { store.browse().settings_in_force().await });
    // Later batches commit all the time, and one of them is always under way.
    let mut next = connect(&fixture).await;
    later.batch_execute(&batch_under_way(2)).await.unwrap();
    for n in 3.. {
        next.batch_execute(&batch_under_way(n)).await.unwrap();
        later.batch_execute("COMMIT").await.unwrap();
        std::mem::swap(&mut next, &mut later);
        if n <= ROUNDS {
            assert!(!waiting.is_finished(), "the batch before the pause is still under way");
        }
        if n == ROUNDS {
            before.batch_execute("COMMIT").await.unwrap();
        }
        if waiting.is_finished() {
            break;
        }
    }
    waiting.await.unwrap().expect("batches that began later are not waited for");
}
