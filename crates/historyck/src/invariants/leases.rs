//! Leases and fences: which worker has authority over a task.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Answer, Cause, Decision, Operation, State};
use crate::finding::{Finding, Invariant};
use crate::history::{Call, FindingSink, History, closes, findings_for, is_grant};

pub(super) fn one_open_lease(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::A1);
    for (task, decisions) in &history.decisions {
        let mut open: Option<usize> = None;
        for (place, decision) in decisions {
            if let (Some(earlier), true) = (open, is_grant(decision)) {
                found.report(
                    Some(task),
                    vec![earlier, *place],
                    "granted while another lease was open",
                );
            }
            if is_grant(decision) {
                open = Some(*place);
            } else if closes(decision) || decision.after != State::Running {
                open = None;
            }
        }
    }
    for task in history.tasks() {
        let mut leases: BTreeMap<u32, (&str, usize)> = BTreeMap::new();
        for (call, granted) in history.grants_of(task) {
            let Some(lease) = granted.lease.as_deref() else { continue };
            let (known, place) = *leases.entry(granted.attempt).or_insert((lease, call.begun));
            if known != lease {
                let why = format!(
                    "attempt {} was given out twice, as {known} and as {lease}",
                    granted.attempt
                );
                found.report(Some(task), [vec![place], call.places()].concat(), why);
            }
        }
    }
}

pub(super) fn fences_grow(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::A2);
    for (task, decisions) in &history.decisions {
        let fences = decisions.iter().filter(|(_, d)| is_grant(d));
        let fences: Vec<(usize, u64)> =
            fences.filter_map(|(at, d)| Some((*at, d.fence?))).collect();
        for pair in fences.windows(2).filter(|pair| pair[0].1 >= pair[1].1) {
            let why = format!("fence {} came after fence {}", pair[1].1, pair[0].1);
            found.report(Some(task), vec![pair[0].0, pair[1].0], why);
        }
    }
    for task in history.tasks() {
        let seen = history.grants_of(task);
        let by_attempt: BTreeMap<u32, (u64, usize)> = seen
            .filter_map(|(call, granted)| Some((granted.attempt, (granted.fence?, call.ok()?.0))))
            .collect();
        let fences: Vec<(u64, usize)> = by_attempt.into_values().collect();
        for pair in fences.windows(2).filter(|pair| pair[0].0 >= pair[1].0) {
            let why = format!("a later attempt got fence {} after fence {}", pair[1].0, pair[0].0);
            found.report(Some(task), vec![pair[0].1, pair[1].1], why);
        }
    }
}

pub(super) fn one_winner(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::A3);
    for (task, decisions) in &history.decisions {
        let ends: Vec<usize> = decisions
            .iter()
            .filter(|(_, d)| {
                d.after.is_terminal() && (closes(d) || d.before.is_none_or(|s| !s.is_terminal()))
            })
            .map(|(place, _)| *place)
            .collect();
        if ends.len() > 1 {
            found.report(Some(task), ends, "it ended more than once");
        }
    }
    for task in history.tasks() {
        let winners = history.calls_about(task).filter(|call| call.is(Operation::Report));
        let mut won: BTreeMap<(Option<u32>, Option<&str>), Vec<usize>> = BTreeMap::new();
        for call in winners {
            if let Some((_, answer)) = call.ok()
                && answer.state.is_some_and(State::is_terminal)
                && !answer.replayed
            {
                let report = (call.invoke.attempt, call.invoke.digest.as_deref());
                won.entry(report).or_default().extend(call.places());
            }
        }
        if won.len() > 1 {
            let places = won.into_values().flatten().collect();
            found.report(Some(task), places, "different reports were each told that they ended it");
        }
    }
}

pub(super) fn reports_of_the_newest_lease(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::A4);
    for (task, decisions) in &history.decisions {
        let mut newest: Option<(usize, Option<u32>, Option<&str>)> = None;
        let mut expires: Option<i64> = None;
        for (place, decision) in decisions {
            if is_grant(decision) {
                newest = Some((*place, decision.attempt, decision.lease.as_deref()));
                expires = decision.expires;
            } else if decision.cause != Cause::Report {
                expires = expires.max(decision.expires);
            } else if closes(decision) {
                let lease = newest.map(|(_, attempt, lease)| (attempt, lease));
                let (attempt, id) = lease.unwrap_or((None, None));
                let other = |a: bool, b: bool| a && b;
                if other(
                    decision.attempt.is_some() && attempt.is_some(),
                    decision.attempt != attempt,
                ) || other(
                    decision.lease.is_some() && id.is_some(),
                    decision.lease.as_deref() != id,
                ) {
                    let grant = newest.map(|(at, ..)| at);
                    let places = grant.into_iter().chain([*place]).collect();
                    found.report(
                        Some(task),
                        places,
                        "a report was committed for a lease that is not the newest",
                    );
                }
                // The expiry when the report arrived, renewals included; without it, the renewals are unknown.
                if let Some(end) =
                    decision.expires.max(expires.filter(|_| decision.expires.is_some()))
                    && decision.now >= end
                {
                    let why = format!(
                        "a report was committed at {}, and its lease had ended at {end}",
                        decision.now
                    );
                    found.report(Some(task), vec![*place], why);
                }
            }
        }
    }
}

