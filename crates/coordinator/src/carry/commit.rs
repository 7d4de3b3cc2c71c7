//! From requests to answers: commits a batch, and then answers every caller in it.
//!
//! Read from top to bottom, this is the path of a batch that succeeds: [`Carrier::carry`] takes the requests,
//! `commit` commits them together with background work, `conclude` runs everything that follows a commit, and
//! `answer_callers` sends the answers. [`super::abort`] handles batches that fail, and [`super::isolate`] finds one
//! bad request among many.
//!
//! A batch skips a task that another writer has locked. The request is carried again in the next batch; after a few
//! misses it is carried alone, in a batch that waits for the lock.
//!
//! Invariant: no answer is sent before the commit that it reports is durable.

use std::collections::HashMap;
use std::time::Duration;

use store::{Store, Writer};
use tokio::sync::oneshot;
use tokio::time::Instant;
use verdict::{Object, ObjectKey, TaskId};

use super::abort::Retries;
use super::batch::{Aborted, BackgroundWork, BatchOptions, BatchResult, OpenBatch};
use super::isolate::{Isolation, Part};
use super::{Carrier, Fatal};
use crate::item::{Group, Item, Outage, Reply, RequestError, UnavailableReason};
use crate::outbox::is_of_feed;
use crate::weight::BATCH_WEIGHT_MAX;

/// How many batches with other requests may miss a request's task before the request waits for it alone.
const MISSES_MAX: usize = 3;

/// When to ask again about a task that other writers kept locked for too long.
const NEXT_TURN: Duration = Duration::from_millis(250);

/// One reply per item; `None` where another writer has the task locked.
pub(super) type Replies = Vec<Option<Reply>>;

/// What a batch does besides its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchMode {
    /// Sweeps and grants.
    WithBackground,
    RequestsOnly,
    /// No background work; waits for a task that another writer has locked.
    WaitForLock,
}

/// The reply channel to the caller of a group, and how many replies it waits for.
struct WaitingCaller {
    items: usize,
    reply: oneshot::Sender<Vec<Reply>>,
}

impl<S: Store> Carrier<S> {
    /// Carries all groups and answers them, together with sweeps, grants, and the hand-back of undelivered grants.
    pub(super) async fn carry(&mut self, groups: Vec<Group>) -> Result<(), Fatal> {
        let (mut items, mut callers) = (Vec::new(), Vec::new());
        for Group { items: asked, reply } in groups {
            callers.push(WaitingCaller { items: asked.len(), reply });
            items.extend(asked);
        }
        items.append(&mut self.unclaimed);
        let endpoints = self.endpoints.snapshot();
        let weigh = |item: &Item| item.weight(&endpoints);
        let room = BATCH_WEIGHT_MAX.saturating_sub(items.iter().map(weigh).sum());
        items.extend(self.due.take(room, weigh));
        let (replies, outcome) = self.carry_items(&items).await;
        answer_callers(callers, replies);
        faultpoint::point!("carry.told");
        outcome
    }

    /// Returns a reply for every item, and whether the store is still usable.
    async fn carry_items(&mut self, items: &[Item]) -> (Vec<Reply>, Result<(), Fatal>) {
        let mut replies: Replies = vec![None; items.len()];
        let outcome = self.carry_missed(items, &mut replies).await;
        let unanswered = match outcome {
            Ok(()) => RequestError::Unavailable(Outage {
                reason: UnavailableReason::Contended,
                retry_after: NEXT_TURN,
            }),
            Err(_) => RequestError::Unknown,
        };
        let replies = replies.into_iter().map(|reply| reply.unwrap_or(Err(unanswered.clone())));
        (replies.collect(), outcome)
    }

