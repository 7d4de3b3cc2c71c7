//! One batch: load, decide, sweep, grant, commit.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use store::{Batch, CommitFailure, Failure, FailureKind, Loaded, TaskKey, TaskWithSpec, Want};
use verdict::request::{Grant, Submit};
use verdict::{Answer, Digest, Moment, Name, Request, TaskId, Time};

use super::polls::{LineId, PollId, Polls, Round, RoundResult};
use super::role::CarrierRole;
use super::stall::{self, StallAction, StallStatus};
use super::working_set::WorkingSet;
use crate::allowances::{self, Allowances, Moved};
use crate::batch_metrics::BatchMetrics;
use crate::ids::Ids;
use crate::item::{Answered, Granted, Item, Submission};
use crate::trace::TraceEvent;

/// Tasks swept in one batch. More wait for the next one, which follows at once.
const SWEEP_MAX: usize = 1_024;

/// What a committed batch did.
pub(super) struct BatchResult {
    /// One per item, in order; `None` where another writer has the task.
    pub(super) answers: Vec<Option<Answered>>,
    /// What polls were granted, where the batch looked for it.
    pub(super) round_result: Option<RoundResult>,
    pub(super) batch_metrics: BatchMetrics,
    /// What is to be told as spans.
    pub(super) trace_events: Vec<TraceEvent>,
    pub(super) changed: Vec<TaskId>,
    pub(super) moved: Moved,
    pub(super) now: Time,
    /// Whether anything was written.
    pub(super) is_written: bool,
    pub(super) more_due: bool,
}

/// Why a batch did not happen.
pub(super) enum Aborted {
    Failed(Failure),
    Commit(CommitFailure),
    /// A rule broke an assertion.
    Defect,
    /// So much time passed before anything was decided that leases must first get it back: to be carried again,
    /// by a batch that does.
    Stalled,
}

impl From<Failure> for Aborted {
    fn from(failure: Failure) -> Self {
        Aborted::Failed(failure)
    }
}

/// A rule broke an assertion while it decided.
struct Defect;

impl From<Defect> for Aborted {
    fn from(_: Defect) -> Self {
        Aborted::Defect
    }
}

/// Whether a batch also does what nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackgroundWork {
    /// What the carrier's role includes: sweeping what is due, granting what is ready.
    Included {
        keep_alive: bool,
        /// How many tasks it may concern at most.
        background_max: usize,
    },
    None,
}

/// What to do about tasks that another writer has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockWait {
    /// Leave them to a later batch.
    Skip,
    /// Wait a while. Only for a task that is alone in its batch.
    Wait,
}

/// What holds for one batch.
#[derive(Clone, Copy)]
pub(super) struct BatchOptions<'a> {
    /// Which life of the store it is, once the clock was read.
    pub(super) epoch: &'a (dyn Fn() -> u32 + Send + Sync),
    pub(super) background: BackgroundWork,
    pub(super) lock_wait: LockWait,
    pub(super) stall_status: StallStatus<'a>,
    pub(super) allowances: &'a Allowances,
    /// Whether somebody is told what happened, as spans.
    pub(super) is_tracing: bool,
    pub(super) role: &'a CarrierRole,
    /// Tasks that are left alone.
    pub(super) set_aside: &'a BTreeSet<TaskId>,
}

