//! The crates that a user of the Rust SDK needs can be packaged: their manifests say what a registry and docs.rs show, and
//! each names the version of every other one.
//!
//! The manifests are read line by line. `cargo xtask dist` makes the packages.

use crate::finding::Finding;
use crate::tree::Tree;

/// The folders of the crates, in the order in which they would be published.
const FOLDERS: [&str; 5] =
    ["crates/faultpoint", "crates/wire", "crates/webhook", "crates/workflow", "sdks/rust"];

/// What each manifest must say.
const MEMBERS: [&str; 8] = [
    "description = ",
    "readme = ",
    "keywords = ",
    "categories = ",
    "include = ",
    "license.workspace = true",
    "rust-version.workspace = true",
    "[package.metadata.docs.rs]",
];

/// The names of the packages, for cargo.
pub(crate) const PACKAGES: [&str; 5] =
    ["tenure-faultpoint", "tenure-wire", "tenure-webhook", "tenure-workflow", "tenure-sdk"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        FOLDERS.iter().flat_map(|folder| check_manifest(tree, folder)).collect();
    findings.extend(check_versions(tree.text("Cargo.toml").unwrap_or_default()));
    findings
}

fn check_manifest(tree: &Tree, folder: &str) -> Vec<Finding> {
    let manifest = format!("{folder}/Cargo.toml");
    let Some(text) = tree.text(&manifest) else {
        return vec![finding(&manifest, 1, "this manifest is missing".to_owned())];
    };
    let lacks = |member: &&&str| !text.lines().any(|line| line.starts_with(**member));
    let missing = MEMBERS.iter().filter(lacks);
    let mut findings: Vec<Finding> =
        missing.map(|member| finding(&manifest, 1, format!("`{member}` is missing"))).collect();
    let readme = format!("{folder}/README.md");
    if tree.text(&readme).is_none() {
        findings.push(finding(&readme, 1, "this page is missing".to_owned()));
    }
    findings
}

/// A package names the version of what it depends on: a path means nothing in a registry.
fn check_versions(workspace: &str) -> Vec<Finding> {
    let lines = workspace.lines().enumerate();
    let is_path_alone = |line: &str| {
        let names_one =
            PACKAGES[..4].iter().any(|name| line.contains(&format!("package = \"{name}\"")));
        names_one && !line.contains("version = ")
    };
    let what = |line: &str| format!("`{}` has no version", line.split(' ').next().unwrap_or(line));
    lines
        .filter(|(_, line)| is_path_alone(line))
        .map(|(at, line)| finding("Cargo.toml", at + 1, what(line)))
        .collect()
}

fn finding(file: &str, line: usize, what: String) -> Finding {
    Finding {
        file: file.to_owned(),
        line,
        what,
        why: "users of the Rust SDK get this crate from a registry",
        remedy: "say it as the other published crates do".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str) -> Vec<String> {
        let files = [("sdks/rust/Cargo.toml", manifest), ("sdks/rust/README.md", "# R")];
        let findings = check_manifest(&Tree::of(&files), "sdks/rust");
        findings.into_iter().map(|it| it.what).collect()
    }

    #[test]
    fn a_manifest_that_a_registry_would_show_with_gaps_is_found() {
        let whole: Vec<String> = MEMBERS.iter().map(|member| format!("{member}\n")).collect();
        assert!(found(&whole.concat()).is_empty());
        assert_eq!(found(&whole[1..].concat()), ["`description = ` is missing"]);
    }

    #[test]
    fn a_dependency_without_a_version_is_found() {
        let workspace = "wire = { path = \"crates/wire\", package = \"tenure-wire\" }\n\
            store = { path = \"crates/store\", package = \"tenure-store\" }";
        let findings = check_versions(workspace);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].line, findings[0].what.as_str()), (1, "`wire` has no version"));
    }
}
