//! One run with very many steps and savepoints among them: how fast they are recorded, how long the next worker takes to
//! resume it, and what the server's memory does meanwhile.
//!
//! The last step of each call is a savepoint. The last call waits for a signal, so the attempt ends without an error. The
//! signal makes the run ready, and the next worker gets what it recorded since its last savepoint.

use serde::Deserialize;

use crate::error::BenchError;
use crate::goal::{Goal, Side, Unit};
use crate::load_client::{LoadClient, LoadTarget, micros_now};
use crate::measurement::{Measurement, Mode};
use crate::plan::Options;
use crate::remote::{Leased, RemoteClient, body_of};
use crate::resource_usage::Monitored;
use crate::server::Servers;
use crate::store_factory::StoreFactory;

/// Steps per call: the maximum of the contract.
const PER_CALL: usize = 100;

/// What a row about the resumption is called.
const RESUMED: &str = "steps with savepoints, resumed";

/// What the run waits for in the end.
const WAIT: &str =
    r#""wait":{"key":"wait:go#1","mode":"all","for":[{"key":"go#1","signal":"go"}]}"#;

/// The goal.
const RESUME_MS_MAX: f64 = 1_000.0;

/// Parts of the load, each with a separate row, so that growth of the memory shows.
const PARTS: usize = 4;

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let (server, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let mut client = server.remote.with(Mode::Single, "savepoints").open().await?;
    let run = client.submit_one().await?;
    let mut leased = next(&mut client).await?;
    let mut rows = Vec::new();
    let calls = count.div_ceil(PER_CALL);
    for part in 0..PARTS {
        progress("steps with savepoints", part as f64 / PARTS as f64);
        let mine = calls * part / PARTS..calls * (part + 1) / PARTS;
        rows.push(record(&mut client, &mut leased, &server.monitored, mine).await?);
    }
    post(&mut client, &mut leased, WAIT).await?;
    let (path, key) = (format!("/v1/runs/{run}/signals"), client.remote.key.clone());
    client.connection.post(&path, &key, r#"{"name":"go"}"#).await?;
    let begun = micros_now();
    let resumed = next(&mut client).await?;
    let millis = (micros_now() - begun) as f64 / 1000.0;
    rows.push(Measurement {
        p50_ms: Some(millis),
        rss_mib: server.monitored.rss_mib(),
        ..Measurement::named(&format!("{count} {RESUMED}"))
    });
    client.complete(&[resumed]).await?;
    server.kill().await?;
    Ok(rows)
}

async fn record(
    client: &mut RemoteClient,
    leased: &mut Leased,
    monitored: &Monitored,
    calls: std::ops::Range<usize>,
) -> Result<Measurement, BenchError> {
    let meter = monitored.begin().await?;
    let (first, steps) = (calls.start * PER_CALL, calls.len() * PER_CALL);
    for call in calls {
        let steps: Vec<String> = (0..PER_CALL).map(|n| step(call * PER_CALL + n)).collect();
        post(client, leased, &format!(r#""steps":[{}]"#, steps.join(","))).await?;
    }
    let (elapsed, used) = meter.end().await?;
    let row = Measurement {
        lifecycles_per_second: Some(steps as f64 / elapsed.as_secs_f64()),
        rss_mib: monitored.rss_mib(),
        ..Measurement::named(&format!("steps {first} to {}", first + steps))
    };
    Ok(used.put(row, steps as u64))
}

fn step(number: usize) -> String {
    let is_last = number % PER_CALL == PER_CALL - 1;
    format!(
        r#"{{"key":"step#{number}","outcome":"SUCCEEDED","result":{{"ok":{number}}},"savepoint":{is_last}}}"#
    )
}

/// Sends one call, and adopts the token that its answer may carry.
async fn post(
    client: &mut RemoteClient,
    leased: &mut Leased,
    call: &str,
) -> Result<(), BenchError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Acknowledged {
        task_token: Option<String>,
    }
    let path = format!("/v1/tasks/{}/checkpoints", leased.task_id);
    let body = body_of(leased, call);
    let answer = client.connection.post(&path, &leased.task_token, &body).await?;
    if let Some(token) = serde_json::from_slice::<Acknowledged>(answer)?.task_token {
        leased.task_token = token;
    }
    Ok(())
}

async fn next(client: &mut RemoteClient) -> Result<Leased, BenchError> {
    loop {
        if let Some(leased) = client.lease(1).await?.pop() {
            return Ok(leased);
        }
    }
}

/// How long a resumption may take.
pub(crate) fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let row = rows.iter().find(|row| row.name.ends_with(RESUMED));
    let goal = row.and_then(|row| {
        Some(Goal {
            figure: row.name.clone(),
            side: Side::AtMost,
            limit: RESUME_MS_MAX,
            unit: Unit::Milliseconds,
            measured: row.p50_ms?,
        })
    });
    goal.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_of_a_call_is_a_savepoint_and_no_other() {
        let is_savepoint = |number| step(number).contains("true");
        let found: Vec<usize> = (0..2 * PER_CALL).filter(|number| is_savepoint(*number)).collect();
        assert_eq!(found, [PER_CALL - 1, 2 * PER_CALL - 1]);
    }

    #[test]
    fn a_resumption_is_held_against_a_second() {
        let row = |millis| Measurement {
            p50_ms: Some(millis),
            ..Measurement::named(&format!("1000 {RESUMED}"))
        };
        let judged = [row(999.0), row(1_001.0)].map(|row| goals(&[row])[0].is_met());
        assert_eq!(judged, [true, false]);
    }
}
