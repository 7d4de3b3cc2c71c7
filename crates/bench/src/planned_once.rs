//! What the loads make a server send to its database is planned once per connection, and not at each use.
//!
//! The server runs in this process, so that the store can be asked what it sent as text. Every load is repeated more often
//! than a pool has connections: then a statement that is not prepared has been sent twice by one of them.

use std::path::Path;

use coordinator::admit::{NewKey, Role};
use coordinator::server::parse_receivers;
use coordinator::{OsEntropy, ServeOptions, Server, engines};
use store::postgres::{self, PostgresStore};
use storetest::Database;
use tokio::task::JoinSet;
use verdict::Scope;

use crate::error::BenchError;
use crate::load_client::{LoadClient, LoadTarget, SubmitTime};
use crate::measurement::Mode;
use crate::remote::{FLOW_LIMIT, PlanShape, Remote};
use crate::{effects, embedded, fanout, parallel};

/// More than a pool has connections.
const ROUNDS: usize = 9;
/// Runs of a batch: more than one flow key lets through, so that some are parked.
const RUNS: usize = 2 * FLOW_LIMIT as usize;

async fn serve(store: PostgresStore, key_file: &Path) -> (Server, Remote) {
    let key = NewKey::generate(&mut OsEntropy, Scope::default(), &Role::ALL);
    let text = key.text().to_owned();
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), key_file);
    options.new_keys = vec![key];
    options.receivers = parse_receivers(&["127.0.0.0/8".to_owned()]).unwrap();
    let server = engines::serve_postgres(store, options).await.unwrap();
    let remote = Remote::new(vec![server.local_addr()], text, Mode::Single);
    (server, remote)
}

/// Submits runs and completes all of their tasks.
async fn lifecycles(remote: &Remote) -> Result<(), BenchError> {
    let mut client = remote.open().await?;
    let mut left = if remote.mode == Mode::Single { 1 } else { RUNS };
    client.submit(left).await?;
    while left > 0 {
        let mut leased = client.lease(RUNS).await?;
        while !leased.is_empty() {
            left -= leased.iter().filter(|leased| leased.ends_run()).count();
            leased = client.complete_and_go_on(&leased).await?;
        }
    }
    Ok(())
}

/// A parent with children, and a plan whose last step joins the others.
async fn joined(remote: &Remote) -> Result<(), BenchError> {
    let (mut workers, _): (JoinSet<_>, _) =
        fanout::work(&remote.with(Mode::Batch, fanout::CHILDREN)).await?;
    fanout::parent(remote, 3).await?;
    parallel::run_plan(remote, 3).await?;
    workers.shutdown().await;
    Ok(())
}

async fn awaited(remote: &Remote) -> Result<(), BenchError> {
    let mut client = remote.open().await?;
    let run = client.submit_one().await?;
    let leased = client.lease(1).await?;
    client.complete(&leased).await?;
    let path = format!("/v1/runs/{run}?waitMs=10000");
    client.connection.get(&path, &remote.key).await.map(drop)
}

async fn one_round(remote: &Remote) -> Result<(), BenchError> {
    for mode in [Mode::Single, Mode::Batch] {
        let remote = remote.with(mode, &format!("{mode:?}").to_lowercase());
        let plans = [PlanShape::Stages(3), PlanShape::Joined(3)];
        let [staged, in_parallel] = plans.map(|plan| remote.with_plan(plan));
        let with_keys = remote.with_flow_keys(1);
        for load in [&remote, &remote.with_steps(3), &staged, &in_parallel, &with_keys] {
            lifecycles(load).await?;
        }
    }
    awaited(remote).await?;
    joined(remote).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_the_loads_is_planned_twice() {
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let store = PostgresStore::open(database.url(), postgres::Options::new("bench")).await.unwrap();
    let (server, remote) = serve(store.clone(), &folder.path().join("tenure.key")).await;
    let mut deliveries = effects::Deliveries::begin(remote.sdk().unwrap()).await.unwrap();
    // What a start and an administrator do is done once.
    let before = store.statements_planned_again();
    for _ in 0..ROUNDS {
        one_round(&remote).await.unwrap();
        deliveries.deliver().await.unwrap();
    }
    let after = store.statements_planned_again();
    server.shutdown().await;
    let again: Vec<&String> = after.difference(&before).collect();
    assert!(again.is_empty(), "prepare these: {again:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_beside_a_connection_without_statements_has_no_figure() {
    // What was measured on a new database was once the planning of every statement.
    let database = Database::create();
    let engine = embedded::Embedded::on_database(database.url()).await.unwrap();
    let connected = store::postgres::connect(database.url(), "bench").await.unwrap();
    connected.batch_execute("ALTER SCHEMA tenure RENAME TO elsewhere").await.unwrap();
    engine.database().unwrap().fill_pools().await.unwrap();
    connected.batch_execute("ALTER SCHEMA elsewhere RENAME TO tenure").await.unwrap();
    let stopped = engine.stop().await;
    assert!(matches!(stopped, Err(BenchError::Unprepared { .. })), "{stopped:?}");
}
