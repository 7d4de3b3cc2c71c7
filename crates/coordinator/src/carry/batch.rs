//! One batch: load, decide, sweep, grant, save, commit.
//!
//! [`OpenBatch::carry`] runs all steps in order. The rules decide ([`WorkingSet`]). The commit loop
//! ([`super::commit`]) handles batches that fail, and only it sends answers.
//!
//! Invariants:
//! - The store's clock is read once per batch, after the tasks are loaded. Only a batch that extends leases after a
//!   stall reads it earlier, before it loads the tasks.
//! - After a stall, a lease is extended before anything else is decided about it.
//! - Requests are decided before the sweep, so a report or heartbeat of the batch takes effect before its lease
//!   expires.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use store::{
    Batch, CancelHint, Change, CommitFailure, Decided, Failure, FailureKind, LockWait, Selection,
    SpendRow,
};
use verdict::fork::RECORDS_PER_REQUEST_MAX;
use verdict::log;
use verdict::request::Extend;
use verdict::run::{ChildCall, Inherit, Inherited, RunRequest};
use verdict::scope_budget::Day;
use verdict::{
    Answer, ClosedAttempt, Digest, Moment, Object, Reason, Request, Subject, TaskId, Time,
};

use super::deploying::Deploying;
use super::next_stage::{leased_next, with_next_lease};
use super::polls::{Polls, RoundResult};
use super::recovery::{Recovering, Reported};
use super::role::CarrierRole;
use super::stall::{self, StallAction, StallDetector, StallStatus};
use super::working_set::{ForkRequests, SubmissionPayload, WorkingSet};
use crate::allowances::{self, Allowances, Moved};
use crate::batch_metrics::BatchMetrics;
use crate::ids::Ids;
use crate::item::{Answered, Fork, ForkItem, Item, Submission};
use crate::outbox::EndpointDirectory;
use crate::recent_runs::RecentRuns;
use crate::recovery::RecoveryDirectory;
use crate::task_watch::{EndedTask, TaskWatchers};
use crate::topologies::TopologyDirectory;
use crate::trace::TraceEvent;
use crate::weight::{BATCH_WEIGHT_MAX, EFFECT_WEIGHT};

/// Tasks swept in one batch. The rest is swept by the next batch, which follows at once.
const SWEEP_MAX: usize = 1_024;

/// Effects after which a part of a batch sweeps nothing and decides no message any more: one end may tell a hundred endpoints.
/// The rest follows at once.
const EFFECTS_MAX: usize = BATCH_WEIGHT_MAX / EFFECT_WEIGHT;

/// What a committed batch did.
#[derive(Default)]
pub(super) struct BatchResult {
    /// One per item, in order; `None` where another writer has the task locked.
    pub(super) answers: Vec<Option<Answered>>,
    /// What was granted to polls; `None` if the batch did not grant.
    pub(super) round_result: Option<RoundResult>,
    pub(super) batch_metrics: BatchMetrics,
    /// Events to export as spans.
    pub(super) trace_events: Vec<TraceEvent>,
    pub(super) changed: Vec<TaskId>,
    /// Tasks whose workers should send a heartbeat now.
    pub(super) signals: Vec<CancelHint>,
    /// Tasks that have ended: signals about them are out of date.
    pub(super) ended: Vec<TaskId>,
    /// How those ended for which callers wait.
    pub(super) awaited_ends: Vec<Arc<EndedTask>>,
    /// Tasks about which calls were refused.
    pub(super) refused: Vec<TaskId>,
    /// Objects as saved, in order. What is kept of them in memory is brought up to date from here.
    pub(super) objects: Vec<Object>,
    pub(super) moved: Moved,
    /// What was used.
    pub(super) spend: Vec<SpendRow>,
    pub(super) now: Time,
    /// Whether anything was written.
    pub(super) is_written: bool,
    pub(super) more_due: bool,
    /// Requests about objects for which time has come.
    pub(super) due_objects: Vec<Item>,
}

/// Why a batch was not committed.
pub(super) enum Aborted {
    Failed(Failure),
    Commit(CommitFailure),
    /// A rule violated an assertion.
    Defect,
    /// So much time passed before the first decision that leases must be extended first. The batch is carried again,
    /// and then extends them.
    Stalled,
}

impl From<Failure> for Aborted {
    fn from(failure: Failure) -> Self {
        Aborted::Failed(failure)
    }
}

/// A rule violated an assertion during a decision.
struct Defect;

impl From<Defect> for Aborted {
    fn from(_: Defect) -> Self {
        Aborted::Defect
    }
}

