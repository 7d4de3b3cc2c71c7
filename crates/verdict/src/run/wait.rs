//! A wait: what a run waits for, and when it has come.
//!
//! A wait is decided in two places with one function: in the call that asks for it, because everything may be there
//! already, and whenever something arrives. Whatever satisfies it is recorded by name in one checkpoint, and replay
//! reads only that. So nothing is lost, whether it arrives before, during or after the call (F85).
//!
//! A waiting task keeps one counter, the number of children and signals that are missing. An arrival lowers it without
//! reading what came before. The items never change and may be stored once.

use crate::id::{Digest, Name};
use crate::time::Time;

use super::items::Items;
use super::request::WaitCall;
use super::signal::Signal;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitMode {
    All,
    /// The first item wins. If several are there, the first in the order of the call does.
    Any,
}

/// One item of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Awaited {
    pub key: Name,
    pub event: AwaitedEvent,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AwaitedEvent {
    Time(Time),
    /// One signal of this name. Two items with one name take two signals.
    Signal(Name),
    /// The end of the child with this key, whatever its state: a failure is a value.
    Child(Name),
}

/// The wait of a suspended task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    pub key: Name,
    pub digest: Digest,
    pub mode: WaitMode,
    pub items: Items,
    /// How many children and signals have not come. Times are not counted: the clock says whether they have come.
    pub missing: u32,
    /// The task fails if the wait lasts until then.
    pub gives_up_at: Time,
}

/// What satisfied a wait: the content of its checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WaitRecord {
    /// The item that came first, if one was enough.
    pub winner: Option<Name>,
    pub taken: Vec<Taken>,
}

/// A signal that an item took.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taken {
    pub item: Name,
    pub signal: u32,
    /// What the task holds less from now on.
    pub bytes: u32,
}

/// Where a wait stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Satisfied(WaitRecord),
    /// So many children and signals are missing; there may be times too.
    Missing(u32),
}

/// What was found of one item.
#[derive(Clone, Copy)]
enum Found<'a> {
    Missing,
    There,
    Signal(&'a Signal),
}

impl WaitCall {
    /// Whether everything is there at the time of the call. `signals` are those not taken, in order.
    pub(crate) fn standing(
        &self,
        has_ended: impl Fn(&Name) -> bool,
        signals: &[Signal],
        now: Time,
    ) -> Standing {
        standing(self.mode, &self.items, has_ended, signals, now)
    }
}

impl Wait {
    /// When a time of the wait would satisfy it. `None` while something else is missing as well.
    pub fn timer(&self) -> Option<Time> {
        match self.mode {
            WaitMode::Any => self.items.first_time(),
            WaitMode::All if self.missing == 0 => self.items.last_time(),
            WaitMode::All => None,
        }
    }

    /// After this child has ended.
    pub(crate) fn with_child(&self, key: &Name, signals: &[Signal], now: Time) -> Standing {
        self.with(self.items.awaiting(key), |child| child == key, signals, now)
    }

    /// After the last of these signals has arrived. It counts if an item of its name had none yet.
    pub(crate) fn with_signal(&self, signals: &[Signal], now: Time) -> Standing {
        let Some(newest) = signals.last() else { return Standing::Missing(self.missing) };
        let is_it = |item: &&Awaited| matches!(&item.event, AwaitedEvent::Signal(name) if *name == newest.name);
        let wanted = self.items.iter().filter(is_it).count();
        let pending = signals.iter().filter(|signal| signal.name == newest.name).count();
        self.with(usize::from(pending <= wanted), |_| false, signals, now)
    }

    /// After time has passed.
    pub(crate) fn with_time(&self, signals: &[Signal], now: Time) -> Standing {
        self.with(0, |_| false, signals, now)
    }

    fn with(
        &self,
        came: usize,
        is_newest: impl Fn(&Name) -> bool,
        signals: &[Signal],
        now: Time,
    ) -> Standing {
        let missing = self.missing.saturating_sub(came as u32);
        match self.mode {
            // Nothing was there before, or the wait would be over. So only what is new can satisfy it.
            WaitMode::Any => standing(self.mode, &self.items, is_newest, signals, now),
            WaitMode::All if missing > 0 => Standing::Missing(missing),
            WaitMode::All => standing(self.mode, &self.items, |_| true, signals, now),
        }
    }
}

fn standing(
    mode: WaitMode,
    items: &[Awaited],
    has_ended: impl Fn(&Name) -> bool,
    signals: &[Signal],
    now: Time,
) -> Standing {
    let found = look(items, has_ended, signals, now);
    let first = found.iter().position(|found| !matches!(found, Found::Missing));
    let is_all = !found.iter().any(|found| matches!(found, Found::Missing));
    match (mode, first) {
        (WaitMode::Any, Some(winner)) => Standing::Satisfied(WaitRecord {
            winner: Some(items[winner].key.clone()),
            taken: taken(&items[winner..=winner], &found[winner..=winner]),
        }),
        (WaitMode::All, _) if is_all => {
            Standing::Satisfied(WaitRecord { winner: None, taken: taken(items, &found) })
        }
        _ => Standing::Missing(missing(items, &found)),
    }
}

/// What is there of each item. Signals of one name go to the items of that name, both in order.
fn look<'a>(
    items: &[Awaited],
    has_ended: impl Fn(&Name) -> bool,
    signals: &'a [Signal],
    now: Time,
) -> Vec<Found<'a>> {
    let mut is_free = vec![true; signals.len()];
    let there = |is_there| if is_there { Found::There } else { Found::Missing };
    let mut found = |item: &Awaited| match &item.event {
        AwaitedEvent::Time(time) => there(time.has_come(now)),
        AwaitedEvent::Child(key) => there(has_ended(key)),
        AwaitedEvent::Signal(name) => {
            let free = signals
                .iter()
                .zip(&mut is_free)
                .find(|(signal, free)| **free && signal.name == *name);
            free.map_or(Found::Missing, |(signal, free)| {
                *free = false;
                Found::Signal(signal)
            })
        }
    };
    items.iter().map(&mut found).collect()
}

fn taken(items: &[Awaited], found: &[Found<'_>]) -> Vec<Taken> {
    let take = |(item, found): (&Awaited, &Found<'_>)| match found {
        Found::Signal(signal) => {
            Some(Taken { item: item.key.clone(), signal: signal.number, bytes: signal.bytes() })
        }
        Found::Missing | Found::There => None,
    };
    items.iter().zip(found).filter_map(take).collect()
}

fn missing(items: &[Awaited], found: &[Found<'_>]) -> u32 {
    let counts = |(item, found): &(&Awaited, &Found<'_>)| {
        matches!(found, Found::Missing) && !matches!(item.event, AwaitedEvent::Time(_))
    };
    items.iter().zip(found).filter(counts).count() as u32
}
