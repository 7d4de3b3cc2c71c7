//! Every module begins with a comment that says what it is for.

use crate::finding::Finding;
use crate::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|(_, source)| !source.text.trim_start().starts_with("//!"))
        .map(|(path, _)| Finding {
            file: path.to_owned(),
            line: 1,
            what: "this module does not open with a `//!` comment".to_owned(),
            why: "a reader should know what a file is for before reading it",
            remedy: "say what it is for, what it deliberately does not do, and its invariants"
                .to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_a_comment_of_its_own_is_found() {
        let tree = Tree::of(&[("a.rs", "//! A.\n"), ("b.rs", "/// B.\nfn b() {}"), ("c.rs", "")]);
        let files: Vec<_> = check(&tree).into_iter().map(|finding| finding.file).collect();
        assert_eq!(files, ["b.rs", "c.rs"]);
    }
}
