//! Flow keys of this engine: what is parked leaves the index of ready tasks, and what a dead coordinator left parked is
//! found.

use store::postgres::PostgresWriter;
use store::verify::verify;
use store::{Batch, PostgresStore, Store, Want, Writer};
use storetest::Database;
use storetest::conformance::carry::carry;
use storetest::conformance::{Call, CallResult, Poll, Submission};
use tokio_postgres::{Client, NoTls};
use verdict::{FlowKey, Scope, TaskId};

use super::options;

const TASKS: u128 = 1_000;

fn task(id: u128, queue: &str, key: Option<&str>) -> Submission {
    let mut submission = Submission::new(TaskId::from_u128(id), &Scope::default(), queue);
    submission.submit.flow = key.map(|key| Box::new(FlowKey::new(key, 1)));
    submission
}

async fn submit(writer: &mut PostgresWriter, tasks: Vec<Submission>) {
    let mut batch = writer.begin().await.unwrap();
    for task in tasks {
        carry(&mut batch, 1, Call::Submit(task)).await.unwrap();
    }
    batch.commit().await.unwrap();
}

async fn lease(writer: &mut PostgresWriter, queue: &str, first_lease: u128) -> usize {
    let queues = vec![queue.into()];
    let want = Want { scope: Scope::default(), queues, kinds: None, max: 9 };
    let poll = Poll { want, worker: "ann".into(), name: None, first_lease };
    let mut batch = writer.begin().await.unwrap();
    let granted = carry(&mut batch, 1, Call::Poll(poll)).await.unwrap();
    batch.commit().await.unwrap();
    match granted {
        CallResult::Granted(tasks) => tasks.len(),
        other => panic!("{other:?}"),
    }
}

async fn admin(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn count(client: &Client, condition: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM tenure.live WHERE {condition}");
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn parked_tasks_leave_the_index_of_ready_ones() {
    // A full key costs others nothing: reads of its queue do not meet its tasks.
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    submit(&mut writer, vec![task(1, "images", Some("acme"))]).await;
    assert_eq!(lease(&mut writer, "images", 1 << 32).await, 1);
    for from in (2..TASKS).step_by(100) {
        let tasks = (from..from + 100).map(|id| task(id, "images", Some("acme"))).collect();
        submit(&mut writer, tasks).await;
    }
    submit(&mut writer, vec![task(TASKS + 500, "images", None)]).await;
    let client = admin(&database).await;
    assert_eq!(count(&client, "parked").await, 1_000);
    assert_eq!(count(&client, "claimable_at IS NOT NULL AND NOT delayed").await, 1);
    assert_eq!(lease(&mut writer, "images", 2 << 32).await, 1, "the one without a key");
    assert_eq!(verify(store.browse()).await.unwrap().findings, []);
}

#[tokio::test]
async fn what_a_dead_coordinator_left_parked_is_offered_by_another() {
    let database = Database::create();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    for queue in ["images", "mails"] {
        for id in [1, 2] {
            let id = id + queue.len() as u128 * 10;
            submit(&mut writer, vec![task(id, queue, Some("acme"))]).await;
        }
    }
    drop(writer);
    drop(store);
    database.settle().await;
    // As if it had died after a report, before it looked at the key again.
    let client = admin(&database).await;
    client.batch_execute("UPDATE tenure.live SET parked = true, delayed = true").await.unwrap();
    let store = PostgresStore::open(database.url(), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    assert_eq!(lease(&mut writer, "mails", 1 << 32).await, 1);
    assert_eq!(lease(&mut writer, "images", 2 << 32).await, 0, "the slot is taken");
    assert_eq!(count(&client, "lease IS NOT NULL").await, 1);
}