pub(super) async fn carry<B: Batch>(
    mut batch: B,
    ids: &mut Ids,
    items: &[Item],
    polls: &mut Polls,
    options: BatchOptions<'_>,
    background_done: &mut Vec<TaskId>,
) -> Result<BatchResult, Aborted> {
    let BatchOptions {
        epoch,
        background,
        lock_wait,
        stall_status,
        allowances,
        is_tracing,
        role,
        set_aside,
    } = options;
    let mut work = WorkingSet::default();
    if !set_aside.is_empty() {
        batch.exclude(set_aside);
    }
    work.trace_events = is_tracing.then(Vec::new);
    // Whoever waits for a lock must not have others: with patience, and while leases get their time back.
    let waits = lock_wait == LockWait::Wait || matches!(stall_status, StallStatus::StalledSince(_));
    if background != BackgroundWork::None && role.grants() && !waits {
        prefetch(&mut batch, polls);
    }
    count(&mut batch, &mut work, items, allowances).await?;
    if let StallStatus::StalledSince(since) = stall_status {
        // Before anything else is locked: it waits for whatever others have locked.
        stall::extend_all_leases(&mut batch, since, epoch).await?;
        batch.keep_alive();
    }
    load(&mut batch, &mut work, items, lock_wait, set_aside).await?;
    faultpoint::point!("batch.loaded");
    let now = batch.now().await?;
    let at = Moment { now, epoch: epoch(), rules: batch.rules() };
    check_stall(&mut batch, &mut work, stall_status, at).await?;
    let answers = catch_panic(|| decide_items(&mut work, ids, items, at, allowances))?;
    faultpoint::point!("batch.decided");
    let mut carried = BatchResult {
        answers,
        round_result: None,
        batch_metrics: BatchMetrics::default(),
        trace_events: Vec::new(),
        changed: Vec::new(),
        moved: Moved::default(),
        now,
        is_written: matches!(stall_status, StallStatus::StalledSince(_)),
        more_due: false,
    };
    if let BackgroundWork::Included { keep_alive, background_max } = background {
        if role.handles_leases() && !faultpoint::mutant(41) {
            carried.more_due =
                sweep(&mut batch, &mut work, at, background_max, background_done).await?;
            faultpoint::point!("batch.swept");
        }
        if role.grants() {
            save(&mut batch, &mut work, &mut carried).await?;
            let background_max = background_max.saturating_sub(background_done.len());
            let round_result = grant(
                &mut batch,
                &mut work,
                ids,
                polls,
                at,
                &mut carried,
                (background_max, background_done),
            )
            .await?;
            carried.more_due |= round_result.is_spent;
            carried.round_result = Some(round_result);
            faultpoint::point!("batch.granted");
        }
        if keep_alive {
            batch.keep_alive();
            carried.is_written = true;
        }
    }
    save(&mut batch, &mut work, &mut carried).await?;
    // Also when nothing was written: the store then knows what was looked at, at no cost.
    batch.commit().await.map_err(Aborted::Commit)?;
    faultpoint::point!("carry.committed");
    carried.batch_metrics = work.batch_metrics;
    carried.trace_events = work.trace_events.unwrap_or_default();
    Ok(carried)
}

/// Nothing is decided about a lease after a stall before the lease was extended by it.
async fn check_stall<B: Batch>(
    batch: &mut B,
    work: &mut WorkingSet,
    stall_status: StallStatus<'_>,
    at: Moment,
) -> Result<(), Aborted> {
    match stall::check_batch(batch, stall_status, at.now).await? {
        StallAction::Proceed => Ok(()),
        StallAction::Retry => Err(Aborted::Stalled),
        StallAction::ExtendSince(_) if faultpoint::mutant(38) => Ok(()),
        StallAction::ExtendSince(since) => {
            catch_panic(|| work.extend_leases(&stall::extend_request(since, at.now), at))?;
            Ok(())
        }
    }
}

/// A broken assertion undoes the batch instead of the process.
fn catch_panic<T>(decide: impl FnOnce() -> T) -> Result<T, Defect> {
    catch_unwind(AssertUnwindSafe(decide)).map_err(|_| Defect)
}

/// Counts the unfinished runs of tenants that may not have any number of them.
async fn count<B: Batch>(
    batch: &mut B,
    work: &mut WorkingSet,
    items: &[Item],
    allowances: &Allowances,
) -> Result<(), Aborted> {
    let limited = |item: &Item| match item {
        Item::Submit(submission) => {
            let tenant = &submission.scope.tenant;
            allowances.quota(tenant).map(|_| tenant.clone())
        }
        Item::About { .. } => None,
    };
    let tenants: BTreeSet<Name> = items.iter().filter_map(limited).collect();
    if tenants.is_empty() {
        return Ok(());
    }
    let tenants: Vec<Name> = tenants.into_iter().collect();
    if let Some(counted) = batch.unfinished(&tenants).await? {
        work.unfinished.extend(tenants.into_iter().zip(counted));
    }
    Ok(())
}

