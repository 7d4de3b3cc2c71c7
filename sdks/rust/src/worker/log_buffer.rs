//! The lines that an attempt logs, until the coordinator has them.
//!
//! They travel with the next heartbeat, checkpoint or report. A line has a number, so one that is sent twice is kept once,
//! and one that found no room here leaves a gap that the coordinator counts.
//!
//! A coordinator that is older than logs refuses a call that carries lines. The call is made again without, and that worker
//! sends no more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::limits::LOG_TEXT_BYTES_MAX;
use wire::names::repair_text;
use wire::requests::LogLine;
use wire::{Code, LogLevel, Time};

use crate::Error;

/// What the coordinator keeps of an attempt.
pub(crate) const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// What one call carries: far below the coordinator's limit on a body, even if every character is escaped.
pub(crate) const CALL_BYTES_MAX: usize = 16 * 1024;
/// What a line counts beside its text.
const LINE_BYTES: usize = 32;

/// Lines of one attempt that did not arrive yet.
#[derive(Debug, Default)]
pub(crate) struct LogBuffer {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// How many lines there were.
    count: u64,
}

impl LogBuffer {
    /// Adds a line. The oldest gives way where there is no room.
    pub(crate) fn add(&mut self, level: LogLevel, text: &str, at: Time) {
        self.count += 1;
        let text = repair_text(text, LOG_TEXT_BYTES_MAX).into_owned();
        let line = LogLine { n: Some(self.count), at: Some(at), level, text };
        self.bytes += size(&line);
        self.lines.push_back(line);
        while self.bytes > BUFFER_BYTES_MAX {
            self.drop_oldest();
        }
    }

    /// The oldest lines, for a call.
    pub(crate) fn lines(&self, bytes_max: usize) -> Vec<LogLine> {
        let mut bytes = 0;
        let fits = |line: &&LogLine| {
            let is_first = bytes == 0;
            bytes += size(line);
            is_first || bytes <= bytes_max
        };
        self.lines.iter().take_while(fits).cloned().collect()
    }

    /// The coordinator has these lines.
    pub(crate) fn arrived(&mut self, last: u64) {
        while self.lines.front().is_some_and(|line| line.n <= Some(last)) {
            self.drop_oldest();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn drop_oldest(&mut self) {
        self.bytes -= self.lines.pop_front().as_ref().map_or(0, size);
    }
}

/// Whether the coordinator takes lines. All attempts of one worker share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogSwitch(Arc<AtomicBool>);

impl LogSwitch {
    pub(crate) fn is_off(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn turn_off(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether a call that carried lines may have been refused because of them. An older coordinator names the member in
/// `field`, or in its message alone.
pub(crate) fn is_refused(error: Option<&str>, field: Option<&str>) -> bool {
    let is_log = |part: &str| part.split('[').next() == Some("log");
    let is_at_fault = |field: &str| field.split('.').any(is_log);
    error == Some(Code::InvalidArgument.as_str()) && field.is_none_or(is_at_fault)
}

/// The same for a call that was refused as a whole.
pub(crate) fn is_refused_by(error: &Error) -> bool {
    let problem = error.problem();
    problem.is_some_and(|it| is_refused(Some(&it.error), it.field.as_deref()))
}

fn size(line: &LogLine) -> usize {
    line.text.len() + LINE_BYTES
}

/// The number of the last of these lines.
pub(crate) fn last_of(lines: &[LogLine]) -> u64 {
    lines.last().and_then(|line| line.n).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(lines: u64, text: &str) -> LogBuffer {
        let mut buffer = LogBuffer::default();
        (0..lines).for_each(|_| buffer.add(LogLevel::Info, text, Time::MIN));
        buffer
    }

    fn numbers(lines: &[LogLine]) -> Vec<u64> {
        lines.iter().filter_map(|line| line.n).collect()
    }

    #[test]
    fn lines_are_kept_until_they_arrived() {
        let mut buffer = filled(2, "x");
        let sent = buffer.lines(CALL_BYTES_MAX);
        assert_eq!(numbers(&sent), [1, 2]);
        assert_eq!(buffer.lines(CALL_BYTES_MAX), sent, "a call that is repeated brings the same");
        buffer.add(LogLevel::Warn, "y", Time::MIN);
        buffer.arrived(last_of(&sent));
        assert_eq!(numbers(&buffer.lines(CALL_BYTES_MAX)), [3]);
        buffer.arrived(3);
        assert_eq!((buffer.bytes(), last_of(&buffer.lines(CALL_BYTES_MAX))), (0, 0));
    }

    #[test]
    fn only_a_refusal_of_the_lines_is_taken_for_one() {
        let refused = |field| is_refused(Some("invalid_argument"), field);
        for field in [None, Some("log"), Some("heartbeats[3].log"), Some("reports[0].log[1].text")]
        {
            assert!(refused(field), "{field:?}");
        }
        assert!(!refused(Some("output")) && !refused(Some("progressPct")));
        assert!(!is_refused(Some("wrong_attempt"), None) && !is_refused(None, Some("log")));
    }

    #[test]
    fn the_oldest_give_way_and_leave_a_gap() {
        let buffer = filled(1_000, &"x".repeat(1_000));
        let all = numbers(&buffer.lines(BUFFER_BYTES_MAX));
        assert_eq!((all.first(), all.last()), (Some(&938), Some(&1_000)));
        assert_eq!(buffer.lines(CALL_BYTES_MAX).len(), 15);
        let long = filled(1, &"é".repeat(100_000));
        assert_eq!(long.lines(1).first().map(|line| line.text.len()), Some(LOG_TEXT_BYTES_MAX));
    }
}
