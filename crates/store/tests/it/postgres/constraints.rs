//! What the database refuses from any session, here from its administrator.

use std::sync::Arc;

use storetest::conformance::driver::caller;
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::{Between, Driver};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use verdict::transition::TABLE;
use verdict::{Scope, State};

use super::Postgres;

/// A store with a waiting, a running and an ended task, and a connection that bypasses it.
async fn furnished() -> (Driver<Postgres>, Arc<Client>) {
    let fixture = Postgres::new();
    let url = fixture.database.url().to_owned();
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let scope = Scope::new("acme", "main");
    let ended = driver.submission(&scope, "ended");
    let key = ended.task_key();
    driver.submit(ended).await;
    let leased = driver.lease(&scope, "ended", 1).await;
    driver.about(&key, report(&caller(&leased[0]), succeeded())).await;
    driver.add(&scope, "running").await;
    assert_eq!(driver.lease(&scope, "running", 1).await.len(), 1);
    let waiting = driver.submission(&scope, "waiting").with_key("k");
    driver.submit(waiting).await;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (driver, Arc::new(client))
}

async fn refuses(client: &Client, sql: &str) {
    let refused = client.batch_execute(sql).await.expect_err(sql);
    let code = refused.code().cloned();
    assert!(
        matches!(code, Some(SqlState::CHECK_VIOLATION | SqlState::UNIQUE_VIOLATION)),
        "{sql}: {refused:?}"
    );
}

#[tokio::test]
async fn what_was_written_once_stays() {
    // Proves: S2-111: not even the owner of the tables can change an ended task. S2-41, S2-108.
    let (_driver, client) = furnished().await;
    for table in ["inputs", "done", "attempts", "history", "refused", "audit"] {
        refuses(&client, &format!("DELETE FROM tenure.{table}")).await;
        refuses(&client, &format!("UPDATE tenure.{table} SET tenant = 'evil'")).await;
        refuses(&client, &format!("TRUNCATE tenure.{table}")).await;
    }
    refuses(&client, "INSERT INTO tenure.done SELECT * FROM tenure.done").await;
}

#[tokio::test]
async fn live_tasks_change_by_the_rules_only() {
    // Proves: S2-108: states, counters and names.
    let (_driver, client) = furnished().await;
    for set in [
        "state = 'retry', revision = revision + 1 WHERE queue = 'waiting'",
        "revision = revision - 1 WHERE queue = 'running'",
        "claim_version = claim_version - 1, revision = revision + 1 WHERE queue = 'running'",
        "attempt = 0, revision = revision + 1 WHERE queue = 'running'",
        "wakes_at = wakes_at + 1000000 WHERE queue = 'running'",
        "tenant = 'evil', revision = revision + 1",
        "queue = 'other', revision = revision + 1",
        "owner = NULL, revision = revision + 1 WHERE queue = 'running'",
    ] {
        refuses(&client, &format!("UPDATE tenure.live SET {set}")).await;
    }
}

#[tokio::test]
async fn no_ended_task_lives_again() {
    // S2-108: a live row whose id is also in `done`.
    let (_driver, client) = furnished().await;
    let revive = "CREATE TEMP TABLE revived AS SELECT * FROM tenure.live WHERE queue = 'waiting'; \
        UPDATE revived SET id = (SELECT id FROM tenure.done); \
        INSERT INTO tenure.live SELECT * FROM revived";
    refuses(&client, revive).await;
}

#[tokio::test]
async fn nothing_refers_to_another_tenant() {
    // S2-108, R-40: rows of one scope never reference a task of another.
    let (_driver, client) = furnished().await;
    refuses(
        &client,
        "INSERT INTO tenure.history SELECT id, 99, 'evil', workspace, 0, 1, 1, '{}', NULL, '[]' \
         FROM tenure.inputs LIMIT 1",
    )
    .await;
    refuses(
        &client,
        "INSERT INTO tenure.keys SELECT 'evil', workspace, key, task, fingerprint FROM tenure.keys",
    )
    .await;
    for (table, task) in [("attempts", "task"), ("done", "id"), ("live", "id")] {
        let foreign = format!(
            "CREATE TEMP TABLE foreign_{table} AS SELECT * FROM tenure.{table} LIMIT 1; \
             UPDATE foreign_{table} SET tenant = 'evil', {task} = decode(repeat('22', 16), 'hex'); \
             INSERT INTO tenure.inputs SELECT decode(repeat('22', 16), 'hex'), 'acme', 'main', 'q', 'k', 0, \
                0, NULL, decode(repeat('00', 32), 'hex'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{{}}'; \
             INSERT INTO tenure.{table} SELECT * FROM foreign_{table}"
        );
        refuses(&client, &foreign).await;
    }
    refuses(
        &client,
        "INSERT INTO tenure.refused SELECT task, lease, 'call', 'code', 'evil', workspace, 1, 'w', \
         'rejected', NULL, 0, 0 FROM tenure.attempts LIMIT 1",
    )
    .await;
}

