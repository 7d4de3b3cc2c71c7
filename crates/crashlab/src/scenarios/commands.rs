//! Commands on the file of a store, killed at their named places: what they leave is whole, and they can be
//! repeated.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use faultpoint::{POINTS, Point, Reached};

use super::{Tally, Wishes};
use crate::storm::Storm;
use crate::waits;

/// What must have happened before there is something to copy.
const EVENTS_FIRST: usize = 100;
/// A wall clock that is 25 hours ahead, so that what ended just now is old enough to be forgotten.
const TOMORROW: &str = "skew@90000000";

pub(crate) async fn killed_while_copying_and_forgetting(wishes: &Wishes) -> Result<Tally> {
    let mut storm = Storm::begin(wishes, wishes.seed ^ 0xc0)?;
    storm.rage();
    storm.further(EVENTS_FIRST).await?;
    let mut killed = 0;
    let backup = storm.site.path().join("backup.db");
    // Beside a server that works.
    for point in places(Reached::BackingUp) {
        tokio::task::block_in_place(|| {
            dies(
                &storm,
                &["backup", path(&backup)?, "--force", "--store", &storm.site.store()],
                point,
                None,
            )
        })?;
        killed += 1;
    }
    tokio::task::block_in_place(|| {
        runs(&storm, &["backup", path(&backup)?, "--force", "--store", &storm.site.store()])
    })?;
    let tasks = storm.site.verify_file(&backup)?;
    ensure!(tasks > 0, "a backup under load has something in it");
    tokio::task::block_in_place(|| restore(&storm, &backup, tasks))?;
    killed += places(Reached::Restoring).count();
    let mut tally = storm.settle("commands", wishes).await?;
    killed += tokio::task::block_in_place(|| prune(&storm))?;
    tally.kills += killed;
    tally.points = places(Reached::BackingUp).count()
        + places(Reached::Restoring).count()
        + places(Reached::Pruning).count();
    Ok(tally)
}

pub(super) fn places(reached: Reached) -> impl Iterator<Item = &'static Point> {
    POINTS.iter().filter(move |point| point.reached == reached)
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a temporary path is text")
}

/// Runs a command that is killed at a place.
pub(super) fn dies(
    storm: &Storm,
    arguments: &[&str],
    point: &Point,
    also: Option<&str>,
) -> Result<()> {
    let blow = format!("kill@{}", point.name);
    let chosen = also.map_or(blow.clone(), |also| format!("{blow},{also}"));
    let ran = waits::run(&mut storm.site.tenure(arguments, Some(&chosen)))?;
    if std::os::unix::process::ExitStatusExt::signal(&ran.status).is_none() {
        bail!("{blow} was never reached: {}", String::from_utf8_lossy(&ran.stderr));
    }
    Ok(())
}

fn runs(storm: &Storm, arguments: &[&str]) -> Result<()> {
    let ran = waits::run(&mut storm.site.tenure(arguments, None))?;
    ensure!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Ok(())
}

/// A restore that dies leaves the old store, with what is in its log only, or the new one, and can be repeated.
fn restore(storm: &Storm, backup: &Path, tasks: u64) -> Result<()> {
    let target = storm.site.path().join("restored.db");
    let to = format!("sqlite:{}", target.display());
    let arguments = ["restore", path(backup)?, "--force", "--store", &to];
    runs(storm, &arguments)?;
    for point in places(Reached::Restoring) {
        let before = leave_a_log(storm, &target)?;
        ensure!(before < tasks, "what is in the log can be told from what is in the backup");
        dies(storm, &arguments, point, None)?;
        let found =
            storm.site.verify_file(&target).with_context(|| format!("at {}", point.name))?;
        let expected = if point.name == "restore.named" { tasks } else { before };
        ensure!(found == expected, "{}: {found} of {expected} tasks are there", point.name);
        runs(storm, &arguments)?;
        ensure!(storm.site.verify_file(&target)? == tasks, "a repeated restore is whole");
    }
    Ok(())
}

/// Kills a command whose commit is then in the log of the store and not in its file. How many tasks are left by it.
fn leave_a_log(storm: &Storm, store: &Path) -> Result<u64> {
    let to = format!("sqlite:{}", store.display());
    let arguments = ["prune", "--older-than", "24h", "--store", &to];
    let after_commit = places(Reached::Pruning).find(|point| point.name == "prune.after_commit");
    dies(storm, &arguments, after_commit.context("a place of the table")?, Some(TOMORROW))?;
    let copy = storm.site.path().join("beside.db");
    for suffix in ["", "-wal"] {
        let from = format!("{}{suffix}", path(store)?);
        std::fs::copy(from, format!("{}{suffix}", path(&copy)?))?;
    }
    storm.site.verify_file(&copy)
}

/// Forgetting is all or nothing, slice by slice.
fn prune(storm: &Storm) -> Result<usize> {
    let to = storm.site.store();
    let arguments = ["prune", "--older-than", "24h", "--store", &to];
    let mut killed = 0;
    let before = storm.site.verify()?;
    for point in places(Reached::Pruning) {
        dies(storm, &arguments, point, Some(TOMORROW))
            .with_context(|| format!("at {}", point.name))?;
        killed += 1;
        let left = storm.site.verify().with_context(|| format!("at {}", point.name))?;
        let is_whole =
            if point.name.ends_with("after_commit") { left == 1 } else { left == before };
        ensure!(is_whole, "{}: {left} of {before} tasks are left", point.name);
    }
    Ok(killed)
}
