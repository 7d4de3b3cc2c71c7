//! Histories as text: one JSON object per line; `#` starts a comment.
//!
//! Several files form one history: their events are sorted by `at`. Events with the same `at` stay in the order in
//! which they were read.

use serde_json::{Map, Value};

use crate::event::{Event, EventKind};

/// A line that is not an event.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {source}")]
pub struct Unreadable {
    pub line: usize,
    #[source]
    pub source: serde_json::Error,
}

/// Parses the events of one text, in the order of its lines.
pub fn read(text: &str) -> Result<Vec<Event>, Unreadable> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let events = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    events.map(|(line, text)| parse(text).map_err(|source| Unreadable { line, source })).collect()
}

/// Merges the events of several writers into one order.
pub fn merge(writers: Vec<Vec<Event>>) -> Vec<Event> {
    let mut events: Vec<Event> = writers.into_iter().flatten().collect();
    events.sort_by_key(|event| event.at);
    events
}

fn parse(line: &str) -> Result<Event, serde_json::Error> {
    let mut members: Map<String, Value> = serde_json::from_str(line)?;
    let mut take = |name: &str| members.remove(name).unwrap_or(Value::Null);
    let at = serde_json::from_value(take("at"))?;
    let who = serde_json::from_value(take("who"))?;
    let clock = serde_json::from_value(take("clock"))?;
    let what: EventKind = serde_json::from_value(Value::Object(members))?;
    Ok(Event { at, who, clock, what })
}

/// One line, without the line break.
pub fn write(event: &Event) -> String {
    let what = serde_json::to_value(&event.what).expect("an event is plain data");
    let Value::Object(what) = what else { unreachable!("an event is an object") };
    let mut members = Map::new();
    members.insert("at".to_owned(), event.at.into());
    members.insert("who".to_owned(), event.who.clone().into());
    if let Some(clock) = event.clock {
        members.insert("clock".to_owned(), clock.into());
    }
    members.extend(what);
    Value::Object(members).to_string()
}
