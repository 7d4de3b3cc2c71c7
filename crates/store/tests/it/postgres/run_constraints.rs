//! What the database refuses to do to the records of durable runs, from any session.

use storetest::conformance::runs::family::{
    Delivery, Family, call, child, running, signal, step, wait, with_children,
};
use storetest::conformance::{Between, Driver};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use verdict::run::{AwaitedEvent, WaitMode};

use super::Postgres;

/// A run that waits for a signal and for many children, with a step, a pending signal and a saved message.
async fn furnished() -> (Driver<Postgres>, Client) {
    let fixture = Postgres::new();
    let (client, connection) = tokio_postgres::connect(fixture.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let mut family = Family::new(Delivery::Later);
    let (run, caller) = running(&mut driver, "flow").await;
    let names: Vec<String> = (0..20).map(|n| format!("child {n:02}")).collect();
    let awaited = names.iter().map(|name| AwaitedEvent::Child(name.as_str().into()));
    let awaited = awaited.chain([AwaitedEvent::Signal("go".into())]).collect();
    let call = call(&caller, vec![step("one", "1")], wait("all", WaitMode::All, awaited));
    let children = names.iter().zip(100..).map(|(name, id)| child(name, id)).collect();
    family.ask(&mut driver, &run, with_children(call, children)).await;
    family.ask(&mut driver, &run, signal("early", Some("k"), "{}")).await;
    (driver, client)
}

async fn refuses(client: &Client, sql: &str) {
    let refused = client.batch_execute(sql).await.expect_err(sql);
    let code = refused.code().cloned();
    assert!(
        matches!(code, Some(SqlState::CHECK_VIOLATION | SqlState::UNIQUE_VIOLATION)),
        "{sql}: {refused:?}"
    );
}

async fn count(client: &Client, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM tenure.{table}");
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn what_a_run_recorded_stays() {
    // E3: a checkpoint never changes, a child ends once, a signal is taken once, and a message keeps its content.
    let (_driver, client) = furnished().await;
    for (table, rows) in
        [("checkpoints", 1), ("children", 20), ("signals", 1), ("waits", 1), ("messages", 20)]
    {
        assert_eq!(count(&client, table).await, rows, "{table}");
    }
    for table in ["checkpoints", "children", "signals"] {
        refuses(&client, &format!("DELETE FROM tenure.{table}")).await;
        refuses(&client, &format!("UPDATE tenure.{table} SET tenant = 'evil'")).await;
        refuses(&client, &format!("UPDATE tenure.{table} SET number = number + 1000")).await;
        refuses(&client, &format!("TRUNCATE tenure.{table}")).await;
    }
    client.batch_execute("UPDATE tenure.children SET ended = 'failed'").await.unwrap();
    refuses(&client, "UPDATE tenure.children SET ended = 'succeeded'").await;
    client.batch_execute("UPDATE tenure.signals SET taken = true").await.unwrap();
    refuses(&client, "UPDATE tenure.signals SET taken = false").await;
    refuses(&client, "UPDATE tenure.messages SET body = '{}'").await;
}

#[tokio::test]
async fn records_belong_to_a_task_of_their_scope() {
    // rows of one scope never reference a task of another.
    let (_driver, client) = furnished().await;
    for table in ["checkpoints", "children", "signals", "waits"] {
        let foreign = format!(
            "CREATE TEMP TABLE foreign_{table} AS SELECT * FROM tenure.{table} LIMIT 1; \
             UPDATE foreign_{table} SET tenant = 'evil', task = decode(repeat('22', 16), 'hex'); \
             INSERT INTO tenure.{table} SELECT * FROM foreign_{table}"
        );
        refuses(&client, &foreign).await;
    }
    refuses(&client, "UPDATE tenure.live SET parent = id, revision = revision + 1").await;
    refuses(&client, "UPDATE tenure.live SET waiting = NULL, revision = revision + 1").await;
    let back = "UPDATE tenure.live SET state = 'retry', waiting = NULL, claimable_at = 0, \
        revision = revision + 1";
    refuses(&client, back).await;
}
