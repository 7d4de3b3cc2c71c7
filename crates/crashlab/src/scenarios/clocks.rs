//! The wall clock of one of three coordinators is set hours ahead and hours back while leases are held.
//!
//! Time is the database's, so this must have no effect: no lease ends early or late, no token is refused, and no
//! running coordinator is reported as silent. A build that decides by its machine's clock (bug 29 of the museum)
//! fails here.

use anyhow::{Context, Result, ensure};
use historyck::event::Phase;
use serde_json::Value;

use super::database::{COORDINATORS, EVENTS_BETWEEN};
use super::outages::{HELD, LONG_LEASE_MS, hold, still_theirs};
use super::{LabOptions, Tally};
use crate::crash_scenario::CrashScenario;
use crate::rng::SeededRng;
use crate::test_cluster::TestCluster;
use crate::waits::{self, within};

const HOUR_MS: i64 = 3_600_000;
/// Ahead, back beyond the start, ahead by more than any lease or token lasts, and correct again.
const JUMPS_MS: [i64; 4] = [3 * HOUR_MS, -5 * HOUR_MS, 48 * HOUR_MS, 0];
/// A coordinator records that it is alive every few seconds, by the database's clock. Even on a slow machine it is
/// not silent for this long.
const SILENT_MS_MAX: u64 = HOUR_MS as u64 / 2;

pub(crate) async fn that_jump_on_one_of_three(options: &LabOptions) -> Result<Tally> {
    let seed = options.seed ^ 0xdb05;
    let mut rng = SeededRng::new(seed);
    let cluster = TestCluster::new(&options.binary, options.mutant, &mut rng)?;
    let cluster = cluster.on_a_database(COORDINATORS, &mut rng)?.with_clocks()?;
    // One machine is hours behind from the start.
    cluster.set_clock(0, -7 * HOUR_MS)?;
    let mut scenario = CrashScenario::on(cluster, rng, seed)?;
    let held = within("leases to be granted", hold(&scenario, LONG_LEASE_MS)).await??;
    scenario.start_load();
    for (n, ahead_ms) in JUMPS_MS.into_iter().enumerate() {
        scenario.wait_for_events(EVENTS_BETWEEN).await?;
        let victim = n % COORDINATORS;
        scenario.note("clock set", Phase::Begin, Some(&format!("{ahead_ms} ms at {victim}")));
        scenario.cluster.set_clock(victim, ahead_ms)?;
        scenario.wait_until_all_serve(&format!("clock-{n}")).await?;
        tokio::task::block_in_place(|| all_are_heard(&scenario.cluster))?;
    }
    scenario.expect_all_running()?;
    let kept = within("leases to be honoured", still_theirs(&scenario, &held)).await??;
    ensure!(kept == held.len() && kept == HELD as usize, "only {kept} of {HELD} leases were kept");
    scenario.settle("pg-clocks", options).await
}

/// Checks that `tenure coordinators` lists all of them, each alive recently.
fn all_are_heard(cluster: &TestCluster) -> Result<()> {
    let store = cluster.store();
    let ran =
        waits::run(&mut cluster.tenure(&["coordinators", "--json", "--store", &store], None))?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let listed: Vec<Value> = serde_json::from_str(&said).with_context(|| {
        format!("coordinators said {said:?} and {}", String::from_utf8_lossy(&ran.stderr))
    })?;
    ensure!(listed.len() == COORDINATORS, "there are {COORDINATORS}, and these are listed: {said}");
    let is_heard =
        |fellow: &Value| fellow["silentMs"].as_u64().is_some_and(|ms| ms < SILENT_MS_MAX);
    ensure!(listed.iter().all(is_heard), "somebody's clock shows: {said}");
    Ok(())
}
