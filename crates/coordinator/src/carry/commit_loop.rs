//! Carrying a batch to its end, whatever the store says.
//!
//! One bad request does not fail its batch: when the store cannot take it, or a rule breaks on it,
//! the batch is undone and halved until the culprit stands alone, and only it gets the error ([`super::isolate`]). A
//! passing failure is everybody's answer, at once and definite. A commit whose outcome is unknown
//! ends the carrier if the store's memory is no longer to be trusted; else it is the answer of those who
//! asked, and the next batch goes on.
//!
//! A task that another writer has locked is missed, not waited for: it is carried in the next batch, and only
//! after a few misses in one of its own that waits.

use std::time::Duration;

use store::{CommitFailure, Failure, FailureKind, Store, Writer};
use verdict::{TaskId, Time};

use super::batch::{self, Aborted, BackgroundWork, BatchOptions, BatchResult, LockWait};
use super::isolate::{Culprit, Isolation};
use super::role::CarrierRole;
use super::stall::{Lateness, StallDetector};
use super::{Carrier, Fatal, duration};
use crate::item::{Group, Item, Outage, Reply, RequestError, UnavailableReason};

/// How often a batch is decided again because another writer was first.
const CONFLICTS_MAX: usize = 16;

/// How often a request is carried in a batch with others before it waits for its task alone.
const MISSES_MAX: usize = 3;

/// When to ask again about a task that others kept for too long.
const NEXT_TURN: Duration = Duration::from_millis(250);

/// What to do about a batch that did not happen.
enum AbortAction {
    Retry,
    Isolate(Culprit),
    Answer(UnavailableReason),
    /// Nobody knows whether it happened, but the store goes on.
    OutcomeUnknown(String),
    Stop(Fatal),
}

/// One reply per item; `None` where another writer has the task.
pub(super) type Replies = Vec<Option<Reply>>;

impl<S: Store> Carrier<S> {
    /// Carries all groups and answers them; grants and sweeps ride along.
    pub(super) async fn carry(&mut self, groups: Vec<Group>) -> Result<(), Fatal> {
        let sizes: Vec<usize> = groups.iter().map(|group| group.items.len()).collect();
        let (mut items, mut callers) = (Vec::new(), Vec::new());
        for group in groups {
            items.extend(group.items);
            callers.push(group.reply);
        }
        let asked = items.len();
        items.append(&mut self.unclaimed);
        let result = self.carry_items(&items).await;
        let (mut replies, outcome) = match result {
            Ok(replies) => (replies, Ok(())),
            Err((replies, fatal)) => (replies, Err(fatal)),
        };
        replies.truncate(asked);
        let mut replies = replies.into_iter();
        for (size, caller) in sizes.into_iter().zip(callers) {
            // A caller that hung up still had its request decided; there is nobody to tell.
            drop(caller.send(replies.by_ref().take(size).collect()));
        }
        faultpoint::point!("carry.told");
        outcome
    }

    /// Answers every request with the reason for the outage, without asking it again.
    pub(super) fn refuse(&mut self, groups: Vec<Group>, reason: UnavailableReason) {
        let outage = self.enter_outage(reason);
        // Left to the end of their leases, as after any batch that was refused.
        self.unclaimed.clear();
        for group in groups {
            // A caller that hung up has nobody to tell.
            drop(group.reply.send(vec![Err(RequestError::Unavailable(outage)); group.items.len()]));
        }
    }

    /// The store refused: pauses, and says when to come back. That is when it is tried again, but
    /// soon enough that nobody loses a lease by having waited as told.
    pub(super) fn enter_outage(&mut self, reason: UnavailableReason) -> Outage {
        let here = tokio::time::Instant::now();
        self.metrics.failures.inc();
        self.backoff.failed(here);
        let left = self.backoff.left(here);
        let period = StallDetector::check_period(self.writer.shortest_lease()).map(duration);
        let retry_after = period.map_or(left, |period| left.min(period));
        let outage = Outage { reason, retry_after };
        self.outage.send_replace(Some(outage));
        outage
    }

