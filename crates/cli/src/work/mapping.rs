//! What a program's exit means: exit codes to categories, stdout to output.
//!
//! | exit code | outcome |
//! |---|---|
//! | 0 | SUCCEEDED |
//! | 65, 66 | DATA_QUALITY: the input is at fault |
//! | 64, 67, 72, 77, 78, 126, 127 | CONFIGURATION: the setting is at fault, or the program cannot be run |
//! | 68, 69, 71, 73, 74, 75, 76 | INFRASTRUCTURE: the surroundings are at fault |
//! | 124 | TIMEOUT, as `timeout(1)` says it |
//! | 129 to 159, or death by a signal | INFRASTRUCTURE |
//! | everything else | USER_CODE |
//!
//! The numbers 64 to 78 are those of `sysexits.h`.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use wire::limits::PAYLOAD_BYTES_MAX;
use wire::{ErrorCategory, Json};

/// The exit codes by which a shell reports that its child died by a signal.
const BY_SIGNAL: std::ops::RangeInclusive<i32> = 129..=159;

/// The category of a program that did not exit with 0.
pub(crate) fn category(status: ExitStatus) -> ErrorCategory {
    match status.code() {
        Some(65 | 66) => ErrorCategory::DataQuality,
        Some(64 | 67 | 72 | 77 | 78 | 126 | 127) => ErrorCategory::Configuration,
        Some(68 | 69 | 71 | 73..=76) => ErrorCategory::Infrastructure,
        Some(124) => ErrorCategory::Timeout,
        Some(code) if BY_SIGNAL.contains(&code) => ErrorCategory::Infrastructure,
        Some(_) => ErrorCategory::UserCode,
        None => ErrorCategory::Infrastructure,
    }
}

/// How the program ended, as text.
pub(crate) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the program exited with {code}"),
        (None, Some(signal)) => format!("the program was killed by signal {signal}"),
        (None, None) => "the program ended, but the system did not report how".to_owned(),
    }
}

/// The message of a failure: the program's last line on stderr, else how it ended.
pub(crate) fn message(status: ExitStatus, stderr: &str) -> String {
    match stderr.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(last) => format!("{} ({})", last.trim(), ending(status)),
        None => ending(status),
    }
}

/// How stdout becomes JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Valid JSON is the output; any other text becomes `{"text": …}`.
    Text,
    /// Any bytes, as `{"base64": …}`.
    Base64,
}

/// The output of a program; `None` if it wrote nothing. Bytes that are not UTF-8 are refused
/// instead of being replaced: an output is kept as it was written or not at all.
pub(crate) fn output(stdout: &[u8], encoding: Encoding) -> Result<Option<Json>, String> {
    let json = match encoding {
        Encoding::Base64 if stdout.is_empty() => return Ok(None),
        Encoding::Base64 => wrapped("base64", &STANDARD.encode(stdout))?,
        Encoding::Text => {
            let text = std::str::from_utf8(stdout).map_err(not_utf8)?;
            let text = text.trim_end_matches(['\n', '\r']);
            if text.trim().is_empty() {
                return Ok(None);
            }
            Json::from_text(text.to_owned()).or_else(|_| wrapped("text", text))?
        }
    };
    if json.text().len() > PAYLOAD_BYTES_MAX {
        return Err(too_large());
    }
    Ok(Some(json))
}

fn wrapped(name: &str, text: &str) -> Result<Json, String> {
    Json::from_value(&serde_json::json!({ name: text }))
        .map_err(|error| format!("stdout has no JSON form: {error}"))
}

fn not_utf8(error: std::str::Utf8Error) -> String {
    format!(
        "the program wrote bytes to stdout that are not UTF-8, first at byte {}; print text or JSON, or start the \
         worker with --output-base64",
        error.valid_up_to()
    )
}

pub(crate) fn too_large() -> String {
    format!(
        "the program wrote more than {PAYLOAD_BYTES_MAX} bytes to stdout; keep the result elsewhere and print a \
         reference to it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn every_exit_code_has_its_category() {
        // S4-58: every failure is categorised; the table is a promise to authors of programs.
        use ErrorCategory::{Configuration, DataQuality, Infrastructure, Timeout, UserCode};
        let table = [
            (1, UserCode),
            (2, UserCode),
            (63, UserCode),
            (64, Configuration),
            (65, DataQuality),
            (66, DataQuality),
            (67, Configuration),
            (68, Infrastructure),
            (69, Infrastructure),
            (70, UserCode),
            (71, Infrastructure),
            (72, Configuration),
            (73, Infrastructure),
            (74, Infrastructure),
            (75, Infrastructure),
            (76, Infrastructure),
            (77, Configuration),
            (78, Configuration),
            (79, UserCode),
            (101, UserCode),
            (124, Timeout),
            (126, Configuration),
            (127, Configuration),
            (128, UserCode),
            (129, Infrastructure),
            (137, Infrastructure),
            (159, Infrastructure),
            (160, UserCode),
            (255, UserCode),
        ];
        for (code, expected) in table {
            assert_eq!(category(exited(code)), expected, "exit code {code}");
        }
        assert_eq!(category(ExitStatus::from_raw(9)), Infrastructure, "killed");
    }

    #[test]
    fn json_is_the_output_and_other_text_is_wrapped() {
        let read =
            |text: &str| output(text.as_bytes(), Encoding::Text).unwrap().map(Json::into_text);
        assert_eq!(read("{\"a\": 1.0}\n").as_deref(), Some("{\"a\": 1.0}"));
        assert_eq!(read("12\n").as_deref(), Some("12"));
        assert_eq!(read("all good\n").as_deref(), Some("{\"text\":\"all good\"}"));
        assert_eq!(
            read("{\"a\":1}\n{\"b\":2}\n").as_deref(),
            Some("{\"text\":\"{\\\"a\\\":1}\\n{\\\"b\\\":2}\"}")
        );
        assert_eq!(read(" \n"), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_or_kept_whole() {
        let refused = output(b"ok \xff\xfe", Encoding::Text).unwrap_err();
        assert!(
            refused.contains("first at byte 3") && refused.contains("--output-base64"),
            "{refused}"
        );
        let kept = output(b"ok \xff\xfe", Encoding::Base64).unwrap().map(Json::into_text);
        assert_eq!(kept.as_deref(), Some("{\"base64\":\"b2sg//4=\"}"));
        assert_eq!(output(b"", Encoding::Base64), Ok(None));
        let much = vec![0; PAYLOAD_BYTES_MAX];
        assert!(output(&much, Encoding::Base64).unwrap_err().contains("reference"));
    }

    #[test]
    fn output_that_only_becomes_too_large_by_wrapping_is_refused_too() {
        let quotes = "\"".repeat(PAYLOAD_BYTES_MAX - 1);
        assert!(output(quotes.as_bytes(), Encoding::Text).unwrap_err().contains("reference"));
    }

    #[test]
    fn the_message_is_the_last_line_the_program_wrote() {
        assert_eq!(
            message(exited(1), "a\nno such table\n\n"),
            "no such table (the program exited with 1)"
        );
        assert_eq!(message(ExitStatus::from_raw(9), ""), "the program was killed by signal 9");
    }
}
