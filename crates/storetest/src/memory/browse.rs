//! Reading committed state. Each call holds the tables until it returns: one snapshot.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use store::administration::{AdministrationRows, AuditFilter, Audited};
use store::browse::{Browse, RowsAfter, ScanDepth};
use store::clock::MonotonicClock;
use store::failure::Failure;
use store::logs::{LogRow, LogsOf};
use store::objects::{ObjectChange, ObjectFilter, ObjectLogFilter};
use store::pauses::PausedQueues;
use store::record_seals::{EndedRecord, EndedRecords, RecordSeal, SealFilter};
use store::row::{
    Ahead, Bodies, Entry, Filter, FlowFilter, FlowKeyRow, HeldLeases, Listed, Listing, PageStop,
    QueueDepth, Refused, StoredTask, TaskBundle, TaskKey, TaskRows,
};
use store::row_size::{self, ByteBudget};
use store::runs::{MessageKey, SavedMessage};
use store::spend::{SpendQuery, SpendRow};
use verdict::event::{Event, Submitted};
use verdict::run::Lineage;
use verdict::scope_budget::Day;
use verdict::{
    Amounts, Category, ClosedAttempt, Json, Lease, Name, Object, RunState, Scope, Subject, Task,
    TaskId, Time,
};

use super::held_reads::HeldReads;
use super::tables::{Shared, Tables};
use super::{flows, lock};

#[derive(Clone)]
pub struct MemoryBrowse {
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) reading: MonotonicClock,
    held: Arc<HeldReads>,
}

impl MemoryBrowse {
    pub(super) fn new(shared: Arc<Mutex<Shared>>, reading: MonotonicClock) -> Self {
        Self { shared, reading, held: Arc::default() }
    }

    fn read<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        read(&lock(&self.shared).tables)
    }

    /// The rows of a task, if it belongs to the caller's scope.
    fn rows_of<T>(&self, key: &TaskKey, read: impl FnOnce(&Tables) -> Vec<T>) -> Vec<T> {
        let mut shared = lock(&self.shared);
        let tables = &shared.tables;
        let rows = tables.find(key).map_or_else(Vec::new, |_| read(tables));
        shared.rows_read += rows.len() as u64;
        rows
    }

    fn history(&self, key: &TaskKey, after: u32, limit: usize) -> Vec<Entry> {
        let range = (Bound::Excluded((key.id, after)), Bound::Included((key.id, u32::MAX)));
        self.rows_of(key, |tables| {
            if after == u32::MAX {
                return Vec::new();
            }
            let entries = tables.history.range(range).take(limit).map(|(_, entry)| entry.clone());
            row_size::take_fitting(entries.collect(), ByteBudget::page(), row_size::entry)
        })
    }

    fn attempts(&self, key: &TaskKey, after: u32, limit: usize) -> Vec<ClosedAttempt> {
        let range = (key.id, after.saturating_add(1))..=(key.id, u32::MAX);
        self.rows_of(key, |tables| {
            let attempts = tables.attempts.range(range).take(limit).map(|row| row.1.clone());
            row_size::take_fitting(attempts.collect(), ByteBudget::page(), row_size::closed)
        })
    }

    fn refused(&self, key: &TaskKey, after: Option<&Refused>, limit: usize) -> Vec<Refused> {
        self.rows_of(key, |tables| {
            let all: Vec<&Refused> =
                tables.refused.iter().filter(|refused| refused.task == *key).collect();
            let place = |after| all.iter().position(|refused| *refused == after);
            let seen = after.map_or(0, |after| place(after).map_or(all.len(), |place| place + 1));
            all.into_iter().skip(seen).take(limit).cloned().collect()
        })
    }

    fn all_tasks(&self, after: Option<TaskId>, limit: usize) -> Vec<StoredTask> {
        self.read(|tables| {
            let ids = tables.ids().into_iter().filter(|id| after.is_none_or(|after| *id > after));
            ids.take(limit).map(|id| tables.found(id)).collect()
        })
    }

    /// How many entries, attempts and refusals were returned so far: the cost of reading, for tests.
    pub fn rows_read(&self) -> u64 {
        lock(&self.shared).rows_read
    }

    /// Holds up reads of a task's rows from now on, or lets them go.
    pub fn hold_rows(&self, is_held: bool) {
        self.held.hold(is_held);
    }

    /// Returns when so many reads are held up.
    pub async fn until_held(&self, reads: usize) {
        self.held.until_inside(reads).await;
    }

    /// How many reads are held up now.
    pub fn held_now(&self) -> usize {
        self.held.inside()
    }
}

