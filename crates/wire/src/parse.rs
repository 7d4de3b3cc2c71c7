//! Parses the bytes of a body into a well-formed request, or into one clear fault.
//!
//! serde alone is too lenient: it accepts structs as arrays, keeps the last of two equal members
//! inside opaque JSON, accepts what other parsers round and does not say where in the body it stopped. So
//! [`scan`] reads the body first, and the errors of serde are mapped to a path.
//!
//! Opaque JSON (`input`, `output`, `partialProgress`) keeps its bytes: it is refused where parsers
//! would disagree about its meaning, and never changed.

mod batch;
mod scan;

use serde::de::DeserializeOwned;

use crate::check::{Check, FieldError};
use crate::requests::*;
use scan::FreeText;

/// A body, or one item of a batch, that [`parse`] can read.
pub trait Body: Check + DeserializeOwned {
    #[doc(hidden)]
    const FREE_TEXT: FreeText = FreeText::Refused;

    /// The value of an empty body, if it is allowed.
    fn from_empty() -> Option<Self> {
        None
    }
}

/// A request that can also be sent in batches, in an array under one member.
pub trait BatchItem: Body {
    const MEMBER: &'static str;
}

impl Body for SubmitRun {}
impl Body for LeaseRequest {}
impl Body for WaitForRuns {}
impl Body for Started {}
impl Body for StartItem {}
impl Body for CancelRun {
    fn from_empty() -> Option<CancelRun> {
        Some(CancelRun::default())
    }
}
impl Body for RetryRun {
    fn from_empty() -> Option<RetryRun> {
        Some(RetryRun::default())
    }
}
impl Body for ForkRun {
    fn from_empty() -> Option<ForkRun> {
        Some(ForkRun::default())
    }
}
impl Body for SendSignal {}
impl Body for ResumeRun {
    fn from_empty() -> Option<ResumeRun> {
        Some(ResumeRun::default())
    }
}
impl Body for UnpinRun {
    fn from_empty() -> Option<UnpinRun> {
        Some(UnpinRun::default())
    }
}
impl Body for CheckpointCall {
    const FREE_TEXT: FreeText = FreeText::Repaired;
}
impl Body for CheckpointItem {
    const FREE_TEXT: FreeText = FreeText::Repaired;
}
impl Body for Heartbeat {
    const FREE_TEXT: FreeText = FreeText::Repaired;
}
impl Body for HeartbeatItem {
    const FREE_TEXT: FreeText = FreeText::Repaired;
}
impl Body for Completed {
    const FREE_TEXT: FreeText = FreeText::Repaired;
}
impl Body for Report {
    const FREE_TEXT: FreeText = FreeText::Repaired;
}

impl BatchItem for SubmitRun {
    const MEMBER: &'static str = "runs";
}
impl BatchItem for Report {
    const MEMBER: &'static str = "reports";
}
impl BatchItem for StartItem {
    const MEMBER: &'static str = "starts";
}
impl BatchItem for CheckpointItem {
    const MEMBER: &'static str = "checkpoints";
}
impl BatchItem for HeartbeatItem {
    const MEMBER: &'static str = "heartbeats";
}

/// The body of `POST /v1/runs`.
#[derive(Debug)]
pub enum Submit {
    One(Box<SubmitRun>),
    /// Each item is parsed separately: an invalid one does not affect the others.
    Many(Vec<Result<SubmitRun, FieldError>>),
}

/// Parses one request: checks shape and limits, repairs free text.
///
/// ```
/// use wire::{parse, requests::Started};
/// let started: Started = parse(br#"{"attempt":1,"workerId":"w1"}"#).unwrap();
/// assert_eq!(started.attempt, 1);
/// let fault = parse::<Started>(br#"{"attempt":1,"workerID":"w1"}"#).unwrap_err();
/// assert_eq!(fault.field, "workerID");
/// ```
pub fn parse<T: Body>(bytes: &[u8]) -> Result<T, FieldError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return T::from_empty().ok_or_else(|| FieldError::new("", "is empty; send a JSON object"));
    }
    require_object(bytes)?;
    let repaired = scan::scan(bytes, T::FREE_TEXT)?;
    let bytes = repaired.as_deref().unwrap_or(bytes);
    let mut request: T = serde_json::from_slice(bytes).map_err(|error| locate(bytes, &error))?;
    request.repair();
    request.check()?;
    Ok(request)
}

