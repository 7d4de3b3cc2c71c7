//! Properties that hold for any expression, zone and instant.

use calendar::{Cron, Zone};
use proptest::prelude::*;

const ZONES: [&str; 5] =
    ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo"];

fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        (2u32..7).prop_map(|step| format!("*/{step}")),
        (low..=high).prop_map(|number| number.to_string()),
        (low..=high, low..=high).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        proptest::collection::vec(low..=high, 1..4).prop_map(|all| all
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    (field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7)).prop_map(
        |(minute, hour, day, month, week)| format!("{minute} {hour} {day} {month} {week}"),
    )
}

proptest! {
    /// Later than what was asked about, and the same from every instant before it: nothing is skipped or doubled.
    #[test]
    fn the_next_instant_is_later_and_the_first(
        text in expression(), zone in 0..ZONES.len(), after in 0i64..4_000_000_000_000, part in 0.0..1.0f64,
    ) {
        let cron: Cron = text.parse().expect("an expression");
        let zone = Zone::named(ZONES[zone]).expect("a zone");
        if let Some(next) = cron.next(&zone, after) {
            prop_assert!(next > after);
            let between = after + ((next - 1 - after) as f64 * part) as i64;
            prop_assert_eq!(cron.next(&zone, between), Some(next));
        }
    }

    /// Any text is read or refused, and a refusal can be shown.
    #[test]
    fn any_text_is_read_or_refused_with_a_place(text in "\\PC{0,40}") {
        if let Err(problem) = text.parse::<Cron>() {
            prop_assert!(!problem.marked().is_empty());
            prop_assert!(!problem.to_string().is_empty());
        }
    }
}
