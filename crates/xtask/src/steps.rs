//! `cargo xtask test`: the steps of a test run, in order, stopping at the first that fails.
//!
//! The same command runs on a laptop and in CI. The test runner comes last, so that the output ends in its summary.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{fuzz, hostile, lab, prerequisites, tidy};

const FORMAT: &[&str] = &["fmt", "--all", "--check"];
const LINT: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
/// End-to-end tests start this binary.
const BUILD: &[&str] = &["build", "--package", "tenure"];
/// The test runner leaves the examples in the client's documentation out.
const DOC_TESTS: &[&str] = &["test", "--quiet", "--package", "tenure-sdk", "--doc"];
const TESTS: &[&str] = &["nextest", "run", "--workspace"];

pub(crate) fn test(root: &Path) -> Result<()> {
    heading("what the tests need");
    prerequisites::ensure_installed().context("failed at what the tests need")?;
    cargo(root, "formatting", FORMAT)?;
    cargo(root, "lints", LINT)?;
    heading("tidy");
    tidy::run(root).context("failed at tidy")?;
    cargo(root, "the binary that end-to-end tests start", BUILD)?;
    cargo(root, "examples in the documentation", DOC_TESTS)?;
    heading("hostile input");
    hostile::run(root, &[]).context("failed at hostile input")?;
    fuzz::run(root, &[]).context("failed at the fuzzers")?;
    let build = lab::Build::make(root)?;
    lab::crash::run(root, &build, lab::crash::KILLS, &[])?;
    lab::museum::run(root, &build)?;
    cargo(root, "tests", TESTS)
}

/// `cargo xtask hostile`: that step alone, with the binary it needs.
pub(crate) fn hostile(root: &Path, more: &[&str]) -> Result<()> {
    cargo(root, "the server", BUILD)?;
    hostile::run(root, more)
}

/// `cargo xtask sim`: simulated worlds. The trace of a seed is all there is on stdout, so that two runs can be compared.
pub(crate) fn sim(root: &Path, more: &[&str]) -> Result<()> {
    let run = ["run", "--quiet", "--package", "tenure-sim", "--"];
    run_cargo(root, "simulation", &[&run, more].concat())
}

/// `cargo xtask model`: the same worlds as the tests explore, with their figures; `--long` for larger ones.
pub(crate) fn model(root: &Path, more: &[&str]) -> Result<()> {
    let run = ["run", "--quiet", "--package", "tenure-model", "--"];
    cargo(root, "model check", &[&run, more].concat())
}

fn heading(title: &str) {
    println!("\n== {title}");
}

pub(crate) fn cargo(root: &Path, title: &str, arguments: &[&str]) -> Result<()> {
    heading(&format!("{title}: cargo {}", arguments.join(" ")));
    run_cargo(root, title, arguments)
}

fn run_cargo(root: &Path, title: &str, arguments: &[&str]) -> Result<()> {
    let line = format!("cargo {}", arguments.join(" "));
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root);
    for variable in of_this_package() {
        command.env_remove(variable);
    }
    let status = command.status().with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!("failed at {title}: `{line}` ({status})");
    }
    Ok(())
}

/// What cargo told this program about itself must not reach another cargo: build scripts that watch it would run again.
pub(crate) fn of_this_package() -> impl Iterator<Item = String> {
    std::env::vars()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
}
