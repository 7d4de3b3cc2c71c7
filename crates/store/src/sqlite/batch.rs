//! One transaction of the writer, between `BEGIN IMMEDIATE` and `COMMIT`.
//!
//! The first error ends the batch: the transaction is rolled back at once, memory is restored to its
//! state before the batch, and every later call fails. Only COMMIT can leave the outcome unknown; then
//! the whole store is unusable until it is reopened.

use verdict::{Moment, Name, Object, Scope, Task, TaskId, Time};

use super::ids::Ids;
use super::work::{BatchCache, StepError, Work};
use super::writer::SqliteWriter;
use super::{Shared, errors, messages, objects, pruning, writes};
use crate::failure::{CommitFailure, Failure, FailureKind};
use crate::pauses::PausedQueues;
use crate::row::{Backlog, EndedPosition, EndedTask, TaskKey, TaskWithSpec, Unfinished, Want};
use crate::seam::{Batch, Claimable, Decided, Found, Lookup, Plan, PolledQueues, Selection};

pub struct SqliteBatch<'w> {
    writer: &'w mut SqliteWriter,
    cache: BatchCache,
    now: Option<Time>,
    state: BatchState,
    writes: Writes,
    /// Tasks to leave out of what is selected.
    excluded: Ids,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchState {
    Open,
    RolledBack,
    Committed,
}

/// Whether there is anything to make durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    None,
    Some,
}

impl<'w> SqliteBatch<'w> {
    pub(super) fn begin(writer: &'w mut SqliteWriter) -> Result<Self, Failure> {
        writer
            .connection
            .prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut begin| begin.execute([]))
            .map_err(errors::while_doing("beginning a batch"))?;
        faultpoint::point!("batch.begun");
        writer.memory.begin();
        let (cache, now, excluded) = (BatchCache::default(), None, Ids::default());
        Ok(Self { writer, cache, now, state: BatchState::Open, writes: Writes::None, excluded })
    }

    /// Runs one step; the first failure rolls the whole batch back.
    pub(super) fn step<T>(
        &mut self,
        what: &'static str,
        work: impl FnOnce(&mut Work<'_>) -> Result<T, StepError>,
    ) -> Result<T, Failure> {
        if self.state != BatchState::Open {
            return Err(Failure::new(FailureKind::Unavailable, "the batch was rolled back before"));
        }
        let done = work(&mut Work::of(self.writer, &mut self.cache));
        done.map_err(|error| {
            self.roll_back();
            match error {
                StepError::Sql(error) => errors::while_doing(what)(error),
                StepError::Failure(failure) => failure,
            }
        })
    }

    fn roll_back(&mut self) {
        self.state = BatchState::RolledBack;
        // After some errors SQLite has already rolled back.
        if !self.writer.connection.is_autocommit()
            && self.writer.connection.execute_batch("ROLLBACK").is_err()
        {
            self.writer.shared.poison();
        }
        self.writer.memory.rollback();
    }

    fn read_clock(&mut self) -> Time {
        *self.now.get_or_insert_with(|| self.writer.shared.clock.now())
    }

    /// Writes everything that a commit includes beside what was saved.
    fn finish(&mut self) -> Result<Time, Failure> {
        let now = self.read_clock();
        let writes = self.writes;
        self.step("finishing a batch", |work| {
            if writes == Writes::Some {
                faultpoint::point!("commit.fresh");
                if faultpoint::mutant(25) {
                    work.connection.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
                }
                work.write_created()?;
                writes::clock(work.connection, now)?;
                faultpoint::point!("commit.clock");
                work.memory.clear_keys(work.connection, now)?;
            }
            Ok(now)
        })
    }

    fn forget(&mut self, positions: &[EndedPosition], now: Time) -> Result<(), Failure> {
        self.step("forgetting ended tasks", |work| {
            let rows = positions.iter().copied().map(pruning::row_of);
            let pruned = pruning::forget(work.connection, rows, now)?;
            let ready = &mut work.memory.index.ready;
            pruned.touched.into_iter().for_each(|kind_queue| ready.forget_block(kind_queue));
            let pinned = pruning::delete_pinned(work.connection, ready)?;
            let gone = pruned.gone.into_iter().chain(pinned);
            gone.for_each(|kind_queue| work.memory.kind_queue_gone(kind_queue));
            if work.memory.messages > 0 {
                work.memory.messages = messages::count(work.connection)?;
            }
            if work.memory.object_due.is_some() {
                work.memory.object_due = objects::next_due(work.connection)?;
            }
            Ok(())
        })
    }

    fn commit_now(&mut self) -> Result<(), CommitFailure> {
        let now = self.finish().map_err(CommitFailure::RolledBack)?;
        if self.writes == Writes::Some
            && let Err(failure) = self.writer.shared.in_place.check()
        {
            self.roll_back();
            return Err(CommitFailure::RolledBack(failure));
        }
        if self.writes == Writes::Some {
            self.writer.prepare_log();
        }
        faultpoint::point!("commit.before");
        let commit = self.writer.connection.prepare_cached("COMMIT");
        let committed = commit.and_then(|mut commit| commit.execute([]));
        match committed {
            Ok(_) => {
                faultpoint::point!("commit.after");
                self.state = BatchState::Committed;
                self.writer.memory.index.mark_seen(now);
                Ok(())
            }
            Err(error) if errors::commit_left_nothing(&error) => {
                self.roll_back();
                Err(CommitFailure::RolledBack(errors::while_doing("committing a batch")(error)))
            }
            Err(error) => {
                self.writer.shared.poison();
                self.roll_back();
                let what = "a commit failed and may or may not have happened";
                Err(CommitFailure::Unknown(Failure::new(FailureKind::Fatal, what).because(error)))
            }
        }
    }
}

