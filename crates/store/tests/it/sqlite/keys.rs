//! Idempotency keys are remembered as long as they count, and no longer.

use rusqlite::Connection;
use store::{Batch, Held, Key, Writer};
use verdict::{Policy, Scope, Span, Text};

use super::play::{Play, key, spec};

async fn holder(play: &mut Play, text: &str) -> Option<Held> {
    let key = Key { scope: Scope::default(), text: Text::from(text) };
    let mut batch = play.writer.begin().await.unwrap();
    batch.holders(&[key]).await.unwrap().remove(0)
}

async fn submit(play: &mut Play, id: u128, text: &str) {
    play.submit_with(id, Policy::default(), spec(Some(text))).await.unwrap();
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
    let mut play = Play::open(&path).await;
    submit(&mut play, 1, "ended").await;
    let ready = play.grant().await.unwrap().unwrap();
    play.succeed(&ready, "1").await.unwrap();
    submit(&mut play, 2, "alive").await;

    play.clock.advance(Span::from_secs(23 * 60 * 60));
    submit(&mut play, 3, "later").await;
    assert_eq!(holder(&mut play, "ended").await.map(|held| held.task), Some(key(1).id));
    assert_eq!(rows(&path), 3);

    play.clock.advance(Span::from_secs(4 * 60 * 60));
    play.submit(4).await.unwrap();
    assert_eq!(holder(&mut play, "ended").await, None, "its window is over");
    assert_eq!(holder(&mut play, "alive").await.map(|held| held.task), Some(key(2).id));
    assert_eq!(holder(&mut play, "later").await.map(|held| held.task), Some(key(3).id));
    assert_eq!(rows(&path), 2, "forgotten in the table too");

    play.clock.advance(Span::from_secs(200 * 60 * 60));
    play.submit(5).await.unwrap();
    drop(play);
    let mut play = Play::open_at(&path, Span::from_secs(227 * 60 * 60)).await;
    assert_eq!(holder(&mut play, "alive").await.map(|held| held.task), Some(key(2).id));
    assert_eq!(holder(&mut play, "ended").await, None);
}

#[tokio::test]
async fn a_rolled_back_batch_forgets_no_key_and_learns_none() {
    // S2-115: the book of keys says what is committed, nothing else.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut play = Play::open(&path).await;
    submit(&mut play, 1, "first").await;
    // An id that is taken: the whole batch is refused.
    let refused = play.submit_again(1, "second").await;
    assert!(refused.is_err());
    assert_eq!(holder(&mut play, "second").await, None);
    assert_eq!(holder(&mut play, "first").await.map(|held| held.task), Some(key(1).id));
}

#[tokio::test]
async fn the_last_use_of_a_key_counts() {
    // used again after its window, a key belongs to the newer task.
    let folder = tempfile::tempdir().unwrap();
    let mut play = Play::open(&folder.path().join("tenure.db")).await;
    submit(&mut play, 1, "again").await;
    submit(&mut play, 2, "again").await;
    assert_eq!(holder(&mut play, "again").await.map(|held| held.task), Some(key(2).id));
}
