//! Every answer of the interface is `#[non_exhaustive]` for clients: a new member must not break what they compile.

use crate::finding::Finding;
use crate::tree::Tree;

const FOLDER: &str = "crates/wire/src/answers/";
const DECLARED: &str = "pub struct ";
const ATTRIBUTE: &str = r#"#[cfg_attr(not(feature = "answering"), non_exhaustive)]"#;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let answers = tree.rust().filter(|(path, _)| path.starts_with(FOLDER));
    answers.flat_map(|(path, source)| exhaustive(path, &source.text)).collect()
}

fn exhaustive(path: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let is_open =
        |at: usize| lines[..at].iter().rev().take_while(|line| is_above(line)).all(not_it);
    let declared = (0..lines.len()).filter(|at| lines[*at].starts_with(DECLARED));
    declared.filter(|at| is_open(*at)).map(|at| finding(path, at + 1, lines[at])).collect()
}

/// Whether a line belongs to the declaration below it.
fn is_above(line: &str) -> bool {
    line.starts_with("#[") || line.starts_with("///")
}

fn not_it(line: &&str) -> bool {
    *line != ATTRIBUTE
}

fn finding(path: &str, line: usize, declaration: &str) -> Finding {
    let name = declaration.trim_start_matches(DECLARED).trim_end_matches(" {");
    Finding {
        file: path.to_owned(),
        line,
        what: format!("`{name}` may be built and matched in full by clients"),
        why: "an answer may gain members, and that must not break the programs that read it",
        remedy: format!("write `{ATTRIBUTE}` above it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_the_attribute_is_found() {
        let answers =
            |above: &str| format!("/// A.\n{above}\npub struct A {{\n}}\npub struct B {{\n}}\n");
        let found = |path: &str, above: &str| -> Vec<usize> {
            check(&Tree::of(&[(path, &answers(above))])).iter().map(|f| f.line).collect()
        };
        let path = "crates/wire/src/answers/a.rs";
        assert_eq!(found(path, ATTRIBUTE), [5]);
        assert_eq!(found(path, "#[derive(Clone)]"), [3, 5]);
        assert!(found("crates/wire/src/requests.rs", "#[derive(Clone)]").is_empty());
    }
}
