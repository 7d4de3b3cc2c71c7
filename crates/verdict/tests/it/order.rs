//! When several refusals apply, the order of checks decides which one a worker gets.

use verdict::request::Caller;
use verdict::{Category, LeaseId, Refusal, State};

use crate::world::{World, as_worker, beat, failed, refusal, report, start, succeeded};

#[test]
fn the_lease_goes_before_its_owner() {
    let (mut world, caller) = World::running();
    let wrong = Caller { lease: LeaseId::from_u128(99), ..as_worker(&caller, "eve") };
    // a lease that was never issued is REJECTED, whichever worker quotes it.
    assert_eq!(refusal(world.ask_in_vain(beat(&wrong))), Refusal::UnknownLease);
}

#[test]
fn the_owner_goes_before_the_stored_answer() {
    let (mut world, caller) = World::succeeded();
    let eve = as_worker(&caller, "eve");
    // S2-107: no worker can read the answer to another worker's report.
    let answer = world.ask_in_vain(report(&eve, succeeded()));
    assert_eq!(refusal(answer), Refusal::WorkerMismatch);
}

#[test]
fn the_stored_answer_goes_before_attempt_and_end() {
    let (mut world, first) = World::running();
    world.report(&first, failed(Category::UserCode));
    let second = world.grant_when_due("bob");
    world.report(&second, succeeded());
    // a conflicting report gets this code although its attempt is old and the task has ended.
    let answer = world.ask_in_vain(report(&first, succeeded()));
    assert_eq!(refusal(answer), Refusal::ConflictingReport { state: State::Succeeded });
}

#[test]
fn the_attempt_goes_before_the_end() {
    let (mut world, first) = World::running();
    world.lose();
    let second = world.grant_when_due("bob");
    world.report(&second, succeeded());
    let superseded = Refusal::AttemptSuperseded { expected: 2, received: 1 };
    // a stale but honest worker always learns that it was superseded.
    for request in [start(&first), beat(&first), report(&first, succeeded())] {
        assert_eq!(refusal(world.ask_in_vain(request)), superseded);
    }
}

#[test]
fn the_end_goes_before_the_lease() {
    let (mut world, caller) = World::running();
    world.force();
    world.now = world.now.plus(crate::world::secs(1000));
    // the task ended by other means and the lease has expired too: the answer names the end.
    for request in [start(&caller), report(&caller, succeeded())] {
        let answer = refusal(world.ask_in_vain(request));
        assert_eq!(answer, Refusal::TaskAlreadyTerminal { state: State::Cancelled });
    }
}
