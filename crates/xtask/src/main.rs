//! `cargo xtask`: the commands that test this repository and keep it tidy.
//!
//! It is built before every test run, so it stays small: it depends on `wire`, for the OpenAPI text and the error
//! codes, on `faultpoint`, for the museum's numbers, and on `pgserver`, for private PostgreSQL servers. It decides
//! nothing about the product; it only reads the tree and runs cargo.
#![expect(clippy::print_stdout, reason = "a command-line program speaks to its user on stdout")]

mod bench_postgres;
mod conform;
mod contract;
mod dist;
mod docs;
mod failover;
mod finding;
mod fuzz;
mod generated;
mod hostile;
mod lab;
mod parallel;
mod prerequisites;
mod rust_packages;
mod rust_source;
mod sdks;
mod step_times;
mod steps;
mod tidy;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tree::Tree;

const USAGE: &str = "\
usage: cargo xtask <command>

  test      set up what the tests need, then fmt, clippy, tidy, hostile, fuzz, SDKs, console, crash, museum, all tests; prints the time of each step
  crash     kill, stop and starve a real server under load and judge what it leaves; --kills N, --long
  failover  let the database of three coordinators fail over under load; --times N
  museum    play the bugs that other systems shipped; a test must detect each
  bench-postgres  `tenure bench` against a PostgreSQL server that is started for it; takes its options
  conform   every SDK of the tree against the conformance kit; takes its options
  conform-faults  the same with each case's fault planted in the wire, which the case must notice
  dist      everything of a release, in target/dist: archive, wheel, npm and Debian packages of the binary, SDKs, checksums; --binary FILE
  package   the crates that users of the Rust SDK need, packaged and compiled from their packages
  msrv      the same with the oldest compiler that users may have, which rustup installs if it is missing
  docs      the site of the documents, in target/docs; fails on broken links and on pages outside the navigation; --binary FILE
  tidy      rules of the tree that no compiler checks; each finding says what to do
  openapi   write protocol/openapi.json from the types of crates/wire
  model     explore every state of small worlds with the rules of production; --long for larger ones
  hostile   everything the OpenAPI document says and does not say, against a live server; --examples N
  fuzz      the fuzzer on each target of crates/hostile, or on those that are named; --seconds N, --keep
  sdks      format, types and tests of the SDKs for Python and Node, the examples, the documents, and of the console, with its flows through Chromium
  sim       run simulated worlds: --seed S for one with its trace, --seeds N for many
  contract  refresh the `proved by` column of docs/contract.md from the tests";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let root = repository_root()?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => steps::test(&root),
        ["crash", rest @ ..] => {
            let (kills, rest) = lab::crash::wanted(rest)?;
            let build = lab::Build::make(&root)?;
            lab::crash::run(&root, &build, kills, &rest)?;
            if rest.is_empty() { lab::crash::disks(&root, &build) } else { Ok(()) }
        }
        ["failover", more @ ..] => failover::run(&root, more),
        ["museum"] => lab::museum::run(&root, &lab::Build::make(&root)?),
        ["bench-postgres", more @ ..] => bench_postgres::run(&root, more),
        ["conform", more @ ..] => conform::run(&root, more),
        ["conform-faults", more @ ..] => conform::faults(&root, more),
        ["dist", more @ ..] => dist::run(&root, more),
        ["package"] => rust_packages::package(&root),
        ["msrv"] => rust_packages::msrv(&root),
        ["docs", more @ ..] => docs::run(&root, more).map(drop),
        ["tidy"] => tidy::run(&root),
        ["model", more @ ..] => steps::model(&root, more),
        ["hostile", more @ ..] => steps::hostile(&root, more),
        ["fuzz", more @ ..] => fuzz::run(&root, more),
        ["sdks"] => steps::sdks(&root),
        ["sim", more @ ..] => steps::sim(&root, more),
        ["openapi"] => generated::write_openapi(&root),
        ["contract"] => {
            let tree = Tree::read(&root)?;
            contract::write(&root, &tree)
        }
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("unknown arguments `{}`\n\n{USAGE}", arguments.join(" ")),
    }
}

/// Cargo sets the variable for `cargo run`; the constant is the fallback when the binary is started directly.
fn repository_root() -> Result<PathBuf> {
    let manifest = std::env::var("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let root = PathBuf::from(manifest).join("../..");
    root.canonicalize().with_context(|| format!("find the repository at {}", root.display()))
}
