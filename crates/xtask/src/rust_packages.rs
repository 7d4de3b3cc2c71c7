//! `cargo xtask package` and `cargo xtask msrv`: the crates that a user of the Rust SDK needs, as a registry takes them.
//!
//! Each is packaged, unpacked again and compiled, with the others in place of a registry: what a manifest forgets to include, and
//! what only the workspace provides, fails here and not at the user's. `msrv` does so with the oldest compiler that users may
//! have, which rustup installs if it is missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps;
use crate::tidy::packages::PACKAGES;

/// Features of the SDK that its users turn on; `museum` is for the workspace's own tests.
const FEATURES_OF_USERS: &str = "schemars";

/// `cargo xtask package`: with the compiler of this run.
pub(crate) fn package(root: &Path) -> Result<()> {
    let folder = steps::target_folder(root);
    run(steps::cargo_command(root), &package_words(), &folder)?;
    println!("each of {} compiles from its package", PACKAGES.join(", "));
    Ok(())
}

/// Writes the packages, and returns their files.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    package(root)?;
    let (version, folder) = (workspace_member(root, "version")?, steps::target_folder(root));
    let file = |package: &&str| folder.join(format!("package/{package}-{version}.crate"));
    Ok(PACKAGES.iter().map(file).collect())
}

/// `cargo xtask msrv`: with the compiler that `rust-version` names, in a target folder of its own.
pub(crate) fn msrv(root: &Path) -> Result<()> {
    let oldest = whole_version(&workspace_member(root, "rust-version")?);
    ensure_toolchain(&oldest)?;
    let folder = steps::target_folder(root).join("msrv");
    run(with_toolchain(root, &oldest), &package_words(), &folder)?;
    let features =
        ["check", "--locked", "--package", "tenure-sdk", "--features", FEATURES_OF_USERS];
    run(with_toolchain(root, &oldest), &features, &folder)?;
    println!("Rust {oldest} compiles what users need: {}", PACKAGES.join(", "));
    Ok(())
}

fn package_words() -> Vec<&'static str> {
    let mut words = vec!["package", "--allow-dirty", "--locked"];
    words.extend(PACKAGES.iter().flat_map(|package| ["--package", package]));
    words
}

fn run(mut cargo: Command, words: &[&str], folder: &Path) -> Result<()> {
    let line = format!("cargo {}", words.join(" "));
    println!("{line}");
    let status = cargo.args(words).env("CARGO_TARGET_DIR", folder).status();
    let status = status.with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ({status})");
    }
    Ok(())
}

/// The cargo of another toolchain. What this run says about its own would be stronger than the choice.
fn with_toolchain(root: &Path, version: &str) -> Command {
    let mut command = Command::new("rustup");
    command.current_dir(root).args(["run", version, "cargo"]);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

fn ensure_toolchain(version: &str) -> Result<()> {
    if succeeds(&["run", version, "rustc", "--version"])
        .context("rustup, which has other compilers than this one, cannot be started; https://rustup.rs installs it")?
    {
        return Ok(());
    }
    let words = ["toolchain", "install", version, "--profile", "minimal", "--no-self-update"];
    println!("missing: Rust {version}\n  running: rustup {}", words.join(" "));
    let status = Command::new("rustup").args(words).status().context("start rustup")?;
    if !status.success() {
        bail!(
            "Rust {version} is not installed, and rustup could not install it ({status}): nothing was checked. Where there is a \
             network, `rustup {}` does it",
            words.join(" ")
        );
    }
    Ok(())
}

fn succeeds(words: &[&str]) -> Result<bool> {
    let mut rustup = Command::new("rustup");
    let status = rustup.args(words).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    Ok(status.success())
}

/// Toolchains are named by all three numbers.
fn whole_version(version: &str) -> String {
    match version.matches('.').count() {
        1 => format!("{version}.0"),
        _ => version.to_owned(),
    }
}

/// A member that the crates of the workspace share.
fn workspace_member(root: &Path, name: &str) -> Result<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).context("read Cargo.toml")?;
    member(&manifest, name).with_context(|| format!("Cargo.toml has no {name}"))
}

fn member(manifest: &str, name: &str) -> Option<String> {
    let begin = format!("{name} = \"");
    let rest = manifest.lines().find_map(|line| line.strip_prefix(&begin))?;
    rest.strip_suffix('"').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_compiler_is_the_one_that_the_workspace_declares() {
        let manifest = "[workspace.package]\nversion = \"0.1.0\"\nrust-version = \"1.92\"\n";
        let declared = member(manifest, "rust-version").unwrap();
        assert_eq!(whole_version(&declared), "1.92.0");
        assert_eq!(whole_version("1.93.1"), "1.93.1");
        assert_eq!(member(manifest, "version").as_deref(), Some("0.1.0"));
        assert_eq!(member(manifest, "edition"), None);
    }

    #[test]
    fn a_toolchain_that_is_not_there_is_noticed_before_anything_is_compiled() {
        assert!(!succeeds(&["run", "0.0.1", "rustc", "--version"]).unwrap_or(false));
    }
}
