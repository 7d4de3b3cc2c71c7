//! One round of a schedule: which of its instants fire now, and what becomes of the others.
//!
//! A round has two halves, because whether a run is accepted is decided by the rules of submissions: [`Schedule::begin`] says what to
//! submit, and [`Round::end`] takes what came of it.

use super::{
    CatchUp, DUE_MAX, Instants, LastFiring, Overlap, RefusedFiring, Schedule, WAITING_MAX,
    WaitingInstant, look_again,
};
use crate::id::{Name, TaskId};
use crate::time::Time;

/// What a round submits and cancels, and the schedule as it will be, apart from what comes of the submissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The instants to submit a run for, in order.
    pub fire: Vec<WaitingInstant>,
    /// The run to cancel before.
    pub cancel: Option<TaskId>,
    after: Schedule,
}

/// What came of the submission for an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fired {
    /// It is a run now, or was one before.
    Started(TaskId),
    /// There is no room in the quota or in a budget now.
    NoRoom,
    /// The decision has submitted as much as one may. The next one follows at once.
    Later,
    /// It was refused, and would be again.
    Refused(Name),
}

impl Schedule {
    /// What is to be done now; `None` if that is nothing. `is_former_live` says whether the last run has not ended.
    pub fn begin(&self, instants: &Instants, is_former_live: bool, now: Time) -> Option<Round> {
        if self.is_deleted || !self.is_due(now) {
            return None;
        }
        let mut after = self.clone();
        after.drop_late(now);
        let fresh = after.choose(instants, now);
        let fire = after.admit(fresh, is_former_live);
        let is_older_cancelled =
            is_former_live && !fire.is_empty() && self.terms.overlap == Overlap::CancelOlder;
        let cancel = self.last.filter(|_| is_older_cancelled).map(|last| last.run);
        Some(Round { fire, cancel, after })
    }

    /// A run for this very moment, whatever the schedule says.
    pub fn triggered(&self, now: Time) -> Round {
        let fire = vec![WaitingInstant { instant: now, since: now }];
        Round { fire, cancel: None, after: self.clone() }
    }

    /// What waited for longer than the window is too late.
    fn drop_late(&mut self, now: Time) {
        let (window, before) = (self.terms.window, self.waiting.len());
        self.waiting.retain(|it| !it.since.plus(window).has_come(now));
        self.counts.missed += (before - self.waiting.len()) as u64;
    }

    /// Takes the instants that have come, and leaves those out that are too late or need not be made up for.
    fn choose(&mut self, instants: &Instants, now: Time) -> Vec<WaitingInstant> {
        let Some(first) = self.next.filter(|next| next.has_come(now)) else { return Vec::new() };
        let Instants { due, next } = instants;
        assert!(due.len() <= DUE_MAX, "the calendar names a bounded number of instants");
        assert!(due.is_sorted_by(|a, b| a < b), "instants come in order");
        assert!(due.iter().all(|it| first <= *it && it.has_come(now)), "these instants have come");
        assert!(next.is_none_or(|next| !next.has_come(now)), "the next instant is to come");
        self.next = *next;
        let window = self.terms.window;
        let in_time = due.iter().filter(|it| !it.plus(window).has_come(now));
        let waiting = in_time.map(|instant| WaitingInstant { instant: *instant, since: now });
        let mut chosen: Vec<WaitingInstant> = waiting.collect();
        if self.terms.catch_up == CatchUp::One {
            chosen = chosen.pop().into_iter().collect();
        }
        self.counts.missed += (due.len() - chosen.len()) as u64;
        chosen
    }

    /// Which instants fire now. The others wait or are left out.
    fn admit(
        &mut self,
        mut fresh: Vec<WaitingInstant>,
        is_former_live: bool,
    ) -> Vec<WaitingInstant> {
        let first_waiting = |waiting: &mut Vec<WaitingInstant>| {
            (!waiting.is_empty() && !is_former_live)
                .then(|| waiting.remove(0))
                .into_iter()
                .collect()
        };
        match self.terms.overlap {
            Overlap::Allow => {
                let mut fire = std::mem::take(&mut self.waiting);
                fire.append(&mut fresh);
                fire
            }
            Overlap::Queue => {
                fresh.into_iter().for_each(|it| self.wait(it));
                first_waiting(&mut self.waiting)
            }
            Overlap::Skip if is_former_live => {
                self.counts.skipped += fresh.len() as u64;
                Vec::new()
            }
            Overlap::Skip | Overlap::CancelOlder => match fresh.pop() {
                Some(latest) => {
                    self.counts.skipped += fresh.len() as u64;
                    vec![latest]
                }
                None => first_waiting(&mut self.waiting),
            },
        }
    }

    /// An instant joins those that wait, unless too many do.
    fn wait(&mut self, instant: WaitingInstant) {
        if self.waiting.len() >= WAITING_MAX {
            self.counts.skipped += 1;
            return;
        }
        self.waiting.push(instant);
    }
}

impl Round {
    /// The schedule after the round. `fired` has what came of each instant of `fire`, in order.
    pub fn end(self, fired: Vec<Fired>, now: Time) -> Schedule {
        let Self { fire, mut after, .. } = self;
        assert_eq!(fire.len(), fired.len(), "every submission has an outcome");
        // Room that is missing now is not there a moment later either.
        let goes_on = fired.contains(&Fired::Later) && !fired.contains(&Fired::NoRoom);
        for (waiting, fired) in fire.into_iter().zip(fired) {
            let instant = waiting.instant;
            match fired {
                Fired::Started(run) => {
                    after.counts.fired += 1;
                    after.last = Some(LastFiring { instant, run, at: now });
                }
                Fired::NoRoom | Fired::Later => after.wait(waiting),
                Fired::Refused(code) => {
                    after.counts.refused += 1;
                    after.last_refusal = Some(RefusedFiring { instant, at: now, code });
                }
            }
        }
        after.waiting.sort();
        after.look_at = match goes_on {
            true => Some(now),
            false => look_again(&after.waiting, now),
        };
        after
    }
}
