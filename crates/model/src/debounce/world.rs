//! One state of a debounced key's world, the bounds of each world, and what must hold in it.

use std::collections::BTreeSet;

use verdict::flow::Debounce;
use verdict::flow::debounce::Replacement;
use verdict::{Span, Subject, Task, Time};

pub(super) const START: Time = Time::from_millis(1_000);

/// Two of them can race; a third one adds nothing that these two cannot do.
pub(super) const COORDINATORS: usize = 2;

/// The bounds of one world.
#[derive(Clone, Debug)]
pub struct DebounceBounds {
    pub name: &'static str,
    /// Largest number of submissions.
    pub submissions: usize,
    /// Units of time.
    pub ticks: i64,
    pub debounce: Debounce,
}

/// All worlds of debounced keys, in the order in which they are reported.
pub fn all() -> Vec<DebounceBounds> {
    vec![bursts(), steady_stream()]
}

fn debounce(span: u64, max: u64) -> Debounce {
    Debounce { span: Span::from_millis(span), max: Span::from_millis(max) }
}

/// Waits that end before the maximum, and others that it ends.
pub fn bursts() -> DebounceBounds {
    let debounce = debounce(2, 3);
    DebounceBounds { name: "bursts of submissions", submissions: 4, ticks: 5, debounce }
}

/// A stream that never pauses for as long as a wait: only the maximum lets anything run.
pub fn steady_stream() -> DebounceBounds {
    let debounce = debounce(3, 4);
    DebounceBounds { name: "a steady stream", submissions: 5, ticks: 6, debounce }
}

/// What must hold in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DebounceProperty {
    /// At most one run of the key waits for a newer one.
    OneWaits,
    /// A run that was leased, or whose wait was over, is not replaced.
    Untouched,
    /// A replaced run has ended and was replaced by one that was submitted later; the newest is not replaced.
    NewestRuns,
    /// No wait ends later, or earlier, than its span and the maximum since the first of its line say.
    Bounded,
    /// A run whose wait is over can be leased.
    Ready,
}

impl DebounceProperty {
    pub const ALL: [DebounceProperty; 5] = [
        DebounceProperty::OneWaits,
        DebounceProperty::Untouched,
        DebounceProperty::NewestRuns,
        DebounceProperty::Bounded,
        DebounceProperty::Ready,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            DebounceProperty::OneWaits => "at most one run of a key waits",
            DebounceProperty::Untouched => "what may start is replaced by nobody",
            DebounceProperty::NewestRuns => "the newest of a burst runs, and no other",
            DebounceProperty::Bounded => "nobody waits longer than was said",
            DebounceProperty::Ready => "a wait that is over is over",
        }
    }
}

/// The situations that an exploration must reach.
pub const GOALS: [&str; 6] = [
    "a run is replaced",
    "three runs are one line",
    "the maximum ends a wait",
    "a ready run is left alone",
    "a leased run is left alone",
    "a coordinator dies with the key",
];

/// What the judge knows of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    pub submitted_at: Time,
    /// When the first of its line was submitted.
    pub since: Time,
    pub due: Time,
    pub replaced_by: Option<usize>,
}

/// What a coordinator has read, before it decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Looked {
    /// The run that was submitted last, as it was then.
    pub last: Option<(usize, Task)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DebounceWorld {
    pub now: Time,
    pub runs: Vec<Subject>,
    pub known: Vec<Known>,
    pub coordinators: [Option<Looked>; COORDINATORS],
    /// The properties that the last step broke. Exploration stops at such a state.
    pub broken: BTreeSet<DebounceProperty>,
}

impl DebounceWorld {
    pub(super) fn new() -> Self {
        Self {
            now: START,
            runs: Vec::new(),
            known: Vec::new(),
            coordinators: [const { None }; COORDINATORS],
            broken: BTreeSet::new(),
        }
    }

    /// Whether a run waits for a newer one, from what the judge knows.
    pub(super) fn waits(&self, at: usize) -> bool {
        self.runs[at].live().is_some_and(|run| run.attempt == 0) && self.known[at].due > self.now
    }

    /// Whether a coordinator has locked the run.
    pub(super) fn is_locked(&self, at: usize) -> bool {
        let locks = |looked: &Looked| looked.last.as_ref().is_some_and(|(it, _)| *it == at);
        self.coordinators.iter().flatten().any(locks)
    }
}

/// What a store and its coordinators do around the rules. Tests supply broken ones.
pub trait Submissions: Send + Sync + 'static {
    /// Whether a key that a coordinator submits with is kept from the others.
    fn locks_key(&self) -> bool {
        true
    }

    /// Whether a run that a coordinator has read is kept from the others.
    fn locks_run(&self) -> bool {
        true
    }

    /// Whether the commit of the newer run ends the older one.
    fn ends_older(&self) -> bool {
        true
    }

    /// What a submission does.
    fn decide(&self, debounce: Debounce, last: Option<&Task>, now: Time) -> Replacement {
        debounce.submitted(last, now)
    }
}

/// What an engine does.
pub struct Locked;

impl Submissions for Locked {}

impl Known {
    /// A run that was submitted now, after the one that it replaces.
    pub(super) fn of(due: Time, now: Time, older: Option<&Known>) -> Self {
        let since = older.map_or(now, |older| older.since);
        Self { submitted_at: now, since, due, replaced_by: None }
    }
}
