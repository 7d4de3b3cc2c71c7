//! Batches whose statements reach the server long after they were given up.

use store::postgres::{Notify, Options, PostgresWriter};
use store::{Batch, Browse, CommitFailure, PostgresStore, Store, TaskKey, Writer};
use storetest::Database;
use storetest::conformance::{Call, Submission, carry::carry};
use tokio_postgres::{Client, NoTls};
use verdict::{Scope, TaskId};

use super::cutting::{Cut, Proxy};
use super::options;

/// More batches than markers are kept.
const LATER: u128 = 150;

async fn submit(writer: &mut PostgresWriter, id: u128) -> Result<(), CommitFailure> {
    let mut batch = writer.begin().await.unwrap();
    let task = Submission::new(TaskId::from_u128(id), &Scope::default(), "images");
    carry(&mut batch, 1, Call::Submit(task)).await.unwrap();
    batch.commit().await
}

/// Waits until the coordinator has deleted its old markers, as it does every few seconds.
async fn until_cleared(client: &Client) {
    let first = "SELECT count(*) FROM tenure.batches WHERE n = 1";
    while client.query_one(first, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_was_given_up_is_never_committed_however_late_it_arrives() {
    // F38, S2-104: a COMMIT was delayed on the network and treated as never sent, and the caller has retried. It
    // arrives after the marker that blocks it has been deleted with all others of its time.
    let database = Database::create();
    let proxy = Proxy::start(database.folder());
    let url = database.url_through(&proxy.folder());
    let options = Options { notify: Notify::On, ..options(None) };
    let store = PostgresStore::open(&url, options).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    // The next COMMIT is the batch's, because nothing else is left to commit.
    store.agree_on_rules().await.unwrap();
    proxy.cut(Cut::Late);
    let given_up = submit(&mut writer, 1).await.expect_err("the server never heard of it");
    assert!(matches!(given_up, CommitFailure::RolledBack(_)), "{given_up:?}");
    for id in 2..2 + LATER {
        submit(&mut writer, id).await.unwrap();
    }
    let (client, connection) = tokio_postgres::connect(database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    until_cleared(&client).await;
    proxy.let_go().await;
    let key = TaskKey { scope: Scope::default(), id: TaskId::from_u128(1) };
    assert_eq!(store.browse().find(&key).await.unwrap(), None, "it came back");
    submit(&mut writer, 2 + LATER).await.expect("and the writer goes on");
}
