//! Commands on the file of a store, killed at their named fault points: the data they leave verifies, and they can be
//! repeated.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use faultpoint::{POINTS, Point, Trigger};

use super::{LabOptions, Tally};
use crate::crash_scenario::CrashScenario;
use crate::waits;

/// Events to wait for before there is something to copy.
const EVENTS_FIRST: usize = 100;
/// A wall clock that is 25 hours ahead, so that runs that ended just now are old enough for `prune`.
const TOMORROW: &str = "skew@90000000";

pub(crate) async fn killed_while_copying_and_forgetting(options: &LabOptions) -> Result<Tally> {
    let mut scenario = CrashScenario::begin(options, options.seed ^ 0xc0)?;
    scenario.start_load();
    scenario.wait_for_events(EVENTS_FIRST).await?;
    let mut killed = 0;
    let backup = scenario.cluster.path().join("backup.db");
    // While a server is running.
    for point in places(Trigger::BackingUp) {
        tokio::task::block_in_place(|| {
            dies(
                &scenario,
                &["backup", path(&backup)?, "--force", "--store", &scenario.cluster.store()],
                point,
                None,
            )
        })?;
        killed += 1;
    }
    tokio::task::block_in_place(|| {
        runs(
            &scenario,
            &["backup", path(&backup)?, "--force", "--store", &scenario.cluster.store()],
        )
    })?;
    let tasks = scenario.cluster.verify_file(&backup)?;
    ensure!(tasks > 0, "a backup under load has something in it");
    tokio::task::block_in_place(|| restore(&scenario, &backup, tasks))?;
    killed += places(Trigger::Restoring).count();
    let mut tally = scenario.settle("commands", options).await?;
    killed += tokio::task::block_in_place(|| prune(&scenario))?;
    tally.kills += killed;
    tally.points = places(Trigger::BackingUp).count()
        + places(Trigger::Restoring).count()
        + places(Trigger::Pruning).count();
    Ok(tally)
}

pub(super) fn places(reached: Trigger) -> impl Iterator<Item = &'static Point> {
    POINTS.iter().filter(move |point| point.trigger == reached)
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a temporary path is text")
}

/// Runs a command that is killed at a fault point.
pub(super) fn dies(
    scenario: &CrashScenario,
    arguments: &[&str],
    point: &Point,
    also: Option<&str>,
) -> Result<()> {
    let fault_spec = format!("kill@{}", point.name);
    let chosen = also.map_or(fault_spec.clone(), |also| format!("{fault_spec},{also}"));
    let ran = waits::run(&mut scenario.cluster.tenure(arguments, Some(&chosen)))?;
    if std::os::unix::process::ExitStatusExt::signal(&ran.status).is_none() {
        bail!("{fault_spec} was never reached: {}", String::from_utf8_lossy(&ran.stderr));
    }
    Ok(())
}

fn runs(scenario: &CrashScenario, arguments: &[&str]) -> Result<()> {
    let ran = waits::run(&mut scenario.cluster.tenure(arguments, None))?;
    ensure!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(())
}

/// A killed restore leaves the old store, including what is only in its WAL, or the new one, and can be repeated.
fn restore(scenario: &CrashScenario, backup: &Path, tasks: u64) -> Result<()> {
    let target = scenario.cluster.path().join("restored.db");
    let to = format!("sqlite:{}", target.display());
    let arguments = ["restore", path(backup)?, "--force", "--store", &to];
    runs(scenario, &arguments)?;
    for point in places(Trigger::Restoring) {
        let before = leave_a_log(scenario, &target)?;
        ensure!(before < tasks, "what is in the log can be told from what is in the backup");
        dies(scenario, &arguments, point, None)?;
        let found =
            scenario.cluster.verify_file(&target).with_context(|| format!("at {}", point.name))?;
        let expected = if point.name == "restore.named" { tasks } else { before };
        ensure!(found == expected, "{}: {found} of {expected} tasks are there", point.name);
        runs(scenario, &arguments)?;
        ensure!(scenario.cluster.verify_file(&target)? == tasks, "a repeated restore is whole");
    }
    Ok(())
}

/// Kills a command whose commit is then in the store's WAL but not in its file. Returns the number of tasks left.
fn leave_a_log(scenario: &CrashScenario, store: &Path) -> Result<u64> {
    let to = format!("sqlite:{}", store.display());
    let arguments = ["prune", "--older-than", "24h", "--store", &to];
    let after_commit = places(Trigger::Pruning).find(|point| point.name == "prune.after_commit");
    dies(scenario, &arguments, after_commit.context("a place of the table")?, Some(TOMORROW))?;
    let copy = scenario.cluster.path().join("beside.db");
    for suffix in ["", "-wal"] {
        let from = format!("{}{suffix}", path(store)?);
        std::fs::copy(from, format!("{}{suffix}", path(&copy)?))?;
    }
    scenario.cluster.verify_file(&copy)
}

/// Pruning is atomic for each slice.
fn prune(scenario: &CrashScenario) -> Result<usize> {
    let to = scenario.cluster.store();
    let arguments = ["prune", "--older-than", "24h", "--store", &to];
    let mut killed = 0;
    let before = scenario.cluster.verify()?;
    for point in places(Trigger::Pruning) {
        dies(scenario, &arguments, point, Some(TOMORROW))
            .with_context(|| format!("at {}", point.name))?;
        killed += 1;
        let left = scenario.cluster.verify().with_context(|| format!("at {}", point.name))?;
        let is_whole =
            if point.name.ends_with("after_commit") { left == 1 } else { left == before };
        ensure!(is_whole, "{}: {left} of {before} tasks are left", point.name);
    }
    Ok(killed)
}
