//! Cron expressions as Vixie cron reads them: five fields, or a nickname such as `@daily`.
//!
//! ```text
//! minute (0–59)  hour (0–23)  day of month (1–31)  month (1–12, JAN–DEC)  day of week (0–7, SUN–SAT; 0 and 7: Sunday)
//! ```
//!
//! A field is `*`, a number, a range `a-b`, or a list of these with commas; `*/n` and `a-b/n` take every n-th. If both
//! day fields are restricted, a day matches when either does; a field that begins with `*` counts as unrestricted, and
//! then both must match. So it is in Vixie cron.
//!
//! Seconds, years, `L`, `W`, `#` and `?` are not part of it and are refused by name.

mod error;
mod field;
mod next;
mod parse;

pub use error::CronError;
pub use next::SEARCH_YEARS;

use field::Set;

/// A cron expression that names at least one date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: Set,
    hours: Set,
    days: Set,
    months: Set,
    weekdays: Set,
    /// Whether day of month and day of week are both restricted, so that one of them is enough.
    either_day: bool,
    /// Whether minute or hour begins with `*`: such an expression means a rhythm, not a time of day.
    rhythm: bool,
}
