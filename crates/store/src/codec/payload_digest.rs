//! History without payloads: a long text that another table stores is replaced by its digest.
//!
//! An output is in `done`, a worker's claims and stack trace are in `attempts`, the result of a step is in `checkpoints`
//! ([`super::run_payloads`]). Reading restores them
//! ([`restore`]) if the digest still matches, so readers see no difference. If it does not match, the
//! digest itself is shown, and `verify` reports the difference.

use std::borrow::Cow;

use verdict::event::{Event, Next};
use verdict::request::{Outcome, Report, Request};
use verdict::run::{Checkpoint, RunEvent, Waiting};
use verdict::{ClosedAttempt, Digest, End, Fault, Json, Subject, Text};

use super::run_payloads;
pub(crate) use super::run_payloads::digested_steps;
use crate::row::Entry;

/// Texts up to the length of a written digest are stored unchanged.
const UNDIGESTED_MAX: usize = 80;

/// The payloads in a task's other tables: its closed attempts, its end if that is decided, and the checkpoints of
/// [`digested_steps`].
#[derive(Clone, Copy, Debug)]
pub struct Payloads<'a> {
    pub attempts: &'a [ClosedAttempt],
    pub end: Option<&'a End>,
    pub checkpoints: &'a [Checkpoint],
}

/// The entry as it is stored.
#[must_use]
pub fn digest_payloads(entry: &Entry) -> Cow<'_, Entry> {
    if !has_long_texts(entry) {
        return Cow::Borrowed(entry);
    }
    let mut entry = entry.clone();
    match &mut entry.request {
        Request::Report(report) => {
            digest_long_json(&mut report.claims);
            digest_outcome(&mut report.outcome);
        }
        Request::Run(request) => run_payloads::digest_request(request),
        _ => {}
    }
    entry.events.iter_mut().for_each(digest_event);
    Cow::Owned(entry)
}

fn digest_event(event: &mut Event) {
    match event {
        Event::AttemptClosed { closed, next } => {
            **closed = digest_closed(closed);
            if let Some(end) = end_in(next) {
                *end = digest_end(end);
            }
        }
        Event::Ended(end) => *end = digest_end(end),
        Event::Run(event) => run_payloads::digest_event(event),
        _ => {}
    }
}

pub(super) fn digest_outcome(outcome: &mut Outcome) {
    match outcome {
        Outcome::Succeeded { output } | Outcome::Cancelled { output } => digest_long_json(output),
        Outcome::Failed(fault) => digest_long_trace(fault),
        Outcome::Released => {}
    }
}

/// The end that follows an attempt, at once or after the task's children.
fn end_in(next: &mut Next) -> Option<&mut End> {
    match next {
        Next::End(end) => Some(end),
        Next::Wait(waiting) => match &mut **waiting {
            Waiting::Closing(closing) => Some(&mut closing.end),
            _ => None,
        },
        Next::Retry { .. } | Next::Stage(_) => None,
    }
}

fn end_after(next: &Next) -> Option<&End> {
    match next {
        Next::End(end) => Some(end),
        Next::Wait(waiting) => match &**waiting {
            Waiting::Closing(closing) => Some(&closing.end),
            _ => None,
        },
        Next::Retry { .. } | Next::Stage(_) => None,
    }
}

/// Most entries have none, and are stored unchanged.
fn has_long_texts(entry: &Entry) -> bool {
    entry.events.iter().any(|event| match event {
        Event::AttemptClosed { closed, next } => {
            is_long(closed.claims.as_ref())
                || has_long_trace(closed.fault.as_ref())
                || end_after(next).is_some_and(has_long_end)
        }
        Event::Ended(end) => has_long_end(end),
        Event::Run(event) => run_payloads::has_long_event(event),
        _ => false,
    }) || match &entry.request {
        Request::Report(report) => has_long_report(report),
        Request::Run(request) => run_payloads::has_long_request(request),
        _ => false,
    }
}

fn has_long_report(report: &Report) -> bool {
    is_long(report.claims.as_ref()) || has_long_outcome(&report.outcome)
}

pub(super) fn has_long_outcome(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Succeeded { output } | Outcome::Cancelled { output } => is_long(output.as_ref()),
        Outcome::Failed(fault) => has_long_trace(Some(fault)),
        Outcome::Released => false,
    }
}

pub(super) fn has_long_end(end: &End) -> bool {
    is_long(end.output.as_ref()) || has_long_trace(end.fault.as_ref())
}

pub(super) fn is_long(json: Option<&Json>) -> bool {
    json.is_some_and(|json| json.as_str().len() > UNDIGESTED_MAX)
}