/// Refusals that mean a lease is over, for every caller.
const OVER: [&str; 4] =
    ["attempt_mismatch", "task_expired", "task_already_terminal", "attempt_already_completed"];

pub(super) fn no_resurrection(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::A6);
    for task in history.tasks() {
        honoured_too_late(history, task, &mut found);
        let ends = ends_of_leases(history, task);
        for call in history.calls_about(task).filter(|call| is_under_a_lease(call)) {
            let (Some((_, answer)), Some(attempt)) = (call.ok(), call.invoke.attempt) else {
                continue;
            };
            let over = ends
                .iter()
                .find(|(ended, place)| attempt <= *ended && history.precedes(*place, call.begun));
            if let (Some((_, place)), false) = (over, answer.replayed) {
                let places = [vec![*place], call.places()].concat();
                found.report(
                    Some(task),
                    places,
                    format!("attempt {attempt} was over, and was honoured again"),
                );
            }
        }
    }
}

/// How far a caller's idea of the coordinator's time may be off.
const CLOCK_SLACK_MS: i64 = 100;

/// An accepted call that was made after every known end of its lease, where no lease was extended.
fn honoured_too_late(history: &History<'_>, task: &str, found: &mut FindingSink<'_>) {
    let is_extended = |(_, d): &(usize, &Decision)| d.cause == Cause::Extend;
    if history.decisions_about(task).iter().any(is_extended) {
        return;
    }
    for call in history.calls_about(task).filter(|call| is_under_a_lease(call)) {
        let (Some((told, answer)), Some(now)) = (call.ok(), call.invoke.now) else { continue };
        if answer.replayed {
            continue;
        }
        let granted = history
            .grants_of(task)
            .filter(|(_, granted)| Some(granted.attempt) == call.invoke.attempt)
            .filter_map(|(_, granted)| granted.expires);
        let renewed = history
            .calls_about(task)
            .filter(|other| other.invoke.attempt == call.invoke.attempt && other.begun < told)
            .filter(|other| other.begun != call.begun)
            .filter_map(|other| other.ok()?.1.expires);
        // A renewal whose answer was lost is known to nobody.
        let is_unsure = history.calls_about(task).any(|other| {
            other.is_open()
                && other.invoke.attempt == call.invoke.attempt
                && is_under_a_lease(other)
        });
        let end = granted.chain(renewed).max().filter(|_| !is_unsure);
        if let Some(end) = end.filter(|end| now >= end + CLOCK_SLACK_MS) {
            let why =
                format!("a call made at {now} was accepted, and its lease had ended at {end}");
            found.report(Some(task), call.places(), why);
        }
    }
}

fn is_under_a_lease(call: &Call<'_>) -> bool {
    matches!(
        call.invoke.op,
        Operation::Started | Operation::Heartbeat | Operation::Report | Operation::Checkpoint
    )
}

/// Up to which attempt leases are known to be over, and since which event.
fn ends_of_leases(history: &History<'_>, task: &str) -> Vec<(u32, usize)> {
    let mut ends = Vec::new();
    for (call, granted) in history.grants_of(task) {
        ends.extend(call.ok().map(|(place, _)| (granted.attempt.saturating_sub(1), place)));
    }
    for call in history.calls_about(task) {
        let Some((place, answer)) = call.answer else { continue };
        let attempt = call.invoke.attempt.unwrap_or(0);
        let is_end = match answer.answer {
            Answer::Ok => {
                // A call that waits ends its attempt.
                let is_suspended = call.is(Operation::Checkpoint)
                    && answer.state.is_some_and(|state| state != State::Running);
                call.is(Operation::Report) || is_suspended
            }
            Answer::Fail => {
                is_under_a_lease(call) && answer.code.as_deref().is_some_and(|c| OVER.contains(&c))
            }
            Answer::Info => false,
        };
        // A mismatch may also mean that the caller is ahead of the store.
        let is_ahead = answer.code.as_deref() == Some("attempt_mismatch")
            && answer.verdict.as_deref() == Some("REJECTED");
        if is_end && !is_ahead {
            ends.push((attempt, place));
        }
        if answer.answer == Answer::Ok && answer.state.is_some_and(State::is_terminal) {
            ends.push((u32::MAX, place));
        }
    }
    ends
}

pub(super) fn one_worker<'e>(history: &History<'e>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::A7);
    for task in history.tasks() {
        let mut workers: BTreeMap<u32, BTreeSet<&'e str>> = BTreeMap::new();
        let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut heard = |attempt: u32, worker: Option<&'e str>, at: Vec<usize>| {
            if let Some(worker) = worker {
                workers.entry(attempt).or_default().insert(worker);
                places.entry(attempt).or_default().extend(at);
            }
        };
        for (call, granted) in history.grants_of(task) {
            heard(granted.attempt, call.invoke.worker.as_deref(), call.places());
        }
        for call in
            history.calls_about(task).filter(|call| is_under_a_lease(call) && call.ok().is_some())
        {
            if let Some(attempt) = call.invoke.attempt {
                heard(attempt, call.invoke.worker.as_deref(), call.places());
            }
        }
        for (attempt, who) in workers.iter().filter(|(_, who)| who.len() > 1) {
            let who: Vec<&str> = who.iter().copied().collect();
            let why = format!("attempt {attempt} was honoured for {}", who.join(" and "));
            found.report(Some(task), places[attempt].clone(), why);
        }
    }
}
