//! What the statements of a lifecycle visit, however much lies beside it.

use store::conformance::driver::caller;
use store::conformance::reports::{report, succeeded};
use store::conformance::{Between, Driver};
use store::postgres::hot;
use store::{Ready, TaskKey};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};
use verdict::Scope;

use super::Postgres;

async fn connect(fixture: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(fixture.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The plan of a statement as a batch would run it, executed.
async fn plan(
    client: &Client,
    sql: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Vec<String> {
    client.batch_execute(hot().begin).await.unwrap();
    client.query("SELECT set_config('tenure.scopes', '*', true)", &[]).await.unwrap();
    let explain = format!("EXPLAIN (ANALYZE, TIMING OFF) {sql}");
    let rows = client.query_typed(&explain, parameters).await.unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn ids_of(tasks: &[Ready]) -> Vec<Vec<u8>> {
    tasks.iter().map(|ready| ready.task.id.as_u128().to_be_bytes().to_vec()).collect()
}

#[tokio::test]
async fn tasks_are_looked_up_one_by_one_by_their_key() {
    let fixture = Postgres::new();
    let client = connect(&fixture).await;
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let scope = Scope::default();
    for _ in 0..40 {
        driver.add(&scope, "images").await;
    }
    let leased = driver.lease(&scope, "images", 40).await;
    for ready in &leased[..20] {
        let key = TaskKey { scope: scope.clone(), id: ready.task.id };
        driver.about(&key, report(&caller(ready), succeeded())).await;
    }
    let (ended, running) = leased.split_at(20);
    for (sql, tasks) in [(hot().lock, running), (hot().ended, ended)] {
        let ids = ids_of(tasks);
        let tenants = vec![scope.tenant.as_str(); ids.len()];
        let workspaces = vec![scope.workspace.as_str(); ids.len()];
        let keys: [(&(dyn ToSql + Sync), Type); 3] = [
            (&tenants, Type::TEXT_ARRAY),
            (&workspaces, Type::TEXT_ARRAY),
            (&ids, Type::BYTEA_ARRAY),
        ];
        let plan = plan(&client, sql, &keys).await;
        let is_joined = |line: &String| line.contains("Join Filter") || line.contains("Seq Scan");
        // A table that is read whole for every batch is what made large stores slow.
        assert!(!plan.iter().any(is_joined), "{}", plan.join("\n"));
        let found = plan.iter().filter(|line| line.contains("loops=20")).count();
        assert!(found >= 2, "each key is searched on its own: {}", plan.join("\n"));
    }
}
