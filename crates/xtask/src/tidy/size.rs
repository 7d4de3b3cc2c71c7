//! Files and functions stay small enough to read in one go.

use crate::finding::Finding;
use crate::rust_source::RustSource;
use crate::tree::Tree;

/// A longer file holds two ideas. Typical is 100 to 500.
const FILE_LINES_MAX: usize = 800;
/// A longer function takes several screens. Typical is 5 to 15, few are above 70.
const FUNCTION_LINES_MAX: usize = 100;

/// File, function, and the reason for the exception.
type LongFunction = (&'static str, &'static str, &'static str);

/// A ratchet: rows may be removed, but a new one needs a reason. An obsolete row is itself a finding.
const LONG_FUNCTIONS: &[LongFunction] = &[];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, LONG_FUNCTIONS)
}

fn check_with(tree: &Tree, allowed: &[LongFunction]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        tree.rust().flat_map(|(path, source)| file(path, source, allowed)).collect();
    findings.extend(allowed.iter().filter(|row| !is_needed(tree, row)).map(needless_row));
    findings
}

fn file(path: &str, source: &RustSource, allowed: &[LongFunction]) -> Vec<Finding> {
    let lines = source.text.lines().count();
    let long_file = (lines > FILE_LINES_MAX).then(|| Finding {
        file: path.to_owned(),
        line: 1,
        what: format!("this file has {lines} lines, the limit is {FILE_LINES_MAX}"),
        why: "a file holds one idea",
        remedy: "find the second idea and give it a file".to_owned(),
    });
    let long_functions = long_functions(source)
        .filter(|(name, ..)| {
            !allowed.iter().any(|(file, listed, _)| *file == path && listed == name)
        })
        .map(|(name, line, length)| Finding {
            file: path.to_owned(),
            line,
            what: format!("`{name}` has {length} lines, the limit is {FUNCTION_LINES_MAX}"),
            why: "a function is read on one screen",
            remedy: "let the parent branch and the leaves compute".to_owned(),
        });
    long_file.into_iter().chain(long_functions).collect()
}

/// Name, line and length of each function over the limit, counted from `fn` to its closing brace.
fn long_functions(source: &RustSource) -> impl Iterator<Item = (&str, usize, usize)> {
    source.functions.iter().filter_map(|function| {
        let first = source.line_of(function.keyword);
        let length = source.line_of(function.span.end - 1) - first + 1;
        (length > FUNCTION_LINES_MAX).then_some((function.name.as_str(), first, length))
    })
}

fn is_needed(tree: &Tree, (file, listed, _): &LongFunction) -> bool {
    let in_file = |(path, source): (&str, &RustSource)| {
        path == *file && long_functions(source).any(|(name, ..)| name == *listed)
    };
    tree.rust().any(in_file)
}

fn needless_row((file, name, _): &LongFunction) -> Finding {
    Finding {
        file: "crates/xtask/src/tidy/size.rs".to_owned(),
        line: 1,
        what: format!("the row for `{name}` in {file} is needed no more"),
        why: "the list may only shrink",
        remedy: "delete the row".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    const ROW: LongFunction = ("a.rs", "long", "a table");

    #[test]
    fn the_limits_are_the_last_length_allowed() {
        assert!(check(&Tree::of(&[("a.rs", &function_of(FUNCTION_LINES_MAX))])).is_empty());
        let found = check(&Tree::of(&[("a.rs", &function_of(FUNCTION_LINES_MAX + 1))]));
        assert_eq!(found.len(), 1);
        assert!(check(&Tree::of(&[("a.rs", &"\n".repeat(FILE_LINES_MAX))])).is_empty());
        assert_eq!(check(&Tree::of(&[("a.rs", &"\n".repeat(FILE_LINES_MAX + 1))])).len(), 1);
    }

    #[test]
    fn a_listed_function_may_be_long_and_an_unneeded_row_is_found() {
        let long = function_of(FUNCTION_LINES_MAX + 1);
        assert!(check_with(&Tree::of(&[("a.rs", &long)]), &[ROW]).is_empty());
        assert_eq!(check_with(&Tree::of(&[("b.rs", &long)]), &[ROW]).len(), 2);
        assert_eq!(check_with(&Tree::of(&[("a.rs", "fn long() {}")]), &[ROW]).len(), 1);
    }
}
