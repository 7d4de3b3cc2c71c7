//! Regression tests: seeds that failed once must pass.

use sim::PlantedBug;
use sim::log::Keep;

const CORPUS: &str = include_str!("../../corpus/seeds.txt");

#[test]
fn seeds_that_once_failed_are_replayed_for_ever() {
    let seeds: Vec<u64> = CORPUS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .map(|seed| seed.parse().expect("a line of the corpus begins with a seed"))
        .collect();
    assert!(!seeds.is_empty());
    for seed in seeds {
        let outcome = sim::run(seed, Keep::DigestOnly, PlantedBug::Nothing);
        assert_eq!(outcome.violation, None, "reproduce with: cargo xtask sim --seed {seed}");
    }
}
