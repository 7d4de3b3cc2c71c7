//! `verify` detects changed rows of durable runs.

use std::path::PathBuf;
use std::sync::Arc;

use store::Store;
use store::sqlite::{Options, SqliteStore};
use store::verify::verify;
use storetest::ManualClock;
use storetest::conformance::runs::sample::sample;
use storetest::conformance::{Between, Driver, Fixture};

use super::tampering::{copy, tamper, verified};

struct AtPath(PathBuf);

impl Fixture for AtPath {
    type Store = SqliteStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> SqliteStore {
        SqliteStore::open(&self.0, Options::new(clock)).expect("the database opens")
    }
}

/// Ways to tamper, each with a word that the finding must contain.
const TAMPERINGS: [(&str, &str); 29] = [
    ("UPDATE checkpoints SET result = '2' WHERE key = 'long'", "checkpoint 1"),
    ("UPDATE checkpoints SET result = '3' WHERE key = 'b'", "checkpoint 2"),
    ("UPDATE checkpoints SET result = NULL WHERE key = 'b'", "checkpoint 2"),
    ("UPDATE checkpoints SET digest = zeroblob(32) WHERE key = 'a'", "checkpoint 1"),
    ("UPDATE checkpoints SET at = at + 1 WHERE key = 'b'", "checkpoint 2"),
    ("UPDATE checkpoints SET number = 9 WHERE key = 'b'", "checkpoint 9"),
    ("DELETE FROM checkpoints WHERE key = 'b'", "2 checkpoints and 1 are stored"),
    ("UPDATE children SET ended = 'failed' WHERE key = 'sample 01'", "child sample 01"),
    ("UPDATE children SET ended = 'succeeded' WHERE key = 'sample 03'", "child sample 03"),
    ("UPDATE children SET child = randomblob(16) WHERE key = 'sample 03'", "child sample 03"),
    ("DELETE FROM children WHERE key = 'sample 04'", "20 children and 19 are stored"),
    ("UPDATE missing_upstreams SET missing = 1 WHERE key = 'join'", "step join"),
    (
        "UPDATE missing_upstreams SET blame = '{\"key\":\"w0000\",\"state\":\"failed\"}' WHERE key = 'join'",
        "step join",
    ),
    ("DELETE FROM steps WHERE key = 'join'", "272 steps and 271 are stored"),
    (
        "UPDATE steps SET step = json_set(step, '$.child.submit.kind', 'k') WHERE key = 'source'",
        "decide history entry 1 differently",
    ),
    ("DELETE FROM edges WHERE upstream = 'w0000'", "edges are not those of their plan"),
    ("UPDATE edges SET upstream = 'w9999' WHERE upstream = 'w0000'", "join no steps"),
    ("UPDATE signals SET taken = 1 WHERE number = 2", "signal 2"),
    ("UPDATE signals SET taken = 0 WHERE number = 1", "signal 1"),
    ("UPDATE signals SET payload = '1' WHERE number = 2", "signal 2"),
    ("DELETE FROM signals WHERE number = 1", "2 signals and 1 are stored"),
    ("DELETE FROM messages WHERE spec IS NOT NULL", "does not exist"),
    ("DELETE FROM messages WHERE spec IS NULL", "was not told"),
    ("UPDATE live SET run = json_set(run, '$.steps', 7) WHERE waiting LIKE '%join%'", "in run"),
    (
        "UPDATE live SET waiting = json_set(waiting, '$.for.missing', 1) WHERE waiting LIKE '%join%'",
        "in waiting",
    ),
    ("UPDATE waits SET items = json_remove(items, '$[3]')", "in waiting"),
    (
        "UPDATE done SET run = json_set(run, '$.checkpoints', 7) WHERE run LIKE '%savepoint%'",
        "in run",
    ),
    ("UPDATE inputs SET root = randomblob(16) WHERE root IS NOT NULL", "no run"),
    ("UPDATE inputs SET root = NULL WHERE root IS NOT NULL", "a parent in one table"),
];

#[tokio::test]
async fn every_tampering_with_a_durable_run_is_found() {
    // S2-111: a record changed by anything but a decision contradicts the history.
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("tenure.db");
    let mut driver = Driver::start(AtPath(original.clone()), Between::Nothing).await;
    sample(&mut driver, 1 << 64).await;
    let report = verify(driver.store().browse()).await.unwrap();
    assert_eq!((report.findings.as_slice(), report.tasks), (&[][..], 273));
    drop(driver);
    for (n, (sql, word)) in TAMPERINGS.into_iter().enumerate() {
        let path = copy(&original, &format!("run{n}.db"));
        tamper(&path, sql);
        let report = verified(&path).await;
        let said: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|line| line.contains(word)), "{sql}: {said:?}");
    }
}
