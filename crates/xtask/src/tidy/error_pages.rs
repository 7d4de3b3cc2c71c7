//! Every error code has a page with its meaning, its usual cause and the remedy, and every page has an error code.

use crate::finding::Finding;
use crate::tree::Tree;

const FOLDER: &str = "docs/errors/";
const TABLE: &str = "crates/wire/src/code.rs";
/// The folder's introduction.
const INTRODUCTION: &str = "README";
/// Pages about codes of the command line, which its own tests compare with its sources.
const COMMAND_LINE: &str = "cli/";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let pages: Vec<String> = wire::Code::ALL.iter().map(|code| code.page()).collect();
    compare(tree, &pages)
}

fn compare(tree: &Tree, expected: &[String]) -> Vec<Finding> {
    let missing = expected.iter().filter(|page| tree.text(&format!("{FOLDER}{page}.md")).is_none());
    let orphaned = tree
        .texts()
        .filter_map(|(path, _)| path.strip_prefix(FOLDER)?.strip_suffix(".md"))
        .filter(|page| !page.starts_with(COMMAND_LINE))
        .filter(|page| *page != INTRODUCTION && !expected.iter().any(|known| known == page));
    missing.map(|page| missing_page(page)).chain(orphaned.map(orphaned_page)).collect()
}

fn missing_page(page: &str) -> Finding {
    Finding {
        file: TABLE.to_owned(),
        line: 1,
        what: format!("a code has no page {FOLDER}{page}.md"),
        why: "a user who meets an error must be able to read what to do",
        remedy: "write it: meaning, usual cause, what to do".to_owned(),
    }
}

fn orphaned_page(page: &str) -> Finding {
    Finding {
        file: format!("{FOLDER}{page}.md"),
        line: 1,
        what: "no answer carries the code of this page".to_owned(),
        why: "a page about an error that cannot happen misleads",
        remedy: "delete the page or correct its name".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(expected: &[&str]) -> Vec<String> {
        let pages = ["README", "task-expired", "cli/no-key"];
        let pages = pages.map(|page| (format!("docs/errors/{page}.md"), ""));
        let tree = Tree::of(&pages.each_ref().map(|(path, text)| (path.as_str(), *text)));
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        compare(&tree, &expected).into_iter().map(|finding| finding.file).collect()
    }

    #[test]
    fn codes_and_pages_are_one_to_one() {
        assert_eq!(findings(&["task-expired"]), Vec::<String>::new());
        assert_eq!(findings(&["task-expired", "invalid-token"]), [TABLE]);
        assert_eq!(findings(&[]), ["docs/errors/task-expired.md"]);
    }
}
