//! Which version of the rules may decide, and how the versions differ.

use proptest::collection::vec;
use proptest::prelude::*;
use verdict::rules::{PendingVersion, pending_version, to_activate, to_join};
use verdict::{Answer, Rules, Span, SupportedRules};

use crate::world::{START, World, secs};

fn known(oldest: u32, newest: u32) -> SupportedRules {
    SupportedRules::from_numbers(oldest, newest).expect("the oldest is not newer")
}

#[test]
fn the_greatest_version_that_all_know_is_activated_and_never_a_lower_one() {
    let (old, both, new) = (known(1, 1), known(1, 2), known(2, 3));
    for (in_force, living, expected) in [
        (1, vec![], 1),
        (1, vec![old], 1),
        (1, vec![both], 2),
        (1, vec![both, old], 1),
        (1, vec![both, both], 2),
        // The oldest version of one is newer than all that the other supports: no common version.
        (1, vec![old, new], 1),
        (1, vec![new], 3),
        (2, vec![new, both], 2),
        // A coordinator that lacks the version in force does not lower it.
        (2, vec![old], 2),
        (2, vec![old, both], 2),
        (3, vec![], 3),
    ] {
        assert_eq!(to_activate(in_force, &living), expected, "{in_force} {living:?}");
    }
}

#[test]
fn whoever_could_not_decide_by_what_is_in_force_does_not_join() {
    let (old, both, new) = (known(1, 1), known(1, 2), known(2, 3));
    for (in_force, newcomer, living, expected) in [
        (1, old, vec![], Some(1)),
        (1, old, vec![both], Some(1)),
        (2, old, vec![], None),
        (2, old, vec![both], None),
        // Alone it may start with its newest version, with others only if all of them support it.
        (1, both, vec![], Some(2)),
        (1, both, vec![old], Some(1)),
        (1, both, vec![both], Some(2)),
        // Too new for the live coordinators: they must stop first.
        (1, new, vec![old], None),
        (1, new, vec![both], Some(2)),
        (1, new, vec![], Some(3)),
    ] {
        let joined = to_join(in_force, newcomer, &living);
        assert_eq!(joined, expected, "{in_force} {newcomer:?} {living:?}");
    }
}

#[test]
fn a_version_that_waits_names_those_who_lack_it() {
    let (old, both) = (known(1, 1), known(1, 2));
    assert_eq!(pending_version(1, &[]), None);
    assert_eq!(pending_version(1, &[old, old]), None);
    let lacking = vec![1, 2];
    assert_eq!(pending_version(1, &[both, old, old]), Some(PendingVersion { version: 2, lacking }));
    // No coordinator lacks the version: it is active or about to be.
    assert_eq!(pending_version(1, &[both]), None);
    assert_eq!(pending_version(2, &[both, old]), None);
}

#[test]
fn a_version_is_known_by_its_number_and_others_are_not() {
    for rules in Rules::ALL {
        assert_eq!(Rules::of(rules.number()), Some(rules));
    }
    let ours = SupportedRules::OURS;
    assert_eq!((ours.oldest(), ours.newest()), (Rules::OLDEST.number(), Rules::NEWEST.number()));
    assert_eq!(ours.rules(Rules::NEWEST.number()), Some(Rules::NEWEST));
    assert_eq!(ours.rules(Rules::NEWEST.number() + 1), None, "what a test plants is not supported");
    assert_eq!((Rules::of(0), Rules::of(99)), (None, None));
    assert_eq!(known(1, 99).rules(99), None, "it may know it; this code does not");
    assert_eq!(SupportedRules::only(Rules::V1, Rules::V1).rules(2), None);
    assert_eq!(SupportedRules::from_numbers(2, 1), None);
}

#[test]
fn an_outage_is_given_back_once_and_the_planted_version_gives_a_millisecond_more() {
    for rules in Rules::ALL {
        let given = Span::from_millis(if rules == Rules::V1 { 300_000 } else { 300_001 });
        let (mut world, _) = World::running();
        world.rules = rules;
        let (stalled_since, end) = (START.plus(secs(10)), world.lease().expires_at);
        world.now = stalled_since.plus(secs(300));
        assert_eq!(world.extend(stalled_since, secs(300)), Answer::Done);
        assert_eq!(world.lease().expires_at, end.plus(given), "{rules:?}");
        world.extend(stalled_since, secs(300));
        assert_eq!(world.lease().expires_at, end.plus(given), "{rules:?}");
    }
}

fn anybody() -> impl Strategy<Value = SupportedRules> {
    (1..6_u32, 0..4_u32).prop_map(|(oldest, more)| known(oldest, oldest + more))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_activated_is_known_to_all_and_the_greatest_of_those(
        in_force in 1..6_u32,
        living in vec(anybody(), 0..6),
    ) {
        let knows = |known: &SupportedRules, n: u32| known.oldest() <= n && n <= known.newest();
        let by_all = |n: u32| living.iter().all(|known| knows(known, n));
        let activated = to_activate(in_force, &living);
        prop_assert!(activated >= in_force);
        prop_assert!(activated == in_force || by_all(activated));
        if !living.is_empty() {
            prop_assert!(!(activated + 1..12).any(by_all), "{activated} with {living:?}");
        }
        // A second activation changes nothing, and a coordinator that supports the result may
        // always join.
        prop_assert_eq!(to_activate(activated, &living), activated);
        for known in &living {
            prop_assert_eq!(to_join(activated, *known, &living).is_some(), knows(known, activated));
        }
    }
}
