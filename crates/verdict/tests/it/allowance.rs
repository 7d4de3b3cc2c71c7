//! Rates, and the remaining part of a limit.

use proptest::prelude::*;
use verdict::{Headroom, Rate, RateUsage, Span, Time};

fn at(millis: u64) -> Time {
    Time::default().plus(Span::from_millis(millis))
}

/// How many of the requests at these instants are admitted.
fn passed(rate: Rate, instants: &[u64]) -> usize {
    let mut spent = RateUsage::default();
    let asked = instants.iter().filter(|millis| match rate.try_acquire(spent, at(**millis)) {
        Ok(more) => {
            spent = more;
            true
        }
        Err(_) => false,
    });
    asked.count()
}

#[test]
fn a_burst_passes_and_then_one_for_each_interval() {
    let rate = Rate::new(4, Some(3));
    assert_eq!(passed(rate, &[0, 0, 0, 0, 0]), 3);
    assert_eq!(passed(rate, &[0, 0, 0, 249, 250, 251, 500]), 5);
    // A pause refills the burst and no more.
    assert_eq!(passed(rate, &[0, 0, 0, 60_000, 60_000, 60_000, 60_000]), 6);
    assert_eq!(passed(Rate::new(2, None), &[5, 5, 5]), 2, "one second's worth at once");
}

#[test]
fn who_waits_as_told_passes_and_who_comes_earlier_does_not() {
    let rate = Rate::new(3, Some(1));
    let spent = rate.try_acquire(RateUsage::default(), at(10)).unwrap();
    let wait = rate.try_acquire(spent, at(10)).unwrap_err();
    assert_eq!(wait, Span::from_millis(334));
    assert!(rate.try_acquire(spent, at(10 + 333)).is_err());
    assert!(rate.try_acquire(spent, at(10 + 334)).is_ok());
}

#[test]
fn what_is_left_is_what_would_pass() {
    let rate = Rate::new(4, Some(3));
    assert_eq!(rate.left(RateUsage::default(), at(0)), 3);
    let mut spent = RateUsage::default();
    for left in [2, 1, 0] {
        spent = rate.try_acquire(spent, at(0)).unwrap();
        assert_eq!(rate.left(spent, at(0)), left);
    }
    assert_eq!([249, 250, 500, 60_000].map(|ms| rate.left(spent, at(ms))), [0, 1, 2, 3]);
}

#[test]
fn a_limit_presses_from_its_last_tenth_on() {
    let rooms = [(0, 0), (0, 10), (1, 10), (2, 10), (1, 9), (100, 1_000), (101, 1_000)];
    let found = rooms.map(|(left, limit)| Headroom::of(left, limit));
    use Headroom::{Ample, Exhausted, Low};
    assert_eq!(found, [Exhausted, Exhausted, Low, Ample, Ample, Low, Ample]);
}

proptest! {
    #[test]
    fn no_window_holds_more_than_rate_and_burst(
        per_second in 1u32..2_000,
        burst in 1u32..50,
        mut instants in proptest::collection::vec(0u64..5_000, 1..400),
    ) {
        instants.sort_unstable();
        let rate = Rate::new(per_second, Some(burst));
        let window = instants[instants.len() - 1] - instants[0];
        // Intervals are whole nanoseconds, so a second may admit one request too many.
        let fair = u64::from(burst) + (window + 1) * u64::from(per_second + 1) / 1000 + 1;
        prop_assert!(passed(rate, &instants) as u64 <= fair);
        prop_assert!(passed(rate, &instants) >= (burst as usize).min(instants.len()));
    }
}
