//! When something recurs: cron expressions in time zones, and intervals.
//!
//! Instants are milliseconds since the Unix epoch, as everywhere in the workspace. Nothing here reads a clock or a
//! file: time zones are part of the program, so that every coordinator of a database computes the same instants.
//!
//! What holds:
//! - The next instant is later than the one asked about, and depends on nothing but the recurrence and that instant.
//! - Every search ends: [`cron::SEARCH_YEARS`] bounds how far a cron expression is followed, and every list is bounded
//!   by its caller.
//! - Around changes of the clock a cron expression behaves as Vixie cron does: see [`Cron::next`].
//!
//! What this crate does not do: decide what happens at an instant, or how many missed ones are made up for.

pub mod cron;
mod recurrence;
mod zone;

pub use cron::{Cron, CronError};
pub use recurrence::{EVERY_MS_MAX, EVERY_MS_MIN, Interval, IntervalError, Recurrence};
pub use zone::{UnknownZone, Zone};
