//! Just enough of Rust's syntax for reliable scans: what is code, what is a comment, where functions begin and end,
//! and which parts are tests.
//!
//! This is no parser. It knows strings, raw strings, characters, lifetimes, nested comments and braces, so that a
//! word in a string is not mistaken for a call. The masks have the same length as the text, with everything else
//! blanked, so an offset in a mask is an offset in the text.

mod items;
mod mask;

pub(crate) use items::Function;

#[derive(Debug)]
pub(crate) struct RustSource {
    pub(crate) text: String,
    /// Code only: comments and the contents of strings are blank.
    pub(crate) code: String,
    /// Comments only.
    pub(crate) comments: String,
    pub(crate) functions: Vec<Function>,
    /// Names of the modules that exist only under `cfg(test)` and have separate files.
    pub(crate) test_module_files: Vec<String>,
    test_spans: Vec<std::ops::Range<usize>>,
    line_starts: Vec<usize>,
}

impl RustSource {
    pub(crate) fn new(text: &str) -> Self {
        let (code, comments) = mask::split(text);
        let line_starts: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let (test_spans, test_module_files) = items::test_items(&code);
        let functions = items::functions(text, &code, &line_starts, &test_spans);
        Self {
            text: text.to_owned(),
            code,
            comments,
            functions,
            test_module_files,
            test_spans,
            line_starts,
        }
    }

    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// Whether the offset lies in an item under `cfg(test)` or in a function marked as a test.
    pub(crate) fn is_test_code(&self, offset: usize) -> bool {
        self.test_spans.iter().any(|span| span.contains(&offset))
            || self.functions.iter().any(|f| f.is_test && f.span.contains(&offset))
    }
}

/// Offsets of `needle` as a whole word: where the needle ends in a letter, the identifier must end too.
pub(crate) fn find_word(text: &str, needle: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let opens_with_letter = needle.bytes().next().is_some_and(is_identifier_byte);
    let ends_with_letter = needle.bytes().next_back().is_some_and(is_identifier_byte);
    text.match_indices(needle)
        .map(|(at, _)| at)
        .filter(|at| {
            let before = at.checked_sub(1).map(|i| bytes[i]).filter(|_| opens_with_letter);
            let after = bytes.get(at + needle.len()).copied().filter(|_| ends_with_letter);
            !before.into_iter().chain(after).any(is_identifier_byte)
        })
        .collect()
}

pub(crate) fn is_identifier_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_whole_identifiers_only() {
        let text = "rand::x rand_chacha::y strand::z SystemTime::now()";
        assert_eq!(find_word(text, "rand::"), vec![0]);
        assert_eq!(find_word(text, "SystemTime").len(), 1);
        assert!(find_word(text, "System").is_empty());
    }

    #[test]
    fn lines_are_counted_from_one() {
        let source = RustSource::new("a\nb\nc");
        assert_eq!([0, 1, 2, 4].map(|at| source.line_of(at)), [1, 1, 2, 3]);
    }
}
