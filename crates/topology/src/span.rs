//! Lengths of time as people write them: `90s`, `15m`, `24h`, `7d`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// The longest time a topology may name: ten years. A longer one is a mistake in the unit.
pub const SPAN_MS_MAX: u64 = 10 * 366 * 24 * 60 * 60 * 1000;

const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A length of time with a resolution of one millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Span(u64);

impl Span {
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    #[must_use]
    pub const fn ms(self) -> u64 {
        self.0
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
        let ms = number.parse::<u64>().ok().zip(scale).and_then(|(n, scale)| n.checked_mul(scale));
        match ms {
            Some(ms) if ms <= SPAN_MS_MAX => Ok(Self(ms)),
            Some(_) => Err(format!("`{text}` is longer than ten years")),
            None => Err(format!(
                "`{text}` is not a length of time; write for example 90s, 15m, 24h or 7d"
            )),
        }
    }
}

impl fmt::Display for Span {
    /// The largest unit that says it exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let (name, scale) =
            UNITS.iter().find(|(_, scale)| self.0.is_multiple_of(*scale)).unwrap_or(&("ms", 1));
        write!(f, "{}{name}", self.0 / scale)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A length of time: a number and one of ms, s, m, h and d.",
            "type": "string",
            "pattern": "^[0-9]+(ms|s|m|h|d)$"
        })
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_and_written_as_people_write_it() {
        for text in ["0s", "1ms", "90s", "15m", "25h", "7d"] {
            assert_eq!(text.parse::<Span>().map(|span| span.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("60s".parse::<Span>().map(|span| span.to_string()), Ok("1m".to_owned()));
    }

    #[test]
    fn what_is_no_length_of_time_is_refused_with_an_example() {
        for text in ["", "s", "5", "5 s", "-5s", "1.5h", "5w", "99999999999999999999s"] {
            assert!(text.parse::<Span>().is_err_and(|error| error.contains("90s")), "{text}");
        }
        assert!("4000d".parse::<Span>().is_err_and(|error| error.contains("ten years")));
    }
}
