//! The line protocol on file descriptor 3: `progress 40 halfway there`, `message reading the
//! index`.
//!
//! An unknown line is ignored with a warning: progress never fails a task.

/// One parsed line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    Progress { percent: f64, message: Option<String> },
    Message(String),
}

/// Why a line was ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ignored(pub(crate) String);

/// Longer lines are cut: a message is for people.
pub(crate) const LINE_BYTES_MAX: usize = wire::limits::MESSAGE_BYTES_MAX;

/// Enough of an unknown line to find it in the program.
const ECHO_CHARS_MAX: usize = 60;

pub(crate) fn parse(line: &str) -> Result<Line, Ignored> {
    let line = line.trim_end_matches(['\n', '\r']);
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "progress" => {
            progress(rest).ok_or_else(|| ignored(line, "`progress` takes a number from 0 to 100"))
        }
        "message" => Ok(Line::Message(rest.trim().to_owned())),
        _ => Err(ignored(line, "expected `progress PERCENT [MESSAGE]` or `message TEXT`")),
    }
}

fn progress(rest: &str) -> Option<Line> {
    let (number, message) = rest.trim_start().split_once(' ').unwrap_or((rest.trim(), ""));
    let percent: f64 = number.trim_end_matches('%').parse().ok()?;
    let message = Some(message.trim().to_owned()).filter(|text| !text.is_empty());
    wire::limits::PROGRESS_PCT.contains(&percent).then_some(Line::Progress { percent, message })
}

fn ignored(line: &str, why: &str) -> Ignored {
    let echo: String = line.chars().take(ECHO_CHARS_MAX).collect();
    Ignored(format!("ignored `{echo}` on file descriptor 3: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_lines_are_understood() {
        let with = |percent, message: Option<&str>| {
            Ok(Line::Progress { percent, message: message.map(str::to_owned) })
        };
        assert_eq!(parse("progress 40 half way\n"), with(40.0, Some("half way")));
        assert_eq!(parse("progress 12.5"), with(12.5, None));
        assert_eq!(parse("progress 100%"), with(100.0, None));
        assert_eq!(parse("message  reading "), Ok(Line::Message("reading".to_owned())));
    }

    #[test]
    fn unknown_lines_are_ignored_and_say_why() {
        for line in
            ["", "hello", "progress", "progress x", "progress 101", "progress -1", "progress NaN"]
        {
            assert!(parse(line).is_err(), "{line:?} was understood");
        }
        assert!(parse("PROGRESS 4").unwrap_err().0.contains("`progress PERCENT [MESSAGE]`"));
    }
}
