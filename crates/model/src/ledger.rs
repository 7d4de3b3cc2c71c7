//! An independent check of every decision.
//!
//! The ledger tracks all grants, renewals, signals and answers with its own counters and compares each verdict with
//! them. Where it can derive a value, it does not read the one that the rules keep in the task. It takes durations
//! from the policy, so a wrong `expires_at` shows up here.

use verdict::policy::{RELEASES_MAX, UNDELIVERED_MAX};
use verdict::request::{Extend, Report};
use verdict::transition::{Authority, is_listed};
use verdict::{
    Answer, AttemptOutcome, ClosedAttempt, Digest, Event, LeaseId, Moment, Name, Next, Policy,
    Reason, Refusal, Request, State, Subject, Task, Time, Verdict,
};

use crate::property::{Broken, Property};

/// What is known of one task without asking the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    pub grants: u32,
    pub open: Option<OpenLease>,
    /// The reports that were committed, by lease.
    pub committed: Vec<Committed>,
    pub cancel: Option<CancelState>,
    /// Consecutive grants under which the worker made no call.
    pub unheard: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenLease {
    pub lease: LeaseId,
    pub owner: Name,
    pub epoch: u32,
    pub granted_at: Time,
    pub until: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Committed {
    pub lease: LeaseId,
    pub digest: Digest,
    pub outcome: AttemptOutcome,
}

/// An accepted cancel, and when a worker was first told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CancelState {
    pub told_at: Option<Time>,
}

/// One decision, before it is applied.
pub(crate) struct Decision<'a> {
    pub(crate) before: &'a Subject,
    pub(crate) request: &'a Request,
    pub(crate) verdict: &'a Verdict,
    pub(crate) at: Moment,
    /// The largest fence granted for the task so far.
    pub(crate) fence: u64,
}

impl Ledger {
    /// The properties that the decision alone breaks. Such a decision is not applied.
    pub(crate) fn judge(&self, decision: &Decision<'_>) -> Broken {
        let mut broken = Broken::default();
        let events = &decision.verdict.events;
        let ended = matches!(decision.before, Subject::Done(_));
        broken.require(Property::B2, !ended || events.is_empty());
        for event in events {
            self.judge_event(event, decision, &mut broken);
        }
        self.judge_answer(decision, &mut broken);
        broken
    }

    fn judge_event(&self, event: &Event, decision: &Decision<'_>, broken: &mut Broken) {
        match event {
            Event::Granted { fence, .. } => {
                broken.require(Property::A1, self.open.is_none());
                broken.require(Property::A2, fence.as_u64() > decision.fence);
                broken.require(Property::B7, self.cancel.is_none());
                judge_grant(decision, broken);
            }
            Event::AttemptClosed { closed, next } => {
                self.judge_close(closed, decision.at, broken);
                self.judge_row(closed, next, decision.at, broken);
                self.judge_release(closed, next, decision, broken);
            }
            Event::Started
            | Event::Renewed { .. }
            | Event::Extended { .. }
            | Event::Stalled { .. } => {
                broken.require(Property::B1, self.open.is_some());
            }
            Event::CancelSignalled => broken.require(Property::B1, self.cancel.is_some()),
            Event::Submitted(_)
            | Event::CancelRequested { .. }
            | Event::Ended(_)
            | Event::Run(_) => {}
        }
    }

    fn judge_close(&self, closed: &ClosedAttempt, at: Moment, broken: &mut Broken) {
        let Some(open) = &self.open else { return broken.require(Property::B1, false) };
        broken.require(Property::A1, open.lease == closed.lease);
        let silent = closed.outcome == AttemptOutcome::Lost
            || (closed.outcome == AttemptOutcome::Undelivered
                && closed.reason == Some(Reason::HeartbeatTimeout));
        broken.require(Property::A8, !silent || open.until.has_come(at.now));
        let started_at = closed.started_at.unwrap_or(closed.closed_at);
        let in_order = closed.granted_at <= started_at && started_at <= closed.closed_at;
        broken.require(Property::B4, in_order && closed.closed_at == at.now);
    }

