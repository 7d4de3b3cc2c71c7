//! History without payloads: a long text that another table stores is replaced by its digest.
//!
//! An output is in `done`, a worker's claims and stack trace are in `attempts`. Reading restores them
//! ([`restore`]) if the digest still matches, so readers see no difference. If it does not match, the
//! digest itself is shown, and `verify` reports the difference.

use std::borrow::Cow;

use verdict::event::{Event, Next};
use verdict::request::{Outcome, Report, Request};
use verdict::{ClosedAttempt, Digest, End, Fault, Json, Text};

use crate::row::Entry;

/// Texts up to the length of a written digest are stored unchanged.
const UNDIGESTED_MAX: usize = 80;

/// The payloads in a task's other tables: its closed attempts, and its end if it has one.
#[derive(Clone, Copy, Debug)]
pub struct Payloads<'a> {
    pub attempts: &'a [ClosedAttempt],
    pub end: Option<&'a End>,
}

/// The entry as it is stored.
#[must_use]
pub fn digest_payloads(entry: &Entry) -> Cow<'_, Entry> {
    if !has_long_texts(entry) {
        return Cow::Borrowed(entry);
    }
    let mut entry = entry.clone();
    if let Request::Report(report) = &mut entry.request {
        digest_long_json(&mut report.claims);
        match &mut report.outcome {
            Outcome::Succeeded { output } | Outcome::Cancelled { output } => {
                digest_long_json(output)
            }
            Outcome::Failed(fault) => digest_long_trace(fault),
            Outcome::Released => {}
        }
    }
    for event in &mut entry.events {
        match event {
            Event::AttemptClosed { closed, next } => {
                **closed = digest_closed(closed);
                if let Next::End(end) = next {
                    *end = digest_end(end);
                }
            }
            Event::Ended(end) => *end = digest_end(end),
            _ => {}
        }
    }
    Cow::Owned(entry)
}

/// Most entries have none, and are stored unchanged.
fn has_long_texts(entry: &Entry) -> bool {
    entry.events.iter().any(|event| match event {
        Event::AttemptClosed { closed, next } => {
            is_long(closed.claims.as_ref())
                || has_long_trace(closed.fault.as_ref())
                || matches!(next, Next::End(end) if has_long_end(end))
        }
        Event::Ended(end) => has_long_end(end),
        _ => false,
    }) || matches!(&entry.request, Request::Report(report) if has_long_report(report))
}

fn has_long_report(report: &Report) -> bool {
    is_long(report.claims.as_ref())
        || match &report.outcome {
            Outcome::Succeeded { output } | Outcome::Cancelled { output } => {
                is_long(output.as_ref())
            }
            Outcome::Failed(fault) => has_long_trace(Some(fault)),
            Outcome::Released => false,
        }
}

fn has_long_end(end: &End) -> bool {
    is_long(end.output.as_ref()) || has_long_trace(end.fault.as_ref())
}

fn is_long(json: Option<&Json>) -> bool {
    json.is_some_and(|json| json.as_str().len() > UNDIGESTED_MAX)
}

fn has_long_trace(fault: Option<&Fault>) -> bool {
    let trace = fault.and_then(|fault| fault.stack_trace.as_ref());
    trace.is_some_and(|trace| trace.as_str().len() > UNDIGESTED_MAX)
}

/// The entry as it was saved, as far as the other tables still match it.
#[must_use]
pub fn restore(mut entry: Entry, payloads: Payloads<'_>) -> Entry {
    let mut attempt = None;
    for event in &mut entry.events {
        match event {
            Event::AttemptClosed { closed, next } => {
                attempt = restore_closed(closed, payloads.attempts);
                if let Next::End(end) = next {
                    restore_end(end, payloads.end);
                }
            }
            Event::Ended(end) => restore_end(end, payloads.end),
            _ => {}
        }
    }
    if let Request::Report(report) = &mut entry.request {
        let claims = attempt.and_then(|attempt| attempt.claims.as_ref());
        restore_if_same(&mut report.claims, claims, json_digest);
        let output = payloads.end.and_then(|end| end.output.as_ref());
        match &mut report.outcome {
            Outcome::Succeeded { output: short } | Outcome::Cancelled { output: short } => {
                restore_if_same(short, output, json_digest);
            }
            Outcome::Failed(fault) => {
                let trace =
                    attempt.and_then(|attempt| attempt.fault.as_ref()?.stack_trace.as_ref());
                restore_if_same(&mut fault.stack_trace, trace, text_digest);
            }
            Outcome::Released => {}
        }
    }
    entry
}

/// The attempts that an entry closed.
pub(crate) fn closed_attempts(entry: &Entry) -> impl Iterator<Item = u32> {
    entry.events.iter().filter_map(|event| match event {
        Event::AttemptClosed { closed, .. } => Some(closed.attempt),
        _ => None,
    })
}

/// Whether the task ended with this entry.
pub(crate) fn ends_task(entry: &Entry) -> bool {
    entry.events.iter().any(|event| {
        matches!(event, Event::AttemptClosed { next: Next::End(_), .. } | Event::Ended(_))
    })
}

fn digest_closed(closed: &ClosedAttempt) -> ClosedAttempt {
    let mut closed = closed.clone();
    digest_long_json(&mut closed.claims);
    closed.fault.iter_mut().for_each(digest_long_trace);
    closed
}

fn digest_end(end: &End) -> End {
    let mut end = end.clone();
    digest_long_json(&mut end.output);
    end.fault.iter_mut().for_each(digest_long_trace);
    end
}

fn restore_closed<'a>(
    closed: &mut ClosedAttempt,
    rows: &'a [ClosedAttempt],
) -> Option<&'a ClosedAttempt> {
    let row = rows.iter().find(|row| row.attempt == closed.attempt)?;
    if digest_closed(row) == *closed {
        *closed = row.clone();
    }
    Some(row)
}

fn restore_end(end: &mut End, row: Option<&End>) {
    if let Some(row) = row
        && digest_end(row) == *end
    {
        *end = row.clone();
    }
}

fn digest_long_json(json: &mut Option<Json>) {
    if let Some(long) = json.as_ref().filter(|json| json.as_str().len() > UNDIGESTED_MAX) {
        *json = Some(json_digest(long));
    }
}

fn digest_long_trace(fault: &mut Fault) {
    if let Some(long) =
        fault.stack_trace.as_ref().filter(|text| text.as_str().len() > UNDIGESTED_MAX)
    {
        fault.stack_trace = Some(text_digest(long));
    }
}

fn restore_if_same<T: PartialEq + Clone>(
    short: &mut Option<T>,
    long: Option<&T>,
    digest: fn(&T) -> T,
) {
    if let (Some(stored), Some(long)) = (&short, long)
        && *stored == digest(long)
    {
        *short = Some(long.clone());
    }
}

fn json_digest(json: &Json) -> Json {
    Json::from(format!("{{\"sha256\":\"{}\"}}", Digest::of(&[json.as_str().as_bytes()])))
}

fn text_digest(text: &Text) -> Text {
    Text::from(format!("sha256:{}", Digest::of(&[text.as_str().as_bytes()])))
}
