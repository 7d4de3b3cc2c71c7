//! Retention: deletes tasks that ended long ago, in slices between batches.
//!
//! A walk visits ended tasks in order of submission, one slice per round, and deletes those that the retention rule
//! releases. It ends where no later task can be old enough, because no task ends before it was submitted. The next walk
//! begins when the task with the earliest end among those kept is due. After each slice comes a pause in proportion to
//! its duration, so that callers always have most of the writer's time. A server with nothing to delete does not wake
//! for it.
//!
//! The first walk counts all ended tasks. A task that ends during the walk is counted by its time of submission: if
//! that is before the walk's position it is added; if it is after, the walk will visit it. A task that was submitted in
//! the same millisecond as the position may be missed: then more is kept than the rule asks for, never less.

use std::time::Duration;

use store::{
    Batch, CommitFailure, Decided, EndedPosition, EndedTask, Failure, FailureKind, Store, Writer,
};
use tokio::time::Instant;
use verdict::{Retention, Time};

use super::role::CarrierRole;
use super::{Carrier, Fatal, duration};
use crate::item::UnavailableReason;

/// Ended tasks examined in one commit: a few milliseconds of the writer's time.
const SLICE: usize = 256;

/// The pause after a slice, as a multiple of the slice's duration: deletion takes at most a fifth of the time.
const PAUSE_FACTOR: u32 = 4;

/// The pause between two walks, so that tasks which end one by one are deleted together.
const WALK_PAUSE: Duration = Duration::from_secs(60);

/// What is known about ended tasks, and the progress of the walk.
pub(super) struct RetentionState {
    rule: Retention,
    /// A lower bound for the number of ended tasks; `None` until the first walk has counted them.
    ended: Option<u64>,
    /// No remaining task ended before this; `None` when there is none.
    earliest_end: Option<Time>,
    /// The first task end since the walk began.
    ended_meanwhile: Option<Time>,
    walk: Option<Walk>,
    not_before: Option<Instant>,
}

#[derive(Clone, Copy, Default)]
struct Walk {
    after: Option<EndedPosition>,
    /// The time of submission of the last task that was visited.
    seen_until: Option<Time>,
    kept: u64,
    earliest_kept: Option<Time>,
}

/// The result of one slice.
struct SliceResult {
    deletable: Vec<EndedPosition>,
    walk: Walk,
    /// Set if the walk ends here: a bound for the ends of all later tasks.
    over: Option<WalkEnd>,
}

#[derive(Clone, Copy)]
enum WalkEnd {
    /// There are no more ended tasks.
    Everything,
    /// All later tasks were submitted, and therefore ended, at this time or after.
    TooYoung(Time),
}

impl RetentionState {
    pub(super) fn new(rule: Retention) -> Self {
        let walk = (rule != Retention::FOR_EVER).then(Walk::default);
        Self {
            rule,
            ended: None,
            earliest_end: None,
            ended_meanwhile: None,
            walk,
            not_before: None,
        }
    }

    /// Records that a batch ended tasks that were submitted at these times.
    pub(super) fn note_ends(&mut self, created: &[Time], at: Time) {
        if created.is_empty() {
            return;
        }
        if self.is_counting()
            && let Some(Walk { seen_until: Some(seen_until), kept, .. }) = &mut self.walk
        {
            *kept += created.iter().filter(|time| *time < seen_until).count() as u64;
        }
        self.ended = self.ended.map(|ended| ended + created.len() as u64);
        self.earliest_end.get_or_insert(at);
        self.ended_meanwhile.get_or_insert(at);
    }

    /// Starts over, because the number of remaining tasks is unknown: the next walk visits and counts everything.
    fn count_again(&mut self) {
        *self = Self::new(self.rule);
    }

    /// When there is something to do; `None` if nothing is until another task ends.
    pub(super) fn wake(&self, here: Instant, now: Time) -> Option<Instant> {
        let due = match self.walk {
            Some(_) => here,
            None => {
                let count_limit = self.rule.count_limit(self.ended.unwrap_or(0));
                here + duration(self.rule.deletable_at(self.earliest_end?, count_limit)?.since(now))
            }
        };
        Some(self.not_before.map_or(due, |pause| pause.max(due)))
    }

    fn evaluate_slice(&self, walk: Walk, seen: &[EndedTask], now: Time) -> SliceResult {
        let (mut walk, mut deletable) = (walk, Vec::new());
        for task in seen {
            let count_limit = self
                .rule
                .count_limit(self.ended.unwrap_or(0).saturating_sub(deletable.len() as u64));
            let is_due =
                |time| self.rule.deletable_at(time, count_limit).is_some_and(|at| at.has_come(now));
            (walk.after, walk.seen_until) = (Some(task.position), Some(task.created_at));
            if is_due(task.completed_at) && !task.has_pending_objects {
                deletable.push(task.position);
                continue;
            }
            walk.kept += 1;
            walk.earliest_kept =
                Some(walk.earliest_kept.map_or(task.completed_at, |at| at.min(task.completed_at)));
            if !self.is_counting() && !is_due(task.created_at) {
                let over = Some(WalkEnd::TooYoung(task.created_at));
                return SliceResult { deletable, walk, over };
            }
        }
        let over = (seen.len() < SLICE).then_some(WalkEnd::Everything);
        SliceResult { deletable, walk, over }
    }

    /// Whether the number of ended tasks matters and is still unknown: this walk visits all of them.
    fn is_counting(&self) -> bool {
        self.rule.tasks.is_some() && self.ended.is_none()
    }

