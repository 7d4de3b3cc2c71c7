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

use super::batch::{self, Aborted, Carried, Extras, Patience, Terms};
use super::hearing::{Hearing, Lateness};
use super::isolate::{Blame, Round};
use super::share::Share;
use super::{Carrier, Fatal, duration};
use crate::item::{Group, Item, Outage, Reply, Shortage, Trouble};

/// How often a batch is decided again because another writer was first.
const CONFLICTS_MAX: usize = 16;

/// How often a request is carried in a batch with others before it waits for its task alone.
const MISSES_MAX: usize = 3;

/// When to ask again about a task that others kept for too long.
const NEXT_TURN: Duration = Duration::from_millis(250);

/// What to do about a batch that did not happen.
enum Course {
    Again,
    Isolate(Blame),
    Answer(Shortage),
    /// Nobody knows whether it happened, but the store goes on.
    Doubt(String),
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

    /// Answers everybody with the store's trouble, without asking it again.
    pub(super) fn refuse(&mut self, groups: Vec<Group>, shortage: Shortage) {
        let outage = self.run_short(shortage);
        // Left to the end of their leases, as after any batch that was refused.
        self.unclaimed.clear();
        for group in groups {
            // A caller that hung up has nobody to tell.
            drop(group.reply.send(vec![Err(Trouble::Unavailable(outage)); group.items.len()]));
        }
    }

    /// The store refused: pauses, and says when to come back. That is when it is tried again, but
    /// soon enough that nobody loses a lease by having waited as told.
    pub(super) fn run_short(&mut self, shortage: Shortage) -> Outage {
        let here = tokio::time::Instant::now();
        self.metrics.failures.inc();
        self.backoff.failed(here);
        let left = self.backoff.left(here);
        let period = Hearing::period(self.writer.shortest_lease()).map(duration);
        let retry_after = period.map_or(left, |period| left.min(period));
        let outage = Outage { shortage, retry_after };
        self.outage.send_replace(Some(outage));
        outage
    }

    async fn carry_items(&mut self, items: &[Item]) -> Result<Vec<Reply>, (Vec<Reply>, Fatal)> {
        let mut replies: Replies = vec![None; items.len()];
        let result = self.carry_missed(items, &mut replies).await;
        let is_missed = result.is_ok() && replies.iter().any(Option::is_none);
        let unknown = match is_missed {
            true => {
                Trouble::Unavailable(Outage { shortage: Shortage::Turn, retry_after: NEXT_TURN })
            }
            false => Trouble::Unknown,
        };
        let replies = replies.into_iter().map(|reply| reply.unwrap_or(Err(unknown.clone())));
        let replies: Vec<Reply> = replies.collect();
        result.map(|()| replies.clone()).map_err(|fatal| (replies, fatal))
    }

    /// Carries everything once, what was missed a few times more, and what is still missed alone.
    async fn carry_missed(&mut self, items: &[Item], replies: &mut Replies) -> Result<(), Fatal> {
        let (carried, outcome) = self.carry_once(items, With::Extras).await;
        *replies = carried;
        outcome?;
        for _ in 1..MISSES_MAX {
            let missed = missed(replies);
            if missed.is_empty() {
                return Ok(());
            }
            let again: Vec<Item> = missed.iter().map(|n| items[*n].clone()).collect();
            let (carried, outcome) = self.carry_once(&again, With::Nothing).await;
            missed.into_iter().zip(carried).for_each(|(n, reply)| replies[n] = reply);
            outcome?;
        }
        for n in missed(replies) {
            let (mut carried, outcome) = self.carry_once(&items[n..=n], With::Patience).await;
            replies[n] = carried.pop().flatten();
            outcome?;
        }
        Ok(())
    }

    /// What everybody is told, and whether the store can still be asked.
    async fn carry_once(&mut self, items: &[Item], with: With) -> (Replies, Result<(), Fatal>) {
        let mut round = Round::of(items.len(), with == With::Extras);
        let mut lateness = Lateness::First;
        // Who waits has waited long enough after one try.
        let mut conflicts = if with == With::Patience { CONFLICTS_MAX - 1 } else { 0 };
        let patience = if with == With::Patience { Patience::Wait } else { Patience::Pass };
        while let Some(part) = round.next() {
            let mut ridden = Vec::new();
            let carried = &items[part.range.clone()];
            match self.attempt(carried, part.riders, (patience, lateness), &mut ridden).await {
                Ok(answered) => round.carried(part, answered, ridden.len()),
                Err(Aborted::Deaf) if lateness == Lateness::First && !self.share.hears() => {
                    lateness = Lateness::Again;
                    match self.begin_round().await {
                        Ok(None) => round.again(part),
                        Ok(Some(shortage)) => {
                            let outage = self.run_short(shortage);
                            round.answer(part, &Trouble::Unavailable(outage));
                        }
                        Err(fatal) => return (round.replies, Err(fatal)),
                    }
                }
                Err(aborted) => match course(aborted, &mut conflicts) {
                    Course::Again => round.again(part),
                    Course::Isolate(blame) => self.isolate(&mut round, part, blame, &ridden),
                    Course::Answer(shortage) => {
                        self.workers_are_unheard();
                        let outage = self.run_short(shortage);
                        round.answer(part, &Trouble::Unavailable(outage));
                    }
                    Course::Doubt(why) => {
                        tracing::error!(%why, "the outcome of a batch is unknown");
                        self.workers_are_unheard();
                        self.run_short(Shortage::Answer);
                        round.answer(part, &Trouble::Unknown);
                    }
                    Course::Stop(fatal) => {
                        if fatal.is_outdated() {
                            // Rolled back, or never begun: others may be asked at once.
                            round.again(part);
                            round.answer_all(&Trouble::ShuttingDown);
                        }
                        return (round.replies, Err(fatal));
                    }
                },
            }
        }
        (round.replies, Ok(()))
    }

