//! The explored worlds, by name, with their bounds.
//!
//! Time passes in units of one millisecond and every duration is a few units, so the instants before, at and after
//! every limit are visited. All worlds have the hostile network of [`crate::network`].

use verdict::policy::RELEASES_MAX;
use verdict::{Policy, Span, Time};

use crate::action::ReportKind;

/// How far a clock is set back, in worlds that do so.
pub const STEP_BACK: i64 = 2;

const EVERY_REPORT: &[ReportKind] =
    &[ReportKind::Succeeded, ReportKind::Failed, ReportKind::Hopeless, ReportKind::Cancelled];

/// How much of each world is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The size that every change is tested with.
    Short,
    Long,
}

/// The bounds of one world: its actors, its possible actions, and how often they happen.
#[derive(Clone, Debug)]
pub struct Bounds {
    pub name: &'static str,
    pub tasks: usize,
    pub workers: u8,
    /// Largest number of grants per task.
    pub attempts: u32,
    pub crashes: u8,
    /// How long the coordinator is down after a crash.
    pub gaps: &'static [u64],
    pub restores: u8,
    pub steps_back: u8,
    pub policy: Policy,
    /// Counted from the submission.
    pub deadline_after: Option<Span>,
    pub starts_after: Option<Span>,
    /// The reports workers make; in a world without any, workers make no call at all.
    pub says: &'static [ReportKind],
    /// Whether undelivered grants are handed back, in a world in which workers make no call.
    pub hands_back: bool,
    /// How many entries and decisions a new task has left of its limits, where only few are left.
    pub room: Option<u32>,
    /// How many attempts a new task has behind it that counted neither as a failure nor as lost.
    pub released: u32,
    /// Steps from the beginning; `None` explores to exhaustion.
    pub depth: Option<usize>,
    /// Coverage goals that this world cannot reach. Every other goal must be reached.
    pub never: &'static [Impossible],
}

/// Coverage goals that a world without some feature cannot reach: no deadline, no restore, no second task.
pub type Impossible = &'static [&'static str];

const WITHOUT_LIMITS: Impossible = &[
    "because ATTEMPT_TIMEOUT",
    "because DEADLINE_EXCEEDED",
    "queued to failed, deadline",
    "retry to failed, deadline",
];
const WITHOUT_RESTORES: Impossible = &["a lease of an earlier epoch is refused"];
const WITHOUT_CRASHES: Impossible = &["a lease is extended after a gap"];
const WITHOUT_A_SECOND_TASK: Impossible = &["refused: task not found"];
const WITHOUT_EVERY_REPORT: Impossible =
    &["CANCELLED committed", "because CANCELLED_BY_WORKER", "because NOT_RETRYABLE"];
const WITHOUT_MANY_GRANTS: Impossible = &["because UNDELIVERED", "retry to failed, undelivered"];
const WITHOUT_EXHAUSTION: Impossible =
    &["because ATTEMPTS_EXHAUSTED", "because UNDELIVERED", "retry to failed, undelivered"];
const WITHOUT_HAND_BACKS: Impossible = &[
    "attempt ended CANCELLED",
    "because HANDED_BACK",
    "retry to failed, undelivered",
    "running to retry, handed back",
];
const WITHOUT_A_FULL_HISTORY: Impossible =
    &["because HISTORY_FULL", "refused: history full", "retry to failed, history full"];
const WITHOUT_RELEASES: Impossible = &[
    "RELEASED committed",
    "attempt ended RELEASED",
    "because RELEASED",
    "because RELEASES_EXHAUSTED",
];
const WITHOUT_CALLS: Impossible = &[
    "FAILED committed",
    "SUCCEEDED committed",
    "a heartbeat is refused because the lease ran out",
    "a late report is refused",
    "a report is refused because the cancel came first",
    "alive",
    "alive, told to stop",
    "attempt ended FAILED",
    "attempt ended SUCCEEDED",
    "because ATTEMPTS_EXHAUSTED",
    "committed again",
    "refused: attempt already completed",
    "refused: attempt superseded",
    "refused: attempt unknown",
    "refused: conflicting report",
    "refused: task already terminal",
    "refused: task expired",
    "refused: unknown lease",
    "refused: worker mismatch",
    "running to cancelled, reported",
    "running to failed, reported",
    "running to retry, reported",
    "running to succeeded, reported",
    "start acknowledged",
];

