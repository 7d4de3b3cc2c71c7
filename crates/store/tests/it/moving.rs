//! A store moves from one engine to another unchanged; an incomplete copy is not a store.

mod limits;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::moving::{
    CopySource, CopyTarget, MoveFailure, Moved, Stage, StoreSummary, move_store, summarize,
};
use store::postgres::copy_source::PostgresCopySource;
use store::postgres::copy_target::{self as databases, PostgresCopyTarget};
use store::sqlite::copy_target::{self as files, SqliteCopyTarget};
use store::sqlite::{Options, SqliteStore};
use store::{
    Administration, ApiKey, Audit, AuditFilter, Browse, ClockAhead, Entry, FailureKind, LogsOf,
    PauseChange, PostgresStore, PreviousSecret, QueuePause, RowsAfter, ScanDepth, Seal, Store,
    SystemClock, TaskBundle, TaskKey, TaskWithSpec, TenantLimits, Writer,
};
use storetest::ManualClock;
use storetest::conformance::carry::carry;
use storetest::conformance::driver::{caller, key_of};
use storetest::conformance::logs::log;
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::runs::sample::sample;
use storetest::conformance::{Between, Call, CallResult, Driver, Fixture, Submission};
use tempfile::TempDir;
use verdict::{Answer, ClosedAttempt, Digest, Refusal, Scope, Span, TaskId};

use crate::differential::asks::{self, Generator};
use crate::differential::dice::Dice;
use crate::postgres::{Postgres, options as database_options};

/// Batches of a varied workload: hundreds of requests of every kind, granted and refused.
const BATCHES: usize = 60;

/// More tasks than one page of the copy.
const WAITING: u128 = 70;

/// Ids and leases above those of the generator.
const HIGH: u128 = 1 << 100;

struct AtPath(PathBuf);

impl Fixture for AtPath {
    type Store = SqliteStore;

    async fn open(&mut self, clock: Arc<ManualClock>) -> SqliteStore {
        SqliteStore::open(&self.0, Options::new(clock)).expect("the database opens")
    }
}

fn today() -> Options {
    Options::new(Arc::new(SystemClock::start())).with_ahead(ClockAhead::Accept)
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, today()).expect("the store opens")
}

/// A store with some rows of every kind, and one held lease.
async fn rich(path: &Path, seed: u64) -> TaskWithSpec {
    let mut driver = Driver::start(AtPath(path.to_owned()), Between::Nothing).await;
    let (mut dice, mut generator) = (Dice::new(seed), Generator::default());
    for _ in 0..BATCHES {
        driver.wait(asks::span(&mut dice));
        let now = driver.now();
        let asked: Vec<Call> = (0..=dice.below(4)).map(|_| generator.ask(&mut dice, now)).collect();
        let said = driver.ask_all(asked.clone()).await;
        asked.iter().zip(&said).for_each(|(ask, said)| generator.learn(ask, said));
    }
    let scope = Scope::new("acme", "moved");
    for n in 0..WAITING {
        let submission = Submission::new(TaskId::from_u128(HIGH + n), &scope, "moved");
        driver.submit(submission.with_key(&format!("m{n}"))).await;
    }
    let logged = TaskKey { scope: scope.clone(), id: TaskId::from_u128(HIGH) };
    log(&mut driver, &logged, 1, &["one", "two\nlines", &"x".repeat(8_150)]).await;
    sample(&mut driver, HIGH << 1).await;
    administer(&mut driver).await;
    driver.lease(&scope, "moved", 1).await.remove(0)
}

