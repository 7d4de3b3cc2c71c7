//! The next instant of an expression in a time zone.
//!
//! A time zone is a row of stretches with one offset each. Within a stretch, local time is instants plus a constant,
//! and the search is a search for the next local minute. Between two stretches the clock changes, and there Vixie cron
//! has two rules, by whether minute or hour begins with `*`:
//! - A rhythm (`*/10 * * * *`) goes by the clock on the wall: local times that are skipped do not come, and local times
//!   that come twice count twice.
//! - A time of day (`30 2 * * *`) comes once a day: if its local time is skipped, it comes as soon as the skipped time
//!   is over, once however many times were skipped; if its local time comes twice, the first counts.
//! - A change of more than three hours is a correction, not a season: nothing is made up for and nothing held back.

use jiff::civil::Date;

use super::Cron;
use crate::zone::{Change, Zone};

/// How far ahead an expression is followed. The rarest date, a 29 February on a given day of the week, comes at least
/// every 40 years.
pub const SEARCH_YEARS: i64 = 41;
const SEARCH_SECONDS: i64 = SEARCH_YEARS * 366 * DAY;
/// Changes that are larger are corrections of the clock, as in Vixie cron.
const SEASON_MAX: i64 = 3 * 60 * 60;
const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * 60;

impl Cron {
    /// The first instant later than `after_ms` that the expression names in a zone; `None` if there is none within
    /// [`SEARCH_YEARS`] or before the year 9999 ends.
    pub fn next(&self, zone: &Zone, after_ms: i64) -> Option<i64> {
        let mut from = after_ms.div_euclid(1000) + 1;
        let give_up = from.saturating_add(SEARCH_SECONDS);
        let mut begun = zone.change_until(from);
        while from < give_up {
            let end = zone.change_after(from);
            let offset = zone.offset(from);
            let until = end.map_or(give_up, |change| change.at).min(give_up);
            if let Some(local) = self.in_stretch(from + offset, until + offset, begun) {
                return Some((local - offset) * 1000);
            }
            let change = end.filter(|change| change.at < give_up)?;
            if self.is_made_up_for(change) {
                return Some(change.at * 1000);
            }
            begun = Some(change);
            from = change.at;
        }
        None
    }

    /// The first match in local seconds from `local` on and before `until`. What the clock shows for the second time
    /// after the change that began the stretch does not count for a time of day.
    fn in_stretch(&self, local: i64, until: i64, begun: Option<Change>) -> Option<i64> {
        let seen = begun.filter(|change| !self.rhythm && change.back() > 0 && is_season(change));
        let local = seen.map_or(local, |change| local.max(change.at + change.before));
        self.first_local(local, until)
    }

    /// Whether a change skips a time of day that the expression names.
    fn is_made_up_for(&self, change: Change) -> bool {
        let skipped = !self.rhythm && change.back() < 0 && is_season(&change);
        let (first, last) = (change.at + change.before, change.at + change.after);
        skipped && self.first_local(first, last).is_some()
    }

    /// The first full minute from `local` on and before `until` that matches, in local seconds.
    fn first_local(&self, local: i64, until: i64) -> Option<i64> {
        let minute = (local + MINUTE - 1).div_euclid(MINUTE) * MINUTE;
        let (mut day, mut second) = (minute.div_euclid(DAY), minute.rem_euclid(DAY));
        while day * DAY + second < until {
            let date = date(day)?;
            if !self.months.has(date.month() as u32) {
                let next = date.last_of_month().tomorrow().ok()?;
                (day, second) = (number(next), 0);
                continue;
            }
            if self.has_day(date)
                && let Some(second) = self.time_of_day(second)
            {
                return Some(day * DAY + second).filter(|found| *found < until);
            }
            (day, second) = (day + 1, 0);
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let by_date = self.days.has(date.day() as u32);
        let by_weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset() as u32);
        if self.either_day { by_date || by_weekday } else { by_date && by_weekday }
    }

    /// The first time of day from a second on, in seconds since midnight.
    fn time_of_day(&self, second: i64) -> Option<i64> {
        let (hour, minute) = ((second / 3600) as u32, (second / 60 % 60) as u32);
        let this_hour = self.hours.has(hour).then(|| self.minutes.at_least(minute)).flatten();
        let (hour, minute) = match this_hour {
            Some(minute) => (hour, minute),
            None => (self.hours.at_least(hour + 1)?, self.minutes.at_least(0)?),
        };
        Some(i64::from(hour) * 3600 + i64::from(minute) * 60)
    }
}

impl Change {
    /// By how many seconds the clock goes back; negative where it goes forward.
    fn back(&self) -> i64 {
        self.before - self.after
    }
}

fn is_season(change: &Change) -> bool {
    change.back().abs() <= SEASON_MAX
}

/// The date of a day number since 1970; `None` after the year 9999.
fn date(day: i64) -> Option<Date> {
    let days = i32::try_from(day).ok()?;
    jiff::civil::date(1970, 1, 1).checked_add(jiff::Span::new().try_days(days).ok()?).ok()
}

fn number(date: Date) -> i64 {
    let since = date.duration_since(jiff::civil::date(1970, 1, 1));
    since.as_secs() / DAY
}
