//! A parsed history: calls with their answers, decisions by task, and the order between events.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::event::{
    Answer, Cause, Decision, Event, EventKind, Granted, Invoke, Operation, PRIMARY, Phase, Return,
    State,
};
use crate::finding::{Finding, Invariant};

/// The text can be parsed but cannot have happened: no invariant is checked on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("call {0} is invoked twice")]
    InvokedTwice(u64),
    #[error("call {0} returns without having been invoked before")]
    NotInvoked(u64),
    #[error("call {0} returns twice")]
    ReturnedTwice(u64),
}

/// A call and its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'e> {
    pub(crate) invoke: &'e Invoke,
    /// Index of the invocation.
    pub(crate) begun: usize,
    /// The answer with its index; `None` if there was none.
    pub(crate) answer: Option<(usize, &'e Return)>,
}

impl<'e> Call<'e> {
    /// The answer, if the call succeeded.
    pub(crate) fn ok(&self) -> Option<(usize, &'e Return)> {
        self.answer.filter(|(_, answer)| answer.answer == Answer::Ok)
    }

    pub(crate) fn refused(&self) -> Option<(usize, &'e Return)> {
        self.answer.filter(|(_, answer)| answer.answer == Answer::Fail)
    }

    /// Whether the outcome is unknown.
    pub(crate) fn is_open(&self) -> bool {
        self.answer.is_none_or(|(_, answer)| answer.answer == Answer::Info)
    }

    pub(crate) fn is(&self, op: Operation) -> bool {
        self.invoke.op == op
    }

    /// The task the call is about, named by the caller or by the answer to a submission.
    pub(crate) fn task(&self) -> Option<&'e str> {
        let told = self.answer.and_then(|(_, answer)| answer.task.as_deref());
        self.invoke.task.as_deref().or(told)
    }

    pub(crate) fn grants(&self) -> impl Iterator<Item = &'e Granted> {
        self.ok().into_iter().flat_map(|(_, answer)| &answer.grants)
    }

    pub(crate) fn places(&self) -> Vec<usize> {
        std::iter::once(self.begun).chain(self.answer.map(|(at, _)| at)).collect()
    }
}

pub(crate) struct History<'e> {
    pub(crate) events: &'e [Event],
    pub(crate) calls: Vec<Call<'e>>,
    /// In the order of `n`; decisions without a number stay in the order of the history.
    pub(crate) decisions: BTreeMap<&'e str, Vec<(usize, &'e Decision)>>,
    /// Indexes into `calls`.
    about: BTreeMap<&'e str, Vec<usize>>,
    /// The same, with the lease that the call was granted.
    grants: BTreeMap<&'e str, Vec<(usize, &'e Granted)>>,
}

impl<'e> History<'e> {
    pub(crate) fn assemble(events: &'e [Event]) -> Result<History<'e>, Malformed> {
        let mut calls: BTreeMap<u64, Call<'e>> = BTreeMap::new();
        let mut decisions: BTreeMap<&str, Vec<(usize, &Decision)>> = BTreeMap::new();
        for (place, event) in events.iter().enumerate() {
            match &event.what {
                EventKind::Invoke(invoke) => {
                    let call = Call { invoke, begun: place, answer: None };
                    if calls.insert(invoke.call, call).is_some() {
                        return Err(Malformed::InvokedTwice(invoke.call));
                    }
                }
                EventKind::Return(answer) => {
                    let unknown = Malformed::NotInvoked(answer.call);
                    let call = calls.get_mut(&answer.call).ok_or(unknown)?;
                    if call.answer.replace((place, answer)).is_some() {
                        return Err(Malformed::ReturnedTwice(answer.call));
                    }
                }
                EventKind::Decision(decision) => {
                    decisions.entry(&decision.task).or_default().push((place, decision));
                }
                _ => {}
            }
        }
        decisions.values_mut().for_each(|of_task| order(of_task));
        let calls: Vec<Call<'e>> = calls.into_values().collect();
        let mut about: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut grants: BTreeMap<&str, Vec<(usize, &Granted)>> = BTreeMap::new();
        let owners = owners(&calls);
        let existing_tasks = existing_tasks(&calls, &decisions);
        let failovers = failovers(events);
        for (index, call) in calls.iter().enumerate() {
            let task = call
                .task()
                .filter(|task| !is_refusal_to_other_scope(call, task, &owners, &existing_tasks))
                .filter(|_| !is_read_in_failover(call, &failovers));
            task.into_iter().for_each(|task| about.entry(task).or_default().push(index));
            for granted in call.grants() {
                grants.entry(&granted.task).or_default().push((index, granted));
            }
        }
        Ok(History { events, calls, decisions, about, grants })
    }

    /// Whether the first event was over before the second one began.
    pub(crate) fn precedes(&self, first: usize, second: usize) -> bool {
        self.events[first].at < self.events[second].at
    }

    /// Every task that any event names.
    pub(crate) fn tasks(&self) -> BTreeSet<&'e str> {
        let named = self.about.keys().chain(self.grants.keys());
        self.decisions.keys().chain(named).copied().collect()
    }