    /// Consecutive undelivered grants are delayed from the second one on, and their number is limited.
    fn judge_row(&self, closed: &ClosedAttempt, next: &Next, at: Moment, broken: &mut Broken) {
        let Next::Retry { due } = next else { return };
        if closed.outcome == AttemptOutcome::Undelivered {
            let count = self.unheard + 1;
            let is_last = count == UNDELIVERED_MAX;
            broken.require(Property::B3, count <= UNDELIVERED_MAX);
            broken.require(Property::B3, self.unheard == 0 || is_last || *due > at.now);
        }
    }

    /// A released task is not leased again at once, and not without end. How long it waits is counted from its grant,
    /// so that a worker that hands back at once does not spin.
    fn judge_release(
        &self,
        closed: &ClosedAttempt,
        next: &Next,
        decision: &Decision<'_>,
        broken: &mut Broken,
    ) {
        let (Some(open), Some(task)) = (&self.open, decision.before.live()) else { return };
        if closed.outcome != AttemptOutcome::Released {
            return;
        }
        let ends = matches!(next, Next::End(_));
        broken.require(Property::B7, self.cancel.is_none() || ends);
        if let Next::Retry { due } = next {
            let others = task.failures + task.lost;
            broken.require(Property::B3, self.grants - others <= RELEASES_MAX);
            let soonest = open.granted_at.plus(task.policy.lease);
            broken.require(Property::B3, *due >= soonest);
        }
    }

    fn judge_answer(&self, decision: &Decision<'_>, broken: &mut Broken) {
        let answer = &decision.verdict.answer;
        match decision.request {
            Request::Report(report) => self.judge_report(report, decision, broken),
            Request::Started(_) if *answer == Answer::Acknowledged => {
                self.judge_authority(decision, Property::A6, broken);
            }
            Request::Heartbeat(_) if matches!(answer, Answer::Alive { .. }) => {
                self.judge_authority(decision, Property::A6, broken);
            }
            _ => {}
        }
    }

    /// Whether an accepted call had authority: newest lease, its owner, in time.
    fn judge_authority(&self, decision: &Decision<'_>, or: Property, broken: &mut Broken) {
        let Some(caller) = decision.request.caller() else { return };
        let Some(open) = &self.open else { return broken.require(or, false) };
        let newest = open.lease == caller.lease && caller.attempt == self.grants;
        let in_time = !open.until.has_come(decision.at.now) && open.epoch == decision.at.epoch;
        broken.require(or, newest && in_time);
        broken.require(Property::A7, !newest || open.owner == caller.worker);
    }

    fn judge_report(&self, report: &Report, decision: &Decision<'_>, broken: &mut Broken) {
        let earlier = self.committed.iter().find(|one| one.lease == report.caller.lease);
        let Verdict { answer, events } = decision.verdict;
        match (earlier, answer) {
            (Some(earlier), Answer::Committed { outcome, replayed, .. }) => {
                broken.require(Property::A3, earlier.digest == report.digest);
                let again = *replayed && *outcome == earlier.outcome && events.is_empty();
                broken.require(Property::C6, again);
            }
            (Some(earlier), Answer::Refused(refusal)) => {
                let excused = *refusal == Refusal::WorkerMismatch;
                broken.require(Property::C6, excused || earlier.digest != report.digest);
            }
            (None, Answer::Committed { replayed, .. }) => {
                broken.require(Property::C6, !replayed);
                self.judge_authority(decision, Property::A4, broken);
            }
            _ => {}
        }
    }

    /// The properties that the applied decision breaks: transitions, counts, times, and the next effect of time.
    pub(crate) fn compare(&self, decision: &Decision<'_>, after: &Subject) -> Broken {
        let mut broken = Broken::default();
        judge_change(decision, after, &mut broken);
        judge_counts(decision, after, &mut broken);
        judge_times(decision.before, after, &mut broken);
        let attempt = match after {
            Subject::Absent => 0,
            Subject::Live(task) => task.attempt,
            Subject::Done(done) => done.attempt,
        };
        broken.require(Property::B3, attempt == self.grants);
        broken
    }

