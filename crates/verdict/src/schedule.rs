//! Schedules: what is submitted when, again and again.
//!
//! A schedule names instants by a cron expression in a time zone or by an interval. At each of them a run is submitted from
//! a template, under an idempotency key that the instant determines ([`firing_key`]), and the schedule moves on in the same
//! commit. So one instant is one run, whatever dies around it, and however many coordinators look at it.
//!
//! The rules decide what becomes of an instant that has come: it fires, waits, is skipped, or came too late. Which instants there
//! are is the business of a calendar, which the rules do not know: whoever carries a decision computes them for the
//! moment of the decision ([`Instants`]), and the rules check that they fit. What a template means is not known here either.
//!
//! Invariants:
//! - `next` only grows while the terms stay the same: an instant is considered once, also when a clock jumps.
//! - An instant that waits fires before a later one that waits, and only once the run before it has ended; where runs may overlap
//!   it waits for nothing but room in the quota and in the budgets of its workspace and tenant.
//! - Everything is bounded: [`DUE_MAX`], [`WAITING_MAX`], and what one decision submits ([`FIRING_WEIGHT_MAX`]).

mod calendar;
mod call;
mod decide;
mod needs;
mod round;
mod template;

use crate::id::{Digest, Name, TaskId, Text};
use crate::object::{ObjectKey, ObjectType};
use crate::time::{Span, Time};

pub use calendar::{CalendarQuery, InstantRange};
pub use call::{ScheduleCall, ScheduleRequest, ScheduleTarget};
pub use decide::Schedules;
pub use round::{Fired, Round};
pub use template::{FIRING_WEIGHT_MAX, RunSize, Template};

/// The most instants of one decision: of more that were missed, the latest count. A schedule that missed more has been forgotten, not
/// delayed.
pub const DUE_MAX: usize = 100;

/// The most instants that wait: each is part of the row. A longer line never drains.
pub const WAITING_MAX: usize = 100;

/// How late an instant may fire, unless the schedule says otherwise: a day, so that a night's outage delays the nightly run.
pub const WINDOW_DEFAULT: Span = Span::from_secs(24 * 60 * 60);

/// The least time between two instants of a cron expression, which has no seconds.
const CRON_APART: Span = Span::from_secs(60);

/// The shortest and the longest pause until waiting instants are looked at again: a fourth of the time waited so far,
/// within these. Looking costs one row, and only while something waits.
const PAUSE_MIN: Span = Span::from_secs(1);
const PAUSE_MAX: Span = Span::from_secs(60);

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule {
    pub name: Name,
    pub terms: Terms,
    pub is_paused: bool,
    pub is_deleted: bool,
    pub created_at: Time,
    /// What a run of the template writes.
    pub size: RunSize,
    /// The first instant that was not considered yet; `None` if there is none, or while it is paused.
    pub next: Option<Time>,
    /// Instants that have come and could not fire yet, in order.
    pub waiting: Vec<WaitingInstant>,
    /// When to look at them again.
    pub look_at: Option<Time>,
    pub last: Option<LastFiring>,
    pub last_refusal: Option<RefusedFiring>,
    pub counts: Counts,
}

/// What people decide about a schedule, apart from the template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    pub recurrence: Recurrence,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    /// How late an instant may fire.
    pub window: Span,
}

/// What is to be changed about the terms; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermsChange {
    pub expression: Option<Text>,
    pub zone: Option<Name>,
    /// Counted from the change.
    pub every: Option<Span>,
    pub overlap: Option<Overlap>,
    pub catch_up: Option<CatchUp>,
    pub window: Option<Span>,
}

/// The rule that names the instants. It was checked where it came in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Recurrence {
    Cron { expression: Text, zone: Name },
    Every { every: Span, anchor: Time },
}

/// What becomes of an instant while the run before it has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Overlap {
    /// It is left out.
    Skip,
    /// It waits until that run has ended.
    Queue,
    /// That run is cancelled, and it fires at once.
    CancelOlder,
    /// It fires at once.
    Allow,
}

impl Overlap {
    pub const ALL: [Overlap; 4] =
        [Overlap::Skip, Overlap::Queue, Overlap::CancelOlder, Overlap::Allow];

    pub const fn name(self) -> &'static str {
        match self {
            Overlap::Skip => "skip",
            Overlap::Queue => "queue",
            Overlap::CancelOlder => "cancelOlder",
            Overlap::Allow => "allow",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|overlap| overlap.name() == name)
    }
}

/// What becomes of instants that passed while no coordinator ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CatchUp {
    /// The latest of them fires.
    One,
    /// All of them fire. Only where they may overlap or queue: otherwise most would be left out at once.
    All,
}

impl CatchUp {
    pub const ALL: [CatchUp; 2] = [CatchUp::One, CatchUp::All];

