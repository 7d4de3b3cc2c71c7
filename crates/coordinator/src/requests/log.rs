//! Translates lines of a log. Programs that embed the coordinator have logs of their own, and send none.

use verdict::Text;
use verdict::log::{Level, SentLine, SentLog};
use wire::LogLevel;
use wire::requests::LogLine;

use super::instant;

/// The lines of a call that can be kept; `None` without any.
pub(crate) fn sent_log(lines: Vec<LogLine>) -> Option<Box<SentLog>> {
    if lines.is_empty() {
        return None;
    }
    SentLog::new(lines.into_iter().map(sent_line).collect()).map(Box::new)
}

fn sent_line(line: LogLine) -> SentLine {
    let LogLine { n, at, level, text } = line;
    SentLine { number: n, at: at.map(instant), level: verdict_level(level), text: Text::from(text) }
}

fn verdict_level(level: LogLevel) -> Level {
    match level {
        LogLevel::Trace => Level::Trace,
        LogLevel::Debug => Level::Debug,
        LogLevel::Info => Level::Info,
        LogLevel::Warn => Level::Warn,
        LogLevel::Error => Level::Error,
    }
}
