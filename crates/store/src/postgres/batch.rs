//! One transaction of a writer.
//!
//! Reads and locks go to the database as they are requested. Changes wait in memory ([`self::pending_writes`]) and
//! are written together before COMMIT. So a batch needs few round trips and holds its locks briefly, and a task that
//! is submitted and granted in the same batch is written once.
//!
//! In this folder: the writer that begins batches, what a batch looks up by name, the rows that it has pending, the
//! statements that write them, messages between tasks, the commit with its marker, the quota that a batch locks, and what
//! its decisions used.

pub(super) mod column_batch;
pub(super) mod commit;
mod debounced;
pub(super) mod logs;
mod lookup;
pub(super) mod messages;
pub(super) mod objects;
pub(super) mod pending_writes;
pub(super) mod quota;
mod run_lookup;
pub(super) mod run_writes;
pub(super) mod spend;
mod urgency;
pub(super) mod writer;
pub(super) mod writes;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use verdict::{Moment, Name, Object, Rules, Scope, Task, TaskId, Time};

use self::pending_writes::{LockedRow, PendingWrites};
use self::writer::PostgresWriter;
use super::SWEEP_REST;
use super::administration::pauses::Known;
use super::connection::session::{Purpose, Transaction};
use super::flows::FlowState;
use super::reads;
use super::ready::Prefetched;
use super::ready::read_throttle::ReadThrottle;
use super::scopes::Scopes;
use crate::failure::{CommitFailure, Failure};
use crate::flow_starts::starts_of;
use crate::logs::SavedLog;
use crate::pauses::PausedQueues;
use crate::row::{
    Backlog, BatchSpec, EndedPosition, EndedTask, TaskKey, TaskWithSpec, Unfinished, Want,
};
use crate::seam::{
    Batch, Claimable, Decided, Found, Loaded, Lookup, Plan, PolledQueues, Selection,
};
use crate::spend::SpendRow;

/// Statements that batches repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    writes::frequent_statements()
        .chain(run_writes::frequent_statements())
        .chain(messages::frequent_statements())
        .chain(objects::frequent_statements())
        .chain(quota::frequent_statements())
        .chain(spend::frequent_statements())
        .chain(urgency::frequent_statements())
        .chain(debounced::frequent_statements())
        .chain(logs::frequent_statements())
}

pub struct PostgresBatch<'w> {
    pub(super) writer: &'w mut PostgresWriter,
    pub(super) number: u64,
    /// The version of the rules that decides this batch.
    pub(super) rules: Rules,
    /// The paused queues that the batch was given.
    pub(super) pauses: Known,
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
    /// Whether messages were saved, decided or kept, which no caller may rely on before the commit.
    pub(super) has_changed_messages: bool,
    /// Whether objects were written.
    pub(super) has_changed_objects: bool,
    /// Whether it has raised the version of pauses and endpoints.
    pub(super) has_raised_version: bool,
    /// What its decisions used.
    pub(super) spend: Vec<SpendRow>,
    /// What becomes of logs.
    pub(super) logs: Vec<SavedLog>,
    /// Ended tasks that the commit deletes.
    pub(super) forgotten: HashSet<TaskId>,
    /// No alarm fires before this time, since everything due was found.
    pub(super) no_alarm_until: Option<Time>,
    /// Whether its writer grants tasks.
    pub(super) has_looked_for_ready: bool,
    /// What the batch knows of flow keys.
    pub(super) flows: FlowState,
    /// Tasks that reads of this batch leave out.
    pub(super) excluded: Arc<BTreeSet<TaskId>>,
}

