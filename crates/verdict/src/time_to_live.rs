//! The time to live of a task: how long it may wait for its first worker.
//!
//! Some work is worthless when it starts late: a price to refresh, a notification about what is happening now. A
//! deadline ends such a task while it runs, too; a time to live only ends one that no worker has taken. It counts from
//! the instant at which the task may be leased, so a delay does not use it up, and a step of a plan does not lose it to its
//! upstreams. The sweep that is due at that instant ends the task, and nothing is granted from then on.
//!
//! Invariants:
//! - A grant that no worker received is no start: the clock begins again when the task may be leased again. A few such
//!   grants in a row end the task by themselves, so it does not begin again for ever.
//! - From the first call of a worker on, the time to live has no effect: not on retries, and not on later stages.
//! - It runs while the queue is paused: the work gets old whatever the reason.

use crate::task::Task;
use crate::time::Time;

impl Task {
    /// When the task ends unless a worker has taken it; `None` without a time to live, and once a worker has.
    pub fn ttl_ends_at(&self) -> Option<Time> {
        let ttl = self.policy.ttl?;
        // Every attempt was a grant that no worker received: these count in a row and start again with the first call.
        let is_unclaimed = self.attempt == self.undelivered;
        self.claimable_at().filter(|_| is_unclaimed).map(|due| due.plus(ttl))
    }
}
