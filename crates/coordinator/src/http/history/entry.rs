//! One decision of a history, formatted for people.

use serde_json::{Map, Value, json};
use store::Entry;
use verdict::budget::{BudgetEvent, Unit};
use verdict::event::Submitted;
use verdict::request::Started;
use verdict::run::{Checkpoint, Lineage, Recorded, RunEvent, StepOutcome, Waiting};
use verdict::{ClosedAttempt, End, Event, Name, Next, Reason, Request, Text};
use wire::answers::HistoryEntry;

use super::super::translate::{skew, time};
use super::plan_event;

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
        Event::Extended { expires_at, signalled_at, progressed_at } => json!({
            "leaseExpiresAt": time(*expires_at),
            "signalledAt": signalled_at.map(time),
            "progressedAt": progressed_at.map(time),
        }),
        Event::Stalled { since } => json!({ "progressedAt": time(*since) }),
        Event::CancelRequested { reason } => {
            json!({ "cancelReason": reason.as_ref().map(Text::as_str) })
        }
        Event::AttemptClosed { closed, next } => closing(closed, next),
        Event::Ended(end) => ending(end),
        Event::Run(event) => durable(event),
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
        Next::Wait(waiting) => waiting_members(waiting),
        Next::Stage(turn) => {
            json!({ "state": "queued", "stage": turn.stage, "nextAttemptAt": time(turn.due) })
        }
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

/// What a decision changed about a budget.
fn budget(event: &BudgetEvent) -> Value {
    match event {
        BudgetEvent::Metered(total) => json!({
            "costMicros": total.cost_micros,
            "tokens": total.tokens,
            "toolCalls": total.tool_calls,
        }),
        BudgetEvent::Refunded(charge) => {
            let used = Unit::ALL.map(|unit| (unit.name(), json!(charge.used.get(unit))));
            json!({ "used": Value::Object(used.map(|(name, it)| (name.to_owned(), it)).into_iter().collect()) })
        }
        BudgetEvent::Warned(unit) | BudgetEvent::Asked(unit) => json!({ "limit": unit.name() }),
    }
}

/// What a decision about a durable run changed. Results stay where they are recorded.
fn durable(event: &RunEvent) -> Value {
    match event {
        RunEvent::Spawned { submitted, lineage } => {
            let mut members = submission(submitted);
            let (parent, key) = match lineage {
                Lineage::Child { parent, key, .. } => (parent, key),
                Lineage::Detached { cause, key } => (cause, key),
            };
            members["parentTaskId"] = json!(parent.to_string());
            members["childKey"] = json!(key.as_str());
            members
        }
        RunEvent::Checkpointed(checkpoint) => checkpointed(checkpoint),
        RunEvent::ChildSpawned(child) => json!({
            "childKey": child.key.as_str(),
            "childTaskId": child.submit.id.to_string(),
            "detached": child.is_detached,
        }),
        RunEvent::ChildInherited(child) => json!({
            "childKey": child.key.as_str(),
            "childTaskId": child.id.to_string(),
        }),
        RunEvent::Forked { from, record } => json!({
            "forkOf": from.run_name(),
            "recordDigest": record.to_string(),
        }),
        RunEvent::SignalReceived(signal) => json!({ "signal": signal.name.as_str() }),
        RunEvent::WaitAdvanced { missing } => json!({ "missing": missing }),
        RunEvent::Closing(end, _) => json!({ "state": "waiting", "ending": ending(end) }),
        RunEvent::ChildrenCancelled { children, mode: _, has_more } => {
            json!({ "cancelled": children.len(), "hasMore": has_more })
        }
        RunEvent::ApprovalOpened(approval) => json!({
            "approval": approval.number,
            "key": approval.key.as_str(),
            "expiresAt": approval.expires_at.map(time),
        }),
        RunEvent::ApprovalVoted { number, vote } => json!({
            "approval": number,
            "by": vote.key.as_str(),
            "decision": vote.decision.name(),
            "comment": comment(vote.comment.as_ref()),
        }),
        RunEvent::ApprovalClosed { number, outcome } => {
            json!({ "approval": number, "outcome": outcome.name() })
        }
        RunEvent::Budget(event) => budget(event),
        RunEvent::Plan(event) => plan_event::detail(event),
        RunEvent::BuildNoted(build) => json!({
            "buildId": build.as_ref().map(|build| build.id.as_str()),
            "builds": build.as_ref().map(|build| if build.pins { "pin" } else { "any" }),
        }),
        RunEvent::Hastened | RunEvent::Resumed | RunEvent::Unpinned => json!({}),
    }
}

fn comment(comment: Option<&verdict::Json>) -> Value {
    comment.and_then(|json| serde_json::from_str(json.as_str()).ok()).unwrap_or(Value::Null)
}

fn checkpointed(checkpoint: &Checkpoint) -> Value {
    let key = checkpoint.key.as_str();
    match &checkpoint.recorded {
        Recorded::Step(step) => {
            let is_failed = matches!(step.outcome, StepOutcome::Failed { .. });
            json!({ "step": key, "outcome": if is_failed { "FAILED" } else { "SUCCEEDED" } })
        }
        Recorded::Wait(wait) => {
            json!({ "wait": key, "winner": wait.winner.as_ref().map(Name::as_str) })
        }
        Recorded::Child(end) => json!({ "child": key, "childState": end.state.name() }),
    }
}

fn waiting_members(waiting: &Waiting) -> Value {
    match waiting {
        Waiting::For(wait) => json!({ "state": "waiting", "wait": wait.key.as_str() }),
        Waiting::Ready { due } => json!({ "state": "waiting", "nextAttemptAt": time(*due) }),
        Waiting::Diverged(divergence) => json!({
            "state": "waiting",
            "branch": divergence.branch.as_str(),
            "index": divergence.index,
            "recorded": divergence.recorded.as_str(),
            "actual": divergence.actual.as_str(),
        }),
        Waiting::Blocked { .. } => json!({ "state": "blocked" }),
        Waiting::Steps => json!({ "state": "waiting" }),
        Waiting::Closing(closing) => {
            json!({ "state": "waiting", "ending": ending(&closing.end) })
        }
    }
}

fn ending(end: &End) -> Value {
    json!({ "state": end.state.name(), "reason": end.reason.map(Reason::name) })
}
