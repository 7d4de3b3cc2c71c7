//! A coordinator inside another program, without HTTP: submit a task, lease it, complete it, read the result.
//!
//! Run it with `cargo run -p tenure-coordinator --example embed`. It needs none of the default features. Requests are
//! built with [`coordinator::requests`], so that an HTTP client that repeats one of them, with the same idempotency key
//! or for the same lease, gets the same answer.

#![expect(clippy::print_stdout, reason = "the result is what the program is for")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Coordinator, Granted, Options, Poll, requests};
use store::sqlite::SqliteStore;
use store::{Browse, SystemClock, TaskKey};
use verdict::{Answer, Scope, Subject};

/// How long the worker waits for a task.
const POLL_WAIT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", run().await?);
    Ok(())
}

/// The output of the only task.
pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let clock = Arc::new(SystemClock::start());
    let store =
        SqliteStore::open(folder.path().join("tenure.db"), store::sqlite::Options::new(clock))?;
    let coordinator = Coordinator::start(store, Options::default()).await?;
    submit(&coordinator).await?;
    let granted = lease(&coordinator).await?;
    complete(&coordinator, &granted).await?;
    let output = output(&coordinator, &granted.key()).await?;
    coordinator.stop().await;
    Ok(output)
}

/// Records a task under an idempotency key, so that this call can be repeated after a crash.
async fn submit(coordinator: &Coordinator) -> Result<(), Box<dyn Error>> {
    let run = wire::parse(
        br#"{"kind": "greet", "queue": "default", "input": {"name": "Ada"}, "idempotencyKey": "greet-ada"}"#,
    )?;
    let submission = requests::submission(&Scope::default(), run)?;
    let reply = coordinator.submit(vec![submission]).await.remove(0)?;
    match reply.answer {
        Answer::Accepted { .. } => Ok(()),
        other => Err(format!("the task was not accepted: {other:?}").into()),
    }
}

/// Waits for a task, as a worker does.
async fn lease(coordinator: &Coordinator) -> Result<Granted, Box<dyn Error>> {
    let poll = Poll {
        scope: Scope::default(),
        worker: "embedded".into(),
        queues: vec!["default".into()],
        kinds: None,
        max: 1,
        until: tokio::time::Instant::now() + POLL_WAIT,
        poll: None,
        build: None,
    };
    coordinator.lease(poll).await?.pop().ok_or_else(|| "no task came".into())
}

/// Does the work and reports it under the lease.
async fn complete(coordinator: &Coordinator, granted: &Granted) -> Result<(), Box<dyn Error>> {
    let completed = wire::parse(
        br#"{"attempt": 1, "workerId": "embedded", "outcome": "SUCCEEDED", "output": {"greeting": "Hello, Ada"}}"#,
    )?;
    let report = requests::report(granted.caller(), completed)?;
    match coordinator.report(granted.key(), report).await?.answer {
        Answer::Committed { .. } => Ok(()),
        other => Err(format!("the report does not count: {other:?}").into()),
    }
}

async fn output(coordinator: &Coordinator, key: &TaskKey) -> Result<String, Box<dyn Error>> {
    match coordinator.browse().find(key).await?.map(|found| found.subject) {
        Some(Subject::Done(done)) => {
            Ok(done.end.output.map_or_else(String::new, |output| output.as_str().to_owned()))
        }
        other => Err(format!("the task has not ended: {other:?}").into()),
    }
}
