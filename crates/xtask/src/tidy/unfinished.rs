//! Markers of unfinished or unchecked work: allowed on a branch, but not in the tested tree.

use crate::finding::Finding;
use crate::rust_source::find_word;
use crate::tree::Tree;

// Split in two so that this file does not match itself.
const IN_COMMENTS: &[&str] = &[concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X")];
const IN_CODE: &[(&str, &str)] = &[
    (concat!("to", "do!"), "write it, or leave it out"),
    (concat!("unimple", "mented!"), "write it, or leave it out"),
    (concat!("#[ig", "nore"), "mend the test or delete it with the promise it was for"),
    (concat!("#[should_", "panic"), "assert on the value or the error that is returned"),
    (
        concat!("#[al", "low("),
        "use `#[expect(…, reason = …)]`, which fails when it is needed no more",
    ),
];
/// Other files in which such a marker is always a comment.
const SCRIPTS: &[&str] = &[".sh", ".sql", ".py", ".ts", ".toml", ".yaml", ".yml"];

const WHY: &str = "what is on main is finished and checked";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.rust() {
        for word in IN_COMMENTS {
            for at in find_word(&source.comments, word) {
                findings.push(finding(path, source.line_of(at), word, OPEN_QUESTION));
            }
        }
        for (word, remedy) in IN_CODE {
            for at in find_word(&source.code, word) {
                findings.push(finding(path, source.line_of(at), word, remedy));
            }
        }
    }
    for (path, text) in tree.texts().filter(|(path, _)| is_script(path)) {
        for (index, line) in text.lines().enumerate() {
            let comment = if is_declaration(path) { comment_of(line) } else { line };
            let marks = IN_COMMENTS.iter().filter(|word| !find_word(comment, word).is_empty());
            findings.extend(marks.map(|word| finding(path, index + 1, word, OPEN_QUESTION)));
        }
    }
    findings
}

const OPEN_QUESTION: &str = "answer it now, or move the question to an issue or a decision record";

/// A shipped topology has statuses, and such a word may be one of them.
fn is_declaration(path: &str) -> bool {
    path.starts_with("topologies/") || path.starts_with("crates/cli/src/tour/scenes/")
}

fn comment_of(line: &str) -> &str {
    line.find('#').map_or("", |at| &line[at..])
}

fn is_script(path: &str) -> bool {
    SCRIPTS.iter().any(|ending| path.ends_with(ending)) || path == ".ci/run"
}

fn finding(path: &str, line: usize, word: &str, remedy: &str) -> Finding {
    Finding {
        file: path.to_owned(),
        line,
        what: format!("`{word}` stands here"),
        why: WHY,
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_in_comments_code_and_scripts_are_found() {
        for word in IN_COMMENTS {
            let tree = Tree::of(&[("a.rs", &format!("//! A.\n// {word}: later\n"))]);
            assert_eq!(check(&tree).iter().map(|f| f.line).collect::<Vec<_>>(), [2], "{word}");
            assert_eq!(check(&Tree::of(&[("a.sql", &format!("-- {word}"))])).len(), 1, "{word}");
        }
        for (word, _) in IN_CODE {
            assert_eq!(check(&Tree::of(&[("a.rs", &format!("{word}()"))])).len(), 1, "{word}");
        }
    }

    #[test]
    fn a_status_that_happens_to_be_such_a_word_is_data() {
        let word = IN_COMMENTS[1];
        let file = |line: String| Tree::of(&[("topologies/a.yaml", line.as_str())]);
        assert!(check(&file(format!("statuses: [{word}]"))).is_empty());
        assert_eq!(check(&file(format!("a: b # {word}"))).len(), 1);
        assert!(check(&Tree::of(&[("a.rs", &format!("let s = \"{word}\";"))])).is_empty());
        assert!(check(&Tree::of(&[("a.md", &format!("from NEW to {word}"))])).is_empty());
    }
}
