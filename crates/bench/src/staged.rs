//! Plans at a steady rate: runs of many stages, or of steps side by side with a join, beside plain tasks.
//!
//! Each stage is leased with the report of the one before it, as the SDK does; each step side by side is a task. Stages are compared
//! with the same number of plain tasks, each submitted, leased and reported: they save the submissions, the rows, the records
//! and the polls.

use crate::error::BenchError;
use crate::goal::{Goal, Side, Unit};
use crate::load;
use crate::measurement::{Measurement, Mode};
use crate::plan::{Options, PROMISED, median_row, row_of};
use crate::remote::PlanShape;
use crate::server::Servers;
use crate::shape::rounds;
use crate::store_factory::StoreFactory;

/// The most that a plan of five stages may cost, as a share of five plain tasks.
const SHARE_MAX: f64 = 65.0;

/// Plans of five stages, and of five joined steps, per second, in batches.
const BATCHED: f64 = 7_000.0;
const JOINED: f64 = 3_000.0;

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    plan: PlanShape,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    let none = PlanShape::None;
    let loads =
        [(none, Mode::Batch), (plan, Mode::Batch), (none, Mode::Single), (plan, Mode::Single)];
    let rounds = rounds(options.span);
    let mut seen: [Vec<Measurement>; 4] = Default::default();
    for round in 0..rounds {
        progress("plans", round as f64 / rounds as f64);
        for ((plan, mode), seen) in loads.iter().zip(&mut seen) {
            seen.push(served(options, stores, *plan, *mode).await?);
        }
    }
    Ok(seen.into_iter().filter_map(median_row).collect())
}

async fn served(
    options: &Options,
    stores: &StoreFactory,
    plan: PlanShape,
    mode: Mode,
) -> Result<Measurement, BenchError> {
    let (servers, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let remote = servers.remote.with(mode, "bench").with_plan(plan);
    let seen = load::observe(&remote, mode, PROMISED, options.span, &servers.monitored).await?;
    let rss_mib = servers.monitored.rss_mib();
    servers.kill().await?;
    Ok(Measurement { rss_mib, ..row_of(&name(plan), mode, PROMISED, &seen) })
}

fn name(plan: PlanShape) -> String {
    match plan {
        PlanShape::None => "lifecycles".to_owned(),
        PlanShape::Stages(stages) => format!("plans of {stages} stages"),
        PlanShape::Joined(steps) => format!("plans of {steps} joined steps"),
    }
}

/// The goals of plans of five stages, or of five steps with a join.
pub(crate) fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let find =
        |plan| rows.iter().find(|row| row.name == name(plan) && row.mode == Some(Mode::Batch));
    let rate = |plan, limit| {
        let measured = find(plan)?.lifecycles_per_second?;
        let figure = format!("{}, batch", name(plan));
        Some(Goal { figure, side: Side::AtLeast, limit, unit: Unit::PerSecond, measured })
    };
    let joined = rate(PlanShape::Joined(5), JOINED);
    let Some(plans) = find(PlanShape::Stages(5)) else { return joined.into_iter().collect() };
    let rate = rate(PlanShape::Stages(5), BATCHED);
    let plain = find(PlanShape::None).and_then(|row| row.cpu_micros_per_lifecycle);
    let share = plans.cpu_micros_per_lifecycle.zip(plain).map(|(plan, plain)| Goal {
        figure: "processor time of a plan of 5 stages, of five plain tasks".to_owned(),
        side: Side::AtMost,
        limit: SHARE_MAX,
        unit: Unit::Percent,
        measured: plan / (5.0 * plain) * 100.0,
    });
    [rate, share, joined].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_compared_with_as_many_plain_tasks_as_it_has_stages() {
        let row = |plan, rate, micros| Measurement {
            mode: Some(Mode::Batch),
            lifecycles_per_second: Some(rate),
            cpu_micros_per_lifecycle: Some(micros),
            ..Measurement::named(&name(plan))
        };
        let (plain, staged) = (PlanShape::None, PlanShape::Stages(5));
        let judged = goals(&[row(plain, 20_000.0, 100.0), row(staged, 6_999.0, 325.0)]);
        assert_eq!(judged.iter().map(Goal::is_met).collect::<Vec<_>>(), [false, true]);
        assert_eq!(judged[1].measured, 65.0);
        let judged = goals(&[row(PlanShape::Joined(5), 3_000.0, 500.0)]);
        assert_eq!(judged.iter().map(Goal::is_met).collect::<Vec<_>>(), [true]);
    }
}