/// Loads what the items are about: tasks, the attempts they quote, the holders of their keys.
async fn load<B: Batch>(
    batch: &mut B,
    work: &mut WorkingSet,
    items: &[Item],
    lock_wait: LockWait,
    set_aside: &BTreeSet<TaskId>,
) -> Result<(), Aborted> {
    let mut tasks = Vec::new();
    let mut leases = Vec::new();
    let mut keys = Vec::new();
    for item in items {
        match item {
            Item::Submit(submission) => keys.extend(key_of(submission)),
            Item::About { key, .. } => {
                tasks.push(key.clone());
                leases.extend(item.quoted_lease().map(|lease| (key.id, lease)));
            }
        }
    }
    if !keys.is_empty() {
        let holders = batch.key_owners(&keys).await?;
        for (key, held) in keys.into_iter().zip(holders) {
            let Some(held) = held else { continue };
            tasks.push(TaskKey { scope: key.scope.clone(), id: held.task });
            work.put_holder(key, held);
        }
    }
    tasks.sort();
    tasks.dedup();
    // What is left alone is not even looked at.
    let is_aside = |task: &mut TaskKey| set_aside.contains(&task.id);
    tasks.extract_if(.., is_aside).for_each(|task| work.put_locked(task));
    leases.retain(|(task, _)| !set_aside.contains(task));
    let loaded = match lock_wait {
        LockWait::Skip => batch.load(&tasks).await?,
        LockWait::Wait => batch.load_waiting_for_locks(&tasks).await?,
    };
    for (key, loaded) in tasks.iter().zip(loaded) {
        match loaded {
            Loaded::Subject(subject) => work.put(key.clone(), subject),
            Loaded::Locked => work.put_locked(key.clone()),
        }
    }
    let closed = batch.closed_attempts(&leases).await?;
    closed.into_iter().flatten().for_each(|closed| work.put_closed(closed));
    Ok(())
}

fn key_of(submission: &Submission) -> Option<store::IdempotencyKey> {
    let text = submission.spec.key.clone()?;
    Some(store::IdempotencyKey { scope: submission.scope.clone(), text })
}

fn decide_items(
    work: &mut WorkingSet,
    ids: &mut Ids,
    items: &[Item],
    at: Moment,
    allowances: &Allowances,
) -> Vec<Option<Answered>> {
    let decide = |item: &Item| {
        if is_locked(work, item) {
            return None;
        }
        let answer = match item {
            Item::Submit(submission) => submit(work, ids, submission, at, allowances),
            Item::About { key, request } => work.decide(key, Cow::Borrowed(request), at),
        };
        Some(Answered { answer, at: at.now })
    };
    items.iter().map(decide).collect()
}

/// Whether another writer has the task that an item is about, or the one that holds its key.
fn is_locked(work: &WorkingSet, item: &Item) -> bool {
    match item {
        Item::About { key, .. } => work.is_locked(key),
        Item::Submit(submission) => {
            key_of(submission).is_some_and(|key| work.is_key_holder_locked(&key))
        }
    }
}

fn submit(
    work: &mut WorkingSet,
    ids: &mut Ids,
    submission: &Submission,
    at: Moment,
    allowances: &Allowances,
) -> Answer {
    let id = ids.task(at.now);
    let request = Request::Submit(Submit {
        id,
        scope: submission.scope.clone(),
        kind: submission.kind.clone(),
        queue: submission.queue.clone(),
        priority: submission.priority,
        policy: submission.policy.clone(),
        run_at: submission.run_at,
        input: Digest::of(&[submission.spec.input.as_str().as_bytes()]),
        fingerprint: submission.spec.fingerprint,
    });
    work.submit(id, request, &submission.spec, at, allowances)
}

/// After the items, so that a report or heartbeat of this batch counts before the lease's end.
async fn sweep<B: Batch>(
    batch: &mut B,
    work: &mut WorkingSet,
    at: Moment,
    background_max: usize,
    background_done: &mut Vec<TaskId>,
) -> Result<bool, Aborted> {
    let max = background_max.min(SWEEP_MAX);
    let due = batch.due(at.now, max).await?;
    let more = due.len() == max && !faultpoint::mutant(13);
    for task in due {
        background_done.push(task.id);
        catch_task_panic(task.id, || {
            let key = work.adopt(task);
            work.decide(&key, Cow::Owned(Request::Sweep), at)
        })?;
    }
    Ok(more)
}

/// Says what the first polls will want of the queues that seem to hold something.
fn prefetch<B: Batch>(batch: &mut B, polls: &mut Polls) {
    let backlogs = batch.likely_backlogs(polls.polled());
    if backlogs.is_empty() {
        return;
    }
    let asked = polls.round(backlogs, HashSet::new()).ask(polls);
    let wants: Vec<Want> = asked.into_iter().map(|(_, want)| want).collect();
    batch.prefetch(&wants);
}

/// The same for a decision about one task that nobody asked for: that task is told.
pub(super) fn catch_task_panic<T>(task: TaskId, decide: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(decide)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no word");
        let what = format!("deciding about it broke an assertion: {said}");
        Failure::new(FailureKind::Invalid, what).about(task)
    })
}