    async fn attempt(
        &mut self,
        items: &[Item],
        riders: Option<usize>,
        (patience, lateness): (Patience, Lateness),
        ridden: &mut Vec<TaskId>,
    ) -> Result<Replies, Aborted> {
        // A store that refused is asked to write again, so that readiness returns by itself.
        let pulse = self.outage.borrow().is_some()
            || (self.share.hears()
                && self.hearing.wants_pulse(self.writer.shortest_lease(), self.store.now()));
        let extras = riders.map_or(Extras::None, |riders| Extras::Ours { pulse, riders });
        let hearing = self.hearing.clone();
        let listening = self.listening(&hearing, lateness);
        let store = self.store.clone();
        let epoch = || store.epoch();
        let begun = tokio::time::Instant::now();
        let aside = &self.aside.resting(begun);
        let batch = self.writer.begin().await?;
        let ids = &mut self.ids;
        let (allowances, keeps_facts) = (&self.allowances, self.telling.is_some());
        let share = &self.share;
        let epoch = &epoch;
        let terms =
            Terms { epoch, extras, patience, listening, allowances, keeps_facts, share, aside };
        let mut carried = batch::carry(batch, ids, items, &mut self.polls, terms, ridden).await?;
        listening.conclude(&hearing, carried.now);
        self.allowances.settle(std::mem::take(&mut carried.moved));
        if carried.is_written {
            self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
            self.metrics.batch_items.observe(items.len() as f64);
            self.hearing.written(carried.now);
            self.outage.send_if_modified(|outage| outage.take().is_some());
        }
        let mut replies = self.conclude(carried, extras);
        self.note_carried(items, ridden, &mut replies, begun);
        Ok(replies)
    }

    /// The store refused what workers said, if this carrier hears them.
    fn workers_are_unheard(&self) {
        if self.share.hears() || faultpoint::mutant(40) {
            self.hearing.refused();
        }
    }

    /// What has ended will once be forgotten, by whoever does that.
    fn note_ends(&mut self, created: Vec<Time>, at: Time) {
        match &self.share {
            Share::Everything | Share::Leased => self.retaining.note_ends(&created, at),
            Share::NewWork(ears) if !created.is_empty() && !faultpoint::mutant(44) => {
                ears.intake.note_ends(created, at)
            }
            Share::NewWork(_) => {}
        }
    }

    /// After the commit: tell everybody.
    fn conclude(&mut self, mut carried: Carried, extras: Extras) -> Replies {
        if let Some(telling) = &self.telling {
            telling.tell(std::mem::take(&mut carried.facts));
        }
        if extras != Extras::None {
            self.backoff.succeeded();
            self.swept_at = carried.now;
            self.more_due = carried.more_due;
            let rounded = carried.rounded.take();
            let unclaimed = rounded.map(|rounded| self.polls.answer(rounded)).unwrap_or_default();
            faultpoint::point!("carry.polls_told");
            self.unclaimed
                .extend(unclaimed.iter().map(|it| Item::undelivered(it.key(), it.lease())));
        }
        self.metrics.add(&carried.tally);
        self.note_ends(std::mem::take(&mut carried.tally.ended_created), carried.now);
        self.watch.changed(carried.changed.into_iter());
        carried.answers.into_iter().map(|answered| answered.map(Ok)).collect()
    }
}

/// What rides along with the items of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum With {
    /// Sweeps and grants.
    Extras,
    Nothing,
    /// Nothing but time for a task that others keep.
    Patience,
}

fn missed(replies: &Replies) -> Vec<usize> {
    replies.iter().enumerate().filter(|(_, reply)| reply.is_none()).map(|(n, _)| n).collect()
}

fn course(aborted: Aborted, conflicts: &mut usize) -> Course {
    match aborted {
        Aborted::Deaf => again(conflicts),
        Aborted::Defect => Course::Isolate(Blame::somebody("a decision broke an assertion")),
        Aborted::Failed(failure) | Aborted::Commit(CommitFailure::RolledBack(failure)) => {
            on_failure(failure, conflicts)
        }
        Aborted::Commit(CommitFailure::Unknown(failure)) => match failure.kind {
            FailureKind::Fatal => Course::Stop(Fatal::of(&failure)),
            _ => Course::Doubt(chain(&failure)),
        },
    }
}

fn on_failure(failure: Failure, conflicts: &mut usize) -> Course {
    match failure.kind {
        FailureKind::Conflict(_) => again(conflicts),
        FailureKind::Invalid => Course::Isolate(Blame { task: failure.task, why: chain(&failure) }),
        FailureKind::Full | FailureKind::Unavailable | FailureKind::Overloaded => {
            tracing::warn!(error = %chain(&failure), "the store refused a batch");
            Course::Answer(Shortage::of(&failure))
        }
        FailureKind::Closed
        | FailureKind::Unfinished
        | FailureKind::Untrusted
        | FailureKind::UnknownRules
        | FailureKind::Fatal => Course::Stop(Fatal::of(&failure)),
    }
}

fn again(conflicts: &mut usize) -> Course {
    *conflicts += 1;
    if *conflicts <= CONFLICTS_MAX { Course::Again } else { Course::Answer(Shortage::Turn) }
}

/// A failure with everything behind it, on one line.
pub(super) fn chain(failure: &Failure) -> String {
    let mut text = failure.what.clone();
    let mut source = std::error::Error::source(failure);
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
