//! Isolation: finds the request or task that makes a batch fail, so that the rest is carried in the same round.
//!
//! If the store or a decision names a task, that task is set aside ([`crate::set_aside`]) and the batch is carried
//! without it. If no task is named, or the named one cannot be set aside, requests and background work (sweeps and
//! grants) are carried separately, and each part is halved until the culprit is alone. A single request then gets an
//! error; a single task of the background work is set aside. A request that fails without a named task never sets its
//! task aside, because the request itself may be what cannot be stored.

use std::ops::Range;

use store::{Failure, FailureKind, Store};
use tokio::time::Instant;
use verdict::TaskId;

use super::Carrier;
use super::abort::error_chain;
use super::commit::Replies;
use crate::item::{Item, RequestError};
use crate::set_aside::{SetAsideOutcome, is_worth_logging};

/// No limit on the tasks of background work in one batch.
const BACKGROUND_MAX: usize = usize::MAX;

/// How many times a round is carried again to find the culprit. The search then continues in the next round, so that
/// other callers are answered in between.
const TRIES_MAX: usize = 96;

/// What made a batch fail, as far as is known.
pub(super) struct Culprit {
    pub(super) task: Option<TaskId>,
    pub(super) why: String,
}

impl Culprit {
    pub(super) fn unknown(why: &str) -> Self {
        Self { task: None, why: why.to_owned() }
    }
}

/// What one batch of a round carries.
pub(super) struct Part {
    pub(super) range: Range<usize>,
    /// The largest number of tasks that background work may touch; `None` for a batch without it.
    pub(super) background_max: Option<usize>,
}

/// The state of one round: the parts still to be carried, and the reply to every request.
pub(super) struct Isolation {
    parts: Vec<Part>,
    pub(super) replies: Replies,
    tries: usize,
}

impl Isolation {
    /// Begins with everything in one batch.
    pub(super) fn of(items: usize, has_background: bool) -> Self {
        let whole =
            Part { range: 0..items, background_max: has_background.then_some(BACKGROUND_MAX) };
        Self {
            parts: vec![whole],
            replies: vec![Some(Err(RequestError::Unknown)); items],
            tries: 0,
        }
    }

    pub(super) fn next(&mut self) -> Option<Part> {
        self.parts.pop()
    }

    pub(super) fn again(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// Records a committed part. If its background work was limited, the rest is queued.
    pub(super) fn carried(&mut self, part: Part, answered: Replies, background_done: usize) {
        for (reply, answer) in self.replies[part.range].iter_mut().zip(answered) {
            *reply = answer;
        }
        if part.background_max.is_some_and(|background_max| background_done >= background_max) {
            self.queue_background(BACKGROUND_MAX);
        }
    }

    /// Queues background work without requests, after everything else.
    fn queue_background(&mut self, background_max: usize) {
        self.parts.insert(0, Part { range: 0..0, background_max: Some(background_max) });
    }

    pub(super) fn answer(&mut self, part: Part, error: &RequestError) {
        self.replies[part.range].fill(Some(Err(error.clone())));
    }

    /// Answers all remaining parts.
    pub(super) fn answer_all(&mut self, error: &RequestError) {
        while let Some(part) = self.next() {
            self.answer(part, error);
        }
    }

    /// Halves a range of requests. A single request gets an error instead, and its range is returned.
    fn halve(&mut self, range: Range<usize>) -> Option<Range<usize>> {
        if range.len() == 1 {
            self.replies[range.clone()].fill(Some(Err(RequestError::Defect)));
            return Some(range);
        }
        let middle = range.start + range.len() / 2;
        self.again(Part { range: middle..range.end, background_max: None });
        self.again(Part { range: range.start..middle, background_max: None });
        None
    }
}

impl<S: Store> Carrier<S> {
    /// Queues what to carry instead of a batch that failed.
    pub(super) fn isolate(
        &mut self,
        isolation: &mut Isolation,
        part: Part,
        culprit: Culprit,
        background_done: &[TaskId],
    ) {
        isolation.tries += 1;
        let Culprit { task, why } = culprit;
        let is_named = task.is_some_and(|task| self.set_aside(task, &why));
        let Part { range, background_max } = part;
        match background_max {
            // Tasks are set aside further in the next round, after callers were answered.
            Some(_) if isolation.tries >= TRIES_MAX && range.is_empty() => self.more_due = true,
            _ if is_named => isolation.again(Part { range, background_max }),
            Some(_) if !range.is_empty() => {
                isolation.queue_background(BACKGROUND_MAX);
                isolation.again(Part { range, background_max: None });
            }
            Some(_) => self.isolate_background(isolation, &why, background_done),
            None if range.is_empty() => {}
            None => {
                if isolation.halve(range).is_some() {
                    tracing::error!(%why, "a request failed because of a bug");
                    self.metrics.failures.inc();
                }
            }
        }
    }

    /// Narrows down the culprit within the background work.
    fn isolate_background(
        &mut self,
        isolation: &mut Isolation,
        why: &str,
        background_done: &[TaskId],
    ) {
        match background_done {
            [task] if self.set_aside(*task, why) => isolation.queue_background(BACKGROUND_MAX),
            [] | [_] => {
                tracing::error!(%why, "sweeps and grants failed; retrying later");
                self.metrics.failures.inc();
                self.more_due = true;
                self.backoff.failed(tokio::time::Instant::now());
            }
            several => isolation.queue_background(several.len() / 2),
        }
    }

    /// Sets a task aside. Returns `false` if it is set aside already or the list is full.
    fn set_aside(&mut self, task: TaskId, why: &str) -> bool {
        let here = tokio::time::Instant::now();
        if self.set_aside.remaining(task, here).is_some() {
            return false;
        }
        let outcome = self.set_aside.add(task, why.to_owned(), self.store.now(), here);
        match outcome {
            SetAsideOutcome::Added(tries) if is_worth_logging(tries) => tracing::error!(
                %task,
                %why,
                tries,
                "a task cannot be processed and is set aside; other tasks continue (`tenure doctor`)"
            ),
            SetAsideOutcome::Added(_) => {}
            SetAsideOutcome::ListFull => {
                tracing::error!(%task, %why, "too many tasks are set aside already");
            }
        }
        self.metrics.failures.inc();
        outcome != SetAsideOutcome::ListFull
    }

    /// Sets the task of a failure aside. Returns `false` if the failure concerns no single task.
    pub(super) fn set_aside_failed_task(&mut self, failure: &Failure) -> bool {
        let task = failure.task.filter(|_| failure.kind == FailureKind::Invalid);
        task.is_some_and(|task| self.set_aside(task, &error_chain(failure)))
    }

    /// After a commit: tasks that were carried leave the set-aside list, and requests about tasks still on it get an
    /// error.
    pub(super) fn note_carried(
        &self,
        items: &[Item],
        background_done: &[TaskId],
        replies: &mut Replies,
        begun: Instant,
    ) {
        if self.set_aside.is_empty() {
            return;
        }
        let mut carried = background_done.to_vec();
        for (item, reply) in items.iter().zip(replies) {
            let Some((key, _)) = item.about() else { continue };
            match self.set_aside.remaining(key.id, begun) {
                Some(left) if reply.is_none() => *reply = Some(Err(RequestError::SetAside(left))),
                _ => carried.push(key.id),
            }
        }
        self.set_aside.resolve(carried.into_iter(), begun);
    }
}