/// Whether a batch also does work that no request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackgroundWork {
    /// The background work of the carrier's role: sweeping due tasks, granting ready tasks.
    Included {
        keep_alive: bool,
        /// The largest number of tasks it may touch.
        background_max: usize,
    },
    None,
}

/// The settings of one batch.
#[derive(Clone, Copy)]
pub(super) struct BatchOptions<'a> {
    pub(super) background: BackgroundWork,
    pub(super) lock_wait: LockWait,
    pub(super) stall_status: StallStatus<'a>,
    pub(super) stall: &'a StallDetector,
    pub(super) allowances: &'a Allowances,
    pub(super) endpoints: &'a EndpointDirectory,
    pub(super) recovery: &'a RecoveryDirectory,
    pub(super) topologies: &'a TopologyDirectory,
    /// Whether to collect events for spans.
    pub(super) is_tracing: bool,
    pub(super) role: &'a CarrierRole,
    /// Tasks that are excluded from the batch.
    pub(super) set_aside: &'a BTreeSet<TaskId>,
    /// Who waits for ends.
    pub(super) watch: &'a TaskWatchers,
    pub(super) recent_runs: &'a RecentRuns,
}

impl BatchOptions<'_> {
    fn is_stalled(&self) -> bool {
        matches!(self.stall_status, StallStatus::StalledSince(_))
    }

    /// Whether the batch may wait for a row lock. Such a batch locks nothing ahead of need (it does not prefetch),
    /// because two of them could otherwise wait for each other.
    pub(super) fn may_wait_for_lock(&self) -> bool {
        self.lock_wait == LockWait::Wait || self.is_stalled()
    }
}

/// An open batch.
pub(super) struct OpenBatch<'a, B: Batch> {
    pub(super) batch: B,
    pub(super) work: WorkingSet,
    pub(super) options: BatchOptions<'a>,
    pub(super) ids: &'a mut Ids,
    pub(super) polls: &'a mut Polls,
    /// Tasks that the batch has swept and granted. Kept if the batch fails, because one of them may be the cause.
    pub(super) background_done: &'a mut Vec<TaskId>,
    /// How many messages between tasks the batch has decided.
    pub(super) messages_tried: usize,
    /// How many effects the batch has saved, and how many it had made when its present part began.
    effects_saved: usize,
    effects_before: usize,
    pub(super) result: BatchResult,
}

impl<'a, B: Batch> OpenBatch<'a, B> {
    pub(super) fn new(
        batch: B,
        options: BatchOptions<'a>,
        ids: &'a mut Ids,
        polls: &'a mut Polls,
        background_done: &'a mut Vec<TaskId>,
    ) -> Self {
        let mut work = WorkingSet::default();
        work.trace_events = options.is_tracing.then(Vec::new);
        work.paused = batch.paused().clone();
        work.policies = options.recovery.snapshot();
        work.topologies.versions = options.topologies.versions();
        let result = BatchResult { is_written: options.is_stalled(), ..BatchResult::default() };
        Self {
            batch,
            work,
            options,
            ids,
            polls,
            background_done,
            messages_tried: 0,
            effects_saved: 0,
            effects_before: 0,
            result,
        }
    }

    /// Runs all steps up to the commit.
    pub(super) async fn carry(mut self, items: &[Item]) -> Result<BatchResult, Aborted> {
        self.work.endpoints = self.options.endpoints.at(self.batch.settings_version()).await?;
        self.prepare(items).await?;
        self.extend_leases_after_stall().await?;
        self.load(items).await?;
        faultpoint::point!("batch.loaded");
        let at = self.begin_deciding().await?;
        self.load_objects(items, at).await?;
        self.load_debounced(items, at.now).await?;
        self.load_spend(items, at).await?;
        self.load_urgency(items, at).await?;
        self.load_logs(items).await?;
        self.load_recovery(items).await?;
        self.load_topologies(items, at.now).await?;
        self.decide(items, at)?;
        faultpoint::point!("batch.decided");
        self.begin_part();
        self.deliver_messages(at).await?;
        self.do_background_work(items, at).await?;
        self.save().await?;
        self.commit().await
    }

    /// Extends leases after a stall. Runs before any other row is locked, because it waits for the row locks of other
    /// writers.
    async fn extend_leases_after_stall(&mut self) -> Result<(), Aborted> {
        if let StallStatus::StalledSince(since) = self.options.stall_status {
            stall::extend_all_leases(&mut self.batch, since).await?;
            self.batch.save(Decided::keep_alive()).await?;
        }
        Ok(())
    }

