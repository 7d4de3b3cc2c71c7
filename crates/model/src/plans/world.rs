//! One state of a world of a plan, its bounds, what must hold in it, and the situations that must occur.

use verdict::request::CancelMode;
use verdict::run::{Message, Records};
use verdict::{State, Subject, TaskId, Time};

use crate::runs::{Issued, RunRow, normalise_closed, normalise_messages, normalise_subject};

pub(super) const NOW: Time = Time::from_millis(1_000);

pub(super) const ROOT: usize = 0;

pub(super) fn id(at: usize) -> TaskId {
    TaskId::from_u128(at as u128 + 1)
}

pub(super) fn place(id: TaskId) -> usize {
    id.as_u128() as usize - 1
}

/// A step as the plan declares it. Those that it depends on come before it.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredStep {
    pub key: &'static str,
    pub after: &'static [&'static str],
    /// Its failure keeps nobody from running.
    pub continues: bool,
    /// It runs however the steps before it ended.
    pub always: bool,
}

const fn step(key: &'static str, after: &'static [&'static str]) -> DeclaredStep {
    DeclaredStep { key, after, continues: false, always: false }
}

/// The bounds of one world.
#[derive(Clone, Debug)]
pub struct PlanBounds {
    pub name: &'static str,
    pub steps: &'static [DeclaredStep],
    pub cancels: &'static [CancelMode],
    /// Goals that this world cannot reach. Every other goal must be reached.
    pub never: &'static [&'static str],
}

/// All worlds of plans, in the order in which they are reported.
pub fn all() -> Vec<PlanBounds> {
    vec![chain(), diamond()]
}

/// A chain in which a failure at its head reaches its end, and a step that runs whatever happened.
pub fn chain() -> PlanBounds {
    PlanBounds {
        name: "a plan that is a chain",
        steps: const {
            &[
                step("a", &[]),
                step("b", &["a"]),
                step("c", &["b"]),
                DeclaredStep { always: true, ..step("z", &["c"]) },
            ]
        },
        cancels: &[],
        never: &[
            "a tolerated failure lets the next step run",
            "a slice is left to a sweep",
            "the run is cancelled in the middle",
        ],
    }
}

/// Three steps after one, of which one may fail without harm, and one after all of them.
pub fn diamond() -> PlanBounds {
    PlanBounds {
        name: "a plan that is a diamond",
        steps: const {
            &[
                step("a", &[]),
                DeclaredStep { continues: true, ..step("b", &["a"]) },
                step("c", &["a"]),
                step("d", &["b", "c"]),
            ]
        },
        cancels: &[CancelMode::Graceful],
        never: &["a step runs although one before it failed"],
    }
}

/// A property of plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PlanProperty {
    /// A step is granted after all that it depends on have ended, and none of them keeps it from running.
    RunsInTurn,
    /// A step is skipped only because of one that it depends on.
    SkippedForCause,
    /// Each step is created once and ends once in its root.
    EachStepOnce,
    /// A run that has ended has no live step, and ended as its steps say.
    EndsAsStepsSay,
    /// If workers go on, the run ends: no step waits for ever, and closing ends.
    EverythingEnds,
}

impl PlanProperty {
    pub const fn name(self) -> &'static str {
        match self {
            PlanProperty::RunsInTurn => "a step runs in its turn",
            PlanProperty::SkippedForCause => "a step is skipped for a cause",
            PlanProperty::EachStepOnce => "each step begins and ends once",
            PlanProperty::EndsAsStepsSay => "the run ends as its steps say",
            PlanProperty::EverythingEnds => "every step and the run end",
        }
    }
}

/// The properties that the last step broke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanBroken(u8);

impl PlanBroken {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, property: PlanProperty) -> bool {
        self.0 & (1 << property as u8) != 0
    }

    pub(super) fn require(&mut self, property: PlanProperty, holds: bool) {
        if !holds {
            self.0 |= 1 << property as u8;
        }
    }
}

/// The situations that an exploration must reach.
pub const GOALS: [&str; 9] = [
    "a step is skipped",
    "a skip is passed on",
    "a tolerated failure lets the next step run",
    "a step runs although one before it failed",
    "a slice is left to a sweep",
    "the run succeeds",
    "the run fails",
    "the run is cancelled in the middle",
    "a message changes nothing",
];

pub(super) fn goal(name: &str) -> usize {
    GOALS.iter().position(|goal| *goal == name).expect("the goal is listed")
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlanWorld {
    /// The root, and the steps in the order of the plan.
    pub tasks: Vec<RunRow>,
    pub saved: Vec<Message>,
    pub decided: Vec<Message>,
    pub issued: Vec<Issued>,
    /// How often each task was created, and how often its end was recorded in the root.
    pub births: Vec<u8>,
    pub ends: Vec<u8>,
    pub is_cancelled: bool,
    /// The properties that the last step broke. Exploration stops at such a state.
    pub broken: PlanBroken,
}

impl PlanWorld {
    pub(super) fn new(steps: usize) -> Self {
        let row =
            RunRow { subject: Subject::Absent, closed: Vec::new(), records: Records::default() };
        Self {
            tasks: vec![row; steps + 1],
            saved: Vec::new(),
            decided: Vec::new(),
            issued: Vec::new(),
            births: vec![0; steps + 1],
            ends: vec![0; steps + 1],
            is_cancelled: false,
            broken: PlanBroken::default(),
        }
    }

    /// How a step ended, if it has.
    pub(super) fn end(&self, at: usize) -> Option<State> {
        match &self.tasks[at].subject {
            Subject::Done(done) => Some(done.end.state),
            Subject::Absent | Subject::Live(_) => None,
        }
    }

    /// Merges states that no rule can tell apart.
    pub(super) fn normalise(&mut self) {
        for row in &mut self.tasks {
            normalise_subject(&mut row.subject);
            row.closed.iter_mut().for_each(normalise_closed);
        }
        normalise_messages(&mut self.saved, &mut self.decided);
    }
}

impl PlanBounds {
    /// The place of the step with this key.
    pub(super) fn place_of(&self, key: &str) -> usize {
        1 + self.steps.iter().position(|step| step.key == key).expect("plans name their steps")
    }

    /// The ends of what a step depends on, with whether each is tolerated; `None` for those that have not ended.
    pub(super) fn before(&self, world: &PlanWorld, at: usize) -> Vec<Option<(State, bool)>> {
        let upstream = |key: &&str| {
            let place = self.place_of(key);
            world.end(place).map(|state| (state, self.steps[place - 1].continues))
        };
        self.steps[at - 1].after.iter().map(upstream).collect()
    }
}

/// Whether such an end keeps what depends on it from running.
pub(super) fn blocks((state, is_tolerated): (State, bool)) -> bool {
    match state {
        State::Succeeded => false,
        State::Skipped => true,
        _ => !is_tolerated,
    }
}
