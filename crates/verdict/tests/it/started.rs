//! Starts: a worker reports that execution begins.

use verdict::request::Started;
use verdict::{Answer, Category, Refusal, Request, State, WorkerVerdict};

use crate::world::{START, World, as_worker, failed, refusal, secs, start, succeeded};

#[test]
fn a_start_is_dated_by_the_server_and_said_once() {
    let (mut world, caller) = World::running();
    world.wait(secs(3));
    assert_eq!(world.start(&caller), Answer::Acknowledged);
    // the first start of the run is the server's time, not the worker's.
    assert_eq!(world.task().started_at, Some(START.plus(secs(3))));
    world.wait(secs(1));
    // R-30, S3-59: the worker may repeat its start; the second time changes nothing.
    assert_eq!(world.ask_in_vain(start(&caller)), Answer::Acknowledged);
}

#[test]
fn what_a_worker_says_of_the_time_revives_no_lease() {
    let (mut world, caller) = World::running();
    world.wait(world.task().policy.lease);
    let backdated = Started { caller: caller.clone(), claimed_at: Some(START) };
    // the worker's time is only a claim; by the server's time the lease has expired.
    let answer = world.ask_in_vain(Request::Started(backdated));
    assert_eq!(refusal(answer), Refusal::TaskExpired { state: State::Running });
}

#[test]
fn another_worker_cannot_start_under_the_same_lease() {
    let (mut world, caller) = World::running();
    let answer = world.ask_in_vain(start(&as_worker(&caller, "eve")));
    // R-30, S2-107: REJECTED, and the owner's state is untouched.
    assert_eq!(refusal(answer), Refusal::WorkerMismatch);
    assert_eq!(Refusal::WorkerMismatch.worker_verdict(), WorkerVerdict::Rejected);
}

#[test]
fn a_start_on_an_ended_task_is_told_its_state() {
    let (mut world, caller) = World::succeeded();
    let answer = world.ask_in_vain(start(&caller));
    // S4-17: 409 task_already_terminal, with the state.
    assert_eq!(refusal(answer), Refusal::TaskAlreadyTerminal { state: State::Succeeded });
}

#[test]
fn a_start_that_meets_a_cancel_never_begins() {
    let (mut world, caller) = World::running();
    world.cancel();
    let answer = world.start(&caller);
    // S4-50: the signal is a refused start with state CANCELLED, and the task has ended as
    // cancelled.
    assert_eq!(refusal(answer), Refusal::TaskAlreadyTerminal { state: State::Cancelled });
    assert_eq!(world.state(), State::Cancelled);
}

#[test]
fn a_start_after_its_own_report_learns_that_the_attempt_is_over() {
    let (mut world, caller) = World::running();
    world.report(&caller, failed(Category::UserCode));
    let answer = world.ask_in_vain(start(&caller));
    // the answer table's row for a start on a finished attempt, CANCELLED.
    assert_eq!(refusal(answer.clone()), Refusal::AttemptAlreadyCompleted { state: State::Retry });
    assert_eq!(refusal(answer).worker_verdict(), WorkerVerdict::Cancelled);
}

#[test]
fn each_attempt_has_its_own_start_and_the_run_keeps_the_first() {
    let (mut world, first) = World::running();
    world.start(&first);
    world.report(&first, failed(Category::UserCode));
    let second = world.grant_when_due("bob");
    world.start(&second);
    world.report(&second, succeeded());
    // `started_at` of a run is its first start; each attempt has its own.
    assert_eq!(world.done().started_at, Some(START));
    assert!(world.closed[1].started_at > world.closed[0].started_at);
}
