//! Whether a report would take effect is known before it is decided, for commits that add something to it.

use verdict::decide::caller::may_report;
use verdict::request::Caller;
use verdict::{Answer, LeaseId};

use crate::world::{World, as_worker, report, succeeded};

/// Both say the same about this caller.
fn agree(world: &World, caller: &Caller, is_taken: bool) {
    let mut world = world.clone();
    assert_eq!(may_report(&world.subject, caller, world.moment()), is_taken, "{caller:?}");
    let answer = world.ask(report(caller, succeeded()));
    assert_eq!(matches!(answer, Answer::Committed { .. }), is_taken, "{caller:?}: {answer:?}");
}

#[test]
fn only_the_caller_with_the_lease_may_report_and_only_while_it_holds() {
    // S0-47, S0-48, S3-24
    let (world, caller) = World::running();
    agree(&world, &caller, true);
    agree(&world, &as_worker(&caller, "bob"), false);
    agree(&world, &Caller { attempt: caller.attempt + 1, ..caller.clone() }, false);
    agree(&world, &Caller { lease: LeaseId::from_u128(999), ..caller.clone() }, false);
    let mut late = world.clone();
    late.now = late.lease().expires_at;
    agree(&late, &caller, false);
    // The store was restored from a backup.
    let mut restored = world.clone();
    restored.epoch += 1;
    agree(&restored, &caller, false);
    let mut reported = world;
    reported.ask(report(&caller, succeeded()));
    assert!(!may_report(&reported.subject, &caller, reported.moment()), "it has ended");
}