impl Bounds {
    /// The names of all goals that this world need not reach.
    pub fn impossible(&self) -> impl Iterator<Item = &'static str> {
        self.never.iter().flat_map(|coverage| coverage.iter().copied())
    }

    pub(crate) fn policy_at(&self, now: Time) -> Policy {
        let deadline = self.deadline_after.map(|after| now.plus(after));
        Policy { deadline, ..self.policy.clone() }
    }
}

/// All explored worlds, in the order in which they are reported.
pub fn all(extent: Extent) -> Vec<Bounds> {
    vec![
        one_task_three_workers(extent),
        two_tasks_two_workers(extent),
        limits_and_clocks(extent),
        restored(extent),
        nobody_answers(),
        grants_come_back(),
        nearly_full(),
        handed_back_by_workers(),
    ]
}

fn millis(count: u64) -> Span {
    Span::from_millis(count)
}

/// Backoffs of one and two units, without jitter, since half of one unit rounds to none.
fn policy(lease: u64, grace: u64, tries: u32) -> Policy {
    Policy {
        lease: millis(lease),
        heartbeat_every: millis(1),
        cancel_grace: millis(grace),
        failures_max: tries,
        lost_max: tries,
        retry_base: millis(1),
        retry_cap: millis(2),
        attempt_limit: None,
        deadline: None,
        ttl: None,
        seed: Some(0),
        progress_clock: None,
    }
}

/// One task, three workers, three attempts, crashes: leases, cancels and retries in every order.
pub fn one_task_three_workers(extent: Extent) -> Bounds {
    let (lease, attempts) = match extent {
        Extent::Short => (3, 3),
        Extent::Long => (4, 5),
    };
    Bounds {
        name: "one task, three workers",
        tasks: 1,
        workers: 3,
        attempts,
        crashes: 2,
        gaps: &[1, 5],
        restores: 0,
        steps_back: 0,
        policy: policy(lease, 2, 3),
        deadline_after: None,
        starts_after: None,
        says: EVERY_REPORT,
        hands_back: true,
        room: None,
        released: 0,
        depth: None,
        never: &[
            WITHOUT_RELEASES,
            WITHOUT_LIMITS,
            WITHOUT_RESTORES,
            WITHOUT_A_SECOND_TASK,
            WITHOUT_MANY_GRANTS,
            WITHOUT_A_FULL_HISTORY,
        ],
    }
}

/// Two tasks and two workers: no call about one task may affect the other.
pub fn two_tasks_two_workers(extent: Extent) -> Bounds {
    let depth = match extent {
        Extent::Short => 13,
        Extent::Long => 15,
    };
    Bounds {
        name: "two tasks, two workers",
        tasks: 2,
        workers: 2,
        attempts: 2,
        crashes: 1,
        gaps: &[3],
        policy: policy(2, 1, 2),
        says: &[ReportKind::Succeeded, ReportKind::Failed],
        depth: Some(depth),
        never: &[
            WITHOUT_RELEASES,
            WITHOUT_LIMITS,
            WITHOUT_RESTORES,
            WITHOUT_EVERY_REPORT,
            WITHOUT_MANY_GRANTS,
            WITHOUT_A_FULL_HISTORY,
        ],
        ..one_task_three_workers(extent)
    }
}

/// A deadline, an attempt's limit, a delayed start, a grace longer than the lease, and a clock that is set back.
pub fn limits_and_clocks(extent: Extent) -> Bounds {
    let (workers, deadline) = match extent {
        Extent::Short => (2, 7),
        Extent::Long => (2, 9),
    };
    Bounds {
        name: "limits and clocks",
        workers,
        crashes: 1,
        gaps: &[2],
        steps_back: 1,
        policy: Policy { attempt_limit: Some(millis(4)), ..policy(2, 3, 2) },
        deadline_after: Some(millis(deadline)),
        starts_after: Some(millis(1)),
        never: &[
            WITHOUT_RELEASES,
            WITHOUT_RESTORES,
            WITHOUT_A_SECOND_TASK,
            WITHOUT_MANY_GRANTS,
            WITHOUT_A_FULL_HISTORY,
        ],
        ..one_task_three_workers(extent)
    }
}

