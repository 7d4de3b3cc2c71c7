//! `tenure schedules`, by its guide: every command as it is written there.

use crate::guides::{self, Reader};
use crate::home::Home;

const GUIDE: &str = include_str!("../../../../docs/guide/schedules.md");

#[test]
fn the_commands_of_the_guide_do_what_it_says() {
    let home = Home::new();
    let (_dev, pasted) = guides::dev(&home);
    let blocks = guides::blocks(GUIDE);
    let [create, by_hand] = blocks[..] else {
        panic!("the guide has {} blocks: each has its own check here", blocks.len());
    };
    let mut reader = Reader::new(&home);
    reader.follow(&pasted);
    let said = reader.follow(create);
    assert!(said.contains("nightly  active  sched_"), "{said}");
    assert!(said.contains("0 3 * * *  Europe/Berlin"), "{said}");
    // The preview has the instants by themselves, in the winter or in the summer time of Berlin.
    let is_instant =
        |line: &&str| line.ends_with("T02:00:00.000Z") || line.ends_with("T01:00:00.000Z");
    assert!(said.lines().filter(is_instant).count() >= 3, "{said}");
    let said = reader.follow(by_hand);
    for word in ["nightly  paused", "nightly  active", "run_", "30 3 * * *", "nightly  deleted"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let said = reader.follow("tenure schedules list");
    assert!(said.contains("there are no schedules"), "{said}");
    let said = reader.follow("tenure runs list --json");
    assert!(
        said.contains("tenure.schedule"),
        "the run that was triggered says whose it is: {said}"
    );
}
