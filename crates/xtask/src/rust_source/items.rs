//! Finds functions, inline modules and items under `cfg(test)` in a code mask.

use std::ops::Range;

use super::{find_word, is_identifier_byte};

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Names of the inline modules around the function, outermost first.
    pub(crate) modules: Vec<String>,
    /// From the first line of its comment or attributes to its closing brace.
    pub(crate) span: Range<usize>,
    /// The offset of the word `fn`.
    pub(crate) keyword: usize,
    /// Marked as a test by an attribute.
    pub(crate) is_test: bool,
    /// Inside an item that exists only for tests.
    pub(crate) in_test_item: bool,
}

const TEST_CONDITIONS: &[&str] = &["#[cfg(test)]", "#[cfg(all(test", "#[cfg(any(test"];
const TEST_ATTRIBUTES: &[&str] = &["#[test]", "#[tokio::test"];

/// Spans of items that exist only for tests, and the names of such modules that have separate files.
pub(super) fn test_items(code: &str) -> (Vec<Range<usize>>, Vec<String>) {
    let mut spans = Vec::new();
    let mut files = Vec::new();
    for start in TEST_CONDITIONS.iter().flat_map(|needle| code.match_indices(needle)) {
        let start = start.0;
        let Some(item) = item_after_attributes(code, start) else { continue };
        match body_after(code, item) {
            Some(body) => spans.push(start..body.end),
            None => files.extend(module_name(&code[item..])),
        }
    }
    (spans, files)
}

pub(super) fn functions(
    text: &str,
    code: &str,
    line_starts: &[usize],
    test_spans: &[Range<usize>],
) -> Vec<Function> {
    let modules = inline_modules(code);
    let mut found = Vec::new();
    for keyword in find_word(code, "fn") {
        let Some(name) = identifier_after(code, keyword + 2) else { continue };
        let Some(body) = body_after(code, keyword) else { continue };
        let start = start_with_attributes(text, line_starts, keyword);
        let attributes = &code[start..keyword];
        found.push(Function {
            name,
            modules: modules
                .iter()
                .filter(|(_, span)| span.contains(&keyword))
                .map(|(name, _)| name.clone())
                .collect(),
            span: start..body.end,
            keyword,
            is_test: TEST_ATTRIBUTES.iter().any(|needle| attributes.contains(needle)),
            in_test_item: test_spans.iter().any(|span| span.contains(&keyword)),
        });
    }
    found
}

fn inline_modules(code: &str) -> Vec<(String, Range<usize>)> {
    find_word(code, "mod")
        .into_iter()
        .filter_map(|at| Some((identifier_after(code, at + 3)?, body_after(code, at)?)))
        .collect()
}

/// The identifier after `at`, if only whitespace is in between.
fn identifier_after(code: &str, at: usize) -> Option<String> {
    let rest = code[at..].trim_start();
    let length = rest.bytes().take_while(|byte| is_identifier_byte(*byte)).count();
    let separated = code[at..].starts_with(char::is_whitespace);
    (separated && length > 0).then(|| rest[..length].to_owned())
}

/// The braces of the item that begins at `at`; `None` for an item that ends in a semicolon.
fn body_after(code: &str, at: usize) -> Option<Range<usize>> {
    let mut nesting = 0i32;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => nesting += 1,
            b')' | b']' => nesting -= 1,
            b';' if nesting == 0 => return None,
            b'{' if nesting == 0 => return Some(offset..closing_brace(code, offset)),
            _ => {}
        }
    }
    None
}

/// The offset after the brace that closes the one at `open`.
fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return offset + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The offset of the item after a run of attributes that begins at `at`.
fn item_after_attributes(code: &str, mut at: usize) -> Option<usize> {
    loop {
        at += code[at..].find(|c: char| !c.is_whitespace())?;
        if !code[at..].starts_with("#[") {
            return Some(at);
        }
        let mut depth = 0i32;
        let end = code.bytes().enumerate().skip(at + 1).find_map(|(offset, byte)| {
            depth += match byte {
                b'[' => 1,
                b']' => -1,
                _ => 0,
            };
            (depth == 0).then_some(offset)
        })?;
        at = end + 1;
    }
}

/// `pub(crate) mod name;` gives the name.
fn module_name(item: &str) -> Option<String> {
    let head = &item[..item.find(';')?];
    let at = *find_word(head, "mod").first()?;
    identifier_after(head, at + 3)
}

/// Moves up over the comment and attribute lines above the line of `keyword`.
fn start_with_attributes(text: &str, line_starts: &[usize], keyword: usize) -> usize {
    let own = line_starts.partition_point(|start| *start <= keyword) - 1;
    let line = |index: usize| {
        let end = line_starts.get(index + 1).copied().unwrap_or(text.len());
        text[line_starts[index]..end].trim()
    };
    let mut first = own;
    let mut candidate = own;
    while candidate > 0 {
        candidate -= 1;
        let above = line(candidate);
        let opens = above.starts_with("//") || above.starts_with("#[");
        if opens {
            first = candidate;
        } else if above.is_empty() || above.ends_with(['{', '}', ';']) {
            break;
        }
    }
    line_starts[first].min(keyword)
}

#[cfg(test)]
mod tests {
    use crate::rust_source::RustSource;

    const SAMPLE: &str = "\
//! Sample.
fn first(x: [u8; 4]) -> u8 {
    x[0]
}

#[cfg(test)]
mod tests {
    /// Says why.
    #[tokio::test(
        flavor = \"current_thread\"
    )]
    async fn second() {
        let f: fn(u8) -> u8 = |x| x;
    }

    proptest! {
        #[test]
        fn third(x in 0..5u8) { assert!(x < 5); }
    }

    fn fixture() {}
}

trait T {
    fn declared(&self);
}
";

    #[test]
    fn functions_are_found_with_their_modules_and_marks() {
        let source = RustSource::new(SAMPLE);
        let seen: Vec<_> = source
            .functions
            .iter()
            .map(|f| (f.name.as_str(), f.modules.join("::"), f.is_test, f.in_test_item))
            .collect();
        assert_eq!(
            seen,
            [
                ("first", String::new(), false, false),
                ("second", "tests".to_owned(), true, true),
                ("third", "tests".to_owned(), true, true),
                ("fixture", "tests".to_owned(), false, true),
            ]
        );
    }

    #[test]
    fn a_span_begins_at_the_comment_and_ends_at_the_brace() {
        let source = RustSource::new(SAMPLE);
        let second = &source.text[source.functions[1].span.clone()];
        assert!(second.trim_start().starts_with("/// Says why."));
        assert!(second.ends_with("|x| x;\n    }"));
    }

    #[test]
    fn test_modules_in_their_own_files_are_named() {
        let source = RustSource::new("#[cfg(test)]\n#[path = \"x\"]\nmod scenarios;\nmod real;");
        assert_eq!(source.test_module_files, ["scenarios"]);
        assert!(!source.is_test_code(source.text.len() - 2));
    }

    #[test]
    fn code_inside_test_items_is_test_code() {
        let source = RustSource::new(SAMPLE);
        let inside = source.text.find("fixture").expect("the sample has it");
        assert!(source.is_test_code(inside));
        assert!(!source.is_test_code(source.text.find("first").expect("the sample has it")));
    }
}
