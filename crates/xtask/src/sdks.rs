//! `cargo xtask sdks`: everything that must hold of the SDKs in other languages.
//!
//! Each SDK has a script `check`, which installs its pinned tools beside it when they are missing and runs its formatter,
//! type checkers and tests against the server that it is given. This file knows no more of a language than that.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The SDKs whose checks are scripts of their own. The Rust SDK is part of the workspace.
const SDKS: &[&str] = &["sdks/python", "sdks/typescript"];

/// One after the other: each uses all processors where it does not wait for leases.
pub(crate) fn run(root: &Path, server: &Path) -> Result<()> {
    SDKS.iter().try_for_each(|sdk| check(&root.join(sdk), server))
}

fn check(sdk: &Path, server: &Path) -> Result<()> {
    let script = sdk.join("check");
    println!("{}", script.display());
    let mut command = Command::new(&script);
    command.current_dir(sdk).env("TENURE_BINARY", server).env_remove("VIRTUAL_ENV");
    let status = command
        .status()
        .with_context(|| format!("the check of {} does not start", sdk.display()))?;
    if !status.success() {
        bail!("{} failed ({status})", script.display());
    }
    Ok(())
}
