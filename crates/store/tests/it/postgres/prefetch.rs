//! Tasks that are locked before they are requested, in the round trip that reads the clock.

use store::postgres::{Notify, PostgresWriter};
use store::{Batch, Plan, Want, Writer};
use storetest::Database;
use verdict::Scope;

use super::order::{StillTime, open, submit};

fn want(max: usize) -> Want {
    Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max }
}

async fn ready(batch: &mut impl Batch, max: usize) -> Vec<u128> {
    let now = batch.moment().await.unwrap().now;
    let ready = batch.ready(&[want(max)], now).await.unwrap();
    ready[0].iter().map(|ready| ready.task.id.as_u128()).collect()
}

/// Reads the queue and takes nothing from it.
async fn look(writer: &mut PostgresWriter) {
    let mut batch = writer.begin().await.unwrap();
    assert_eq!(ready(&mut batch, 1).await, [1]);
}

#[tokio::test]
async fn what_is_prefetched_is_locked_when_the_clock_is_read_and_given_to_nobody_else() {
    // S2-52, W-1: once tasks are locked, another poll gets the next ones. Time stands still, so that what was read
    // never becomes too old to use.
    let (_still, database) = (StillTime::begin(), Database::create());
    let (_one, mut one) = open(&database, Notify::Off).await;
    let (_two, mut two) = open(&database, Notify::Off).await;
    submit(&mut one, 1..5, 0).await;
    look(&mut one).await;
    let mut batch = one.begin().await.unwrap();
    batch.prepare(Plan { prefetch: &[want(2)], ..Plan::default() }).await.unwrap();
    let now = batch.moment().await.unwrap().now;
    let mut other = two.begin().await.unwrap();
    assert_eq!(ready(&mut other, 2).await, [3, 4], "the first two are locked already");
    let mine = batch.ready(&[want(2)], now).await.unwrap();
    let mine: Vec<u128> = mine[0].iter().map(|ready| ready.task.id.as_u128()).collect();
    assert_eq!(mine, [1, 2], "by age, each once");
}

#[tokio::test]
async fn what_is_prefetched_and_never_asked_for_is_free_after_the_batch() {
    // S2-52: a prefetch lock is not a lease.
    let (_still, database) = (StillTime::begin(), Database::create());
    let (_one, mut one) = open(&database, Notify::Off).await;
    let (_two, mut two) = open(&database, Notify::Off).await;
    submit(&mut one, 1..5, 0).await;
    look(&mut one).await;
    let mut batch = one.begin().await.unwrap();
    batch.prepare(Plan { prefetch: &[want(4)], ..Plan::default() }).await.unwrap();
    batch.moment().await.unwrap();
    drop(batch);
    // The next batch begins when the last one has released its locks.
    let mut again = one.begin().await.unwrap();
    assert_eq!(ready(&mut again, 2).await, [1, 2]);
    let mut other = two.begin().await.unwrap();
    assert_eq!(ready(&mut other, 4).await, [3, 4]);
}
