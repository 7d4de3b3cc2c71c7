//! Files that are generated from code, committed, and compared: today the OpenAPI document.

use std::path::Path;

use anyhow::{Context, Result};

use crate::finding::Finding;
use crate::tree::Tree;

const OPENAPI: &str = "protocol/openapi.json";

pub(crate) fn write_openapi(root: &Path) -> Result<()> {
    let path = root.join(OPENAPI);
    std::fs::write(&path, wire::openapi_json()).with_context(|| format!("write {OPENAPI}"))?;
    println!("wrote {OPENAPI}");
    Ok(())
}

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    compare(tree, &wire::openapi_json()).into_iter().collect()
}

fn compare(tree: &Tree, fresh: &str) -> Option<Finding> {
    let committed = tree.text(OPENAPI).unwrap_or_default();
    (committed != fresh).then(|| Finding {
        file: OPENAPI.to_owned(),
        line: first_difference(committed, fresh),
        what: "this file differs from what the types of crates/wire say".to_owned(),
        why: "clients are generated from it",
        remedy: "run `cargo xtask openapi` and commit the result".to_owned(),
    })
}

fn first_difference(left: &str, right: &str) -> usize {
    left.lines().zip(right.lines()).take_while(|(a, b)| a == b).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_stale_document_is_found_at_its_first_difference() {
        let tree = Tree::of(&[(OPENAPI, "{\n  \"a\": 1\n}\n")]);
        assert!(compare(&tree, "{\n  \"a\": 1\n}\n").is_none());
        let stale = compare(&tree, "{\n  \"a\": 2\n}\n");
        assert_eq!(stale.map(|finding| finding.line), Some(2));
        assert!(compare(&Tree::of(&[]), "{}").is_some());
    }
}