#[tokio::test]
async fn what_was_told_is_never_told_otherwise() {
    // S2-108: decisions about a live task are written once, also those in the task's own row.
    let (_driver, client) = furnished().await;
    let told = "SELECT count(*) FROM tenure.live WHERE tale IS NOT NULL";
    assert!(client.query_one(told, &[]).await.unwrap().get::<_, i64>(0) > 0);
    refuses(&client, "UPDATE tenure.live SET tale = NULL, revision = revision + 1").await;
    refuses(&client, "UPDATE tenure.live SET tale = '\\x00' || tale, revision = revision + 1")
        .await;
    let more = "UPDATE tenure.live SET tale = tale || '\\x00', revision = revision + 1";
    client.batch_execute(more).await.unwrap();
}

#[tokio::test]
async fn a_live_task_keeps_its_key() {
    // S2-115, R-32: two live tasks never share a key.
    let (_driver, client) = furnished().await;
    refuses(&client, "UPDATE tenure.keys SET task = (SELECT id FROM tenure.done)").await;
    refuses(
        &client,
        "INSERT INTO tenure.keys SELECT tenant, workspace, key, task, fingerprint FROM tenure.keys",
    )
    .await;
}

#[tokio::test]
async fn no_session_changes_a_state_against_the_rules_or_takes_a_key_twice() {
    // Proves: W-9: the tables of the runs themselves refuse it, whatever the program does.
    let (_driver, client) = furnished().await;
    let allowed = listed();
    let mut refused = 0;
    for (queue, from) in [("waiting", State::Queued), ("running", State::Running)] {
        for to in State::ALL.into_iter().filter(|to| *to != from) {
            if allowed.contains(&(name(from), name(to))) {
                continue;
            }
            let to = name(to);
            let change = format!("state = '{to}', revision = revision + 1 WHERE queue = '{queue}'");
            refuses(&client, &format!("UPDATE tenure.live SET {change}")).await;
            refused += 1;
        }
    }
    assert!(refused >= 2 * 4, "no live row can have one of the four ends: {refused}");
    refuses(
        &client,
        "INSERT INTO tenure.keys SELECT k.tenant, k.workspace, k.key, l.id, k.fingerprint \
         FROM tenure.keys k, tenure.live l WHERE l.queue = 'running'",
    )
    .await;
}

#[tokio::test]
async fn without_a_scope_nothing_is_seen_or_written() {
    // R-40, X13: the role of batches sees the scope that its transaction named, and no more.
    let (_driver, client) = furnished().await;
    // Short histories are inline in other rows: this one continues in the table.
    let long = "INSERT INTO tenure.history SELECT id, 99, tenant, workspace, 0, 1, 1, '{}', NULL, '[]' \
        FROM tenure.inputs WHERE tenant = 'acme' LIMIT 1";
    client.batch_execute(long).await.unwrap();
    let count = async |scopes: &str, table: &str| {
        let begin =
            format!("BEGIN; SET LOCAL ROLE tenure_rows; SET LOCAL tenure.scopes = '{scopes}'");
        client.batch_execute(&begin).await.unwrap();
        let row = client.query_one(&format!("SELECT count(*) FROM tenure.{table}"), &[]).await;
        client.batch_execute("ROLLBACK").await.unwrap();
        row.unwrap().get::<_, i64>(0)
    };
    for table in ["inputs", "live", "done", "attempts", "history", "keys"] {
        assert_eq!(count("", table).await, 0, "{table}");
        assert_eq!(count("acme\u{1f}side", table).await, 0, "{table}");
        assert_eq!(count("acm\u{1f}emain", table).await, 0, "{table}");
        assert!(count("acme\u{1f}main", table).await > 0, "{table}");
    }
    client.batch_execute("BEGIN; SET LOCAL ROLE tenure_rows").await.unwrap();
    let write = "INSERT INTO tenure.inputs SELECT decode(repeat('11', 16), 'hex'), 'acme', 'main', 'q', \
        'k', 0, 0, NULL, decode(repeat('00', 32), 'hex'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}'";
    let refused = client.batch_execute(write).await.expect_err("written without a scope");
    assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
}

