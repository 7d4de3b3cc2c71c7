//! Tasks are kept, found again after reopening, and refused to be changed once they have ended.

use store::{Batch, Browse, Loaded, Store, Writer};
use verdict::{State, Subject};

use super::play::{Play, committed, key, want};

#[tokio::test]
async fn a_task_lives_through_its_life_and_every_reopening() {
    // S2-111, S2-114: what was committed is found again, ended tasks with their record.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut play = Play::open(&path).await;
    play.submit(1).await.unwrap();
    drop(play);

    let mut play = Play::open(&path).await;
    let ready = play.grant().await.unwrap().expect("the task waits");
    assert_eq!(ready.spec.input.as_str(), "{\"width\":640}");
    drop(play);

    let mut play = Play::open(&path).await;
    assert!(play.grant().await.unwrap().is_none(), "a leased task is not given twice");
    let long = format!("\"{}\"", "x".repeat(200));
    assert!(committed(&play.succeed(&ready, &long).await.unwrap()));
    drop(play);

    let play = Play::open(&path).await;
    let found = play.store.browse().find(&key(1)).await.unwrap().expect("it is there");
    assert_eq!(found.subject.state(), Some(State::Succeeded));
    let history = play.store.browse().history(&key(1), 0, 10).await.unwrap();
    assert_eq!(history.len(), 3);
    let Subject::Done(done) = &found.subject else { panic!("it has ended") };
    assert_eq!(done.end.output.as_ref().unwrap().as_str(), long);
    assert_eq!(play.store.opened().last_commit_at, Some(done.completed_at));
}

#[tokio::test]
async fn a_dropped_batch_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut play = Play::open(&folder.path().join("tenure.db")).await;
    play.submit(1).await.unwrap();
    let mut batch = play.writer.begin().await.unwrap();
    let now = batch.now().await.unwrap();
    assert_eq!(batch.ready(&[want(5)], now).await.unwrap()[0].len(), 1);
    drop(batch);
    let mut batch = play.writer.begin().await.unwrap();
    assert_eq!(batch.ready(&[want(5)], now).await.unwrap()[0].len(), 1);
    let loaded = batch.load(&[key(2)]).await.unwrap();
    assert_eq!(loaded, [Loaded::Subject(Subject::Absent)]);
}