impl Browse for MemoryBrowse {
    async fn find(&self, key: &TaskKey) -> Result<Option<StoredTask>, Failure> {
        Ok(self.read(|tables| tables.find(key).map(|_| tables.found(key.id))))
    }

    async fn list(&self, scope: &Scope, filter: &Filter) -> Result<Listing, Failure> {
        Ok(self.read(|tables| list(tables, scope, filter)))
    }

    async fn rows(
        &self,
        key: &TaskKey,
        after: RowsAfter<'_>,
        limit: usize,
    ) -> Result<TaskRows, Failure> {
        self.held.pass().await;
        match after {
            RowsAfter::Entry(n) => Ok(self.history(key, n, limit).into()),
            RowsAfter::Attempt(n) => Ok(self.attempts(key, n, limit).into()),
            RowsAfter::Refusal(last) => Ok(self.refused(key, last, limit).into()),
            _ => Ok(self.read(|tables| {
                let records = tables.find(key).and_then(|_| tables.runs.get(&key.id));
                records.map_or_else(TaskRows::default, |records| records.rows(after, limit))
            })),
        }
    }

    async fn queues(&self, scope: Option<&Scope>) -> Result<Vec<QueueDepth>, Failure> {
        let now = self.reading.now();
        Ok(self.read(|tables| {
            let mut depths = BTreeMap::new();
            let parked = flows::parked(tables.live.values(), &tables.flow_starts(), now);
            let wanted = |task: &&Task| scope.is_none_or(|scope| task.scope == *scope);
            for task in tables.live.values().filter(wanted) {
                count(&mut depths, task, parked.contains(&task.id), now);
            }
            depths.into_values().collect()
        }))
    }

    async fn leaves_queues(&self, root: &TaskKey, queues: &[Name]) -> Result<bool, Failure> {
        Ok(self.read(|tables| {
            let is_of_run = |scope: &Scope, run: &Option<Box<RunState>>| {
                let lineage = run.as_ref().and_then(|run| run.lineage.as_ref());
                *scope == root.scope && lineage.and_then(Lineage::run) == Some(root.id)
            };
            let live = tables.live.values().filter(|it| is_of_run(&it.scope, &it.run));
            let done = tables.done.values().filter(|it| is_of_run(&it.scope, &it.run));
            let tasks = live.map(|it| &it.queue).chain(done.map(|it| &it.queue));
            let steps = tables.runs.get(&root.id).into_iter();
            let steps = steps.flat_map(|run| run.step_queues(&root.scope));
            tasks.chain(steps).any(|queue| !queues.contains(queue))
        }))
    }

    async fn flow_keys(&self, filter: &FlowFilter) -> Result<Vec<FlowKeyRow>, Failure> {
        let now = self.reading.now();
        Ok(self.read(|tables| {
            let starts = tables.flow_starts();
            flows::list(tables.live.values(), &starts, filter, now)
        }))
    }

