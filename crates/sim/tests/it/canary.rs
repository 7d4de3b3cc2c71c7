//! A simulation that nobody has seen fail proves nothing: bugs that are always there must be found.

use sim::Plant;
use sim::log::Keep;

/// How many worlds a planted bug may survive.
const WORLDS_MAX: usize = 60;

fn finds(plant: Plant, seeds: impl Iterator<Item = u64>) -> String {
    let violation = |seed| sim::run(seed, Keep::DigestOnly, plant).violation;
    let found = seeds.take(WORLDS_MAX).find_map(violation);
    found.unwrap_or_else(|| panic!("{plant:?} survived {WORLDS_MAX} worlds"))
}

#[test]
fn a_store_that_loses_what_it_acknowledged_is_found() {
    let what = finds(Plant::LosesCommits, 0..);
    assert!(!what.is_empty());
}

#[test]
fn a_start_that_does_not_give_back_the_time_nobody_listened_is_found() {
    // S3-49 would be a lie: an honest worker loses its lease to our outage.
    let what = finds(Plant::ForgetsHearing, (0..).filter(|seed| sim::is_fair_to_workers(*seed)));
    assert!(what.contains("kept the rules and lost"), "{what}");
}
