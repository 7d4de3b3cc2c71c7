//! What is wrong with an expression, and where.

use std::fmt;
use std::ops::Range;

/// A cron expression that cannot be read, with the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    expression: String,
    place: Range<usize>,
    message: String,
}

impl CronError {
    pub(super) fn new(expression: &str, place: Range<usize>, message: impl Into<String>) -> Self {
        Self { expression: expression.to_owned(), place, message: message.into() }
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The bytes of the expression that are wrong.
    pub fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// The expression with the wrong part marked below it, on two lines.
    pub fn marked(&self) -> String {
        let before = self.expression.get(..self.place.start).unwrap_or_default();
        let wrong = self.expression.get(self.place.clone()).unwrap_or_default();
        let marks = "^".repeat(wrong.chars().count().max(1));
        format!("{}\n{}{marks}", self.expression, " ".repeat(before.chars().count()))
    }
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wrong = self.expression.get(self.place.clone()).unwrap_or_default();
        let column =
            self.expression.get(..self.place.start).unwrap_or_default().chars().count() + 1;
        if wrong.is_empty() {
            write!(f, "{} (at column {column})", self.message)
        } else {
            write!(f, "{} (`{wrong}` at column {column})", self.message)
        }
    }
}

impl std::error::Error for CronError {}
