//! Could the coordinator have heard a heartbeat?
//!
//! Lease time runs only while it could. A process that was stopped, a disk that hung for half a
//! minute or was full, a restart: all are gaps of ours, and no honest worker may lose its lease for
//! them. A heartbeat that cannot be recorded was not heard, however promptly it was refused. While
//! leases are alive the carrier wakes often enough to see a gap that matters, and writes a pulse
//! when nothing else was written, so that a later start knows how long it was deaf. A crash loop
//! cannot keep a dead worker's lease for ever: every pulse is time that counts.

use std::borrow::Cow;

use store::{Batch, Failure, Store, Writer};
use verdict::request::Extend;
use verdict::{Moment, Request, Span, Time};

use super::working::Working;
use super::{Carrier, Fatal};
use crate::item::Shortage;

/// The shortest and longest time between two looks while leases are alive. Half of the shortest
/// gap that can matter to a two-second lease, and seldom enough to be no load.
const PERIOD_MIN: Span = Span::from_millis(250);
const PERIOD_MAX: Span = Span::from_secs(5);

/// Running tasks are loaded in slices of this size; all are saved in one commit.
const SLICE: usize = 512;

pub(super) struct Hearing {
    /// When the carrier last went round and the store took what came of it.
    heard_at: Time,
    /// The same before this round, in case the store refuses.
    heard_before: Time,
    /// Since when the store has refused what workers said. A small write that still fits does not
    /// end this; only giving the time back does.
    refused_since: Option<Time>,
    /// When something was last committed.
    pub(super) written_at: Time,
}

impl Hearing {
    pub(super) fn new(now: Time) -> Self {
        Self { heard_at: now, heard_before: now, refused_since: None, written_at: now }
    }

    fn begin_round(&mut self, now: Time) {
        self.heard_before = self.heard_at;
        self.heard_at = now;
    }

    /// The store refused a batch of this round, so that the round does not count.
    pub(super) fn refused(&mut self) {
        if faultpoint::mutant(7) {
            return;
        }
        self.heard_at = self.heard_before;
        self.refused_since.get_or_insert(self.heard_before);
    }

    /// Whether the store has refused what workers said, and that is not made good yet.
    pub(super) fn is_refused(&self) -> bool {
        self.refused_since.is_some()
    }

    /// How long to sleep at most, given the shortest lease that is alive.
    pub(super) fn period(shortest: Option<Span>) -> Option<Span> {
        shortest.map(|lease| Span::from_millis(lease.millis() / 8).clamp(PERIOD_MIN, PERIOD_MAX))
    }

    /// The longest silence that is no stall: a quarter of the shortest lease beyond the time the
    /// carrier sleeps anyway.
    pub(super) fn tolerated(shortest: Option<Span>) -> Option<Span> {
        let period = Self::period(shortest)?.millis();
        Some(Span::from_millis(period.saturating_add(shortest?.millis() / 4)))
    }

    /// Whether a pulse is due: leases are alive and nothing was written for a period.
    pub(super) fn wants_pulse(&self, shortest: Option<Span>, now: Time) -> bool {
        Self::period(shortest).is_some_and(|period| now.since(self.written_at) >= period)
    }

    /// Since when nobody could be heard, if that was long enough to matter.
    fn gap(&self, shortest: Option<Span>, now: Time) -> Option<Time> {
        if self.refused_since.is_some() && shortest.is_some() {
            return self.refused_since;
        }
        let is_over = self.hears_until(shortest).is_some_and(|until| now > until);
        is_over.then_some(self.heard_at)
    }

    /// A decision made after this comes from a coordinator that has been deaf since this round began.
    pub(super) fn hears_until(&self, shortest: Option<Span>) -> Option<Time> {
        Some(self.heard_at.plus(Self::tolerated(shortest)?))
    }
}

impl<S: Store> Carrier<S> {
    /// Gives leases back the time of a stall, before anything is decided after it. As long as the
    /// store does not take that, nothing can be decided, and the shortage is everybody's answer.
    pub(super) async fn notice_deafness(&mut self) -> Result<Option<Shortage>, Fatal> {
        let now = self.store.now();
        let gap = self.hearing.gap(self.writer.shortest_lease(), now);
        if let Some(since) = gap {
            if let Err(failure) = self.give_back(since).await {
                // The gap is still open: the next round tries again before it decides anything.
                tracing::warn!(error = %failure, "leases could not be extended after a stall");
                return if failure.is_retryable() {
                    Ok(Some(Shortage::of(&failure)))
                } else {
                    Err(Fatal::of(&failure))
                };
            }
            tracing::warn!(millis = now.since(since).millis(), "stalled; leases are extended");
            self.hearing.heard_at = now;
        }
        self.hearing.refused_since = None;
        // Not later: giving back may itself have taken long, and that time is still to be given back.
        self.hearing.begin_round(now);
        Ok(None)
    }

    /// Extends every lease that was alive at `since` by the time since then, in one commit: a crash
    /// in between must not leave some extended and the rest forgotten.
    pub(super) async fn give_back(&mut self, since: Time) -> Result<(), Failure> {
        let mut batch = self.writer.begin().await?;
        let now = batch.now().await?;
        let (epoch, rules) = (self.store.epoch(), batch.rules());
        faultpoint::point!("recover.deciding");
        let request = Request::Extend(Extend { deaf_since: since, gap: now.since(since) });
        let mut after = None;
        loop {
            let tasks = batch.running(after, SLICE).await?;
            let Some(last) = tasks.last() else { break };
            after = Some(last.id);
            let mut work = Working::default();
            for task in tasks {
                let key = work.adopt(task);
                work.decide(&key, Cow::Borrowed(&request), Moment { now, epoch, rules });
            }
            let (changes, refused) = work.take();
            batch.save(changes, refused).await?;
        }
        faultpoint::point!("recover.saved");
        batch.commit().await.map_err(|failure| match failure {
            store::CommitFailure::RolledBack(failure) | store::CommitFailure::Unknown(failure) => {
                failure
            }
        })?;
        faultpoint::point!("recover.committed");
        self.hearing.written_at = now;
        Ok(())
    }
}
