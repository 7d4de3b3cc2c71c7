//! Durable runs while servers die: at every named fault point, which is inside calls that record, inside deliveries of
//! messages between the tasks of a run, and between them. Each step and each child is there once afterwards.

use anyhow::{Context, Result, ensure};
use faultpoint::{Point, StoreKind};

use super::points::{die_at, places};
use super::{LabOptions, Tally};
use crate::crash_scenario::CrashScenario;
use crate::load::durable::DurableLoad;
use crate::rng::SeededRng;
use crate::test_cluster::TestCluster;

const CLIENTS: usize = 6;
const WORKERS: usize = 4;
const COORDINATORS: usize = 3;
/// The coordinator that dies, where several share a database.
const VICTIM: usize = 2;
/// Events to wait for before the first death, so that there are leases and waits.
const EVENTS_FIRST: usize = 100;

pub(crate) async fn killed_at_every_place(options: &LabOptions) -> Result<Tally> {
    let scenario = CrashScenario::begin(options, options.seed ^ 0xd04a)?;
    kill_all(scenario, 0, &places(StoreKind::Sqlite), "durable", options).await
}

pub(crate) async fn one_of_three_killed_at_every_place(options: &LabOptions) -> Result<Tally> {
    let seed = options.seed ^ 0xd04b;
    let mut rng = SeededRng::new(seed);
    let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?;
    let cluster = cluster.on_a_database(COORDINATORS, &mut rng)?;
    let scenario = CrashScenario::on(cluster, rng, seed)?;
    // Leases are extended only after a time without any running coordinator.
    let is_passed = |point: &&Point| !point.name.starts_with("recover.");
    let places: Vec<&Point> = places(StoreKind::Postgres).into_iter().filter(is_passed).collect();
    kill_all(scenario, VICTIM, &places, "pg-durable", options).await
}

async fn kill_all(
    mut scenario: CrashScenario,
    victim: usize,
    places: &[&'static Point],
    name: &str,
    options: &LabOptions,
) -> Result<Tally> {
    let load = DurableLoad::start(&scenario.load, CLIENTS, WORKERS);
    load.wait_for_events(EVENTS_FIRST).await?;
    tokio::task::block_in_place(|| scenario.kill(victim, "to begin with"))?;
    for point in places {
        let died = die_at(&mut scenario, victim, point).await;
        died.with_context(|| format!("at {}", point.name))?;
    }
    tokio::task::block_in_place(|| scenario.restart_dead())?;
    let (events, expected) = load.settle(name, &options.keep).await?;
    let (mut tally, tasks) = tokio::task::block_in_place(|| scenario.kill_all_and_verify())?;
    ensure!(tasks == expected, "{tasks} tasks are stored, and runs and children are {expected}");
    (tally.events, tally.runs, tally.points) = (events, tasks, places.len());
    Ok(tally)
}
