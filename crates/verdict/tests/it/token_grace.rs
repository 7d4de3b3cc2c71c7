//! By how much a token is extended after a stall.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use verdict::request::Extend;
use verdict::token_grace::{StalledTime, may_be_extended};
use verdict::{Category, LeaseId, Request, Subject, Time};

use crate::world::{World, failed};

fn total(issued_at: i64, stalls: &[(i64, i64)]) -> u64 {
    let mut stalled = StalledTime::since(Time::from_millis(issued_at));
    for (from, to) in stalls {
        let (stalled_since, end) = (Time::from_millis(*from), Time::from_millis(*to));
        let gap = end.since(stalled_since);
        stalled.count(&Request::Extend(Extend { stalled_since, gap }));
    }
    stalled.total().millis()
}

#[test]
fn every_instant_of_an_outage_counts_once_and_none_before_the_token() {
    assert_eq!(total(0, &[]), 0);
    assert_eq!(total(0, &[(10, 30), (50, 60)]), 30);
    // Two coordinators that return from one outage record it twice.
    assert_eq!(total(0, &[(10, 30), (12, 35), (15, 20)]), 25);
    assert_eq!(total(25, &[(10, 30), (50, 60)]), 15);
    assert_eq!(total(100, &[(10, 30), (50, 60)]), 0);
}

#[test]
fn only_a_recorded_stall_gives_time_back() {
    let mut stalled = StalledTime::since(Time::from_millis(0));
    let (mut world, caller) = World::running();
    let grant = world.grant_request("bob");
    for request in [Request::Sweep, grant, crate::world::beat(&caller)] {
        stalled.count(&request);
    }
    assert_eq!(stalled.total().millis(), 0);
}

#[test]
fn only_the_current_lease_can_still_be_extended() {
    let (mut world, caller) = World::running();
    assert!(may_be_extended(&world.subject, caller.lease));
    assert!(!may_be_extended(&world.subject, LeaseId::from_u128(99)));
    assert!(!may_be_extended(&Subject::Absent, caller.lease));
    world.report(&caller, failed(Category::UserCode));
    assert!(!may_be_extended(&world.subject, caller.lease), "the task waits for its next attempt");
    world.force();
    assert!(!may_be_extended(&world.subject, caller.lease), "the task has ended");
}

proptest! {
    #[test]
    fn a_token_never_gets_more_than_the_stalls_since_it_was_issued(
        issued_at in 0i64..60,
        mut stalls in vec((0i64..100, 0i64..30).prop_map(|(from, length)| (from, from + length)), 0..8),
    ) {
        let instants: BTreeSet<i64> =
            stalls.iter().flat_map(|(from, to)| *from..*to).filter(|at| *at >= issued_at).collect();
        prop_assert!(total(issued_at, &stalls) <= instants.len() as u64);
        stalls.sort_unstable();
        prop_assert_eq!(total(issued_at, &stalls), instants.len() as u64);
    }
}
