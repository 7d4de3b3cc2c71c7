//! Intervals, and the bounds of lists.

use calendar::{Cron, Interval, Recurrence, Zone};

fn every(ms: u64, anchor: i64) -> Recurrence {
    Recurrence::Interval(Interval::new(ms, anchor).expect("an interval"))
}

#[test]
fn an_interval_counts_from_its_anchor() {
    assert_eq!(every(60_000, 5_000).upcoming(5_000, 3), [65_000, 125_000, 185_000]);
    assert_eq!(every(60_000, 5_000).upcoming(64_999, 1), [65_000]);
    assert_eq!(every(60_000, 5_000).upcoming(65_000, 1), [125_000]);
    assert_eq!(every(60_000, 5_000).upcoming(-1, 1), [65_000]);
}

#[test]
fn an_interval_is_at_least_a_second_and_at_most_ten_years() {
    assert!(Interval::new(999, 0).is_err());
    assert!(Interval::new(u64::MAX, 0).expect_err("too long").to_string().contains("1000"));
}

#[test]
fn lists_are_bounded_by_count_and_by_their_end() {
    assert_eq!(every(1_000, 0).within(0, 3_000, 10), [1_000, 2_000, 3_000]);
    assert_eq!(every(1_000, 0).within(0, i64::MAX, 2), [1_000, 2_000]);
    assert_eq!(every(1_000, 0).within(3_000, 0, 2), []);
}

#[test]
fn nothing_comes_after_the_last_year() {
    assert_eq!(every(1_000, 0).next(i64::MAX), None);
    let daily: Cron = "@daily".parse().expect("an expression");
    assert_eq!(daily.next(&Zone::utc(), i64::MAX), None);
    assert_eq!(daily.next(&Zone::utc(), 253_402_300_799_999), None);
}

/// The rarest date is found, so the bound of the search is far enough.
#[test]
fn a_leap_day_on_a_sunday_across_a_century_is_found() {
    let cron: Cron = "0 0 29 2 */7".parse().expect("an expression");
    // 29 February 2088 is a Sunday; the next after it is in 2128, because 2100 is no leap year.
    let first = cron.next(&Zone::utc(), 3_700_000_000_000).expect("it comes");
    let second = cron.next(&Zone::utc(), first).expect("it comes");
    assert_eq!((first, second), (3_728_851_200_000, 4_991_068_800_000));
}

#[test]
fn the_latest_instants_of_a_range_are_those_at_its_end() {
    const YEAR: i64 = 365 * 24 * 60 * 60 * 1_000;
    let every_second = Recurrence::Interval(Interval::new(1_000, 0).unwrap());
    assert_eq!(
        every_second.latest(1, 10 * YEAR, 3),
        [10 * YEAR - 2_000, 10 * YEAR - 1_000, 10 * YEAR]
    );
    let minutely = Recurrence::Cron { cron: "* * * 1-6 *".parse().unwrap(), zone: Zone::utc() };
    // The end of the year 1970, whose last instant is that of June.
    let end_of_june = 181 * 24 * 60 * 60 * 1_000;
    assert_eq!(minutely.latest(0, YEAR - 1, 2), [end_of_june - 120_000, end_of_june - 60_000]);
    assert_eq!(minutely.latest(60_000, 180_000, 100), [60_000, 120_000, 180_000]);
    assert_eq!(minutely.latest(end_of_june, YEAR - 1, 100), []);
}
