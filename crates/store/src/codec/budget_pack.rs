//! The packed form of a budget: a byte for what it limits, a byte for what else it says, and a number for each of these.
//!
//! A member that is absent or zero takes a bit. As elsewhere, what the bytes mean never changes under the same form of entry.

use verdict::budget::{Amounts, Budget, Limits, OnSoft, Unit};

use super::pack::{PackReader, PackWriter};

/// Bits of the second byte; those below are the units of the reserve.
const WALL: u8 = 16;
const UNTIL: u8 = 32;
const ACTIVE: u8 = 64;
const PAID_BY: u8 = 128;

pub(super) fn pack_budget(to: &mut PackWriter<'_>, budget: &Budget) {
    let Budget { limits, reserve, soft, on_soft, wall, until, active, paid_by } = budget;
    to.byte(units(|unit| limits.get(unit).is_some()) | units(|it| soft.get(it).is_some()) << 4);
    let others = [
        (wall.is_some(), WALL),
        (until.is_some(), UNTIL),
        (active.is_some(), ACTIVE),
        (paid_by.is_some(), PAID_BY),
    ];
    let others = others.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum::<u8>();
    to.byte(units(|unit| reserve.get(unit) != 0) | others);
    to.byte(match on_soft {
        OnSoft::Note => 0,
        OnSoft::Ask => 1,
    });
    for limits in [limits, soft] {
        Unit::ALL.into_iter().filter_map(|unit| limits.get(unit)).for_each(|it| to.number(it));
    }
    let reserved = Unit::ALL.into_iter().map(|unit| reserve.get(unit)).filter(|it| *it != 0);
    reserved.for_each(|amount| to.number(amount));
    wall.map(|wall| to.span(wall));
    until.map(|until| to.time(until));
    active.map(|active| to.span(active));
    paid_by.map(|stage| to.number(u64::from(stage)));
}

pub(super) fn unpack_budget(from: &mut PackReader<'_>) -> Option<Budget> {
    let (limited, others) = (from.byte()?, from.byte()?);
    let on_soft = if from.flag()? { OnSoft::Ask } else { OnSoft::Note };
    let (limits, soft) = (unpack_limits(from, limited)?, unpack_limits(from, limited >> 4)?);
    let mut reserve = Amounts::default();
    for (place, unit) in Unit::ALL.into_iter().enumerate() {
        if others & (1 << place) != 0 {
            reserve.set(unit, from.number()?);
        }
    }
    let wall = if others & WALL != 0 { Some(from.span()?) } else { None };
    let until = if others & UNTIL != 0 { Some(from.time()?) } else { None };
    let active = if others & ACTIVE != 0 { Some(from.span()?) } else { None };
    let paid_by = if others & PAID_BY != 0 { Some(from.small()?) } else { None };
    Some(Budget { limits, reserve, soft, on_soft, wall, until, active, paid_by })
}

/// A bit for each unit of which this holds.
fn units(has: impl Fn(Unit) -> bool) -> u8 {
    let bit = |(place, unit): (usize, Unit)| u8::from(has(unit)) << place;
    Unit::ALL.into_iter().enumerate().map(bit).sum()
}

fn unpack_limits(from: &mut PackReader<'_>, units: u8) -> Option<Limits> {
    let mut limits = Limits::default();
    for (place, unit) in Unit::ALL.into_iter().enumerate() {
        if units & (1 << place) != 0 {
            limits.set(unit, Some(from.number()?));
        }
    }
    Some(limits)
}
