//! A database of an earlier format opens, is migrated, and verifies.

use store::verify::verify;
use storetest::conformance::driver::caller;
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::{Between, Driver};
use tokio_postgres::{Client, NoTls};
use verdict::{Scope, State};

use super::Postgres;

/// The steps up to the newest format that is tested.
const STEPS: [&str; 5] = [
    include_str!("../../../src/postgres/migrations/V1__tasks.sql"),
    include_str!("../../../src/postgres/migrations/V2__coordinators.sql"),
    include_str!("../../../src/postgres/migrations/V3__rules.sql"),
    include_str!("../../../src/postgres/migrations/V4__states.sql"),
    include_str!("../../../src/postgres/migrations/V5__pauses.sql"),
];

/// Tables in the order in which their rows may be inserted.
const TABLES: [&str; 10] = [
    "meta",
    "committers",
    "batches",
    "inputs",
    "live",
    "done",
    "attempts",
    "history",
    "refused",
    "keys",
];

/// Rebuilds the schema as this format had it, with the rows that are there.
async fn back_to_format(client: &Client, format: usize) {
    let create = format!(
        "ALTER SCHEMA tenure RENAME TO current; CREATE SCHEMA tenure; \
         CREATE TABLE tenure.migrations (LIKE current.migrations INCLUDING ALL); \
         INSERT INTO tenure.migrations SELECT * FROM current.migrations WHERE version <= {format}"
    );
    client.batch_execute(&create).await.unwrap();
    for step in &STEPS[..format] {
        client.batch_execute(step).await.unwrap();
    }
    for table in TABLES {
        let sql = "SELECT string_agg(column_name, ', ' ORDER BY ordinal_position), \
            string_agg(CASE table_name || '.' || column_name WHEN 'live.due' THEN 'claimable_at' \
                ELSE column_name END, ', ' ORDER BY ordinal_position) \
            FROM information_schema.columns WHERE table_schema = 'tenure' AND table_name = $1";
        let row = client.query_one(sql, &[&table]).await.unwrap();
        let (columns, current): (String, String) = (row.get(0), row.get(1));
        let copy =
            format!("INSERT INTO tenure.{table} ({columns}) SELECT {current} FROM current.{table}");
        client.batch_execute(&copy).await.unwrap();
    }
    client.batch_execute("DROP SCHEMA current CASCADE").await.unwrap();
}

#[tokio::test]
async fn live_tasks_of_format_3_keep_their_state() {
    keep_their_state(3).await;
}

#[tokio::test]
async fn live_tasks_of_format_5_keep_their_state() {
    keep_their_state(5).await;
}

async fn keep_their_state(format: usize) {
    // S2-114: all records are intact, the running task still runs, and the waiting one is still granted.
    let fixture = Postgres::new();
    let (client, connection) = tokio_postgres::connect(fixture.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let scope = Scope::default();
    let (ended, running) = (driver.add(&scope, "images").await, driver.add(&scope, "images").await);
    let leased = driver.lease(&scope, "images", 2).await;
    driver.about(&ended, report(&caller(&leased[0]), succeeded())).await;
    let waiting = driver.add(&scope, "images").await;
    let before = [driver.load(&ended).await, driver.load(&running).await];
    back_to_format(&client, format).await;

    driver.reopen().await;
    assert_eq!(verify(driver.browse()).await.unwrap().findings, []);
    let after = [driver.load(&ended).await, driver.load(&running).await];
    assert_eq!(after, before);
    assert_eq!(after[1].state(), Some(State::Running));
    let granted = driver.lease(&scope, "images", 2).await;
    assert_eq!(granted.iter().map(|it| it.task.id).collect::<Vec<_>>(), [waiting.id]);
}
