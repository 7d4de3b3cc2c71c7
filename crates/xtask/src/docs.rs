//! `cargo xtask docs`: the site of the documents, in `target/docs`.
//!
//! `docs/site` builds it; this file brings the server, whose manual becomes a part of the reference. The checks of the site run
//! with those of the other scripts, in `sdks`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{hostile, steps};

/// Builds the site and returns its folder.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<PathBuf> {
    let target = hostile::target(root);
    let binary = match words {
        [] => {
            steps::cargo(root, steps::BUILD_SERVER)?;
            target.join("debug/tenure")
        }
        ["--binary", file] => PathBuf::from(file),
        _ => bail!("usage: cargo xtask docs [--binary FILE]"),
    };
    // The script runs in its own folder.
    let binary = binary.canonicalize().with_context(|| format!("find {}", binary.display()))?;
    let out = target.join("docs");
    let built = Command::new(root.join("docs/site/build"))
        .arg(&out)
        .env("TENURE_BINARY", binary)
        .env_remove("VIRTUAL_ENV")
        .status();
    if !built.context("start docs/site/build")?.success() {
        bail!("the site of the documents was not built");
    }
    Ok(out)
}
