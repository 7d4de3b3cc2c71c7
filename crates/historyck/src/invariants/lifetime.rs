//! Time: when a lease may be revoked, and when a task may be granted.

use std::collections::BTreeMap;

use crate::event::{Cause, DOWN, Decision, EventKind, Operation, Outcome, Phase, State};
use crate::finding::{Finding, Invariant};
use crate::history::{Call, FindingSink, History, findings_for, is_grant};

pub(super) fn no_early_takeover(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::A8);
    for task in history.tasks() {
        by_the_coordinators_clock(history, task, &mut found);
        by_the_workers_clock(history, task, &mut found);
    }
}

/// Whether an attempt was closed by lease expiry because no heartbeat arrived.
fn is_expiry(decision: &Decision) -> bool {
    decision.cause == Cause::Sweep
        && matches!(decision.outcome, Some(Outcome::Lost | Outcome::Undelivered))
}

fn by_the_coordinators_clock(history: &History<'_>, task: &str, found: &mut FindingSink<'_>) {
    let mut ends: BTreeMap<u32, (i64, usize)> = BTreeMap::new();
    let mut note = |attempt: u32, end: i64, place: usize| {
        let known = ends.entry(attempt).or_insert((end, place));
        *known = (*known).max((end, place));
    };
    for (call, granted) in history.grants_of(task) {
        if let (Some(end), Some((place, _))) = (granted.expires, call.ok()) {
            note(granted.attempt, end, place);
        }
    }
    for call in history.calls_about(task) {
        if let (Some((place, answer)), Some(attempt)) = (call.ok(), call.invoke.attempt)
            && let Some(end) = answer.expires
        {
            note(attempt, end, place);
        }
    }
    for (place, decision) in history.decisions_about(task) {
        if let (Some(attempt), Some(end), None) =
            (decision.attempt, decision.expires, decision.outcome)
        {
            note(attempt, end, *place);
        }
    }
    for (place, decision) in history.decisions_about(task).iter().filter(|(_, d)| is_expiry(d)) {
        let end = decision.attempt.and_then(|attempt| ends.get(&attempt));
        if let Some((end, since)) = end.filter(|(end, _)| decision.now < *end) {
            let why = format!(
                "its lease was taken at {}, and had been promised until {end}",
                decision.now
            );
            found.report(Some(task), vec![*since, *place], why);
        }
    }
}

/// Refusals that take a worker's authority although no caller requested that.
const LOST: [&str; 2] = ["attempt_mismatch", "task_expired"];

/// A worker that got an answer may rely on its lease for its full length, counted from the moment of its call. An
/// earlier refusal took the lease wrongly, unless a caller ended the task. Time in which no coordinator could receive
/// calls does not count.
fn by_the_workers_clock(history: &History<'_>, task: &str, found: &mut FindingSink<'_>) {
    let is_asked = |op| move |call: &&Call<'_>| call.is(op) && call.refused().is_none();
    if history.calls_about(task).any(|call| is_asked(Operation::Cancel)(&call)) {
        return;
    }
    for (grant, granted) in history.grants_of(task) {
        let Some(lease_ms) = granted.lease_ms else { continue };
        let is_its = |call: &&Call<'_>| call.invoke.attempt == Some(granted.attempt);
        let own: Vec<&Call<'_>> = history.calls_about(task).filter(is_its).collect();
        // The worker's report may have closed the attempt.
        if own.iter().any(is_asked(Operation::Report)) {
            continue;
        }
        for refused in own.iter().filter(|call| is_loss(call)) {
            let Some((place, _)) = refused.refused() else { continue };
            // Its own wait may have suspended the task before this call arrived.
            if own.iter().any(|call| is_asked(Operation::Checkpoint)(call) && waits(call, place)) {
                continue;
            }
            let renewals = own.iter().copied().filter(|call| call.is(Operation::Heartbeat));
            let renewed = renewals.chain([grant]).filter(|call| {
                call.ok().is_some_and(|(at, _)| history.precedes(at, refused.begun))
            });
            let Some(asked) = renewed.map(|call| first_asked(history, call)).max() else {
                continue;
            };
            if let Some(held) = heard_between(history, asked, place).filter(|held| *held < lease_ms)
            {
                let why = format!(
                    "attempt {} was refused after {held} ms in which it could be heard, and its lease is {lease_ms} ms",
                    granted.attempt
                );
                found.report(Some(task), vec![asked, refused.begun, place], why);
            }
        }
    }
}