async fn administer(driver: &mut Driver<AtPath>) {
    let now = driver.now();
    let key = |id: &str| ApiKey {
        id: id.into(),
        scope: Scope::new("acme", "main"),
        roles: vec!["client".into(), "worker".into()],
        digest: Digest::of(&[id.as_bytes()]),
        created_at: now,
        name: Some("a key".into()),
        queues: Some(vec!["images".into()]),
        expires_at: Some(now.plus(Span::from_secs(60))),
        revoked_at: None,
        previous: Some(PreviousSecret { digest: Digest::of(&[b"old"]), until: now }),
        last_used_at: None,
    };
    let revoked = ApiKey { revoked_at: Some(now), queues: None, ..key("k2") };
    let limits = TenantLimits {
        tenant: "acme".into(),
        requests_per_second: Some(5),
        burst: None,
        unfinished_runs: Some(1_000),
        changed_at: now,
    };
    let pause = QueuePause {
        scope: Scope::new("acme", "main"),
        queue: "images".into(),
        at: now,
        by: "k1".into(),
        reason: Some("moving".into()),
    };
    let record = |n: u8| Audit {
        at: now,
        scope: Scope::new("acme", "main"),
        actor: "k1".into(),
        action: "key.created".into(),
        object: format!("k{n}").into(),
        code: n.is_multiple_of(3).then(|| "forbidden".into()),
        times: u32::from(n) + 1,
        before: None,
        after: Some(Digest::of(&[&[n]])),
        request: Some("req_1".into()),
        seal: Some(Seal([n; Seal::BYTES])),
    };
    let act = Administration {
        keys: vec![key("k1"), revoked],
        limits: vec![limits],
        pauses: vec![PauseChange::Pause(pause)],
        uses: vec![("k1".into(), now)],
        audit: (0..7).map(record).collect(),
        ..Administration::default()
    };
    driver.writer().administer(&act).await.expect("the act is written");
}