    async fn carry_items(&mut self, items: &[Item]) -> Result<Vec<Reply>, (Vec<Reply>, Fatal)> {
        let mut replies: Replies = vec![None; items.len()];
        let result = self.carry_missed(items, &mut replies).await;
        let is_missed = result.is_ok() && replies.iter().any(Option::is_none);
        let unknown = match is_missed {
            true => RequestError::Unavailable(Outage {
                reason: UnavailableReason::Contended,
                retry_after: NEXT_TURN,
            }),
            false => RequestError::Unknown,
        };
        let replies = replies.into_iter().map(|reply| reply.unwrap_or(Err(unknown.clone())));
        let replies: Vec<Reply> = replies.collect();
        result.map(|()| replies.clone()).map_err(|fatal| (replies, fatal))
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
            let (mut carried, outcome) =
                self.carry_once(&items[n..=n], BatchMode::WaitForLock).await;
            replies[n] = carried.pop().flatten();
            outcome?;
        }
        Ok(())
    }

    /// What everybody is told, and whether the store can still be asked.
    async fn carry_once(
        &mut self,
        items: &[Item],
        mode: BatchMode,
    ) -> (Replies, Result<(), Fatal>) {
        let mut isolation = Isolation::of(items.len(), mode == BatchMode::WithBackground);
        let mut lateness = Lateness::First;
        // Who waits has waited long enough after one try.
        let mut conflicts = if mode == BatchMode::WaitForLock { CONFLICTS_MAX - 1 } else { 0 };
        let lock_wait =
            if mode == BatchMode::WaitForLock { LockWait::Wait } else { LockWait::Skip };
        while let Some(part) = isolation.next() {
            let mut background_done = Vec::new();
            let carried = &items[part.range.clone()];
            match self
                .attempt(carried, part.background_max, (lock_wait, lateness), &mut background_done)
                .await
            {
                Ok(answered) => isolation.carried(part, answered, background_done.len()),
                Err(Aborted::Stalled)
                    if lateness == Lateness::First && !self.role.handles_leases() =>
                {
                    lateness = Lateness::Again;
                    match self.begin_round().await {
                        Ok(None) => isolation.again(part),
                        Ok(Some(reason)) => {
                            let outage = self.enter_outage(reason);
                            isolation.answer(part, &RequestError::Unavailable(outage));
                        }
                        Err(fatal) => return (isolation.replies, Err(fatal)),
                    }
                }
                Err(aborted) => match abort_action(aborted, &mut conflicts) {
                    AbortAction::Retry => isolation.again(part),
                    AbortAction::Isolate(culprit) => {
                        self.isolate(&mut isolation, part, culprit, &background_done)
                    }
                    AbortAction::Answer(reason) => {
                        self.mark_stalled();
                        let outage = self.enter_outage(reason);
                        isolation.answer(part, &RequestError::Unavailable(outage));
                    }
                    AbortAction::OutcomeUnknown(why) => {
                        tracing::error!(%why, "the outcome of a batch is unknown");
                        self.mark_stalled();
                        self.enter_outage(UnavailableReason::NotResponding);
                        isolation.answer(part, &RequestError::Unknown);
                    }
                    AbortAction::Stop(fatal) => {
                        if fatal.is_outdated() {
                            // Rolled back, or never begun: others may be asked at once.
                            isolation.again(part);
                            isolation.answer_all(&RequestError::ShuttingDown);
                        }
                        return (isolation.replies, Err(fatal));
                    }
                },
            }
        }
        (isolation.replies, Ok(()))
    }

    async fn attempt(
        &mut self,
        items: &[Item],
        background_max: Option<usize>,
        (lock_wait, lateness): (LockWait, Lateness),
        background_done: &mut Vec<TaskId>,
    ) -> Result<Replies, Aborted> {
        // A store that refused is asked to write again, so that readiness returns by itself.
        let keep_alive = self.outage.borrow().is_some()
            || (self.role.handles_leases()
                && self.stall.needs_keep_alive(self.writer.shortest_lease(), self.store.now()));
        let background = background_max.map_or(BackgroundWork::None, |background_max| {
            BackgroundWork::Included { keep_alive, background_max }
        });
        let stall = self.stall.clone();
        let stall_status = self.stall_status(&stall, lateness);
        let store = self.store.clone();
        let epoch = || store.epoch();
        let begun = tokio::time::Instant::now();
        let set_aside = &self.set_aside.excluded(begun);
        let batch = self.writer.begin().await?;
        let ids = &mut self.ids;
        let (allowances, is_tracing) = (&self.allowances, self.trace_sender.is_some());
        let role = &self.role;
        let epoch = &epoch;
        let options = BatchOptions {
            epoch,
            background,
            lock_wait,
            stall_status,
            allowances,
            is_tracing,
            role,
            set_aside,
        };
        let mut carried =
            batch::carry(batch, ids, items, &mut self.polls, options, background_done).await?;
        stall_status.conclude(&stall, carried.now);
        self.allowances.settle(std::mem::take(&mut carried.moved));
        if carried.is_written {
            self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
            self.metrics.batch_items.observe(items.len() as f64);
            self.stall.written(carried.now);
            self.outage.send_if_modified(|outage| outage.take().is_some());
        }
        let mut replies = self.conclude(carried, background);
        self.note_carried(items, background_done, &mut replies, begun);
        Ok(replies)
    }

    /// Records that the store refused what workers said, if this carrier handles leases.
    fn mark_stalled(&self) {
        if self.role.handles_leases() || faultpoint::mutant(40) {
            self.stall.refused();
        }
    }

    /// What has ended will once be forgotten, by whoever does that.
    fn note_ends(&mut self, created: Vec<Time>, at: Time) {
        match &self.role {
            CarrierRole::Everything | CarrierRole::Leased => {
                self.retention_state.note_ends(&created, at)
            }
            CarrierRole::NewWork(leased_carrier)
                if !created.is_empty() && !faultpoint::mutant(44) =>
            {
                leased_carrier.intake.note_ends(created, at)
            }
            CarrierRole::NewWork(_) => {}
        }
    }

    /// After the commit: tell everybody.
    fn conclude(&mut self, mut carried: BatchResult, background: BackgroundWork) -> Replies {
        if let Some(trace_sender) = &self.trace_sender {
            trace_sender.send(std::mem::take(&mut carried.trace_events));
        }
        if background != BackgroundWork::None {
            self.backoff.succeeded();
            self.swept_at = carried.now;
            self.more_due = carried.more_due;
            let round_result = carried.round_result.take();
            let unclaimed = round_result
                .map(|round_result| self.polls.answer(round_result))
                .unwrap_or_default();
            faultpoint::point!("carry.polls_told");
            self.unclaimed
                .extend(unclaimed.iter().map(|it| Item::undelivered(it.key(), it.lease())));
        }
        self.metrics.add(&carried.batch_metrics);
        self.note_ends(std::mem::take(&mut carried.batch_metrics.ended_created), carried.now);
        self.watch.notify(carried.changed.into_iter());
        carried.answers.into_iter().map(|answered| answered.map(Ok)).collect()
    }
}