/// Parses a batch. The outer error means that the batch could not be split into items.
pub fn parse_batch<T: BatchItem>(bytes: &[u8]) -> Result<Vec<Result<T, FieldError>>, FieldError> {
    require_object(bytes)?;
    let items = batch::split(bytes, T::MEMBER)?;
    let parse_item = |(index, item): (usize, &[u8])| {
        parse(item).map_err(|fault| fault.under(&format!("{}[{index}]", T::MEMBER)))
    };
    Ok(items.into_iter().enumerate().map(parse_item).collect())
}

/// Parses the body of `POST /v1/runs`: one run, or many under `runs`.
pub fn parse_submit(bytes: &[u8]) -> Result<Submit, FieldError> {
    if batch::has_member(bytes, SubmitRun::MEMBER) {
        return parse_batch(bytes).map(Submit::Many);
    }
    let run: SubmitRun = parse(bytes)?;
    if run.idempotency_key.is_some() {
        return Err(FieldError::new(
            "idempotencyKey",
            "is allowed only in the items of a batch; send a single run with an Idempotency-Key header",
        ));
    }
    Ok(Submit::One(Box::new(run)))
}

fn require_object(bytes: &[u8]) -> Result<(), FieldError> {
    if bytes.starts_with(&[0xef, 0xbb, 0xbf]) {
        return Err(FieldError::new("", "begins with a byte order mark; send UTF-8 without one"));
    }
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => Ok(()),
        Some(b'[') => Err(FieldError::new("", "is an array; send a JSON object")),
        Some(_) => Err(FieldError::new("", "is not a JSON object; it must begin with `{`")),
        None => Err(FieldError::new("", "is empty; send a JSON object")),
    }
}

/// Turns serde's line and column into the path of the member where it stopped.
fn locate(bytes: &[u8], error: &serde_json::Error) -> FieldError {
    let offset = offset_of(bytes, error.line(), error.column());
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let place = format!("(line {}, column {})", error.line(), error.column());
    let path = scan::path_at(bytes, offset);
    if let Some(member) = quoted_after(what, "missing field `") {
        return FieldError::new(joined(path, member), "is missing");
    }
    if let Some(member) = quoted_after(what, "unknown field `") {
        let known = what.split_once(", ").map_or("", |(_, known)| known);
        let message = format!("is not a member of this request: {known} {place}");
        return FieldError::new(joined(path, member), message);
    }
    FieldError::new(path, format!("is invalid: {} {place}", in_plain_words(what)))
}

/// Replaces the names of Rust's types at the end of a message of serde.
fn in_plain_words(what: &str) -> String {
    let Some((found, expected)) = what.rsplit_once(", expected ") else { return what.to_owned() };
    let expected = match expected {
        "i32" => "an integer from -2147483648 to 2147483647",
        "u32" => "an integer from 0 to 4294967295",
        "u64" => "an integer from 0 to 9007199254740991",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a map" => "an object",
        "a sequence" => "an array",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    let found = match found {
        "invalid type: map" => "invalid type: object",
        "invalid type: sequence" => "invalid type: array",
        // It quotes the value, which stays as it is.
        other => other,
    };
    format!("{}, expected {expected}", found.replacen(": floating point ", ": number ", 1))
}

fn quoted_after<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.strip_prefix(prefix)?.split('`').next()
}

fn joined(path: String, member: &str) -> String {
    if path.is_empty() { member.to_owned() } else { format!("{path}.{member}") }
}

fn offset_of(bytes: &[u8], line: usize, column: usize) -> usize {
    let line_start = match line {
        0 | 1 => 0,
        _ => {
            let mut breaks = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            breaks.nth(line - 2).map_or(0, |(index, _)| index + 1)
        }
    };
    line_start + column
}

#[cfg(test)]
mod tests;
