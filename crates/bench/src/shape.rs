//! Durable runs: many steps in a row, many children of one parent, many runs asleep, and one run with very many steps.
//!
//! A run of `steps:5` is submitted, leased, records four steps with a call each, and sends the fifth with its report:
//! six acknowledged calls. `fanout:10000` is one parent that starts so many children, waits for all of them, and ends;
//! it is compared with as many plain tasks, submitted in calls of the same size and executed by the same workers.

use std::str::FromStr;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::BenchError;
use crate::goal::{Goal, Side, Unit};
use crate::latency::PAUSE;
use crate::load::Observed;
use crate::load_client::{LoadClient, LoadTarget, micros_now};
use crate::measurement::{Measurement, Mode};
use crate::plan::{COMPARABLE, Options, PROMISED, Target, median_row, row_of, serve};
use crate::remote::{PlanShape, Remote};
use crate::server::Servers;
use crate::store_factory::StoreFactory;
use crate::{effects, fanout, limited, orders, parallel, savepoints, sdk, sleepers, staged, tails};

/// The row of a single step.
const ONE_MORE: &str = "one more step";

/// Alternated with each other, for a median.
const ROUNDS: usize = 3;

/// The most steps of a run: beyond it a lifecycle takes longer than a measurement.
const STEPS_MAX: usize = 1_000;

/// The most stages of a plan: as many as one task may have.
const STAGES_MAX: usize = 100;

/// The most children: as many as one parent may have.
const CHILDREN_MAX: usize = 10_000;

/// The most steps side by side: as many as one plan may have, with the one that joins them.
const PARALLEL_MAX: usize = verdict::plan::limits::STEPS_MAX - 1;

/// The most aggregates: ten effects of each are kept in memory.
const AGGREGATES_MAX: usize = 10_000;

/// The most work orders: a hundred times as many artifacts are listed.
const ORDERS_MAX: usize = 10_000;

/// The most runs asleep and the most steps of one run that have goals.
const MANY: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// So many steps, one after the other.
    Steps(usize),
    /// One parent with so many children.
    Fanout(usize),
    /// So many runs that wait for a time far ahead.
    Sleepers(usize),
    /// One run with so many steps, and savepoints among them.
    Savepoints(usize),
    /// A plan of so many stages.
    Plan(usize),
    /// One plan of so many steps side by side, and one that joins them.
    Parallel(usize),
    /// Such plans at a steady rate.
    Joined(usize),
    /// Lifecycles that share so many flow keys.
    Flow(usize),
    /// Effects of so many aggregates, and work that is pushed.
    Effects(usize),
    /// So many work orders of a deployment.
    Orders(usize),
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let strange = || {
            "a shape is steps:COUNT, fanout:COUNT, sleepers:COUNT, savepoints:COUNT, plan:COUNT, parallel:COUNT, joined:COUNT, flow:COUNT, effects:COUNT or orders:COUNT, such as steps:5"
                .to_owned()
        };
        let (name, count) = text.split_once(':').ok_or_else(strange)?;
        let count: usize = count.parse().map_err(|_| strange())?;
        let (max, shape) = match name {
            "steps" => (STEPS_MAX, Shape::Steps(count)),
            "fanout" => (CHILDREN_MAX, Shape::Fanout(count)),
            "sleepers" => (MANY, Shape::Sleepers(count)),
            "savepoints" => (MANY, Shape::Savepoints(count)),
            "plan" => (STAGES_MAX, Shape::Plan(count)),
            "parallel" => (PARALLEL_MAX, Shape::Parallel(count)),
            "joined" => (STAGES_MAX, Shape::Joined(count)),
            "flow" => (MANY, Shape::Flow(count)),
            "effects" => (AGGREGATES_MAX, Shape::Effects(count)),
            "orders" => (ORDERS_MAX, Shape::Orders(count)),
            _ => return Err(strange()),
        };
        match (1..=max).contains(&count) {
            true => Ok(shape),
            false => Err(format!("{name} takes a count between 1 and {max}")),
        }
    }
}

