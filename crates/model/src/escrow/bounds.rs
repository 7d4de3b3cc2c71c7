//! The worlds of budgets, by name, with their bounds.

use verdict::request::CancelMode;
use verdict::{Policy, Span};

use super::action::EscrowCall::{
    self, Beat, DearSpawn, DearStep, Fail, MeteredSpawn, Spawn, SpawnAndWait, Step, Succeed,
};

/// The bounds of one world.
#[derive(Clone, Debug)]
pub struct EscrowBounds {
    pub name: &'static str,
    /// What the run may use.
    pub limit: u64,
    pub soft: Option<u64>,
    /// What one step may use.
    pub reserve: u64,
    /// The ceilings of the children.
    pub children: &'static [u64],
    /// The calls that a worker of the run makes.
    pub calls: &'static [EscrowCall],
    /// The calls that a worker of a child makes.
    pub reports: &'static [EscrowCall],
    pub cancels: &'static [CancelMode],
    /// What the run that continues this one may use, in worlds in which one does.
    pub continued: Option<u64>,
    /// Units of time.
    pub ticks: i64,
    /// Largest number of grants of a run and of each child.
    pub attempts: u32,
    pub child_attempts: u32,
    pub policy: Policy,
    /// Goals that this world cannot reach. Every other goal must be reached.
    pub never: &'static [&'static [&'static str]],
}

impl EscrowBounds {
    /// How many tasks a run of this world has.
    pub(super) fn family(&self) -> usize {
        1 + self.children.len()
    }

    /// The run that this task belongs to.
    pub(super) fn root_of(&self, task: usize) -> usize {
        task - task % self.family()
    }

    pub(super) fn tasks(&self) -> usize {
        self.family() * if self.continued.is_some() { 2 } else { 1 }
    }

    pub(super) fn impossible(&self) -> impl Iterator<Item = &'static str> {
        self.never.iter().flat_map(|goals| goals.iter().copied())
    }
}

const WITHOUT_QUESTIONS: &[&str] =
    &["a soft limit is noted", "people are asked", "going on is approved", "going on is refused"];
const WITHOUT_CANCELS: &[&str] = &["cancelled with children left"];
const WITHOUT_CONTINUATION: &[&str] =
    &["a run is continued", "a child starts again in a continuation"];
/// All worlds of budgets, in the order in which they are reported.
pub fn all() -> Vec<EscrowBounds> {
    vec![shared(), exhausted(), asked(), continued()]
}

fn policy() -> Policy {
    let millis = Span::from_millis;
    Policy {
        lease: millis(2),
        heartbeat_every: millis(1),
        cancel_grace: millis(1),
        failures_max: 2,
        lost_max: 2,
        retry_base: millis(1),
        retry_cap: millis(1),
        attempt_limit: None,
        deadline: None,
        ttl: None,
        seed: Some(0),
        progress_clock: None,
    }
}

/// Two children at once share what their parent may use.
pub fn shared() -> EscrowBounds {
    EscrowBounds {
        name: "a budget that children share",
        limit: 4,
        soft: None,
        reserve: 1,
        children: &[2, 1],
        calls: &[Step, SpawnAndWait, Beat(1), Beat(2), Succeed(1)],
        reports: &[Beat(1), Succeed(1), Succeed(3)],
        cancels: &[],
        continued: None,
        ticks: 3,
        attempts: 2,
        child_attempts: 1,
        policy: policy(),
        never: &[WITHOUT_QUESTIONS, WITHOUT_CANCELS, WITHOUT_CONTINUATION],
    }
}

/// A run with one child that uses up what it may, in every way, and may be cancelled.
pub fn exhausted() -> EscrowBounds {
    EscrowBounds {
        name: "a budget that is used up",
        children: &[2],
        calls: &[Step, DearSpawn, MeteredSpawn(3), Spawn, Beat(2), Beat(5), Succeed(1), Fail(1)],
        reports: &[Beat(1), Succeed(3)],
        cancels: &[CancelMode::Graceful, CancelMode::Immediate],
        ticks: 2,
        never: &[WITHOUT_QUESTIONS, WITHOUT_CONTINUATION],
        ..shared()
    }
}

/// A soft limit that asks, and people who say yes or no.
pub fn asked() -> EscrowBounds {
    EscrowBounds {
        name: "a budget that asks",
        soft: Some(1),
        children: &[2],
        calls: &[Step, DearStep, Spawn, Beat(2), Succeed(1)],
        reports: &[Succeed(1), Succeed(3)],
        cancels: &[CancelMode::Graceful],
        ticks: 2,
        never: &[WITHOUT_CONTINUATION],
        ..shared()
    }
}

/// A run that halts and is continued with another budget, while what is left of it still arrives.
pub fn continued() -> EscrowBounds {
    EscrowBounds {
        name: "a budget that is continued",
        limit: 3,
        children: &[2],
        calls: &[Step, Spawn, DearStep, Beat(2), Succeed(1), Succeed(4)],
        reports: &[Beat(1), Succeed(1), Succeed(3)],
        cancels: &[],
        continued: Some(4),
        ticks: 2,
        attempts: 1,
        child_attempts: 1,
        never: &[WITHOUT_QUESTIONS, WITHOUT_CANCELS],
        ..shared()
    }
}
