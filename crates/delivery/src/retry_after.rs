//! The header `Retry-After`: seconds, or a date.

use jiff::fmt::rfc2822::DateTimeParser;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAfter {
    Seconds(u64),
    /// Seconds since 1970.
    At(i64),
}

/// `None` for what is neither: a receiver's mistake must not stop its own deliveries.
pub fn parse_retry_after(value: &str) -> Option<RetryAfter> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has are a very long time.
        return Some(RetryAfter::Seconds(value.parse().unwrap_or(u64::MAX)));
    }
    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(RetryAfter::At(date.as_second()))
}
