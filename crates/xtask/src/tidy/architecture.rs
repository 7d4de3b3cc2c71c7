//! ARCHITECTURE.md matches the repository: its crate graph equals that of the manifests, and the paths it names
//! exist.
//!
//! Other prose cannot be checked; these two can, and they become outdated first.

use std::collections::{BTreeMap, BTreeSet};

use super::edges;
use crate::finding::Finding;
use crate::tree::Tree;

const PAGE: &str = "ARCHITECTURE.md";
const GRAPH: &str = "## Who knows whom";
/// Folders of the repository that the page may name.
const ROOTS: &[&str] = &["crates/", "sdks/", "docs/", "protocol/", "fuzz/", "deploy/"];
const WHY: &str = "newcomers find their way by this page";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else { return Vec::new() };
    let mut findings = missing_paths(tree, page);
    findings.extend(graph(tree, page));
    findings
}

fn finding(line: usize, what: String, remedy: &str) -> Finding {
    Finding { file: PAGE.to_owned(), line, what, why: WHY, remedy: remedy.to_owned() }
}

fn missing_paths(tree: &Tree, page: &str) -> Vec<Finding> {
    let paths = page.lines().enumerate().flat_map(|(index, line)| {
        let code = line.split('`').skip(1).step_by(2);
        code.filter(|text| is_path(text)).map(move |path| (index + 1, path))
    });
    paths
        .filter(|(_, path)| !exists(tree, path))
        .map(|(line, path)| {
            finding(line, format!("`{path}` does not exist"), "name where it is now")
        })
        .collect()
}

fn is_path(text: &str) -> bool {
    ROOTS.iter().any(|root| text.starts_with(root)) && !text.contains([' ', '*', '{', ':'])
}

fn exists(tree: &Tree, path: &str) -> bool {
    let folder = format!("{}/", path.trim_end_matches('/'));
    tree.text(path).is_some() || tree.texts().any(|(known, _)| known.starts_with(&folder))
}

/// Compares the rows of the graph with the manifests, in both directions.
fn graph(tree: &Tree, page: &str) -> Vec<Finding> {
    let told = rows(page);
    let mut findings = Vec::new();
    for (path, manifest) in tree.texts() {
        let Some(folder) = path.strip_suffix("/Cargo.toml") else { continue };
        let built: BTreeSet<String> = edges::known_by(manifest).into_iter().collect();
        match told.get(folder) {
            Some((_, known)) if *known == built => {}
            Some((line, _)) => {
                let what =
                    format!("`{folder}` depends on {built:?}, which is not what the table lists");
                findings.push(finding(*line, what, "correct the row, or the manifest"));
            }
            None => {
                let what = format!("`{folder}` has no row under \"{GRAPH}\"");
                findings.push(finding(1, what, "add the row with the crates it depends on"));
            }
        }
    }
    findings
}

/// `| crates/edge | verdict, wire | … |` below the heading, each with its line number.
fn rows(page: &str) -> BTreeMap<String, (usize, BTreeSet<String>)> {
    let lines = page.lines().enumerate().skip_while(|(_, line)| *line != GRAPH).skip(1);
    lines
        .take_while(|(_, line)| !line.starts_with("## "))
        .filter_map(|(index, line)| {
            let mut cells = line.strip_prefix('|')?.split('|').map(|cell| cell.trim());
            let folder = cells.next()?.trim_matches('`').to_owned();
            let known = cells.next()?.split(", ").map(|name| name.trim_matches('`').to_owned());
            let known = known.filter(|name| !name.is_empty() && name != "-").collect();
            let is_crate = folder == "fuzz" || is_path(&folder);
            is_crate.then_some((folder, (index + 1, known)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[dependencies]\nverdict.workspace = true\nserde.workspace = true\n";

    fn findings(page: &str) -> Vec<String> {
        let tree = Tree::of(&[(PAGE, page), ("crates/store/Cargo.toml", MANIFEST)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_true_page_passes() {
        let page = "See `crates/store`.\n## Who knows whom\n| `crates/store` | `verdict` |\n";
        assert_eq!(findings(page), [""; 0]);
    }

    #[test]
    fn a_path_that_is_gone_is_found_with_its_line() {
        let page = "x\nSee `crates/store/src/lane.rs`.\n## Who knows whom\n| `crates/store` | `verdict` |\n";
        let found = findings(page);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("ARCHITECTURE.md:2: `crates/store/src/lane.rs` does not exist")
        );
    }

    #[test]
    fn a_graph_that_differs_from_the_manifests_is_found() {
        for row in ["| `crates/store` | `verdict`, `wire` |", "| `crates/store` | - |", ""] {
            let found = findings(&format!("## Who knows whom\n{row}\n"));
            assert_eq!(found.len(), 1, "{row}: {found:?}");
        }
    }
}
