//! What happens after a batch that was not committed.
//!
//! - Another writer was first: the batch is decided again, a bounded number of times.
//! - A request or a task cannot be decided or stored: it is found and left out ([`super::isolate`]), and everything
//!   else goes on.
//! - The store refuses the batch: every caller gets a definite error at once, and background work backs off.
//! - The outcome of the commit is unknown: callers get an error that says so. The carrier goes on, unless the store's
//!   in-memory state can no longer be trusted.
//! - The store cannot be used any more, or not by this program: the carrier ends.

use store::{CommitFailure, Failure, FailureKind, LockWait, Store, Writer};
use verdict::TaskId;

use super::batch::Aborted;
use super::commit::BatchMode;
use super::isolate::{Culprit, Isolation, Part};
use super::stall::Lateness;
use super::{Carrier, Fatal, duration};
use crate::item::{Group, Outage, RequestError, UnavailableReason};

/// How many times a batch is decided again because another writer was first.
const CONFLICTS_MAX: usize = 16;

/// How the parts of a batch are tried, and how many times they were.
pub(super) struct Retries {
    pub(super) lock_wait: LockWait,
    pub(super) lateness: Lateness,
    conflicts: usize,
}

impl Retries {
    pub(super) fn of(mode: BatchMode) -> Self {
        let (lock_wait, conflicts) = match mode {
            BatchMode::WithBackground | BatchMode::RequestsOnly => (LockWait::Skip, 0),
            // A batch that waits for locks gets one attempt.
            BatchMode::WaitForLock => (LockWait::Wait, CONFLICTS_MAX - 1),
        };
        Self { lock_wait, lateness: Lateness::First, conflicts }
    }

    fn again_or_give_up(&mut self) -> AbortAction {
        self.conflicts += 1;
        if self.conflicts <= CONFLICTS_MAX {
            AbortAction::Retry
        } else {
            AbortAction::Answer(UnavailableReason::Contended)
        }
    }
}

/// What to do about a batch that was not committed.
enum AbortAction {
    Retry,
    Isolate(Culprit),
    Answer(UnavailableReason),
    /// The batch may have been committed, and the store is still usable.
    OutcomeUnknown(String),
    Stop(Fatal),
}

impl AbortAction {
    fn of(aborted: Aborted, retries: &mut Retries) -> Self {
        match aborted {
            Aborted::Stalled => retries.again_or_give_up(),
            Aborted::Defect => Self::Isolate(Culprit::unknown("a decision violated an assertion")),
            Aborted::Failed(failure) | Aborted::Commit(CommitFailure::RolledBack(failure)) => {
                Self::of_failure(failure, retries)
            }
            Aborted::Commit(CommitFailure::Unknown(failure)) => match failure.kind {
                FailureKind::Fatal => Self::Stop(Fatal::of(&failure)),
                _ => Self::OutcomeUnknown(error_chain(&failure)),
            },
        }
    }

    fn of_failure(failure: Failure, retries: &mut Retries) -> Self {
        match failure.kind {
            FailureKind::Conflict(_) => retries.again_or_give_up(),
            FailureKind::Invalid => {
                Self::Isolate(Culprit { task: failure.task, why: error_chain(&failure) })
            }
            FailureKind::Full
            | FailureKind::Missing
            | FailureKind::Unavailable
            | FailureKind::Overloaded => {
                tracing::warn!(error = %error_chain(&failure), "the store refused a batch");
                Self::Answer(UnavailableReason::of(&failure))
            }
            FailureKind::Closed
            | FailureKind::InUse
            | FailureKind::Exists
            | FailureKind::Unfinished
            | FailureKind::Untrusted
            | FailureKind::UnknownRules
            | FailureKind::Fatal => Self::Stop(Fatal::of(&failure)),
        }
    }
}

impl<S: Store> Carrier<S> {
    /// Carries a failed part again, answers it, or isolates the culprit in it.
    pub(super) async fn on_abort(
        &mut self,
        isolation: &mut Isolation,
        (part, aborted, background_done): (Part, Aborted, &[TaskId]),
        retries: &mut Retries,
    ) -> Result<(), Fatal> {
        let is_first = retries.lateness == Lateness::First;
        if matches!(aborted, Aborted::Stalled) && is_first && !self.role.handles_leases() {
            retries.lateness = Lateness::Again;
            return self.retry_after_stall(isolation, part).await;
        }
        match AbortAction::of(aborted, retries) {
            AbortAction::Retry => isolation.again(part),
            AbortAction::Isolate(culprit) => {
                self.isolate(isolation, part, culprit, background_done);
            }
            AbortAction::Answer(reason) => {
                self.mark_stalled();
                self.answer_outage(isolation, part, reason);
            }
            AbortAction::OutcomeUnknown(why) => self.answer_unknown(isolation, part, &why),
            AbortAction::Stop(fatal) => return Err(stop(isolation, part, fatal)),
        }
        Ok(())
    }

    /// Handles a stall of the carrier that handles leases. That carrier extends them first; then the part is carried
    /// again.
    async fn retry_after_stall(
        &mut self,
        isolation: &mut Isolation,
        part: Part,
    ) -> Result<(), Fatal> {
        match self.begin_round().await? {
            None => isolation.again(part),
            Some(reason) => self.answer_outage(isolation, part, reason),
        }
        Ok(())
    }

    fn answer_outage(&mut self, isolation: &mut Isolation, part: Part, reason: UnavailableReason) {
        let outage = self.enter_outage(reason);
        isolation.answer(part, &RequestError::Unavailable(outage));
    }

    fn answer_unknown(&mut self, isolation: &mut Isolation, part: Part, why: &str) {
        tracing::error!(%why, "the outcome of a batch is unknown");
        self.mark_stalled();
        self.enter_outage(UnavailableReason::NotResponding);
        isolation.answer(part, &RequestError::Unknown);
    }

    /// Records that the store refused calls of workers, if this carrier handles leases.
    fn mark_stalled(&self) {
        if self.role.handles_leases() || faultpoint::mutant(40) {
            self.stall.refused();
        }
    }

    /// Answers every request with the reason for the outage, without trying the store again.
    pub(super) fn refuse(&mut self, groups: Vec<Group>, reason: UnavailableReason) {
        let outage = self.enter_outage(reason);
        // Undelivered grants end with lease expiry, as after any batch that was refused.
        self.unclaimed.clear();
        self.due.clear();
        for group in groups {
            // A caller that disconnected needs no answer.
            drop(group.reply.send(vec![Err(RequestError::Unavailable(outage)); group.items.len()]));
        }
    }

    /// Starts or continues the backoff, and returns when callers should retry. That is the end of the backoff, but soon
    /// enough that no worker loses its lease by waiting for it.
    pub(super) fn enter_outage(&mut self, reason: UnavailableReason) -> Outage {
        let here = tokio::time::Instant::now();
        self.metrics.failures.inc();
        self.backoff.failed(here);
        let left = self.backoff.left(here);
        let period = verdict::stall::check_period(self.writer.shortest_lease()).map(duration);
        let retry_after = period.map_or(left, |period| left.min(period));
        let outage = Outage { reason, retry_after };
        self.outage.send_replace(Some(outage));
        outage
    }
}

/// If only this program cannot go on, its batch was rolled back or never begun, so callers may try another coordinator
/// at once.
fn stop(isolation: &mut Isolation, part: Part, fatal: Fatal) -> Fatal {
    if fatal.is_outdated() {
        isolation.again(part);
        isolation.answer_all(&RequestError::ShuttingDown);
    }
    fatal
}

/// A failure with its chain of sources, on one line.
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