    /// Reads the clock, and checks whether the time until now was a stall.
    async fn begin_deciding(&mut self) -> Result<Moment, Aborted> {
        let at = self.batch.moment().await?;
        let now = at.now;
        self.result.now = now;
        match stall::check_batch(&mut self.batch, self.options.stall_status, now).await? {
            StallAction::Proceed => {}
            StallAction::Retry => return Err(Aborted::Stalled),
            StallAction::ExtendSince(_) if faultpoint::mutant(38) => {}
            StallAction::ExtendSince(since) => {
                let work = &mut self.work;
                let request = Request::Extend(Extend::between(since, now));
                catch_panic(|| work.extend_leases(&request, at))?;
            }
        }
        self.extend_late_grants(at)?;
        Ok(at)
    }

    /// Extends loaded leases that expired before a worker could have received them; see
    /// [`StallDetector::late_grants_since`].
    fn extend_late_grants(&mut self, at: Moment) -> Result<(), Defect> {
        if !self.options.role.handles_leases() {
            self.options.stall.granting(at.now);
            return Ok(());
        }
        let Some(since) = self.options.stall.late_grants_since() else { return Ok(()) };
        let work = &mut self.work;
        catch_panic(|| work.extend_late_grants(since, at))
    }

    fn decide(&mut self, items: &[Item], at: Moment) -> Result<(), Defect> {
        let (work, ids, allowances) = (&mut self.work, &mut *self.ids, self.options.allowances);
        let decide = |item| decide_item(work, ids, item, at, allowances);
        self.result.answers = catch_panic(|| items.iter().map(decide).collect())?;
        Ok(())
    }

    /// Sweeps, grants and writes the keep-alive, as far as the batch includes them.
    async fn do_background_work(&mut self, items: &[Item], at: Moment) -> Result<(), Aborted> {
        let BackgroundWork::Included { keep_alive, background_max } = self.options.background
        else {
            return Ok(());
        };
        if self.options.role.handles_leases() && !faultpoint::mutant(41) {
            self.begin_part();
            self.sweep(at, background_max).await?;
            self.begin_part();
            self.find_saved_messages(at).await?;
            self.deliver_messages(at).await?;
            self.find_due_objects(items, at.now, background_max).await?;
            faultpoint::point!("batch.swept");
        }
        if self.options.role.grants() {
            // The store finds tasks that became ready in this batch only after they are saved.
            self.save().await?;
            self.grant(at, background_max.saturating_sub(self.background_done.len())).await?;
            faultpoint::point!("batch.granted");
        }
        if keep_alive {
            self.batch.save(Decided::keep_alive()).await?;
            self.result.is_written = true;
        }
        Ok(())
    }

    /// Decides about tasks that are due, because time has changed something for them.
    async fn sweep(&mut self, at: Moment, background_max: usize) -> Result<(), Aborted> {
        let max = background_max.min(SWEEP_MAX);
        let due = self.batch.select(Selection::Due { now: at.now }, max).await?;
        self.result.more_due = due.len() == max && !faultpoint::mutant(13);
        let late = self.options.stall.late_grants_since();
        for (key, loaded) in self.load_due(due).await? {
            if !self.has_room_for_effects() {
                self.result.more_due = true;
                break;
            }
            self.background_done.push(key.id);
            let work = &mut self.work;
            catch_task_panic(key.id, || {
                if let Some(since) = late {
                    work.extend_late_grant(&key, since, at);
                }
                work.sweep(&key, loaded, at)
            })?;
        }
        self.work.specs.clear();
        Ok(())
    }

    /// Whether this part of the batch may make more decisions that tell subscribers something. Each part has room of its own:
    /// what callers ask for, or a fan-out of messages, does not keep leases from being swept.
    pub(super) fn has_room_for_effects(&self) -> bool {
        self.effects_made() - self.effects_before < EFFECTS_MAX
    }

    fn begin_part(&mut self) {
        self.effects_before = self.effects_made();
    }

    fn effects_made(&self) -> usize {
        self.effects_saved + self.work.asked.len()
    }

