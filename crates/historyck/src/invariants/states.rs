//! The state machine: which transitions may happen, in which order, and when they must be over.

use std::collections::BTreeMap;

use crate::event::{Cause, Decision, EventKind, Operation, Outcome, State};
use crate::finding::{Finding, Invariant};
use crate::history::{History, closes, findings_for, is_grant};

pub(super) fn decided_on_what_was(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::A9);
    for (task, decisions) in &history.decisions {
        let mut last: Option<(usize, &Decision)> = None;
        let mut expected = 1;
        for (place, decision) in decisions {
            if let Some(n) = decision.n {
                if n != expected {
                    let why = format!("decision {n} stands where {expected} belongs");
                    let places = last.map(|(at, _)| at).into_iter().chain([*place]).collect();
                    found.report(Some(task), places, why);
                }
                expected = n + 1;
            }
            if let (Some((at, earlier)), Some(before)) = (last, decision.before)
                && before != earlier.after
            {
                let why = format!("decided on {before:?}, and it was {:?}", earlier.after);
                found.report(Some(task), vec![at, *place], why);
            }
            last = Some((*place, decision));
        }
    }
}

use State::{
    Blocked, Cancelled, Failed, Halted, Queued, Retry, Running, Skipped, Succeeded, Waiting,
};

/// The published table: from, to, and cause. A decision that changes no state is always allowed while a task runs.
const TABLE: [(Option<State>, State, Cause); 18] = [
    (None, Queued, Cause::Submit),
    (Some(Queued), Running, Cause::Grant),
    (Some(Retry), Running, Cause::Grant),
    (Some(Running), Retry, Cause::Undelivered),
    // The allowed number of consecutive grants was not delivered.
    (Some(Running), Failed, Cause::Undelivered),
    (Some(Running), Succeeded, Cause::Report),
    (Some(Running), Failed, Cause::Report),
    (Some(Running), Retry, Cause::Report),
    (Some(Running), Cancelled, Cause::Report),
    (Some(Running), Retry, Cause::Sweep),
    (Some(Running), Failed, Cause::Sweep),
    (Some(Running), Cancelled, Cause::Sweep),
    (Some(Queued), Failed, Cause::Sweep),
    (Some(Retry), Failed, Cause::Sweep),
    (Some(Queued), Cancelled, Cause::Cancel),
    (Some(Retry), Cancelled, Cause::Cancel),
    (Some(Running), Cancelled, Cause::Cancel),
    // A start after a cancel ends the task, and so does an undelivered grant after a cancel.
    (Some(Running), Cancelled, Cause::Started),
];

/// The transitions that only tasks of durable runs make: they wait, their children's ends reach them, and their own end
/// waits for their children.
fn is_of_durable_run((from, to, cause): (Option<State>, State, Cause)) -> bool {
    let Some(from) = from else {
        return matches!(
            (to, cause),
            (Queued | Blocked, Cause::Message) | (Waiting, Cause::Submit)
        );
    };
    match (from, to) {
        // Steps of a plan.
        (Blocked, Running) => cause == Cause::Grant,
        (Blocked, Skipped) => cause == Cause::Message,
        (Blocked, Cancelled) => matches!(cause, Cause::Message | Cause::Cancel),
        (Blocked, Failed) => cause == Cause::Sweep,
        (Running, Waiting) => !matches!(cause, Cause::Grant | Cause::Signal | Cause::Submit),
        (Queued | Retry, Waiting) => {
            matches!(cause, Cause::Cancel | Cause::Message | Cause::Sweep)
        }
        (Waiting, Running) => cause == Cause::Grant,
        (Waiting, Succeeded | Failed | Cancelled) => {
            matches!(cause, Cause::Message | Cause::Cancel | Cause::Sweep)
        }
        (Queued | Retry | Running, Cancelled) => cause == Cause::Message,
        // A limit of its budget is crossed: by a call of its worker, or by what its child used.
        (Running, Halted) => {
            matches!(cause, Cause::Checkpoint | Cause::Report | Cause::Heartbeat | Cause::Message)
        }
        (Queued | Retry | Waiting, Halted) => cause == Cause::Message,
        _ => false,
    }
}

pub(super) fn published_transitions(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::B1);
    for (task, decisions) in &history.decisions {
        let mut state: Option<State> = decisions.first().and_then(|(_, d)| d.before);
        for (place, decision) in decisions {
            let step = (state, decision.after, decision.cause);
            let is_known = TABLE.contains(&step)
                || is_of_durable_run(step)
                || step == (Some(Running), Cancelled, Cause::Undelivered)
                || (state == Some(decision.after)
                    && !is_grant(decision)
                    && !decision.after.is_terminal());
            if !is_known {
                let from = state.map_or("nothing".to_owned(), |state| format!("{state:?}"));
                let why = format!("{from} became {:?} by {:?}", decision.after, decision.cause);
                found.report(Some(task), vec![*place], why);
            }
            state = Some(decision.after);
        }
    }
}

