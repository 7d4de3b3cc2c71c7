//! Three coordinators over one database: one of them dies, or the database does.

use std::time::Duration;

use anyhow::{Context, Result};
use faultpoint::{Point, StoreKind};
use historyck::event::{DOWN, Phase};

use super::points::{die_at, places};
use super::{LabOptions, PERCENT_ON_A_DATABASE, Tally};
use crate::crash_scenario::CrashScenario;
use crate::load::LEASE_MS;
use crate::rng::SeededRng;
use crate::test_cluster::TestCluster;

pub(super) const COORDINATORS: usize = 3;
/// The coordinator that dies at fault points; the others continue, so that locks and load come from them.
const VICTIM: usize = 2;
/// Events to wait for between two faults, so that each fault hits work in progress.
pub(super) const EVENTS_BETWEEN: usize = 60;
/// Longest time until the next random kill.
const LIFE_MS_MAX: u64 = 300;
/// How often connections are cut, statements cancelled and tables locked.
const CUTS: usize = 12;
/// Longer than a batch waits for a lock.
const LOCK_SECONDS: u32 = 3;
/// How often the database is killed.
const FALLS: usize = 4;
/// How much longer than a lease the database stays down; no worker may lose a lease because of it.
const AWAY_MS_MAX: u64 = 1_500;

fn begin(options: &LabOptions, salt: u64) -> Result<CrashScenario> {
    let seed = options.seed ^ salt;
    let mut rng = SeededRng::new(seed);
    let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?;
    let cluster = cluster.on_a_database(COORDINATORS, &mut rng)?;
    let mut scenario = CrashScenario::on(cluster, rng, seed)?;
    scenario.start_load();
    Ok(scenario)
}

/// The fault points that such a coordinator reaches. The first coordinator created the first key, and leases are
/// extended only after a time without any running coordinator, which does not occur here.
fn passed() -> Vec<&'static Point> {
    let is_passed = |point: &&Point| !point.name.starts_with("recover.");
    places(StoreKind::Postgres).into_iter().filter(is_passed).collect()
}

pub(crate) async fn one_of_three_killed_at_every_place(options: &LabOptions) -> Result<Tally> {
    let places = passed();
    let mut scenario = begin(options, 0xdb01)?;
    scenario.wait_for_events(EVENTS_BETWEEN).await?;
    tokio::task::block_in_place(|| scenario.kill(VICTIM, "to begin with"))?;
    let wanted = options.kills * PERCENT_ON_A_DATABASE / 200;
    for _ in 0..wanted.div_ceil(places.len()).max(1) {
        for point in &places {
            die_at(&mut scenario, VICTIM, point)
                .await
                .with_context(|| format!("at {}", point.name))?;
        }
    }
    let tally = scenario.settle("pg-points", options).await?;
    Ok(Tally { points: places.len(), ..tally })
}

pub(crate) async fn one_of_three_killed_at_any_time(options: &LabOptions) -> Result<Tally> {
    let mut scenario = begin(options, 0xdb02)?;
    for _ in 0..(options.kills * PERCENT_ON_A_DATABASE / 200).max(1) {
        let victim = scenario.rng.below(COORDINATORS as u64) as usize;
        let life = Duration::from_millis(scenario.rng.below(LIFE_MS_MAX));
        tokio::time::sleep(life).await;
        tokio::task::block_in_place(|| scenario.kill(victim, "at any time"))?;
        tokio::task::block_in_place(|| scenario.restart(victim, None))?;
    }
    scenario.settle("pg-random", options).await
}

/// In turn, every session is terminated, every statement times out, or another session locks a table.
pub(crate) async fn sessions_cut_and_statements_ended(options: &LabOptions) -> Result<Tally> {
    let mut scenario = begin(options, 0xdb03)?;
    for n in 0..CUTS {
        scenario.wait_for_events(EVENTS_BETWEEN).await?;
        let fault = ["sessions cut", "statements ended", "table held"][n % 3];
        scenario.note(fault, Phase::Begin, None);
        tokio::task::block_in_place(|| -> Result<()> {
            let database = scenario.cluster.database()?;
            match n % 3 {
                0 => database.cut_connections(),
                1 => database.time_statements_out(),
                _ => database.hold_table(LOCK_SECONDS),
            }
        })?;
        tokio::task::block_in_place(|| scenario.verify()).with_context(|| fault.to_owned())?;
        scenario.expect_all_running()?;
    }
    scenario.settle("pg-cut", options).await
}

/// The database is killed as by a power failure, stays down for a while, and is started again.
pub(crate) async fn killed_under_its_coordinators(options: &LabOptions) -> Result<Tally> {
    let mut scenario = begin(options, 0xdb04)?;
    for n in 0..FALLS {
        scenario.wait_for_events(EVENTS_BETWEEN).await?;
        scenario.note(DOWN, Phase::Begin, Some("the database"));
        tokio::task::block_in_place(|| scenario.cluster.database()?.crash())?;
        let away = Duration::from_millis(LEASE_MS + scenario.rng.below(AWAY_MS_MAX));
        tokio::time::sleep(away).await;
        tokio::task::block_in_place(|| scenario.cluster.database()?.restart())?;
        scenario.note(DOWN, Phase::End, Some("the database"));
        scenario.wait_until_all_serve(&format!("fall-{n}")).await?;
        tokio::task::block_in_place(|| scenario.verify()).context("after the database died")?;
    }
    scenario.settle("pg-restart", options).await
}