/// Whether the call asks to suspend the task, and was under way before this event.
fn waits(call: &Call<'_>, place: usize) -> bool {
    let asked = call.invoke.durable.as_ref().is_some_and(|durable| durable.wait.is_some());
    asked && call.begun < place
}

/// The first call of a poll. A retried poll finds the lease that was granted to the first call.
fn first_asked(history: &History<'_>, call: &Call<'_>) -> usize {
    let is_same = |other: &&Call<'_>| {
        other.is(Operation::Lease)
            && other.invoke.poll == call.invoke.poll
            && other.invoke.worker == call.invoke.worker
    };
    match call.invoke.poll {
        None => call.begun,
        Some(_) => {
            history.calls.iter().filter(is_same).map(|c| c.begun).min().unwrap_or(call.begun)
        }
    }
}

fn is_loss(call: &Call<'_>) -> bool {
    let code = call.refused().and_then(|(_, answer)| answer.code.as_deref());
    code.is_some_and(|code| LOST.contains(&code))
}

/// Milliseconds of the shared clock between two events, without the time in which no coordinator could receive calls.
fn heard_between(history: &History<'_>, from: usize, to: usize) -> Option<u64> {
    let (from, to) = (history.events[from].clock?, history.events[to].clock?);
    let mut deaf = 0;
    let mut since: Option<u64> = None;
    for event in history.events {
        let EventKind::Fault(fault) = &event.what else { continue };
        match (fault.fault.as_str() == DOWN, fault.phase) {
            (true, Phase::Begin) => since = since.or(event.clock),
            (true, Phase::End) => {
                if let (Some(begun), Some(ended)) = (since.take(), event.clock) {
                    deaf += ended.min(to).saturating_sub(begun.max(from));
                }
            }
            (false, _) => {}
        }
    }
    deaf += since.map_or(0, |begun| to.saturating_sub(begun.max(from)));
    Some(to.saturating_sub(from).saturating_sub(deaf))
}

pub(super) fn no_orphan(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::B6);
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::Snapshot(snapshot) = &event.what else { continue };
        let slack = snapshot.slack_ms.unwrap_or(0);
        for seen in snapshot.tasks.iter().filter(|seen| seen.state == State::Running) {
            if let Some(end) = seen.expires.filter(|end| end.saturating_add(slack) < snapshot.now) {
                let why = format!("it runs at {} under a lease that ended at {end}", snapshot.now);
                found.report(Some(&seen.task), vec![place], why);
            }
        }
    }
}

pub(super) fn granted_in_time(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::B8);
    for (task, decisions) in &history.decisions {
        let (mut due, mut deadline) = (None, None);
        for (place, decision) in decisions {
            if is_grant(decision) {
                if let Some((since, due)) = due.filter(|(_, due)| decision.now < *due) {
                    let why = format!("granted at {}, and due at {due}", decision.now);
                    found.report(Some(task), vec![since, *place], why);
                }
                if let Some((since, end)) = deadline.filter(|(_, end)| decision.now >= *end) {
                    let why = format!("granted at {}, and its deadline was {end}", decision.now);
                    found.report(Some(task), vec![since, *place], why);
                }
            }
            due = decision.due.map(|due| (*place, due)).or(due);
            deadline = decision.deadline.map(|end| (*place, end)).or(deadline);
        }
    }
}
