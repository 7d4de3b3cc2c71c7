//! What the rules ask a calendar. They do not know one: the answers come in as facts.

use super::{Recurrence, Schedule, Terms};
use crate::time::Time;

/// One question about a recurrence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CalendarQuery {
    pub recurrence: Recurrence,
    pub range: InstantRange,
}

/// Which instants are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstantRange {
    /// The first one after a time.
    After(Time),
    /// Those from a first one until now, at most the latest [`super::DUE_MAX`], and the first one after now.
    Due { first: Time, now: Time },
    /// Those of a range, both ends included: all of them, or one more than may wait.
    Within { from: Time, to: Time },
}

impl CalendarQuery {
    pub fn next(terms: &Terms, now: Time) -> Self {
        Self { recurrence: terms.recurrence.clone(), range: InstantRange::After(now) }
    }

    /// `None` for a schedule whose next instant has not come.
    pub fn due(schedule: &Schedule, now: Time) -> Option<Self> {
        let first = schedule.next.filter(|next| next.has_come(now))?;
        let range = InstantRange::Due { first, now };
        Some(Self { recurrence: schedule.terms.recurrence.clone(), range })
    }

    pub fn within(terms: &Terms, from: Time, to: Time) -> Self {
        let range = InstantRange::Within { from, to };
        Self { recurrence: terms.recurrence.clone(), range }
    }
}
