//! `cargo xtask crash`: runs the crash lab, and the store's tests of power cuts and disk errors.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Build;
use crate::step_times;

/// The number of kills that every change must survive.
pub(crate) const KILLS: usize = 100;
/// The number of kills that a release must survive.
const KILLS_LONG: usize = 2_000;

/// Power cuts, and disk errors at every single call: these tests simulate their disk.
const DISK_TESTS: &[&str] = &["sqlite::power::", "sqlite::nth_call::"];

/// Parses `--kills N` and `--long`; the remaining arguments go to the lab.
pub(crate) fn wanted(words: &[&str]) -> Result<(usize, Vec<String>)> {
    match words {
        [] => Ok((KILLS, Vec::new())),
        ["--long", rest @ ..] => Ok((KILLS_LONG, owned(rest))),
        ["--kills", number, rest @ ..] => {
            Ok((number.parse().with_context(|| format!("`{number}` is no number"))?, owned(rest)))
        }
        rest => Ok((KILLS, owned(rest))),
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(crate) fn run(root: &Path, build: &Build, kills: usize, rest: &[String]) -> Result<()> {
    println!("{kills} kills");
    check(&mut lab(root, build, kills, rest)?, "the crash lab")
}

/// The short form, which runs in parallel with other steps and prints its output at the end. Returns how long it
/// took.
pub(crate) fn run_aside(root: &Path, build: &Build) -> Result<Duration> {
    let began = step_times::now();
    let ran = lab(root, build, KILLS, &[])?.output().context("start the crash lab")?;
    let said = String::from_utf8_lossy(&ran.stdout);
    println!("\n== crash lab: {KILLS} kills\n{said}");
    if !ran.status.success() {
        let problem = String::from_utf8_lossy(&ran.stderr);
        // Once more at the end: other steps have printed much since, and a log is read from its end.
        bail!("failed at the crash lab ({})\n{said}\n{problem}", ran.status);
    }
    Ok(began.elapsed())
}

fn lab(root: &Path, build: &Build, kills: usize, rest: &[String]) -> Result<Command> {
    let server = build.server();
    let mut lab = Command::new(build.executable("tenure-crashlab", "crashlab")?);
    lab.arg("--binary").arg(server).arg("--kills").arg(kills.to_string()).args(rest);
    lab.arg("--keep").arg(server.with_file_name("histories")).current_dir(root);
    Ok(lab)
}

/// Power cuts and failing disks; the test runner also runs these, without the lab build.
pub(crate) fn disks(root: &Path, build: &Build) -> Result<()> {
    println!("\n== power cuts and failing disks");
    let mut disk = Command::new(build.executable("tenure-store", "it")?);
    disk.args(DISK_TESTS).current_dir(root.join("crates/store"));
    check(&mut disk, "the power cuts")
}

fn check(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("start {what}"))?;
    if !status.success() {
        bail!("failed at {what} ({status})");
    }
    Ok(())
}
