//! When a schedule submits its run.

use std::time::Duration;

use wire::schedules::{CreateSchedule, UpdateSchedule};
pub use wire::{CatchUp, Overlap};

use crate::new_run::millis;

/// The instants of a schedule, and what becomes of those that cannot fire as planned.
///
/// ```
/// use std::time::Duration;
/// use tenure::{Overlap, When};
///
/// let nightly = When::cron("0 3 * * *").time_zone("Europe/Berlin").overlap(Overlap::Skip);
/// let often = When::every(Duration::from_secs(900));
/// # let _ = (nightly, often);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing fires until a schedule has it"]
pub struct When {
    cron: Option<String>,
    every_ms: Option<u64>,
    time_zone: Option<String>,
    overlap: Option<Overlap>,
    catch_up: Option<CatchUp>,
    window_ms: Option<u64>,
    paused: Option<bool>,
}

const NEVER: When = When {
    cron: None,
    every_ms: None,
    time_zone: None,
    overlap: None,
    catch_up: None,
    window_ms: None,
    paused: None,
};

impl When {
    /// Five fields as in Vixie cron (minute, hour, day of month, month, day of week), or a nickname such as `@daily`.
    pub fn cron(expression: impl Into<String>) -> When {
        When { cron: Some(expression.into()), ..NEVER }
    }

    /// At an interval, counted from the creation.
    pub fn every(interval: Duration) -> When {
        When { every_ms: Some(millis(interval)), ..NEVER }
    }

    /// The IANA name of the time zone of a cron expression; UTC when not given.
    pub fn time_zone(mut self, name: impl Into<String>) -> When {
        self.time_zone = Some(name.into());
        self
    }

    /// What becomes of an instant while the run before it has not ended; it is skipped when not given.
    pub fn overlap(mut self, overlap: Overlap) -> When {
        self.overlap = Some(overlap);
        self
    }

    /// What becomes of instants that passed while no server ran; one of them fires when not given.
    pub fn catch_up(mut self, catch_up: CatchUp) -> When {
        self.catch_up = Some(catch_up);
        self
    }

    /// How late an instant may fire; a day when not given.
    pub fn catch_up_window(mut self, window: Duration) -> When {
        self.window_ms = Some(millis(window));
        self
    }

    /// Begins paused: nothing fires until it is resumed.
    pub fn paused(mut self) -> When {
        self.paused = Some(true);
        self
    }

    pub(crate) fn into_create(self, name: String) -> CreateSchedule {
        let When { cron, every_ms, time_zone, overlap, catch_up, window_ms, paused } = self;
        CreateSchedule {
            name,
            cron,
            every_ms,
            time_zone,
            overlap,
            catch_up,
            catch_up_window_ms: window_ms,
            paused,
            ..CreateSchedule::default()
        }
    }

    pub(crate) fn into_update(self) -> UpdateSchedule {
        let When { cron, every_ms, time_zone, overlap, catch_up, window_ms, paused: _ } = self;
        UpdateSchedule {
            cron,
            every_ms,
            time_zone,
            overlap,
            catch_up,
            catch_up_window_ms: window_ms,
            run: None,
        }
    }
}
