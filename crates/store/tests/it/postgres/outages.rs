//! The database stops, terminates all sessions, or is too slow: acknowledged tasks are there, other calls failed
//! with an error, and the same store continues without being reopened.

use std::time::Duration;

use pgserver::{Server, SmallVolume, Stop};
use store::{Batch, CommitFailure, Failure, FailureKind, PostgresStore, Store, Writer, verify};
use storetest::conformance::Submission;
use storetest::conformance::carry::{Call, CallResult, carry};
use tokio_postgres::Client;
use verdict::{Digest, Scope, TaskId};

use super::options;
use super::private::client;

/// Far more tries than a slow machine needs; without a limit a failing test would hang.
const TRIES_MAX: usize = 600;

fn scope() -> Scope {
    Scope::new("acme", "main")
}

/// Submits one task in a separate batch.
async fn submit<W: Writer>(writer: &mut W, n: u128) -> Result<(), Failure> {
    submit_with(writer, n, "{}".to_owned()).await
}

async fn submit_with<W: Writer>(writer: &mut W, n: u128, input: String) -> Result<(), Failure> {
    let mut batch = writer.begin().await?;
    let mut submission = Submission::new(TaskId::from_u128(n), &scope(), "q");
    submission.submit.input = Digest::of(&[input.as_bytes()]);
    submission.spec.input = input.into();
    let said = carry(&mut batch, 1, Call::Submit(submission)).await?;
    assert!(matches!(said, CallResult::Answer(verdict::Answer::Accepted { .. })), "{said:?}");
    batch.commit().await.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => failure,
    })
}

/// Submits until it is acknowledged. Returns the failures until then.
async fn submit_at_last<W: Writer>(writer: &mut W, n: u128) -> Vec<FailureKind> {
    let mut refusals = Vec::new();
    while let Err(failure) = submit(writer, n).await {
        assert!(failure.is_retryable(), "{failure:?}");
        refusals.push(failure.kind);
        assert!(refusals.len() < TRIES_MAX, "{failure:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    refusals
}

async fn open(server: &Server) -> PostgresStore {
    PostgresStore::open(&server.conninfo("postgres"), options(None)).await.unwrap()
}

async fn count(store: &PostgresStore) -> u64 {
    let report = verify::verify(store.browse()).await.unwrap();
    assert!(report.findings.is_empty(), "{report:?}");
    report.tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_database_loses_nothing_acknowledged() {
    // F37, S2-104: killed as by a crash and stopped as by an administrator; the same store continues.
    let server = Server::builder().start().unwrap();
    let store = open(&server).await;
    let mut writer = store.writer().await.unwrap();
    let mut acknowledged = 0;
    for (round, mode) in [Stop::Immediate, Stop::Fast, Stop::Immediate].into_iter().enumerate() {
        for _ in 0..5 {
            acknowledged += 1;
            submit_at_last(&mut writer, acknowledged).await;
        }
        server.stop(mode).unwrap();
        let down = submit(&mut writer, 1_000 + round as u128).await.unwrap_err();
        assert_eq!(down.kind, FailureKind::Unavailable, "{down:?}");
        server.start().unwrap();
    }
    acknowledged += 1;
    submit_at_last(&mut writer, acknowledged).await;
    assert_eq!(u128::from(count(&store).await), acknowledged);
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_sessions_are_replaced() {
    // F37: every session is terminated, repeatedly, also in the middle of batches.
    let server = Server::builder().without_fsync().start().unwrap();
    let store = open(&server).await;
    let admin = client(&server).await;
    let mut writer = store.writer().await.unwrap();
    for n in 1..=20 {
        let terminate = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity \
            WHERE application_name LIKE 'tenure %'";
        let ending = admin.batch_execute(terminate);
        let (_, ended) = tokio::join!(submit_at_last(&mut writer, n), ending);
        ended.unwrap();
    }
    assert_eq!(count(&store).await, 20);
}

/// Waits until a session of the store waits for a lock, and cancels its statement.
async fn cancel_who_waits(admin: &Client) {
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
        WHERE application_name LIKE 'tenure %' AND wait_event_type = 'Lock'";
    while admin.query(cancel, &[]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_is_refused_and_the_next_is_not() {
    // F44, S2-104: cancelled by the server, as by statement_timeout; and a lock that is not granted.
    let server = Server::builder().without_fsync().start().unwrap();
    let store = open(&server).await;
    let (admin, other) = (client(&server).await, client(&server).await);
    let mut writer = store.writer().await.unwrap();
    submit(&mut writer, 1).await.unwrap();
    other.batch_execute("BEGIN; LOCK TABLE tenure.inputs IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let (refused, ()) = tokio::join!(submit(&mut writer, 2), cancel_who_waits(&admin));
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, FailureKind::Unavailable, "{refused:?}");
    let refused = submit(&mut writer, 2).await.unwrap_err();
    assert!(matches!(refused.kind, FailureKind::Conflict(_)), "{refused:?}");
    other.batch_execute("ROLLBACK").await.unwrap();
    submit_at_last(&mut writer, 2).await;
    assert_eq!(count(&store).await, 2);
}

/// Large, and close to random, so that the database cannot compress it.
fn large_input(n: u128) -> String {
    let line = |i: u32| Digest::of(&[&n.to_be_bytes(), &i.to_be_bytes()]).to_string();
    format!("\"{}\"", (0..2_000).map(line).collect::<String>())
}

/// Room for an empty database and some dozens of the inputs above.
const VOLUME_BYTES: usize = 64 << 20;
/// Space that the test frees when it needs some.
const BALLAST_BYTES: usize = 12 << 20;
/// Far more than fit.
const SUBMISSIONS_MAX: u128 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_volume_refuses_and_serves_again_when_there_is_room() {
    // S2-104: a task that does not fit is refused with that reason, acknowledged ones stay, and no reopening is needed.
    let volume = SmallVolume::mount(VOLUME_BYTES).unwrap();
    let server = Server::builder().on_volume(&volume.path()).start().unwrap();
    volume.lay_ballast(BALLAST_BYTES).unwrap();
    let store = open(&server).await;
    let mut writer = store.writer().await.unwrap();
    let mut acknowledged = 0;
    let refused = loop {
        assert!(acknowledged < SUBMISSIONS_MAX, "the volume is never full");
        match submit_with(&mut writer, acknowledged + 1, large_input(acknowledged)).await {
            Ok(()) => acknowledged += 1,
            Err(failure) => break failure,
        }
    };
    assert_eq!(refused.kind, FailureKind::Full, "{refused:?}");
    assert!(acknowledged > 0);
    volume.drop_ballast().unwrap();
    submit_with(&mut writer, acknowledged + 1, large_input(acknowledged)).await.unwrap();
    assert_eq!(u128::from(count(&store).await), acknowledged + 1);
}
