//! Lines of a log. Their text is repaired and never refused: no work is lost because of a line about it.

use super::{Checked, FieldError, within};
use crate::limits::{LOG_NUMBER, LOG_TEXT_BYTES_MAX};
use crate::names::repair_text;
use crate::requests::LogLine;

/// Numbers grow from line to line.
pub(super) fn lines(lines: &[LogLine]) -> Checked {
    let mut before = 0;
    for (index, line) in lines.iter().enumerate() {
        let Some(number) = line.n else { continue };
        within(&format!("log[{index}].n"), Some(number), LOG_NUMBER)?;
        if number <= before {
            let what = format!("must be larger than the number before it, which is {before}");
            return Err(FieldError::new(format!("log[{index}].n"), what));
        }
        before = number;
    }
    Ok(())
}

pub(super) fn repair(lines: &mut [LogLine]) {
    for line in lines {
        let repaired = repair_text(&line.text, LOG_TEXT_BYTES_MAX);
        if repaired.len() != line.text.len() || line.text.contains('\0') {
            line.text = repaired.into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: Option<u64>, text: &str) -> LogLine {
        LogLine { n, text: text.to_owned(), ..LogLine::default() }
    }

    #[test]
    fn numbers_must_grow_and_lines_without_numbers_may_stand_between() {
        assert_eq!(lines(&[line(Some(1), "a"), line(None, "b"), line(Some(2), "c")]), Ok(()));
        let fault = lines(&[line(Some(2), "a"), line(None, "b"), line(Some(2), "c")]);
        assert_eq!(fault.unwrap_err().field, "log[2].n");
        assert_eq!(lines(&[line(Some(0), "a")]).unwrap_err().field, "log[0].n");
        assert!(lines(&[line(Some(u64::MAX), "a")]).is_err());
    }

    #[test]
    fn a_megabyte_and_nul_are_repaired() {
        let mut all = [line(None, &"é".repeat(500_000)), line(None, "a\0b"), line(None, "plain")];
        repair(&mut all);
        assert_eq!(all[0].text, "é".repeat(2_048));
        assert_eq!(all[1].text, "a\u{fffd}b");
        assert_eq!(all[2].text, "plain");
    }
}
