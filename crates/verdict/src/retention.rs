//! Which ended tasks may be deleted, and from when.
//!
//! A task that clients can still ask about stays: it is not deleted before its idempotency key
//! expires, which is also twelve times the longest lifetime of a token. Tasks that have not ended
//! are not considered here.

use crate::decide::submit::KEY_WINDOW;
use crate::time::{Span, Time};

/// How long ended tasks are kept. A task beyond one of the limits may be deleted; without limits,
/// none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// How long an ended task is kept.
    pub age: Option<Span>,
    /// How many ended tasks are kept at least, whatever their age.
    pub tasks: Option<u64>,
}

/// Whether there are more ended tasks than the limit keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountLimit {
    Within,
    Exceeded,
}

impl Retention {
    /// Keeps everything.
    pub const FOR_EVER: Retention = Retention { age: None, tasks: None };

    /// The minimum age at which an ended task may be deleted.
    pub const AGE_MIN: Span = KEY_WINDOW;

    pub const fn of(age_ms: Option<u64>, tasks: Option<u64>) -> Self {
        let age = match age_ms {
            Some(millis) => Some(Span::from_millis(millis)),
            None => None,
        };
        Self { age, tasks }
    }

    pub fn count_limit(&self, ended: u64) -> CountLimit {
        match self.tasks {
            Some(tasks) if ended > tasks => CountLimit::Exceeded,
            Some(_) | None => CountLimit::Within,
        }
    }

    /// When a task that ended at `completed_at` may be deleted; `None` if nothing allows it at
    /// present.
    pub fn deletable_at(&self, completed_at: Time, count_limit: CountLimit) -> Option<Time> {
        let by_age = self.age.map(|age| completed_at.plus(age.max(Self::AGE_MIN)));
        let by_count =
            (count_limit == CountLimit::Exceeded).then(|| completed_at.plus(Self::AGE_MIN));
        [by_age, by_count].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Time = Time::from_millis(1_000);
    const WEEK: Span = Span::from_secs(7 * 24 * 60 * 60);

    #[test]
    fn without_a_limit_nothing_goes() {
        assert_eq!(Retention::FOR_EVER.count_limit(u64::MAX), CountLimit::Within);
        assert_eq!(Retention::FOR_EVER.deletable_at(END, CountLimit::Within), None);
    }

    #[test]
    fn the_limit_that_is_reached_first_counts() {
        let both = Retention { age: Some(WEEK), tasks: Some(10) };
        assert_eq!(
            (both.count_limit(10), both.count_limit(11)),
            (CountLimit::Within, CountLimit::Exceeded)
        );
        assert_eq!(both.deletable_at(END, CountLimit::Within), Some(END.plus(WEEK)));
        assert_eq!(both.deletable_at(END, CountLimit::Exceeded), Some(END.plus(KEY_WINDOW)));
    }

    #[test]
    fn no_limit_is_shorter_than_the_hold_of_an_idempotency_key() {
        // the key finds its run for a day after the end.
        let hasty = Retention { age: Some(Span::ZERO), tasks: Some(0) };
        assert_eq!(hasty.deletable_at(END, hasty.count_limit(1)), Some(END.plus(KEY_WINDOW)));
    }
}