    pub const fn name(self) -> &'static str {
        match self {
            CatchUp::One => "one",
            CatchUp::All => "all",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|catch_up| catch_up.name() == name)
    }
}

/// An instant that could not fire yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitingInstant {
    pub instant: Time,
    pub since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LastFiring {
    pub instant: Time,
    pub run: TaskId,
    pub at: Time,
}

/// An instant whose run was refused for good.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RefusedFiring {
    pub instant: Time,
    pub at: Time,
    /// The code of the refusal.
    pub code: Name,
}

/// What became of all instants so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    pub fired: u64,
    /// Left out because the run before had not ended, or too many waited.
    pub skipped: u64,
    /// Too late: nothing ran at their time, or they waited for too long.
    pub missed: u64,
    pub refused: u64,
}

/// What the calendar says at the moment of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instants {
    /// The instants from `next` of the schedule until now, in order, at most the latest [`DUE_MAX`].
    pub due: Vec<Time>,
    /// The first instant after now.
    pub next: Option<Time>,
}

/// Why a request about a schedule was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScheduleRefusal {
    NotFound,
    /// Another schedule has the name.
    NameTaken,
    /// No instant of the range is in the past, or there is none in it.
    NothingToBackfill,
    /// More instants would wait than may.
    TooManyWaiting,
    /// An interval has no time zone.
    ZoneOfInterval,
    /// Nearly all instants that are made up for would be left out.
    CatchUpNeedsRoom,
}

impl ScheduleRefusal {
    pub const fn name(self) -> &'static str {
        match self {
            ScheduleRefusal::NotFound => "schedule_not_found",
            ScheduleRefusal::NameTaken => "schedule_exists",
            ScheduleRefusal::NothingToBackfill
            | ScheduleRefusal::TooManyWaiting
            | ScheduleRefusal::ZoneOfInterval
            | ScheduleRefusal::CatchUpNeedsRoom => "invalid_argument",
        }
    }
}

/// The answer to a request about a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleAnswer {
    pub id: Name,
    pub schedule: Schedule,
    /// The run that the request submitted.
    pub run: Option<TaskId>,
}

/// The idempotency key of an instant. Clients cannot use keys of this form.
pub fn firing_key(id: &Name, instant: Time) -> Text {
    Text::from(format!("{FIRING_KEY_PREFIX}{id}/{}", instant.millis()))
}

/// The digest of the run of an instant under its key. It says nothing of the template, which may have changed by then.
pub fn firing_fingerprint(key: &Text) -> Digest {
    Digest::of_bytes(format!("{{\"firing\":\"{key}\"}}").as_bytes())
}

/// The label of every run of a schedule. It has the id.
pub const RUN_LABEL: &str = "tenure.schedule";

/// The code under which an instant is refused whose template this program cannot read.
const UNREADABLE: &str = "invalid_argument";

/// What the key of every firing begins with.
pub const FIRING_KEY_PREFIX: &str = "sched/";

/// The id of a schedule, from an id that no task has.
pub fn schedule_id(fresh: TaskId) -> Name {
    let fresh = fresh.to_string();
    Name::from(format!("{ID_PREFIX}{}", fresh.strip_prefix("task_").unwrap_or(&fresh)))
}

/// The key of the template of a schedule, which has the same id.
pub fn template_key(key: &ObjectKey) -> ObjectKey {
    ObjectKey { object_type: ObjectType::ScheduleTemplate, ..key.clone() }
}

/// What ids of schedules begin with, and names of schedules do not.
pub const ID_PREFIX: &str = "sched_";

/// The time zone of a cron expression that names none.
pub const ZONE_DEFAULT: &str = "UTC";

impl Terms {
    /// Whether these terms make sense together.
    pub fn checked(self) -> Result<Self, ScheduleRefusal> {
        let has_room = matches!(self.overlap, Overlap::Queue | Overlap::Allow);
        match self.catch_up {
            CatchUp::All if !has_room => Err(ScheduleRefusal::CatchUpNeedsRoom),
            CatchUp::All | CatchUp::One => Ok(self),
        }
    }

    /// These terms after a change.
    pub fn changed(&self, change: &TermsChange, now: Time) -> Result<Self, ScheduleRefusal> {
        let TermsChange { expression, zone, every, overlap, catch_up, window } = change;
        let recurrence = match (&self.recurrence, expression, every) {
            (_, _, Some(every)) => Recurrence::Every { every: *every, anchor: now },
            (Recurrence::Every { .. }, None, None) if zone.is_some() => {
                return Err(ScheduleRefusal::ZoneOfInterval);
            }
            (Recurrence::Every { .. }, None, None) => self.recurrence.clone(),
            (Recurrence::Every { .. }, Some(expression), None) => {
                let zone = zone.clone().unwrap_or_else(|| ZONE_DEFAULT.into());
                Recurrence::Cron { expression: expression.clone(), zone }
            }
            (Recurrence::Cron { expression: old, zone: old_zone }, expression, None) => {
                let expression = expression.as_ref().unwrap_or(old).clone();
                Recurrence::Cron { expression, zone: zone.as_ref().unwrap_or(old_zone).clone() }
            }
        };
        let terms = Self {
            recurrence,
            overlap: overlap.unwrap_or(self.overlap),
            catch_up: catch_up.unwrap_or(self.catch_up),
            window: window.unwrap_or(self.window),
        };
        terms.checked()
    }
}

