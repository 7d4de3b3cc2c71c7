//! Linearizability: is there one order of the calls about a task that the sequential rules explain?
//!
//! This is the search of Wing and Gong with Lowe's memoization: take any call that no unexplained call wholly
//! precedes, apply it, continue; remember every pair of explained calls and state, so that none is visited twice. A
//! call that fits now and changes nothing is taken at once: every order that has it later also works with it here.
//! Tasks share nothing, so each is searched alone and each search stays small. A call without an answer may have
//! happened at any time after it was made, or never. A search that exceeds its budget has no result, which counts as
//! a failure.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::event::{Answer, Granted, Operation};
use crate::finding::{Finding, Invariant};
use crate::history::{Call, History, findings_for};
use crate::sequential::{Model, Phase, Step};

/// Limit on pairs of explained calls and state per task: a few seconds of work, and far more than a task's calls
/// need.
const BUDGET: usize = 50_000;

struct Timed {
    step: Step,
    begun: u64,
    /// `None`: the call may be explained at any time, or never.
    ended: Option<u64>,
    places: Vec<usize>,
}

enum Searched {
    Explained,
    /// How many calls the best order explains, and the call at which it gets stuck.
    Not {
        explained: usize,
        stuck: Vec<usize>,
    },
    Unknown,
}

pub(crate) fn check(history: &History<'_>, findings: &mut Vec<Finding>) {
    let keys = KeysOfTasks::of(history);
    for task in history.tasks() {
        let (calls, first) = calls_about(history, task, &keys);
        let count = calls.len();
        let mut found = findings_for(findings, Invariant::A5);
        match search(&calls, first) {
            Searched::Explained => {}
            Searched::Not { explained, stuck } => {
                let why = format!(
                    "no order explains its {count} calls; the best explains {explained} and none of these next"
                );
                found.report(Some(task), stuck, why);
            }
            Searched::Unknown => {
                let why =
                    format!("unknown: its {count} calls were not explained within {BUDGET} steps");
                found.report(Some(task), Vec::new(), why);
            }
        }
    }
}

/// Submissions whose answer did not name their task, by the task that has their key.
struct KeysOfTasks<'e> {
    unanswered: BTreeMap<&'e str, Vec<Call<'e>>>,
}

type Key<'e> = (Option<&'e str>, &'e str);

impl<'e> KeysOfTasks<'e> {
    fn of(history: &History<'e>) -> Self {
        let mut tasks: BTreeMap<Key<'e>, BTreeSet<&str>> = BTreeMap::new();
        let submits = || history.calls.iter().filter(|call| call.is(Operation::Submit));
        for call in submits() {
            if let (Some(key), Some(task)) = (key_of(call), call.task()) {
                tasks.entry(key).or_default().insert(task);
            }
        }
        for (task, (_, decision)) in
            history.decisions.iter().flat_map(|(t, all)| all.iter().map(move |d| (t, d)))
        {
            if let Some(key) = decision.key.as_deref() {
                tasks.entry((decision.scope.as_deref(), key)).or_default().insert(task);
            }
        }
        let mut unanswered: BTreeMap<&str, Vec<Call<'e>>> = BTreeMap::new();
        for call in submits().filter(|call| call.task().is_none()) {
            // If a key belongs to two tasks, it is unknown which of them the submission meant.
            let tasks =
                key_of(call).and_then(|key| tasks.get(&key)).filter(|tasks| tasks.len() == 1);
            if let Some(task) = tasks.and_then(|tasks| tasks.first()) {
                unanswered.entry(task).or_default().push(*call);
            }
        }
        Self { unanswered }
    }
}

fn key_of<'e>(call: &Call<'e>) -> Option<Key<'e>> {
    Some((call.invoke.scope.as_deref(), call.invoke.key.as_deref()?))
}

/// The calls about a task, and the task's state before the first one.
fn calls_about(history: &History<'_>, task: &str, keys: &KeysOfTasks<'_>) -> (Vec<Timed>, Model) {
    let unanswered = keys.unanswered.get(task).into_iter().flatten();
    let calls = history.calls_about(task).chain(unanswered);
    let mut timed: Vec<Timed> = calls.filter_map(|call| of_call(history, call)).collect();
    for (call, granted) in history.grants_of(task) {
        timed.push(of_grant(history, call, granted));
    }
    let is_made_here = timed.iter().any(|call| call.step.op == Operation::Submit);
    let is_there = history.decisions.contains_key(task) || timed.iter().any(shows_a_task);
    let phase = if is_made_here || !is_there { Phase::Absent } else { Phase::Waiting };
    let has_parent = history.decisions_about(task).iter().any(|(_, d)| d.parent.is_some());
    (timed, Model { phase, has_parent, ..Model::default() })
}

/// Whether a call's answer is about a task that exists. Callers may ask for an id that was never submitted.
fn shows_a_task(call: &Timed) -> bool {
    let is_missing = matches!(call.step.code.as_deref(), Some("task_not_found" | "run_not_found"));
    call.step.answer == Answer::Ok || (call.step.answer == Answer::Fail && !is_missing)
}

