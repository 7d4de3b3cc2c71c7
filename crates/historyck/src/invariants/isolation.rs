//! Authorization and isolation: a caller does only what its credential allows and sees nothing of other scopes.

use std::collections::BTreeMap;

use crate::event::{Class, Credential, EventKind, Moment, Operation};
use crate::finding::{Finding, Invariant};
use crate::history::{Call, History, findings_for};

pub(super) fn entitled(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::S2);
    for call in history.calls.iter().filter(|call| call.ok().is_some()) {
        let Some(shown) = &call.invoke.shown else { continue };
        if !entitles(shown, call) {
            let why = format!("{:?} was done for {:?}", call.invoke.op, shown.class);
            found.report(call.task(), call.places(), why);
        }
    }
}

/// Whether the credential fits the call: a key of the right kind, or the token of exactly that lease.
fn entitles(shown: &Credential, call: &Call<'_>) -> bool {
    match call.invoke.op {
        Operation::Submit
        | Operation::Cancel
        | Operation::Signal
        | Operation::Resume
        | Operation::Get => shown.class == Class::Client,
        Operation::Lease => shown.class == Class::Worker,
        Operation::Administer => shown.class == Class::Admin,
        Operation::Started | Operation::Heartbeat | Operation::Checkpoint | Operation::Report => {
            shown.class == Class::Task
                && shown.task.as_deref() == call.task()
                && shown.attempt == call.invoke.attempt
        }
    }
}

pub(super) fn refusals_change_nothing(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::S3);
    let mut asked: Option<(usize, &str)> = None;
    for (place, event) in history.events.iter().enumerate() {
        let EventKind::State(state) = &event.what else { continue };
        match state.moment {
            Moment::Asked => asked = Some((place, &state.digest)),
            Moment::Refused => {
                if let Some((at, _)) = asked.take().filter(|(_, digest)| *digest != state.digest) {
                    found.report(
                        None,
                        vec![at, place],
                        "a call was refused, and something changed",
                    );
                }
            }
            Moment::Lost | Moment::Recovered => {}
        }
    }
}

/// Applies only to histories in which the audit was read.
pub(super) fn changes_are_audited(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::S4);
    let mut records: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, event) in history.events.iter().enumerate() {
        if let EventKind::Audit(audit) = &event.what {
            records.entry(&audit.change).or_default().push(place);
        }
    }
    let is_change = |call: &&Call<'_>| call.is(Operation::Administer);
    let mut asked: BTreeMap<&str, Vec<&Call<'_>>> = BTreeMap::new();
    for call in history.calls.iter().filter(is_change) {
        call.invoke.change.iter().for_each(|change| asked.entry(change).or_default().push(call));
    }
    for (change, places) in &records {
        let calls = asked.get(change).map_or(&[][..], Vec::as_slice);
        let may_be = calls.iter().filter(|call| call.refused().is_none()).count();
        if places.len() > may_be {
            let why = format!("{change} has {} records, and was done {may_be} times", places.len());
            found.report(None, places.clone(), why);
        }
    }
    for (change, calls) in asked.iter().filter(|_| !records.is_empty()) {
        let done: Vec<usize> = calls.iter().filter_map(|call| Some(call.ok()?.0)).collect();
        let recorded = records.get(change).map_or(0, Vec::len);
        if recorded < done.len() {
            let why = format!("{change} was done {} times and has {recorded} records", done.len());
            found.report(None, done, why);
        }
    }
}

pub(super) fn answers_are_ones_own(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::S5);
    for call in &history.calls {
        let (Some((_, answer)), Some(scope)) = (call.answer, call.invoke.scope.as_deref()) else {
            continue;
        };
        if let Some(foreign) = answer.scope_tags.iter().find(|mark| mark.as_str() != scope) {
            let why = format!("{scope} was shown what {foreign} wrote");
            found.report(call.task(), call.places(), why);
        }
    }
}

/// Compares refusals about tasks of another scope with refusals about missing tasks, per operation.
pub(super) fn foreign_is_like_missing(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::S6);
    let owners = history.owners();
    let mut missing: BTreeMap<Operation, &Call<'_>> = BTreeMap::new();
    let mut foreign: Vec<&Call<'_>> = Vec::new();
    for call in history.calls.iter().filter(|call| answered(call).is_some()) {
        let (Some(task), Some(scope)) = (call.task(), call.invoke.scope.as_deref()) else {
            continue;
        };
        match owners.get(task) {
            Some((owner, _)) if *owner != scope => foreign.push(call),
            // A task with decisions exists.
            None if history.decisions_about(task).is_empty() => {
                missing.entry(call.invoke.op).or_insert(call);
            }
            _ => {}
        }
    }
    for call in foreign {
        let Some(like) = missing.get(&call.invoke.op) else { continue };
        if answered(call) != answered(like) {
            let places = [like.places(), call.places()].concat();
            found.report(call.task(), places, "it is answered otherwise than what is not there");
        }
    }
}

/// The content of a refusal, if it was recorded.
fn answered<'e>(call: &Call<'e>) -> Option<(Option<&'e str>, &'e str)> {
    let (_, answer) = call.refused()?;
    Some((answer.code.as_deref(), answer.body.as_deref()?))
}
