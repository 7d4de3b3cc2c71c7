//! Durable runs: each step and each child is recorded once, and every attempt is shown the same record.

use std::collections::{BTreeMap, BTreeSet};

use crate::durable::{Recorded, Replay};
use crate::event::{Answer, EventKind, Operation};
use crate::finding::{Finding, Invariant};
use crate::history::{Call, History, findings_for};

/// What every attempt of a task was shown, with the index of the event.
type Replays<'e> = BTreeMap<&'e str, Vec<(usize, &'e Replay)>>;

fn replays<'e>(history: &History<'e>) -> Replays<'e> {
    let mut replays = Replays::new();
    for (place, event) in history.events.iter().enumerate() {
        if let EventKind::Replay(replay) = &event.what {
            replays.entry(&replay.task).or_default().push((place, replay));
        }
    }
    replays
}

/// The accepted calls about a task that record something.
fn recording<'h, 'e>(history: &'h History<'e>, task: &str) -> Vec<&'h Call<'e>> {
    let is_recording = |call: &&Call<'_>| call.ok().is_some() && call.invoke.durable.is_some();
    history.calls_about(task).filter(is_recording).collect()
}

pub(super) fn the_same_commands(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::E1);
    for task in history.tasks() {
        let mut asked: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
        for call in recording(history, task) {
            let commands = call.invoke.durable.iter().flat_map(|durable| durable.commands());
            for command in commands {
                let Some(input) = command.input.as_deref() else { continue };
                let (known, place) = *asked.entry(&command.key).or_insert((input, call.begun));
                if known != input {
                    let why = format!("{} was accepted with two inputs", command.key);
                    found.report(Some(task), vec![place, call.begun], why);
                }
            }
        }
    }
}

pub(super) fn one_chain(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::E2);
    for (task, replays) in replays(history) {
        let mut known: BTreeMap<u32, (&Recorded, usize)> = BTreeMap::new();
        let mut longest: BTreeMap<u32, (u32, usize)> = BTreeMap::new();
        for (place, replay) in &replays {
            if let Some(pair) =
                replay.recorded.windows(2).find(|pair| pair[1].number != pair[0].number + 1)
            {
                let why = format!("{} follows {}", pair[1].number, pair[0].number);
                found.report(Some(task), vec![*place], why);
            }
            for recorded in &replay.recorded {
                let (first, at) = *known.entry(recorded.number).or_insert((recorded, *place));
                if first != recorded {
                    let why = format!("{} was shown as two records", recorded.number);
                    found.report(Some(task), vec![at, *place], why);
                }
            }
            let last = replay.recorded.last().map_or(0, |recorded| recorded.number);
            let shown = longest.entry(replay.order()).or_insert((last, *place));
            *shown = (*shown).max((last, *place));
        }
        let shown: Vec<(u32, usize)> = longest.into_values().collect();
        for pair in shown.windows(2).filter(|pair| pair[1].0 < pair[0].0) {
            let why = format!("a later attempt was shown {} of {} records", pair[1].0, pair[0].0);
            found.report(Some(task), vec![pair[0].1, pair[1].1], why);
        }
        for (place, replay) in &replays {
            for (key, at) in missing(history, replay) {
                let why = format!("{key} was acknowledged to an earlier attempt, and is not shown");
                found.report(Some(task), vec![at, *place], why);
            }
        }
    }
}

/// What an earlier attempt was told to be recorded and this one is not shown. A replay that begins at a savepoint leaves
/// out what was before it.
fn missing<'e>(history: &History<'e>, replay: &Replay) -> Vec<(&'e str, usize)> {
    if replay.recorded.first().is_some_and(|first| first.number > 1) {
        return Vec::new();
    }
    let shown: BTreeSet<&str> = replay.recorded.iter().map(|it| it.key.as_str()).collect();
    let earlier = recording(history, &replay.task)
        .into_iter()
        .filter(|call| call.invoke.attempt.is_some_and(|attempt| replay.is_after(attempt)));
    let mut missing = Vec::new();
    for call in earlier {
        let Some(durable) = &call.invoke.durable else { continue };
        let keys = durable.commands().map(|command| command.key.as_str());
        missing.extend(keys.filter(|key| !shown.contains(key)).map(|key| (key, call.begun)));
    }
    missing
}