    pub(crate) fn calls_about(&self, task: &str) -> impl Iterator<Item = &Call<'e>> {
        let places = self.about.get(task).into_iter().flatten();
        places.map(|place| &self.calls[*place])
    }

    /// The grants of a task as workers received them, with their calls.
    pub(crate) fn grants_of(&self, task: &str) -> impl Iterator<Item = (&Call<'e>, &'e Granted)> {
        let places = self.grants.get(task).into_iter().flatten();
        places.map(|(place, granted)| (&self.calls[*place], *granted))
    }

    pub(crate) fn decisions_about(&self, task: &str) -> &[(usize, &'e Decision)] {
        self.decisions.get(task).map_or(&[], Vec::as_slice)
    }

    /// The scope of each task, from the submission that created it, with the submission's index.
    pub(crate) fn owners(&self) -> BTreeMap<&'e str, (&'e str, usize)> {
        owners(&self.calls)
    }

    /// The last observed state of a task: from decisions, reports and reads.
    pub(crate) fn last_state(&self, task: &str) -> Option<(usize, State)> {
        let decided = self.decisions_about(task).last().map(|(at, d)| (*at, d.after));
        let told = self.calls_about(task).filter_map(|call| {
            let (at, answer) = call.ok()?;
            Some((at, answer.state?))
        });
        // A terminal state wins: an ended task cannot become live again, and B2 reports it if one does.
        decided.into_iter().chain(told).max_by_key(|(at, state)| (state.is_terminal(), *at))
    }
}

type Owners<'e> = BTreeMap<&'e str, (&'e str, usize)>;

fn owners<'e>(calls: &[Call<'e>]) -> Owners<'e> {
    let mut owners = Owners::new();
    for call in calls.iter().filter(|call| call.is(Operation::Submit)) {
        if let (Some((place, _)), Some(scope), Some(task)) =
            (call.ok(), call.invoke.scope.as_deref(), call.task())
        {
            owners.entry(task).or_insert((scope, place));
        }
    }
    owners
}

/// Tasks that have a decision, or an answer that is not a refusal.
fn existing_tasks<'e>(
    calls: &[Call<'e>],
    decisions: &BTreeMap<&'e str, Vec<(usize, &'e Decision)>>,
) -> BTreeSet<&'e str> {
    let told = calls.iter().filter(|call| call.refused().is_none()).filter_map(Call::task);
    let granted = calls.iter().flat_map(Call::grants).map(|granted| granted.task.as_str());
    decisions.keys().copied().chain(told).chain(granted).collect()
}

/// A refusal to a caller in another scope, or about a task that no event shows, says nothing about the task.
fn is_refusal_to_other_scope(
    call: &Call<'_>,
    task: &str,
    owners: &Owners<'_>,
    existing_tasks: &BTreeSet<&str>,
) -> bool {
    let Some(scope) = call.invoke.scope.as_deref().filter(|_| call.refused().is_some()) else {
        return false;
    };
    owners.get(task).map_or(!existing_tasks.contains(task), |(owner, _)| *owner != scope)
}

/// From when until when a database failed over, as indexes of events.
fn failovers(events: &[Event]) -> Vec<RangeInclusive<usize>> {
    let mut failovers = Vec::new();
    let mut begun = None;
    for (place, event) in events.iter().enumerate() {
        let EventKind::Fault(fault) = &event.what else { continue };
        match fault.phase {
            Phase::Begin if fault.detail.as_deref() == Some(PRIMARY) => begun = Some(place),
            Phase::End => failovers.extend(begun.take().map(|begun| begun..=place)),
            Phase::Begin => {}
        }
    }
    failovers
}

/// Until a coordinator has seen the new primary, which takes it a second, it can read from a former one that lives on.
fn is_read_in_failover(call: &Call<'_>, failovers: &[RangeInclusive<usize>]) -> bool {
    call.is(Operation::Get) && failovers.iter().any(|failover| failover.contains(&call.begun))
}

/// Sorts by number; a decision without a number stays behind the decision before it.
fn order(decisions: &mut [(usize, &Decision)]) {
    let mut last = 0;
    let mut keys: BTreeMap<usize, (u32, usize)> = BTreeMap::new();
    for (place, decision) in decisions.iter() {
        last = decision.n.unwrap_or(last);
        keys.insert(*place, (last, *place));
    }
    decisions.sort_by_key(|(place, _)| keys.get(place).copied());
}

/// Whether the decision closes an attempt, for any cause.
pub(crate) fn closes(decision: &Decision) -> bool {
    decision.outcome.is_some()
}

pub(crate) fn is_grant(decision: &Decision) -> bool {
    decision.cause == Cause::Grant
}

pub(crate) struct FindingSink<'f> {
    pub(crate) findings: &'f mut Vec<Finding>,
    pub(crate) invariant: Invariant,
}

impl FindingSink<'_> {
    pub(crate) fn report(
        &mut self,
        task: Option<&str>,
        events: Vec<usize>,
        why: impl Into<String>,
    ) {
        self.findings.push(Finding {
            invariant: self.invariant,
            task: task.map(str::to_owned),
            events,
            why: why.into(),
        });
    }
}

pub(crate) fn findings_for(findings: &mut Vec<Finding>, invariant: Invariant) -> FindingSink<'_> {
    FindingSink { findings, invariant }
}
