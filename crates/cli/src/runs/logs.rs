//! The log of a run, for people.
//!
//! Lines come from workers, which need not be trusted: whatever could move the cursor or change colours is replaced.

use wire::LogLevel;
use wire::answers::LoggedLine;

use crate::exit::CliError;
use crate::output::{self, FAINT};

pub(super) fn print(lines: &[LoggedLine]) -> Result<(), CliError> {
    if lines.is_empty() {
        return output::line(format_args!("\n{FAINT}nothing was logged{FAINT:#}"));
    }
    let mut attempt = None;
    for line in lines {
        if attempt.replace(line.attempt) != Some(line.attempt) {
            output::line(format_args!("\n{FAINT}log of attempt {}{FAINT:#}", line.attempt))?;
        }
        if let Some(dropped) = line.dropped {
            output::line(format_args!("  {FAINT}{} not kept{FAINT:#}", counted(dropped)))?;
        }
        print_line(line)?;
    }
    Ok(())
}

fn print_line(line: &LoggedLine) -> Result<(), CliError> {
    let level = match line.level {
        LogLevel::Info => String::new(),
        level => format!("{level}: "),
    };
    let mut parts = line.text.split('\n');
    let first = parts.next().unwrap_or_default();
    output::line(format_args!("  {FAINT}{}{FAINT:#}  {level}{}", line.at, harmless(first)))?;
    parts.try_for_each(|part| output::line(format_args!("    {}", harmless(part))))
}

fn counted(dropped: u64) -> String {
    let (noun, verb) = if dropped == 1 { ("line", "is") } else { ("lines", "are") };
    format!("{dropped} {noun} before this {verb}")
}

/// Without control characters.
fn harmless(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
    text.trim_end_matches('\r').chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_controlled_by_a_log() {
        assert_eq!(harmless("\u{1b}]0;title\u{7}\ta\r"), "\u{fffd}]0;title\u{fffd}\ta");
        assert_eq!(harmless("\u{9b}31mred"), "\u{fffd}31mred");
        assert_eq!(counted(1), "1 line before this is");
    }
}
