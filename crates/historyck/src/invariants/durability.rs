//! Acknowledged writes stay, unacknowledged effects do not appear from nowhere, and reads agree with both.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Answer, Cause, EventKind, Moment, Operation, State};
use crate::finding::{Finding, Invariant};
use crate::history::{Call, History, closes, findings_for};

const NOT_FOUND: [&str; 2] = ["task_not_found", "run_not_found"];

pub(super) fn acknowledged_is_there(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::C1);
    let last_decision = history.decisions.values().flatten().map(|(place, _)| *place).max();
    for task in history.tasks() {
        let known = history
            .calls_about(task)
            .filter_map(|call| Some(call.ok()?.0))
            .chain(history.grants_of(task).filter_map(|(call, _)| Some(call.ok()?.0)))
            .min();
        let Some(known) = known else { continue };
        for call in history.calls_about(task).filter(|call| call.is(Operation::Get)) {
            let code = call.refused().and_then(|(_, answer)| answer.code.as_deref());
            if code.is_some_and(|code| NOT_FOUND.contains(&code))
                && history.precedes(known, call.begun)
            {
                found.report(
                    Some(task),
                    [vec![known], call.places()].concat(),
                    "it was acknowledged, and is gone",
                );
            }
        }
        missing_from_snapshots(history, task, known, &mut found);
        let is_decided_later = last_decision.is_some_and(|last| history.precedes(known, last));
        if is_decided_later && history.decisions_about(task).is_empty() {
            found.report(
                Some(task),
                vec![known],
                "it was acknowledged, and nothing was ever decided about it",
            );
        }
        committed_reports(history, task, last_decision, &mut found);
    }
}

fn missing_from_snapshots(
    history: &History<'_>,
    task: &str,
    known: usize,
    found: &mut crate::history::FindingSink<'_>,
) {
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::Snapshot(snapshot) = &event.what else { continue };
        if history.precedes(known, place) && !snapshot.tasks.iter().any(|seen| seen.task == task) {
            found.report(Some(task), vec![known, place], "it was acknowledged, and is missing");
        }
    }
}

/// A report that was answered COMMITTED shows its end in every later read and among the decisions.
fn committed_reports(
    history: &History<'_>,
    task: &str,
    last_decision: Option<usize>,
    found: &mut crate::history::FindingSink<'_>,
) {
    for report in history.calls_about(task).filter(|call| call.is(Operation::Report)) {
        let Some((told, answer)) = report.ok() else { continue };
        let Some(state) = answer.state.filter(|state| state.is_terminal()) else { continue };
        for read in history.calls_about(task).filter(|call| call.is(Operation::Get)) {
            let Some((place, seen)) = read.ok() else { continue };
            let lost = seen.state.is_some_and(|seen| seen != state)
                || (seen.digest.is_some()
                    && !answer.replayed
                    && seen.digest != report.invoke.digest);
            if lost && history.precedes(told, read.begun) {
                found.report(
                    Some(task),
                    vec![told, place],
                    "a committed report is not what is read later",
                );
            }
        }
        let decisions = history.decisions_about(task);
        let is_complete =
            last_decision.is_some_and(|last| history.precedes(told, last)) && !decisions.is_empty();
        let is_closed =
            |attempt: Option<u32>| decisions.iter().any(|(_, d)| closes(d) && d.attempt == attempt);
        if is_complete && !is_closed(report.invoke.attempt) {
            found.report(Some(task), report.places(), "a committed report was never decided");
        }
    }
}

pub(super) fn nothing_unasked(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::C2);
    let submits: Vec<&Call<'_>> =
        history.calls.iter().filter(|call| call.is(Operation::Submit)).collect();
    if submits.is_empty() {
        return;
    }
    let mut unexplained = Vec::new();
    for (task, place) in everything_there(history) {
        let by_answer =
            submits.iter().any(|call| call.refused().is_none() && call.task() == Some(task));
        let key = history.decisions_about(task).iter().find_map(|(_, d)| d.key.as_deref());
        let by_key = key.is_some()
            && submits
                .iter()
                .any(|call| call.refused().is_none() && call.invoke.key.as_deref() == key);
        let by_parent = is_asked_for(history, task);
        if !by_answer && !by_key && !by_parent {
            unexplained.push((task, place));
        }
    }
    // A submission without an answer may be any of them, but only one.
    let unanswered = submits.iter().filter(|call| call.is_open()).count();
    for (task, place) in unexplained.iter().skip(unanswered) {
        found.report(Some(task), vec![*place], "no call submitted it");
    }
    reports_are_made(history, &mut found);
}

/// Whether another task asked for this one: the decision says so, or the answer to the call.
fn is_asked_for(history: &History<'_>, task: &str) -> bool {
    history.decisions_about(task).iter().any(|(_, d)| d.parent.is_some())
        || history
            .calls
            .iter()
            .filter_map(Call::ok)
            .any(|(_, answer)| answer.children.iter().any(|child| child == task))
}