pub(super) fn has_long_trace(fault: Option<&Fault>) -> bool {
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
                if let Some(end) = end_in(next) {
                    restore_end(end, payloads.end);
                }
            }
            Event::Ended(end) => restore_end(end, payloads.end),
            Event::Run(event) => run_payloads::restore_event(event, payloads),
            _ => {}
        }
    }
    match &mut entry.request {
        Request::Report(report) => restore_report(report, attempt, &entry.events, payloads.end),
        Request::Run(request) => {
            run_payloads::restore_request(request, attempt, &entry.events, payloads);
        }
        _ => {}
    }
    entry
}

pub(super) fn restore_report(
    report: &mut Report,
    attempt: Option<&ClosedAttempt>,
    events: &[Event],
    end: Option<&End>,
) {
    let claims = attempt.and_then(|attempt| attempt.claims.as_ref());
    restore_if_same(&mut report.claims, claims, json_digest);
    restore_outcome(&mut report.outcome, attempt, end);
    // What the report of a stage says is in the stage's checkpoint.
    if let Outcome::Succeeded { output } = &mut report.outcome {
        restore_if_same(output, run_payloads::stage_result(events), json_digest);
    }
}

pub(super) fn restore_outcome(
    outcome: &mut Outcome,
    attempt: Option<&ClosedAttempt>,
    end: Option<&End>,
) {
    match outcome {
        Outcome::Succeeded { output } | Outcome::Cancelled { output } => {
            restore_if_same(output, end.and_then(|end| end.output.as_ref()), json_digest);
        }
        Outcome::Failed(fault) => {
            let trace = attempt.and_then(|attempt| attempt.fault.as_ref()?.stack_trace.as_ref());
            restore_if_same(&mut fault.stack_trace, trace, text_digest);
        }
        Outcome::Released => {}
    }
}

/// The attempts that an entry closed.
pub(crate) fn closed_attempts(entry: &Entry) -> impl Iterator<Item = u32> {
    entry.events.iter().filter_map(|event| match event {
        Event::AttemptClosed { closed, .. } => Some(closed.attempt),
        _ => None,
    })
}

/// Whether the task's end was decided with this entry, or carried out.
pub(crate) fn ends_task(entry: &Entry) -> bool {
    entry.events.iter().any(|event| match event {
        Event::AttemptClosed { next, .. } => end_after(next).is_some(),
        Event::Ended(_) => true,
        Event::Run(event) => matches!(**event, RunEvent::Closing(..)),
        _ => false,
    })
}

/// The end of a task, if it is decided.
pub(crate) fn decided_end(subject: &Subject) -> Option<&End> {
    match subject {
        Subject::Done(done) => Some(&done.end),
        Subject::Live(task) => task.closing().map(|closing| &closing.end),
        Subject::Absent => None,
    }
}

/// Whether a stored text stands for a longer one.
pub(crate) fn is_digest(json: &Json) -> bool {
    json.as_str().starts_with("{\"sha256\":\"")
}

pub(super) fn is_trace_digest(trace: &Text) -> bool {
    trace.as_str().starts_with("sha256:")
}

fn digest_closed(closed: &ClosedAttempt) -> ClosedAttempt {
    let mut closed = closed.clone();
    digest_long_json(&mut closed.claims);
    closed.fault.iter_mut().for_each(digest_long_trace);
    closed
}

pub(super) fn digest_end(end: &End) -> End {
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

pub(super) fn restore_end(end: &mut End, row: Option<&End>) {
    if let Some(row) = row
        && digest_end(row) == *end
    {
        *end = row.clone();
    }
}

pub(super) fn digest_long_json(json: &mut Option<Json>) {
    if let Some(long) = json.as_ref().filter(|json| json.as_str().len() > UNDIGESTED_MAX) {
        *json = Some(json_digest(long));
    }
}

pub(super) fn digest_long_trace(fault: &mut Fault) {
    if let Some(long) =
        fault.stack_trace.as_ref().filter(|text| text.as_str().len() > UNDIGESTED_MAX)
    {
        fault.stack_trace = Some(text_digest(long));
    }
}

pub(super) fn restore_if_same<T: PartialEq + Clone>(
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

pub(super) fn json_digest(json: &Json) -> Json {
    Json::from(format!("{{\"sha256\":\"{}\"}}", Digest::of(&[json.as_str().as_bytes()])))
}

fn text_digest(text: &Text) -> Text {
    Text::from(format!("sha256:{}", Digest::of(&[text.as_str().as_bytes()])))
}
