//! When a silence of the coordinator is a stall, and which leases are then extended instead of swept.
//!
//! Lease time runs only while a heartbeat could be recorded. A coordinator that notices that it could not record one for
//! long enough extends leases by that time before it decides anything else. This module judges what a coordinator
//! observed; [`crate::decide`] then decides about each lease ([`crate::Request::Extend`]). It observes nothing itself: no
//! clock, no store.
//!
//! Invariants:
//! - A silence that no live lease could notice is no stall, so short pauses cost no commit.
//! - Of several late rounds in a row, each counts as one check period of lease time: the lease of a dead worker expires
//!   however slow the store is.

use crate::request::Extend;
use crate::task::Task;
use crate::time::{Span, Time};

/// The shortest and longest period between two stall checks while leases are alive. The shortest is half of the
/// shortest gap that can matter to a two-second lease, and still rare enough to be no load.
const PERIOD_MIN: Span = Span::from_millis(250);
const PERIOD_MAX: Span = Span::from_secs(5);

/// What a coordinator observed since it could last record a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// When heartbeats could last be recorded.
    pub alive_at: Time,
    /// Since when the store has refused calls of workers, if leases are not yet extended by that time.
    pub refused_since: Option<Time>,
    /// Whether the last committed batch had to extend leases.
    pub was_late: bool,
}

impl Silence {
    /// Since when no heartbeat could be recorded, if that is long enough to matter to the shortest live lease: leases
    /// are extended by the time since then. Without a live lease nothing matters.
    pub fn stalled_since(&self, shortest: Option<Span>, now: Time) -> Option<Time> {
        let period = check_period(shortest)?;
        if self.refused_since.is_some() {
            return self.refused_since;
        }
        let counted = if self.was_late { period } else { Span::ZERO };
        is_stall(self.alive_at, shortest, now).then(|| self.alive_at.plus(counted))
    }
}

/// How often to check for a stall, given the shortest live lease. `None` without one: then there is nothing to check.
pub fn check_period(shortest: Option<Span>) -> Option<Span> {
    shortest.map(|lease| Span::from_millis(lease.millis() / 8).clamp(PERIOD_MIN, PERIOD_MAX))
}

/// The longest silence that is no stall: the check period plus a quarter of the shortest lease.
fn tolerance(shortest: Option<Span>) -> Option<Span> {
    let period = check_period(shortest)?.millis();
    Some(Span::from_millis(period.saturating_add(shortest?.millis() / 4)))
}

/// Whether no heartbeat between these times matters to the shortest live lease.
pub fn is_stall(alive_at: Time, shortest: Option<Span>, now: Time) -> bool {
    tolerance(shortest).is_some_and(|tolerance| now > alive_at.plus(tolerance))
}

/// Whether a coordinator that starts extends leases by the time since the last commit. One that has the store alone
/// always does. If others may have run meanwhile, a silence that is no stall may simply be their idle time.
pub fn is_outage_at_start(
    last_commit_at: Time,
    shortest: Option<Span>,
    others: bool,
    now: Time,
) -> bool {
    !others || is_stall(last_commit_at, shortest, now)
}

/// The extension that a task's lease gets instead of a sweep, because its grant may have been committed late: a lease
/// runs from the clock of the batch that granted it, and its worker can send no heartbeat before that batch is committed.
/// Grants since `granted_since` are in question.
pub fn of_late_grant(task: &Task, granted_since: Time, now: Time) -> Option<Extend> {
    let lease = task.lease()?;
    let is_late = lease.acquired_at >= granted_since && lease.expires_at.has_come(now);
    is_late.then(|| Extend::between(granted_since, now))
}