async fn everything<B: Browse>(browse: &B) -> Vec<TaskBundle> {
    let mut all: Vec<TaskBundle> = Vec::new();
    loop {
        let after = all.last().map(|bundle| bundle.task.key().id);
        let page =
            browse.scan(after, usize::MAX, ScanDepth::AllRows).await.expect("the store answers");
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

async fn summary<S: Store>(store: &S) -> StoreSummary {
    summarize(store.browse(), verdict::Time::from_millis(0)).await.expect("the store answers")
}

async fn carry_into<D: CopySource, A: CopyTarget>(
    from: &D,
    target: A,
) -> Result<Moved, MoveFailure> {
    move_store(from, target, &mut |_| {}).await
}

async fn into_database(from: &SqliteStore, url: &str) -> Result<Moved, MoveFailure> {
    carry_into(from, PostgresCopyTarget::begin(url, "there", "a file").await?).await
}

async fn database(fixture: &Postgres) -> PostgresStore {
    PostgresStore::open(fixture.url(), database_options(None)).await.expect("it opens")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_moves_to_a_database_and_back_unchanged() {
    // S3-24, S2-104, S2-106: every row of every table is copied, twice; each move begins a new epoch.
    let folder = TempDir::new().unwrap();
    let (first, last) = (folder.path().join("first.db"), folder.path().join("last.db"));
    rich(&first, 11).await;
    let from = open(&first);
    let there = Postgres::new();
    let mut stages = Vec::new();
    let target = PostgresCopyTarget::begin(there.url(), "there", "a file").await.unwrap();
    let moved = move_store(&from, target, &mut |stage| stages.push(stage)).await.unwrap();
    let tasks = moved.summary.tasks();
    assert!(stages.contains(&Stage::Copying(tasks)) && stages.contains(&Stage::Comparing(tasks)));
    assert!(tasks > u64::try_from(WAITING).unwrap() && moved.summary.ended > 3, "{moved:?}");
    assert!(moved.summary.refusals > 3 && moved.summary.attempts > 3, "{moved:?}");
    assert_eq!((moved.summary.api_keys, moved.summary.limits, moved.summary.records), (2, 1, 7));
    assert_eq!((moved.summary.pauses, moved.summary.logs), (1, 2));
    assert!(moved.summary.keys >= u64::try_from(WAITING).unwrap(), "{moved:?}");

    let middle = database(&there).await;
    assert!(middle.status().epoch == moved.epoch && moved.epoch > from.status().epoch);
    assert_eq!(everything(from.browse()).await, everything(middle.browse()).await);
    let target = SqliteCopyTarget::begin(&last, &today()).unwrap();
    let left = PostgresCopySource::begin(there.url(), "there").await.unwrap();
    let back = carry_into(&left, target).await.unwrap();
    assert!(back.epoch > moved.epoch);

    let to = open(&last);
    assert_eq!(to.status().epoch, back.epoch);
    assert_eq!(everything(from.browse()).await, everything(to.browse()).await);
    let (ours, theirs) = (from.browse(), to.browse());
    let (kept, copied) =
        (ours.administration().await.unwrap(), theirs.administration().await.unwrap());
    assert_eq!((kept.api_keys, kept.tenant_limits), (copied.api_keys, copied.tenant_limits));
    assert_eq!(ours.paused_queues().await.unwrap(), theirs.paused_queues().await.unwrap());
    let all = LogsOf::All { after: None };
    assert_eq!(ours.logs(&all, 9).await.unwrap(), theirs.logs(&all, 9).await.unwrap());
    let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
    assert_eq!(ours.audit(&filter).await.unwrap(), theirs.audit(&filter).await.unwrap());
    assert_eq!(summary(&from).await, summary(&to).await);
    assert_eq!(summary(&from).await, summary(&middle).await);
}

/// So many attempts that the task is not read in one piece.
const LONG: u32 = 200;

/// A task that was lost and failed repeatedly, between two short ones.
async fn long_history(path: &Path) -> TaskKey {
    let mut driver = Driver::start(AtPath(path.to_owned()), Between::Nothing).await;
    let scope = Scope::default();
    driver.add(&scope, "short").await;
    let mut submission = driver.submission(&scope, "long");
    submission.submit.policy.failures_max = LONG + 1;
    submission.submit.policy.retry_base = Span::ZERO;
    submission.submit.policy.retry_cap = Span::ZERO;
    let key = submission.task_key();
    driver.submit(submission.with_key("long")).await;
    for _ in 0..LONG {
        let leased = driver.lease(&scope, "long", 1).await;
        driver.about(&key, report(&caller(&leased[0]), failed())).await;
    }
    let leased = driver.lease(&scope, "long", 1).await;
    driver.about(&key, report(&caller(&leased[0]), succeeded())).await;
    driver.add(&scope, "short").await;
    key
}

fn failed() -> verdict::request::Outcome {
    verdict::request::Outcome::Failed(verdict::Fault {
        category: verdict::Category::UserCode,
        message: "it broke".into(),
        stack_trace: Some("at line 1\n".repeat(30).into()),
        retryable: None,
    })
}

/// All entries and attempts of a task, page by page.
async fn history_of<B: Browse>(browse: &B, key: &TaskKey) -> (Vec<Entry>, Vec<ClosedAttempt>) {
    let (mut entries, mut attempts): (Vec<Entry>, Vec<ClosedAttempt>) = (Vec::new(), Vec::new());
    loop {
        let after = entries.last().map_or(0, |entry| entry.n);
        let page = browse
            .rows(key, RowsAfter::Entry(after), 100)
            .await
            .expect("the store answers")
            .history;
        let closed = attempts.last().map_or(0, |closed| closed.attempt);
        attempts.extend(
            browse
                .rows(key, RowsAfter::Attempt(closed), 100)
                .await
                .expect("the store answers")
                .attempts,
        );
        if page.is_empty() {
            return (entries, attempts);
        }
        entries.extend(page);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_with_a_very_long_history_moves_in_parts() {
    // S2-106: memory holds one page, and every decision and attempt is copied.
    let folder = TempDir::new().unwrap();
    let (first, last) = (folder.path().join("first.db"), folder.path().join("last.db"));
    let key = long_history(&first).await;
    let from = open(&first);
    let alone = everything(from.browse()).await;
    let without_rows: Vec<bool> = alone.iter().map(|bundle| bundle.rows.is_none()).collect();
    assert_eq!(without_rows, [false, true, false], "the long one is not read whole");
    let there = Postgres::new();
    let moved = into_database(&from, there.url()).await.unwrap();
    assert_eq!((moved.summary.attempts, moved.summary.decisions), (201, 405));
    let left = PostgresCopySource::begin(there.url(), "there").await.unwrap();
    carry_into(&left, SqliteCopyTarget::begin(&last, &today()).unwrap()).await.unwrap();
    let (middle, to) = (database(&there).await, open(&last));
    let story_of = history_of(from.browse(), &key).await;
    assert_eq!((story_of.0.len(), story_of.1.len()), (403, 201));
    assert_eq!(history_of(middle.browse(), &key).await, story_of);
    assert_eq!(history_of(to.browse(), &key).await, story_of);
    assert_eq!(everything(to.browse()).await, alone);
    assert_eq!(summary(&from).await, summary(&to).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_from_before_a_move_is_cancelled_and_its_task_goes_on() {
    // S3-24: the old store may still exist, so no earlier lease counts in the new one.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("first.db");
    let leased = rich(&path, 12).await;
    let there = Postgres::new();
    into_database(&open(&path), there.url()).await.unwrap();
    let store = database(&there).await;
    let mut writer = store.writer().await.unwrap();
    let request = report(&caller(&leased), succeeded());
    let ask = Call::About { key: key_of(&leased), request };
    let mut batch = writer.begin().await.unwrap();
    let said = carry(&mut batch, store.status().epoch, ask).await.unwrap();
    let CallResult::Answer(Answer::Refused(refusal)) = said else { panic!("{said:?}") };
    assert!(matches!(refusal, Refusal::TaskExpired { .. }), "{refusal:?}");
    assert_eq!(refusal.worker_verdict(), verdict::WorkerVerdict::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_moved_over_something() {
    // S2-104: neither a file nor a store that holds a single key is overwritten.
    let folder = TempDir::new().unwrap();
    let (first, other) = (folder.path().join("first.db"), folder.path().join("other.db"));
    rich(&first, 13).await;
    let there = Postgres::new();
    into_database(&open(&first), there.url()).await.unwrap();
    rich(&other, 14).await;
    let refused = into_database(&open(&other), there.url()).await.unwrap_err();
    assert!(matches!(refused, MoveFailure::Occupied { .. }), "{refused:?}");
    let refused = SqliteCopyTarget::begin(&first, &today()).err().unwrap();
    assert!(matches!(refused, MoveFailure::Occupied { .. }), "{refused:?}");
    assert_eq!(summary(&database(&there).await).await, summary(&open(&first)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_cut_short_is_no_store() {
    // S2-104, S3-24: an incomplete store is recognised on opening, and is removed only on request.
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("first.db");
    rich(&path, 15).await;
    let (from, there) = (open(&path), Postgres::new());
    let target = PostgresCopyTarget::begin(there.url(), "there", "a file").await.unwrap();
    target.store().writer().await.unwrap();
    drop(target);
    let refused = PostgresStore::open(there.url(), database_options(None)).await.err().unwrap();
    assert_eq!(refused.kind, FailureKind::Unfinished);
    let refused = into_database(&from, there.url()).await.unwrap_err();
    assert!(matches!(refused, MoveFailure::Interrupted { .. }), "{refused:?}");
    databases::discard(there.url()).await.unwrap();
    into_database(&from, there.url()).await.unwrap();
    // A complete store is not discarded.
    databases::discard(there.url()).await.unwrap();
    assert_eq!(summary(&database(&there).await).await, summary(&from).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_gets_its_name_when_it_is_whole() {
    // S2-104: a failed copy leaves nothing; the leftover of a killed process is recognised.
    let folder = TempDir::new().unwrap();
    let (path, last) = (folder.path().join("first.db"), folder.path().join("last.db"));
    rich(&path, 16).await;
    drop(SqliteCopyTarget::begin(&last, &today()).unwrap());
    files::inspect(&last).unwrap();
    // Leaked, as by a process that was killed.
    let target = SqliteCopyTarget::begin(&last, &today()).unwrap();
    let refused = files::discard(&last, &today()).unwrap_err();
    assert!(matches!(refused, MoveFailure::Destination(_)), "somebody is copying: {refused:?}");
    drop(target);
    std::fs::write(folder.path().join("last.db.arriving"), b"").unwrap();
    let refused = SqliteCopyTarget::begin(&last, &today()).err().unwrap();
    assert!(matches!(refused, MoveFailure::Interrupted { .. }), "{refused:?}");
    let refused = SqliteStore::open(&last, today()).err().expect("no server makes a store there");
    assert_eq!(refused.kind, FailureKind::Unfinished, "{refused:?}");
    files::discard(&last, &today()).unwrap();
    let from = open(&path);
    carry_into(&from, SqliteCopyTarget::begin(&last, &today()).unwrap()).await.unwrap();
    assert_eq!(summary(&open(&last)).await, summary(&from).await);
    let mut left: Vec<_> =
        folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.retain(|name| name.to_string_lossy().contains("arriving"));
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_on_the_way_is_noticed() {
    // S2-104, R-32: a lost key, and a missing attempt.
    for lose in ["DELETE FROM keys", "DROP TRIGGER attempts_no_delete; DELETE FROM attempts"] {
        let folder = TempDir::new().unwrap();
        let (path, last) = (folder.path().join("first.db"), folder.path().join("last.db"));
        rich(&path, 17).await;
        let from = open(&path);
        let tasks = summary(&from).await.tasks();
        let target = SqliteCopyTarget::begin(&last, &today()).unwrap();
        let draft = folder.path().join("last.db.arriving");
        let mut watch = |stage| {
            if stage == Stage::Copying(tasks) {
                let thief = rusqlite::Connection::open(&draft).unwrap();
                thief.execute_batch(lose).unwrap();
            }
        };
        let differs = move_store(&from, target, &mut watch).await.unwrap_err();
        assert!(matches!(differs, MoveFailure::Differs(_)), "{lose}: {differs:?}");
        assert!(!last.exists() && !draft.exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_changes_while_it_is_copied_is_not_moved() {
    // S3-24: a commit to the old store during the move would be lost.
    let folder = TempDir::new().unwrap();
    let (path, last) = (folder.path().join("first.db"), folder.path().join("last.db"));
    rich(&path, 18).await;
    let there = Postgres::new();
    into_database(&open(&path), there.url()).await.unwrap();
    let left = PostgresCopySource::begin(there.url(), "there").await.unwrap();
    let middle = database(&there).await;
    drop(middle.writer().await.unwrap());
    let target = SqliteCopyTarget::begin(&last, &today()).unwrap();
    let refused = carry_into(&left, target).await.unwrap_err();
    assert!(matches!(refused, MoveFailure::InUse { .. } | MoveFailure::Changed), "{refused:?}");
    assert!(!last.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_served_is_left_alone() {
    // S3-24: a database in use is neither copied nor given a new epoch until its coordinators have stopped.
    let there = Postgres::new();
    let store = database(&there).await;
    let writer = store.writer().await.unwrap();
    let refused = databases::refuse_served(there.url(), "there").await.unwrap_err();
    assert!(matches!(refused, MoveFailure::InUse { .. }), "{refused:?}");
    let refused = databases::raise_epoch(there.url(), "there").await.unwrap_err();
    assert!(matches!(refused, MoveFailure::InUse { .. }), "{refused:?}");
    let refused = PostgresCopyTarget::begin(there.url(), "there", "a file").await.err().unwrap();
    assert!(matches!(refused, MoveFailure::InUse { .. }), "{refused:?}");
    drop(writer);
    // A background task records that a coordinator has left.
    let mut raised = databases::raise_epoch(there.url(), "there").await;
    while matches!(raised, Err(MoveFailure::InUse { .. })) {
        tokio::task::yield_now().await;
        raised = databases::raise_epoch(there.url(), "there").await;
    }
    let (before, after) = raised.expect("nobody works on it any more");
    assert!(before == store.status().epoch && after > before);
    assert_eq!(database(&there).await.status().epoch, after);
}