/// A store that is replaced by its backup: leases that it does not know any more have no authority.
pub fn restored(extent: Extent) -> Bounds {
    let (attempts, restores) = match extent {
        Extent::Short => (2, 1),
        Extent::Long => (2, 2),
    };
    Bounds {
        name: "restored from a backup",
        workers: 2,
        attempts,
        crashes: 0,
        gaps: &[],
        restores,
        policy: policy(2, 2, 2),
        says: &[ReportKind::Succeeded, ReportKind::Failed],
        never: &[
            WITHOUT_RELEASES,
            WITHOUT_LIMITS,
            WITHOUT_CRASHES,
            WITHOUT_EVERY_REPORT,
            WITHOUT_MANY_GRANTS,
            WITHOUT_A_FULL_HISTORY,
        ],
        ..one_task_three_workers(extent)
    }
}

/// Grants without any call from a worker, until the task fails.
pub fn nobody_answers() -> Bounds {
    Bounds {
        name: "nobody answers",
        workers: 1,
        attempts: verdict::policy::UNDELIVERED_MAX + 2,
        crashes: 2,
        says: &[],
        hands_back: false,
        never: &[
            WITHOUT_RELEASES,
            WITHOUT_LIMITS,
            WITHOUT_RESTORES,
            WITHOUT_A_SECOND_TASK,
            WITHOUT_EVERY_REPORT,
            WITHOUT_CALLS,
            WITHOUT_HAND_BACKS,
            WITHOUT_A_FULL_HISTORY,
        ],
        ..one_task_three_workers(Extent::Short)
    }
}

/// Grants that are handed back or expire without a call, one after the other, until the task fails.
pub fn grants_come_back() -> Bounds {
    Bounds {
        name: "grants come back",
        crashes: 1,
        hands_back: true,
        never: &[
            WITHOUT_RELEASES,
            WITHOUT_LIMITS,
            WITHOUT_RESTORES,
            WITHOUT_A_SECOND_TASK,
            WITHOUT_EVERY_REPORT,
            WITHOUT_CALLS,
            WITHOUT_A_FULL_HISTORY,
        ],
        ..nobody_answers()
    }
}

/// A task that has almost reached the limits of its history: it can end in every case.
pub fn nearly_full() -> Bounds {
    Bounds {
        name: "nearly full",
        attempts: 5,
        crashes: 1,
        policy: policy(3, 2, 9),
        says: &[ReportKind::Succeeded, ReportKind::Failed],
        room: Some(24),
        never: &[
            WITHOUT_RELEASES,
            WITHOUT_LIMITS,
            WITHOUT_RESTORES,
            WITHOUT_A_SECOND_TASK,
            WITHOUT_EVERY_REPORT,
            WITHOUT_EXHAUSTION,
        ],
        ..one_task_three_workers(Extent::Short)
    }
}

/// A task that its workers have released almost as often as they may: it is leased again after a while, or ends.
pub fn handed_back_by_workers() -> Bounds {
    Bounds {
        name: "handed back by workers",
        workers: 2,
        attempts: RELEASES_MAX + 2,
        crashes: 0,
        gaps: &[],
        policy: policy(2, 1, 2),
        says: &[ReportKind::Succeeded, ReportKind::Failed, ReportKind::Released],
        released: RELEASES_MAX - 1,
        never: &[
            WITHOUT_LIMITS,
            WITHOUT_RESTORES,
            WITHOUT_CRASHES,
            WITHOUT_A_SECOND_TASK,
            WITHOUT_EVERY_REPORT,
            WITHOUT_MANY_GRANTS,
            WITHOUT_A_FULL_HISTORY,
        ],
        ..one_task_three_workers(Extent::Short)
    }
}
