//! A thousand cases computed without this crate: see `data/expect.py`.

use calendar::{Cron, Recurrence, Zone};

/// F65: skipped and repeated local times follow the written rule.
#[test]
fn f65_expressions_mean_what_an_independent_calendar_says() {
    let cases: Vec<&str> = include_str!("data/expected.tsv").lines().collect();
    assert_eq!(cases.len(), 1000);
    let wrong: Vec<String> = cases.iter().filter_map(|case| difference(case)).collect();
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn difference(case: &str) -> Option<String> {
    let columns: Vec<&str> = case.split('\t').collect();
    let [expression, zone, start, instants] = columns[..] else { panic!("not a case: {case}") };
    let cron: Cron = expression.parse().expect("every case can be read");
    let zone = Zone::named(zone).expect("every zone exists");
    let expected: Vec<i64> = instants.split(',').map(|ms| ms.parse().expect("a number")).collect();
    let start = start.parse().expect("a number");
    let found = Recurrence::Cron { cron, zone }.upcoming(start, expected.len());
    (found != expected).then(|| format!("{case}\n  found {found:?}"))
}

#[test]
fn a_time_of_day_that_the_clock_skips_comes_when_the_gap_ends() {
    // Berlin, 29 March 2026: 02:00 to 03:00 is skipped; 03:00 there is 01:00 UTC.
    let zone = Zone::named("Europe/Berlin").expect("a zone");
    let cron: Cron = "0,15,30 2 * * *".parse().expect("an expression");
    let midnight = 1_774_738_800_000;
    let found = Recurrence::Cron { cron, zone }.upcoming(midnight, 2);
    assert_eq!(found, [1_774_746_000_000, 1_774_828_800_000]);
}

/// Samoa had no 30 December 2011: a correction, so nothing is made up for.
#[test]
fn a_day_that_never_was_is_not_made_up_for() {
    let zone = Zone::named("Pacific/Apia").expect("a zone");
    let cron: Cron = "0 9 * * *".parse().expect("an expression");
    // 29 December 2011, 09:00 in Apia is 19:00 UTC; the next 09:00 is that of the 31st, 24 hours later.
    let found = Recurrence::Cron { cron, zone }.upcoming(1_325_185_200_000 - 1, 2);
    assert_eq!(found, [1_325_185_200_000, 1_325_271_600_000]);
}
