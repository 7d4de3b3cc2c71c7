//! Logs of tasks: lines that workers sent for people, in pieces.
//!
//! See [`verdict::log`] for what is kept. How to use this seam:
//! - look up the pieces of a task without their content ([`crate::Lookup::logs`]), after its task was locked;
//! - save what changes ([`crate::Decided::logs`]), once for a task in one batch: lines are added to the content of a piece, so
//!   what is stored of it is never read for that;
//! - read them beside the writers ([`crate::Browse::logs`]).
//!
//! Lines are part of no record: no digest of a task covers them, and a check of a store only compares pieces with their lines.
//! They leave with their task.

use verdict::log::{LINE_BYTES, Level, Line, LogChange, Piece, PieceId};
use verdict::{TaskId, Text, Time};

use crate::columns::{Columns, Row};
use crate::row::TaskKey;

/// What becomes of the log of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedLog {
    pub task: TaskKey,
    pub change: LogChange,
}

/// A piece of a log with its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    pub task: TaskKey,
    pub piece: Piece,
    pub lines: Vec<Line>,
}

/// Which pieces to read. They come in the order of tasks and pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogsOf {
    /// Those of one task with lines after this one: an attempt, and the number of the line.
    Task { key: TaskKey, after: Option<(u32, u64)> },
    /// Those of all scopes after this piece.
    All { after: Option<(TaskId, PieceId)> },
}

impl LogRow {
    /// Whether the piece says of its lines what they are.
    pub fn is_sound(&self) -> bool {
        let bytes: usize = self.lines.iter().map(|it| LINE_BYTES + it.text.as_str().len()).sum();
        let numbers = || self.lines.iter().map(|line| line.number);
        self.lines.len() == self.piece.lines as usize
            && bytes == self.piece.bytes as usize
            && numbers().next() == Some(self.piece.id.first)
            && numbers().next_back() == Some(self.piece.last)
            && numbers().is_sorted_by(|a, b| a < b)
    }
}

/// The columns of a piece with its content, after those of its task.
pub(crate) const PIECE: &str = "g.attempt, g.first_line, g.last_line, g.lines, g.bytes, g.dropped";

/// Reads [`PIECE`].
pub(crate) fn piece<R: Row>(columns: &mut Columns<'_, R>) -> Result<Piece, R::Error> {
    let mut count = || columns.optional_count().map(Option::unwrap_or_default);
    let attempt = count()?;
    let number = |cell: i64| u64::try_from(cell).unwrap_or(0);
    let (first, last) = (number(columns.long()?), number(columns.long()?));
    let mut count = || columns.optional_count().map(Option::unwrap_or_default);
    let (lines, bytes) = (count()?, count()?);
    let dropped = number(columns.long()?);
    Ok(Piece { id: PieceId { attempt, first }, last, lines, bytes, dropped })
}

/// Reads the id and scope of the task, [`PIECE`] and the content.
pub(crate) fn log_row<R: Row>(columns: &mut Columns<'_, R>) -> Result<LogRow, R::Error> {
    let (id, scope) = (columns.task_id()?, columns.scope()?);
    let piece = piece(columns)?;
    let lines = read(columns.str()?).map_err(|error| columns.unreadable(error))?;
    Ok(LogRow { task: TaskKey { scope, id }, piece, lines })
}

/// A number as its column holds it.
pub(crate) fn cell(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Lines as text that more lines can be appended to: one JSON array each.
pub(crate) fn written(lines: &[Line]) -> String {
    let mut text = String::new();
    for Line { number, at, level, text: said } in lines {
        let line = (number, at.millis(), word(*level), said.as_str());
        text.push_str(&serde_json::to_string(&line).expect("numbers and texts are plain JSON"));
        text.push('\n');
    }
    text
}

fn read(content: &str) -> Result<Vec<Line>, String> {
    let line = |text: &str| {
        let read: Result<(u64, i64, String, String), _> = serde_json::from_str(text);
        let (number, at, level, said) = read.map_err(|error| error.to_string())?;
        let level = level_of(&level).ok_or_else(|| format!("{level} is not a level"))?;
        Ok(Line { number, at: Time::from_millis(at), level, text: Text::from(said) })
    };
    content.lines().map(line).collect()
}

const LEVELS: [(Level, &str); 5] = [
    (Level::Trace, "trace"),
    (Level::Debug, "debug"),
    (Level::Info, "info"),
    (Level::Warn, "warn"),
    (Level::Error, "error"),
];

fn word(level: Level) -> &'static str {
    LEVELS.iter().find(|(known, _)| *known == level).expect("every level has a word").1
}

fn level_of(word: &str) -> Option<Level> {
    LEVELS.iter().find(|(_, known)| *known == word).map(|(level, _)| *level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_whatever_the_text() {
        let texts = ["plain", "two\nlines", "\u{2028}\r\"\\", "é\u{1b}[31m", ""];
        let line = |(n, text): (usize, &&str)| Line {
            number: n as u64,
            at: Time::from_millis(-5),
            level: LEVELS[n].0,
            text: Text::from(*text),
        };
        let lines: Vec<Line> = texts.iter().enumerate().map(line).collect();
        let text = written(&lines[..2]) + &written(&lines[2..]);
        assert_eq!(read(&text), Ok(lines));
        assert!(read("[1,2]").is_err() && read(r#"[1,2,"loud","x"]"#).is_err());
    }
}
