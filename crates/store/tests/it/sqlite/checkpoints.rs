//! Checkpoints beside the writer: they happen, the log stays short, and nothing acknowledged is lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use store::sqlite::{Options, SqliteStore};
use store::verify::verify;
use store::{Browse, Spec, Store};
use storetest::ManualClock;
use verdict::{Json, Policy};

use super::power::{Durability, disk, on_disk};
use super::test_coordinator::{Step, TestCoordinator, key, spec};

/// A page of the log with its header.
const FRAME_BYTES: u64 = 4_120;

/// More pages than a step waits for, in one commit.
const LARGE_INPUT_PAGES: u64 = 1_200;

/// Far longer than any checkpoint here takes: a thread that does nothing fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(60);

fn with_input(bytes: usize) -> Spec {
    Spec { input: Json::from(format!("\"{}\"", "x".repeat(bytes))), ..spec(None) }
}

async fn submit_large(coordinator: &mut TestCoordinator, id: u128) {
    let input = with_input((LARGE_INPUT_PAGES * 4_096) as usize);
    coordinator.submit_with(id, Policy::default(), input).await.unwrap();
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

fn log_of(path: &Path) -> PathBuf {
    path.with_file_name("tenure.db-wal")
}

async fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}: never"));
}

async fn unsynced(path: &Path) -> TestCoordinator {
    let clock = Arc::new(ManualClock::default());
    let options = Options::new(clock.clone()).without_sync();
    TestCoordinator::open_with(path, options, clock).await.unwrap()
}

#[tokio::test]
async fn what_is_committed_moves_to_the_database_and_the_log_starts_again() {
    // The commits themselves no longer do that.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = unsynced(&path).await;
    for id in 1..=12 {
        submit_large(&mut coordinator, id).await;
        let moved = u64::try_from(id).unwrap() * LARGE_INPUT_PAGES * 4_096;
        wait_until("the pages are in the database", || length(&path) >= moved).await;
    }
    let pages = length(&log_of(&path)) / FRAME_BYTES;
    // Pages that are copied are not yet marked as copied, so on a busy machine a few commits may come before it starts again.
    assert!(pages < 6 * LARGE_INPUT_PAGES, "it did not start again: {pages} pages");
}

#[tokio::test]
async fn a_reader_in_an_old_snapshot_delays_checkpoints_and_stops_no_commit() {
    // F27: the log grows while the reader stays, and is copied once it has gone.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = unsynced(&path).await;
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM live").unwrap();
    let before = length(&path);
    for id in 1..=3 {
        submit_large(&mut coordinator, id).await;
    }
    assert_eq!(length(&path), before, "an old snapshot reads the old pages");
    assert!(length(&log_of(&path)) >= 3 * LARGE_INPUT_PAGES * FRAME_BYTES);
    reader.execute_batch("ROLLBACK").unwrap();
    submit_large(&mut coordinator, 4).await;
    wait_until("all is in the database", || length(&path) >= 4 * LARGE_INPUT_PAGES * 4_096).await;
}

#[tokio::test]
async fn a_log_with_space_ahead_holds_what_was_committed() {
    // S2-111: what follows the last commit in the log is no part of it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.submit(1).await.unwrap();
    let space = length(&log_of(&path)) / FRAME_BYTES;
    assert!(space > 100, "{space} pages for a commit of a few");
    coordinator.submit(2).await.unwrap();
    // A copy of the files, as a process that was killed leaves them.
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(log_of(&path), folder.path().join("copy.db-wal")).unwrap();
    let copied = TestCoordinator::open(&copy).await;
    for id in [1, 2] {
        assert!(copied.store.browse().find(&key(id)).await.unwrap().is_some(), "task {id}");
    }
}

/// Submits until the disk fails.
async fn submit_until_cut(
    coordinator: &mut TestCoordinator,
    ids: &mut impl Iterator<Item = u128>,
    acknowledged: &mut Vec<u128>,
) -> Step<()> {
    for id in ids {
        coordinator.submit_with(id, Policy::default(), with_input(100_000)).await?;
        acknowledged.push(id);
    }
    Ok(())
}

#[tokio::test]
async fn a_power_cut_during_a_checkpoint_loses_nothing() {
    // S2-111, W-4: the log is used again only after the database was synced.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let name = "cut-checkpoint";
    let disk = disk(name, 13);
    let clock = Arc::new(ManualClock::default());
    let mut ids = 1..;
    for _ in 0..10 {
        let options = on_disk(name, &clock, Durability::Full);
        let opened = TestCoordinator::open_with(&path, options.clone(), clock.clone()).await;
        let mut coordinator = opened.expect("a store opens after a power cut");
        let mut acknowledged = Vec::new();
        disk.cut_after(2_000 + disk.random(6_000));
        let stopped = submit_until_cut(&mut coordinator, &mut ids, &mut acknowledged).await;
        assert!(stopped.is_err() && disk.is_off(), "only the cut ends the work");
        drop(coordinator);
        disk.restart();
        let store = SqliteStore::open(&path, options).unwrap();
        for id in acknowledged {
            let found = store.browse().find(&key(id)).await.unwrap();
            assert!(found.is_some(), "task {id} was acknowledged");
        }
    }
    let store = SqliteStore::open(&path, on_disk(name, &clock, Durability::Full)).unwrap();
    let report = verify(store.browse()).await.unwrap();
    assert_eq!(report.findings, [], "what is left is whole");
}