impl Schedule {
    /// A new schedule. `next` is its first instant after now.
    pub fn new(name: Name, terms: Terms, is_paused: bool, next: Option<Time>, now: Time) -> Self {
        Self {
            name,
            terms,
            is_paused,
            is_deleted: false,
            created_at: now,
            size: RunSize::ONE,
            next: next.filter(|_| !is_paused),
            waiting: Vec::new(),
            look_at: None,
            last: None,
            last_refusal: None,
            counts: Counts::default(),
        }
    }

    /// The same with another template.
    #[must_use]
    pub fn submitting(self, template: &Template) -> Self {
        Self { size: template.size, ..self }
    }

    /// What its next firing writes at most: as many runs as may wait or have come since, within what one decision submits.
    pub fn firing_weight(&self, now: Time) -> usize {
        let missed = match (self.next, self.terms.catch_up) {
            (Some(next), CatchUp::All) => now.since(next).millis() / self.apart().millis().max(1),
            _ => 0,
        };
        let missed = usize::try_from(missed).unwrap_or(DUE_MAX).min(DUE_MAX);
        let runs = (self.waiting.len() + 1 + missed).min(self.size.runs_per_decision());
        runs * self.size.weight as usize
    }

    /// The least time between two instants.
    const fn apart(&self) -> Span {
        match self.terms.recurrence {
            Recurrence::Every { every, .. } => every,
            Recurrence::Cron { .. } => CRON_APART,
        }
    }

    /// When it is to be considered again.
    pub fn due(&self) -> Option<Time> {
        [self.next, self.look_at].into_iter().flatten().min()
    }

    /// Whether something is to be done about it now.
    pub fn is_due(&self, now: Time) -> bool {
        self.due().is_some_and(|due| due.has_come(now))
    }

    pub const fn status(&self) -> &'static str {
        match (self.is_deleted, self.is_paused) {
            (true, _) => "deleted",
            (false, true) => "paused",
            (false, false) => "active",
        }
    }

    /// New terms count from now: what waits under the old ones still fires, and nothing is made up for.
    #[must_use]
    pub fn updated(mut self, terms: Terms, next: Option<Time>) -> Self {
        self.terms = terms;
        self.next = next.filter(|_| !self.is_paused);
        self
    }

    /// Nothing fires from now on, also nothing that waits. Repeating it changes nothing.
    #[must_use]
    pub fn paused(mut self) -> Self {
        self.is_paused = true;
        self.next = None;
        self.counts.skipped += self.waiting.len() as u64;
        self.waiting.clear();
        self.look_at = None;
        self
    }

    /// What passed during the pause is not made up for. Repeating it changes nothing.
    #[must_use]
    pub fn resumed(mut self, next: Option<Time>) -> Self {
        if self.is_paused {
            (self.is_paused, self.next) = (false, next);
        }
        self
    }

    #[must_use]
    pub fn deleted(self) -> Self {
        Self { is_deleted: true, ..self.paused() }
    }

    /// Instants of the past that are to fire, or to fire again. They wait their turn, also while the schedule is paused.
    pub fn backfilled(mut self, instants: &[Time], now: Time) -> Result<Self, ScheduleRefusal> {
        if instants.is_empty() || instants.iter().any(|instant| !instant.has_come(now)) {
            return Err(ScheduleRefusal::NothingToBackfill);
        }
        let is_new = |instant: &&Time| self.waiting.iter().all(|it| it.instant != **instant);
        let fresh: Vec<Time> = instants.iter().filter(is_new).copied().collect();
        if self.waiting.len() + fresh.len() > WAITING_MAX {
            return Err(ScheduleRefusal::TooManyWaiting);
        }
        let waiting = fresh.into_iter().map(|instant| WaitingInstant { instant, since: now });
        self.waiting.extend(waiting);
        self.look_at = Some(now);
        Ok(self)
    }
}

/// When instants that wait are looked at again.
fn look_again(waiting: &[WaitingInstant], now: Time) -> Option<Time> {
    let since = waiting.iter().map(|it| it.since).min()?;
    let pause = Span::from_millis(now.since(since).millis() / 4);
    Some(now.plus(pause.max(PAUSE_MIN).min(PAUSE_MAX)))
}
