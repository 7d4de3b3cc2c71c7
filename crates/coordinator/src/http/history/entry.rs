//! One decision of a history, formatted for people.

use serde_json::{Map, Value, json};
use store::Entry;
use verdict::event::Submitted;
use verdict::request::Started;
use verdict::{ClosedAttempt, End, Event, Next, Reason, Request, Text};
use wire::answers::HistoryEntry;

use super::super::translate::{skew, time};

/// A decision may have several events, such as a cancel request and the end it causes at once. It is
/// named after the last one, and its detail has the members of all.
pub(super) fn entry(entry: &Entry, attempt: u32) -> HistoryEntry {
    let last = entry.events.iter().rfind(|event| event.is_history());
    let mut detail = Map::new();
    for event in &entry.events {
        if let Value::Object(members) = members(event) {
            detail.extend(members.into_iter().filter(|(_, value)| !value.is_null()));
        }
    }
    detail.extend(claims(entry));
    HistoryEntry {
        n: u64::from(entry.n),
        at: time(entry.at),
        kind: last.map_or("renewed", Event::name).to_owned(),
        attempt: (attempt > 0).then_some(attempt),
        detail: wire::Json::from_value(&detail).expect("a tree of JSON is JSON"),
    }
}

/// The worker's clock as it reported it, and the skew if that is large.
fn claims(entry: &Entry) -> Map<String, Value> {
    let mut claims = Map::new();
    if let Request::Started(Started { claimed_at: Some(claimed_at), .. }) = &entry.request {
        claims.insert("workerStartedAt".to_owned(), json!(time(*claimed_at)));
        if let Some(skew) = skew(*claimed_at, entry.at) {
            claims.insert("clockSkewMs".to_owned(), json!(skew));
        }
    }
    claims
}

fn members(event: &Event) -> Value {
    match event {
        Event::Submitted(submitted) => submission(submitted),
        Event::Granted { lease, owner, poll: _, fence, expires_at } => json!({
            "leaseId": lease.to_string(),
            "owner": owner.as_str(),
            "fence": fence.as_u64(),
            "leaseExpiresAt": time(*expires_at),
        }),
        Event::Started | Event::CancelSignalled => json!({}),
        Event::Renewed { expires_at, progress: _ } => {
            json!({ "leaseExpiresAt": time(*expires_at) })
        }
        Event::Extended { expires_at, signalled_at } => json!({
            "leaseExpiresAt": time(*expires_at),
            "signalledAt": signalled_at.map(time),
        }),
        Event::CancelRequested { reason } => {
            json!({ "cancelReason": reason.as_ref().map(Text::as_str) })
        }
        Event::AttemptClosed { closed, next } => closing(closed, next),
        Event::Ended(end) => ending(end),
        Event::Run(_) => unreachable!("no route makes durable runs yet"),
    }
}

fn submission(submitted: &Submitted) -> Value {
    json!({
        "kind": submitted.kind.as_str(),
        "queue": submitted.queue.as_str(),
        "priority": submitted.priority,
        "dueAt": time(submitted.due),
        "inputDigest": submitted.input.to_string(),
    })
}

fn closing(closed: &ClosedAttempt, next: &Next) -> Value {
    let mut members = match next {
        Next::Retry { due } => json!({ "state": "retry", "nextAttemptAt": time(*due) }),
        Next::End(end) => ending(end),
        Next::Wait(_) => unreachable!("no route makes durable runs yet"),
    };
    members["outcome"] = json!(closed.outcome.name());
    members["leaseId"] = json!(closed.lease.to_string());
    members["owner"] = json!(closed.owner.as_str());
    if let Some(reason) = closed.reason {
        members["reason"] = json!(reason.name());
    }
    if let Some(fault) = &closed.fault {
        members["category"] = json!(fault.category.name());
        members["message"] = json!(fault.message.as_str());
    }
    members
}

fn ending(end: &End) -> Value {
    json!({ "state": end.state.name(), "reason": end.reason.map(Reason::name) })
}
