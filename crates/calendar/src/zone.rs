//! Time zones by their IANA name, and where their clocks change.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Longer names do not exist; what is quoted in errors stays short.
const NAME_BYTES_MAX: usize = 64;

/// A time zone of the IANA database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

/// A name that is in no time zone database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownZone(String);

/// A change of the clock: from `at` on, the offset is `after`. Seconds east of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub at: i64,
    pub before: i64,
    pub after: i64,
}

impl Zone {
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }

    /// The zone of that name, as the IANA database spells it.
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        let shown = || UnknownZone(name.chars().take(NAME_BYTES_MAX).collect());
        if name.len() > NAME_BYTES_MAX {
            return Err(shown());
        }
        if name.eq_ignore_ascii_case("UTC") {
            return Ok(Self::utc());
        }
        let zone = TimeZone::get(name).map_err(|_| shown())?;
        let name = zone.iana_name().unwrap_or(name).to_owned();
        Ok(Self { name, zone })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seconds east of UTC at a second since the epoch.
    pub(crate) fn offset(&self, second: i64) -> i64 {
        i64::from(self.zone.to_offset(timestamp(second)).seconds())
    }

    /// The last change of the clock at or before a second.
    pub(crate) fn change_until(&self, second: i64) -> Option<Change> {
        let after = timestamp(second.saturating_add(1));
        self.zone.preceding(after).map(|change| self.change(change.timestamp())).next()
    }

    /// The first change of the clock after a second.
    pub(crate) fn change_after(&self, second: i64) -> Option<Change> {
        self.zone.following(timestamp(second)).map(|change| self.change(change.timestamp())).next()
    }

    fn change(&self, at: Timestamp) -> Change {
        let at = at.as_second();
        Change { at, before: self.offset(at - 1), after: self.offset(at) }
    }
}

/// The instant, or the nearest one that has a year of four digits.
fn timestamp(second: i64) -> Timestamp {
    let (min, max) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(second.clamp(min, max)).expect("the second is clamped")
}

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a time zone of the IANA database, such as Europe/Berlin", self.0)
    }
}

impl std::error::Error for UnknownZone {}
