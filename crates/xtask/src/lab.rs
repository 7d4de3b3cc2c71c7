//! The test build: everything with the feature `lab`, once, for the crash lab and the bug museum.
//!
//! It is built with the whole workspace's features, so that nothing from outside is compiled a second time, and
//! what it leaves is copied aside, because an ordinary build writes to the same names.

pub(crate) mod crash;
pub(crate) mod exhibits;
pub(crate) mod museum;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

const BUILD: &[&str] = &[
    "build",
    "--workspace",
    // It runs this very build.
    "--exclude",
    "xtask",
    "--bins",
    // Catchers are integration tests: unit tests would have every crate compiled once more.
    "--test",
    "it",
    "--features",
    "tenure-faultpoint/lab",
    "--message-format",
    "json-render-diagnostics",
];

/// The programs and test binaries of one lab build.
#[derive(Debug, Default)]
pub(crate) struct Build {
    /// By package and target, such as `tenure-store` and `it`.
    executables: BTreeMap<(String, String), PathBuf>,
}

impl Build {
    pub(crate) fn make(root: &Path) -> Result<Build> {
        println!("\n== the test build: cargo {}", BUILD.join(" "));
        let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(program);
        command.args(BUILD).current_dir(root).stdout(Stdio::piped());
        for variable in crate::steps::of_this_package() {
            command.env_remove(variable);
        }
        let built = command.spawn()?.wait_with_output().context("build the lab")?;
        if !built.status.success() {
            bail!("the test build failed");
        }
        let mut build = Build::default();
        for line in String::from_utf8(built.stdout)?.lines() {
            build.note(&serde_json::from_str(line)?);
        }
        Ok(build)
    }

    fn note(&mut self, message: &Value) {
        let Some(executable) = message["executable"].as_str() else { return };
        let package = package(message["package_id"].as_str().unwrap_or_default());
        let target = message["target"]["name"].as_str().unwrap_or_default().to_owned();
        self.executables.insert((package, target), PathBuf::from(executable));
    }

    pub(crate) fn executable(&self, package: &str, target: &str) -> Result<&Path> {
        let found = self.executables.get(&(package.to_owned(), target.to_owned()));
        found
            .map(PathBuf::as_path)
            .with_context(|| format!("the test build has no {target} of {package}"))
    }

    /// The server's binary, under a name that no other build writes to.
    pub(crate) fn server(&self) -> Result<PathBuf> {
        let built = self.executable("tenure", "tenure")?;
        let folder = built.parent().context("a binary is in a folder")?.join("../lab");
        std::fs::create_dir_all(&folder)?;
        let aside = folder.join("tenure");
        std::fs::copy(built, &aside).context("put the test build aside")?;
        Ok(aside)
    }
}

/// `path+file:///…/crates/store#tenure-store@0.1.0`, or without the name where it is the folder's.
fn package(id: &str) -> String {
    let (path, tail) = id.rsplit_once('#').unwrap_or(("", id));
    match tail.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => path.rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_either_spelling_of_an_id() {
        assert_eq!(package("path+file:///a/crates/store#tenure-store@0.1.0"), "tenure-store");
        assert_eq!(package("path+file:///a/crates/xtask#0.1.0"), "xtask");
    }
}
