//! Plans in sequence: runs of many stages, beside as many plain tasks.
//!
//! Each stage is leased and reported by itself. The comparison is the same number of plain tasks, each submitted, leased and reported:
//! a plan saves the submissions, the rows and the records.

use crate::error::BenchError;
use crate::goal::{Goal, Side, Unit};
use crate::load;
use crate::measurement::{Measurement, Mode};
use crate::plan::{Options, PROMISED, median_row, row_of};
use crate::server::Servers;
use crate::shape::rounds;
use crate::store_factory::StoreFactory;

/// The most that a plan of five stages may cost, as a share of five plain tasks.
const SHARE_MAX: f64 = 65.0;

/// Plans of five stages per second, in batches.
const BATCHED: f64 = 7_000.0;

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    stages: usize,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let loads =
        [(0, Mode::Batch), (stages, Mode::Batch), (0, Mode::Single), (stages, Mode::Single)];
    let rounds = rounds(options.span);
    let mut seen: [Vec<Measurement>; 4] = Default::default();
    for round in 0..rounds {
        progress("plans", round as f64 / rounds as f64);
        for ((stages, mode), seen) in loads.iter().zip(&mut seen) {
            seen.push(served(options, stores, *stages, *mode).await?);
        }
    }
    Ok(seen.into_iter().filter_map(median_row).collect())
}

async fn served(
    options: &Options,
    stores: &StoreFactory,
    stages: usize,
    mode: Mode,
) -> Result<Measurement, BenchError> {
    let (servers, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let remote = servers.remote.with(mode, "bench").with_stages(stages);
    let seen = load::observe(&remote, mode, PROMISED, options.span, &servers.monitored).await?;
    let rss_mib = servers.monitored.rss_mib();
    servers.kill().await?;
    Ok(Measurement { rss_mib, ..row_of(&name(stages), mode, PROMISED, &seen) })
}

fn name(stages: usize) -> String {
    match stages {
        0 => "lifecycles".to_owned(),
        stages => format!("plans of {stages} stages"),
    }
}

/// The goals of plans of five stages.
pub(crate) fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let find =
        |stages, mode| rows.iter().find(|row| row.name == name(stages) && row.mode == Some(mode));
    let Some(plans) = find(5, Mode::Batch) else { return Vec::new() };
    let rate = plans.lifecycles_per_second.map(|measured| Goal {
        figure: "plans of 5 stages, batch".to_owned(),
        side: Side::AtLeast,
        limit: BATCHED,
        unit: Unit::PerSecond,
        measured,
    });
    let plain = find(0, Mode::Batch).and_then(|row| row.cpu_micros_per_lifecycle);
    let share = plans.cpu_micros_per_lifecycle.zip(plain).map(|(plan, plain)| Goal {
        figure: "processor time of a plan of 5 stages, of five plain tasks".to_owned(),
        side: Side::AtMost,
        limit: SHARE_MAX,
        unit: Unit::Percent,
        measured: plan / (5.0 * plain) * 100.0,
    });
    [rate, share].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_compared_with_as_many_plain_tasks_as_it_has_stages() {
        let row = |stages, rate, micros| Measurement {
            mode: Some(Mode::Batch),
            lifecycles_per_second: Some(rate),
            cpu_micros_per_lifecycle: Some(micros),
            ..Measurement::named(&name(stages))
        };
        let goals = goals(&[row(0, 20_000.0, 100.0), row(5, 6_999.0, 325.0)]);
        assert_eq!(goals.iter().map(Goal::is_met).collect::<Vec<_>>(), [false, true]);
        assert_eq!(goals[1].measured, 65.0);
    }
}