/// What rides along with the items of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchMode {
    /// Sweeps and grants.
    WithBackground,
    RequestsOnly,
    /// Nothing but time for a task that others keep.
    WaitForLock,
}

fn missed(replies: &Replies) -> Vec<usize> {
    replies.iter().enumerate().filter(|(_, reply)| reply.is_none()).map(|(n, _)| n).collect()
}

fn abort_action(aborted: Aborted, conflicts: &mut usize) -> AbortAction {
    match aborted {
        Aborted::Stalled => retry_or_give_up(conflicts),
        Aborted::Defect => AbortAction::Isolate(Culprit::unknown("a decision broke an assertion")),
        Aborted::Failed(failure) | Aborted::Commit(CommitFailure::RolledBack(failure)) => {
            on_failure(failure, conflicts)
        }
        Aborted::Commit(CommitFailure::Unknown(failure)) => match failure.kind {
            FailureKind::Fatal => AbortAction::Stop(Fatal::of(&failure)),
            _ => AbortAction::OutcomeUnknown(error_chain(&failure)),
        },
    }
}

fn on_failure(failure: Failure, conflicts: &mut usize) -> AbortAction {
    match failure.kind {
        FailureKind::Conflict(_) => retry_or_give_up(conflicts),
        FailureKind::Invalid => {
            AbortAction::Isolate(Culprit { task: failure.task, why: error_chain(&failure) })
        }
        FailureKind::Full | FailureKind::Unavailable | FailureKind::Overloaded => {
            tracing::warn!(error = %error_chain(&failure), "the store refused a batch");
            AbortAction::Answer(UnavailableReason::of(&failure))
        }
        FailureKind::Closed
        | FailureKind::Unfinished
        | FailureKind::Untrusted
        | FailureKind::UnknownRules
        | FailureKind::Fatal => AbortAction::Stop(Fatal::of(&failure)),
    }
}

fn retry_or_give_up(conflicts: &mut usize) -> AbortAction {
    *conflicts += 1;
    if *conflicts <= CONFLICTS_MAX {
        AbortAction::Retry
    } else {
        AbortAction::Answer(UnavailableReason::Contended)
    }
}

/// A failure with everything behind it, on one line.
pub(super) fn error_chain(failure: &Failure) -> String {
    let mut text = failure.what.clone();
    let mut source = std::error::Error::source(failure);
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
