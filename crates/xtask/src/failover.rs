//! `cargo xtask failover`: repeatedly kills the database of three coordinators under load and promotes its standby,
//! with a synchronous and with an asynchronous standby.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::steps;

/// The number of failovers that a release must survive.
const TIMES: usize = 20;

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (times, rest) = match words {
        [] => (TIMES, words),
        ["--times", number, rest @ ..] => {
            (number.parse().with_context(|| format!("`{number}` is no number"))?, rest)
        }
        _ => bail!(
            "usage: cargo xtask failover [--times N] [--only synchronous|asynchronous|rolling|joining]"
        ),
    };
    let built = ["build", "--package", "tenure", "--package", "tenure-crashlab"];
    steps::cargo(root, &built)?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let (server, times) = (format!("{target}/debug/tenure"), times.to_string());
    let lab = ["run", "--quiet", "--package", "tenure-crashlab", "--", "--binary", &server];
    let arguments = [&lab[..], &["--failovers", &times], rest].concat();
    steps::cargo(root, &arguments)
}
