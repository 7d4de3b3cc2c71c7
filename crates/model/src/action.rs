//! What can happen next in a world.

use verdict::request::CancelMode;

/// A task of the world, by its place.
pub type TaskAt = usize;
/// A lease that was ever issued, by its place in [`crate::World::issued`].
pub type IssuedAt = usize;
/// A worker, by its number.
pub type Worker = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// One unit of time passes.
    Tick,
    /// The clock is set back.
    StepBack,
    Submit(TaskAt, Submission),
    /// A worker's poll meets the task.
    Poll(TaskAt, Worker, GrantDelivery),
    /// A call arrives: for the first time, again, or long after its lease ended.
    Arrives(IssuedAt, Call, Sender),
    Cancel(TaskAt, CancelMode),
    Sweep(TaskAt),
    /// The coordinator believes that the answer with this grant was not received.
    Undelivered(IssuedAt),
    /// The coordinator dies, with whatever it had decided and not committed, and is back after so
    /// many units of time.
    Crash(u64),
    /// A copy of the store is taken.
    Backup,
    /// The copy replaces the store, whatever was committed since.
    Restore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The first, or the same again under the same key.
    Same,
    /// Another submission under the key of the first.
    Other,
}

/// Whether the answer that carried a grant left the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantDelivery {
    Sent,
    /// The coordinator died between the commit and the answer: nobody knows of this lease.
    Unsent,
}

/// What a worker says under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Started,
    Heartbeat,
    Report(ReportKind),
}

/// The reports a worker can make. Each has its own digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportKind {
    Succeeded,
    /// A failure that may be tried again.
    Failed,
    /// A failure that may not.
    Hopeless,
    Cancelled,
}

/// Who a call comes from, and what it claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Owner,
    /// Another worker with the owner's token.
    Thief(Worker),
    /// The owner, claiming an attempt that was never granted.
    AheadOfItself,
    /// The owner, quoting a lease that nobody ever issued.
    Inventing,
    /// The owner, asking about a task for which the lease was not issued.
    Astray(TaskAt),
}
