//! Anyone with the rows can recompute the provenance record.

use verdict::record::{extend, seal_chain};
use verdict::{Category, Digest, Done, Policy};

use crate::world::{World, cancelled, failed, secs, succeeded};

/// The digest that a reader computes from the submission's link, the closed attempts and the end.
fn recompute(submitted: Digest, world: &World) -> Digest {
    let chain = world.closed.iter().fold(submitted, extend);
    let done = world.done();
    seal_chain(chain, &done.end, done.created_at, done.completed_at)
}

#[test]
fn every_way_to_end_leaves_a_record_that_can_be_checked() {
    type Ending = fn(&mut World);
    let endings: [(&str, Ending); 7] = [
        ("success", |world| {
            let caller = world.grant("ann");
            world.report(&caller, succeeded());
        }),
        ("failure", |world| {
            let caller = world.grant("ann");
            world.report(&caller, failed(Category::Configuration));
        }),
        ("cancelled by its worker", |world| {
            let caller = world.grant("ann");
            world.report(&caller, cancelled());
        }),
        ("cancelled while waiting", |world| drop(world.cancel())),
        ("forced", |world| {
            world.grant("ann");
            world.force();
        }),
        ("deadline", |world| {
            world.wait(secs(10_000));
            world.sweep();
        }),
        ("success at the second try", |world| {
            let caller = world.grant("ann");
            world.report(&caller, failed(Category::UserCode));
            let caller = world.grant_when_due("bob");
            world.report(&caller, succeeded());
        }),
    ];
    let mut records = Vec::new();
    for (name, end) in endings {
        let deadline = Some(crate::world::START.plus(secs(1000)));
        let mut world = World::submitted(Policy { deadline, ..Policy::default() });
        let submitted = world.task().chain;
        end(&mut world);
        // S2-31, S2-61, S2-114, W-4, W-5: the record is part of the end, for every end.
        assert_eq!(world.done().record, recompute(submitted, &world), "{name}");
        records.push(world.done().record);
    }
    records.sort_unstable();
    records.dedup();
    assert_eq!(records.len(), 7, "two different histories have one record");
}

#[test]
fn a_changed_row_changes_the_record() {
    let (mut world, caller) = World::running();
    let submitted = world.task().chain;
    world.report(&caller, succeeded());
    let honest: Done = world.done().clone();
    world.closed[0].owner = "eve".into();
    // S2-114: so a record proves the rows that it was computed from.
    assert_ne!(recompute(submitted, &world), honest.record);
}
