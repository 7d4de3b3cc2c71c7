//! Effects: what a receiver saw, against what was asked for.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::EventKind;
use crate::finding::{Finding, Invariant};
use crate::history::{History, findings_for};
use crate::outbox::{Declared, Delivered};

/// What a receiver saw, with the index of the event.
fn deliveries<'e>(history: &History<'e>) -> Vec<(usize, &'e Delivered)> {
    let delivered = |(place, event): (usize, &'e crate::Event)| match &event.what {
        EventKind::Delivered(delivered) => Some((place, delivered)),
        _ => None,
    };
    history.events.iter().enumerate().filter_map(delivered).collect()
}

fn declarations<'e>(history: &History<'e>) -> Vec<(usize, &'e Declared)> {
    let declared = |(place, event): (usize, &'e crate::Event)| match &event.what {
        EventKind::Declared(declared) => Some((place, declared)),
        _ => None,
    };
    history.events.iter().enumerate().filter_map(declared).collect()
}

/// D1: what is delivered was asked for, and each that was asked for is one effect.
pub(super) fn one_effect_per_intent(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::D1);
    let declared = declarations(history);
    let mut ids: BTreeMap<(&str, u64), (usize, &str)> = BTreeMap::new();
    for (place, delivered) in deliveries(history) {
        let Delivered { effect, aggregate, number, body } = delivered;
        let is_it =
            |it: &Declared| it.aggregate == *aggregate && it.number == *number && it.body == *body;
        if !declared.iter().any(|(asked, it)| history.precedes(*asked, place) && is_it(it)) {
            found.report(
                None,
                vec![place],
                format!("nobody had asked for {number} of {aggregate}"),
            );
        }
        let (first, known) = *ids.entry((aggregate, *number)).or_insert((place, effect));
        if known != effect {
            let why = format!("{number} of {aggregate} is {known} and {effect}");
            found.report(None, vec![first, place], why);
        }
    }
}

/// D2: what was acknowledged is delivered once faults have stopped.
pub(super) fn every_effect_is_delivered(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::D2);
    let is_settled = |event: &crate::Event| matches!(event.what, EventKind::Settled(_));
    let Some(settled) = history.events.iter().position(is_settled) else { return };
    let seen: BTreeSet<(&str, u64)> =
        deliveries(history).iter().map(|(_, it)| (it.aggregate.as_str(), it.number)).collect();
    for (place, declared) in declarations(history) {
        let Declared { aggregate, number, acknowledged, .. } = declared;
        let is_missing = *acknowledged && !seen.contains(&(aggregate, *number));
        if is_missing && history.precedes(place, settled) {
            let why = format!("{number} of {aggregate} never reached its receiver");
            found.report(None, vec![place, settled], why);
        }
    }
}

/// D3: all deliveries of one id have the same bytes, in the same place.
pub(super) fn the_same_bytes(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::D3);
    let mut first: BTreeMap<&str, (usize, &Delivered)> = BTreeMap::new();
    for (place, delivered) in deliveries(history) {
        let (earlier, known) = *first.entry(&delivered.effect).or_insert((place, delivered));
        if known != delivered {
            let why = format!("{} was sent with different contents", delivered.effect);
            found.report(None, vec![earlier, place], why);
        }
    }
}

/// D4: effects of an aggregate are first seen in the order in which they were asked for, and none is left out.
pub(super) fn in_order(history: &History<'_>, findings: &mut Vec<Finding>) {
    let mut found = findings_for(findings, Invariant::D4);
    let mut newest: BTreeMap<&str, (Option<usize>, u64)> = BTreeMap::new();
    for (place, delivered) in deliveries(history) {
        let Delivered { aggregate, number, .. } = delivered;
        let (before, last) = newest.entry(aggregate).or_insert((None, 0));
        if *number > *last + 1 {
            let why = format!("{number} of {aggregate} was delivered after {last}");
            found.report(None, before.iter().copied().chain([place]).collect(), why);
        }
        if *number > *last {
            (*before, *last) = (Some(place), *number);
        }
    }
}
