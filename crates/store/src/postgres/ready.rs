//! Taking ready tasks: candidates from memory are locked by key and checked again. Those that are likely to be
//! granted are prefetched: they are locked in the round trip that reads the clock. Nothing here reads a queue:
//! missing candidates are read beside the batch ([`self::refill`]).
//!
//! In this folder: the candidates in memory, one buffer for each polled queue, and the reads that refill them.

pub(super) mod candidates;
mod flow_gate;
pub(super) mod queue_buffer;
pub(super) mod queue_position;
pub(super) mod read_throttle;
pub(super) mod refill;
pub(super) mod refill_schedule;

use std::collections::{BTreeSet, HashMap, HashSet};

use verdict::{Name, Scope, Task, TaskId, Time};

use self::candidates::BufferKey;
use self::queue_buffer::RefillFrom;
use self::queue_position::QueuePosition;
use super::batch::PostgresBatch;
use super::batch::pending_writes::LockedRow;
use super::reads;
use crate::failure::Failure;
use crate::row::{Backlog, TaskWithSpec, Want};
use crate::seam::PolledQueues;

/// How often one call replaces candidates that turned out to be gone. More rounds would only hold the batch's locks
/// longer; the rest waits for the next batch.
const ROUNDS_MAX: usize = 8;

/// One want with the buffers that may serve it.
struct Search<'a> {
    want: &'a Want,
    buffers: Vec<BufferKey>,
}

/// The state of a search.
#[derive(Default)]
struct SearchState {
    /// Locked, waiting and due.
    locked: HashMap<TaskId, TaskWithSpec>,
    /// Those of them that this batch made ready, by queue.
    pending: HashMap<(Scope, Name), Vec<(QueuePosition, Name)>>,
    /// Not available in this call.
    gone: HashSet<TaskId>,
}

impl SearchState {
    /// The tasks that this batch made ready for a buffer.
    fn pending_of(&self, buffer: &BufferKey) -> impl Iterator<Item = QueuePosition> {
        let queue = (buffer.scope.clone(), buffer.queue.clone());
        let pending = self.pending.get(&queue).into_iter().flatten();
        pending.filter(move |(_, kind)| buffer.takes_kind(kind)).map(|(position, _)| *position)
    }
}

/// Tasks of a queue that a batch made ready.
#[derive(Default)]
struct PendingTasks {
    tasks: usize,
    kinds: BTreeSet<Name>,
}

/// Candidates to lock together with the next read, and the rows that were locked.
#[derive(Default)]
pub(super) struct Prefetched {
    chosen: Vec<(BufferKey, QueuePosition)>,
    /// Set once they were requested.
    taken: Option<Vec<(LockedRow, TaskWithSpec)>>,
}

impl Prefetched {
    /// The tasks to lock, if any.
    pub(super) fn ids(&self) -> Vec<TaskId> {
        self.chosen.iter().map(|(_, position)| position.id()).collect()
    }

    pub(super) fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.chosen.iter().map(|(buffer, _)| &buffer.scope)
    }

    pub(super) fn took(&mut self, taken: Vec<(LockedRow, TaskWithSpec)>) {
        self.taken = Some(taken);
    }
}

