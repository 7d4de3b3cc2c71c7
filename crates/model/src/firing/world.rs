//! One state of a schedule's world, the bounds of each world, and what must hold in it.

use std::collections::{BTreeMap, BTreeSet};

use verdict::schedule::{CatchUp, Overlap, Recurrence, Schedule, Terms};
use verdict::{Span, Time};

pub(super) const START: Time = Time::from_millis(1_000_000);

/// A unit of time: what waits is looked at again after one.
pub(super) const TICK: Span = Span::from_secs(1);

/// How many coordinators look at the schedule.
pub(super) const COORDINATORS: usize = 2;

/// The bounds of one world.
#[derive(Clone, Debug)]
pub struct FiringBounds {
    pub name: &'static str,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    /// Units of time: the whole world, the interval, and how late an instant may fire.
    pub ticks: u64,
    pub every: u64,
    pub window: u64,
    /// How often the schedule is paused.
    pub pauses: u8,
    /// Goals that this world cannot reach. Every other goal must be reached.
    pub never: &'static [&'static str],
}

/// All worlds of schedules, in the order in which they are reported.
pub fn all() -> Vec<FiringBounds> {
    vec![skipping(), queueing(), cancelling(), catching_up(), paused()]
}

const PLAIN: FiringBounds = FiringBounds {
    name: "a schedule that skips",
    overlap: Overlap::Skip,
    catch_up: CatchUp::One,
    ticks: 6,
    every: 1,
    window: 3,
    pauses: 0,
    never: &["an older run is cancelled", "an instant waits", "the schedule is paused"],
};

pub fn skipping() -> FiringBounds {
    PLAIN
}

pub fn queueing() -> FiringBounds {
    FiringBounds {
        name: "a schedule that queues",
        overlap: Overlap::Queue,
        catch_up: CatchUp::All,
        ticks: 5,
        never: &["an older run is cancelled", "an instant is skipped", "the schedule is paused"],
        ..PLAIN
    }
}

pub fn cancelling() -> FiringBounds {
    FiringBounds {
        name: "a schedule that cancels older runs",
        overlap: Overlap::CancelOlder,
        never: &["an instant waits", "an instant is skipped", "the schedule is paused"],
        ..PLAIN
    }
}

pub fn catching_up() -> FiringBounds {
    FiringBounds {
        name: "a schedule that catches up",
        overlap: Overlap::Allow,
        catch_up: CatchUp::All,
        never: &[
            "an older run is cancelled",
            "an instant waits",
            "an instant is skipped",
            "the schedule is paused",
        ],
        ..PLAIN
    }
}

pub fn paused() -> FiringBounds {
    FiringBounds {
        name: "a schedule that is paused",
        ticks: 5,
        pauses: 1,
        never: &["an older run is cancelled", "an instant waits"],
        ..PLAIN
    }
}

/// What must hold in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FiringProperty {
    /// An instant is one run at most.
    OneRun,
    /// Every instant that the schedule moved over is counted once.
    Accounted,
    /// The schedule never goes back.
    Forward,
    /// Where runs may not overlap they do not.
    NoOverlap,
    /// A coordinator that looks at the schedule brings it up to date.
    UpToDate,
}

impl FiringProperty {
    pub const fn name(self) -> &'static str {
        match self {
            FiringProperty::OneRun => "one run for an instant",
            FiringProperty::Accounted => "every instant is accounted for",
            FiringProperty::Forward => "a schedule moves forward",
            FiringProperty::NoOverlap => "runs do not overlap",
            FiringProperty::UpToDate => "no instant is forgotten",
        }
    }
}

/// The situations that an exploration must reach.
pub const GOALS: [&str; 7] = [
    "an instant fires",
    "a stale commit is refused",
    "an instant is missed",
    "an instant is skipped",
    "an instant waits",
    "an older run is cancelled",
    "the schedule is paused",
];

/// The seam through which a commit is guarded. Tests supply broken ones.
pub trait Commits: Send + Sync + 'static {
    /// Whether a commit based on this revision is made while the schedule has another one.
    fn is_made(&self, based_on: u32, stored: u32) -> bool;

    /// Whether the run of an instant is found by its key.
    fn finds_run(&self) -> bool;
}

/// What every store does.
pub struct Guarded;

impl Commits for Guarded {
    fn is_made(&self, based_on: u32, stored: u32) -> bool {
        based_on == stored
    }

    fn finds_run(&self) -> bool {
        true
    }
}

/// What a coordinator has loaded and not committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loaded {
    pub revision: u32,
    pub schedule: Schedule,
    pub at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FiringWorld {
    pub now: Time,
    pub revision: u32,
    pub schedule: Schedule,
    pub coordinators: [Option<Loaded>; COORDINATORS],
    /// How often each instant became a run.
    pub births: BTreeMap<Time, u8>,
    /// The instants whose runs have not ended.
    pub live: BTreeSet<Time>,
    /// How many instants the schedule moved over.
    pub passed: u64,
    /// The latest instant that the schedule ever named as its next.
    pub latest: Time,
    pub pauses_left: u8,
    /// The properties that the last step broke. Exploration stops at such a state.
    pub broken: BTreeSet<FiringProperty>,
}

impl FiringWorld {
    pub(super) fn new(bounds: &FiringBounds) -> Self {
        let every = Span::from_millis(TICK.millis() * bounds.every);
        let terms = Terms {
            recurrence: Recurrence::Every { every, anchor: START },
            overlap: bounds.overlap,
            catch_up: bounds.catch_up,
            window: Span::from_millis(TICK.millis() * bounds.window),
        };
        let next = START.plus(every);
        Self {
            now: START,
            revision: 1,
            schedule: Schedule::new("nightly".into(), terms, false, Some(next), START),
            coordinators: [None, None],
            births: BTreeMap::new(),
            live: BTreeSet::new(),
            passed: 0,
            latest: next,
            pauses_left: bounds.pauses,
            broken: BTreeSet::new(),
        }
    }
}
