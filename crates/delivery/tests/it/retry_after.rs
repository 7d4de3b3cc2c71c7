//! The header `Retry-After` in its two forms, and in none.

use delivery::{RetryAfter, parse_retry_after};

#[test]
fn seconds_and_dates_are_read_and_nonsense_is_ignored() {
    for (text, expected) in [
        ("120", Some(RetryAfter::Seconds(120))),
        (" 0 ", Some(RetryAfter::Seconds(0))),
        ("99999999999999999999999", Some(RetryAfter::Seconds(u64::MAX))),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(RetryAfter::At(784_111_777))),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
    ] {
        assert_eq!(parse_retry_after(text), expected, "{text:?}");
    }
}
