//! The log of a task: lines that its workers sent with their calls, for people to read.
//!
//! Lines decide nothing and are part of no record. They are kept in pieces of a few kilobytes, so that a line is added by
//! writing one small row, and the oldest lines leave by deleting whole ones.
//!
//! Rules:
//! - only the caller that holds the lease adds lines, with a call that is not refused ([`may_add`]);
//! - a line has a number in its attempt. One that the log has already is not added again, so a repeated call adds nothing;
//! - of an attempt the newest [`ATTEMPT_BYTES_MAX`] are kept, of a task the newest [`TASK_BYTES_MAX`] in [`PIECES_MAX`];
//! - lines that are missing are counted in the piece after them ([`Piece::dropped`]), whether a bound of ours or the worker
//!   dropped them.

use crate::decide::caller::may_report;
use crate::event::Subject;
use crate::id::Text;
use crate::request::Caller;
use crate::time::{Moment, Time};
use crate::verdict::Answer;

/// What is kept of one attempt: some hundred lines, the end of a long output.
pub const ATTEMPT_BYTES_MAX: usize = 64 * 1024;

/// What is kept of one task. A durable run has an attempt for every turn; without this bound it could have thousands of logs.
pub const TASK_BYTES_MAX: usize = 1024 * 1024;

/// In how many pieces: each is a row, and a call with lines reads the sizes of all of them.
pub const PIECES_MAX: usize = 256;

/// A piece is not added to beyond this, except for its first line. Small enough to be written again with every line that is added, large
/// enough that an attempt has a dozen of them.
pub const PIECE_BYTES_MAX: usize = 8 * 1024;

/// What a line counts beside its text: number, time and level.
pub const LINE_BYTES: usize = 32;

/// The lines that one call may add. A call with more adds the newest.
pub const LINES_PER_CALL_MAX: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

/// A line as a worker sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentLine {
    /// Its number in the attempt; the next one if it has none.
    pub number: Option<u64>,
    /// By the worker's clock; the time of the decision if it says none. Decides nothing.
    pub at: Option<Time>,
    pub level: Level,
    pub text: Text,
}

impl SentLine {
    fn bytes(&self) -> usize {
        LINE_BYTES + self.text.as_str().len()
    }
}

/// The lines of one call that can be kept: its newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentLog {
    /// Lines without numbers that were left out before these. Numbered ones are missed by their numbers.
    left_out: u64,
    lines: Vec<SentLine>,
}

impl SentLog {
    /// `None` without lines.
    pub fn new(mut lines: Vec<SentLine>) -> Option<Self> {
        let mut room = ATTEMPT_BYTES_MAX;
        let fits = |line: &&SentLine| {
            let fits = line.bytes() <= room;
            room = room.saturating_sub(line.bytes());
            fits
        };
        let kept = lines.iter().rev().take(LINES_PER_CALL_MAX).take_while(fits).count();
        let first = lines.len() - kept;
        let left_out = lines[..first].iter().filter(|line| line.number.is_none()).count() as u64;
        lines.drain(..first);
        (left_out > 0 || !lines.is_empty()).then_some(Self { left_out, lines })
    }

    pub fn bytes(&self) -> usize {
        self.lines.iter().map(SentLine::bytes).sum()
    }
}

/// A line as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub number: u64,
    pub at: Time,
    pub level: Level,
    pub text: Text,
}

/// Which piece of a task's log. Pieces are in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId {
    pub attempt: u32,
    /// The number of its first line.
    pub first: u64,
}

/// Lines that are kept together, without their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub id: PieceId,
    /// The number of its last line.
    pub last: u64,
    pub lines: u32,
    pub bytes: u32,
    /// How many lines before its first are not kept.
    pub dropped: u64,
}

/// What a call changes of a task's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChange {
    pub removed: Vec<PieceId>,
    /// Pieces that are new or changed, each with the lines that it gets.
    pub saved: Vec<(Piece, Vec<Line>)>,
}

impl LogChange {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.saved.is_empty()
    }
}

