//! A requirement's id, such as S3-36, R-5 or W-13.

use std::fmt;

use crate::rust_source::is_identifier_byte;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    source: &'static str,
    number: u16,
}

const SOURCES: &[&str] = &["S0", "S1", "S2", "S3", "S4", "R", "W"];

impl Id {
    pub(super) fn new(source: &'static str, number: u16) -> Self {
        Self { source, number }
    }

    /// Parses a text that is exactly one id.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (source, number) = text.split_once('-')?;
        Self::of_parts(source, number)
    }

    fn of_parts(source: &str, number: &str) -> Option<Self> {
        let source = SOURCES.iter().find(|known| known.eq_ignore_ascii_case(source))?;
        let plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
        plain.then(|| number.parse().ok()).flatten().map(|number| Self { source, number })
    }

    /// Ids in running text, spelled exactly and as separate words, with their offsets.
    pub(super) fn in_text(text: &str) -> Vec<(usize, Self)> {
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let length =
                bytes[at..].iter().take_while(|b| is_identifier_byte(**b) || **b == b'-').count();
            let word = &text[at..at + length];
            if let Some(id) = Self::parse(word).filter(|id| id.to_string() == word) {
                found.push((at, id));
            }
            at += length.max(1);
            while !text.is_char_boundary(at) {
                at += 1;
            }
        }
        found
    }

    /// Ids in the name of a test: `s3_36_repeats` or `repeats_r_5`.
    pub(super) fn in_name(name: &str) -> Vec<Self> {
        let parts: Vec<&str> = name.split('_').collect();
        parts.windows(2).filter_map(|pair| Self::of_parts(pair[0], pair[1])).collect()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.source, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_text(text: &str) -> Vec<String> {
        Id::in_text(text).iter().map(|(_, id)| id.to_string()).collect()
    }

    #[test]
    fn ids_stand_alone_and_are_spelled_exactly() {
        assert_eq!(in_text("// S3-36, R-5: (W-13) — S0-1."), ["S3-36", "R-5", "W-13", "S0-1"]);
        assert!(in_text("S5-1 s3-36 S3-36a XS3-3 S3-036 R-5-x R_5 SHA-256 A2-5 S3-").is_empty());
    }

    #[test]
    fn names_spell_ids_with_underscores() {
        let names = |name| Id::in_name(name).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names("s3_36_is_repeated_r_5"), ["S3-36", "R-5"]);
        assert!(names("retry_5_times_for_s3").is_empty());
    }
}
