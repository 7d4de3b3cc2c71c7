//! The rules of push: who pushes, how much, and when after a failure.

use verdict::push::{CLAIM, PAUSE_BASE, PAUSE_CAP, PushClaim, pause, room, worker};
use verdict::{Name, Span, Time};

const NOW: Time = Time::from_millis(1_000_000);

#[test]
fn one_coordinator_at_a_time_pushes_to_an_endpoint() {
    //
    let (one, two) = (Name::from("one"), Name::from("two"));
    let held = PushClaim::take(None, &one, NOW).expect("nobody has it");
    assert!(held.is_good(NOW));
    let later = NOW.plus(Span::from_secs(6));
    assert!(!held.is_good(later), "it is renewed before the next poll");
    assert_eq!(PushClaim::take(Some(&held), &two, later), None);
    let renewed = PushClaim::take(Some(&held), &one, later).expect("its own");
    assert_eq!(renewed.until, later.plus(CLAIM));
    // Exactly at its end it is free.
    assert!(PushClaim::take(Some(&renewed), &two, renewed.until).is_some());
    let before = Time::from_millis(renewed.until.millis() - 1);
    assert_eq!(PushClaim::take(Some(&renewed), &two, before), None);
}

#[test]
fn an_endpoint_holds_no_more_than_its_concurrency_and_is_probed_with_one() {
    assert_eq!((room(4, 0, 0, 0), room(4, 3, 1, 0), room(4, 9, 0, 0)), (4, 1, 0));
    // After a failure: one call at a time, whatever it works on.
    assert_eq!((room(4, 0, 0, 1), room(4, 1, 1, 2), room(4, 3, 0, 2)), (1, 0, 1));
    assert_eq!(room(4, 4, 0, 1), 0);
    assert_eq!(worker(&"crm".into()).as_str(), "push:crm");
}

#[test]
fn pauses_grow_to_a_cap_and_the_receiver_may_ask_for_more() {
    let name = Name::from("crm");
    let pauses: Vec<u64> = (1..=20).map(|n| pause(&name, n, None).millis()).collect();
    assert!(pauses[0] >= PAUSE_BASE.millis() && pauses[0] < 2 * PAUSE_BASE.millis());
    assert!(pauses.windows(2).take(6).all(|pair| pair[0] < pair[1]), "{pauses:?}");
    assert!(pauses.iter().all(|it| *it <= PAUSE_CAP.millis() + PAUSE_BASE.millis()));
    assert_eq!(pause(&name, 1, Some(Span::from_secs(30))), Span::from_secs(30));
    assert_eq!(pause(&name, 1, Some(Span::from_secs(90_000))), Span::from_secs(3_600));
    assert_eq!(pause(&name, 3, None), pause(&name, 3, None), "the same wherever it is computed");
}