    /// The instant from which a sweep must close the open attempt, and whether it must end the task.
    pub(crate) fn must_close(&self, policy: &Policy) -> Option<(Time, Ending)> {
        let open = self.open.as_ref()?;
        Some(match self.cancel {
            None => (open.until, Ending::Attempt),
            Some(CancelState { told_at: None }) => (open.until, Ending::Task),
            Some(CancelState { told_at: Some(told_at) }) => {
                (told_at.plus(policy.cancel_grace).min(open.until), Ending::Task)
            }
        })
    }

    /// Records the effects of a decision that broke nothing.
    pub(crate) fn note(&mut self, decision: &Decision<'_>, policy: &Policy) {
        for event in &decision.verdict.events {
            self.note_event(event, decision.at, policy);
        }
        match (decision.request, &decision.verdict.answer) {
            (Request::Heartbeat(_), Answer::Alive { cancel, .. }) => {
                if let (Some(_), Some(seen)) = (cancel, &mut self.cancel) {
                    seen.told_at = seen.told_at.or(Some(decision.at.now));
                }
            }
            (Request::Extend(extend), _) => self.note_gap(extend, decision.at, policy),
            _ => {}
        }
    }

    fn note_event(&mut self, event: &Event, at: Moment, policy: &Policy) {
        match event {
            Event::Granted { lease, owner, .. } => {
                self.grants += 1;
                let until = bounded(policy, at.now, at.now.plus(policy.lease));
                let (lease, owner) = (*lease, owner.clone());
                self.open =
                    Some(OpenLease { lease, owner, epoch: at.epoch, granted_at: at.now, until });
            }
            Event::Renewed { .. } => {
                if let Some(open) = &mut self.open {
                    let wanted = bounded(policy, open.granted_at, at.now.plus(policy.lease));
                    open.until = open.until.max(wanted);
                }
            }
            Event::CancelRequested { .. } => self.cancel = Some(CancelState { told_at: None }),
            Event::AttemptClosed { closed, .. } => {
                self.open = None;
                let is_unheard = closed.outcome == AttemptOutcome::Undelivered;
                self.unheard = if is_unheard { self.unheard + 1 } else { 0 };
                if let Some(digest) = closed.report {
                    let (lease, outcome) = (closed.lease, closed.outcome);
                    self.committed.push(Committed { lease, digest, outcome });
                }
            }
            Event::Submitted(_)
            | Event::Started
            | Event::Extended { .. }
            | Event::Stalled { .. }
            | Event::CancelSignalled
            | Event::Ended(_)
            | Event::Run(_) => {}
        }
    }

    /// A lease that was alive when the stall began must be extended by the gap.
    fn note_gap(&mut self, extend: &Extend, at: Moment, policy: &Policy) {
        let Some(open) = &mut self.open else { return };
        if open.epoch != at.epoch || open.until.has_come(extend.stalled_since) {
            return;
        }
        let wanted = bounded(policy, open.granted_at, open.until.plus(extend.gap));
        open.until = open.until.max(wanted);
        if let Some(CancelState { told_at: Some(told_at) }) = &mut self.cancel {
            *told_at = told_at.plus(extend.gap);
        }
    }
}

/// The effect that a sweep must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Attempt,
    Task,
}

impl Ending {
    /// Whether the events have this effect.
    pub(crate) fn is_done_by(self, events: &[Event]) -> bool {
        events.iter().any(|event| match event {
            Event::AttemptClosed { next, .. } => {
                self == Ending::Attempt || matches!(next, Next::End(_))
            }
            _ => false,
        })
    }
}

/// A lease ends at the attempt's limit or at the deadline at the latest.
fn bounded(policy: &Policy, granted_at: Time, wanted: Time) -> Time {
    let limited = policy.attempt_limit.map_or(wanted, |limit| wanted.min(granted_at.plus(limit)));
    policy.deadline.map_or(limited, |deadline| limited.min(deadline))
}

