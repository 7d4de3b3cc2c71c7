//! What a batch did, in numbers: collected decision by decision, and added to the metrics once the
//! batch is durable. A batch that is rolled back is never counted.

use verdict::{
    Answer, AttemptOutcome, ClosedAttempt, End, Event, Next, Reason, Refusal, Request, Span, Task,
    Time, WorkerVerdict, schedule,
};

use crate::spend_metrics::BatchSpend;

#[derive(Debug, Default)]
pub(crate) struct BatchMetrics {
    pub(crate) submitted: u64,
    pub(crate) granted: u64,
    pub(crate) renewed: u64,
    /// Leases that expired.
    pub(crate) expired: u64,
    pub(crate) cancel_signals: u64,
    pub(crate) cancel_timeouts: u64,
    /// Submissions refused because their tenant reached its quota of unfinished runs.
    pub(crate) quota_refusals: u64,
    /// Submissions refused because the budget of their workspace or tenant is used up.
    pub(crate) budget_refusals: u64,
    /// Messages between tasks: decided, saved for a later batch, and parked because they cannot be decided.
    pub(crate) messages_decided: u64,
    pub(crate) messages_saved: u64,
    pub(crate) messages_parked: u64,
    /// How long ready tasks waited until they were leased.
    pub(crate) waits: Vec<Span>,
    /// How much later than its interval each heartbeat arrived.
    pub(crate) heartbeat_lags: Vec<Span>,
    /// The time from each lease to its end.
    pub(crate) attempt_lengths: Vec<Span>,
    /// The submission times of the runs that ended.
    pub(crate) ended_created: Vec<Time>,
    /// By outcome.
    pub(crate) attempts: Counts<&'static str>,
    /// By state.
    pub(crate) ended: Counts<&'static str>,
    /// By error category or LOST.
    pub(crate) retries: Counts<&'static str>,
    /// Attempts that made no progress for too long, by what followed.
    pub(crate) stalls: Counts<&'static str>,
    /// Instants of schedules, by what became of them.
    pub(crate) instants: Counts<&'static str>,
    /// What runs used.
    pub(crate) spend: BatchSpend,
    /// By verdict and code.
    pub(crate) verdicts: Counts<(&'static str, &'static str)>,
}

/// A number for each label. There are few labels, so a linear search beats hashing.
#[derive(Debug)]
pub(crate) struct Counts<L>(Vec<(L, u64)>);

impl<L> Default for Counts<L> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<L: PartialEq + Copy> Counts<L> {
    fn note(&mut self, label: L) {
        self.add(label, 1);
    }

