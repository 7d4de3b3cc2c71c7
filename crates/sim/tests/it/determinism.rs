//! A seed is a bug report, so it must reproduce the same run everywhere.

use sim::PlantedBug;
use sim::log::Keep;

#[test]
fn a_seed_leaves_the_same_trace_whenever_and_wherever_it_runs() {
    let here = sim::run(7, Keep::Lines, PlantedBug::Nothing);
    let elsewhere = std::thread::spawn(|| sim::run(7, Keep::Lines, PlantedBug::Nothing));
    let elsewhere = elsewhere.join().unwrap();
    assert!(here.lines.len() > 20, "a world has a story to tell");
    assert_eq!(here.lines, elsewhere.lines);
    assert_eq!(here.digest, elsewhere.digest);
    // Keeping the lines does not change the run.
    assert_eq!(sim::run(7, Keep::DigestOnly, PlantedBug::Nothing).digest, here.digest);
}

#[test]
fn another_seed_is_another_world() {
    let digests = [1, 2].map(|seed| sim::run(seed, Keep::DigestOnly, PlantedBug::Nothing).digest);
    assert_ne!(digests[0], digests[1]);
}