fn judge_grant(decision: &Decision<'_>, broken: &mut Broken) {
    let Some(task) = decision.before.live() else { return broken.require(Property::B1, false) };
    let now = decision.at.now;
    let due = task.claimable_at().is_some_and(|due| due.has_come(now));
    let over = task.policy.deadline.is_some_and(|deadline| deadline.has_come(now));
    broken.require(Property::B8, due && !over);
    broken.require(Property::B3, has_tries_left(task) && task.undelivered < UNDELIVERED_MAX);
}

fn has_tries_left(task: &Task) -> bool {
    task.failures < task.policy.failures_max && task.lost < task.policy.lost_max
}

fn judge_change(decision: &Decision<'_>, after: &Subject, broken: &mut Broken) {
    let (from, to) = (decision.before.state(), after.state());
    if from == to {
        return;
    }
    let listed = to.is_some_and(|to| is_listed(from, to, owner(decision, to)));
    broken.require(Property::B1, listed);
}

/// The owner of a transition, derived from the request and from the reason the attempt was closed.
pub(crate) fn owner(decision: &Decision<'_>, to: State) -> Authority {
    match decision.request {
        Request::Submit(_) => Authority::Submitter,
        Request::Grant(_) => Authority::Pool,
        Request::Report(_) => Authority::Runner,
        Request::Cancel(_) | Request::Started(_) => Authority::Canceller,
        Request::Undelivered(_) if to == State::Cancelled => Authority::Canceller,
        Request::Undelivered(_) => Authority::Pool,
        Request::Run(_) => Authority::Engine,
        Request::Heartbeat(_) | Request::Extend(_) | Request::Sweep => {
            match closing_reason(&decision.verdict.events) {
                Some(Reason::CancelTimeout) => Authority::Canceller,
                _ => Authority::Sweeper,
            }
        }
    }
}

fn closing_reason(events: &[Event]) -> Option<Reason> {
    events.iter().find_map(|event| match event {
        Event::AttemptClosed { closed, .. } => closed.reason,
        _ => None,
    })
}

/// Each failure and each lost worker is counted once, and a waiting or running task has not used up either limit.
fn judge_counts(decision: &Decision<'_>, after: &Subject, broken: &mut Broken) {
    let Some(before) = decision.before.live() else { return };
    let closed = |outcome| {
        let is_one = |event: &Event| matches!(event, Event::AttemptClosed { closed, .. } if closed.outcome == outcome);
        u32::from(decision.verdict.events.iter().any(is_one))
    };
    let (failures, lost) = match after {
        Subject::Absent => return broken.require(Property::B1, false),
        Subject::Live(task) => {
            broken.require(Property::B3, has_tries_left(task));
            (task.failures, task.lost)
        }
        Subject::Done(done) => (done.failures, done.lost),
    };
    let timed_out =
        u32::from(closing_reason(&decision.verdict.events) == Some(Reason::AttemptTimeout));
    let failed = closed(AttemptOutcome::Failed) + timed_out;
    broken.require(Property::B3, failures == before.failures + failed);
    broken.require(Property::B3, lost == before.lost + closed(AttemptOutcome::Lost));
}

fn judge_times(before: &Subject, after: &Subject, broken: &mut Broken) {
    if let (Subject::Live(before), Subject::Live(after)) = (before, after) {
        broken.require(Property::B4, before.decided_at <= after.decided_at);
    }
    let in_order = match after {
        Subject::Absent => true,
        Subject::Live(task) => {
            let started_at = task.started_at.unwrap_or(task.decided_at);
            task.created_at <= started_at && started_at <= task.decided_at
        }
        Subject::Done(done) => {
            let started_at = done.started_at.unwrap_or(done.completed_at);
            done.created_at <= started_at && started_at <= done.completed_at
        }
    };
    broken.require(Property::B4, in_order);
}