fn everything_there<'e>(history: &History<'e>) -> BTreeMap<&'e str, usize> {
    let mut existing_tasks: BTreeMap<&str, usize> = BTreeMap::new();
    for (task, decisions) in &history.decisions {
        existing_tasks.entry(task).or_insert(decisions[0].0);
    }
    for (place, event) in history.events.iter().enumerate() {
        if let EventKind::Snapshot(snapshot) = &event.what {
            for seen in &snapshot.tasks {
                existing_tasks.entry(&seen.task).or_insert(place);
            }
        }
    }
    for call in &history.calls {
        let Some((place, _)) = call.ok() else { continue };
        for granted in call.grants() {
            existing_tasks.entry(&granted.task).or_insert(place);
        }
    }
    existing_tasks
}

/// Every attempt that a report closed has a matching report call.
fn reports_are_made(history: &History<'_>, found: &mut crate::history::FindingSink<'_>) {
    for (task, decisions) in &history.decisions {
        for (place, decision) in
            decisions.iter().filter(|(_, d)| d.cause == Cause::Report && closes(d))
        {
            let mut reports = history.calls_about(task).filter(|call| call.is(Operation::Report));
            if !reports.any(|call| call.invoke.attempt == decision.attempt) {
                found.report(Some(task), vec![*place], "no call reported this");
            }
        }
    }
}

pub(super) fn refused_has_no_effect(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::C3);
    for (task, decisions) in &history.decisions {
        for (place, decision) in
            decisions.iter().filter(|(_, d)| d.cause == Cause::Report && closes(d))
        {
            let reports = history.calls_about(task).filter(|call| {
                let same = decision.digest.is_none() || call.invoke.digest == decision.digest;
                call.is(Operation::Report) && call.invoke.attempt == decision.attempt && same
            });
            all_refused(task, *place, reports.collect(), &mut found);
        }
        let made = decisions.iter().find(|(_, d)| d.cause == Cause::Submit);
        if let Some((place, key)) = made.and_then(|(at, d)| Some((*at, d.key.as_deref()?))) {
            let same = |call: &&Call<'_>| {
                call.is(Operation::Submit) && call.invoke.key.as_deref() == Some(key)
            };
            all_refused(task, place, history.calls.iter().filter(same).collect(), &mut found);
        }
    }
}

fn all_refused(
    task: &str,
    place: usize,
    calls: Vec<&Call<'_>>,
    found: &mut crate::history::FindingSink<'_>,
) {
    if !calls.is_empty() && calls.iter().all(|call| call.refused().is_some()) {
        let places = calls.iter().flat_map(|call| call.places()).chain([place]).collect();
        found.report(
            Some(task),
            places,
            "everybody who asked for this was refused, and it happened",
        );
    }
}

pub(super) fn reads_go_forward(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::C7);
    for task in history.tasks() {
        let mut seen: Vec<(usize, u32)> = Vec::new();
        for (call, granted) in history.grants_of(task) {
            seen.extend(call.ok().map(|(place, _)| (place, granted.attempt)));
        }
        for call in history.calls_about(task) {
            let Some((place, answer)) = call.ok() else { continue };
            if !call.is(Operation::Get) {
                seen.extend(call.invoke.attempt.map(|attempt| (place, attempt)));
                continue;
            }
            let Some(read) = answer.attempt else { continue };
            let newer = seen
                .iter()
                .find(|(at, attempt)| *attempt > read && history.precedes(*at, call.begun));
            if let Some((at, attempt)) = newer {
                let why = format!("attempt {read} was read after attempt {attempt} was known");
                found.report(Some(task), vec![*at, place], why);
            }
            seen.push((place, read));
        }
    }
}

pub(super) fn recovery_finds_what_was(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::C8);
    let mut lost: Option<(usize, &str)> = None;
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::State(state) = &event.what else { continue };
        match state.moment {
            Moment::Lost => lost = Some((place, &state.digest)),
            Moment::Asked | Moment::Refused => {}
            Moment::Recovered => {
                if let Some((at, digest)) =
                    lost.take().filter(|(_, digest)| *digest != state.digest)
                {
                    let why = format!("{} was found, and {digest} was durable", state.digest);
                    found.report(None, vec![at, place], why);
                }
            }
        }
    }
}

pub(super) fn all_are_counted(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::B10);
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::Snapshot(snapshot) = &event.what else { continue };
        let mut once: BTreeSet<&str> = BTreeSet::new();
        for twice in snapshot.tasks.iter().filter(|seen| !once.insert(&seen.task)) {
            found.report(Some(&twice.task), vec![place], "it is there twice");
        }
        if let Some(counted) =
            snapshot.counted.filter(|counted| *counted != snapshot.tasks.len() as u64)
        {
            let why = format!("{counted} were counted, and {} are there", snapshot.tasks.len());
            found.report(None, vec![place], why);
        }
        for seen in &snapshot.tasks {
            let ended = ended_before(history, &seen.task, place);
            if let Some((at, _)) = ended.filter(|(_, state)| *state != seen.state) {
                found.report(
                    Some(&seen.task),
                    vec![at, place],
                    "it had ended and is counted as something else",
                );
            }
        }
    }
}

fn ended_before(history: &History<'_>, task: &str, place: usize) -> Option<(usize, State)> {
    history.calls_about(task).find_map(|call| {
        let (at, answer) = call.ok()?;
        let state = answer.state.filter(|state| state.is_terminal())?;
        (answer.answer == Answer::Ok && history.precedes(at, place)).then_some((at, state))
    })
}
