//! No text contains a path of the machine it was written on.

use crate::finding::Finding;
use crate::tree::Tree;

// Split in two so that this file does not match itself.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/", "target")];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        for (index, line) in text.lines().enumerate() {
            let named = MACHINE_PATHS.iter().filter(|needle| names_absolute(line, needle));
            findings.extend(named.map(|needle| finding(path, index + 1, needle)));
        }
    }
    findings
}

/// A path is absolute if no name precedes its first slash.
fn names_absolute(line: &str, needle: &str) -> bool {
    line.match_indices(needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}>*/".contains(c))
    })
}

fn finding(path: &str, line: usize, needle: &str) -> Finding {
    Finding {
        file: path.to_owned(),
        line,
        what: format!("`{needle}` is a path of one machine"),
        why: "the tree must mean the same on every machine",
        remedy: "use a path relative to the repository or a temporary folder".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_found_and_relative_ones_are_not() {
        for needle in MACHINE_PATHS {
            let tree = Tree::of(&[("a.md", &format!("x\nsee {needle}x")), ("b.rs", needle)]);
            assert_eq!(check(&tree).len(), 2, "{needle}");
            let relative = Tree::of(&[("a.md", &format!("crates/cli/src{needle}x"))]);
            assert!(check(&relative).is_empty(), "{needle}");
        }
    }
}
