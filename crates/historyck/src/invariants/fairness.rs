//! The load of one tenant does not cost another its turn, and nothing grows beyond its bound.
//!
//! Priorities do not age, so no check here limits how long a low-priority task waits.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Cause, EventKind, FAILOVER, Operation, Outcome, Phase, RESTART};
use crate::finding::{Finding, Invariant};
use crate::history::{Call, History, findings_for, is_grant};

/// How many rounds of grants to other tenants a tenant's only task may have to wait for.
const ROUNDS_MAX: usize = 10;

/// A wait, from one instant to another of the coordinator's time.
#[derive(Clone, Copy)]
struct Wait {
    from: i64,
    until: i64,
}

impl Wait {
    fn holds(self, instant: i64) -> bool {
        self.from < instant && instant < self.until
    }
}

/// All grants of one batch have the same time: they are one round.
pub(super) fn one_task_is_started_soon(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::G2);
    let owners = history.owners();
    let tenant = |task: &str| owners.get(task).map(|(scope, _)| tenant_of(scope));
    let lives = lives(history);
    for (task, decisions) in &history.decisions {
        let Some(own) = tenant(task) else { continue };
        let mut due = None;
        for (place, decision) in decisions {
            let polled = is_grant(decision).then(|| asked_at(history, task, decision.attempt));
            if let (Some(due), Some(polled)) = (due, polled.flatten()) {
                let wait = Wait { from: polled.max(due), until: decision.now };
                let is_alone = !lives.iter().any(|(other, (born, ended))| {
                    let is_there = *born < wait.until && ended.is_none_or(|at| at > wait.from);
                    other != task && tenant(other) == Some(own) && is_there
                });
                let rounds = rounds(history, wait, |other| tenant(other) != Some(own));
                if is_alone && rounds > ROUNDS_MAX {
                    let why = format!("others were given work {rounds} times while it waited");
                    found.report(Some(task), vec![*place], why);
                }
            }
            due = decision.due.or(due).map(|due| due.max(decision.now));
        }
    }
}

fn tenant_of(scope: &str) -> &str {
    scope.split('/').next().unwrap_or(scope)
}

/// When each task was created, and when it ended.
fn lives<'e>(history: &History<'e>) -> BTreeMap<&'e str, (i64, Option<i64>)> {
    let life = |decisions: &Vec<(usize, &crate::event::Decision)>| {
        let ended = decisions.iter().find(|(_, decision)| decision.after.is_terminal());
        let born = decisions.iter().map(|(_, decision)| decision.now).min().unwrap_or(i64::MAX);
        (born, ended.map(|(_, decision)| decision.now))
    };
    history.decisions.iter().map(|(task, decisions)| (*task, life(decisions))).collect()
}

/// When the poll was made that was granted this attempt.
fn asked_at(history: &History<'_>, task: &str, attempt: Option<u32>) -> Option<i64> {
    let mut grants = history.grants_of(task);
    grants.find(|(_, granted)| Some(granted.attempt) == attempt)?.0.invoke.now
}

fn rounds(history: &History<'_>, wait: Wait, is_others: impl Fn(&str) -> bool) -> usize {
    let others = history.decisions.iter().filter(|(task, _)| is_others(task));
    let grants = others.flat_map(|(_, decisions)| decisions);
    let instants = grants.filter(|(_, d)| is_grant(d) && wait.holds(d.now)).map(|(_, d)| d.now);
    instants.collect::<BTreeSet<i64>>().len()
}

pub(super) fn limits_are_kept(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::G4);
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::Usage(usage) = &event.what else { continue };
        if usage.used > usage.limit {
            let why = format!("{} of {} are used, and {}", usage.what, usage.limit, usage.used);
            found.report(usage.task.as_deref(), vec![place], why);
        }
    }
}

/// The least number of retries for which their spread is checked, and the least number of seconds they must span.
const TOGETHER_MIN: usize = 60;
const SECONDS_MIN: i64 = 4;
const SECOND_MS: i64 = 1_000;
/// How many times its even share of the retries one second may have.
const SHARE_MAX: usize = 3;

/// Applies only where at least 60 attempts failed within one second and their retries span four seconds or more.
pub(super) fn retries_come_apart(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::G5);
    let mut failed: BTreeMap<i64, Vec<(i64, usize)>> = BTreeMap::new();
    for (place, decision) in history.decisions.values().flatten() {
        let is_failure =
            decision.cause == Cause::Report && decision.outcome == Some(Outcome::Failed);
        if let Some(due) = decision.due.filter(|_| is_failure && !decision.after.is_terminal()) {
            failed.entry(decision.now.div_euclid(SECOND_MS)).or_default().push((due, *place));
        }
    }
    for together in failed.values().filter(|together| together.len() >= TOGETHER_MIN) {
        let mut buckets: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (due, place) in together {
            buckets.entry(due.div_euclid(SECOND_MS)).or_default().push(*place);
        }
        let (Some(first), Some(last)) = (buckets.keys().next(), buckets.keys().next_back()) else {
            continue;
        };
        let seconds = last - first + 1;
        let Some(most) = buckets.values().max_by_key(|places| places.len()) else { continue };
        if seconds >= SECONDS_MIN && most.len() * seconds as usize > SHARE_MAX * together.len() {
            let why = format!(
                "{} of {} retries over {seconds} s are due in one of them",
                most.len(),
                together.len()
            );
            found.report(None, most.iter().take(3).copied().collect(), why);
        }
    }
}

/// How soon calls must be answered again after a recovery, and the window in which a call must have been made for the
/// check to apply.
const RESTARTED_WITHIN_MS: u64 = 5_000;
const FAILED_OVER_WITHIN_MS: u64 = 10_000;
const ASKED_WITHIN_MS: u64 = 1_000;

pub(super) fn recovery_is_soon(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::G6);
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::Fault(fault) = &event.what else { continue };
        let within = match (fault.fault.as_str(), fault.phase) {
            (RESTART, Phase::End) => RESTARTED_WITHIN_MS,
            (FAILOVER, Phase::End) => FAILED_OVER_WITHIN_MS,
            _ => continue,
        };
        let Some(since) = event.clock else { continue };
        let clock = |place: usize| history.events[place].clock.filter(|clock| *clock >= since);
        let is_asked = history
            .calls
            .iter()
            .any(|call| clock(call.begun).is_some_and(|at| at - since <= ASKED_WITHIN_MS));
        let answers = history.calls.iter().filter_map(|call| clock(call.ok()?.0));
        let is_watched =
            history.events.iter().filter_map(|event| event.clock).max() >= Some(since + within);
        if is_asked && is_watched && !answers.into_iter().any(|at| at - since <= within) {
            let why = format!("nobody was answered for {within} ms");
            found.report(None, vec![place], why);
        }
    }
}

pub(super) fn answers_are_no_larger_than_asked(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::G7);
    let polls = |call: &&Call<'_>| call.is(Operation::Lease);
    for call in history.calls.iter().filter(polls) {
        let (Some(max), given) = (call.invoke.max, call.grants().count() as u64) else { continue };
        if given > max {
            found.report(None, call.places(), format!("{given} were given, and {max} asked for"));
        }
    }
}
