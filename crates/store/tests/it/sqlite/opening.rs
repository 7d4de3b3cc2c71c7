//! Which processes may open a file, and which files can be opened.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rusqlite::Connection;
use store::sqlite::SqliteStore;
use store::{Browse, Clock, ClockAhead, Failure, FailureKind, RowsAfter, Store};
use storetest::ManualClock;
use verdict::{Rules, Span, SupportedRules};

use super::test_coordinator::{TestCoordinator, key, options};

/// Set for the second process of the test below: the file that it must not be able to open.
const SECOND_OPENER: &str = "TENURE_TEST_SECOND_OPENER";

fn open(path: &Path) -> Result<SqliteStore, Failure> {
    SqliteStore::open(path, options(&Arc::new(ManualClock::default())))
}

fn refusal(path: &Path) -> String {
    refusal_of_kind(path, FailureKind::Closed)
}

fn refusal_of_kind(path: &Path, kind: FailureKind) -> String {
    let failure = open(path).map(drop).expect_err("this file is not to be opened");
    assert_eq!(failure.kind, kind);
    failure.to_string()
}

#[test]
fn a_second_opener_is_refused_with_the_owners_process() {
    // S2-111: two coordinators on one file could both decide; only one may open it.
    if let Ok(path) = std::env::var(SECOND_OPENER) {
        println!("{}", refusal_of_kind(Path::new(&path), FailureKind::InUse));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let first = open(&path).unwrap();
    let pid = format!("already open in process {}", std::process::id());
    let refusal = |path: &Path| refusal_of_kind(path, FailureKind::InUse);
    assert!(refusal(&path).contains(&pid), "in the same process");

    let crooked = folder.path().join(".").join("tenure.db");
    assert!(refusal(&crooked).contains(&pid), "by another spelling of the path");

    let me = std::env::current_exe().unwrap();
    let test = "sqlite::opening::a_second_opener_is_refused_with_the_owners_process";
    let second = Command::new(me)
        .args(["--exact", test, "--nocapture"])
        .env(SECOND_OPENER, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stdout).into_owned();
    assert!(second.status.success() && said.contains(&pid), "in another process: {said}");

    drop(first);
    open(&path).expect("the file is free again");
}

#[tokio::test]
async fn there_is_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = TestCoordinator::open(&folder.path().join("tenure.db")).await;
    let second = coordinator.store.writer().await.map(drop).unwrap_err();
    assert_eq!(second.kind, FailureKind::Closed);
    let store = coordinator.store.clone();
    drop(coordinator);
    store.writer().await.expect("the writer is free again");
}

#[tokio::test]
async fn nobody_else_reads_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep").join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.submit(1).await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_file_name("tenure.db-wal")), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[test]
fn a_database_of_a_newer_tenure_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    drop(open(&path).unwrap());
    let raw = Connection::open(&path).unwrap();
    raw.execute(
        "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
         VALUES (2, 'later', '2030-01-01T00:00:00Z', '1')",
        [],
    )
    .unwrap();
    drop(raw);
    let said = refusal(&path);
    assert!(said.contains("format 2") && said.contains("newer Tenure"), "{said}");
}

#[test]
fn a_database_of_another_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(raw);
    assert!(refusal(&path).contains("another program"));
    let raw = Connection::open(&path).unwrap();
    let tables: i64 =
        raw.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1, "and it is left as it was");

    let path = folder.path().join("letter.txt");
    std::fs::write(&path, "Dear reader, this is not a database at all. ".repeat(100)).unwrap();
    assert!(refusal(&path).contains("not a database"));
}

