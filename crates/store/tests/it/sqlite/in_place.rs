//! A store whose files are deleted, moved or replaced while it is open acknowledges nothing.

use std::fs;
use std::path::Path;

use store::{Batch, Browse, CommitFailure, Decided, FailureKind, Store, Writer};

use super::test_coordinator::{StepFailure, TestCoordinator, key};

/// Why a submission is refused before anything is written.
async fn refused(coordinator: &mut TestCoordinator) -> String {
    match coordinator.submit(2).await {
        Err(StepFailure::Before(failure)) if failure.kind == FailureKind::Missing => failure.what,
        other => panic!("a commit that would be lost: {other:?}"),
    }
}

fn beside(path: &Path, suffix: &str) -> std::path::PathBuf {
    path.with_file_name(format!("tenure.db{suffix}"))
}

#[tokio::test]
async fn a_deleted_database_takes_no_more_commits_and_a_returned_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.submit(1).await.unwrap();
    fs::rename(&path, beside(&path, ".away")).unwrap();
    let why = refused(&mut coordinator).await;
    assert!(why.contains("was deleted or moved while the store was open; put"), "{why}");
    assert!(coordinator.writer.next_wake().await.is_err(), "an idle server notices too");
    // Another database at the same path is not this store.
    fs::copy(beside(&path, ".away"), &path).unwrap();
    let why = refused(&mut coordinator).await;
    assert!(why.contains("another file took the place of"), "{why}");
    fs::rename(beside(&path, ".away"), &path).unwrap();
    coordinator.submit(2).await.unwrap();
    assert!(coordinator.store.browse().find(&key(2)).await.unwrap().is_some());
}

#[tokio::test]
async fn without_its_log_a_store_takes_no_more_commits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.submit(1).await.unwrap();
    fs::rename(beside(&path, "-wal"), beside(&path, ".away")).unwrap();
    let why = refused(&mut coordinator).await;
    assert!(why.contains("tenure.db-wal was deleted"), "{why}");
    fs::rename(beside(&path, ".away"), beside(&path, "-wal")).unwrap();
    coordinator.submit(2).await.unwrap();
}

#[tokio::test]
async fn without_its_lock_file_a_store_takes_no_more_commits() {
    // Another process could open the same database.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    fs::remove_file(beside(&path, ".lock")).unwrap();
    let why = refused(&mut coordinator).await;
    assert!(why.contains("tenure.db.lock was deleted"), "{why}");
}

#[tokio::test]
async fn a_database_that_is_deleted_during_a_batch_is_noticed_before_the_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    let mut batch = coordinator.writer.begin().await.unwrap();
    batch.save(Decided::keep_alive()).await.unwrap();
    fs::remove_file(&path).unwrap();
    match batch.commit().await {
        Err(CommitFailure::RolledBack(failure)) => assert_eq!(failure.kind, FailureKind::Missing),
        other => panic!("{other:?}"),
    }
}