/// The states a row of `live` can have.
const LIVE: [State; 4] = [State::Queued, State::Running, State::Retry, State::Waiting];

fn name(state: State) -> String {
    state.name().to_owned()
}

/// The changes between live states that the transition table lists.
fn listed() -> Vec<(String, String)> {
    let is_live = |state: &State| LIVE.contains(state);
    let rows = TABLE.iter().filter_map(|row| Some((row.from.filter(is_live)?, row.to)));
    let mut listed: Vec<(String, String)> =
        rows.filter(|(_, to)| is_live(to)).map(|(from, to)| (name(from), name(to))).collect();
    listed.sort();
    listed.dedup();
    listed
}

/// The statement that makes the trigger refuse changes that the table does not list.
fn trigger_sql(listed: &[(String, String)]) -> String {
    let pairs = listed.iter().map(|(from, to)| format!("('{from}', '{to}')"));
    let pairs = pairs.collect::<Vec<_>>().join(", ");
    format!(
        "CREATE OR REPLACE TRIGGER live_changes_by_the_rules BEFORE UPDATE ON tenure.live FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND (OLD.state, NEW.state) NOT IN ({pairs}))
    EXECUTE FUNCTION tenure.refuse('this change of state is not allowed');"
    )
}

/// The changes of state within one attempt that the current trigger allows.
async fn allowed(client: &Client) -> Vec<(String, String)> {
    allowed_after(client, 0, PLAIN).await
}

/// What a row of a plain task has of a run, and one of a task with stages.
const PLAIN: &str = "NULL::int";
const WITH_STAGES: &str = "1";

/// Those that it allows after so many further attempts: its own condition, evaluated for every pair.
async fn allowed_after(client: &Client, attempts: u32, run: &str) -> Vec<(String, String)> {
    let definition = "SELECT pg_get_triggerdef(oid) FROM pg_trigger
        WHERE tgrelid = 'tenure.live'::regclass AND tgname = 'live_changes_by_the_rules'";
    let definition: String = client.query_one(definition, &[]).await.unwrap().get(0);
    let (_, condition) = definition.split_once(" WHEN ").expect("the trigger has a condition");
    let (condition, _) = condition.split_once(" EXECUTE ").expect("the trigger has a function");
    let states = LIVE.map(|state| format!("('{}')", name(state))).join(", ");
    let sql = format!(
        "SELECT old.state, new.state FROM (SELECT state, 0 AS attempt, {run} AS run FROM (VALUES {states}) AS s (state)) old,
            (SELECT state, {attempts} AS attempt, {run} AS run FROM (VALUES {states}) AS s (state)) new
        WHERE old.state <> new.state AND NOT {condition} ORDER BY old.state, new.state"
    );
    let rows = client.query(&sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn the_trigger_allows_the_changes_of_the_transition_table_and_no_others() {
    let (_driver, client) = furnished().await;
    let listed = listed();
    let sql = trigger_sql(&listed);
    assert_eq!(
        allowed(&client).await,
        listed,
        "the transition table of the rules changed; add a migration to \
         crates/store/src/postgres/migrations with:\n{sql}"
    );
    // A task with stages is queued again for the next one, from wherever the last one ended.
    let mut with_stages = allowed_after(&client, 0, WITH_STAGES).await;
    with_stages.retain(|change| !listed.contains(change));
    let from_anywhere = ["retry", "running", "waiting"].map(|from| (from, "queued"));
    let mut expected = vec![("queued", "waiting")];
    expected.extend(from_anywhere);
    let expected: Vec<(String, String)> =
        expected.into_iter().map(|(from, to)| (from.to_owned(), to.to_owned())).collect();
    assert_eq!(with_stages, expected);
    // A copy writes many decisions as one change. A task that had a further attempt was running in between.
    let copied = allowed_after(&client, 1, PLAIN).await;
    assert!(copied.iter().all(|(_, to)| to != "queued"), "{copied:?}");
    assert!(copied.contains(&("waiting".to_owned(), "retry".to_owned())), "{copied:?}");
    // S2-108: the statement in the error message has the promised effect.
    client.batch_execute(&sql).await.unwrap();
    assert_eq!(allowed(&client).await, listed);
    let fewer = trigger_sql(&listed[1..]);
    client.batch_execute(&fewer).await.unwrap();
    assert_eq!(allowed(&client).await, &listed[1..], "the comparison sees a difference");
}