    /// Carries all items once, missed ones a few more times, and those still missed one at a time.
    async fn carry_missed(&mut self, items: &[Item], replies: &mut Replies) -> Result<(), Fatal> {
        let (carried, outcome) = self.carry_once(items, BatchMode::WithBackground).await;
        *replies = carried;
        outcome?;
        for _ in 1..MISSES_MAX {
            let missed = missed(replies);
            if missed.is_empty() {
                return Ok(());
            }
            let again: Vec<Item> = missed.iter().map(|n| items[*n].clone()).collect();
            let (carried, outcome) = self.carry_once(&again, BatchMode::RequestsOnly).await;
            missed.into_iter().zip(carried).for_each(|(n, reply)| replies[n] = reply);
            outcome?;
        }
        for n in missed(replies) {
            let alone = &items[n..=n];
            let (mut carried, outcome) = self.carry_once(alone, BatchMode::WaitForLock).await;
            replies[n] = carried.pop().flatten();
            outcome?;
        }
        Ok(())
    }

    /// Usually makes one commit; several if a part of the batch must be isolated from the rest.
    async fn carry_once(
        &mut self,
        items: &[Item],
        mode: BatchMode,
    ) -> (Replies, Result<(), Fatal>) {
        let mut isolation = Isolation::of(items.len(), mode == BatchMode::WithBackground);
        let mut retries = Retries::of(mode);
        while let Some(part) = isolation.next() {
            let mut background_done = Vec::new();
            match self.commit(items, &part, &retries, &mut background_done).await {
                Ok(replies) => isolation.carried(part, replies, background_done.len()),
                Err(aborted) => {
                    let aborted = (part, aborted, background_done.as_slice());
                    let handled = self.on_abort(&mut isolation, aborted, &mut retries).await;
                    if let Err(fatal) = handled {
                        return (isolation.replies, Err(fatal));
                    }
                }
            }
        }
        (isolation.replies, Ok(()))
    }

    /// Commits one batch, and runs everything that follows once it is durable.
    async fn commit(
        &mut self,
        items: &[Item],
        part: &Part,
        retries: &Retries,
        background_done: &mut Vec<TaskId>,
    ) -> Result<Replies, Aborted> {
        let items = &items[part.range.clone()];
        let background = self.background_work(part.background_max);
        let (stall, store) = (self.stall.clone(), self.store.clone());
        let (stall_status, begun_at) = (self.stall_status(&stall, retries.lateness), store.now());
        let begun = tokio::time::Instant::now();
        let set_aside = self.set_aside.excluded(begun);
        let batch = self.writer.begin().await?;
        let options = BatchOptions {
            background,
            lock_wait: retries.lock_wait,
            stall_status,
            stall: &stall,
            allowances: &self.allowances,
            endpoints: &self.endpoints,
            recovery: &self.recovery,
            topologies: &self.topologies,
            is_tracing: self.trace_sender.is_some(),
            role: &self.role,
            set_aside: &set_aside,
            watch: &self.watch,
            recent_runs: &self.recent_runs,
        };
        let (ids, polls) = (&mut self.ids, &mut self.polls);
        let batch = OpenBatch::new(batch, options, ids, polls, background_done);
        let carried = batch.carry(items).await;
        self.note_batch_end();
        let mut result = carried?;
        stall_status.conclude(&stall, begun_at, result.now);
        self.note_commit(&mut result, items.len(), begun);
        let mut replies = self.conclude(result, background);
        self.note_carried(items, background_done, &mut replies, begun);
        Ok(replies)
    }

    /// Which background work to include, and whether to write a keep-alive commit. After an outage it asks for a
    /// write, so that readiness returns without a request.
    fn background_work(&self, background_max: Option<usize>) -> BackgroundWork {
        let Some(background_max) = background_max else { return BackgroundWork::None };
        let keep_alive = self.outage.borrow().is_some()
            || (self.role.handles_leases()
                && self.stall.needs_keep_alive(self.writer.shortest_lease(), self.store.now()));
        BackgroundWork::Included { keep_alive, background_max }
    }

    /// After the commit: updates what the coordinator knows of quotas, the store and the time.
    fn note_commit(&mut self, result: &mut BatchResult, items: usize, begun: Instant) {
        self.allowances.settle(std::mem::take(&mut result.moved));
        self.allowances.budgets().used(&result.spend);
        if result.is_written {
            self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
            self.metrics.batch_items.observe(items as f64);
            self.stall.written(result.now);
            self.outage.send_if_modified(|outage| outage.take().is_some());
        }
    }