impl Batch for SqliteBatch<'_> {
    /// The store has one writer, which keeps its own count of unfinished runs, and reads cost no round trips.
    async fn prepare(&mut self, plan: Plan<'_>) -> Result<Option<Vec<Unfinished>>, Failure> {
        if let Some(tasks) = plan.exclude {
            self.excluded = tasks.iter().copied().collect();
        }
        Ok(None)
    }

    /// The store has one writer, so no row is ever locked, and the writer knows the shortest lease.
    async fn look_up(&mut self, lookup: Lookup<'_>) -> Result<Found, Failure> {
        let excluded = std::mem::take(&mut self.excluded);
        let found = self.find(&lookup, &excluded);
        self.excluded = excluded;
        found
    }

    async fn moment(&mut self) -> Result<Moment, Failure> {
        let now = self.read_clock();
        let Shared { epoch, rules, .. } = &*self.writer.shared;
        Ok(Moment { now, epoch: *epoch, rules: *rules })
    }

    async fn save(&mut self, decided: Decided) -> Result<(), Failure> {
        if decided != Decided::default() {
            self.writes = Writes::Some;
        }
        let Decided { changes, refused, forgotten, messages, objects, spend, logs, keep_alive: _ } =
            decided;
        let now = self.read_clock();
        self.step("saving decisions", |work| {
            work.known.reserve(changes.len());
            changes.into_iter().try_for_each(|change| work.save_one(change, now))?;
            refused.iter().try_for_each(|refused| work.save_refused(refused))?;
            work.save_messages(&messages)?;
            work.save_objects(&objects)?;
            work.save_spend(&spend)?;
            work.save_logs(&logs)
        })?;
        if forgotten.is_empty() {
            return Ok(());
        }
        self.forget(&forgotten, now)
    }

    async fn backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        claimable: Claimable,
    ) -> Result<Vec<Backlog>, Failure> {
        let Claimable::By(now) = claimable else { return Ok(Vec::new()) };
        self.step("looking for queues with ready tasks", |work| {
            work.memory.index.promote(now);
            Ok(work.memory.index.ready.backlogs(polled))
        })
    }

    async fn ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> Result<Vec<Vec<TaskWithSpec>>, Failure> {
        // Excluded tasks count as taken.
        let mut taken = self.excluded.clone();
        self.step("taking ready tasks", |work| {
            work.memory.index.promote(now);
            wants.iter().map(|want| work.ready_one(want, now, &mut taken)).collect()
        })
    }

    async fn most_urgent(
        &mut self,
        queues: &[(Scope, Name)],
        now: Time,
    ) -> Result<Vec<Option<i32>>, Failure> {
        self.step("looking for urgent tasks", |work| {
            let index = &mut work.memory.index;
            index.promote(now);
            Ok(queues.iter().map(|(scope, queue)| index.ready.most_urgent(scope, queue)).collect())
        })
    }

    async fn select(&mut self, selection: Selection, limit: usize) -> Result<Vec<Task>, Failure> {
        let excluded = self.excluded.clone();
        let enough = limit.saturating_add(excluded.len());
        match selection {
            Selection::Due { now } => self.step("taking due tasks", |work| {
                let ids = work.memory.index.due(now, enough);
                work.tasks(without(ids, &excluded, limit))
            }),
            Selection::Running { after } => self.step("listing running tasks", |work| {
                let ids = work.memory.index.running(after, enough);
                work.tasks(without(ids, &excluded, limit))
            }),
        }
    }

    async fn addressees(&mut self, now: Time, limit: usize) -> Result<Vec<TaskKey>, Failure> {
        let excluded = self.excluded.clone();
        self.due_addressees(now, limit, &excluded)
    }

    async fn due_objects(&mut self, now: Time, limit: usize) -> Result<Vec<Object>, Failure> {
        self.objects_due(now, limit)
    }

    async fn ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> Result<Vec<EndedTask>, Failure> {
        self.step("looking for old ends", |work| Ok(pruning::ended(work.connection, after, limit)?))
    }

    fn paused(&self) -> &PausedQueues {
        &self.writer.paused
    }

    async fn commit(mut self) -> Result<(), CommitFailure> {
        self.commit_now()
    }
}

fn without(mut ids: Vec<TaskId>, excluded: &Ids, limit: usize) -> Vec<TaskId> {
    ids.retain(|id| !excluded.contains(id));
    ids.truncate(limit);
    ids
}

impl Drop for SqliteBatch<'_> {
    fn drop(&mut self) {
        if self.state == BatchState::Open {
            self.roll_back();
        }
    }
}
