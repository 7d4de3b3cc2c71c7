//! One transaction of a writer.
//!
//! Reads and locks go to the database as they are requested. Changes wait in memory ([`self::pending_writes`]) and
//! are written together before COMMIT. So a batch needs few round trips and holds its locks briefly, and a task that
//! is submitted and granted in the same batch is written once.
//!
//! In this folder: the writer that begins batches, the rows that a batch has pending, the statements that write them,
//! the commit with its marker, and the quota that a batch locks.

pub(super) mod column_batch;
pub(super) mod commit;
pub(super) mod pending_writes;
pub(super) mod quota;
pub(super) mod writer;
pub(super) mod writes;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use verdict::{ClosedAttempt, LeaseId, Moment, Name, Rules, Span, Subject, Task, TaskId, Time};

use self::pending_writes::{LockedRow, PendingWrites};
use self::writer::PostgresWriter;
use super::SWEEP_REST;
use super::connection::session::{Purpose, Transaction};
use super::reads::{self, Keys};
use super::ready::Prefetched;
use super::ready::read_throttle::ReadThrottle;
use super::scopes::Scopes;
use crate::failure::{CommitFailure, Failure};
use crate::row::{
    Backlog, Change, EndedPosition, EndedTask, IdempotencyKey, KeyOwner, PollRef, Refused, Spec,
    TaskKey, TaskWithSpec, Want,
};
use crate::seam::{Batch, Loaded, LockWait, PolledQueues};

pub struct PostgresBatch<'w> {
    pub(super) writer: &'w mut PostgresWriter,
    pub(super) number: u64,
    /// The version of the rules that decides this batch.
    pub(super) rules: Rules,
    pub(super) transaction: Option<Transaction>,
    pub(super) pending: PendingWrites,
    pub(super) scopes: Scopes,
    /// The stored rows of the locked tasks.
    pub(super) locked: HashMap<TaskId, LockedRow>,
    pub(super) now: Option<Time>,
    /// The database's clock, as read after the last locks.
    read: Option<Time>,
    /// Tasks to lock together with the next read, because they are likely to be granted.
    pub(super) prefetched: Prefetched,
    /// Whether a caller gets an answer that a failover must not undo.
    pub(super) has_answers: bool,
    pub(super) keep_alive: bool,
    /// Whether alarms were postponed: no caller relies on that, but it should be kept.
    pub(super) has_postponed_alarms: bool,
    /// Ended tasks that the commit deletes.
    pub(super) forgotten: HashSet<TaskId>,
    /// No alarm fires before this time, since everything due was found.
    pub(super) no_alarm_until: Option<Time>,
    /// Whether its writer grants tasks.
    pub(super) has_looked_for_ready: bool,
    /// Tasks that reads of this batch leave out.
    pub(super) excluded: Arc<BTreeSet<TaskId>>,
}

impl<'w> PostgresBatch<'w> {
    pub(super) fn new(writer: &'w mut PostgresWriter, number: u64, rules: Rules) -> Self {
        let shared = &writer.shared;
        let transaction =
            shared.transaction(&shared.pool, shared.background_tasks.clone(), Purpose::Write);
        Self {
            writer,
            number,
            rules,
            transaction: Some(transaction),
            pending: PendingWrites::default(),
            scopes: Scopes::default(),
            locked: HashMap::new(),
            now: None,
            read: None,
            prefetched: Prefetched::default(),
            has_answers: false,
            keep_alive: false,
            has_postponed_alarms: false,
            forgotten: HashSet::new(),
            no_alarm_until: None,
            has_looked_for_ready: false,
            excluded: Arc::default(),
        }
    }

    pub(super) fn transaction(&self) -> &Transaction {
        self.transaction.as_ref().expect("a batch has its transaction until it commits")
    }

    pub(super) async fn read_clock(&mut self) -> Result<Time, Failure> {
        if let Some(now) = self.now {
            return Ok(now);
        }
        let shared = self.writer.shared.clone();
        let now = match (shared.clock.injected(), self.read) {
            (Some(now), _) => now,
            (None, Some(read)) => shared.clock.observe(read),
            (None, None) => shared.clock.observe(self.look_at_clock().await?),
        };
        self.now = Some(now);
        self.writer.clock_read_at = Some(now);
        Ok(now)
    }