    /// After the commit: exports spans, answers polls, adds metrics and wakes watchers of tasks. Returns the replies
    /// to callers, which are sent last.
    fn conclude(&mut self, mut result: BatchResult, background: BackgroundWork) -> Replies {
        if let Some(trace_sender) = &self.trace_sender {
            trace_sender.send(std::mem::take(&mut result.trace_events));
        }
        if background != BackgroundWork::None {
            self.answer_polls(&mut result);
        }
        self.fire(std::mem::take(&mut result.due_objects));
        self.note_objects(&result.objects);
        self.metrics.add(&result.batch_metrics);
        self.note_ends(std::mem::take(&mut result.batch_metrics.ended_created), result.now);
        self.tell_watchers(&mut result);
        self.ended_feed.note(&result.ended);
        // A forced cancel ends its task and raises a signal: forget first.
        self.signals.forget(result.ended);
        result.signals.into_iter().for_each(|hint| self.signals.raise(hint));
        result.answers.into_iter().map(|answered| answered.map(Ok)).collect()
    }

    /// After a commit: brings up to date what is kept of objects in memory, and wakes who follows them.
    pub(super) fn note_objects(&self, saved: &[Object]) {
        if saved.is_empty() {
            return;
        }
        self.endpoints.note(saved.iter());
        self.allowances.budgets().note(saved.iter());
        self.recovery.note(saved.iter());
        self.preparations.note(saved.iter());
        self.topologies.note(saved);
        self.effect_feed.note(last_of_feed(saved));
    }

    /// Wakes callers that wait for what the batch did. A run that has ended is forgotten first: a caller that begins to
    /// wait in between then looks it up.
    fn tell_watchers(&self, result: &mut BatchResult) {
        let refused = std::mem::take(&mut result.refused);
        if !refused.is_empty() {
            self.recent_runs.forget(refused.iter().copied());
            self.watch.refused(refused.into_iter());
        }
        self.recent_runs.forget(result.ended.iter().copied());
        self.watch.changed(&result.changed);
        self.watch.ended(&result.ended, std::mem::take(&mut result.awaited_ends));
    }

    /// Requests about objects that are due go into the next batches of the carrier that creates tasks.
    fn fire(&mut self, due: Vec<Item>) {
        if due.is_empty() || self.receiver.draining.is_cancelled() {
            return;
        }
        match &self.firings {
            Some(firings) => {
                let endpoints = self.endpoints.snapshot();
                self.due.send(due, firings, |item| item.weight(&endpoints));
            }
            None => self.due.add(due),
        }
    }

    /// Answers polls with their grants. A grant whose poll has disconnected is handed back with the next batch.
    fn answer_polls(&mut self, result: &mut BatchResult) {
        self.backoff.succeeded();
        self.swept_at = result.now;
        self.more_due = result.more_due;
        let round_result = result.round_result.take();
        let unclaimed = round_result.map(|granted| self.polls.answer(granted)).unwrap_or_default();
        faultpoint::point!("carry.polls_told");
        self.unclaimed.extend(unclaimed.iter().map(|it| Item::undelivered(it.key(), it.lease())));
    }
}

/// Each effect and watch once, as it is now, in the order of their commit.
fn last_of_feed(saved: &[Object]) -> impl Iterator<Item = &Object> {
    let of_feed = saved.iter().enumerate().filter(|(_, object)| is_of_feed(object));
    let last: HashMap<&ObjectKey, usize> =
        of_feed.clone().map(|(n, object)| (&object.key, n)).collect();
    of_feed.filter(move |(n, object)| last[&object.key] == *n).map(|(_, object)| object)
}

/// Sends each caller its replies, in the order of its items.
fn answer_callers(callers: Vec<WaitingCaller>, replies: Vec<Reply>) {
    let mut replies = replies.into_iter();
    for WaitingCaller { items, reply } in callers {
        // The request of a caller that disconnected was decided all the same.
        drop(reply.send(replies.by_ref().take(items).collect()));
    }
}

fn missed(replies: &Replies) -> Vec<usize> {
    replies.iter().enumerate().filter(|(_, reply)| reply.is_none()).map(|(n, _)| n).collect()
}
