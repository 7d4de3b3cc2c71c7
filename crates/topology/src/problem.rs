//! What is wrong with a topology file, and where.

use std::fmt;

/// A place in a file, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: u64,
    pub column: u64,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The member it is about, from the top of the file; empty for the whole file.
    pub path: String,
    pub place: Option<Place>,
    pub message: String,
}

impl fmt::Display for Problem {
    /// Without the file's name, which the caller puts in front.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { line, column }) = self.place {
            write!(f, "{line}:{column}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}
