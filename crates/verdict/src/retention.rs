//! Which ended tasks may be forgotten, and from when.
//!
//! Nothing that can still be asked about goes: not before its idempotency key has lost its hold,
//! which is also twelve times the longest life of a token. What has not ended is not even asked
//! about here.

use crate::decide::submit::KEY_WINDOW;
use crate::time::{Span, Time};

/// What is kept of ended tasks. What is over one of the limits may go; without any, nothing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// How long an ended task is kept.
    pub age: Option<Span>,
    /// How many ended tasks are kept at least, whatever their age.
    pub tasks: Option<u64>,
}

/// Whether there are more ended tasks than are to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountLimit {
    Within,
    Exceeded,
}

impl Retention {
    /// Everything is kept for ever.
    pub const FOR_EVER: Retention = Retention { age: None, tasks: None };

    /// The youngest end that may be forgotten.
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

    /// From when a task that ended at `completed_at` may go; `None` for never, as things are.
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
        // for a day after the end the key finds its run.
        let hasty = Retention { age: Some(Span::ZERO), tasks: Some(0) };
        assert_eq!(hasty.deletable_at(END, hasty.count_limit(1)), Some(END.plus(KEY_WINDOW)));
    }
}