impl PostgresBatch<'_> {
    /// The polled queues that hold tasks, as far as is known. A queue that is polled for the first time is read from
    /// now on, beside this batch.
    pub(super) fn known_backlogs(&self, polled: &dyn PolledQueues) -> Vec<Backlog> {
        let shared = &self.writer.shared;
        let (mut memory, now) = (shared.memory(), shared.clock.now());
        let is_any_new = memory.candidates.note_polled(polled, tokio::time::Instant::now());
        if memory.candidates.promote_due(now) || is_any_new {
            shared.refill_signals.wake();
        }
        memory.candidates.backlogs(polled)
    }

    /// The polled queues that hold tasks, including tasks that this batch made ready and queues that were polled for
    /// the first time. Tasks that a peer made ready since the last refill are missing until a hint arrives or the
    /// next refill reads them.
    pub(super) async fn find_backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        now: Time,
    ) -> Vec<Backlog> {
        let shared = self.writer.shared.clone();
        let (is_any_needed, pending_first_reads) = {
            let (mut memory, here) = (shared.memory(), tokio::time::Instant::now());
            memory.candidates.note_polled(polled, here);
            (memory.candidates.promote_due(now), memory.candidates.pending_first_reads(here))
        };
        if is_any_needed || !pending_first_reads.is_empty() {
            shared.refill_signals.wake();
        }
        if !pending_first_reads.is_empty() {
            shared.wait_for_refills(&pending_first_reads, refill::refill_deadline()).await;
        }
        let mut backlogs = {
            let mut memory = shared.memory();
            memory.candidates.promote_due(now);
            memory.candidates.backlogs(polled)
        };
        self.add_pending(polled, now, &mut backlogs);
        backlogs
    }

    /// Adds what the candidates do not name: tasks that this batch made ready or brought back.
    fn add_pending(&self, polled: &dyn PolledQueues, now: Time, backlogs: &mut Vec<Backlog>) {
        let mut pending: HashMap<(Scope, Name), PendingTasks> = HashMap::new();
        for task in self.pending.live().filter(|task| is_claimable(task, now)) {
            let queue = (task.scope.clone(), task.offered_in().into_owned());
            let found = pending.entry(queue).or_default();
            found.tasks += 1;
            found.kinds.insert(task.kind.clone());
        }
        for backlog in backlogs.iter_mut() {
            let more = pending.remove(&(backlog.scope.clone(), backlog.queue.clone()));
            let PendingTasks { tasks, kinds } = more.unwrap_or_default();
            backlog.tasks = backlog.tasks.saturating_add(tasks);
            if let Some(known) = &mut backlog.kinds {
                known.extend(kinds);
                known.extend(self.flows.unparked_kinds(&backlog.scope, &backlog.queue));
            }
        }
        pending.retain(|(scope, queue), _| polled.contains(scope, queue));
        let memory = self.writer.shared.memory();
        let backlog = |(queue, PendingTasks { tasks, kinds }): ((Scope, Name), PendingTasks)| {
            // A queue that was not read to its end may hold others.
            let is_complete = memory.candidates.is_complete(&queue);
            let (scope, queue) = queue;
            let unparked = self.flows.unparked_kinds(&scope, &queue);
            let kinds = is_complete.then(|| kinds.into_iter().chain(unparked).collect());
            Backlog { scope, queue, tasks, kinds }
        };
        backlogs.extend(pending.into_iter().map(backlog));
    }

    /// Chooses the tasks that these wants would get from the current candidates. A buffer that must be read first
    /// supplies none.
    pub(super) fn choose_prefetch(&mut self, wants: &[Want]) {
        let now = self.writer.shared.clock.now();
        let mut searches: Vec<Search<'_>> =
            wants.iter().map(|want| Search { want, buffers: BufferKey::of(want) }).collect();
        let known = SearchState::default();
        let is_settled = |search: &Search<'_>| {
            search.buffers.iter().all(|buffer| self.lacks(buffer, search, now, &known).is_none())
        };
        searches.retain(is_settled);
        let chosen: Vec<_> = self.pick(&searches, &known).into_iter().flatten().collect();
        let ids = chosen.iter().map(|(_, position)| position.id());
        self.writer.shared.memory().candidates.reserve(ids, self.number);
        self.prefetched = Prefetched { chosen, taken: None };
    }

    pub(super) async fn take_ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> Result<Vec<Vec<TaskWithSpec>>, Failure> {
        let searches: Vec<Search<'_>> =
            wants.iter().map(|want| Search { want, buffers: BufferKey::of(want) }).collect();
        let mut known = self.pending_ready(&searches, now).await?;
        if let Prefetched { chosen, taken: Some(taken) } = std::mem::take(&mut self.prefetched) {
            self.note_locked(chosen, taken, now, &mut known);
        }
        self.writer.shared.memory().candidates.promote_due(now);
        let (mut asked, until) = (HashSet::new(), refill::refill_deadline());
        for _ in 0..ROUNDS_MAX {
            let mut lacking = self.lacking(&searches, now, &known);
            lacking.retain(|need| asked.insert(need.clone()));
            self.writer.shared.refill_and_wait(lacking.into_iter().collect(), until).await;
            // A page lists delayed tasks separately, even those that are already due.
            self.writer.shared.memory().candidates.promote_due(now);
            self.gate_flows(&mut known).await?;
            let picked = self.pick(&searches, &known);
            let unknown: Vec<(BufferKey, QueuePosition)> = picked
                .into_iter()
                .flatten()
                .filter(|(_, position)| !known.locked.contains_key(&position.id()))
                .collect();
            if unknown.is_empty() {
                break;
            }
            self.lock_candidates(unknown, now, &mut known).await?;
        }
        self.gate_flows(&mut known).await?;
        let picked = self.pick(&searches, &known);
        let take = |positions: Vec<(BufferKey, QueuePosition)>| {
            let ready =
                positions.iter().filter_map(|(_, position)| known.locked.get(&position.id()));
            ready.cloned().collect::<Vec<TaskWithSpec>>()
        };
        Ok(picked.into_iter().map(take).collect())
    }

    /// The tasks that this batch made ready, and those that it took.
    async fn pending_ready(
        &mut self,
        searches: &[Search<'_>],
        now: Time,
    ) -> Result<SearchState, Failure> {
        let queues: HashSet<(&Scope, &Name)> = searches
            .iter()
            .flat_map(|search| search.buffers.iter().map(|buffer| (&buffer.scope, &buffer.queue)))
            .collect();
        let is_polled = |task: &Task| queues.contains(&(&task.scope, &*task.offered_in()));
        let is_wanted = |task: &&Task| is_claimable(task, now) && is_polled(task);
        let pending: Vec<Task> = self.pending.live().filter(is_wanted).cloned().collect();
        let mut specs = self.specs(&pending).await?;
        let mut known = SearchState::default();
        for task in pending {
            let Some(spec) = specs.remove(&task.id) else { continue };
            let position = QueuePosition::new(task.priority, task.id);
            let queue = (task.scope.clone(), task.offered_in().into_owned());
            known.pending.entry(queue).or_default().push((position, task.kind.clone()));
            known.locked.insert(task.id, TaskWithSpec { task, spec });
        }
        Ok(known)
    }

    fn is_free(&self, id: TaskId, known: &SearchState) -> bool {
        !self.pending.contains(id) && !known.gone.contains(&id) && !self.excluded.contains(&id)
    }

    /// The reads that the wants need, without duplicates.
    fn lacking(
        &self,
        searches: &[Search<'_>],
        now: Time,
        known: &SearchState,
    ) -> HashSet<(BufferKey, RefillFrom)> {
        let buffers = searches
            .iter()
            .flat_map(|search| search.buffers.iter().map(move |buffer| (search, buffer)));
        buffers.filter_map(|(search, buffer)| self.lacks(buffer, search, now, known)).collect()
    }

    fn lacks(
        &self,
        buffer: &BufferKey,
        search: &Search<'_>,
        now: Time,
        known: &SearchState,
    ) -> Option<(BufferKey, RefillFrom)> {
        let memory = self.writer.shared.memory();
        let is_free = |id| {
            self.is_free(id, known) && !memory.candidates.is_reserved_by_another(id, self.number)
        };
        memory.candidates.missing_refill(buffer, now, search.want.max, is_free)
    }

    /// Serves the wants in order from the current candidates: each position once, by priority and age.
    fn pick(
        &self,
        searches: &[Search<'_>],
        known: &SearchState,
    ) -> Vec<Vec<(BufferKey, QueuePosition)>> {
        let memory = self.writer.shared.memory();
        let mut taken: HashSet<TaskId> = HashSet::new();
        let mut picked = Vec::new();
        for search in searches {
            let is_free = |id| {
                self.is_free(id, known)
                    && !taken.contains(&id)
                    && !memory.candidates.is_reserved_by_another(id, self.number)
            };
            let mut positions: Vec<(BufferKey, QueuePosition)> = Vec::new();
            for buffer in &search.buffers {
                let first_candidates =
                    memory.candidates.first_candidates(buffer, search.want.max, is_free);
                let pending =
                    known.pending_of(buffer).filter(|position| !taken.contains(&position.id()));
                // Reads beside the batch do not see what it brought back.
                let unparked =
                    self.flows.unparked_of(buffer).filter(|position| is_free(position.id()));
                positions.extend(
                    first_candidates
                        .into_iter()
                        .chain(pending)
                        .chain(unparked)
                        .map(|position| (buffer.clone(), position)),
                );
            }
            positions.sort_by_key(|(_, position)| *position);
            positions.dedup_by_key(|(_, position)| *position);
            positions.truncate(search.want.max);
            taken.extend(positions.iter().map(|(_, position)| position.id()));
            picked.push(positions);
        }
        picked
    }

    async fn lock_candidates(
        &mut self,
        candidates: Vec<(BufferKey, QueuePosition)>,
        now: Time,
        known: &mut SearchState,
    ) -> Result<(), Failure> {
        let ids: Vec<TaskId> = candidates.iter().map(|(_, position)| position.id()).collect();
        let setting = self.scopes.add(candidates.iter().map(|(buffer, _)| &buffer.scope));
        self.writer.shared.memory().candidates.reserve(ids.iter().copied(), self.number);
        let work = move |client| async move {
            let (set, taken) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::lock_waiting(&client, &ids)
            );
            set?;
            taken
        };
        let taken = self.transaction().run("taking ready tasks", work).await?;
        self.note_locked(candidates, taken, now, known);
        Ok(())
    }

    /// Records which of the candidates are locked now; the others are not worth another try.
    fn note_locked(
        &mut self,
        candidates: Vec<(BufferKey, QueuePosition)>,
        taken: Vec<(LockedRow, TaskWithSpec)>,
        now: Time,
        known: &mut SearchState,
    ) {
        let buffers: HashMap<TaskId, &BufferKey> =
            candidates.iter().map(|(buffer, position)| (position.id(), buffer)).collect();
        for (locked, ready) in taken {
            self.locked.insert(ready.task.id, locked);
            // A task that entered another stage or was unpinned since the buffer was read is no longer in it.
            let is_there = buffers.get(&ready.task.id).is_some_and(|it| it.has(&ready.task));
            if is_there && is_claimable(&ready.task, now) {
                known.locked.insert(ready.task.id, ready);
            }
        }
        let mut memory = self.writer.shared.memory();
        for (buffer, position) in candidates {
            if !known.locked.contains_key(&position.id()) {
                known.gone.insert(position.id());
                memory.candidates.drop_candidate(&buffer, position);
            }
        }
    }
}

fn is_claimable(task: &Task, now: Time) -> bool {
    task.claimable_at().is_some_and(|due| due.has_come(now))
}
