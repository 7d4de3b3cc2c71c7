//! What the database refuses from any connection, here from one that bypasses the store.

use rusqlite::Connection;
use storetest::conformance::driver::caller;
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::{Between, Driver};
use verdict::transition::TABLE;
use verdict::{Scope, State};

use crate::conformance::Sqlite;

/// A store with a waiting, a running, a retrying and an ended task, and a connection that bypasses it.
async fn furnished() -> (Driver<Sqlite>, Connection) {
    let fixture = Sqlite::new();
    let path = fixture.path();
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let scope = Scope::new("acme", "main");
    let ended = driver.submission(&scope, "ended");
    let key = ended.task_key();
    driver.submit(ended).await;
    let leased = driver.lease(&scope, "ended", 1).await;
    driver.about(&key, report(&caller(&leased[0]), succeeded())).await;
    driver.add(&scope, "running").await;
    assert_eq!(driver.lease(&scope, "running", 1).await.len(), 1);
    driver.add(&scope, "waiting").await;
    (driver, Connection::open(path).unwrap())
}

fn refuses(connection: &Connection, sql: &str) {
    let refused = connection.execute_batch(sql).expect_err(sql);
    let code = refused.sqlite_error_code();
    assert_eq!(code, Some(rusqlite::ErrorCode::ConstraintViolation), "{sql}: {refused}");
}

/// The row of the task that waits in this queue or is leased from it.
fn of(queue: &str) -> String {
    format!("lane = (SELECT lane FROM lanes WHERE queue = '{queue}')")
}

/// What a row has in a state: the checks of the table ask for it, so that only the change itself can be wrong.
fn as_it_would_be(state: State) -> &'static str {
    match state {
        State::Running => {
            "claimable_at = NULL, waiting = NULL, lease = x'00', owner = 'w', fence = 1, expires_at = 1"
        }
        State::Waiting | State::Blocked => {
            "claimable_at = NULL, waiting = '{}', lease = NULL, owner = NULL, fence = NULL, expires_at = NULL"
        }
        _ => {
            "claimable_at = 1, waiting = NULL, lease = NULL, owner = NULL, fence = NULL, expires_at = NULL"
        }
    }
}

#[tokio::test]
async fn no_connection_changes_a_state_against_the_rules() {
    // Proves: S2-108: the default store has the constraint that the database of several coordinators has. W-9: the same.
    let (_driver, connection) = furnished().await;
    let is_listed = |from, to| TABLE.iter().any(|row| row.from == Some(from) && row.to == to);
    let mut refused = 0;
    for (queue, from) in [("waiting", State::Queued), ("running", State::Running)] {
        for to in State::ALL.into_iter().filter(|to| *to != from && !is_listed(from, *to)) {
            let (row, rest, to) = (of(queue), as_it_would_be(to), to.name());
            let set = format!("state = '{to}', revision = revision + 1, {rest}");
            refuses(&connection, &format!("UPDATE live SET {set} WHERE {row}"));
            refused += 1;
        }
    }
    assert!(refused >= 10, "{refused}");
    // From `retry` a task is leased again, and is not queued.
    let (row, rest) = (of("running"), as_it_would_be(State::Retry));
    let retry =
        format!("UPDATE live SET state = 'retry', revision = revision + 1, {rest} WHERE {row}");
    connection.execute_batch(&retry).unwrap();
    let queued = format!("UPDATE live SET state = 'queued', revision = revision + 1 WHERE {row}");
    refuses(&connection, &queued);
}

#[tokio::test]
async fn counters_only_grow_and_each_change_is_a_revision() {
    // S2-108, S2-112: attempts, claims and decisions are never counted back.
    let (_driver, connection) = furnished().await;
    for set in [
        "revision = revision - 1",
        "claim_version = claim_version - 1, revision = revision + 1",
        "attempt = 0, revision = revision + 1",
        "entries = entries - 1, revision = revision + 1",
        "decided_at = decided_at - 1, revision = revision + 1",
        "wakes_at = wakes_at + 1000000",
        "attempt = attempt + 1",
        "lane = lane + 1, revision = revision + 1",
        "priority = 9, revision = revision + 1",
        "owner = NULL, revision = revision + 1",
        "tale = NULL, revision = revision + 1",
        "tale = x'00' || tale, revision = revision + 1",
    ] {
        refuses(&connection, &format!("UPDATE live SET {set} WHERE {}", of("running")));
    }
    // What a decision changes may change.
    let decided = "UPDATE live SET failures = failures + 1, revision = revision + 1";
    connection.execute_batch(decided).unwrap();
}