/// Tasks that are ready, also those that became so in this very batch, go to waiting polls.
async fn grant<B: Batch>(
    batch: &mut B,
    work: &mut WorkingSet,
    ids: &mut Ids,
    polls: &mut Polls,
    at: Moment,
    carried: &mut BatchResult,
    (mut background_max, background_done): (usize, &mut Vec<TaskId>),
) -> Result<RoundResult, Aborted> {
    let recalled = recall(batch, polls, at.now).await?;
    let except = recalled.iter().map(|(poll, _)| *poll).collect();
    let backlogs = batch.backlogs(polls.polled(), at.now).await?;
    let mut round = polls.round(backlogs, except);
    loop {
        let (lines, wants): (Vec<LineId>, Vec<Want>) = round.ask(polls).into_iter().unzip();
        if wants.is_empty() || background_max == 0 {
            break;
        }
        let wants = cap_wants(wants, background_max);
        // What was granted before is saved, so that it is not found again.
        save(batch, work, carried).await?;
        let ready = batch.ready(&wants, at.now).await?;
        for (line, tasks) in lines.into_iter().zip(ready) {
            background_max = background_max.saturating_sub(tasks.len());
            background_done.extend(tasks.iter().map(|ready| ready.task.id));
            grant_to(work, ids, polls, &mut round, line, tasks, at)?;
        }
    }
    let mut round_result = round.end();
    round_result.grants.extend(recalled);
    Ok(round_result)
}

/// What polls that name themselves were given before.
async fn recall<B: Batch>(
    batch: &mut B,
    polls: &Polls,
    now: Time,
) -> Result<Vec<(PollId, Vec<Granted>)>, Aborted> {
    let (named, names) = polls.unrecalled_names();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let found = batch.leased_to_polls(&names).await?;
    let recalled = named.into_iter().zip(found).filter(|(_, leases)| !leases.is_empty());
    let granted = |leases: Vec<TaskWithSpec>| {
        leases.into_iter().map(|lease| Granted::new(lease, now)).collect::<Vec<Granted>>()
    };
    Ok(recalled.map(|(poll, leases)| (poll, granted(leases))).collect())
}

/// As many tasks as may ride, for whoever asked first.
fn cap_wants(mut wants: Vec<Want>, background_max: usize) -> Vec<Want> {
    let mut left = background_max;
    for want in &mut wants {
        want.max = want.max.min(left);
        left -= want.max;
    }
    wants
}

/// Gives tasks to the polls of a line, the oldest first.
fn grant_to(
    work: &mut WorkingSet,
    ids: &mut Ids,
    polls: &Polls,
    round: &mut Round,
    line: LineId,
    tasks: Vec<TaskWithSpec>,
    at: Moment,
) -> Result<(), Failure> {
    round.found(line, tasks.len());
    for ready in tasks {
        round.took(&ready.task);
        let Some(poll) = round.taker(line).and_then(|poll| polls.get(poll)) else { break };
        let key = work.adopt(ready.task);
        let request = Request::Grant(Grant {
            lease: ids.lease(at.now),
            owner: poll.worker.clone(),
            poll: poll.poll.clone(),
        });
        let waiting = work.task(&key).filter(|_| work.trace_events.is_some()).cloned();
        let decide = || work.decide(&key, Cow::Owned(request), at);
        if catch_task_panic(key.id, decide)? == Answer::Granted {
            let task = work.task(&key).expect("a granted task is live").clone();
            if let (Some(waiting), Some(lease)) = (waiting, task.lease()) {
                let event =
                    TraceEvent::granted(&waiting, &ready.spec, task.attempt, lease.id, at.now);
                work.trace_events.get_or_insert_default().push(event);
            }
            round.give(line, Granted { task, spec: ready.spec, at: at.now });
        }
    }
    Ok(())
}

async fn save<B: Batch>(
    batch: &mut B,
    work: &mut WorkingSet,
    carried: &mut BatchResult,
) -> Result<(), Aborted> {
    let (changes, refused) = work.take();
    if changes.is_empty() && refused.is_empty() {
        return Ok(());
    }
    carried.is_written = true;
    carried.changed.extend(changes.iter().filter_map(|change| task_id(&change.after)));
    changes.iter().for_each(|change| allowances::note(&mut carried.moved, change));
    faultpoint::point!("save.begun");
    batch.save(changes, refused).await?;
    faultpoint::point!("save.done");
    Ok(())
}

fn task_id(subject: &verdict::Subject) -> Option<TaskId> {
    match subject {
        verdict::Subject::Absent => None,
        verdict::Subject::Live(task) => Some(task.id),
        verdict::Subject::Done(done) => Some(done.id),
    }
}
