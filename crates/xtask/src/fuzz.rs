//! `cargo xtask fuzz`: the fuzzer on each target for a while. What the tests replay is what it keeps.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Long enough to meet the shallow ones.
const SECONDS: &str = "60";

pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    let seconds = match words {
        [] => SECONDS,
        ["--seconds", count] if count.parse::<u32>().is_ok_and(|count| count > 0) => count,
        _ => bail!("`{}` is not `--seconds N`", words.join(" ")),
    };
    for target in targets(root)? {
        println!("\n== fuzz {target} for {seconds} s");
        let status = Command::new("cargo")
            .args(["+nightly", "fuzz", "run", &target, "--", &format!("-max_total_time={seconds}")])
            .current_dir(root.join("fuzz"))
            .status()
            .context("start cargo")?;
        ensure!(
            status.success(),
            "`{target}` failed ({status}). If it found something, keep the input it names in fuzz/corpus/{target}; if \
             cargo has no command `fuzz`: rustup toolchain install nightly, cargo install cargo-fuzz"
        );
    }
    Ok(())
}

fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in folder.read_dir().with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort_unstable();
    Ok(names)
}