pub(super) fn one_result(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::E3);
    for (task, replays) in replays(history) {
        let mut results: BTreeMap<(&str, bool), (u32, Option<&str>, usize)> = BTreeMap::new();
        for (place, replay) in replays {
            for recorded in &replay.recorded {
                let this = (recorded.number, recorded.result.as_deref());
                let key = (recorded.key.as_str(), recorded.started);
                let known = *results.entry(key).or_insert((this.0, this.1, place));
                if (known.0, known.1) != this {
                    let why = format!("{} was recorded twice", recorded.key);
                    found.report(Some(task), vec![known.2, place], why);
                }
            }
        }
    }
    for task in history.tasks() {
        let mut told: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
        for call in recording(history, task) {
            for step in call.invoke.durable.iter().flat_map(|durable| &durable.steps) {
                let Some(result) = step.result.as_deref() else { continue };
                let (first, place) = *told.entry(&step.key).or_insert((result, call.begun));
                if first != result {
                    let why = format!("two results of {} were accepted", step.key);
                    found.report(Some(task), vec![place, call.begun], why);
                }
            }
        }
    }
    one_child(history, findings);
}

/// No two tasks are the child of one parent under one key.
fn one_child(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::E3);
    let mut children: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for (task, decisions) in &history.decisions {
        let parent = decisions.iter().find_map(|(place, d)| Some((d.parent.as_deref()?, *place)));
        let Some((parent, place)) = parent else { continue };
        let (first, at) = *children.entry(parent).or_insert((task, place));
        if first != *task {
            let why = format!("{first} and it are both the child {parent}");
            found.report(Some(task), vec![at, place], why);
        }
    }
}

pub(super) fn a_diverged_run_is_parked(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::E4);
    for task in history.tasks() {
        let diverged = recording(history, task)
            .into_iter()
            .filter(|call| call.invoke.durable.as_ref().is_some_and(|durable| durable.diverged));
        for call in diverged {
            let (Some((told, _)), Some(attempt)) = (call.ok(), call.invoke.attempt) else {
                continue;
            };
            if let Some(place) = next_command(history, task, attempt)
                .filter(|place| history.precedes(told, *place))
                .filter(|place| !is_resumed(history, task, *place))
            {
                let why = format!("attempt {attempt} diverged, and nobody resumed the run");
                found.report(Some(task), vec![told, place], why);
            }
        }
    }
}

/// Where an attempt after this one was granted, or recorded something.
fn next_command(history: &History<'_>, task: &str, attempt: u32) -> Option<usize> {
    let grants = history.grants_of(task).filter(|(_, granted)| granted.attempt > attempt);
    let grants = grants.filter_map(|(call, _)| Some(call.ok()?.0));
    let calls = recording(history, task)
        .into_iter()
        .filter(|call| call.invoke.attempt.is_some_and(|it| it > attempt))
        .filter_map(|call| Some(call.ok()?.0))
        .collect::<Vec<usize>>();
    grants.chain(calls).min()
}

/// Whether somebody may have resumed the run before this event.
fn is_resumed(history: &History<'_>, task: &str, place: usize) -> bool {
    let mut resumes = history.calls_about(task).filter(|call| call.is(Operation::Resume));
    resumes.any(|call| {
        let is_refused = call.answer.is_some_and(|(_, given)| given.answer == Answer::Fail);
        !is_refused && call.begun < place
    })
}

pub(super) fn replay_begins_at_a_savepoint(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::E5);
    for (task, replays) in replays(history) {
        let mut savepoint: Option<(u32, u32, usize)> = None;
        for (place, replay) in replays {
            let (Some(first), Some(attempt)) = (replay.recorded.first(), replay.attempt) else {
                continue;
            };
            if first.number > 1 && !first.savepoint {
                let why = format!("its replay begins with {}, which is no savepoint", first.number);
                found.report(Some(task), vec![place], why);
            }
            if let Some((_, number, at)) = savepoint
                .filter(|(earlier, number, _)| *earlier < attempt && *number > first.number)
            {
                let why = format!("attempt {attempt} begins before savepoint {number}");
                found.report(Some(task), vec![at, place], why);
            }
            let last = replay.recorded.iter().rev().find(|recorded| recorded.savepoint);
            if let Some(last) = last {
                savepoint = savepoint.max(Some((attempt, last.number, place)));
            }
        }
    }
}

pub(super) fn unchanged_code_replays(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::E6);
    for task in history.tasks() {
        let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
        for call in recording(history, task) {
            let Some(durable) = &call.invoke.durable else { continue };
            let Some(code) = durable.code.as_deref() else { continue };
            if durable.diverged && codes.len() == 1 && codes.contains_key(code) {
                let why = format!("{code} recorded all of it, and diverges from it");
                found.report(Some(task), vec![codes[code], call.begun], why);
            }
            if !durable.diverged {
                codes.entry(code).or_insert(call.begun);
            }
        }
    }
}