    /// Reads the clock, after locking the prefetched tasks.
    async fn look_at_clock(&mut self) -> Result<Time, Failure> {
        let prefetched = self.prefetched.ids();
        let setting = self.scopes.add(self.prefetched.scopes());
        let work = move |client| async move {
            let (set, taken, clock) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::lock_waiting(&client, &prefetched),
                reads::clock(&client),
            );
            set?;
            Ok((taken?, clock?))
        };
        let (taken, clock) = self.transaction().run("reading the clock", work).await?;
        self.prefetched.took(taken);
        Ok(clock)
    }

    async fn load_from_tables(
        &mut self,
        wanted: Vec<TaskKey>,
        lock_wait: LockWait,
    ) -> Result<HashMap<TaskKey, Loaded>, Failure> {
        let prefetched = self.prefetched.ids();
        let scopes = wanted.iter().map(|key| &key.scope).chain(self.prefetched.scopes());
        let setting = self.scopes.add(scopes);
        let keys = Arc::new(Keys::of(wanted.iter()));
        let is_clock_ours = self.writer.shared.clock.injected().is_none();
        let asked = keys.clone();
        let work = move |client| async move {
            let clock = async {
                if is_clock_ours { reads::clock(&client).await.map(Some) } else { Ok(None) }
            };
            // Sent together and answered in this order: the clock is read after the locks.
            let (set, locked, taken, clock) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::lock(&client, &asked, lock_wait),
                reads::lock_waiting(&client, &prefetched),
                clock,
            );
            set?;
            Ok((locked?, taken?, clock?))
        };
        let (locked, taken, clock) = self.transaction().run("loading tasks", work).await?;
        self.prefetched.took(taken);
        self.read = clock;
        let is_whole = locked.len() == wanted.len();
        let mut found = if is_whole { HashMap::new() } else { self.missing(wanted, keys).await? };
        for row in locked {
            self.locked.insert(row.task.id, LockedRow::of(&row));
            let key = TaskKey { scope: row.task.scope.clone(), id: row.task.id };
            found.insert(key, Loaded::Subject(Subject::Live(row.task)));
        }
        Ok(found)
    }

    /// Why tasks could not be locked: another writer has locked them, or they have ended.
    async fn missing(
        &mut self,
        wanted: Vec<TaskKey>,
        keys: Arc<Keys>,
    ) -> Result<HashMap<TaskKey, Loaded>, Failure> {
        let work = move |client| async move {
            let (present, ended) =
                futures_util::join!(reads::present(&client, &keys), reads::ended(&client, &keys),);
            Ok((present?, ended?))
        };
        let (present, ended) = self.transaction().run("loading tasks", work).await?;
        let present: HashSet<TaskId> = present.into_iter().collect();
        let held = wanted.into_iter().filter(|key| present.contains(&key.id));
        let mut found: HashMap<TaskKey, Loaded> = held.map(|key| (key, Loaded::Locked)).collect();
        // A task that ended between two of these statements counts as done, whatever the others saw.
        for done in ended {
            let key = TaskKey { scope: done.scope.clone(), id: done.id };
            found.insert(key, Loaded::Subject(Subject::Done(done)));
        }
        Ok(found)
    }

    async fn load_with(
        &mut self,
        keys: &[TaskKey],
        lock_wait: LockWait,
    ) -> Result<Vec<Loaded>, Failure> {
        self.has_answers |= !keys.is_empty();
        let mut wanted: Vec<TaskKey> =
            keys.iter().filter(|key| !self.pending.contains(key.id)).cloned().collect();
        wanted.sort();
        wanted.dedup();
        let found = if wanted.is_empty() {
            HashMap::new()
        } else {
            self.load_from_tables(wanted, lock_wait).await?
        };
        let answer = |key: &TaskKey| match self.pending.get(key.id) {
            Some(pending) if pending.subject.scope() == Some(&key.scope) => {
                Loaded::Subject(pending.subject.clone())
            }
            Some(_) => Loaded::Subject(Subject::Absent),
            None => found.get(key).cloned().unwrap_or(Loaded::Subject(Subject::Absent)),
        };
        Ok(keys.iter().map(answer).collect())
    }

    /// The specs of tasks, from this batch or from the table.
    pub(super) async fn specs(&mut self, tasks: &[Task]) -> Result<HashMap<TaskId, Spec>, Failure> {
        let pending =
            |task: &Task| self.pending.get(task.id).and_then(|pending| pending.spec.clone());
        let mut specs: HashMap<TaskId, Spec> =
            tasks.iter().filter_map(|task| Some((task.id, pending(task)?))).collect();
        let missing: Vec<&Task> =
            tasks.iter().filter(|task| !specs.contains_key(&task.id)).collect();
        if missing.is_empty() {
            return Ok(specs);
        }
        let ids: Vec<TaskId> = missing.iter().map(|task| task.id).collect();
        let setting = self.scopes.add(missing.iter().map(|task| &task.scope));
        let work = move |client| async move {
            let (set, specs) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::specs(&client, &ids)
            );
            set?;
            specs
        };
        specs.extend(self.transaction().run("reading what tasks were submitted with", work).await?);
        Ok(specs)
    }

    async fn polled_in_table(&mut self, polls: &[PollRef]) -> Result<Vec<TaskWithSpec>, Failure> {
        let setting = self.scopes.add(polls.iter().map(|poll| &poll.scope));
        let (polls, excluded) = (polls.to_vec(), self.excluded.clone());
        let work = move |client| async move {
            let (set, ready) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::polled(&client, &polls, &excluded)
            );
            set?;
            ready
        };
        self.transaction().run("looking up polls", work).await
    }

    /// Tasks of all scopes, without those that this batch has changed.
    async fn of_all_scopes(
        &mut self,
        what: &'static str,
        select: Select,
    ) -> Result<Vec<Task>, Failure> {
        let (setting, excluded) = (self.scopes.all(), self.excluded.clone());
        let work = move |client| async move {
            let rows = async {
                match select {
                    Select::FiredAlarms { from, now, limit } => {
                        reads::fired_alarms(&client, from, now, limit, &excluded).await
                    }
                    Select::Running { after, limit } => {
                        reads::running(&client, after, limit, &excluded).await
                    }
                }
            };
            let (set, rows) = futures_util::join!(reads::set_scopes(&client, setting), rows);
            set?;
            rows
        };
        let rows = self.transaction().run(what, work).await?;
        self.locked.extend(rows.iter().map(|row| (row.task.id, LockedRow::of(row))));
        Ok(rows.into_iter().map(|row| row.task).collect())
    }

    /// Postpones alarms that fired before their task wakes, so that they are not found again.
    async fn postpone_alarms(&mut self, tasks: &[TaskId]) -> Result<(), Failure> {
        self.has_postponed_alarms = true;
        self.locked.retain(|id, _| !tasks.contains(id));
        let setting = self.scopes.all();
        let ids = tasks.to_vec();
        let work = move |client| async move {
            reads::set_scopes(&client, setting).await?;
            reads::postpone_alarms(&client, &ids).await
        };
        self.transaction().run("putting off alarms", work).await
    }

    /// When the next alarm fires, or when to read alarms again.
    async fn next_alarm(&mut self, now: Time) -> Result<Time, Failure> {
        let until = now.plus(SWEEP_REST);
        let work = move |client| async move { reads::next_alarm(&client, now, until).await };
        let alarm = self.transaction().run("looking for the next alarm", work).await?;
        Ok(alarm.unwrap_or(until))
    }

    /// Reads due tasks. Alarms that fire before their task wakes are postponed first, so that alarms are in the order
    /// in which tasks wake.
    async fn due_in_table(&mut self, now: Time, limit: usize) -> Result<Vec<Task>, Failure> {
        let limit = limit.saturating_add(self.pending.subjects().count());
        let from = self.writer.shared.memory().sweep_from();
        let began = self.writer.shared.clock.instant();
        loop {
            let select = Select::FiredAlarms { from, now, limit };
            let due = self.of_all_scopes("taking due tasks", select).await?;
            let is_early = |task: &&Task| {
                let locked = self.locked.get(&task.id);
                !self.pending.contains(task.id)
                    && locked.and_then(|locked| locked.alarm_at) != task.wakes_at()
            };
            let early: Vec<TaskId> = due.iter().filter(is_early).map(|task| task.id).collect();
            if !early.is_empty() {
                self.postpone_alarms(&early).await?;
                continue;
            }
            if from.is_none() {
                let mut memory = self.writer.shared.memory();
                memory.sweeping = Some(ReadThrottle::of(began, memory.sweeping));
            }
            if due.len() < limit {
                self.no_alarm_until = Some(self.next_alarm(now).await?);
            }
            return Ok(due.into_iter().filter(|task| !self.pending.contains(task.id)).collect());
        }
    }
}

