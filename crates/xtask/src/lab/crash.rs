//! `cargo xtask crash`: the crash lab, and the tests of the store that cut its power and fail its disk.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Build;

/// What every change must survive.
pub(crate) const KILLS: usize = 100;
/// What a release must.
const KILLS_LONG: usize = 2_000;

/// Power cuts, and errors of the disk at every single call: they need a disk of their own making.
const DISK_TESTS: &[&str] = &["sqlite::power::", "sqlite::nth_call::"];

/// Reads `--kills N`, `--long` and what is left for the lab itself.
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
    let server = build.server()?;
    println!("\n== crash lab: {kills} kills");
    let mut lab = Command::new(build.executable("tenure-crashlab", "crashlab")?);
    lab.arg("--binary").arg(&server).arg("--kills").arg(kills.to_string()).args(rest);
    lab.arg("--keep").arg(server.with_file_name("histories")).current_dir(root);
    check(&mut lab, "the crash lab")?;
    Ok(())
}

/// Power cuts and failing disks; the test runner runs these too, without the lab's build.
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
