//! `cargo xtask sdks`: everything that must hold of the SDKs in other languages, the examples, the files for operators, the
//! documents and the console.
//!
//! Each has a script, which installs its pinned tools beside it when they are missing and runs its formatter,
//! type checkers and tests against the server that it is given. This file knows no more of a language than that.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A part of the tree whose checks are a script of its own.
struct Part {
    folder: &'static str,
    script: &'static str,
    /// The environment variable in which the script takes the path of the server.
    server: &'static str,
}

/// The Rust SDK is part of the workspace. The console comes last: its browser is what needs the most of the machine.
const PARTS: &[Part] = &[
    Part { folder: "sdks/python", script: "check", server: "TENURE_BINARY" },
    Part { folder: "sdks/typescript", script: "check", server: "TENURE_BINARY" },
    Part { folder: "examples", script: "check", server: "TENURE_BINARY" },
    Part { folder: "deploy", script: "check", server: "TENURE_BINARY" },
    Part { folder: "deploy/packages", script: "check", server: "TENURE_BINARY" },
    Part { folder: "docs/site", script: "check", server: "TENURE_BINARY" },
    Part { folder: "console", script: "scripts/check", server: "TENURE_BIN" },
];

/// One after the other: each uses all processors where it does not wait for leases.
pub(crate) fn run(root: &Path, server: &Path) -> Result<()> {
    PARTS.iter().try_for_each(|part| check(root, part, server))
}

fn check(root: &Path, part: &Part, server: &Path) -> Result<()> {
    let folder = root.join(part.folder);
    let script = folder.join(part.script);
    println!("{}", script.display());
    let mut command = Command::new(&script);
    command.current_dir(&folder).env(part.server, server).env_remove("VIRTUAL_ENV");
    let status = command
        .status()
        .with_context(|| format!("the check of {} does not start", folder.display()))?;
    if !status.success() {
        bail!("{} failed ({status})", script.display());
    }
    Ok(())
}