enum Select {
    FiredAlarms { from: Option<Time>, now: Time, limit: usize },
    Running { after: Option<TaskId>, limit: usize },
}

impl Batch for PostgresBatch<'_> {
    fn exclude(&mut self, tasks: &BTreeSet<TaskId>) {
        self.excluded = Arc::new(tasks.clone());
    }

    async fn unfinished(&mut self, tenants: &[Name]) -> Result<Option<Vec<u64>>, Failure> {
        self.count_unfinished(tenants).await.map(Some)
    }

    fn likely_backlogs(&self, polled: &dyn PolledQueues) -> Vec<Backlog> {
        self.known_backlogs(polled)
    }

    fn prefetch(&mut self, wants: &[Want]) {
        self.choose_prefetch(wants);
    }

    async fn load(
        &mut self,
        keys: &[TaskKey],
        lock_wait: LockWait,
    ) -> Result<Vec<Loaded>, Failure> {
        self.load_with(keys, lock_wait).await
    }

    async fn closed_attempts(
        &mut self,
        leases: &[(TaskId, LeaseId)],
    ) -> Result<Vec<Option<ClosedAttempt>>, Failure> {
        // A task's current lease is not closed, and nearly every report refers to that one.
        let is_current = |(task, lease): &&(TaskId, LeaseId)| {
            self.locked.get(task).is_some_and(|locked| locked.lease == Some(*lease))
        };
        let asked: Vec<_> = leases.iter().filter(|quoted| !is_current(quoted)).copied().collect();
        let found = if asked.is_empty() {
            Vec::new()
        } else {
            let work = move |client| async move { reads::closed(&client, &asked).await };
            self.transaction().run("loading closed attempts", work).await?
        };
        let find = |(task, lease): &(TaskId, LeaseId)| {
            let is_it = |closed: &&ClosedAttempt| closed.task == *task && closed.lease == *lease;
            found.iter().chain(self.pending.closed(*task)).find(is_it).cloned()
        };
        Ok(leases.iter().map(find).collect())
    }

    async fn key_owners(
        &mut self,
        keys: &[IdempotencyKey],
    ) -> Result<Vec<Option<KeyOwner>>, Failure> {
        self.has_answers = true;
        let wanted: Vec<IdempotencyKey> =
            keys.iter().filter(|key| !self.pending.keys.contains_key(key)).cloned().collect();
        let setting = self.scopes.add(wanted.iter().map(|key| &key.scope));
        let asked = wanted.clone();
        let work = move |client| async move {
            let (set, key_owners) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::key_owners(&client, &asked)
            );
            set?;
            key_owners
        };
        let found = self.transaction().run("looking up idempotency keys", work).await?;
        let found: HashMap<IdempotencyKey, KeyOwner> = found.into_iter().collect();
        for key in wanted {
            let seen = found.get(&key).map(|held| held.task);
            self.pending.seen_keys.entry(key).or_insert(seen);
        }
        Ok(keys.iter().map(|key| self.pending.keys.get(key).or(found.get(key)).cloned()).collect())
    }

    async fn leased_to_polls(
        &mut self,
        polls: &[PollRef],
    ) -> Result<Vec<Vec<TaskWithSpec>>, Failure> {
        if polls.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.polled_in_table(polls).await?;
        // Leases from another batch are returned again. Marking this batch ensures that they are durable before a
        // caller gets them.
        self.has_answers |= !found.is_empty();
        found.retain(|ready| !self.pending.contains(ready.task.id));
        let pending: Vec<Task> = self
            .pending
            .live()
            .filter(|task| polls.iter().any(|poll| is_asked_by(task, poll)))
            .cloned()
            .collect();
        let mut specs = self.specs(&pending).await?;
        found.extend(pending.into_iter().filter_map(|task| {
            let spec = specs.remove(&task.id)?;
            Some(TaskWithSpec { task, spec })
        }));
        found.sort_by_key(|ready| ready.task.id);
        let of = |poll: &PollRef| {
            found.iter().filter(|ready| is_asked_by(&ready.task, poll)).cloned().collect()
        };
        Ok(polls.iter().map(of).collect())
    }

    async fn moment(&mut self) -> Result<Moment, Failure> {
        let now = self.read_clock().await?;
        // Behind the clock: whoever reads it has noticed a failover.
        Ok(Moment { now, epoch: self.writer.shared.primary.epoch(), rules: self.rules })
    }

    async fn read_shortest_lease(&mut self) -> Result<Option<Span>, Failure> {
        let grants = self.writer.shared.memory().grants;
        let setting = self.scopes.all();
        let work = move |client| async move {
            let (set, shortest) = futures_util::join!(
                reads::set_scopes(&client, setting),
                reads::shortest_lease(&client)
            );
            set?;
            shortest
        };
        let shortest = self.transaction().run("looking for the shortest lease", work).await?;
        self.writer.shared.memory().note_shortest_lease(shortest, grants);
        Ok(shortest)
    }

    async fn save(&mut self, changes: Vec<Change>, refused: Vec<Refused>) -> Result<(), Failure> {
        changes.into_iter().try_for_each(|change| self.pending.save(change))?;
        self.pending.refuse(refused);
        Ok(())
    }

    async fn backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        now: Time,
    ) -> Result<Vec<Backlog>, Failure> {
        self.has_looked_for_ready = true;
        Ok(self.find_backlogs(polled, now).await)
    }

    async fn ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> Result<Vec<Vec<TaskWithSpec>>, Failure> {
        self.has_looked_for_ready = true;
        self.take_ready(wants, now).await
    }

    async fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Task>, Failure> {
        let mut due = if self.writer.shared.memory().is_swept(now) {
            Vec::new()
        } else {
            self.due_in_table(now, limit).await?
        };
        let pending = self.pending.live();
        due.extend(
            pending.filter(|task| task.wakes_at().is_some_and(|at| at.has_come(now))).cloned(),
        );
        due.sort_by_key(|task| (task.wakes_at(), task.id));
        if due.len() > limit {
            // Some due tasks are left for the next batch.
            self.no_alarm_until = None;
        }
        due.truncate(limit);
        Ok(due)
    }

    async fn running(&mut self, after: Option<TaskId>, limit: usize) -> Result<Vec<Task>, Failure> {
        // Tasks that this batch has changed come from memory, so the table must supply enough without them.
        let enough = limit.saturating_add(self.pending.subjects().count());
        let select = Select::Running { after, limit: enough };
        let mut running = self.of_all_scopes("listing running tasks", select).await?;
        running.retain(|task| !self.pending.contains(task.id));
        let pending = self.pending.live().filter(|task| task.lease().is_some());
        running.extend(pending.filter(|task| after.is_none_or(|after| task.id > after)).cloned());
        running.sort_by_key(|task| task.id);
        running.truncate(limit);
        Ok(running)
    }

    async fn ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> Result<Vec<EndedTask>, Failure> {
        self.list_ended(after, limit).await
    }

    async fn forget(&mut self, positions: &[EndedPosition]) -> Result<(), Failure> {
        self.forget_ended(positions).await
    }

    fn keep_alive(&mut self) {
        self.keep_alive = true;
    }

    async fn commit(mut self) -> Result<(), CommitFailure> {
        commit::commit(&mut self).await
    }
}

impl Drop for PostgresBatch<'_> {
    fn drop(&mut self) {
        self.writer.shared.memory().candidates.release(self.number);
    }
}

fn is_asked_by(task: &Task, poll: &PollRef) -> bool {
    task.scope == poll.scope
        && task.lease().is_some_and(|lease| {
            lease.owner == poll.owner && lease.poll.as_ref() == Some(&poll.poll)
        })
}
