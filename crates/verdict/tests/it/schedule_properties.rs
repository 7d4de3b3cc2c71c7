//! Schedules under any sequence of outages, refusals and long runs: no instant fires twice, and none is forgotten.

use std::collections::BTreeSet;

use proptest::prelude::*;
use verdict::schedule::{
    CatchUp, DUE_MAX, Fired, Instants, Overlap, Recurrence, Schedule, Terms, WAITING_MAX,
};
use verdict::{Span, TaskId, Time};

use crate::world::{START, secs};

const EVERY: u64 = 10;

/// One look at a schedule: how long after the last one, whether the run before still goes on, and what comes of submissions.
#[derive(Clone, Debug)]
struct Look {
    after: u64,
    is_former_live: bool,
    fired: Fired,
    then: Then,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Pause,
    Resume,
}

fn look() -> impl Strategy<Value = Look> {
    let after = prop_oneof![6 => 0..25_u64, 2 => 60..300_u64, 1 => 2_000..9_000_u64];
    let fired = prop_oneof![
        6 => Just(Fired::Started(TaskId::from_u128(1))),
        2 => Just(Fired::NoRoom),
        1 => Just(Fired::Refused("conflict".into())),
    ];
    let then =
        prop_oneof![8 => Just(Then::Nothing), 1 => Just(Then::Pause), 2 => Just(Then::Resume)];
    (after, any::<bool>(), fired, then).prop_map(|(after, is_former_live, fired, then)| Look {
        after,
        is_former_live,
        fired,
        then,
    })
}

fn terms() -> impl Strategy<Value = Terms> {
    let overlap = proptest::sample::select(Overlap::ALL.to_vec());
    let catch_up = proptest::sample::select(CatchUp::ALL.to_vec());
    (overlap, catch_up, 10..4_000_u64).prop_map(|(overlap, catch_up, window)| Terms {
        recurrence: Recurrence::Every { every: secs(EVERY), anchor: START },
        overlap,
        catch_up: if matches!(overlap, Overlap::Queue | Overlap::Allow) {
            catch_up
        } else {
            CatchUp::One
        },
        window: secs(window),
    })
}

fn next_after(now: Time) -> Time {
    let passed = now.since(START).millis() / (EVERY * 1_000);
    START.plus(secs((passed + 1) * EVERY))
}

/// What a calendar says of instants every ten seconds.
fn calendar(schedule: &Schedule, now: Time) -> Instants {
    let mut due: Vec<Time> = std::iter::successors(schedule.next, |it| Some(it.plus(secs(EVERY))))
        .take_while(|it| it.has_come(now))
        .collect();
    due.drain(..due.len().saturating_sub(DUE_MAX));
    Instants { due, next: Some(next_after(now)) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_instant_fires_twice_and_none_is_forgotten(
        terms in terms(),
        looks in proptest::collection::vec(look(), 1..80),
    ) {
        let mut now = START;
        let mut schedule = Schedule::new("s".into(), terms, false, Some(next_after(now)), now);
        let (mut started, mut considered) = (BTreeSet::new(), 0);
        for look in looks {
            now = now.plus(secs(look.after));
            let before = schedule.clone();
            let instants = calendar(&schedule, now);
            if let Some(round) = schedule.begin(&instants, look.is_former_live, now) {
                let is_new = before.next.is_some_and(|next| next.has_come(now));
                considered += if is_new { instants.due.len() as u64 } else { 0 };
                for firing in &round.fire {
                    prop_assert!(firing.instant.has_come(now));
                    let is_first = !started.contains(&firing.instant);
                    prop_assert!(is_first, "{:?} fires again", firing.instant);
                    if matches!(look.fired, Fired::Started(_)) {
                        started.insert(firing.instant);
                    }
                }
                prop_assert!(round.cancel.is_none() || look.is_former_live);
                let fired = vec![look.fired.clone(); round.fire.len()];
                schedule = round.end(fired, now);
                // Another coordinator that looks in the same moment finds nothing.
                prop_assert_eq!(schedule.begin(&calendar(&schedule, now), true, now), None);
            }
            match look.then {
                Then::Nothing => {}
                Then::Pause => schedule = schedule.paused(),
                Then::Resume => schedule = schedule.resumed(Some(next_after(now))),
            }
            let counts = schedule.counts;
            let known = counts.fired + counts.skipped + counts.missed + counts.refused;
            prop_assert_eq!(known + schedule.waiting.len() as u64, considered);
            prop_assert!(schedule.waiting.len() <= WAITING_MAX && schedule.waiting.is_sorted());
            prop_assert!(schedule.waiting.is_empty() || schedule.due().is_some());
            prop_assert!(schedule.next.is_none_or(|next| !next.has_come(now)));
            prop_assert!(schedule.look_at.is_none_or(|at| now.since(at) == Span::ZERO));
        }
    }
}
