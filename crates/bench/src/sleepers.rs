//! Many runs asleep: what they cost while nothing happens.
//!
//! Each run is leased and waits for a time far ahead. Then the server is left alone, and what it uses per second is
//! compared with what it used before the first run.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use crate::backlog;
use crate::error::BenchError;
use crate::goal::{Goal, Side, Unit};
use crate::load::{Loops, Tally};
use crate::load_client::{LoadClient, LoadTarget};
use crate::measurement::{Measurement, Mode};
use crate::plan::{COMPARABLE, Options};
use crate::remote::Remote;
use crate::resource_usage::Monitored;
use crate::server::Servers;
use crate::store_factory::StoreFactory;

/// What a row about the quiet time is called.
const ASLEEP: &str = "runs asleep, per second";
const NOTHING: &str = "nothing asleep, per second";

/// Runs per poll and concurrent workers.
const LEASES_PER_POLL: usize = 256;
const WORKERS: usize = 4;

/// Far beyond any measurement.
const WAKES_AT: &str = "2200-01-01T00:00:00Z";

/// After the last call the server still copies its log, which is work of the calls.
const SETTLING: Duration = Duration::from_secs(2);

/// A quiet time of less than this says nothing about half a percent of a processor.
const QUIET_MIN: Duration = Duration::from_secs(2);

/// The goal: so much of one processor, and nothing written.
const PERCENT_MAX: f64 = 0.5;

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    count: usize,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let (server, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let remote = server.remote.with(Mode::Batch, "sleepers");
    progress("an idle server", 0.0);
    let before = quiet(&server.monitored, options.span, NOTHING).await?;
    progress("runs fall asleep", 0.2);
    backlog::fill(&remote, count, &server.monitored).await?;
    let (count, fallen) = fall_asleep(&remote, &server.monitored, count).await?;
    progress("runs asleep", 0.8);
    let asleep = quiet(&server.monitored, options.span, &format!("{count} {ASLEEP}")).await?;
    server.kill().await?;
    Ok(vec![before, fallen, asleep])
}

/// What the servers use per second while nothing happens.
pub(crate) async fn quiet(
    monitored: &Monitored,
    span: Duration,
    name: &str,
) -> Result<Measurement, BenchError> {
    let is_trial = span < COMPARABLE;
    tokio::time::sleep(if is_trial { span } else { SETTLING }).await;
    let meter = monitored.begin().await?;
    tokio::time::sleep(if is_trial { span } else { span.max(QUIET_MIN) }).await;
    let (elapsed, used) = meter.end().await?;
    let row = used.put(Measurement::named(name), 1);
    let each = |used: Option<f64>| used.map(|used| used / elapsed.as_secs_f64());
    Ok(Measurement {
        cpu_micros_per_lifecycle: each(row.cpu_micros_per_lifecycle),
        database_micros_per_lifecycle: each(row.database_micros_per_lifecycle),
        bytes_per_lifecycle: each(row.bytes_per_lifecycle),
        client_micros_per_lifecycle: None,
        rss_mib: monitored.rss_mib(),
        ..row
    })
}

/// Returns how many runs sleep: nearly all of them.
async fn fall_asleep(
    remote: &Remote,
    monitored: &Monitored,
    count: usize,
) -> Result<(u64, Measurement), BenchError> {
    let (mut workers, tally): (Loops, Tally) = (JoinSet::new(), Tally::default());
    let meter = monitored.begin().await?;
    for _ in 0..WORKERS {
        let (mut client, tally) = (remote.open().await?, tally.clone());
        workers.spawn(async move {
            // Stops early: the last poll of each worker would wait for runs that never come.
            while (tally.count() as usize) < count.saturating_sub(LEASES_PER_POLL * WORKERS) {
                let leased = client.lease(LEASES_PER_POLL).await?;
                client.checkpoint_all(&leased, &wait()).await?;
                tally.ended(&leased);
            }
            Ok(())
        });
    }
    backlog::all(workers).await?;
    let fallen = tally.count();
    let (elapsed, used) = meter.end().await?;
    let row = Measurement {
        mode: Some(Mode::Batch),
        lifecycles_per_second: Some(fallen as f64 / elapsed.as_secs_f64()),
        rss_mib: monitored.rss_mib(),
        ..Measurement::named(&format!("{fallen} runs fall asleep"))
    };
    Ok((fallen, used.put(row, fallen)))
}

fn wait() -> String {
    let items = json!([{ "key": "sleep#1", "until": WAKES_AT }]);
    format!(r#""wait":{{"key":"wait:sleep#1","mode":"all","for":{items}}}"#)
}

/// What sleeping runs may cost.
pub(crate) fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let Some(row) = rows.iter().find(|row| row.name.ends_with(ASLEEP)) else { return Vec::new() };
    let goal = |figure: &str, limit, unit, measured: Option<f64>| {
        let figure = format!("{figure}: {}", row.name);
        Some(Goal { figure, side: Side::AtMost, limit, unit, measured: measured? })
    };
    let percent = row.cpu_micros_per_lifecycle.map(|micros| micros / 10_000.0);
    let goals = [
        goal("of a processor", PERCENT_MAX, Unit::Percent, percent),
        goal("bytes written", 0.0, Unit::PerSecond, row.bytes_per_lifecycle),
    ];
    goals.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_runs_are_held_against_half_a_percent_and_no_writes() {
        let row = Measurement {
            cpu_micros_per_lifecycle: Some(6_000.0),
            bytes_per_lifecycle: Some(0.0),
            ..Measurement::named(&format!("1000 {ASLEEP}"))
        };
        let judged: Vec<bool> = goals(&[row]).iter().map(Goal::is_met).collect();
        assert_eq!(judged, [false, true]);
        assert_eq!(goals(&[Measurement::named(NOTHING)]), []);
    }
}
