//! Cases that an SDK is known to fail. The list is exact: a case on it that passes fails the run, so that no case stays
//! on it for longer than it fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

#[derive(Clone, Debug, Default)]
pub struct KnownFailing {
    names: BTreeSet<String>,
}

impl KnownFailing {
    /// One name per line; `#` begins a comment.
    pub fn read(file: &Path) -> io::Result<KnownFailing> {
        Ok(KnownFailing::parse(&fs::read_to_string(file)?))
    }

    fn parse(text: &str) -> KnownFailing {
        let names = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        KnownFailing { names: names.filter(|name| !name.is_empty()).map(str::to_owned).collect() }
    }

    #[must_use]
    pub fn has(&self, case: &str) -> bool {
        self.names.contains(case)
    }

    /// Names of which there is no case.
    #[must_use]
    pub fn unknown<'k>(&'k self, cases: &[&str]) -> Vec<&'k str> {
        self.names.iter().map(String::as_str).filter(|name| !cases.contains(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_no_names() {
        let known = KnownFailing::parse("# why\nworker/echo # because\n\n");
        assert!(known.has("worker/echo"));
        assert_eq!(known.unknown(&["worker/echo"]), Vec::<&str>::new());
        assert_eq!(known.unknown(&["client/many"]), ["worker/echo"]);
    }
}
