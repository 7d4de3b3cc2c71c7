//! Instants on the wire: RFC 3339, UTC, exactly three fractional digits.
//!
//! An instant is a count of milliseconds since 1970. Instants without such a spelling (before 1970,
//! after the year 9999) cannot be held by [`Time`], so that writing one never fails.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant in milliseconds since 1970-01-01T00:00:00Z, within the years 1970 to 9999.
///
/// ```
/// use wire::Time;
/// let time: Time = "2026-03-01T13:00:00+01:00".parse().unwrap();
/// assert_eq!(time.to_string(), "2026-03-01T12:00:00.000Z");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// Text that is not an instant that the wire can carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeError(&'static str);

/// Longer text cannot be an RFC 3339 instant with the usual nine fractional digits.
const TEXT_BYTES_MAX: usize = 40;

impl Time {
    pub const MIN: Time = Time(0);
    /// 9999-12-30T22:00:00.000Z: the last instant that has a four-digit year at every offset.
    pub const MAX: Time = Time(253_402_207_200_000);

    /// The instant, or the nearest one that the wire can represent.
    pub const fn from_ms(ms: i64) -> Time {
        if ms < Self::MIN.0 {
            Self::MIN
        } else if ms > Self::MAX.0 {
            Self::MAX
        } else {
            Time(ms)
        }
    }

    pub const fn as_ms(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Spelling::of(*self).as_str())
    }
}

/// Every answer contains several instants, so they are written by hand, without a formatter.
struct Spelling([u8; "1970-01-01T00:00:00.000Z".len()]);

impl Spelling {
    fn of(time: Time) -> Spelling {
        const MS_PER_DAY: i64 = 24 * 60 * 60 * 1000;
        let (day, ms) = (time.0 / MS_PER_DAY, (time.0 % MS_PER_DAY) as u32);
        let (year, month, day) = civil(day as u32);
        let mut text = Spelling(*b"0000-00-00T00:00:00.000Z");
        text.put(0..4, year);
        text.put(5..7, month);
        text.put(8..10, day);
        text.put(11..13, ms / 3_600_000);
        text.put(14..16, ms / 60_000 % 60);
        text.put(17..19, ms / 1000 % 60);
        text.put(20..23, ms % 1000);
        text
    }

    fn put(&mut self, digits: std::ops::Range<usize>, mut number: u32) {
        for digit in self.0[digits].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits and separators are ASCII")
    }
}

/// Year, month and day of a day number since 1970. The calendar is counted from 1 March of the year
/// 0, so that a leap day is the last day of its year and every 400 years are alike.
fn civil(day: u32) -> (u32, u32, u32) {
    const DAYS_TO_1970: u32 = 719_468;
    const DAYS_PER_ERA: u32 = 146_097;
    let day = day + DAYS_TO_1970;
    let (era, day) = (day / DAYS_PER_ERA, day % DAYS_PER_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u32::from(month <= 2);
    (year, month, day - (153 * from_march + 2) / 5 + 1)
}

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Time, TimeError> {
        if !looks_like_rfc3339(text) {
            return Err(TimeError("is not an RFC 3339 instant such as 2026-03-01T12:00:00.000Z"));
        }
        let instant: jiff::Timestamp = text.parse().map_err(|_| {
            TimeError("is not an existing instant with an offset, up to the year 9999")
        })?;
        let ms = instant.as_millisecond();
        if instant < jiff::Timestamp::UNIX_EPOCH || ms > Self::MAX.0 {
            return Err(TimeError("is outside the years 1970 to 9999"));
        }
        Ok(Time(ms))
    }
}

/// jiff also accepts spaces for `T`, missing seconds and time zone names; the wire does not.
fn looks_like_rfc3339(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= TEXT_BYTES_MAX
        && bytes.len() >= "1970-01-01T00:00:00Z".len()
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && matches!(bytes[10], b'T' | b't')
        && bytes[16] == b':'
        && !bytes.contains(&b'[')
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for TimeError {}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Spelling::of(*self).as_str())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        struct TimeText;
        impl de::Visitor<'_> for TimeText {
            type Value = Time;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 instant as a string")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                text.parse().map_err(|problem| E::custom(format_args!("the time {problem}")))
            }
        }
        deserializer.deserialize_str(TimeText)
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some(
                "RFC 3339 instant; answers are UTC with exactly three fractional digits.",
            ))
            .examples([serde_json::json!("2026-03-01T12:00:00.000Z")])
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<i64, String> {
        text.parse::<Time>().map(Time::as_ms).map_err(|problem| problem.to_string())
    }

    #[test]
    fn writes_utc_with_exactly_three_fractional_digits() {
        assert_eq!(Time::from_ms(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Time::from_ms(1).to_string(), "1970-01-01T00:00:00.001Z");
        assert_eq!(Time::from_ms(1_772_366_400_120).to_string(), "2026-03-01T12:00:00.120Z");
        assert_eq!(Time::MAX.to_string(), "9999-12-30T22:00:00.000Z");
    }

    #[test]
    fn writes_every_day_as_the_calendar_has_it() {
        const MS_PER_DAY: i64 = 86_400_000;
        let near = 0..60_000;
        let far = (60_000..Time::MAX.as_ms() / MS_PER_DAY).step_by(97);
        for day in near.chain(far) {
            // A different time of day for each day.
            let time = Time::from_ms(day * MS_PER_DAY + day * 7_919 % MS_PER_DAY);
            let instant = jiff::Timestamp::from_millisecond(time.as_ms()).unwrap();
            assert_eq!(time.to_string(), format!("{instant:.3}"));
        }
    }

    #[test]
    fn reads_any_offset_and_any_number_of_fractional_digits() {
        assert_eq!(read("2026-03-01T13:00:00+01:00"), Ok(1_772_366_400_000));
        assert_eq!(read("2026-03-01t12:00:00z"), Ok(1_772_366_400_000));
        assert_eq!(read("2026-03-01T12:00:00.123456789Z"), Ok(1_772_366_400_123));
        assert_eq!(read("9999-12-30T22:00:00.000Z"), Ok(Time::MAX.as_ms()));
    }

    #[test]
    fn refuses_what_is_not_an_instant_or_not_in_range() {
        for text in [
            "",
            "now",
            "2026-03-01",
            "2026-03-01 12:00:00Z",
            "2026-03-01T12:00Z",
            "2026-03-01T12:00:00",
            "2026-13-01T12:00:00Z",
            "2026-03-01T12:00:00+01:00[Europe/Paris]",
            "+010000-01-01T00:00:00Z",
        ] {
            assert!(read(text).is_err(), "{text} was read");
        }
        assert!(read("1969-12-31T23:59:59.999Z").unwrap_err().contains("1970"));
        assert!(read("9999-12-30T22:00:00.001Z").is_err());
    }

    #[test]
    fn an_instant_beyond_the_wire_becomes_the_nearest_one() {
        assert_eq!(Time::from_ms(-1), Time::MIN);
        assert_eq!(Time::from_ms(i64::MAX), Time::MAX);
    }
}
