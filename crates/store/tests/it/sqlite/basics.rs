//! Tasks are stored, found again after reopening, and cannot be changed once they have ended.

use store::{Batch, Browse, Loaded, Lookup, RowsAfter, Store, Writer};
use verdict::{State, Subject};

use super::test_coordinator::{TestCoordinator, committed, key, want};

#[tokio::test]
async fn a_task_lives_through_its_life_and_every_reopening() {
    // S2-111, S2-114: committed tasks are found again, ended ones with their record.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.submit(1).await.unwrap();
    drop(coordinator);

    let mut coordinator = TestCoordinator::open(&path).await;
    let ready = coordinator.grant().await.unwrap().expect("the task waits");
    assert_eq!(ready.spec.whole().expect("it is short").input.as_str(), "{\"width\":640}");
    drop(coordinator);

    let mut coordinator = TestCoordinator::open(&path).await;
    assert!(coordinator.grant().await.unwrap().is_none(), "a leased task is not given twice");
    let long = format!("\"{}\"", "x".repeat(200));
    assert!(committed(&coordinator.succeed(&ready, &long).await.unwrap()));
    drop(coordinator);

    let coordinator = TestCoordinator::open(&path).await;
    let found = coordinator.store.browse().find(&key(1)).await.unwrap().expect("it is there");
    assert_eq!(found.subject.state(), Some(State::Succeeded));
    let history =
        coordinator.store.browse().rows(&key(1), RowsAfter::Entry(0), 10).await.unwrap().history;
    assert_eq!(history.len(), 3);
    let Subject::Done(done) = &found.subject else { panic!("it has ended") };
    assert_eq!(done.end.output.as_ref().unwrap().as_str(), long);
    assert_eq!(coordinator.store.status().last_commit_at, Some(done.completed_at));
}

#[tokio::test]
async fn a_dropped_batch_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut coordinator = TestCoordinator::open(&folder.path().join("tenure.db")).await;
    coordinator.submit(1).await.unwrap();
    let mut batch = coordinator.writer.begin().await.unwrap();
    let now = batch.moment().await.unwrap().now;
    assert_eq!(batch.ready(&[want(5)], now).await.unwrap()[0].len(), 1);
    drop(batch);
    let mut batch = coordinator.writer.begin().await.unwrap();
    assert_eq!(batch.ready(&[want(5)], now).await.unwrap()[0].len(), 1);
    let loaded = batch.look_up(Lookup::tasks(&[key(2)])).await.unwrap().tasks;
    assert_eq!(loaded, [Loaded::Subject(Subject::Absent)]);
}