    async fn held_leases(
        &self,
        scope: &Scope,
        queues: Option<&[Name]>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<HeldLeases>, Failure> {
        Ok(self.read(|tables| {
            let mut held = BTreeMap::new();
            let is_ours = |task: &&Task| {
                task.scope == *scope && queues.is_none_or(|queues| queues.contains(&task.queue))
            };
            for task in tables.live.values().filter(is_ours) {
                if let Some(lease) = task.lease() {
                    hold(&mut held, task, lease);
                }
            }
            let later =
                held.into_values().filter(|it| after.is_none_or(|after| it.worker > *after));
            later.take(limit).collect()
        }))
    }

    async fn count_ahead(&self, key: &TaskKey, limit: usize) -> Result<Ahead, Failure> {
        let now = self.reading.now();
        Ok(self.read(|tables| {
            let Some(Subject::Live(mine)) = tables.find(key).map(|_| tables.found(key.id).subject)
            else {
                return Ahead::default();
            };
            let place = |task: &Task| (Reverse(task.priority), task.id);
            let is_ahead = |task: &&Task| {
                (&task.scope, task.offered_in()) == (&mine.scope, mine.offered_in())
                    && task.claimable_at().is_some_and(|due| due.has_come(now))
                    && place(task) < place(&mine)
            };
            let mut ahead = Ahead::default();
            for task in tables.live.values().filter(is_ahead).take(limit) {
                match task.kind == mine.kind {
                    true => ahead.of_kind += 1,
                    false => ahead.of_others += 1,
                }
            }
            ahead
        }))
    }

    async fn administration(&self) -> Result<AdministrationRows, Failure> {
        Ok(self.read(|tables| AdministrationRows {
            api_keys: tables.api_keys.values().cloned().collect(),
            tenant_limits: tables.tenant_limits.values().cloned().collect(),
            ring: tables.ring.clone(),
            coordinators: 1,
        }))
    }

    async fn paused_queues(&self) -> Result<PausedQueues, Failure> {
        Ok(self.read(|tables| tables.paused.clone()))
    }

    async fn saved_messages(
        &self,
        after: Option<&MessageKey>,
        limit: usize,
    ) -> Result<Vec<SavedMessage>, Failure> {
        Ok(self.read(|tables| {
            let later = tables.messages.iter();
            let later = later.filter(|(key, _)| after.is_none_or(|after| *key > after));
            later.take(limit).map(|(_, message)| message.clone()).collect()
        }))
    }

    async fn objects(&self, filter: &ObjectFilter) -> Result<Vec<Object>, Failure> {
        Ok(self.read(|tables| tables.objects.list(filter)))
    }

    async fn object_log(&self, filter: &ObjectLogFilter) -> Result<Vec<ObjectChange>, Failure> {
        Ok(self.read(|tables| tables.objects.read_log(filter)))
    }

    async fn spend(&self, wanted: &[SpendQuery]) -> Result<Vec<Amounts>, Failure> {
        Ok(self.read(|tables| wanted.iter().map(|query| tables.spent(query)).collect()))
    }

    async fn spend_rows(
        &self,
        after: Option<&(Scope, Day)>,
        limit: usize,
    ) -> Result<Vec<SpendRow>, Failure> {
        Ok(self.read(|tables| tables.spend_rows(after, limit)))
    }

    async fn logs(&self, of: &LogsOf, limit: usize) -> Result<Vec<LogRow>, Failure> {
        Ok(self.read(|tables| tables.log_rows(of, limit)))
    }

    async fn audit(&self, filter: &AuditFilter) -> Result<Vec<Audited>, Failure> {
        Ok(self.read(|tables| {
            let numbered =
                tables.audit.iter().enumerate().rev().map(|(i, audit)| (i as u64 + 1, audit));
            let wanted = numbered.filter(|(n, audit)| {
                filter.before.is_none_or(|before| *n < before)
                    && filter.tenant.as_ref().is_none_or(|tenant| *tenant == audit.scope.tenant)
                    && filter.workspace.as_ref().is_none_or(|it| *it == audit.scope.workspace)
            });
            let page = wanted.take(filter.limit);
            page.map(|(n, audit)| Audited { n, audit: audit.clone() }).collect()
        }))
    }

    async fn record_seals(&self, filter: &SealFilter) -> Result<Vec<RecordSeal>, Failure> {
        Ok(self.read(|tables| tables.seals(filter)))
    }

    async fn ended_records(&self, of: &EndedRecords) -> Result<Vec<EndedRecord>, Failure> {
        Ok(self.read(|tables| tables.ended(of)))
    }

    async fn latest(&self) -> Result<Option<TaskId>, Failure> {
        Ok(self.read(|tables| tables.ids().last().copied()))
    }

    async fn scan(
        &self,
        after: Option<TaskId>,
        limit: usize,
        depth: ScanDepth,
    ) -> Result<Vec<TaskBundle>, Failure> {
        match depth {
            ScanDepth::Task => {
                let found = self.all_tasks(after, limit);
                Ok(found.into_iter().map(TaskBundle::without_rows).collect())
            }
            ScanDepth::AllRows => store::browse::bundles(self, self.all_tasks(after, limit)).await,
        }
    }

    async fn integrity(&self) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }
}

fn list(tables: &Tables, scope: &Scope, filter: &Filter) -> Listing {
    let newest_first = tables.ids().into_iter().rev().map(|id| tables.found(id));
    let ours = newest_first.filter(|found| found.subject.scope() == Some(scope));
    let older = ours.filter(|found| filter.before.is_none_or(|before| found.key().id < before));
    let older = older.filter(|found| filter.from.is_none_or(|from| found.key().id >= from));
    let mut budget = ByteBudget::new(filter.bytes);
    let (mut tasks, mut last) = (Vec::new(), None);
    for (scanned, found) in older.enumerate() {
        if tasks.len() == filter.limit {
            return Listing { tasks, next: last, stopped: None };
        }
        if scanned == filter.scan_max {
            return Listing { tasks, next: last, stopped: Some(PageStop::Scan) };
        }
        let id = found.key().id;
        let worker = worker(tables, &found);
        if matches(&found, worker.as_ref(), filter) {
            let found = without_bodies(found, filter.bodies);
            if !budget.takes(row_size::task(&found)) {
                return Listing { tasks, next: last, stopped: Some(PageStop::Bytes) };
            }
            tasks.push(Listed { task: found, submitted: submitted(tables, id), worker });
        }
        last = Some(id);
    }
    Listing { tasks, next: None, stopped: None }
}

