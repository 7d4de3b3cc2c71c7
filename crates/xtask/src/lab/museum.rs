//! `cargo xtask museum`: every bug of the museum is played, and somebody must notice.
//!
//! A catcher is a test that runs without the bug first, so that it is known to pass, and then with it, so that it
//! is known to fail. A test that does not end in time has not passed either.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Build;
use super::exhibits::{Catcher, EXHIBITS, Exhibit, Presence};

/// A test that takes so many times what it took without a bug has not passed either, on a slow machine too.
const TIMEOUT_TIMES: u32 = 30;
const TIMEOUT_MIN: Duration = Duration::from_secs(20);
/// Of a test that takes long anyway, a few lengths and a minute are enough.
const TIMEOUT_LONG_TIMES: u32 = 3;
const TIMEOUT_LONG: Duration = Duration::from_secs(60);
/// Without a bug nothing may hang.
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
    println!("\n== bug museum");
    let mut honest: BTreeMap<Catcher, Duration> = BTreeMap::new();
    let mut survivors = Vec::new();
    println!("{:>2}  {:9} {:28} {:>6}  bug", "no", "layer", "caught", "after");
    for exhibit in EXHIBITS {
        let Presence::Mutant { catcher, .. } = exhibit.here else {
            show(exhibit, "-", "not played", Duration::ZERO);
            continue;
        };
        let usual = match honest.get(&catcher) {
            Some(took) => *took,
            None => usual_duration(root, build, catcher)?,
        };
        honest.insert(catcher, usual);
        let enough = usual * TIMEOUT_LONG_TIMES + TIMEOUT_LONG;
        let patience = (usual * TIMEOUT_TIMES).max(TIMEOUT_MIN).min(enough);
        let (ended, took) = run_with_mutant(root, build, catcher, Some(exhibit.number), patience)?;
        match ended {
            CatcherEnd::Passed => {
                survivors.push(exhibit.number);
                show(exhibit, catcher.layer, "SURVIVED", took);
            }
            CatcherEnd::Failed => show(exhibit, catcher.layer, "by a failing test", took),
            CatcherEnd::Hung => show(exhibit, catcher.layer, "by a test that never ends", took),
        }
    }
    let played = EXHIBITS.iter().filter(|e| matches!(e.here, Presence::Mutant { .. })).count();
    if !survivors.is_empty() {
        bail!("nobody noticed {survivors:?} of {played} bugs");
    }
    println!("{} bugs, {played} played, all of these caught", EXHIBITS.len());
    Ok(())
}

/// How long a catcher takes when there is nothing to catch.
fn usual_duration(root: &Path, build: &Build, catcher: Catcher) -> Result<Duration> {
    let (ended, took) = run_with_mutant(root, build, catcher, None, TIMEOUT_FIRST)?;
    if ended != CatcherEnd::Passed {
        bail!("{} does not pass without any bug", catcher.test);
    }
    Ok(took)
}

fn show(exhibit: &Exhibit, layer: &str, caught: &str, took: Duration) {
    let Exhibit { number, bug, whose, here } = exhibit;
    let after = if took.is_zero() { String::new() } else { format!("{:.1} s", took.as_secs_f64()) };
    println!("{number:>2}  {layer:9} {caught:28} {after:>6}  {bug} ({whose})");
    match here {
        Presence::Mutant { how, catcher } => {
            println!("{:>51}played as: {how}; noticed by {}", "", catcher.test)
        }
        Presence::Not(why) => println!("{:>51}{why}", ""),
    }
}

fn run_with_mutant(
    root: &Path,
    build: &Build,
    catcher: Catcher,
    mutant: Option<u8>,
    patience: Duration,
) -> Result<(CatcherEnd, Duration)> {
    let mut command = Command::new(build.executable(catcher.package, catcher.target)?);
    let exact = if catcher.test.ends_with("::") {
        vec![catcher.test]
    } else {
        vec![catcher.test, "--exact"]
    };
    command.args(exact).current_dir(root.join(catcher.folder));
    // Into a file: a test that fails may say more than a pipe holds, and would wait for a reader for ever.
    let said = tempfile::NamedTempFile::new().context("keep what the catcher says")?;
    command.stdin(Stdio::null()).stdout(said.reopen()?).stderr(Stdio::null());
    command.env("TENURE_LAB", mutant.map_or(String::new(), |number| format!("mutant@{number}")));
    #[expect(
        clippy::disallowed_methods,
        reason = "says how long something took; nothing is decided by it"
    )]
    let began = std::time::Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {}", catcher.test))?;
    let mut looks = patience.as_millis() / POLL_INTERVAL.as_millis();
    loop {
        if let Some(status) = child.try_wait()? {
            if std::fs::read_to_string(said.path())?.contains("running 0 tests") {
                bail!("{} of {} does not exist", catcher.test, catcher.package);
            }
            let ended = if status.success() { CatcherEnd::Passed } else { CatcherEnd::Failed };
            return Ok((ended, began.elapsed()));
        }
        let Some(left) = looks.checked_sub(1) else {
            child.kill()?;
            child.wait()?;
            return Ok((CatcherEnd::Hung, began.elapsed()));
        };
        looks = left;
        pause();
    }
}

/// Between two looks at a process.
fn pause() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let _ = told.recv_timeout(POLL_INTERVAL);
    drop(tell);
}
