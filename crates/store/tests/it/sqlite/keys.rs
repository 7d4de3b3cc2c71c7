//! Idempotency keys are remembered as long as they count, and no longer.

use rusqlite::Connection;
use store::{Batch, IdempotencyKey, KeyOwner, Lookup, Writer};
use verdict::{Policy, Scope, Span, Text};

use super::test_coordinator::{TestCoordinator, key, spec};

async fn holder(coordinator: &mut TestCoordinator, text: &str) -> Option<KeyOwner> {
    let key = IdempotencyKey { scope: Scope::default(), text: Text::from(text) };
    let mut batch = coordinator.writer.begin().await.unwrap();
    batch.look_up(Lookup::keys(&[key])).await.unwrap().owners.remove(0).map(|(owner, _)| owner)
}

async fn submit(coordinator: &mut TestCoordinator, id: u128, text: &str) {
    coordinator.submit_with(id, Policy::default(), spec(Some(text))).await.unwrap();
}

fn rows(path: &std::path::Path) -> i64 {
    let raw = Connection::open(path).unwrap();
    raw.query_row("SELECT count(*) FROM keys", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn keys_leave_a_day_after_their_tasks_end_and_not_before() {
    // R-32, S2-115: a live task keeps its key whatever its age; an ended one for a day.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    submit(&mut coordinator, 1, "ended").await;
    let ready = coordinator.grant().await.unwrap().unwrap();
    coordinator.succeed(&ready, "1").await.unwrap();
    submit(&mut coordinator, 2, "alive").await;

    coordinator.clock.advance(Span::from_secs(23 * 60 * 60));
    submit(&mut coordinator, 3, "later").await;
    assert_eq!(holder(&mut coordinator, "ended").await.map(|held| held.task), Some(key(1).id));
    assert_eq!(rows(&path), 3);

    coordinator.clock.advance(Span::from_secs(4 * 60 * 60));
    coordinator.submit(4).await.unwrap();
    assert_eq!(holder(&mut coordinator, "ended").await, None, "its window is over");
    assert_eq!(holder(&mut coordinator, "alive").await.map(|held| held.task), Some(key(2).id));
    assert_eq!(holder(&mut coordinator, "later").await.map(|held| held.task), Some(key(3).id));
    assert_eq!(rows(&path), 2, "forgotten in the table too");

    coordinator.clock.advance(Span::from_secs(200 * 60 * 60));
    coordinator.submit(5).await.unwrap();
    drop(coordinator);
    let mut coordinator = TestCoordinator::open_at(&path, Span::from_secs(227 * 60 * 60)).await;
    assert_eq!(holder(&mut coordinator, "alive").await.map(|held| held.task), Some(key(2).id));
    assert_eq!(holder(&mut coordinator, "ended").await, None);
}

#[tokio::test]
async fn a_rolled_back_batch_forgets_no_key_and_learns_none() {
    // S2-115: the key index holds what is committed, nothing else.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    submit(&mut coordinator, 1, "first").await;
    // The id exists: the whole batch is refused.
    let refused = coordinator.submit_again(1, "second").await;
    assert!(refused.is_err());
    assert_eq!(holder(&mut coordinator, "second").await, None);
    assert_eq!(holder(&mut coordinator, "first").await.map(|held| held.task), Some(key(1).id));
}

#[tokio::test]
async fn the_last_use_of_a_key_counts() {
    // used again after its window, a key belongs to the newer task.
    let folder = tempfile::tempdir().unwrap();
    let mut coordinator = TestCoordinator::open(&folder.path().join("tenure.db")).await;
    submit(&mut coordinator, 1, "again").await;
    submit(&mut coordinator, 2, "again").await;
    assert_eq!(holder(&mut coordinator, "again").await.map(|held| held.task), Some(key(2).id));
}