fn of_call(history: &History<'_>, call: &Call<'_>) -> Option<Timed> {
    let answer = call.answer.map(|(_, answer)| answer);
    let is_open = call.is_open();
    let suspends =
        call.invoke.durable.as_ref().is_some_and(|call| call.wait.is_some() || call.diverged);
    let has_effect = suspends
        || matches!(call.invoke.op, Operation::Submit | Operation::Report | Operation::Cancel);
    if call.is(Operation::Lease) || (is_open && !has_effect) {
        return None;
    }
    let step = Step {
        op: call.invoke.op,
        answer: answer.map_or(Answer::Info, |answer| answer.answer),
        code: answer.and_then(|answer| answer.code.clone()),
        attempt: call.invoke.attempt.or(answer.and_then(|answer| answer.attempt)),
        digest: call.invoke.digest.clone(),
        outcome: call.invoke.outcome,
        state: answer.and_then(|answer| answer.state),
        output: answer.and_then(|answer| answer.digest.clone()),
        is_replayed: answer.is_some_and(|answer| answer.replayed),
        may_repeat: false,
        is_forced: call.invoke.force,
        signals: answer.is_some_and(|answer| answer.cancel),
        suspends,
        has_plan: call.invoke.plan,
    };
    Some(timed(history, call, step))
}

fn of_grant(history: &History<'_>, call: &Call<'_>, granted: &Granted) -> Timed {
    let step = Step {
        op: Operation::Lease,
        answer: Answer::Ok,
        code: None,
        attempt: Some(granted.attempt),
        digest: None,
        outcome: None,
        state: None,
        output: None,
        is_replayed: false,
        may_repeat: call.invoke.poll.is_some(),
        is_forced: false,
        signals: false,
        suspends: false,
        has_plan: false,
    };
    timed(history, call, step)
}

fn timed(history: &History<'_>, call: &Call<'_>, step: Step) -> Timed {
    let at = |place: usize| history.events[place].at;
    let ended = call.answer.filter(|_| !call.is_open()).map(|(place, _)| at(place));
    Timed { step, begun: at(call.begun), ended, places: call.places() }
}

/// The set of explained calls, one bit each.
type Explained = Vec<u64>;

fn search(calls: &[Timed], first: Model) -> Searched {
    let attempts_max = attempts_max(calls);
    let nothing: Explained = vec![0; calls.len().div_ceil(64)];
    let mut seen: HashSet<(Explained, Model)> = HashSet::new();
    let mut open = vec![(nothing, first)];
    let mut best: (usize, Vec<usize>) = (0, Vec::new());
    while let Some((explained, model)) = open.pop() {
        if !seen.insert((explained.clone(), model.clone())) {
            continue;
        }
        if seen.len() > BUDGET {
            return Searched::Unknown;
        }
        let next = next_calls(calls, &explained);
        if calls.iter().enumerate().all(|(i, call)| call.ended.is_none() || has(&explained, i)) {
            return Searched::Explained;
        }
        let count = explained.iter().map(|word| word.count_ones() as usize).sum();
        if count >= best.0 {
            let required = next.iter().filter(|i| calls[**i].ended.is_some());
            best = (count, required.flat_map(|i| calls[*i].places.clone()).collect());
        }
        let idle = next.iter().find(|i| model.after(&calls[**i].step) == [model.clone()]);
        if let Some(index) = idle {
            open.push((with(&explained, *index), model));
            continue;
        }
        open.extend(model.by_itself(attempts_max).into_iter().map(|m| (explained.clone(), m)));
        for index in next {
            for after in model.after(&calls[index].step) {
                open.push((with(&explained, index), after));
            }
        }
    }
    Searched::Not { explained: best.0, stuck: best.1 }
}

/// The attempts that the task may have had. A poll whose answer was lost may have been granted one that no other call names;
/// only a refusal of the attempt before it tells.
fn attempts_max(calls: &[Timed]) -> u32 {
    let named = calls.iter().filter_map(|call| call.step.attempt).max().unwrap_or(0);
    let superseded = |call: &Timed| call.step.code.as_deref() == Some("attempt_mismatch");
    named + u32::from(calls.iter().any(superseded))
}

/// The calls that no other unexplained call wholly precedes.
fn next_calls(calls: &[Timed], explained: &Explained) -> Vec<usize> {
    let left = || calls.iter().enumerate().filter(|(i, _)| !has(explained, *i));
    let first_end = left().filter_map(|(_, call)| call.ended).min().unwrap_or(u64::MAX);
    left().filter(|(_, call)| call.begun <= first_end).map(|(i, _)| i).collect()
}

fn has(explained: &Explained, index: usize) -> bool {
    explained[index / 64] & (1 << (index % 64)) != 0
}

fn with(explained: &Explained, index: usize) -> Explained {
    let mut explained = explained.clone();
    explained[index / 64] |= 1 << (index % 64);
    explained
}