impl<'w> PostgresBatch<'w> {
    pub(super) fn new(
        writer: &'w mut PostgresWriter,
        number: u64,
        rules: Rules,
        pauses: Known,
    ) -> Self {
        let shared = &writer.shared;
        let transaction =
            shared.transaction(&shared.pool, shared.background_tasks.clone(), Purpose::Write);
        Self {
            writer,
            number,
            rules,
            pauses,
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
            has_changed_messages: false,
            has_changed_objects: false,
            has_raised_version: false,
            spend: Vec::new(),
            logs: Vec::new(),
            forgotten: HashSet::new(),
            no_alarm_until: None,
            has_looked_for_ready: false,
            flows: FlowState::default(),
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

    /// The specs of tasks, from this batch or from the table.
    pub(super) async fn specs(
        &mut self,
        tasks: &[Task],
    ) -> Result<HashMap<TaskId, BatchSpec>, Failure> {
        let pending =
            |task: &Task| self.pending.get(task.id).and_then(|pending| pending.spec.clone());
        let whole = |task: &Task| Some((task.id, BatchSpec::Whole(pending(task)?)));
        let mut specs: HashMap<TaskId, BatchSpec> = tasks.iter().filter_map(whole).collect();
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

    /// Tasks of all scopes, without those that this batch has changed.
    async fn of_all_scopes(
        &mut self,
        what: &'static str,
        select: Select,
    ) -> Result<Vec<Task>, Failure> {
        let (setting, excluded) = (self.scopes.all(), self.excluded.clone());
        let shared = self.writer.shared.clone();
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
            let mut rows = rows?;
            reads::complete_waits(&client, &mut rows, &shared.long_waits).await?;
            Ok(rows)
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
}

enum Select {
    FiredAlarms { from: Option<Time>, now: Time, limit: usize },
    Running { after: Option<TaskId>, limit: usize },
}

impl Batch for PostgresBatch<'_> {
    async fn prepare(&mut self, plan: Plan<'_>) -> Result<Option<Vec<Unfinished>>, Failure> {
        if let Some(tasks) = plan.exclude {
            self.excluded = Arc::new(tasks.clone());
        }
        if !plan.prefetch.is_empty() {
            self.choose_prefetch(plan.prefetch);
        }
        if plan.tenants.is_empty() {
            return Ok(None);
        }
        self.count_unfinished(plan.tenants).await.map(Some)
    }

    async fn look_up(&mut self, lookup: Lookup<'_>) -> Result<Found, Failure> {
        let owners = self.key_owners(lookup.keys).await?;
        let tasks = lookup.tasks_to_load(&owners);
        let reads = self.run_reads(lookup.runs);
        let (loaded, runs) = self.load(&tasks, lookup.lock_wait, reads).await?;
        let locked_out = locked_out(&tasks, &loaded);
        let mut found = Found::of(&lookup, owners, loaded);
        let plans = self.read_plans(lookup.runs, &locked_out).await?;
        found.runs = self.run_records(lookup.runs, &runs, &plans, &locked_out);
        found.step_specs = plans.specs;
        found.messages = self.saved_messages(lookup.messages, &locked_out).await?;
        found.objects = self.load_objects(lookup.objects, lookup.lock_wait).await?;
        found.unique_objects = self.load_unique_objects(lookup.unique_objects).await?;
        found.spend = self.load_spend(lookup.spend).await?;
        found.logs = self.load_logs(lookup.logs).await?;
        found.listed = self.list_objects(lookup.listed).await?;
        found.closed = self.closed_attempts(lookup.leases).await?;
        found.flows = self.flow_uses(lookup.flows).await?;
        found.debounced = self.load_debounced(lookup.debounced, lookup.lock_wait).await?;
        found.leased = self.leased_to_polls(lookup.polls).await?;
        if lookup.shortest_lease {
            found.shortest_lease = self.read_shortest_lease().await?;
        }
        Ok(found)
    }

    async fn moment(&mut self) -> Result<Moment, Failure> {
        let now = self.read_clock().await?;
        // Asked after the clock was read, because reading it notices a failover.
        Ok(Moment { now, epoch: self.writer.shared.primary.epoch(), rules: self.rules })
    }

    async fn save(&mut self, decided: Decided) -> Result<(), Failure> {
        let Decided {
            changes,
            refused,
            forgotten,
            messages,
            objects,
            mut spend,
            mut logs,
            keep_alive,
        } = decided;
        self.spend.append(&mut spend);
        self.logs.append(&mut logs);
        let now = self.now.unwrap_or_else(|| self.writer.shared.clock.now());
        for change in changes {
            self.flows.add_starts(starts_of(&change, now));
            self.pending.save(change)?;
        }
        self.pending.refuse(refused);
        self.keep_alive |= keep_alive;
        if !messages.is_empty() {
            self.change_messages(messages).await?;
        }
        if !objects.is_empty() {
            self.change_objects(objects).await?;
        }
        if forgotten.is_empty() {
            return Ok(());
        }
        self.forget_ended(&forgotten).await
    }

    async fn backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        claimable: Claimable,
    ) -> Result<Vec<Backlog>, Failure> {
        match claimable {
            Claimable::Likely => Ok(self.known_backlogs(polled)),
            Claimable::By(now) => {
                self.has_looked_for_ready = true;
                self.tend_flows().await?;
                Ok(self.find_backlogs(polled, now).await)
            }
        }
    }

    async fn ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> Result<Vec<Vec<TaskWithSpec>>, Failure> {
        self.has_looked_for_ready = true;
        self.tend_flows().await?;
        self.take_ready(wants, now).await
    }

    async fn most_urgent(
        &mut self,
        queues: &[(Scope, Name)],
        now: Time,
    ) -> Result<Vec<Option<i32>>, Failure> {
        self.read_most_urgent(queues, now).await
    }

    async fn select(&mut self, selection: Selection, limit: usize) -> Result<Vec<Task>, Failure> {
        match selection {
            Selection::Due { now } => self.due(now, limit).await,
            Selection::Running { after } => self.running(after, limit).await,
        }
    }

    async fn addressees(&mut self, now: Time, limit: usize) -> Result<Vec<TaskKey>, Failure> {
        self.list_addressees(now, limit).await
    }

    async fn due_objects(&mut self, now: Time, limit: usize) -> Result<Vec<Object>, Failure> {
        self.list_due_objects(now, limit).await
    }

    async fn ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> Result<Vec<EndedTask>, Failure> {
        self.list_ended(after, limit).await
    }

    fn paused(&self) -> &PausedQueues {
        &self.pauses.paused
    }

    fn settings_version(&self) -> i64 {
        self.pauses.version
    }

    async fn commit(mut self) -> Result<(), CommitFailure> {
        commit::commit(&mut self).await
    }
}

/// The tasks that another writer has locked, or that the batch may not read.
fn locked_out(tasks: &[TaskKey], loaded: &[Loaded]) -> HashSet<TaskId> {
    let pairs = tasks.iter().zip(loaded);
    pairs.filter(|(_, loaded)| **loaded == Loaded::Locked).map(|(task, _)| task.id).collect()
}

impl Drop for PostgresBatch<'_> {
    fn drop(&mut self) {
        let tended = self.flows.take_tended();
        let mut memory = self.writer.shared.memory();
        memory.flows.add(tended);
        memory.candidates.release(self.number);
    }
}