pub(crate) async fn measure(
    options: &Options,
    stores: &StoreFactory,
    shape: Shape,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    match shape {
        Shape::Steps(steps) => measure_steps(options, stores, steps, progress).await,
        Shape::Fanout(children) => fanout::measure(options, stores, children, progress).await,
        Shape::Sleepers(runs) => sleepers::measure(options, stores, runs, progress).await,
        Shape::Savepoints(steps) => savepoints::measure(options, stores, steps, progress).await,
        Shape::Plan(stages) => {
            staged::measure(options, stores, PlanShape::Stages(stages), progress).await
        }
        Shape::Joined(steps) => {
            staged::measure(options, stores, PlanShape::Joined(steps), progress).await
        }
        Shape::Parallel(steps) => parallel::measure(options, stores, steps, progress).await,
        Shape::Flow(keys) => limited::measure(options, stores, keys, progress).await,
        Shape::Effects(count) => effects::measure(options, stores, count, progress).await,
        Shape::Orders(count) => orders::measure(options, stores, count, progress).await,
    }
}

pub(crate) fn rounds(span: Duration) -> usize {
    if span < COMPARABLE { 1 } else { ROUNDS }
}

async fn measure_steps(
    options: &Options,
    stores: &StoreFactory,
    steps: usize,
    progress: &mut impl FnMut(&str, f64),
) -> Result<Vec<Measurement>, BenchError> {
    progress("one more step", 0.0);
    let mut rows = one_more_step(options, stores).await?;
    let loads = [(0, Mode::Batch), (steps, Mode::Batch), (0, Mode::Single), (steps, Mode::Single)];
    let rounds = rounds(options.span);
    let mut seen: [Vec<Measurement>; 4] = Default::default();
    let mut by_sdk = Vec::new();
    for round in 0..rounds {
        progress("runs with steps", round as f64 / rounds as f64);
        for ((steps, mode), seen) in loads.iter().zip(&mut seen) {
            let load = serve(options, stores, 1, *steps, (*mode, PROMISED)).await?;
            seen.push(served(*steps, *mode, &load));
        }
        by_sdk.push(sdk::measure_steps(options, stores, steps).await?);
    }
    rows.extend(seen.into_iter().filter_map(median_row));
    rows.extend(median_row(by_sdk));
    Ok(rows)
}

fn served(steps: usize, mode: Mode, (seen, rss_mib): &(Observed, Option<f64>)) -> Measurement {
    let name = if steps == 0 { "lifecycles".to_owned() } else { format!("runs of {steps} steps") };
    Measurement { rss_mib: *rss_mib, ..row_of(&name, mode, PROMISED, seen) }
}

/// The time of one checkpoint call on an idle server, beside what a commit costs.
async fn one_more_step(
    options: &Options,
    stores: &StoreFactory,
) -> Result<Vec<Measurement>, BenchError> {
    let (servers, _) = Servers::on_new_store(&options.program, stores, 1).await?;
    let micros = steps_in_turn(&servers.remote.with(Mode::Single, "bench"), options.span).await?;
    servers.kill().await?;
    let row =
        Measurement { concurrency: Some(1), ..Measurement::named(ONE_MORE).with_latencies(micros) };
    match options.target {
        Target::Own { .. } => Ok(vec![row, tails::syncs(stores.state_dir(), options.span).await?]),
        _ => Ok(vec![row]),
    }
}

