//! Requests about schedules, of a client or of time.

use super::{Template, Terms, TermsChange};
use crate::id::{Name, Scope};
use crate::time::Time;

/// A request about a schedule, of a client or of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRequest {
    pub scope: Scope,
    pub target: ScheduleTarget,
    pub call: ScheduleCall,
    /// The API key of the caller; `None` if time asks.
    pub by: Option<Name>,
}

/// Which schedule is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleTarget {
    /// One that is to be created. Its id is assigned when it is decided.
    New,
    Id(Name),
    Name(Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleCall {
    Create {
        name: Name,
        terms: Terms,
        is_paused: bool,
        template: Template,
    },
    Update {
        terms: TermsChange,
        template: Option<Template>,
    },
    Pause,
    Resume,
    Delete,
    /// Submit a run for the moment of the decision.
    Trigger,
    /// Fire the instants of a range of the past, both ends included.
    Backfill {
        from: Time,
        to: Time,
    },
    /// Time has come for some instants.
    Fire,
}