pub(super) fn ends_are_final(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::B2);
    for (task, decisions) in &history.decisions {
        let ended = decisions.iter().position(|(_, decision)| decision.after.is_terminal());
        if let Some(later) =
            ended.and_then(|ended| decisions.get(ended + 1).map(|(at, _)| (ended, *at)))
        {
            found.report(
                Some(task),
                vec![decisions[later.0].0, later.1],
                "something was decided after the end",
            );
        }
    }
    for task in history.tasks() {
        let seen: Vec<(usize, usize, State, Option<&str>)> = history
            .calls_about(task)
            .filter_map(|call| {
                let (place, answer) = call.ok()?;
                let digest = answer.digest.as_deref().filter(|_| call.is(Operation::Get));
                // A repeated call that had suspended its attempt is told so again, even if the task has ended since.
                let state = answer.state.filter(|state| !(answer.replayed && *state == Waiting))?;
                Some((call.begun, place, state, digest))
            })
            .collect();
        let ended = || seen.iter().filter(|(.., state, _)| state.is_terminal());
        let Some(first) = ended().min_by_key(|(_, at, ..)| *at) else { continue };
        for later in seen.iter().filter(|later| history.precedes(first.1, later.0)) {
            if later.2 != first.2 {
                let why = format!("it had ended as {:?}, and was {:?} later", first.2, later.2);
                found.report(Some(task), vec![first.1, later.1], why);
            }
        }
        let with_output = ended().filter(|(.., output)| output.is_some());
        let Some(first) = with_output.min_by_key(|(_, at, ..)| *at) else { continue };
        for later in seen.iter().filter(|later| history.precedes(first.1, later.0)) {
            if later.3.is_some() && later.3 != first.3 {
                found.report(Some(task), vec![first.1, later.1], "its output became another one");
            }
        }
    }
}

pub(super) fn attempts_are_counted(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::B3);
    for (task, decisions) in &history.decisions {
        let mut expected = 1;
        let (mut failures, mut lost) = (0, 0);
        let (mut failures_max, mut lost_max) = (None, None);
        for (place, decision) in decisions {
            failures_max = decision.failures_max.or(failures_max);
            lost_max = decision.lost_max.or(lost_max);
            if let (true, Some(attempt)) = (is_grant(decision), decision.attempt) {
                if attempt != expected {
                    let why = format!("attempt {attempt} was granted where {expected} belongs");
                    found.report(Some(task), vec![*place], why);
                }
                expected = attempt + 1;
            }
            failures += u32::from(decision.outcome == Some(Outcome::Failed));
            lost += u32::from(decision.outcome == Some(Outcome::Lost));
            let beyond = |count: u32, max: Option<u32>| max.is_some_and(|max| count >= max);
            let goes_on = closes(decision) && !decision.after.is_terminal();
            if goes_on && (beyond(failures, failures_max) || beyond(lost, lost_max)) {
                let why = format!("it goes on after {failures} failures and {lost} losses");
                found.report(Some(task), vec![*place], why);
            }
        }
    }
    for task in history.tasks() {
        if let Some((call, _)) = history.grants_of(task).find(|(_, granted)| granted.attempt == 0) {
            found.report(Some(task), call.places(), "attempts begin with 1");
        }
    }
}

pub(super) fn time_goes_forward(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::B4);
    for (task, decisions) in &history.decisions {
        for pair in decisions.windows(2).filter(|pair| pair[1].1.now < pair[0].1.now) {
            let why = format!("decided at {} after {}", pair[1].1.now, pair[0].1.now);
            found.report(Some(task), vec![pair[0].0, pair[1].0], why);
        }
    }
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::Record(record) = &event.what else { continue };
        let times: Vec<i64> =
            [record.created, record.started, record.completed].into_iter().flatten().collect();
        if !times.is_sorted() {
            let why = format!("its record has times out of order: {times:?}");
            found.report(Some(&record.task), vec![place], why);
        }
    }
}

pub(super) fn one_record(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::B5);
    let mut records: BTreeMap<&str, (usize, State, &str)> = BTreeMap::new();
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::Record(record) = &event.what else { continue };
        let known = records.entry(&record.task).or_insert((place, record.state, &record.digest));
        if (known.1, known.2) != (record.state, record.digest.as_str()) {
            found.report(Some(&record.task), vec![known.0, place], "it has two different records");
        }
    }
    if records.is_empty() {
        return;
    }
    for task in history.tasks() {
        let ended = history.last_state(task).filter(|(_, state)| state.is_terminal());
        match (ended, records.get(task)) {
            (Some((at, state)), Some((place, recorded, _))) if state != *recorded => {
                let why = format!("it ended as {state:?}, and its record says {recorded:?}");
                found.report(Some(task), vec![at, *place], why);
            }
            (Some((at, _)), None) => {
                found.report(Some(task), vec![at], "it has ended and has no record")
            }
            (None, Some((place, ..))) if history.last_state(task).is_some() => {
                found.report(Some(task), vec![*place], "it has a record and has not ended");
            }
            _ => {}
        }
    }
}

pub(super) fn nothing_after_a_cancel(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::B7);
    for (task, decisions) in &history.decisions {
        let asked = decisions.iter().position(|(_, decision)| decision.cause == Cause::Cancel);
        let Some(asked) = asked else { continue };
        if let Some((place, _)) = decisions[asked..].iter().find(|(_, d)| is_grant(d)) {
            found.report(Some(task), vec![decisions[asked].0, *place], "granted after its cancel");
        }
    }
    for task in history.tasks() {
        let cancels = history.calls_about(task).filter(|call| call.is(Operation::Cancel));
        let Some(asked) = cancels.filter_map(|call| Some(call.ok()?.0)).min() else { continue };
        let mut grants = history.grants_of(task);
        // A poll with an id may be retried and then finds the lease granted before.
        let new = |call: &crate::history::Call<'_>| call.invoke.poll.is_none();
        if let Some((call, _)) =
            grants.find(|(call, _)| new(call) && history.precedes(asked, call.begun))
        {
            found.report(
                Some(task),
                [vec![asked], call.places()].concat(),
                "leased after its cancel was answered",
            );
        }
    }
}
