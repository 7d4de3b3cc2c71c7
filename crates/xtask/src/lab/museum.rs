//! `cargo xtask museum`: plays every bug of the museum; a test must catch it.
//!
//! A catcher is a test that runs first without the bug, where it must pass, and then with it, where it must fail. A
//! timeout counts as a failure. One catcher runs per processor: these are tests that the test runner also runs in
//! parallel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Build;
use super::exhibits::{Catcher, EXHIBITS, Exhibit};
use crate::{parallel, step_times};

/// The timeout as a multiple of the duration without a bug, so that it holds on a slow machine, too.
const TIMEOUT_TIMES: u32 = 5;
const TIMEOUT_MIN: Duration = Duration::from_secs(10);
/// The timeout without a bug, where nothing may hang.
const TIMEOUT_FIRST: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How a catcher ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CatcherEnd {
    Passed,
    Failed,
    Hung,
}

pub(crate) fn run(root: &Path, build: &Build) -> Result<()> {
    let catchers: BTreeSet<Catcher> = EXHIBITS.iter().map(|it| it.catcher).collect();
    let usual = parallel::for_each(catchers, |catcher| {
        usual_duration(root, build, catcher).map(|took| (catcher, took))
    })?;
    let usual: BTreeMap<Catcher, Duration> = usual.into_iter().collect();
    println!("{:>2}  {:9} {:28} {:>6}  bug", "no", "layer", "caught", "after");
    let ends = parallel::for_each(EXHIBITS, |it| play(root, build, it, usual[&it.catcher]))?;
    let outcomes = EXHIBITS.iter().zip(ends);
    let survivors: Vec<u8> = outcomes
        .filter(|(_, end)| *end == CatcherEnd::Passed)
        .map(|(exhibit, _)| exhibit.number)
        .collect();
    if !survivors.is_empty() {
        bail!("no test noticed {survivors:?} of {} bugs", EXHIBITS.len());
    }
    println!("{} bugs, all of them caught", EXHIBITS.len());
    Ok(())
}

/// Plays one bug, prints the result, and returns how its catcher ended.
fn play(root: &Path, build: &Build, exhibit: &Exhibit, usual: Duration) -> Result<CatcherEnd> {
    let Exhibit { how, catcher, .. } = *exhibit;
    let timeout = (usual * TIMEOUT_TIMES).max(TIMEOUT_MIN);
    let (end, took) = run_with_mutant(root, build, catcher, Some(exhibit.number), timeout)?;
    let caught = match end {
        CatcherEnd::Passed => "SURVIVED",
        CatcherEnd::Failed => "by a failing test",
        CatcherEnd::Hung => "by a test that never ends",
    };
    let note = format!("played as: {how}; noticed by {}", catcher.test);
    println!("{}", line(exhibit, catcher.layer, caught, took, &note));
    Ok(end)
}

/// How long a catcher takes without a bug.
fn usual_duration(root: &Path, build: &Build, catcher: Catcher) -> Result<Duration> {
    let (ended, took) = run_with_mutant(root, build, catcher, None, TIMEOUT_FIRST)?;
    if ended != CatcherEnd::Passed {
        bail!("{} does not pass without any bug", catcher.test);
    }
    Ok(took)
}

/// Two lines as one text, so that the output of concurrent exhibits does not interleave.
fn line(exhibit: &Exhibit, layer: &str, caught: &str, took: Duration, note: &str) -> String {
    let Exhibit { number, bug, whose, .. } = exhibit;
    let after = format!("{:.1} s", took.as_secs_f64());
    let first = format!("{number:>2}  {layer:9} {caught:28} {after:>6}  {bug} ({whose})");
    format!("{first}\n{:>51}{note}", "")
}

fn run_with_mutant(
    root: &Path,
    build: &Build,
    catcher: Catcher,
    mutant: Option<u8>,
    timeout: Duration,
) -> Result<(CatcherEnd, Duration)> {
    let mut command = Command::new(build.executable(catcher.package, catcher.target)?);
    let exact = if catcher.test.ends_with("::") {
        vec![catcher.test]
    } else {
        vec![catcher.test, "--exact"]
    };
    command.args(exact).current_dir(root.join(catcher.folder));
    // Output goes to a file: a failing test may print more than a pipe holds, and would block forever.
    let said = tempfile::NamedTempFile::new().context("keep what the catcher says")?;
    command.stdin(Stdio::null()).stdout(said.reopen()?).stderr(Stdio::null());
    command.env("TENURE_LAB", mutant.map_or(String::new(), |number| format!("mutant@{number}")));
    let began = step_times::now();
    let mut child = command.spawn().with_context(|| format!("start {}", catcher.test))?;
    while began.elapsed() < timeout {
        if let Some(status) = child.try_wait()? {
            if std::fs::read_to_string(said.path())?.contains("running 0 tests") {
                bail!("{} of {} does not exist", catcher.test, catcher.package);
            }
            let ended = if status.success() { CatcherEnd::Passed } else { CatcherEnd::Failed };
            return Ok((ended, began.elapsed()));
        }
        pause();
    }
    child.kill()?;
    child.wait()?;
    Ok((CatcherEnd::Hung, began.elapsed()))
}

/// The pause between two polls of a process.
fn pause() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let _ = told.recv_timeout(POLL_INTERVAL);
    drop(tell);
}
