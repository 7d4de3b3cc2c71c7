//! Answers that only repeat what an earlier batch wrote are given when that batch is durable, and not before.

use pgserver::Server;
use store::postgres::PostgresWriter;
use store::{Batch, PostgresStore, Store, Want, Writer};
use storetest::conformance::{Call, CallResult, Poll, Submission, carry::carry};
use verdict::{Scope, TaskId};

use super::durability::set;
use super::options;
use super::private::client;
use super::standby::until_commits_wait;

/// What the poll of this name gets, now or before.
async fn poll(writer: &mut PostgresWriter, name: &str, first_lease: u128) -> usize {
    let want = Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max: 1 };
    let poll = Poll { want, worker: "ann".into(), name: Some(name.into()), first_lease };
    let mut batch = writer.begin().await.unwrap();
    let said = carry(&mut batch, 1, Call::Poll(poll)).await.unwrap();
    batch.commit().await.unwrap();
    match said {
        CallResult::Granted(granted) => granted.len(),
        said => panic!("{said:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_is_repeated_is_answered_when_a_standby_has_what_it_was_given() {
    // S3-59, A2, S2-104: its first answer may have been lost with a COMMIT that still waits for the standby.
    let server = Server::builder().start().unwrap();
    let store = PostgresStore::open(&server.conninfo("postgres"), options(None)).await.unwrap();
    let mut writer = store.writer().await.unwrap();
    let mut batch = writer.begin().await.unwrap();
    let task = Submission::new(TaskId::from_u128(1), &Scope::default(), "images");
    carry(&mut batch, 1, Call::Submit(task)).await.unwrap();
    batch.commit().await.unwrap();
    assert_eq!(poll(&mut writer, "p", 1 << 32).await, 1);
    let admin = client(&server).await;
    set(&admin, &[("synchronous_standby_names", "s1")]).await;
    until_commits_wait(&server, &admin).await;
    // A poll that is given nothing reveals nothing: it does not wait for the standby.
    assert_eq!(poll(&mut writer, "other", 2 << 32).await, 0);
    let again = tokio::spawn(async move { poll(&mut writer, "p", 3 << 32).await });
    let waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' \
        AND application_name LIKE 'tenure %'";
    while admin.query(waiting, &[]).await.unwrap().is_empty() {
        assert!(!again.is_finished(), "told before a standby has it");
        tokio::task::yield_now().await;
    }
    assert!(!again.is_finished());
    set(&admin, &[("synchronous_standby_names", "")]).await;
    assert_eq!(again.await.unwrap(), 1);
}
