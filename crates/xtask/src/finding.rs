//! A finding of a check: where, what, why it matters, and the remedy.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) why: &'static str,
    pub(crate) remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what, why, remedy } = self;
        write!(f, "{file}:{line}: {what}, because {why}: {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_one_line_with_place_fact_reason_and_remedy() {
        let finding = Finding {
            file: "crates/a/src/b.rs".to_owned(),
            line: 7,
            what: "`x` is used".to_owned(),
            why: "y",
            remedy: "do z".to_owned(),
        };
        assert_eq!(finding.to_string(), "crates/a/src/b.rs:7: `x` is used, because y: do z");
    }
}
