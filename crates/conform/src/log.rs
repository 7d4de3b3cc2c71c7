//! What was seen, in the order of its arrival: parts of calls, marks of the subject's code, and what the kit did.
//!
//! Calls and marks come over the same loopback and get their time when they arrive, so both have one clock.

use serde_json::Value;
use tokio::time::Instant;

use crate::case::Pick;
use crate::value;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A part of a call.
    Item,
    /// A word of the subject's code.
    Mark,
    /// Something that the kit saw or did.
    Event,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at_ms: f64,
    pub(crate) sort: Sort,
    pub(crate) name: String,
    /// The name of the task in the case.
    pub(crate) of: Option<String>,
    pub(crate) attempt: Option<u32>,
    pub(crate) members: Value,
}

impl Entry {
    pub(crate) fn event(name: &str, members: Value) -> Entry {
        let name = name.to_owned();
        Entry { at_ms: 0.0, sort: Sort::Event, name, of: None, attempt: None, members }
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let sort = match self.sort {
            Sort::Item => "",
            Sort::Mark => "mark ",
            Sort::Event => "event ",
        };
        let of = self.of.as_deref().map(|of| format!(" of {of}")).unwrap_or_default();
        let attempt = self.attempt.map(|n| format!(" attempt {n}")).unwrap_or_default();
        let mut members = self.members.to_string();
        if members.len() > LINE_CHARS_MAX {
            let end = (0..=LINE_CHARS_MAX).rev().find(|n| members.is_char_boundary(*n));
            members.truncate(end.unwrap_or(0));
            members.push('…');
        }
        format!("{:>9.1} ms  {sort}{}{of}{attempt}  {members}", self.at_ms, self.name)
    }
}

/// An entry in a report is for orientation: bodies may be megabytes.
const LINE_CHARS_MAX: usize = 320;

#[derive(Debug)]
pub(crate) struct Log {
    started: Instant,
    pub(crate) entries: Vec<Entry>,
}

impl Log {
    pub(crate) fn new() -> Log {
        Log { started: Instant::now(), entries: Vec::new() }
    }

    pub(crate) fn now_ms(&self) -> f64 {
        self.started.elapsed().as_secs_f64() * 1000.0
    }

    pub(crate) fn add(&mut self, entry: Entry) {
        let at_ms = self.now_ms();
        self.entries.push(Entry { at_ms, ..entry });
    }

    pub(crate) fn event(&mut self, name: &str, members: Value) {
        self.add(Entry::event(name, members));
    }

    /// The entries that a pick takes.
    pub(crate) fn all(&self, pick: &Pick) -> Vec<&Entry> {
        let mut found: Vec<&Entry> =
            self.entries.iter().filter(|entry| fits(pick, entry)).collect();
        if let Some(nth) = pick.nth {
            found = found.into_iter().skip(nth - 1).take(1).collect();
        }
        if let Some(to) = pick.to {
            found.truncate(to);
        }
        if let Some(from) = pick.from {
            found = found.into_iter().skip(from - 1).collect();
        }
        found
    }

    /// When the subject was ready: the zero of all times in a case.
    pub(crate) fn ready_ms(&self) -> Option<f64> {
        let ready = |entry: &&Entry| entry.sort == Sort::Event && entry.name == "ready";
        self.entries.iter().find(ready).map(|entry| entry.at_ms)
    }
}

/// Whether an entry is of the kind that a pick speaks of, places aside.
pub(crate) fn fits(pick: &Pick, entry: &Entry) -> bool {
    let is_named = match (&pick.item, &pick.mark, &pick.event, &pick.lease_end) {
        (Some(item), None, None, None) => entry.sort == Sort::Item && entry.name == *item,
        (None, Some(mark), None, None) => {
            entry.sort == Sort::Mark && (mark == "*" || entry.name == *mark)
        }
        (None, None, Some(event), None) => entry.sort == Sort::Event && entry.name == *event,
        (None, None, None, Some(task)) => {
            entry.sort == Sort::Event
                && entry.name == "leaseEnd"
                && entry.of.as_deref() == Some(task)
        }
        _ => false,
    };
    let is_of = pick.of.as_ref().is_none_or(|of| entry.of.as_ref() == Some(of));
    let is_attempt = pick.attempt.is_none_or(|attempt| entry.attempt == Some(attempt));
    let has = |with| value::difference(with, &entry.members).is_none();
    is_named && is_of && is_attempt && pick.with.as_ref().is_none_or(has)
}

/// What a pick is called in a report.
pub(crate) fn describe(pick: &Pick) -> String {
    let mut told = match (&pick.item, &pick.mark, &pick.event, &pick.lease_end) {
        (Some(item), ..) => item.clone(),
        (_, Some(mark), ..) => format!("mark `{mark}`"),
        (_, _, Some(event), _) => format!("event `{event}`"),
        (_, _, _, Some(task)) => format!("the end of the lease of {task}"),
        _ => "nothing".to_owned(),
    };
    if let Some(of) = &pick.of {
        told.push_str(&format!(" of {of}"));
    }
    if let Some(attempt) = pick.attempt {
        told.push_str(&format!(" in attempt {attempt}"));
    }
    if let Some(nth) = pick.nth {
        told.push_str(&format!(", number {nth}"));
    }
    if let Some(with) = &pick.with {
        told.push_str(&format!(" with {with}"));
    }
    told
}
