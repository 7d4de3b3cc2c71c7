//! Durations and instants as people write and read them.

use std::time::Duration;

use wire::Time;

/// A year: a longer duration is a typing mistake.
const SPAN_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses `500ms`, `10s`, `5m`, `2h`, `1d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, unit) = text.split_at(digits);
    let ms_per_unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ms)| *ms);
    let ms = count.parse::<u64>().ok().zip(ms_per_unit).and_then(|(n, ms)| n.checked_mul(ms));
    let span = ms
        .map(Duration::from_millis)
        .ok_or("write a number and a unit, such as 500ms, 10s, 5m, 2h or 1d")?;
    if span > SPAN_MAX { Err("is longer than a year".to_owned()) } else { Ok(span) }
}

/// An instant, or a span that begins when the server accepts the request. A span is sent as a span: the same command
/// is then the same request, however often it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(Time),
    In(Duration),
}

impl When {
    pub(crate) fn instant(self) -> Option<Time> {
        match self {
            When::At(instant) => Some(instant),
            When::In(_) => None,
        }
    }

    pub(crate) fn span_ms(self) -> Option<u64> {
        match self {
            When::At(_) => None,
            When::In(span) => Some(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Parses an instant or a span.
pub(crate) fn parse_when(text: &str) -> Result<When, String> {
    if let Ok(span) = parse(text) {
        return Ok(When::In(span));
    }
    text.parse::<Time>().map(When::At).map_err(|_| {
        "write a time such as 2026-03-01T12:00:00Z, or a duration such as 10m".to_owned()
    })
}

/// Parses an instant, or a duration before now.
pub(crate) fn parse_past(text: &str) -> Result<Time, String> {
    if let Ok(span) = parse(text) {
        let ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        return Ok(Time::from_ms(now().as_ms().saturating_sub(ms)));
    }
    text.parse::<Time>().map_err(|_| {
        "write a time such as 2026-03-01T12:00:00Z, or a duration before now such as 2h".to_owned()
    })
}

pub(crate) fn from_now(span: Duration) -> Time {
    let ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    Time::from_ms(now().as_ms().saturating_add(ms))
}

/// This machine's clock: only for what people read and write; it decides nothing.
pub(crate) fn now() -> Time {
    Time::from_ms(jiff::Timestamp::now().as_millisecond())
}

/// A duration in the most suitable unit: `840 ms`, `2.4 s`, `3 min`, `5 h`, `12 d`.
pub(crate) fn format_ms(ms: i64) -> String {
    match ms.max(0) {
        ms @ 0..1_000 => format!("{ms} ms"),
        ms @ 1_000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        ms @ 60_000..3_600_000 => format!("{} min", ms / 60_000),
        ms @ 3_600_000..86_400_000 => format!("{} h", ms / 3_600_000),
        ms => format!("{} d", ms / 86_400_000),
    }
}

/// A setting as it was made, in the largest unit that needs no fraction: `90 s`, `5 min`, `1500 ms`.
pub(crate) fn format_exact(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    match UNITS.iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", ms / unit),
        None => format!("{ms} ms"),
    }
}

/// `840 B`, `12.3 KiB`, `4.0 MiB`.
pub(crate) fn format_bytes(bytes: u64) -> String {
    let mut scaled = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if scaled < 1024.0 {
            let places = usize::from(unit != "B");
            return format!("{scaled:.places$} {unit}");
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.1} TiB")
}

/// The duration between two instants.
pub(crate) fn between(from: Time, to: Time) -> String {
    format_ms(to.as_ms() - from.as_ms())
}

/// The time of day, which is what matters on the day itself: `12:00:00.000`.
pub(crate) fn clock_time(time: Time) -> String {
    let text = time.to_string();
    text.get(11..23).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_need_a_unit_and_stay_within_a_year() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "10", "s", "-1s", "1.5s", "10 s", "10y", "99999999999999999999s", "400d"] {
            assert!(parse(text).is_err(), "{text} was read");
        }
    }

    #[test]
    fn a_time_is_an_instant_or_a_span() {
        let instant = parse_when("2026-03-01T12:00:00Z").unwrap();
        assert_eq!(instant.instant().unwrap().to_string(), "2026-03-01T12:00:00.000Z");
        assert_eq!(instant.span_ms(), None);
        let span = parse_when("10m").unwrap();
        assert_eq!((span.instant(), span.span_ms()), (None, Some(600_000)));
        assert!(parse_when("tomorrow").unwrap_err().contains("10m"));
    }

    #[test]
    fn an_instant_of_the_past_may_be_written_as_time_before_now() {
        let instant = "2026-03-01T12:00:00.000Z";
        assert_eq!(parse_past(instant).unwrap().to_string(), instant);
        assert!(parse_past("10m").unwrap() < parse_past("9m").unwrap());
        assert!(parse_past("1d").unwrap() < now());
        assert!(parse_past("yesterday").unwrap_err().contains("2h"));
    }

    #[test]
    fn a_setting_is_spelled_without_loss() {
        let spelled = [0, 1_500, 5_000, 90_000, 300_000, 7_200_000, 86_400_000].map(format_exact);
        assert_eq!(spelled, ["0 ms", "1500 ms", "5 s", "90 s", "5 min", "2 h", "1 d"]);
    }

    #[test]
    fn sizes_are_spelled_in_one_unit() {
        let spelled = [840, 12_595, 4 << 20, 3 << 41].map(format_bytes);
        assert_eq!(spelled, ["840 B", "12.3 KiB", "4.0 MiB", "6.0 TiB"]);
    }

    #[test]
    fn lengths_are_spelled_in_one_unit() {
        let spelled = [-5, 840, 2_430, 59_999, 180_000, 7_200_000, 1_036_800_000].map(format_ms);
        assert_eq!(spelled, ["0 ms", "840 ms", "2.4 s", "59.9 s", "3 min", "2 h", "12 d"]);
    }
}