async fn steps_in_turn(remote: &Remote, span: Duration) -> Result<Vec<u64>, BenchError> {
    let mut client = remote.open().await?;
    client.submit(1).await?;
    let leased = client.lease(1).await?;
    let Some(leased) = leased.first() else { return Ok(Vec::new()) };
    let (end, mut micros, mut step) = (Instant::now() + span, Vec::new(), 0);
    while Instant::now() < end {
        step += 1;
        let begun = micros_now();
        client.checkpoint_one(leased, step).await?;
        micros.push(micros_now() - begun);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(micros)
}

/// The goals of durable runs, for the shapes that have some.
pub(crate) fn goals(rows: &[Measurement]) -> Vec<Goal> {
    let of_many =
        [sleepers::goals(rows), savepoints::goals(rows), staged::goals(rows), limited::goals(rows)]
            .concat();
    let of_calls = [effects::goals(rows), orders::goals(rows)].concat();
    [step_goals(rows), step_latency_goal(rows), fanout_goals(rows), of_many, of_calls].concat()
}

fn find<'a>(rows: &'a [Measurement], name: &str, mode: Option<Mode>) -> Option<&'a Measurement> {
    rows.iter().find(|row| row.name == name && row.mode == mode)
}

fn step_goals(rows: &[Measurement]) -> Vec<Goal> {
    let is_file = find(rows, tails::SYNC, None).is_some();
    let limits: &[(Mode, f64)] = match is_file {
        true => &[(Mode::Batch, 8_000.0), (Mode::Single, 3_000.0), (Mode::Sdk, 2_500.0)],
        false => &[(Mode::Batch, 1_500.0)],
    };
    let goal = |(mode, limit): &(Mode, f64)| {
        let row = find(rows, "runs of 5 steps", Some(*mode))?;
        Some(Goal {
            figure: format!("runs of 5 steps, {mode:?}").to_lowercase(),
            side: Side::AtLeast,
            limit: *limit,
            unit: Unit::PerSecond,
            measured: row.lifecycles_per_second?,
        })
    };
    limits.iter().filter_map(goal).collect()
}

/// A step is one commit and half a millisecond.
fn step_latency_goal(rows: &[Measurement]) -> Vec<Goal> {
    let middle = |name| find(rows, name, None).and_then(|row| row.p50_ms);
    let goal = middle(ONE_MORE).zip(middle(tails::SYNC)).map(|(measured, sync)| Goal {
        figure: "one more step, p50".to_owned(),
        side: Side::AtMost,
        limit: sync + 0.5,
        unit: Unit::Milliseconds,
        measured,
    });
    goal.into_iter().collect()
}

/// Children with a join, as a share of as many plain tasks, by as many coordinators.
fn fanout_goals(rows: &[Measurement]) -> Vec<Goal> {
    let joined = rows.iter().filter(|row| row.name.contains(fanout::JOINED));
    let goal = |row: &Measurement| {
        let plain = row.name.replace(fanout::JOINED, fanout::PLAIN);
        let plain = find(rows, &plain, row.mode)?.lifecycles_per_second?;
        let is_one = !row.name.contains("coordinators");
        Some(Goal {
            figure: format!("of the rate of plain tasks: {}", row.name),
            side: Side::AtLeast,
            limit: if is_one { 80.0 } else { 60.0 },
            unit: Unit::Percent,
            measured: row.lifecycles_per_second? / plain * 100.0,
        })
    };
    joined.filter_map(goal).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_a_name_and_a_count_within_bounds() {
        assert_eq!("steps:5".parse(), Ok(Shape::Steps(5)));
        assert_eq!("fanout:10000".parse(), Ok(Shape::Fanout(10_000)));
        assert_eq!("sleepers:1000000".parse(), Ok(Shape::Sleepers(1_000_000)));
        assert_eq!("savepoints:1".parse(), Ok(Shape::Savepoints(1)));
        assert_eq!("plan:5".parse(), Ok(Shape::Plan(5)));
        assert_eq!("joined:5".parse(), Ok(Shape::Joined(5)));
        for bad in [
            "steps",
            "steps:0",
            "steps:x",
            "fanout:10001",
            "sleepers:1000001",
            "plan:101",
            "tree:3",
            "steps:-1",
            "",
        ] {
            let refused = bad.parse::<Shape>().unwrap_err();
            assert!(refused.contains("steps") || refused.contains("between"), "{bad}: {refused}");
        }
    }
}
