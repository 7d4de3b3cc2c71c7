//! When a silence is a stall, and which leases are extended instead of swept.

use verdict::stall::{self, Silence};
use verdict::{Answer, Request, Span, State, Time};

use crate::world::{START, World, secs};

const SHORTEST: Option<Span> = Some(Span::from_secs(8));

/// A second between checks, and a quarter of the lease.
const TOLERANCE: Span = Span::from_secs(3);

fn silence() -> Silence {
    Silence { alive_at: START, refused_since: None, was_late: false }
}

fn just_after(time: Time) -> Time {
    time.plus(Span::from_millis(1))
}

#[test]
fn a_silence_counts_once_the_shortest_lease_could_notice_it() {
    let end = START.plus(TOLERANCE);
    assert_eq!(silence().stalled_since(SHORTEST, end), None);
    assert_eq!(silence().stalled_since(SHORTEST, just_after(end)), Some(START));
    assert_eq!(silence().stalled_since(None, START.plus(secs(9_999))), None, "no lease is alive");
}

#[test]
fn a_refusal_counts_from_its_beginning_however_short_it_is() {
    let refused = Silence { refused_since: Some(START), ..silence() };
    assert_eq!(refused.stalled_since(SHORTEST, just_after(START)), Some(START));
    assert_eq!(refused.stalled_since(None, just_after(START)), None, "no lease is alive");
}

#[test]
fn each_late_round_in_a_row_costs_a_lease_one_check_period() {
    // Without it the lease of a dead worker would live for as long as the store is slow.
    let late = Silence { was_late: true, ..silence() };
    let now = just_after(START.plus(TOLERANCE));
    assert_eq!(late.stalled_since(SHORTEST, now), Some(START.plus(secs(1))));
}

#[test]
fn the_check_period_follows_the_shortest_lease_within_bounds() {
    let period = |lease| stall::check_period(Some(lease));
    assert_eq!(period(Span::from_secs(1)), Some(Span::from_millis(250)));
    assert_eq!(period(Span::from_secs(16)), Some(secs(2)));
    assert_eq!(period(Span::from_secs(3_600)), Some(secs(5)));
    assert_eq!(stall::check_period(None), None);
}

#[test]
fn a_start_beside_others_takes_no_idle_time_for_an_outage() {
    let (idle, outage) = (START.plus(TOLERANCE), just_after(START.plus(TOLERANCE)));
    assert!(stall::is_outage_at_start(START, SHORTEST, false, idle), "no other coordinator ran");
    assert!(!stall::is_outage_at_start(START, SHORTEST, true, idle));
    assert!(stall::is_outage_at_start(START, SHORTEST, true, outage));
    assert!(!stall::is_outage_at_start(START, None, true, outage), "no lease is alive");
}

#[test]
fn a_lease_that_was_granted_late_is_extended_and_not_swept() {
    let (mut world, _) = World::running();
    let end = world.lease().expires_at;
    let late =
        |world: &World, since: Time, now: Time| stall::of_late_grant(world.task(), since, now);
    // It has not expired, or it was granted before the grants in question.
    assert_eq!(late(&world, START, Time::from_millis(end.millis() - 1)), None);
    assert_eq!(late(&world, just_after(START), end), None);
    let extend = late(&world, START, end).expect("it may have been granted late");
    assert_eq!((extend.stalled_since, extend.gap), (START, end.since(START)));
    world.now = end;
    assert_eq!(world.ask(Request::Extend(extend)), Answer::Done);
    world.ask_in_vain(Request::Sweep);
    assert_eq!(world.state(), State::Running);
    assert_eq!(world.lease().expires_at, end.plus(extend.gap));
}
