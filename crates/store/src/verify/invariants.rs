//! Invariants of every task, independent of its decisions.

use verdict::record;
use verdict::{ClosedAttempt, Digest, Event, Fence, Subject};

use super::flaw::{Flaw, FlawCode};
use crate::row::{Entry, StoredTask};

/// What was read of a task's history and attempts, one after the other.
pub(super) struct InvariantCheck {
    first: Option<Entry>,
    attempts: u32,
    /// The first attempt out of place.
    misplaced: Option<String>,
    fence: Option<Fence>,
    is_fence_smaller: bool,
    /// The digest of the attempts so far.
    chain: Option<Digest>,
}

impl InvariantCheck {
    pub(super) fn new() -> Self {
        Self {
            first: None,
            attempts: 0,
            misplaced: None,
            fence: None,
            is_fence_smaller: false,
            chain: None,
        }
    }

    /// The first entry, before any attempt, has the beginning of the record.
    pub(super) fn entry(&mut self, entry: &Entry) {
        if self.first.is_none() {
            self.chain = first_chain(entry);
            self.first = Some(entry.clone());
        }
    }

    pub(super) fn attempt(&mut self, closed: &ClosedAttempt) {
        self.attempts += 1;
        let n = self.attempts;
        if closed.attempt != n && self.misplaced.is_none() {
            let misplaced = format!("attempt {} is in the place of attempt {n}", closed.attempt);
            self.misplaced = Some(misplaced);
        }
        self.fence(closed.fence);
        self.chain = self.chain.map(|chain| record::extend(chain, closed));
    }

    fn fence(&mut self, fence: Fence) {
        self.is_fence_smaller |= self.fence.is_some_and(|before| before >= fence);
        self.fence = Some(fence);
    }

    /// Every violated invariant.
    pub(super) fn check(mut self, found: &StoredTask) -> Vec<Flaw> {
        let mut wrong = Vec::new();
        self.check_attempts(&found.subject, &mut wrong);
        check_times(&found.subject, &mut wrong);
        self.check_record(&found.subject, &mut wrong);
        self.check_input(found, &mut wrong);
        wrong
    }

    /// Attempts are numbered from 1 without gaps, and each fence is larger than all fences before it.
    fn check_attempts(&mut self, subject: &Subject, wrong: &mut Vec<Flaw>) {
        if let Some(misplaced) = self.misplaced.take() {
            wrong.push(FlawCode::AttemptDiffers.flaw(misplaced));
            return;
        }
        let (attempt, open) = match subject {
            Subject::Live(task) => (task.attempt, task.lease().map(|lease| lease.fence)),
            Subject::Done(done) => (done.attempt, None),
            Subject::Absent => return,
        };
        let known = self.attempts + u32::from(open.is_some());
        if attempt != known {
            let what = format!("{attempt} attempts are counted and {known} are known");
            wrong.push(FlawCode::AttemptDiffers.flaw(what));
        }
        open.into_iter().for_each(|fence| self.fence(fence));
        if self.is_fence_smaller {
            let what = "a fence is not larger than the one before it";
            wrong.push(FlawCode::AttemptDiffers.flaw(what));
        }
    }

    /// The record's digest, computed from the submission, the attempts and the end. That of a durable run has its
    /// checkpoints in between: the fold of its history computes it.
    fn check_record(&self, subject: &Subject, wrong: &mut Vec<Flaw>) {
        let Some(chain) = self.chain else { return };
        let matches = match subject {
            Subject::Live(task) => task.run.is_some() || task.chain == chain,
            Subject::Done(done) if done.run.is_some() => true,
            Subject::Done(done) => {
                let (end, from, to) = (&done.end, done.created_at, done.completed_at);
                done.record == record::seal_chain(chain, end, from, to)
            }
            Subject::Absent => return,
        };
        if !matches {
            let what = "its record's digest does not match its attempts and end";
            wrong.push(FlawCode::RecordDiffers.flaw(what));
        }
    }

    /// The payload has the digest that was decided about.
    fn check_input(&self, found: &StoredTask, wrong: &mut Vec<Flaw>) {
        let submitted = self.first.as_ref().and_then(|entry| entry.events.first());
        if let Some(submitted) = submitted.and_then(Event::submitted)
            && submitted.input != Digest::of(&[found.spec.input.as_str().as_bytes()])
        {
            wrong.push(FlawCode::InputDiffers.flaw("its input differs from the submitted one"));
        }
    }
}

fn check_times(subject: &Subject, wrong: &mut Vec<Flaw>) {
    let (created_at, started_at, completed_at) = match subject {
        Subject::Live(task) => (task.created_at, task.started_at, None),
        Subject::Done(done) => (done.created_at, done.started_at, Some(done.completed_at)),
        Subject::Absent => return,
    };
    let times: Vec<_> =
        [Some(created_at), started_at, completed_at].into_iter().flatten().collect();
    if times.windows(2).any(|pair| pair[0] > pair[1]) {
        let what = "it was not created, started and completed in that order";
        wrong.push(FlawCode::Impossible.flaw(what));
    }
    if let Subject::Done(done) = subject
        && !done.end.state.is_terminal()
    {
        let state = done.end.state.name();
        let what = format!("it has ended as {state}, which is not a terminal state");
        wrong.push(FlawCode::Impossible.flaw(what));
    }
}

fn first_chain(first: &Entry) -> Option<Digest> {
    let submitted = first.events.iter().take(1).filter(|event| is_submission(event));
    let events: Vec<Event> = submitted.cloned().collect();
    let subject = Subject::Absent.settle(&events, first.at);
    subject.live().map(|task| task.chain)
}

fn is_submission(event: &Event) -> bool {
    matches!(event, Event::Submitted(_))
}
