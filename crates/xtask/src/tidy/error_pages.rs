//! Every code an answer may carry has a page that says what it means, its usual cause and what to do, and no page outlives its code.

use crate::finding::Finding;
use crate::tree::Tree;

const FOLDER: &str = "docs/errors/";
const TABLE: &str = "crates/wire/src/lib.rs";
/// The folder's own introduction.
const NOT_A_CODE: &str = "README";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    compare(tree, &codes())
}

fn codes() -> Vec<&'static str> {
    Vec::new()
}

fn compare(tree: &Tree, codes: &[&str]) -> Vec<Finding> {
    let missing = codes.iter().filter(|code| tree.text(&format!("{FOLDER}{code}.md")).is_none());
    let orphaned = tree
        .texts()
        .filter_map(|(path, _)| path.strip_prefix(FOLDER)?.strip_suffix(".md"))
        .filter(|page| *page != NOT_A_CODE && !codes.contains(page));
    missing.map(|code| missing_page(code)).chain(orphaned.map(orphaned_page)).collect()
}

fn missing_page(code: &str) -> Finding {
    Finding {
        file: TABLE.to_owned(),
        line: 1,
        what: format!("the code `{code}` has no page"),
        why: "whoever meets an error should be able to read what to do",
        remedy: format!("write {FOLDER}{code}.md: meaning, usual cause, what to do"),
    }
}

fn orphaned_page(code: &str) -> Finding {
    Finding {
        file: format!("{FOLDER}{code}.md"),
        line: 1,
        what: format!("no answer carries the code `{code}`"),
        why: "a page about an error that cannot happen misleads",
        remedy: "delete the page or correct its name".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_pages_are_one_to_one() {
        let tree = Tree::of(&[("docs/errors/README.md", ""), ("docs/errors/task_expired.md", "")]);
        assert!(compare(&tree, &["task_expired"]).is_empty());
        assert_eq!(compare(&tree, &["task_expired", "invalid_token"]).len(), 1);
        assert_eq!(compare(&tree, &[]).len(), 1);
    }
}