/// The submission that the first entry of a task's history records.
fn submitted(tables: &Tables, id: TaskId) -> Option<Submitted> {
    let first = tables.history.get(&(id, 1))?;
    first.events.iter().find_map(Event::submitted).cloned()
}

fn without_bodies(mut found: StoredTask, bodies: Bodies) -> StoredTask {
    if !bodies.input {
        found.spec.input = Json::from("null");
    }
    if let Subject::Done(done) = &mut found.subject {
        if !bodies.output {
            done.end.output = None;
        }
        if let (false, Some(fault)) = (bodies.stack_trace, &mut done.end.fault) {
            fault.stack_trace = None;
        }
    }
    found
}

/// The worker that holds the lease, or had the latest attempt.
fn worker(tables: &Tables, found: &StoredTask) -> Option<Name> {
    let holder = match &found.subject {
        Subject::Live(task) => task.lease().map(|lease| lease.owner.clone()),
        Subject::Done(_) | Subject::Absent => None,
    };
    let id = found.key().id;
    let latest = || tables.attempts.range((id, 0)..=(id, u32::MAX)).next_back();
    holder.or_else(|| latest().map(|(_, closed)| closed.owner.clone()))
}

fn matches(found: &StoredTask, worker: Option<&Name>, filter: &Filter) -> bool {
    let (queue, kind) = match &found.subject {
        Subject::Live(task) => (&task.queue, &task.kind),
        Subject::Done(done) => (&done.queue, &done.kind),
        Subject::Absent => unreachable!("what was found is there"),
    };
    (filter.children || found.subject.run_id() == Some(found.key().id))
        && filter.state.is_none_or(|state| found.subject.state() == Some(state))
        && filter.queue.as_ref().is_none_or(|wanted| queue == wanted)
        && filter.queues.as_ref().is_none_or(|allowed| allowed.contains(queue))
        && filter.kind.as_ref().is_none_or(|wanted| kind == wanted)
        && filter.labels.iter().all(|label| label.matches(&found.spec.labels))
        && filter.worker.as_ref().is_none_or(|wanted| worker == Some(wanted))
        && filter.category.is_none_or(|category| has_failed_with(found, category))
}

fn has_failed_with(found: &StoredTask, category: Category) -> bool {
    match &found.subject {
        Subject::Done(done) => {
            done.end.fault.as_ref().is_some_and(|fault| fault.category == category)
        }
        Subject::Live(_) | Subject::Absent => false,
    }
}

/// The leases of one worker at one queue, with one more.
fn hold(held: &mut BTreeMap<(Name, Name), HeldLeases>, task: &Task, lease: &Lease) {
    let place = (lease.owner.clone(), task.queue.clone());
    let known = held.entry(place).or_insert_with(|| HeldLeases {
        worker: lease.owner.clone(),
        queue: task.queue.clone(),
        count: 0,
        oldest_acquired_at: lease.acquired_at,
        latest_heartbeat_at: lease.heartbeat_at,
        next_expires_at: lease.expires_at,
    });
    known.count += 1;
    known.oldest_acquired_at = known.oldest_acquired_at.min(lease.acquired_at);
    known.latest_heartbeat_at = known.latest_heartbeat_at.max(lease.heartbeat_at);
    known.next_expires_at = known.next_expires_at.min(lease.expires_at);
}

fn count(
    depths: &mut BTreeMap<(Scope, Name), QueueDepth>,
    task: &Task,
    is_parked: bool,
    now: Time,
) {
    let place = (task.scope.clone(), task.queue.clone());
    let depth = depths.entry(place).or_insert_with(|| QueueDepth {
        scope: task.scope.clone(),
        queue: task.queue.clone(),
        ready: 0,
        parked: 0,
        delayed: 0,
        running: 0,
        unfinished: 0,
        runs: 0,
        oldest_ready_at: None,
    });
    depth.unfinished += 1;
    depth.runs += u64::from(task.run_id() == task.id);
    depth.running += u64::from(task.lease().is_some());
    match task.claimable_at() {
        None => {}
        Some(at) if at.has_come(now) && is_parked => depth.parked += 1,
        Some(at) if at.has_come(now) => {
            depth.ready += 1;
            depth.oldest_ready_at = Some(depth.oldest_ready_at.map_or(at, |oldest| oldest.min(at)));
        }
        Some(_) => depth.delayed += 1,
    }
}
