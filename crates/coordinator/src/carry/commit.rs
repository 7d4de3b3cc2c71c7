//! From requests to their answers: a batch is committed, and then everyone who waits is answered.
//!
//! Read from top to bottom this is the way of a batch that succeeds: [`Carrier::carry`] takes the requests, `commit`
//! commits them with what rides along, `conclude` does what follows from a commit, and `answer_callers` sends the
//! answers. What is done about a batch that fails is in [`super::abort`], and how one bad request is found among many
//! is in [`super::isolate`].
//!
//! A task that another writer has locked is missed, not waited for: it is carried in the next batch, and only after a
//! few misses in a batch of its own that waits.
//!
//! Invariant: no answer leaves before the commit that it speaks of is durable.

use std::time::Duration;

use store::{Store, Writer};
use tokio::sync::oneshot;
use tokio::time::Instant;
use verdict::TaskId;

use super::abort::Retries;
use super::batch::{Aborted, BackgroundWork, BatchOptions, BatchResult, OpenBatch};
use super::isolate::{Isolation, Part};
use super::{Carrier, Fatal};
use crate::item::{Group, Item, Outage, Reply, RequestError, UnavailableReason};

/// How often a request is carried in a batch with others before it waits for its task alone.
const MISSES_MAX: usize = 3;

/// When to ask again about a task that other writers kept for too long.
const NEXT_TURN: Duration = Duration::from_millis(250);

/// One reply per item; `None` where another writer has the task.
pub(super) type Replies = Vec<Option<Reply>>;

/// What rides along with the items of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchMode {
    /// Sweeps and grants.
    WithBackground,
    RequestsOnly,
    /// Nothing but time for a task that another writer keeps.
    WaitForLock,
}

/// The way back to the caller of a group, and how many replies it waits for.
struct WaitingCaller {
    items: usize,
    reply: oneshot::Sender<Vec<Reply>>,
}

impl<S: Store> Carrier<S> {
    /// Carries all groups and answers them; sweeps and grants ride along, and grants that were not delivered go back.
    pub(super) async fn carry(&mut self, groups: Vec<Group>) -> Result<(), Fatal> {
        let (mut items, mut callers) = (Vec::new(), Vec::new());
        for Group { items: asked, reply } in groups {
            callers.push(WaitingCaller { items: asked.len(), reply });
            items.extend(asked);
        }
        items.append(&mut self.unclaimed);
        let (replies, outcome) = self.carry_items(&items).await;
        answer_callers(callers, replies);
        faultpoint::point!("carry.told");
        outcome
    }

    /// A reply for every item, and whether the store can still be asked.
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

    /// Carries everything once, what was missed a few times more, and what is still missed alone.
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

    /// One commit, or several where a part of the batch must be told from the rest.
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

    /// Commits one batch; when it is durable, does what follows from it.
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
        let epoch = || store.epoch();
        let batch = self.writer.begin().await?;
        let options = BatchOptions {
            epoch: &epoch,
            background,
            lock_wait: retries.lock_wait,
            stall_status,
            stall: &stall,
            allowances: &self.allowances,
            is_tracing: self.trace_sender.is_some(),
            role: &self.role,
            set_aside: &set_aside,
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

    /// What rides along, and whether an empty commit is written. A store that refused is asked to write again, so that
    /// readiness returns without a request.
    fn background_work(&self, background_max: Option<usize>) -> BackgroundWork {
        let Some(background_max) = background_max else { return BackgroundWork::None };
        let keep_alive = self.outage.borrow().is_some()
            || (self.role.handles_leases()
                && self.stall.needs_keep_alive(self.writer.shortest_lease(), self.store.now()));
        BackgroundWork::Included { keep_alive, background_max }
    }

    /// After the commit: what the coordinator knows of quotas, of the store and of time.
    fn note_commit(&mut self, result: &mut BatchResult, items: usize, begun: Instant) {
        self.allowances.settle(std::mem::take(&mut result.moved));
        if result.is_written {
            self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
            self.metrics.batch_items.observe(items as f64);
            self.stall.written(result.now);
            self.outage.send_if_modified(|outage| outage.take().is_some());
        }
    }

    /// After the commit: spans are exported, polls are answered, metrics are added, watchers of tasks are woken. What
    /// is left are the replies to callers.
    fn conclude(&mut self, mut result: BatchResult, background: BackgroundWork) -> Replies {
        if let Some(trace_sender) = &self.trace_sender {
            trace_sender.send(std::mem::take(&mut result.trace_events));
        }
        if background != BackgroundWork::None {
            self.answer_polls(&mut result);
        }
        self.metrics.add(&result.batch_metrics);
        self.note_ends(std::mem::take(&mut result.batch_metrics.ended_created), result.now);
        self.watch.notify(result.changed.into_iter());
        result.answers.into_iter().map(|answered| answered.map(Ok)).collect()
    }

    /// Answers polls with what they were granted. A grant whose poll has gone is handed back with the next batch.
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

/// Gives each caller its replies, in the order of its items.
fn answer_callers(callers: Vec<WaitingCaller>, replies: Vec<Reply>) {
    let mut replies = replies.into_iter();
    for WaitingCaller { items, reply } in callers {
        // The request of a caller that hung up was decided all the same.
        drop(reply.send(replies.by_ref().take(items).collect()));
    }
}

fn missed(replies: &Replies) -> Vec<usize> {
    replies.iter().enumerate().filter(|(_, reply)| reply.is_none()).map(|(n, _)| n).collect()
}
