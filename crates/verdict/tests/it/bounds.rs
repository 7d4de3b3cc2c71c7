//! How much is recorded about one task, and what a task at that bound may still do.

use verdict::bounds::{DECISIONS_MAX, ENTRIES_MAX};
use verdict::request::Caller;
use verdict::{Answer, Category, Policy, Reason, Refusal, State, Subject, Task};

use crate::world::{START, World, failed, refusal, secs, succeeded};

fn change(world: &mut World, how: impl FnOnce(&mut Task)) {
    let Subject::Live(task) = &mut world.subject else { panic!("the task is live") };
    how(task);
}

/// A running task whose history has no room for another attempt.
fn full() -> (World, Caller) {
    let (mut world, caller) = World::running();
    change(&mut world, |task| task.entries = ENTRIES_MAX - 3);
    (world, caller)
}

/// A running task that was renewed as often as the bounds allow.
fn worn() -> (World, Caller) {
    let (mut world, caller) = World::running();
    change(&mut world, |task| (task.revision, task.claim_version) = (DECISIONS_MAX - 9, 7));
    (world, caller)
}

#[test]
fn a_full_history_keeps_no_task_from_ending_by_any_way() {
    // S2-41: whatever happens, the task can end, and its reason names the bound where that is the
    // cause.
    let (mut world, caller) = full();
    world.report(&caller, succeeded());
    assert_eq!((world.state(), world.done().end.reason), (State::Succeeded, None));

    let (mut world, caller) = full();
    let answer = world.report(&caller, failed(Category::UserCode));
    assert!(matches!(answer, Answer::Committed { state: State::Failed, .. }), "{answer:?}");
    assert_eq!(world.done().end.reason, Some(Reason::HistoryFull));

    let (mut world, caller) = full();
    world.start(&caller);
    world.lose();
    assert_eq!(world.done().end.reason, Some(Reason::HistoryFull), "lost");

    let (mut world, _) = full();
    world.lose();
    assert_eq!(world.done().end.reason, Some(Reason::HistoryFull), "unheard");

    let (mut world, caller) = full();
    world.undelivered(&caller);
    world.sweep();
    assert_eq!(world.done().end.reason, Some(Reason::HistoryFull), "handed back");

    let (mut world, _) = full();
    world.force();
    assert_eq!(world.state(), State::Cancelled);
    assert!(world.done().entries <= ENTRIES_MAX);
}

#[test]
fn an_attempt_that_began_in_time_fits_with_all_that_can_happen_in_it() {
    let (mut world, _) = World::retrying();
    let due = world.due();
    change(&mut world, |task| task.entries = ENTRIES_MAX - 16);
    world.now = due;
    let caller = world.grant("ann");
    world.start(&caller);
    world.cancel();
    world.beat(&caller);
    world.lose();
    assert_eq!(world.done().end.reason, Some(Reason::CancelTimeout));
    assert!(world.done().entries <= ENTRIES_MAX, "{}", world.done().entries);
}

#[test]
fn a_waiting_task_without_room_ends_where_it_would_be_granted() {
    let (mut world, _) = World::retrying();
    change(&mut world, |task| task.entries = ENTRIES_MAX - 15);
    let early = world.grant_request("ann");
    assert_eq!(world.ask_in_vain(early), Answer::Nothing);
    world.now = world.due();
    // S2-54: the pool grants nothing and ends nothing; the sweep that is due with the task does.
    assert_eq!(world.task().wakes_at(), Some(world.now));
    let request = world.grant_request("ann");
    assert_eq!(world.ask_in_vain(request), Answer::Nothing);
    assert_eq!(world.sweep(), Answer::Done);
    let end = &world.done().end;
    assert_eq!((end.state, end.reason), (State::Failed, Some(Reason::HistoryFull)));
}

#[test]
fn a_limit_on_attempts_does_not_hide_that_the_history_is_full() {
    let policy = Policy { attempt_limit: Some(secs(60)), ..Policy::default() };
    let (mut world, caller) = World::running_with(policy);
    world.start(&caller);
    change(&mut world, |task| task.entries = ENTRIES_MAX - 3);
    world.lose();
    assert_eq!(world.done().end.reason, Some(Reason::HistoryFull));
}

#[test]
fn renewals_make_no_entries_and_a_full_history_does_not_stop_them() {
    let (mut world, caller) = full();
    let entries = world.task().entries;
    assert!(matches!(world.beat(&caller), Answer::Alive { .. }));
    assert_eq!(world.task().entries, entries);
    // W-18: nor does it cost a worker the time in which no coordinator could receive its heartbeat.
    let end = world.lease().expires_at;
    world.wait(secs(30));
    assert_eq!(world.extend(START, secs(30)), Answer::Done);
    assert_eq!(world.lease().expires_at, end.plus(secs(30)));
}

#[test]
fn a_lease_that_was_renewed_too_often_is_not_renewed_again_and_its_worker_may_report() {
    let (mut world, caller) = worn();
    let refused = refusal(world.beat(&caller));
    assert_eq!(refused, Refusal::HistoryFull { state: State::Running });
    assert_eq!(
        (refused.name(), refused.worker_verdict()),
        ("history_full", verdict::WorkerVerdict::Rejected)
    );
    assert!(world.events.is_empty(), "a refusal changes nothing");
    world.report(&caller, succeeded());
    assert_eq!(world.state(), State::Succeeded);
}

#[test]
fn no_counter_comes_to_where_it_would_begin_again() {
    // W-27: the claim version never decreases, so that no fence is issued twice.
    let (mut world, caller) = worn();
    world.beat(&caller);
    world.start(&caller);
    world.lose();
    assert_eq!(world.done().end.reason, Some(Reason::HistoryFull));
    let (mut world, caller) = worn();
    change(&mut world, |task| (task.revision, task.claim_version) = (9, DECISIONS_MAX - 9));
    refusal(world.beat(&caller));
    for _ in 0..20 {
        // A lease that no heartbeat could reach is extended, as long as the task's end still fits.
        world.wait(secs(1));
        world.extend(world.task().decided_at, secs(1));
    }
    world.lose();
    assert!(world.done().claim_version <= DECISIONS_MAX);
    assert_eq!(i32::try_from(DECISIONS_MAX), Ok(i32::MAX), "what every store can hold");
}