    /// Passes the decisions since the last call to the store.
    pub(super) async fn save(&mut self) -> Result<(), Aborted> {
        self.effects_saved += self.work.asked.len();
        self.append_effects().await?;
        let (changes, refused) = self.work.take();
        let messages = std::mem::take(&mut self.work.messages);
        let mut objects = std::mem::take(&mut self.work.objects);
        objects.extend(self.work.topologies.take_tracks(self.result.now));
        let spend = self.work.take_spend(Day::of(self.result.now));
        let logs = self.work.take_logs();
        let has_rows = !refused.is_empty() || !messages.is_empty() || !objects.is_empty();
        if changes.is_empty() && logs.is_empty() && !has_rows {
            return Ok(());
        }
        let result = &mut self.result;
        result.is_written = true;
        result.objects.extend(objects.iter().map(|change| change.after.clone()));
        result.changed.extend(changes.iter().filter_map(|change| task_id(&change.after)));
        changes.iter().for_each(|change| allowances::note(&mut result.moved, change));
        result.signals.extend(changes.iter().filter_map(cancel_hint));
        result.ended.extend(changes.iter().filter_map(ended_id));
        result.awaited_ends.extend(self.options.watch.awaited_ends(&changes));
        result.refused.extend(refused.iter().map(|refused| refused.task.id));
        self.options.recent_runs.keep(&changes);
        result.spend.extend(spend.iter().cloned());
        faultpoint::point!("save.begun");
        self.batch
            .save(Decided {
                changes,
                refused,
                messages,
                objects,
                spend,
                logs,
                ..Decided::default()
            })
            .await?;
        faultpoint::point!("save.done");
        Ok(())
    }

    /// Commits even if nothing was written. That costs nothing, and the store learns what the batch examined.
    async fn commit(self) -> Result<BatchResult, Aborted> {
        let Self { batch, work, mut result, .. } = self;
        batch.commit().await.map_err(Aborted::Commit)?;
        faultpoint::point!("carry.committed");
        result.batch_metrics = work.batch_metrics;
        result.trace_events = work.trace_events.unwrap_or_default();
        Ok(result)
    }
}

/// Decides one submission, with fresh ids for it and what it brings along.
pub(super) fn submit(
    work: &mut WorkingSet,
    ids: &mut Ids,
    submission: &Submission,
    input: Digest,
    at: Moment,
    allowances: &Allowances,
) -> Answer {
    let request = submission.submit(ids.task(at.now), input, at.now);
    let inherited = submission.fork.as_deref().map(|fork| inherit(fork, ids, at));
    let planned = submission.steps.as_ref();
    let steps =
        planned.map_or_else(Vec::new, |it| it.created(&submission.scope, || ids.task(at.now)));
    let payload = SubmissionPayload { steps, inherited };
    work.submit(request, submission, payload, at, allowances)
}

/// The answer to one request; `None` if another writer has its task locked.
fn decide_item(
    work: &mut WorkingSet,
    ids: &mut Ids,
    item: &Item,
    at: Moment,
    allowances: &Allowances,
) -> Option<Answered> {
    if is_locked(work, item) {
        return None;
    }
    let lines = item.log().filter(|(key, caller, _)| work.may_log(key, caller, at));
    let answer = match (Recovering { work: &mut *work, ids: &mut *ids, at }.reported(item)) {
        Reported::Other => answer_item(work, ids, item, at, allowances)?,
        Reported::Refused(answer) => answer,
        Reported::Named(named) => {
            work.is_evaluated = true;
            let answer = answer_item(work, ids, item, at, allowances);
            work.is_evaluated = false;
            Recovering { work: &mut *work, ids: &mut *ids, at }.carry_out(*named);
            answer?
        }
    };
    if let Some((key, caller, log)) = lines.filter(|_| log::adds(&answer)) {
        work.add_log(key, caller.attempt, log, at.now);
    }
    let recorded_at = item.about().and_then(|(key, request)| work.recorded_at(key, request));
    let balance = item.about().and_then(|(key, _)| work.balance(key));
    let next = item.about().and_then(|(key, _)| leased_next(work, key, &answer));
    Some(Answered { answer, at: at.now, recorded_at, balance, next })
}

/// The same for an item whose rows are all loaded.
fn answer_item(
    work: &mut WorkingSet,
    ids: &mut Ids,
    item: &Item,
    at: Moment,
    allowances: &Allowances,
) -> Option<Answer> {
    Some(match item {
        Item::Submit { submission, input } => submit(work, ids, submission, *input, at, allowances),
        Item::About { key, request, .. } => {
            let filled = with_next_lease(work, ids, key, request, at);
            work.decide(key, filled.map_or(Cow::Borrowed(request), Cow::Owned), at)
        }
        Item::WithChildren { key, request, children, effects, watched, .. } => {
            let request = with_child_ids(request, children, ids, at);
            let filled = with_next_lease(work, ids, key, &request, at);
            let request = filled.unwrap_or(request);
            work.declared = effects.to_vec();
            work.watched = watched.to_vec();
            let answer = work.decide_with_children(key, request, children, at, allowances);
            work.declared.clear();
            work.watched.clear();
            answer
        }
        Item::Object(request) => work.decide_object(ids, request, at)?,
        Item::Recovery(item) => Recovering { work: &mut *work, ids: &mut *ids, at }.decide(item),
        Item::Topology(item) => {
            let (work, ids) = (&mut *work, &mut *ids);
            Deploying { work, ids, allowances, at }.decide(item)
        }
    })
}