/// Whether this caller may add lines with its call. `before` is the task before the call was decided.
pub fn may_add(before: &Subject, caller: &Caller, at: Moment) -> bool {
    may_report(before, caller, at)
}

/// Whether a call that got this answer adds its lines.
pub fn adds(answer: &Answer) -> bool {
    !matches!(answer, Answer::Refused(_))
}

/// The log of one task, while calls about it are decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLog {
    pieces: Vec<Held>,
    removed: Vec<PieceId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    piece: Piece,
    added: Vec<Line>,
    is_stored: bool,
    is_changed: bool,
}

impl TaskLog {
    /// The log as it is stored, in order.
    pub fn new(pieces: Vec<Piece>) -> Self {
        let held = |piece| Held { piece, added: Vec::new(), is_stored: true, is_changed: false };
        Self { pieces: pieces.into_iter().map(held).collect(), removed: Vec::new() }
    }

    /// Adds the lines of one call of this attempt, and drops the oldest ones that have no room any more.
    pub fn add(&mut self, attempt: u32, sent: &SentLog, now: Time) {
        let mut dropped = sent.left_out;
        for line in &sent.lines {
            let next = self.next_number(attempt).saturating_add(dropped);
            let number = line.number.unwrap_or(next);
            if number < next {
                continue;
            }
            dropped = dropped.saturating_add(number - next);
            let (at, level) = (line.at.unwrap_or(now), line.level);
            self.put(attempt, Line { number, at, level, text: line.text.clone() }, dropped);
            dropped = 0;
        }
        self.drop_oldest(|held| held.piece.id.attempt == attempt, ATTEMPT_BYTES_MAX);
        self.drop_oldest(|_| true, TASK_BYTES_MAX);
    }

    /// What is to be stored of it since it was loaded.
    pub fn into_change(self) -> LogChange {
        let changed = self.pieces.into_iter().filter(|held| held.is_changed);
        LogChange {
            removed: self.removed,
            saved: changed.map(|held| (held.piece, held.added)).collect(),
        }
    }

    fn next_number(&self, attempt: u32) -> u64 {
        let last = self.pieces.last().filter(|held| held.piece.id.attempt == attempt);
        last.map_or(1, |held| held.piece.last.saturating_add(1))
    }

    fn put(&mut self, attempt: u32, line: Line, dropped: u64) {
        let bytes = (LINE_BYTES + line.text.as_str().len()) as u32;
        let has_room = |held: &&mut Held| {
            held.piece.id.attempt == attempt
                && (held.piece.bytes + bytes) as usize <= PIECE_BYTES_MAX
        };
        if let Some(held) = self.pieces.last_mut().filter(|_| dropped == 0).filter(has_room) {
            held.piece.last = line.number;
            held.piece.lines += 1;
            held.piece.bytes += bytes;
            held.added.push(line);
            held.is_changed = true;
            return;
        }
        let id = PieceId { attempt, first: line.number };
        let piece = Piece { id, last: line.number, lines: 1, bytes, dropped };
        self.pieces.push(Held { piece, added: vec![line], is_stored: false, is_changed: true });
    }

    /// Drops the oldest of these pieces until the rest fits. The newest is always kept.
    fn drop_oldest(&mut self, is_meant: impl Fn(&Held) -> bool, bytes_max: usize) {
        let meant = || self.pieces.iter().filter(|held| is_meant(held));
        let mut bytes: usize = meant().map(|held| held.piece.bytes as usize).sum();
        let mut count = meant().count();
        let mut n = self.pieces.iter().position(&is_meant).unwrap_or(0);
        while (bytes > bytes_max || count > PIECES_MAX) && n + 1 < self.pieces.len() {
            if !is_meant(&self.pieces[n]) {
                n += 1;
                continue;
            }
            let Held { piece, is_stored, .. } = self.pieces.remove(n);
            if is_stored {
                self.removed.push(piece.id);
            }
            let after = &mut self.pieces[n];
            after.piece.dropped = after
                .piece
                .dropped
                .saturating_add(piece.dropped)
                .saturating_add(piece.lines.into());
            after.is_changed = true;
            bytes -= piece.bytes as usize;
            count -= 1;
        }
    }
}
