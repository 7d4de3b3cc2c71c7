//! Reading concurrently with the writers. Every call sees one snapshot of committed state.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;

use verdict::scope_budget::Day;
use verdict::{Amounts, ClosedAttempt, Name, Object, ObjectType, Scope, TaskId};

use crate::administration::{AdministrationRows, AuditFilter, Audited};
use crate::codec::payload_digest;
use crate::failure::Failure;
use crate::logs::{LogRow, LogsOf};
use crate::objects::{ObjectChange, ObjectFilter, ObjectLogFilter, PendingObjects};
use crate::overview::{TaskOverview, latest_closed};
use crate::pauses::PausedQueues;
use crate::record_seals::{EndedRecord, EndedRecords, RecordSeal, SealFilter};
use crate::row::{
    Ahead, Filter, FlowFilter, FlowKeyRow, HeldLeases, Listing, QueueDepth, Refused, StoredTask,
    TaskBundle, TaskKey, TaskRows,
};
use crate::row_size::{self, ByteBudget};
use crate::runs::{MessageKey, RecordsOf, RunRecord, SavedMessage, records};
use crate::spend::{SpendQuery, SpendRow};

/// Objects that are read at once where an engine has no statement that counts them.
const COUNTED_PER_PAGE: usize = 1_000;

pub trait Browse: Clone + Send + Sync + 'static {
    /// One task as readers see it.
    fn find(
        &self,
        key: &TaskKey,
    ) -> impl Future<Output = Result<Option<StoredTask>, Failure>> + Send;

    /// One task with the rows that a view of its run shows, at most `refused_max` refused calls among them.
    fn overview(
        &self,
        key: &TaskKey,
        refused_max: usize,
    ) -> impl Future<Output = Result<Option<TaskOverview>, Failure>> + Send {
        async move {
            let Some(task) = self.find(key).await? else { return Ok(None) };
            let first = self.rows(key, RowsAfter::Entry(0), 1).await?.history.into_iter().next();
            let latest = match latest_closed(&task.subject) {
                Some(closed) => self.rows(key, RowsAfter::Attempt(closed - 1), 1).await?.attempts,
                None => Vec::new(),
            };
            let refused = self.rows(key, RowsAfter::Refusal(None), refused_max).await?.refused;
            Ok(Some(TaskOverview { task, first, latest: latest.into_iter().next(), refused }))
        }
    }

    /// A page of runs for people: newest first, live and done together, at most `filter.limit`. Reads only rows of the
    /// scope.
    fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
    ) -> impl Future<Output = Result<Listing, Failure>> + Send;

    /// A page of the rows that belong to one task: of one kind, after the given row, at most `limit`. A page that
    /// reaches its limit of bytes ends early, but has at least one row if there is one: only an empty page is the last.
    fn rows(
        &self,
        key: &TaskKey,
        after: RowsAfter<'_>,
        limit: usize,
    ) -> impl Future<Output = Result<TaskRows, Failure>> + Send;

    /// Whether the run of `root` has a descendant, or a step of its plan that is to become one, in another queue than these. The
    /// queue of the root itself is not looked at.
    fn leaves_queues(
        &self,
        root: &TaskKey,
        queues: &[Name],
    ) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Flow keys that live tasks of a scope have, in order of their names.
    fn flow_keys(
        &self,
        filter: &FlowFilter,
    ) -> impl Future<Output = Result<Vec<FlowKeyRow>, Failure>> + Send;

    /// How full every queue with live tasks is, of one scope or of all scopes.
    fn queues(
        &self,
        scope: Option<&Scope>,
    ) -> impl Future<Output = Result<Vec<QueueDepth>, Failure>> + Send;

    /// Which workers of a scope hold leases, by worker and queue, in order of their names, at most `limit` pairs.
    /// Only of `queues`, if it is given. Begins after the worker `after`.
    fn held_leases(
        &self,
        scope: &Scope,
        queues: Option<&[Name]>,
        after: Option<&Name>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<HeldLeases>, Failure>> + Send;

    /// How many unfinished runs each of these tenants has, through all coordinators: the use of a quota, for people.
    fn unfinished(
        &self,
        tenants: &[Name],
    ) -> impl Future<Output = Result<Vec<u64>, Failure>> + Send {
        async move {
            let mut unfinished: HashMap<Name, u64> = HashMap::new();
            for depth in self.queues(None).await? {
                *unfinished.entry(depth.scope.tenant).or_default() += depth.runs;
            }
            let count = |tenant| unfinished.get(tenant).copied().unwrap_or(0);
            Ok(tenants.iter().map(count).collect())
        }
    }

    /// How many tasks of the same queue would be leased before this waiting one: ready tasks with a higher
    /// priority, or with the same priority and older. Counts up to `limit` in all.
    fn count_ahead(
        &self,
        key: &TaskKey,
        limit: usize,
    ) -> impl Future<Output = Result<Ahead, Failure>> + Send;

    /// How many objects there are about which something is still to be done, by type and status, over all scopes.
    fn count_pending_objects(
        &self,
    ) -> impl Future<Output = Result<Vec<PendingObjects>, Failure>> + Send {
        async move {
            let mut filter = ObjectFilter {
                is_pending: true,
                limit: COUNTED_PER_PAGE,
                ..ObjectFilter::default()
            };
            let mut counts: BTreeMap<(ObjectType, Name), u64> = BTreeMap::new();
            loop {
                let page = self.objects(&filter).await?;
                for Object { key, status, .. } in &page {
                    *counts.entry((key.object_type, status.clone())).or_default() += 1;
                }
                match page.last() {
                    Some(last) => filter.after = Some(last.key.clone()),
                    None => return Ok(counts.into_iter().map(PendingObjects::from).collect()),
                }
            }
        }
    }

    /// Keys, limits and what else coordinators share beside tasks.
    fn administration(&self) -> impl Future<Output = Result<AdministrationRows, Failure>> + Send;

    /// The queues that are paused, of all scopes.
    fn paused_queues(&self) -> impl Future<Output = Result<PausedQueues, Failure>> + Send;

    /// Waits until every batch of any writer that was given other paused queues or endpoints than those now stored has ended.
    /// Returns at once where a batch cannot pass its check before a change and commit after it.
    fn settings_in_force(&self) -> impl Future<Output = Result<(), Failure>> + Send {
        std::future::ready(Ok(()))
    }

    /// A page of what a durable run recorded, in commit order, with the signals that waits took and the ends of children.
    /// At most `limit`; a page that reaches its limit of bytes ends early, and only an empty one is the last. Records
    /// never change, so they need no snapshot.
    fn records(
        &self,
        key: &TaskKey,
        of: RecordsOf<'_>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<RunRecord>, Failure>> + Send {
        records::read(self, key, of, limit)
    }

    /// Saved messages of all scopes after this one, in the order of their keys, parked ones included, at most `limit`.
    fn saved_messages(
        &self,
        after: Option<&MessageKey>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<SavedMessage>, Failure>> + Send;

    /// A page of objects in the order of their keys, at most `filter.limit`. Reads only rows of the scope, if one is given.
    fn objects(
        &self,
        filter: &ObjectFilter,
    ) -> impl Future<Output = Result<Vec<Object>, Failure>> + Send;

    /// A page of the changes of one object or of all, at most `filter.limit`.
    fn object_log(
        &self,
        filter: &ObjectLogFilter,
    ) -> impl Future<Output = Result<Vec<ObjectChange>, Failure>> + Send;

    /// What was used, by each of these.
    fn spend(
        &self,
        wanted: &[SpendQuery],
    ) -> impl Future<Output = Result<Vec<Amounts>, Failure>> + Send;

    /// The sums of all scopes and days after this one, in their order, at most `limit`.
    fn spend_rows(
        &self,
        after: Option<&(Scope, Day)>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<SpendRow>, Failure>> + Send;

    /// A page of logs, at most `limit` pieces.
    fn logs(
        &self,
        of: &LogsOf,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<LogRow>, Failure>> + Send;

    /// Records of administration and of refusals, newest first, at most `filter.limit`.
    fn audit(
        &self,
        filter: &AuditFilter,
    ) -> impl Future<Output = Result<Vec<Audited>, Failure>> + Send;

    /// Seals over records of ended tasks, at most `filter.limit`.
    fn record_seals(
        &self,
        filter: &SealFilter,
    ) -> impl Future<Output = Result<Vec<RecordSeal>, Failure>> + Send;

    /// Ended tasks of all scopes as the sealer of records reads them.
    fn ended_records(
        &self,
        of: &EndedRecords,
    ) -> impl Future<Output = Result<Vec<EndedRecord>, Failure>> + Send;

    /// The largest task id of all scopes: a reader of the whole store stops there while writers continue.
    fn latest(&self) -> impl Future<Output = Result<Option<TaskId>, Failure>> + Send;

    /// Tasks of all scopes in order of id, after `after`, for checking or copying a store. A page that reaches its
    /// limit of bytes ends early. The rows of a task with a very long history are left to [`row_pages`].
    fn scan(
        &self,
        after: Option<TaskId>,
        limit: usize,
        depth: ScanDepth,
    ) -> impl Future<Output = Result<Vec<TaskBundle>, Failure>> + Send;

    /// The engine's own check of its files: one sentence per problem, none when the files are intact.
    fn integrity(&self) -> impl Future<Output = Result<Vec<String>, Failure>> + Send;
}

/// Which rows of a task to read, and the row before the page.
#[derive(Clone, Copy, Debug)]
pub enum RowsAfter<'a> {
    /// History entries numbered above this.
    Entry(u32),
    /// Closed attempts numbered above this.
    Attempt(u32),
    /// Refusals in order of arrival; `None` begins with the first.
    Refusal(Option<&'a Refused>),
    /// Checkpoints numbered above this, with results. A worker begins after its task's last savepoint
    /// ([`verdict::RunState::savepoint`]).
    Checkpoint(u32),
    /// Children with a key after this, in order of their keys.
    Child(Option<&'a Name>),
    /// Children numbered above this, in the order in which they were started.
    Started(u32),
    /// Checkpoints and children under these keys, in the order of their numbers.
    Keys(&'a [Name]),
    /// Steps of a plan from this place on, in the order of the plan.
    Step(u32),
    /// The step of a plan under this key.
    StepKey(&'a Name),
    /// Signals numbered above this, taken or not.
    Signal(u32),
    /// Signals numbered above this that were not taken.
    PendingSignal(u32),
}

/// How much of each task a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanDepth {
    /// The task alone.
    Task,
    /// The task with all rows that belong to it.
    AllRows,
}

/// How many entries, attempts or refusals are read at once.
const PARTS: usize = 500;

/// The leading tasks that can be read together with all rows that belong to them.
pub(crate) fn fitting_one_read(found: Vec<StoredTask>) -> Vec<StoredTask> {
    row_size::take_fitting(
        found,
        ByteBudget::new(row_size::BUNDLE_BYTES_MAX),
        row_size::estimated_total,
    )
}

/// Tasks with their rows, as many as fit, for an engine that has no faster way.
pub async fn bundles<B: Browse>(
    browse: &B,
    found: Vec<StoredTask>,
) -> Result<Vec<TaskBundle>, Failure> {
    let mut task_bundles = Vec::new();
    for found in fitting_one_read(found) {
        task_bundles.push(bundle(browse, found).await?);
    }
    Ok(task_bundles)
}

/// A task with its rows, read in several snapshots.
pub(crate) async fn bundle<B: Browse>(
    browse: &B,
    found: StoredTask,
) -> Result<TaskBundle, Failure> {
    if !row_size::fits_one_read(&found) {
        return Ok(TaskBundle::without_rows(found));
    }
    let mut whole = TaskRows::default();
    let mut reading = row_pages(browse, &found);
    while let Some(part) = reading.next().await? {
        whole.extend(part);
    }
    Ok(TaskBundle { task: found, rows: Some(whole) })
}

/// Reads the rows of a task a page at a time: the steps of its plan, its history with the attempts that it closed, then the refusals, then
/// checkpoints, children and signals. Entries that were added after the task was found are left out.
pub(crate) fn row_pages<'b, B: Browse>(browse: &'b B, found: &'b StoredTask) -> RowPages<'b, B> {
    let stage = match found.step_count() {
        0 => Stage::History { after: 0 },
        _ => Stage::Steps { from: 0 },
    };
    RowPages { browse, found, key: found.key(), attempt: 0, stage }
}

/// See [`row_pages`].
pub(crate) struct RowPages<'b, B> {
    browse: &'b B,
    found: &'b StoredTask,
    key: TaskKey,
    /// The last attempt that was read.
    attempt: u32,
    stage: Stage,
}

enum Stage {
    Steps { from: u32 },
    History { after: u32 },
    Attempts,
    Refused { after: Option<Refused> },
    Checkpoints { after: u32 },
    Children { after: Option<Name> },
    Signals { after: u32 },
    Over,
}

impl<B: Browse> RowPages<'_, B> {
    /// The next page; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<TaskRows>, Failure> {
        loop {
            let page = match &self.stage {
                Stage::Steps { from } => self.next_steps(*from).await?,
                Stage::History { after } => self.next_entries(*after).await?,
                Stage::Attempts => self.stray_attempts().await?,
                Stage::Refused { after } => self.next_refused(after.clone()).await?,
                Stage::Checkpoints { after } => self.next_checkpoints(*after).await?,
                Stage::Children { after } => self.next_children(after.clone()).await?,
                Stage::Signals { after } => self.next_signals(*after).await?,
                Stage::Over => return Ok(None),
            };
            if page != TaskRows::default() {
                return Ok(Some(page));
            }
        }
    }

    async fn next_steps(&mut self, from: u32) -> Result<TaskRows, Failure> {
        let page = self.browse.rows(&self.key, RowsAfter::Step(from), PARTS).await?;
        self.stage = match page.steps.last() {
            Some(last) => Stage::Steps { from: last.place + 1 },
            None => Stage::History { after: 0 },
        };
        Ok(page)
    }

    async fn next_entries(&mut self, after: u32) -> Result<TaskRows, Failure> {
        let page = self.browse.rows(&self.key, RowsAfter::Entry(after), PARTS).await?;
        let mut history = page.history;
        if history.iter().any(|entry| entry.n > self.found.row_counts().0)
            && self.has_moved().await?
        {
            history.retain(|entry| entry.n <= self.found.row_counts().0);
        }
        self.stage = match history.last() {
            Some(last) => Stage::History { after: last.n },
            None => Stage::Attempts,
        };
        let closed = history.iter().flat_map(payload_digest::closed_attempts).max().unwrap_or(0);
        let mut attempts = Vec::new();
        // Together they are no larger than the entries that closed them.
        while self.attempt < closed {
            let page = self.page_of_attempts(closed).await?;
            if page.is_empty() {
                break;
            }
            attempts.extend(page);
        }
        Ok(TaskRows { history, attempts, ..TaskRows::default() })
    }

    /// Whether a decision changed the task since it was found.
    async fn has_moved(&self) -> Result<bool, Failure> {
        let now = self.browse.find(&self.key).await?;
        Ok(now.is_none_or(|now| now.subject != self.found.subject))
    }

    async fn page_of_attempts(&mut self, last: u32) -> Result<Vec<ClosedAttempt>, Failure> {
        let after = RowsAfter::Attempt(self.attempt);
        let mut page = self.browse.rows(&self.key, after, PARTS).await?.attempts;
        page.retain(|closed| closed.attempt <= last);
        self.attempt = page.last().map_or(self.attempt, |closed| closed.attempt);
        Ok(page)
    }

    /// Attempts that the history does not close. Only a damaged store has any.
    async fn stray_attempts(&mut self) -> Result<TaskRows, Failure> {
        let after = RowsAfter::Attempt(self.attempt);
        let mut attempts = self.browse.rows(&self.key, after, PARTS).await?.attempts;
        let counted = self.found.row_counts().1;
        if attempts.iter().any(|closed| closed.attempt > counted) && self.has_moved().await? {
            attempts.retain(|closed| closed.attempt <= counted);
        }
        self.attempt = attempts.last().map_or(self.attempt, |closed| closed.attempt);
        if attempts.is_empty() {
            self.stage = Stage::Refused { after: None };
        }
        Ok(TaskRows { attempts, ..TaskRows::default() })
    }

    async fn next_refused(&mut self, after: Option<Refused>) -> Result<TaskRows, Failure> {
        let after = RowsAfter::Refusal(after.as_ref());
        let refused = self.browse.rows(&self.key, after, PARTS).await?.refused;
        self.stage = match refused.last() {
            Some(last) => Stage::Refused { after: Some(last.clone()) },
            None if self.found.record_count() == 0 => Stage::Over,
            None => Stage::Checkpoints { after: 0 },
        };
        Ok(TaskRows { refused, ..TaskRows::default() })
    }

    async fn next_checkpoints(&mut self, after: u32) -> Result<TaskRows, Failure> {
        let page = self.browse.rows(&self.key, RowsAfter::Checkpoint(after), PARTS).await?;
        self.stage = match page.checkpoints.last() {
            Some(last) => Stage::Checkpoints { after: last.number },
            None => Stage::Children { after: None },
        };
        Ok(page)
    }

    async fn next_children(&mut self, after: Option<Name>) -> Result<TaskRows, Failure> {
        let after = RowsAfter::Child(after.as_ref());
        let page = self.browse.rows(&self.key, after, PARTS).await?;
        self.stage = match page.children.last() {
            Some(last) => Stage::Children { after: Some(last.child.key.clone()) },
            None => Stage::Signals { after: 0 },
        };
        Ok(page)
    }

    async fn next_signals(&mut self, after: u32) -> Result<TaskRows, Failure> {
        let page = self.browse.rows(&self.key, RowsAfter::Signal(after), PARTS).await?;
        self.stage = match page.signals.last() {
            Some(last) => Stage::Signals { after: last.signal.number },
            None => Stage::Over,
        };
        Ok(page)
    }
}
