//! What errors say, and where they point.

use calendar::{Cron, Zone};

fn refused(text: &str) -> calendar::CronError {
    text.parse::<Cron>().expect_err("the expression was read")
}

#[test]
fn an_error_points_at_what_is_wrong() {
    let problem = refused("0 25 * * *");
    assert_eq!(problem.marked(), "0 25 * * *\n  ^^");
    assert_eq!(problem.to_string(), "the hour is 0 to 23 (`25` at column 3)");
    assert_eq!(refused("0 0 1-40 * *").marked(), "0 0 1-40 * *\n      ^^");
    assert_eq!(refused("*/0 * * * *").marked(), "*/0 * * * *\n  ^");
    assert_eq!(refused("0 0 * FOO *").message(), "the month is 1 to 12 or JAN to DEC");
    assert_eq!(refused("0  9-5 * * *").marked(), "0  9-5 * * *\n   ^^^");
}

#[test]
fn a_missing_field_and_a_sixth_one_are_named() {
    assert!(refused("0 0 * *").message().contains("the day of week is missing"));
    assert!(refused("").message().contains("the minute is missing"));
    assert!(refused("0 0 0 * * *").message().contains("no seconds"));
    assert!(refused("@reboot").message().contains("@daily"));
}

#[test]
fn a_date_that_never_comes_is_refused_at_once() {
    assert_eq!(refused("0 0 31 2 *").marked(), "0 0 31 2 *\n    ^^^^");
    assert!("0 0 29 2 *".parse::<Cron>().is_ok());
    assert!("0 0 31 2 MON".parse::<Cron>().is_ok(), "Mondays of February do come");
}

#[test]
fn extensions_of_other_crons_are_refused() {
    for text in [
        "0 0 L * *",
        "0 0 15W * *",
        "0 0 * * 5#2",
        "0 0 ? * 1",
        "0 0 * * +1",
        "0 0 * * 1,",
        "0 0 * * -1",
    ] {
        refused(text);
    }
    refused(&"0,".repeat(200));
}

#[test]
fn nicknames_mean_their_expressions() {
    let read = |text: &str| text.parse::<Cron>().expect("an expression");
    assert_eq!(read("@daily"), read("0 0 * * *"));
    assert_eq!(read(" @Weekly "), read("0 0 * * SUN"));
    assert_eq!(read("0 0 * * 7"), read("0 0 * * 0"));
}

#[test]
fn an_unknown_zone_is_named() {
    assert!(
        Zone::named("Europe/Nowhere").expect_err("no zone").to_string().contains("Europe/Nowhere")
    );
    assert_eq!(Zone::named("europe/berlin").expect("any case").name(), "Europe/Berlin");
    assert_eq!(Zone::named("utc").expect("any case"), Zone::utc());
    assert!(Zone::named(&"x".repeat(1000)).expect_err("no zone").to_string().len() < 200);
}