#[tokio::test]
async fn a_clock_far_behind_the_store_is_refused_unless_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.clock.advance(Span::from_secs(2 * 60 * 60));
    coordinator.submit(1).await.unwrap();
    let written = coordinator.store.now();
    drop(coordinator);

    assert!(refusal(&path).contains("--accept-clock"));
    let clock = Arc::new(ManualClock::default());
    let accepting = options(&clock).with_ahead(ClockAhead::Accept);
    let store = SqliteStore::open(&path, accepting).unwrap();
    assert!(clock.wall() < written && store.now() >= written, "time never runs backwards");
    assert!(store.browse().find(&key(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn opening_leaves_no_log_behind() {
    // What the store shows after opening is in the file itself, not only in a log that was just recovered.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.submit(1).await.unwrap();
    // A copy of the files as a crash would leave them.
    let copy = folder.path().join("copy.db");
    for suffix in ["", "-wal"] {
        let from = folder.path().join(format!("tenure.db{suffix}"));
        std::fs::copy(from, folder.path().join(format!("copy.db{suffix}"))).unwrap();
    }
    let log = folder.path().join("copy.db-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 0, "the log has something to recover");
    let store = open(&copy).unwrap();
    assert_eq!(std::fs::metadata(&log).map_or(0, |log| log.len()), 0);
    assert!(store.browse().find(&key(1)).await.unwrap().is_some());
}

/// The checksum of another text of the first step, as an unreleased build would have left it.
fn rewrite_first_step(path: &Path) {
    let raw = Connection::open(path).unwrap();
    raw.execute("UPDATE refinery_schema_history SET checksum = '7' WHERE version = 1", []).unwrap();
}

#[tokio::test]
async fn a_file_of_an_unreleased_build_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.submit(1).await.unwrap();
    drop(coordinator);
    rewrite_first_step(&path);
    let before = std::fs::read(&path).unwrap();
    let said = refusal(&path);
    assert!(said.contains("unreleased build") && said.contains("new store"), "{said}");
    assert!(std::fs::read(&path).unwrap() == before, "nothing was written");
}

#[tokio::test]
async fn an_upgrade_migrates_a_file_and_the_older_build_refuses_it_then() {
    // S2-114: what was recorded before is intact, and goes on.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let clock = Arc::new(ManualClock::default());
    let mut coordinator =
        TestCoordinator::open_with(&path, options(&clock), clock.clone()).await.unwrap();
    coordinator.submit(1).await.unwrap();
    drop(coordinator);
    let next = options(&clock).with_planted_schema().with_rules(SupportedRules::NEXT);
    let mut coordinator = TestCoordinator::open_with(&path, next, clock.clone()).await.unwrap();
    let ready = coordinator.grant().await.unwrap().expect("the task still waits");
    coordinator.succeed(&ready, "\"late\"").await.unwrap();
    let report = store::verify::verify(coordinator.store.browse()).await.unwrap();
    assert_eq!((report.findings, report.tasks), (vec![], 1));
    let raw = Connection::open(&path).unwrap();
    raw.query_row("SELECT planted FROM inputs", [], |row| row.get::<_, Option<String>>(0)).unwrap();
    assert!(raw.execute("UPDATE meta SET rules = 1", []).is_err(), "rules never go back");
    drop((coordinator, raw));
    let said = refusal(&path);
    assert!(said.contains("has format 2") && said.contains("newer Tenure"), "{said}");
}

#[tokio::test]
async fn the_database_refuses_to_change_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let mut coordinator = TestCoordinator::open(&path).await;
    coordinator.submit(1).await.unwrap();
    let ready = coordinator.grant().await.unwrap().expect("it waits");
    coordinator.succeed(&ready, "1").await.unwrap();
    let raw = Connection::open(&path).unwrap();
    for sql in ["DELETE FROM done", "UPDATE attempts SET owner = 'mallory'", "DELETE FROM attempts"]
    {
        assert!(raw.execute(sql, []).is_err(), "{sql}");
    }
}

#[tokio::test]
async fn a_file_is_decided_by_the_newest_rules_of_whoever_opens_it_and_never_by_older_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.db");
    let clock = Arc::new(ManualClock::default());
    let first = SupportedRules::only(Rules::V1, Rules::V1);
    let older = || options(&clock).with_rules(first);
    let mut coordinator = TestCoordinator::open_with(&path, older(), clock.clone()).await.unwrap();
    coordinator.submit(1).await.unwrap();
    assert_eq!(coordinator.store.status().rules, 1);
    drop(coordinator);
    let newer = options(&clock).with_rules(SupportedRules::NEXT);
    let mut coordinator = TestCoordinator::open_with(&path, newer, clock.clone()).await.unwrap();
    coordinator.grant().await.unwrap().expect("it waits");
    let history =
        coordinator.store.browse().rows(&key(1), RowsAfter::Entry(0), 10).await.unwrap().history;
    assert_eq!(
        history.iter().map(|entry| entry.rules).collect::<Vec<_>>(),
        [1, Rules::Planted.number()]
    );
    assert_eq!(store::verify::verify(coordinator.store.browse()).await.unwrap().findings, []);
    drop(coordinator);
    let refused = SqliteStore::open(&path, older()).map(drop).unwrap_err();
    assert_eq!(refused.kind, FailureKind::UnknownRules);
    assert!(refused.to_string().contains("this Tenure knows 1; start the newer"), "{refused}");
}
