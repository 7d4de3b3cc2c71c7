//! `cargo xtask conform`: every SDK of the tree against the conformance kit. `conform-faults`: every case with its fault,
//! which it must notice.
//!
//! An SDK is its subject: a folder below `sdks` without one is told and skipped. Each has an exact list of cases that it
//! is known to fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps;

const BUILD: &[&str] = &["build", "--package", "tenure-conform"];
const BUILD_RUST: &[&str] = &["build", "--package", "tenure-sdk", "--example", "subject"];
const KNOWN_FAILING: &str = "conform-known-failing.txt";

struct Sdk {
    folder: &'static str,
    /// The subject, from the root of the repository.
    subject: &'static str,
    /// What starts it; itself when empty.
    interpreter: &'static [&'static str],
    /// Features that it does not offer, for a reason that a decision record gives.
    without: &'static [&'static str],
}

const SDKS: [Sdk; 3] = [
    Sdk {
        folder: "sdks/rust",
        subject: "target/debug/examples/subject",
        interpreter: &[],
        // docs/adr/0057-no-isolated-tasks-in-rust.md
        without: &["isolate"],
    },
    Sdk {
        folder: "sdks/python",
        subject: "sdks/python/tests/subject.py",
        interpreter: &["python3"],
        without: &[],
    },
    Sdk {
        folder: "sdks/typescript",
        subject: "sdks/typescript/test/subject.mjs",
        interpreter: &["node"],
        without: &[],
    },
];

/// Proves every SDK; further arguments go to the kit.
pub(crate) fn run(root: &Path, more: &[&str]) -> Result<()> {
    each(root, more)
}

/// Plants the fault of each case and demands that it is noticed.
pub(crate) fn faults(root: &Path, more: &[&str]) -> Result<()> {
    each(root, &[&["--fault", "each"], more].concat())
}

fn each(root: &Path, more: &[&str]) -> Result<()> {
    steps::cargo(root, BUILD)?;
    steps::cargo(root, BUILD_RUST)?;
    let mut failed = Vec::new();
    for sdk in &SDKS {
        if !root.join(sdk.subject).exists() {
            println!("\n== {}: no subject at {}", sdk.folder, sdk.subject);
            continue;
        }
        println!("\n== {}", sdk.folder);
        if !prove(root, sdk, more)? {
            failed.push(sdk.folder);
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("did not conform: {}", failed.join(", ")) }
}

fn prove(root: &Path, sdk: &Sdk, more: &[&str]) -> Result<bool> {
    let mut command = Command::new(kit(root));
    command.current_dir(root).args(more);
    command.args(sdk.without.iter().flat_map(|feature| ["--without", feature]));
    let known = Path::new(sdk.folder).join(KNOWN_FAILING);
    if root.join(&known).exists() {
        command.arg("--known-failing").arg(known);
    }
    // A Python package need not be installed to be proved.
    command.env("PYTHONPATH", root.join("sdks/python/src"));
    command.arg("--").args(sdk.interpreter).arg(root.join(sdk.subject));
    let ended = command.status().context("start the conformance kit")?;
    Ok(ended.success())
}

fn kit(root: &Path) -> PathBuf {
    root.join("target/debug/tenure-conform")
}
