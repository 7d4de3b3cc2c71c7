//! The time to live of waiting work: it ends what no worker took, at the exact instant, and touches nothing else.

use verdict::explain::{Gate, explain};
use verdict::{Answer, Category, Policy, Reason, Request, Span, State};

use crate::world::{START, World, beat, failed, secs, submission, succeeded};

const TTL: Span = Span::from_secs(20);

fn policy() -> Policy {
    Policy { ttl: Some(TTL), ..Policy::default() }
}

#[test]
fn work_that_no_worker_took_ends_at_the_exact_instant() {
    // time alone ends it, so the sweeper does.
    let mut world = World::submitted(policy());
    let end = START.plus(TTL);
    assert_eq!(world.task().wakes_at(), Some(end));
    world.wait_until_just_before(end);
    world.ask_in_vain(Request::Sweep);
    world.now = end;
    assert_eq!(world.sweep(), Answer::Done);
    let ended = &world.done().end;
    assert_eq!((ended.state, ended.reason), (State::Failed, Some(Reason::TtlExpired)));
    assert_eq!(ended.fault.as_ref().unwrap().category, Category::Timeout);
}

#[test]
fn nothing_is_granted_from_that_instant_on() {
    let mut world = World::submitted(policy());
    world.now = START.plus(TTL);
    let grant = world.grant_request("ann");
    assert_eq!(world.ask_in_vain(grant), Answer::Nothing);
}

#[test]
fn a_delay_does_not_use_it_up() {
    let mut world = World::empty();
    let due = START.plus(secs(100));
    let submit = verdict::request::Submit { run_at: Some(due), ..submission(policy()) };
    world.ask(Request::Submit(submit));
    assert_eq!(world.task().wakes_at(), Some(due.plus(TTL)));
    world.now = due.plus(secs(19));
    world.ask_in_vain(Request::Sweep);
    world.grant("ann");
}

#[test]
fn work_that_a_worker_took_is_not_touched() {
    let (mut world, caller) = World::running_with(policy());
    world.start(&caller);
    world.wait(secs(60));
    world.ask(beat(&caller));
    world.ask_in_vain(Request::Sweep);
    world.report(&caller, failed(Category::UserCode));
    assert_eq!((world.state(), world.task().wakes_at()), (State::Retry, None));
    world.wait(secs(3_600));
    world.ask_in_vain(Request::Sweep);
    let again = world.grant("bob");
    world.report(&again, succeeded());
    assert_eq!(world.state(), State::Succeeded);
}

#[test]
fn a_grant_that_no_worker_received_is_no_start() {
    let (mut world, _) = World::running_with(policy());
    assert_eq!(world.task().ttl_ends_at(), None, "while it is granted, the lease judges");
    world.lose();
    let due = world.task().claimable_at().expect("it is offered again");
    assert_eq!(world.task().wakes_at(), Some(due.plus(TTL)));
    world.now = due.plus(TTL);
    world.sweep();
    assert_eq!(world.done().end.reason, Some(Reason::TtlExpired));
}

#[test]
fn it_is_explained_while_it_counts() {
    let mut world = World::submitted(policy());
    let gates = |world: &World| explain(&world.subject, None, world.moment());
    let gate = Gate::TimeToLive { at: START.plus(TTL) };
    assert!(gates(&world).contains(&gate), "{:?}", gates(&world));
    world.grant("ann");
    assert!(!gates(&world).contains(&gate));
}
