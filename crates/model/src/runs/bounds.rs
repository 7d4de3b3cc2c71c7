//! The worlds of runs, by name, with their bounds.

use verdict::request::CancelMode;
use verdict::{Policy, Span};

use super::action::RunCall;

/// The bounds of one world of a run.
#[derive(Clone, Debug)]
pub struct RunBounds {
    pub name: &'static str,
    pub children: usize,
    /// The calls that a worker of the root makes.
    pub calls: &'static [RunCall],
    /// The reports that a worker of a child makes.
    pub reports: &'static [RunCall],
    /// How many different signals arrive.
    pub signals: u8,
    pub cancels: &'static [CancelMode],
    /// Units of time.
    pub ticks: i64,
    /// Largest number of grants of the root and of each child.
    pub attempts: u32,
    pub child_attempts: u32,
    /// How many children a sweep of a closing task cancels.
    pub slice: usize,
    pub policy: Policy,
    /// Goals that this world cannot reach. Every other goal must be reached.
    pub never: &'static [&'static str],
}

/// All worlds of runs, in the order in which they are reported.
pub fn all() -> Vec<RunBounds> {
    vec![fan_in(), first_wins(), cancelled()]
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

/// Two children, and a parent that waits for both.
pub fn fan_in() -> RunBounds {
    RunBounds {
        name: "a run that waits for two children",
        children: 2,
        calls: &[RunCall::Step, RunCall::Spawn, RunCall::SpawnAndWaitForAll, RunCall::Finish],
        reports: &[RunCall::Succeed],
        signals: 0,
        cancels: &[],
        ticks: 3,
        attempts: 3,
        child_attempts: 1,
        slice: 1,
        policy: policy(),
        never: &[
            "a conflicting step is refused",
            "woken by a signal",
            "woken by a timer",
            "a signal is recognised",
            "hastened",
            "cancelled while waiting",
        ],
    }
}

/// A signal, a timer and a child: the first one wins.
pub fn first_wins() -> RunBounds {
    RunBounds {
        name: "a run that waits for the first of three",
        children: 1,
        calls: &[RunCall::Step, RunCall::OtherStep, RunCall::WaitForAny, RunCall::Finish],
        reports: &[RunCall::Fail],
        signals: 1,
        cancels: &[CancelMode::Graceful],
        ticks: 3,
        attempts: 2,
        child_attempts: 1,
        slice: 1,
        policy: policy(),
        never: &["hastened"],
    }
}

/// Two children, and a parent that is cancelled at any time.
pub fn cancelled() -> RunBounds {
    RunBounds {
        name: "a run that is cancelled",
        children: 2,
        calls: &[RunCall::Spawn, RunCall::Finish],
        reports: &[RunCall::Succeed],
        signals: 0,
        cancels: &[CancelMode::Graceful, CancelMode::Immediate],
        ticks: 1,
        attempts: 1,
        child_attempts: 1,
        slice: 1,
        policy: policy(),
        never: &[
            "a step is replayed",
            "a conflicting step is refused",
            "suspended",
            "satisfied at once",
            "woken by a child",
            "woken by a signal",
            "woken by a timer",
            "a wait is replayed",
            "a signal is recognised",
            "a lost worker's task is resumed",
            "cancelled while waiting",
        ],
    }
}
