//! Deployments: what a work order costs beside a plain task, what idle deployments cost, and how long a page of artifacts takes.
//!
//! `orders:1000` has so many artifacts made into work orders, by an executor that does nothing: an event, a work order, an execution
//! and a gate each. The artifacts are there before the measurement, which begins when the roles do. Beside them as many plain tasks
//! are submitted and executed in batches. A tenth of the count are the deployments that lie idle, and a hundred times the count
//! the artifacts that are listed.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::Client;
use tenure::wire::Json;
use tenure::wire::topologies::{CreateArtifact, ListArtifacts, MoveArtifact};
use tokio::task::JoinSet;

use crate::error::{BenchError, failed};
use crate::fanout::{self, Executed, PLAIN};
use crate::goal::{Goal, Side, Unit};
use crate::load_client::micros_now;
use crate::measurement::{Measurement, Mode};
use crate::plan::Options;
use crate::server::Servers;
use crate::shape::rounds;
use crate::sleepers::quiet;
use crate::store_factory::StoreFactory;

const ORDERED: &str = "work orders";
const IDLE: &str = "idle deployments, per second";
const LISTED: &str = "artifacts, a page of all";
const FILTERED: &str = "artifacts, a page of a rare status";

/// What a work order may cost, in plain tasks.
const TASKS_MAX: f64 = 400.0;
/// What idle deployments may use of one processor.
const IDLE_PERCENT_MAX: f64 = 0.5;
/// What a page may take.
const PAGE_MS_MAX: f64 = 100.0;

/// The name of the deployment, and the queue of its executors.
const NAME: &str = "bench";
const QUEUE: &str = "orders";

/// Callers that create artifacts at the same time.
const CREATORS: usize = 64;
/// Between two looks at whether all is done.
const LOOK: Duration = Duration::from_millis(50);
/// Artifacts of a page.
const PAGE: u32 = 100;
/// One artifact in so many is in the rare status.
const RARE: usize = 1_000;
/// Pages of each list that are timed.
const PAGES: usize = 200;

fn json(value: &Value) -> Result<Json, BenchError> {
    Json::from_text(value.to_string()).map_err(failed)
}

/// Every artifact is ready as soon as it exists, and whatever the executor returns passes.
fn topology() -> Value {
    json!({
        "topology": NAME,
        "artifacts": {"part": {
            "statuses": ["raw", "set-aside", "at-work", "done"], "initial": "raw",
            "final": ["done", "set-aside"],
            "transitions": [
                {"from": "raw", "to": "at-work", "by": "role:scheduler"},
                {"from": "raw", "to": "set-aside", "by": "person"},
                {"from": "at-work", "to": "done", "by": "role:gate"},
                {"from": "at-work", "to": "raw", "by": "role:gate"},
            ],
        }},
        "events": {"part-ready": {"on": "transition", "artifact": "part", "status": "raw"}},
        "workOrders": {"make": {"kind": "bench", "queue": QUEUE, "budget": {"time": "1h"}, "gate": "any"}},
        "gates": {"any": {
            "checks": [{"name": "is-ok", "require": {"path": "output.ok", "op": "equals", "value": true}}],
            "pass": {"to": "done", "actions": ["Use it."]},
            "fail": {"to": "raw", "actions": ["Look at it."]},
        }},
        "roles": {
            "readiness": {"uses": "readiness", "emits": ["part-ready"]},
            "scheduler": {"uses": "scheduler", "event": "part-ready", "workOrder": "make", "to": "at-work"},
            "runner": {"uses": "runner", "workOrders": ["make"]},
            "gate": {"uses": "gate", "workOrders": ["make"]},
        },
        "limits": {"executors": 100, "cycles": 3},
    })
}

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let mut seen: [Vec<Measurement>; 2] = Default::default();
    let rounds = rounds(options.span);
    for round in 0..rounds {
        progress("work orders", 0.4 * round as f64 / rounds as f64);
        let plain = fanout::measure_once(options, stores, 1, (Executed::Plain, count)).await?;
        seen[0].push(plain);
        seen[1].push(orders(options, stores, count).await?);
    }
    let mut rows: Vec<Measurement> = seen.into_iter().filter_map(middle).collect();
    progress("idle deployments", 0.4);
    rows.push(idle(options, stores, count.div_ceil(10)).await?);
    progress("pages of artifacts", 0.6);
    rows.extend(pages(options, stores, count * 100).await?);
    Ok(rows)
}

/// The row in the middle, by processor time.
fn middle(mut rows: Vec<Measurement>) -> Option<Measurement> {
    rows.sort_by(|a, b| cpu(a).total_cmp(&cpu(b)));
    let place = rows.len() / 2;
    (place < rows.len()).then(|| rows.swap_remove(place))
}

fn cpu(row: &Measurement) -> f64 {
    let used = [row.cpu_micros_per_lifecycle, row.database_micros_per_lifecycle];
    used.into_iter().flatten().sum()
}

async fn create(client: &Client, count: usize) -> Result<(), BenchError> {
    let mut creators: JoinSet<Result<(), BenchError>> = JoinSet::new();
    for first in 0..CREATORS {
        let client = client.clone();
        creators.spawn(async move {
            for number in (first..count).step_by(CREATORS) {
                let part =
                    CreateArtifact { id: format!("p{number:07}"), fields: json(&json!({}))? };
                let made = client.deployments().create_artifact(NAME, "part", &part).await;
                made.map_err(failed)?;
            }
            Ok(())
        });
    }
    while let Some(created) = creators.join_next().await {
        created.map_err(failed)??;
    }
    Ok(())
}