    /// Records a slice that is done and durable.
    fn advance(&mut self, slice: SliceResult, begun: Instant, here: Instant) {
        let SliceResult { deletable, walk, over } = slice;
        self.ended = self.ended.map(|ended| ended.saturating_sub(deletable.len() as u64));
        self.not_before = Some(here + (here - begun) * PAUSE_FACTOR);
        let Some(over) = over else {
            self.walk = Some(walk);
            return;
        };
        if self.is_counting() {
            self.ended = Some(walk.kept);
        }
        let bound = match over {
            WalkEnd::Everything => None,
            WalkEnd::TooYoung(created_at) => Some(created_at),
        };
        let ends = [walk.earliest_kept, bound, self.ended_meanwhile.take()];
        self.earliest_end = ends.into_iter().flatten().min();
        self.walk = None;
        self.not_before = Some(here + WALK_PAUSE);
    }
}

impl<S: Store> Carrier<S> {
    /// Counts ended tasks, or reports them to the carrier that deletes them.
    pub(super) fn note_ends(&mut self, created: Vec<Time>, at: Time) {
        match &self.role {
            CarrierRole::Everything | CarrierRole::Leased => {
                self.retention_state.note_ends(&created, at)
            }
            CarrierRole::NewWork(leased_carrier)
                if !created.is_empty() && !faultpoint::mutant(44) =>
            {
                leased_carrier.intake.note_ends(created, at)
            }
            CarrierRole::NewWork(_) => {}
        }
    }

    /// Deletes a slice of tasks that ended long ago, if it is time. Never while the store refuses.
    pub(super) async fn run_retention(&mut self) -> Result<(), Fatal> {
        let begun = tokio::time::Instant::now();
        let wake = self.retention_state.wake(begun, self.store.now());
        if self.backoff.until().is_some() || wake.is_none_or(|wake| begun < wake) {
            return Ok(());
        }
        let walk = self.retention_state.walk.unwrap_or_else(|| {
            self.retention_state.ended_meanwhile = None;
            Walk::default()
        });
        match self.forget_slice(walk).await {
            Ok(slice) => {
                let here = tokio::time::Instant::now();
                if !slice.deletable.is_empty() {
                    self.metrics.forgotten.inc_by(slice.deletable.len() as u64);
                    self.metrics.forget_seconds.observe((here - begun).as_secs_f64());
                }
                self.retention_state.advance(slice, begun, here);
                Ok(())
            }
            Err(CommitFailure::RolledBack(failure)) => {
                let failed = &failure as &dyn std::error::Error;
                tracing::warn!(error = failed, "retention could not remove ended tasks");
                self.enter_outage(UnavailableReason::of(&failure));
                Ok(())
            }
            Err(CommitFailure::Unknown(failure)) if failure.kind == FailureKind::Fatal => {
                Err(Fatal::of(&failure))
            }
            Err(CommitFailure::Unknown(failure)) => {
                let failed = &failure as &dyn std::error::Error;
                tracing::error!(
                    error = failed,
                    "it is unknown whether retention removed ended tasks"
                );
                self.retention_state.count_again();
                self.enter_outage(UnavailableReason::NotResponding);
                Ok(())
            }
        }
    }

    async fn forget_slice(&mut self, walk: Walk) -> Result<SliceResult, CommitFailure> {
        let definite = |failure: Failure| CommitFailure::RolledBack(failure);
        let mut batch = self.writer.begin().await.map_err(definite)?;
        let now = batch.moment().await.map_err(definite)?.now;
        let seen = batch.ended(walk.after, SLICE).await.map_err(definite)?;
        let slice = self.retention_state.evaluate_slice(walk, &seen, now);
        // Without a deletion there is no commit, so an idle server writes nothing.
        if !slice.deletable.is_empty() {
            let forgotten = slice.deletable.clone();
            batch.save(Decided { forgotten, ..Decided::default() }).await.map_err(definite)?;
            batch.commit().await?;
            self.stall.written(now);
        }
        Ok(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Time {
        Time::from_millis(millis)
    }

    fn ended(n: i64) -> EndedTask {
        EndedTask {
            position: EndedPosition(n as u128),
            created_at: at(n),
            completed_at: at(n + 10_000),
            has_pending_objects: false,
        }
    }

    #[test]
    fn a_run_with_undelivered_effects_is_kept() {
        // D2: retention forgets whole runs, and none with undelivered effects.
        let retention_state =
            RetentionState::new(Retention::of(Some(Retention::AGE_MIN.millis()), None));
        let later = at(10_000).plus(Retention::AGE_MIN).plus(Retention::AGE_MIN);
        let held = EndedTask { has_pending_objects: true, ..ended(0) };
        let slice = retention_state.evaluate_slice(Walk::default(), &[held, ended(1)], later);
        assert_eq!(slice.deletable, [EndedPosition(1)]);
        assert_eq!(slice.walk.earliest_kept, Some(held.completed_at), "it is looked at again");
    }

    #[test]
    fn what_ends_while_ended_tasks_are_counted_is_counted_once() {
        let mut retention_state = RetentionState::new(Retention::of(None, Some(10)));
        let here = Instant::now();
        let stored: Vec<EndedTask> = (0..SLICE as i64).map(|n| ended(10 * n)).collect();
        let first = retention_state.evaluate_slice(Walk::default(), &stored, at(20_000));
        retention_state.advance(first, here, here);
        // One was submitted before the walk's position, one after it: the walk visits only the second.
        let later = 10 * SLICE as i64;
        retention_state.note_ends(&[at(5), at(later)], at(20_000));
        let walk = retention_state.walk.expect("there is more to look at");
        let second = retention_state.evaluate_slice(walk, &[ended(later)], at(20_000));
        retention_state.advance(second, here, here);
        assert_eq!(retention_state.ended, Some(SLICE as u64 + 2));
        retention_state.note_ends(&[at(7)], at(20_001));
        assert_eq!(retention_state.ended, Some(SLICE as u64 + 3));
    }
}
