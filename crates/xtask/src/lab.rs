//! The test build: the whole workspace with the feature `lab`.
//!
//! The tests, the crash lab, the museum and the hostile input share it, so that no crate is compiled twice. The test
//! runner uses exactly these arguments and finds everything built: a different package list or feature would select
//! different features of shared dependencies, and cargo would compile those and all their dependents again. The
//! server is copied to another path, because an ordinary build writes to the same name.

pub(crate) mod crash;
pub(crate) mod exhibits;
pub(crate) mod museum;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Enables the fault points and the museum's bugs, which are then chosen at run time. What users compile links neither
/// without its own feature.
pub(crate) const FEATURE: &str =
    "tenure-faultpoint/lab,tenure-verdict/museum,tenure-wire/museum,tenure-sdk/museum";

/// The test runner passes the same arguments to cargo. A binary is built if an integration test of its package starts
/// it.
const BUILD: &[&str] = &[
    "test",
    "--no-run",
    "--workspace",
    "--features",
    FEATURE,
    "--message-format",
    "json-render-diagnostics",
];

/// The programs and test binaries of one lab build.
#[derive(Debug, Default)]
pub(crate) struct Build {
    /// By package and target, such as `tenure-store` and `it`.
    executables: BTreeMap<(String, String), PathBuf>,
    /// The server's binary, under a name that no other build writes to.
    server: PathBuf,
}

impl Build {
    pub(crate) fn make(root: &Path) -> Result<Build> {
        println!("cargo {}", BUILD.join(" "));
        let mut command = crate::steps::cargo_command(root);
        let running = command.args(BUILD).stdout(Stdio::piped()).spawn().context("start cargo")?;
        let built = running.wait_with_output().context("make the test build")?;
        if !built.status.success() {
            bail!("the test build failed");
        }
        let mut build = Build::default();
        for line in String::from_utf8(built.stdout)?.lines() {
            build.note(&serde_json::from_str(line)?);
        }
        build.server = put_aside(build.executable("tenure", "tenure")?)?;
        Ok(build)
    }

    fn note(&mut self, message: &Value) {
        let Some(executable) = message["executable"].as_str() else { return };
        // The unit tests of a program or a library can have the name of a program.
        if message["target"]["kind"][0] != "test" && message["profile"]["test"] == true {
            return;
        }
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

    pub(crate) fn server(&self) -> &Path {
        &self.server
    }
}

fn put_aside(built: &Path) -> Result<PathBuf> {
    let folder = built.parent().context("a binary is in a folder")?.join("../lab");
    std::fs::create_dir_all(&folder)?;
    let aside = folder.join("tenure");
    std::fs::copy(built, &aside).context("put the server aside")?;
    Ok(aside)
}

/// `path+file:///…/crates/store#tenure-store@0.1.0`, or without the name if it equals the folder's.
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

    #[test]
    fn the_unit_tests_of_a_program_are_not_taken_for_the_program() {
        let message = |executable: &str, is_test: bool| {
            serde_json::json!({
                "package_id": "path+file:///a/crates/cli#tenure@0.1.0",
                "target": { "name": "tenure", "kind": ["bin"] },
                "profile": { "test": is_test },
                "executable": executable,
            })
        };
        let mut build = Build::default();
        build.note(&message("/a/target/debug/tenure", false));
        build.note(&message("/a/target/debug/deps/tenure-0123", true));
        let server = build.executable("tenure", "tenure").unwrap();
        assert_eq!(server, Path::new("/a/target/debug/tenure"));
    }
}