/// The call with a new id and the submission of each child. Ids of children that exist already are not used.
fn with_child_ids(
    request: &Request,
    children: &[Submission],
    ids: &mut Ids,
    at: Moment,
) -> Request {
    let mut request = request.clone();
    let call = request.checkpoint_call_mut().expect("only a checkpoint has children");
    for (child, submission) in call.children.iter_mut().zip(children) {
        child.submit = submission.submit(ids.task(at.now), child.submit.input, at.now);
    }
    request
}

/// The requests by which a fork takes over what the other run recorded.
fn inherit(fork: &Fork, ids: &mut Ids, at: Moment) -> ForkRequests {
    let mut specs = HashMap::new();
    let mut taken = Vec::with_capacity(fork.items.len());
    for item in &fork.items {
        taken.push(match item {
            ForkItem::Record(record) => record.clone(),
            ForkItem::Again { key, input, child } => {
                let submit = child.submit(ids.task(at.now), *input, at.now);
                specs.insert(submit.id, child.spec.clone());
                Inherited::Again(ChildCall { key: key.clone(), is_detached: false, submit })
            }
        });
    }
    let (from, record) = (fork.from, fork.record);
    let request = |items: &[Inherited]| {
        let asked = Inherit { from, record, items: items.to_vec() };
        Request::Run(Box::new(RunRequest::Inherit(asked)))
    };
    let mut requests: Vec<Request> = taken.chunks(RECORDS_PER_REQUEST_MAX).map(request).collect();
    if requests.is_empty() {
        requests.push(request(&[]));
    }
    ForkRequests { from, requests, specs }
}

/// Whether another writer has a lock on the item's task, or on the task that owns its idempotency key.
fn is_locked(work: &WorkingSet, item: &Item) -> bool {
    match item {
        Item::About { key, .. } | Item::WithChildren { key, .. } => {
            work.is_locked(key) || work.recoveries.is_evaluation_locked(key)
        }
        Item::Submit { submission, .. } => {
            submission.idempotency_key().is_some_and(|key| work.is_key_holder_locked(&key))
                || work.is_debounce_locked(submission)
        }
        // It is known only with everything that it needs.
        Item::Object(_) => false,
        Item::Recovery(item) => work.recoveries.is_item_locked(item, work),
        Item::Topology(item) => work.topologies.is_locked(item, work),
    }
}

/// Turns a panic into a failed batch, so that a violated assertion does not end the process.
fn catch_panic<T>(decide: impl FnOnce() -> T) -> Result<T, Defect> {
    catch_unwind(AssertUnwindSafe(decide)).map_err(|_| Defect)
}

/// The same for a decision about one task that no request asked for. The failure names the task.
pub(super) fn catch_task_panic<T>(task: TaskId, decide: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(decide)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let what = format!("deciding about it violated an assertion: {said}");
        Failure::new(FailureKind::Invalid, what).about(task)
    })
}

/// The hint to the worker of a task that is to be cancelled, or that was taken from it by force.
fn cancel_hint(change: &Change) -> Option<CancelHint> {
    let forced = |closed: &&ClosedAttempt| closed.reason == Some(Reason::CancelForced);
    match &change.after {
        Subject::Live(task) => CancelHint::of(task),
        Subject::Done(done) => change.closed.iter().find(forced).map(|closed| CancelHint {
            scope: done.scope.clone(),
            queue: done.queue.clone(),
            worker: closed.owner.clone(),
            task: done.id,
        }),
        Subject::Absent => None,
    }
}

fn ended_id(change: &Change) -> Option<TaskId> {
    match &change.after {
        Subject::Done(done) => Some(done.id),
        Subject::Live(_) | Subject::Absent => None,
    }
}

fn task_id(subject: &Subject) -> Option<TaskId> {
    match subject {
        Subject::Absent => None,
        Subject::Live(task) => Some(task.id),
        Subject::Done(done) => Some(done.id),
    }
}
