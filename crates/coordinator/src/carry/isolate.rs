//! Finding what a batch cannot be carried with, so that everything else goes on in the same round.
//!
//! Where the store or a decision names a task, that one is set aside ([`crate::aside`]) and the batch is carried without
//! it. Where nobody is named, what was asked for and what rides along (sweeps and grants) are carried apart, and each
//! part is halved until the culprit stands alone: a request then gets an error, a task is set aside. A request is never
//! blamed on its task, because it may be its own words that cannot be stored.

use std::ops::Range;

use store::{Failure, FailureKind, Store};
use tokio::time::Instant;
use verdict::TaskId;

use super::Carrier;
use super::bisect::{Replies, chain};
use crate::aside::{Found, is_worth_a_line};
use crate::item::{Item, Trouble};

/// Tasks that ride along in one batch: more than any batch sweeps and grants together.
const RIDERS_MAX: usize = usize::MAX;

/// How often a round is carried again to find out what it cannot be carried with. What is still not known then is left
/// to the next round, so that others are answered in between.
const TRIES_MAX: usize = 96;

/// What a batch could not be carried with, as far as is known.
pub(super) struct Blame {
    pub(super) task: Option<TaskId>,
    pub(super) why: String,
}

impl Blame {
    pub(super) fn somebody(why: &str) -> Self {
        Self { task: None, why: why.to_owned() }
    }
}

/// What one batch of a round carries.
pub(super) struct Part {
    pub(super) range: Range<usize>,
    /// How many tasks may ride along; `None` for a batch without.
    pub(super) riders: Option<usize>,
}

/// One round: the parts that are left of it, and what everybody is told.
pub(super) struct Round {
    parts: Vec<Part>,
    pub(super) replies: Replies,
    tries: usize,
}

impl Round {
    /// Everything in one batch at first.
    pub(super) fn of(items: usize, rides: bool) -> Self {
        let whole = Part { range: 0..items, riders: rides.then_some(RIDERS_MAX) };
        Self { parts: vec![whole], replies: vec![Some(Err(Trouble::Unknown)); items], tries: 0 }
    }

    pub(super) fn next(&mut self) -> Option<Part> {
        self.parts.pop()
    }

    pub(super) fn again(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// A part went through. Where only so many could ride along, the rest follows.
    pub(super) fn carried(&mut self, part: Part, answered: Replies, ridden: usize) {
        for (reply, answer) in self.replies[part.range].iter_mut().zip(answered) {
            *reply = answer;
        }
        if part.riders.is_some_and(|riders| ridden >= riders) {
            self.ride(RIDERS_MAX);
        }
    }

    /// What rides along, without anything that was asked for, after everything else.
    fn ride(&mut self, riders: usize) {
        self.parts.insert(0, Part { range: 0..0, riders: Some(riders) });
    }

    pub(super) fn answer(&mut self, part: Part, trouble: &Trouble) {
        self.replies[part.range].fill(Some(Err(trouble.clone())));
    }

    /// Answers all that is left.
    pub(super) fn answer_all(&mut self, trouble: &Trouble) {
        while let Some(part) = self.next() {
            self.answer(part, trouble);
        }
    }

    /// Halves what was asked for; one request alone is told of it, and that is said.
    fn halve(&mut self, range: Range<usize>) -> Option<Range<usize>> {
        if range.len() == 1 {
            self.replies[range.clone()].fill(Some(Err(Trouble::Defect)));
            return Some(range);
        }
        let middle = range.start + range.len() / 2;
        self.again(Part { range: middle..range.end, riders: None });
        self.again(Part { range: range.start..middle, riders: None });
        None
    }
}

impl<S: Store> Carrier<S> {
    /// A batch cannot be carried as it is: what is to be carried instead.
    pub(super) fn isolate(
        &mut self,
        round: &mut Round,
        part: Part,
        blame: Blame,
        ridden: &[TaskId],
    ) {
        round.tries += 1;
        let Blame { task, why } = blame;
        let is_named = task.is_some_and(|task| self.set_aside(task, &why));
        let Part { range, riders } = part;
        match riders {
            // Setting aside goes on in the next round, with everybody answered in between.
            Some(_) if round.tries >= TRIES_MAX && range.is_empty() => self.more_due = true,
            _ if is_named => round.again(Part { range, riders }),
            Some(_) if !range.is_empty() => {
                round.ride(RIDERS_MAX);
                round.again(Part { range, riders: None });
            }
            Some(_) => self.isolate_rider(round, &why, ridden),
            None if range.is_empty() => {}
            None => {
                if round.halve(range).is_some() {
                    tracing::error!(%why, "a request cannot be carried out because of a defect");
                    self.metrics.failures.inc();
                }
            }
        }
    }

    /// What rides along is the culprit, or part of it.
    fn isolate_rider(&mut self, round: &mut Round, why: &str, ridden: &[TaskId]) {
        match ridden {
            [task] if self.set_aside(*task, why) => round.ride(RIDERS_MAX),
            [] | [_] => {
                tracing::error!(%why, "sweeps and grants cannot be carried out; trying again later");
                self.metrics.failures.inc();
                self.more_due = true;
                self.backoff.failed(tokio::time::Instant::now());
            }
            several => round.ride(several.len() / 2),
        }
    }

    /// Leaves a task alone from now on, if it is not already and there is room in the list.
    fn set_aside(&mut self, task: TaskId, why: &str) -> bool {
        let here = tokio::time::Instant::now();
        if self.aside.left(task, here).is_some() {
            return false;
        }
        let found = self.aside.found(task, why.to_owned(), self.store.now(), here);
        match found {
            Found::Aside(tries) if is_worth_a_line(tries) => tracing::error!(
                %task,
                %why,
                tries,
                "a task cannot be carried on and is set aside; all others go on (`tenure doctor`)"
            ),
            Found::Aside(_) => {}
            Found::TooMany => {
                tracing::error!(%task, %why, "too many tasks are set aside already");
            }
        }
        self.metrics.failures.inc();
        found != Found::TooMany
    }

    /// Whether a failure was one task's, which is left alone from now on.
    pub(super) fn sets_aside(&mut self, failure: &Failure) -> bool {
        let task = failure.task.filter(|_| failure.kind == FailureKind::Invalid);
        task.is_some_and(|task| self.set_aside(task, &chain(failure)))
    }

    /// After a commit: what was carried is bad no longer, and who asked about what is left alone is told so.
    pub(super) fn note_carried(
        &self,
        items: &[Item],
        ridden: &[TaskId],
        replies: &mut Replies,
        begun: Instant,
    ) {
        if self.aside.is_empty() {
            return;
        }
        let mut carried = ridden.to_vec();
        for (item, reply) in items.iter().zip(replies) {
            let Item::About { key, .. } = item else { continue };
            match self.aside.left(key.id, begun) {
                Some(left) if reply.is_none() => *reply = Some(Err(Trouble::SetAside(left))),
                _ => carried.push(key.id),
            }
        }
        self.aside.carried(carried.into_iter(), begun);
    }
}