    fn add(&mut self, label: L, more: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == label) {
            Some((_, count)) => *count += more,
            None => self.0.push((label, more)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (L, u64)> {
        self.0.iter().copied()
    }
}

impl BatchMetrics {
    /// Counts what became of instants of a schedule.
    pub(crate) fn note_instants(&mut self, before: schedule::Counts, after: schedule::Counts) {
        let outcomes = [
            ("fired", before.fired, after.fired),
            ("skipped", before.skipped, after.skipped),
            ("missed", before.missed, after.missed),
            ("refused", before.refused, after.refused),
        ];
        for (outcome, before, after) in outcomes.into_iter().filter(|it| it.2 > it.1) {
            self.instants.add(outcome, after - before);
        }
    }

    /// Counts an event that was decided at `now`, for a task whose state was `before`.
    pub(crate) fn note_event(&mut self, before: Option<&Task>, event: &Event, now: Time) {
        match event {
            Event::Submitted(_) => self.submitted += 1,
            Event::Granted { .. } => {
                self.granted += 1;
                self.waits.extend(before.and_then(due).map(|due| now.since(due)));
            }
            Event::Renewed { .. } => {
                self.renewed += 1;
                let beat_due = before.and_then(next_heartbeat);
                self.heartbeat_lags.extend(beat_due.map(|due| now.since(due)));
            }
            Event::CancelSignalled => self.cancel_signals += 1,
            Event::AttemptClosed { closed, next } => self.note_closed(before, closed, next),
            Event::Ended(end) => self.note_end(before, end),
            Event::Run(_) => self.submitted += u64::from(event.submitted().is_some()),
            Event::Stalled { .. } => self.note_stall(before),
            Event::Started | Event::Extended { .. } | Event::CancelRequested { .. } => {}
        }
    }

    fn note_closed(&mut self, before: Option<&Task>, closed: &ClosedAttempt, next: &Next) {
        self.attempts.note(closed.outcome.name());
        self.attempt_lengths.push(closed.closed_at.since(closed.granted_at));
        self.expired += u64::from(closed.reason == Some(Reason::HeartbeatTimeout));
        if (closed.outcome, closed.reason) == (AttemptOutcome::Revoked, Some(Reason::Stalled)) {
            self.note_stall(before);
        }
        match next {
            Next::Retry { .. } => {
                let category = closed.fault.as_ref().map(|fault| fault.category.name());
                self.retries.note(category.unwrap_or(closed.outcome.name()));
            }
            Next::End(end) => self.note_end(before, end),
            Next::Wait(_) | Next::Stage(_) => {}
        }
    }

    /// Counts an attempt that made no progress for too long, by what followed.
    fn note_stall(&mut self, before: Option<&Task>) {
        if let Some(task) = before {
            self.stalls.note(task.policy.clock().action.name());
        }
    }

    fn note_end(&mut self, before: Option<&Task>, end: &End) {
        // Retention forgets whole runs, so only their ends count.
        let root = before.filter(|task| task.run_id() == task.id);
        self.ended_created.extend(root.map(|task| task.created_at));
        self.ended.note(end.state.name());
        self.cancel_timeouts += u64::from(end.reason == Some(Reason::CancelTimeout));
    }

    /// Counts a submission that its tenant's quota or a budget refused.
    pub(crate) fn note_submission(&mut self, answer: &Answer) {
        let is_refused = matches!(answer, Answer::Refused(Refusal::QuotaReached { .. }));
        self.quota_refusals += u64::from(is_refused);
        let is_refused = matches!(answer, Answer::Refused(Refusal::BudgetSpent(_)));
        self.budget_refusals += u64::from(is_refused);
    }

    /// Counts the verdict that a worker got. Answers to clients, and to requests of the coordinator, are no verdicts.
    pub(crate) fn note_answer(&mut self, request: &Request, answer: &Answer) {
        if request.caller().is_none() {
            return;
        }
        let label = match answer {
            Answer::Acknowledged | Answer::Alive { .. } | Answer::Run(_) => ("COMMITTED", "ok"),
            Answer::Committed { replayed: true, .. } => ("COMMITTED", "replayed"),
            Answer::Committed { .. } => ("COMMITTED", "ok"),
            Answer::Refused(refusal) => {
                (worker_verdict_name(refusal.worker_verdict()), refusal.name())
            }
            Answer::Accepted { .. }
            | Answer::Granted
            | Answer::CancelAccepted { .. }
            | Answer::Done
            | Answer::Nothing
            | Answer::Schedule(_)
            | Answer::Budget(_)
            | Answer::Policy(_)
            | Answer::Recovery(_)
            | Answer::Object(_) => return,
        };
        self.verdicts.note(label);
    }
}

/// Since when the task has been ready.
fn due(task: &Task) -> Option<Time> {
    task.claimable_at()
}

/// When the next heartbeat of the worker was due.
fn next_heartbeat(task: &Task) -> Option<Time> {
    Some(task.lease()?.heartbeat_at.plus(task.policy.heartbeat_every))
}

fn worker_verdict_name(worker_verdict: WorkerVerdict) -> &'static str {
    match worker_verdict {
        WorkerVerdict::Committed => "COMMITTED",
        WorkerVerdict::Cancelled => "CANCELLED",
        WorkerVerdict::Rejected => "REJECTED",
    }
}

#[cfg(test)]
mod tests {
    use verdict::LeaseId;
    use verdict::request::{Caller, Cancel, CancelMode, Started};

    use super::*;

    #[test]
    fn each_label_has_a_number_of_its_own() {
        let mut batch_metrics = BatchMetrics::default();
        batch_metrics.note_event(None, &Event::CancelSignalled, Time::from_millis(0));
        let caller =
            Caller { worker: "w".into(), attempt: 1, lease: LeaseId::from_u128(1), epoch: 1 };
        let started = Request::Started(Started { caller, claimed_at: None });
        batch_metrics.note_answer(&started, &Answer::Acknowledged);
        batch_metrics.note_answer(&started, &Answer::Acknowledged);
        batch_metrics.note_answer(&started, &Answer::Refused(Refusal::TaskNotFound));
        batch_metrics.note_answer(&started, &Answer::Nothing);
        // A client's cancel of a run that is unknown gets no verdict.
        let cancel = Request::Cancel(Cancel { reason: None, mode: CancelMode::Graceful });
        batch_metrics.note_answer(&cancel, &Answer::Refused(Refusal::TaskNotFound));
        let verdicts: Vec<_> = batch_metrics.verdicts.iter().collect();
        let refusal = Refusal::TaskNotFound;
        let refused = (worker_verdict_name(refusal.worker_verdict()), refusal.name());
        assert_eq!(verdicts, [(("COMMITTED", "ok"), 2), (refused, 1)]);
        assert_eq!((batch_metrics.cancel_signals, batch_metrics.submitted), (1, 0));
    }
}
