//! One parent with many children, joined, beside as many plain tasks.
//!
//! The parent starts its children in the largest calls the contract allows and waits for all of them. Workers execute
//! children from the first moment on, as they execute the plain tasks.

use std::time::Duration;

use serde::Deserialize;
use tokio::task::JoinSet;

use crate::error::BenchError;
use crate::load::{Loops, Tally};
use crate::load_client::{LoadClient, LoadTarget};
use crate::measurement::{Measurement, Mode};
use crate::parallel;
use crate::plan::Options;
use crate::remote::{Leased, Remote, RemoteClient, body_of};
use crate::server::Servers;
use crate::store_factory::StoreFactory;

/// What a row measures.
pub(crate) const JOINED: &str = "children, joined";
pub(crate) const PLAIN: &str = "plain tasks";

/// Children per call: the maximum of the contract. Plain tasks are submitted in calls of the same size.
const PER_CALL: usize = 500;

/// Leases per poll and concurrent workers.
const LEASES_PER_POLL: usize = 256;
const WORKERS: usize = 4;

/// How often to check whether all plain tasks have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The queues of parents and of what is executed.
pub(crate) const PARENTS: &str = "parents";
pub(crate) const CHILDREN: &str = "children";

/// Plain tasks and children in turn, each on a new store; with several coordinators, all of them share it.
pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let several = options.target.coordinators();
    let numbers = if several > 1 { vec![1, several] } else { vec![1] };
    let mut rows = Vec::new();
    for coordinators in numbers {
        for what in [Executed::Plain, Executed::Children] {
            progress(what.name(), 0.5);
            rows.push(measure_once(options, stores, coordinators, (what, count)).await?);
        }
    }
    Ok(rows)
}

/// What workers execute.
#[derive(Clone, Copy)]
pub(crate) enum Executed {
    Plain,
    /// The children of one parent.
    Children,
    /// The steps of one plan.
    Steps,
}

impl Executed {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Executed::Plain => PLAIN,
            Executed::Children => JOINED,
            Executed::Steps => parallel::STEPS,
        }
    }
}

pub(crate) async fn measure_once(
    options: &Options,
    stores: &StoreFactory,
    coordinators: usize,
    (executed, count): (Executed, usize),
) -> Result<Measurement, BenchError> {
    let (servers, _) = Servers::on_new_store(&options.program, stores, coordinators).await?;
    let remote = servers.remote.with(Mode::Batch, CHILDREN);
    let meter = servers.monitored.begin().await?;
    let (mut workers, tally) = work(&remote).await?;
    match executed {
        Executed::Plain => plain(&remote, count, &tally).await?,
        Executed::Children => parent(&remote, count).await?,
        Executed::Steps => parallel::run_plan(&remote, count).await?,
    }
    let (elapsed, used) = meter.end().await?;
    workers.shutdown().await;
    let rss_mib = servers.monitored.rss_mib();
    servers.kill().await?;
    let what = executed.name();
    let by =
        if coordinators > 1 { format!(", {coordinators} coordinators") } else { String::new() };
    let row = Measurement {
        mode: Some(Mode::Batch),
        lifecycles_per_second: Some(count as f64 / elapsed.as_secs_f64()),
        rss_mib,
        ..Measurement::named(&format!("{count} {what}{by}"))
    };
    Ok(used.put(row, count as u64))
}

/// Workers that lease and complete what is in the queue until they are stopped.
pub(crate) async fn work(remote: &Remote) -> Result<(Loops, Tally), BenchError> {
    let (mut workers, tally): (Loops, Tally) = (JoinSet::new(), Tally::default());
    for _ in 0..WORKERS {
        let (mut client, tally) = (remote.open().await?, tally.clone());
        workers.spawn(async move {
            loop {
                let leased = client.lease(LEASES_PER_POLL).await?;
                if !leased.is_empty() {
                    client.complete(&leased).await?;
                    tally.ended(&leased);
                }
            }
        });
    }
    Ok((workers, tally))
}

async fn plain(remote: &Remote, count: usize, tally: &Tally) -> Result<(), BenchError> {
    let mut client = remote.open().await?;
    for begun in (0..count).step_by(PER_CALL) {
        client.submit(PER_CALL.min(count - begun)).await?;
    }
    while (tally.count() as usize) < count {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// From the parent's submission until its end is acknowledged.
pub(crate) async fn parent(remote: &Remote, count: usize) -> Result<(), BenchError> {
    let mut client = remote.with(Mode::Single, PARENTS).open().await?;
    client.submit_one().await?;
    let mut leased = next(&mut client).await?;
    let mut is_waiting = false;
    for begun in (0..count).step_by(PER_CALL) {
        let last = (begun + PER_CALL).min(count);
        let wait = if last == count { wait(count) } else { String::new() };
        let children: Vec<String> = (begun..last).map(child).collect();
        let call = format!(r#""children":[{}]{wait}"#, children.join(","));
        is_waiting = checkpoint(&mut client, &leased, &call).await?;
    }
    // If all children have ended before the call that waits, it goes on under the same lease.
    if is_waiting {
        leased = next(&mut client).await?;
    }
    client.complete(&[leased]).await
}

pub(crate) async fn next(client: &mut RemoteClient) -> Result<Leased, BenchError> {
    loop {
        if let Some(leased) = client.lease(1).await?.pop() {
            return Ok(leased);
        }
    }
}

fn child(number: usize) -> String {
    format!(r#"{{"key":"child#{number}","kind":"bench","queue":"{CHILDREN}","input":{{"at":0}}}}"#)
}

fn wait(count: usize) -> String {
    let items: Vec<String> = (0..count)
        .map(|number| format!(r#"{{"key":"child#{number}","child":"child#{number}"}}"#))
        .collect();
    format!(r#","wait":{{"key":"join#1","mode":"all","for":[{}]}}"#, items.join(","))
}

/// Returns whether the attempt has ended, because the run waits.
async fn checkpoint(
    client: &mut RemoteClient,
    leased: &Leased,
    call: &str,
) -> Result<bool, BenchError> {
    #[derive(Deserialize)]
    struct Acknowledged {
        state: String,
    }
    let path = format!("/v1/tasks/{}/checkpoints", leased.task_id);
    let answer = client.connection.post(&path, &leased.task_token, &body_of(leased, call)).await?;
    Ok(serde_json::from_slice::<Acknowledged>(answer)?.state == "waiting")
}
