//! `cargo xtask test`: runs the steps of a test run in order and stops at the first failure.
//!
//! The same command runs on a laptop and in CI. Every test runs from one build: the test build, with the feature
//! `lab`. The lints check the ordinary build, without it. The test runner comes last, so that the output ends in its
//! summary; the durations of all other steps are printed before it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step_times::StepTimes;
use crate::{fuzz, hostile, lab, parallel, prerequisites, sdks, tidy};

const FORMAT: &[&str] = &["fmt", "--all", "--check"];
const LINT: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
/// A program that embeds the coordinator may disable HTTP and PostgreSQL. No code is left over then.
const EMBEDDED: &[&str] =
    &["clippy", "--package", "tenure-coordinator", "--no-default-features", "--", "-D", "warnings"];
/// The Rust SDK as its users build it: without the features of `wire` that the server turns on for the whole workspace.
const SDK_ALONE: &[&str] = &["clippy", "--package", "tenure-sdk", "--", "-D", "warnings"];
/// The test runner does not run the examples in the client's documentation. The whole workspace is named because a
/// smaller set would select other features of shared dependencies, and cargo would build all of it again.
const DOC_TESTS: &[&str] = &["test", "--quiet", "--workspace", "--doc", "--features", lab::FEATURE];
/// All of them, also after one has failed: a run is long, and one report of everything is worth more than an early end.
const TESTS: &[&str] =
    &["nextest", "run", "--workspace", "--no-fail-fast", "--features", lab::FEATURE];
/// A test for each case of the conformance kit, against the Rust SDK.
const CONFORM: &[&str] = &[
    "nextest",
    "run",
    "--profile",
    "conform",
    "--workspace",
    "--no-fail-fast",
    "--features",
    lab::FEATURE,
];
/// Cases at a time, for every processor: they wait nearly all the time, for a lease or a pause.
const CASES_PER_PROCESSOR: usize = 4;
/// Tests at a time, for every two processors. One of them only computes (`.config/nextest.toml`); the others spend about
/// half of their time waiting for a disk, a database or a lease.
const TESTS_PER_TWO_PROCESSORS: usize = 4;
/// The server, for commands that need nothing else.
pub(crate) const BUILD_SERVER: &[&str] = &["build", "--package", "tenure"];

pub(crate) fn test(root: &Path) -> Result<()> {
    let mut times = StepTimes::begin();
    times.step("what the tests need", prerequisites::ensure_installed)?;
    times.step("formatting", || cargo(root, FORMAT))?;
    times.step("lints", || cargo(root, LINT))?;
    times.step("embedding without HTTP", || cargo(root, EMBEDDED))?;
    times.step("the Rust SDK alone", || cargo(root, SDK_ALONE))?;
    times.step("tidy", || tidy::run(root))?;
    let build = times.step("test build", || lab::Build::make(root))?;
    let crash_lab = || lab::crash::run_aside(root, &build);
    // The crash lab mostly waits for leases and restarts; these steps use the processors meanwhile.
    let took = parallel::beside(crash_lab, || {
        times.step("examples in the documentation", || cargo(root, DOC_TESTS))?;
        times.step("hostile input", || hostile::run(root, build.server(), &[]))?;
        times.step("fuzz", || fuzz::run(root, &[]))?;
        times.step("bug museum", || lab::museum::run(root, &build))
    })?;
    times.note("crash lab, beside the last four", took);
    // Alone: the cases of the conformance kit judge what a worker does within a short lease.
    times.step("SDKs for Python and Node, and the console", || sdks::run(root, build.server()))?;
    times.step("the Rust SDK against the conformance kit", || conform(root))?;
    println!("\n== time of each step before the tests\n{times}\n\n== tests");
    let at_a_time = tests_at_a_time().to_string();
    cargo(root, &[TESTS, &["--test-threads", &at_a_time]].concat()).context("failed at the tests")
}

fn conform(root: &Path) -> Result<()> {
    let at_a_time = (processors() * CASES_PER_PROCESSOR).to_string();
    cargo(root, &[CONFORM, &["--test-threads", &at_a_time]].concat())
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn tests_at_a_time() -> usize {
    (processors() * TESTS_PER_TWO_PROCESSORS).div_ceil(2)
}

/// `cargo xtask hostile`: that step alone, with the binary it needs.
pub(crate) fn hostile(root: &Path, more: &[&str]) -> Result<()> {
    cargo(root, BUILD_SERVER)?;
    hostile::run(root, &hostile::target(root).join("debug/tenure"), more)
}

/// `cargo xtask sdks`: that step alone, with the binary it needs.
pub(crate) fn sdks(root: &Path) -> Result<()> {
    cargo(root, BUILD_SERVER)?;
    sdks::run(root, &hostile::target(root).join("debug/tenure"))
}

/// `cargo xtask sim`: simulated worlds. Stdout contains only the trace of a seed, so that two runs can be compared.
pub(crate) fn sim(root: &Path, more: &[&str]) -> Result<()> {
    let run = ["run", "--quiet", "--package", "tenure-sim", "--"];
    run_cargo(root, &[&run, more].concat())
}

/// `cargo xtask model`: explores the same worlds as the tests and prints the figures; `--long` for larger ones.
pub(crate) fn model(root: &Path, more: &[&str]) -> Result<()> {
    let run = ["run", "--quiet", "--package", "tenure-model", "--"];
    cargo(root, &[&run, more].concat())
}

/// Prints a cargo command and runs it.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    println!("cargo {}", arguments.join(" "));
    run_cargo(root, arguments)
}

fn run_cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    let line = format!("cargo {}", arguments.join(" "));
    let status =
        cargo_command(root).args(arguments).status().with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ({status})");
    }
    Ok(())
}

/// Where cargo writes what it builds.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The cargo that runs this program, for another build. Variables about this package are removed: build scripts that
/// depend on them would run again.
pub(crate) fn cargo_command(root: &Path) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.current_dir(root);
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}
