//! The actions that can happen next in a world.

use verdict::request::CancelMode;

/// The index of a task.
pub type TaskAt = usize;
/// The index of an issued lease in [`crate::World::issued`].
pub type IssuedAt = usize;
/// The number of a worker.
pub type Worker = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// One unit of time passes.
    Tick,
    /// The clock is set back.
    StepBack,
    Submit(TaskAt, Submission),
    /// A worker's poll is granted the task.
    Poll(TaskAt, Worker, GrantDelivery),
    /// A call arrives: for the first time, again, or long after its lease has ended.
    Arrives(IssuedAt, Call, Sender),
    Cancel(TaskAt, CancelMode),
    Sweep(TaskAt),
    /// The coordinator assumes that the answer with this grant was not delivered.
    Undelivered(IssuedAt),
    /// The coordinator dies, loses all uncommitted decisions, and restarts after this many units of time.
    Crash(u64),
    /// A backup of the store is taken.
    Backup,
    /// The backup replaces the store and discards all later commits.
    Restore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The first submission, or its repetition under the same key.
    Same,
    /// A different submission under the key of the first.
    Other,
}

/// Whether the answer with the grant left the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantDelivery {
    Sent,
    /// The coordinator died between the commit and the answer: no worker knows of this lease.
    Unsent,
}

/// A worker's call under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Started,
    Heartbeat,
    Report(ReportKind),
}

/// The reports a worker can make. Each has a different digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportKind {
    Succeeded,
    /// A retryable failure.
    Failed,
    /// A failure that must not be retried.
    Hopeless,
    Cancelled,
    /// The worker stops and hands the task back.
    Released,
}

/// The sender of a call, and what it claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Owner,
    /// Another worker with the owner's token.
    Thief(Worker),
    /// The owner, claiming an attempt that was never granted.
    AheadOfItself,
    /// The owner, naming a lease that was never issued.
    Inventing,
    /// The owner, calling for a task for which the lease was not issued.
    Astray(TaskAt),
}