async fn deployed(client: &Client, name: &str) -> Result<(), BenchError> {
    let applied = client.deployments().apply(name, json(&topology())?).await;
    applied.map(drop).map_err(failed)
}

async fn orders(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
) -> Result<Measurement, BenchError> {
    let (servers, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let client = servers.remote.sdk()?;
    deployed(&client, NAME).await?;
    client.deployments().pause(NAME).await.map_err(failed)?;
    create(&client, count).await?;
    let meter = servers.monitored.begin().await?;
    let (mut workers, _) = fanout::work(&servers.remote.with(Mode::Batch, QUEUE)).await?;
    client.deployments().resume(NAME).await.map_err(failed)?;
    while is_any(&client, "raw").await? || is_any(&client, "at-work").await? {
        tokio::time::sleep(LOOK).await;
    }
    let (elapsed, used) = meter.end().await?;
    workers.shutdown().await;
    let rss_mib = servers.monitored.rss_mib();
    servers.kill().await?;
    let row = Measurement {
        mode: Some(Mode::Batch),
        lifecycles_per_second: Some(count as f64 / elapsed.as_secs_f64()),
        rss_mib,
        ..Measurement::named(&format!("{count} {ORDERED}"))
    };
    Ok(used.put(row, count as u64))
}

async fn is_any(client: &Client, status: &str) -> Result<bool, BenchError> {
    let parts = client.deployments().artifacts(NAME, "part");
    let found = parts.status(status).limit(1).await.map_err(failed)?;
    Ok(!found.artifacts.is_empty())
}

async fn idle(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
) -> Result<Measurement, BenchError> {
    let (servers, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let client = servers.remote.sdk()?;
    for number in 0..count {
        deployed(&client, &format!("idle-{number}")).await?;
    }
    let row = quiet(&servers.monitored, options.span, &format!("{count} {IDLE}")).await?;
    servers.kill().await?;
    Ok(row)
}

async fn pages(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
) -> Result<Vec<Measurement>, BenchError> {
    let (servers, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let client = servers.remote.sdk()?;
    deployed(&client, NAME).await?;
    client.deployments().pause(NAME).await.map_err(failed)?;
    create(&client, count).await?;
    // The rare ones are the last: whoever reads all of them to find these reads far.
    for number in count - count.div_ceil(RARE)..count {
        let to = MoveArtifact { to: "set-aside".to_owned(), revision: None, fields: Json::null() };
        let id = format!("p{number:07}");
        client.deployments().move_artifact(NAME, "part", &id, &to).await.map_err(failed)?;
    }
    let mut rows = Vec::new();
    for (name, status) in [(LISTED, None), (FILTERED, Some("set-aside"))] {
        let micros = timed(&client, status).await?;
        rows.push(Measurement::named(&format!("{count} {name}")).with_latencies(micros));
    }
    servers.kill().await?;
    Ok(rows)
}

async fn timed(client: &Client, status: Option<&str>) -> Result<Vec<u64>, BenchError> {
    let status = status.map(str::to_owned);
    let mut page = ListArtifacts { status, cursor: None, limit: Some(PAGE) };
    let mut micros = Vec::new();
    for _ in 0..PAGES {
        let begun = micros_now();
        let parts = client.deployments().artifacts(NAME, "part").with(page.clone());
        let found = parts.await.map_err(failed)?;
        micros.push(micros_now() - begun);
        page.cursor = found.cursor;
    }
    Ok(micros)
}

/// The goals of deployments.
pub(crate) fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let named = |part: &str| rows.iter().find(|row| row.name.ends_with(part));
    let at_most = |row: &Measurement, limit, unit, measured| Goal {
        figure: row.name.clone(),
        side: Side::AtMost,
        limit,
        unit,
        measured,
    };
    let share = named(ORDERED).zip(named(PLAIN)).map(|(ordered, plain)| Goal {
        figure: "processor time of work orders, of plain tasks".to_owned(),
        ..at_most(ordered, TASKS_MAX, Unit::Percent, cpu(ordered) / cpu(plain) * 100.0)
    });
    let idle =
        named(IDLE).map(|row| at_most(row, IDLE_PERCENT_MAX, Unit::Percent, cpu(row) / 10_000.0));
    let page = |part| {
        let row = named(part)?;
        Some(at_most(row, PAGE_MS_MAX, Unit::Milliseconds, row.p99_ms?))
    };
    // Plain tasks alone are compared elsewhere.
    if named(ORDERED).is_none() && named(IDLE).is_none() {
        return Vec::new();
    }
    [share, idle, page(LISTED), page(FILTERED)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_order_is_held_against_four_plain_tasks() {
        let row = |name: &str, micros| Measurement {
            cpu_micros_per_lifecycle: Some(micros),
            ..Measurement::named(&format!("1000 {name}"))
        };
        let judged = |micros| goals(&[row(PLAIN, 100.0), row(ORDERED, micros)])[0].is_met();
        assert_eq!([399.0, 401.0].map(judged), [true, false]);
        assert_eq!(goals(&[row(PLAIN, 100.0)]), []);
    }
}
