//! A repeated call has the effect of one call.

use std::collections::BTreeMap;

use crate::event::{Cause, Operation};
use crate::finding::{Finding, Invariant};
use crate::history::{Call, History, findings_for};

/// How long a key is remembered after its run has ended.
const KEY_WINDOW_MS: i64 = 24 * 60 * 60 * 1000;

type Key<'e> = (Option<&'e str>, &'e str);

fn by_key<'h, 'e>(history: &'h History<'e>) -> BTreeMap<Key<'e>, Vec<&'h Call<'e>>> {
    let mut calls: BTreeMap<Key<'e>, Vec<&Call<'e>>> = BTreeMap::new();
    for call in history.calls.iter().filter(|call| call.is(Operation::Submit)) {
        if let Some(key) = call.invoke.key.as_deref() {
            calls.entry((call.invoke.scope.as_deref(), key)).or_default().push(call);
        }
    }
    calls
}

pub(super) fn one_run_per_key(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::C4);
    for ((_, key), calls) in by_key(history) {
        let taken: Vec<&&Call<'_>> = calls.iter().filter(|call| call.ok().is_some()).collect();
        let Some(first) = taken.first() else { continue };
        for other in &taken[1..] {
            let places = [first.places(), other.places()].concat();
            let task = other.task();
            if other.invoke.digest != first.invoke.digest {
                found.report(task, places, format!("key {key} was taken for two submissions"));
            } else if other.task() != first.task() {
                found.report(task, places, format!("key {key} and one submission got two runs"));
            }
        }
        let new = taken.iter().filter(|call| call.ok().is_some_and(|(_, answer)| !answer.replayed));
        let new: Vec<usize> = new.flat_map(|call| call.places()).collect();
        if new.len() > 2 {
            found.report(first.task(), new, format!("key {key} made a run more than once"));
        }
        for refused in calls.iter().filter(|call| code(call) == Some("idempotency_key_reused")) {
            if calls.iter().all(|call| call.invoke.digest == refused.invoke.digest) {
                found.report(
                    first.task(),
                    refused.places(),
                    format!("key {key} was refused to its own submission"),
                );
            }
        }
    }
}

fn code<'e>(call: &Call<'e>) -> Option<&'e str> {
    call.refused().and_then(|(_, answer)| answer.code.as_deref())
}

/// When a run was created, until when it owns its key (if that is known), the submission's index, and the run.
type Holding<'e> = (i64, Option<i64>, usize, &'e str);

pub(super) fn no_shared_keys(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::C5);
    let mut runs: BTreeMap<Key<'_>, Vec<Holding<'_>>> = BTreeMap::new();
    for (task, decisions) in &history.decisions {
        let Some((place, made)) = decisions.iter().find(|(_, d)| d.cause == Cause::Submit) else {
            continue;
        };
        let Some(key) = made.key.as_deref() else { continue };
        let ended = decisions.iter().find(|(_, d)| d.after.is_terminal());
        let free = ended.map(|(_, d)| d.now.saturating_add(KEY_WINDOW_MS));
        runs.entry((made.scope.as_deref(), key)).or_default().push((made.now, free, *place, task));
    }
    for ((_, key), mut runs) in runs {
        runs.sort();
        for pair in runs.windows(2) {
            let (_, free, first, _) = pair[0];
            let (made, _, second, task) = pair[1];
            if free.is_none_or(|free| made < free) {
                found.report(
                    Some(task),
                    vec![first, second],
                    format!("key {key} was still another run's"),
                );
            }
        }
    }
}

/// Codes that say nothing about the report: the token may have expired before it was checked, or the coordinator may
/// have been too busy.
const ABOUT_THE_CALLER: [&str; 6] =
    ["token_expired", "unauthorized", "unavailable", "overloaded", "shutting_down", "unreachable"];

pub(super) fn repeated_reports(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::C6);
    for task in history.tasks() {
        let reports: Vec<&Call<'_>> =
            history.calls_about(task).filter(|call| call.is(Operation::Report)).collect();
        for first in &reports {
            let Some((told, _)) = first.ok() else { continue };
            let is_again = |call: &&&Call<'_>| {
                call.invoke.attempt == first.invoke.attempt
                    && call.invoke.digest == first.invoke.digest
                    && call.invoke.worker == first.invoke.worker
                    && history.precedes(told, call.begun)
            };
            for again in reports.iter().filter(is_again) {
                let refused = code(again).is_some_and(|code| !ABOUT_THE_CALLER.contains(&code));
                let is_new = again.ok().is_some_and(|(_, answer)| !answer.replayed);
                if refused || is_new {
                    let why = if refused { "was refused" } else { "was taken as new" };
                    let places = [first.places(), again.places()].concat();
                    found.report(
                        Some(task),
                        places,
                        format!("a committed report {why} when it was repeated"),
                    );
                }
            }
        }
    }
}
