//! Sweeps: what the passage of time changes.

use verdict::policy::UNDELIVERED_MAX;
use verdict::{Answer, AttemptOutcome, Category, Policy, Reason, Request, State};

use crate::world::{START, World, failed, secs};

#[test]
fn defaults_fit_every_range_the_contract_gives() {
    let policy = Policy::default();
    // S4-36, S4-37, S4-55: thirty, ninety and thirty seconds.
    assert_eq!(policy.heartbeat_every, secs(30));
    assert_eq!(policy.lease, secs(90));
    assert_eq!(policy.cancel_grace, secs(30));
    // S4-38, S4-39: three times the interval, so at least twice.
    assert_eq!(policy.lease.millis(), 3 * policy.heartbeat_every.millis());
    // S0-41, S0-42, R-3: a lease of 30 to 120 seconds, renewed every 10 to 30.
    assert!((secs(30)..=secs(120)).contains(&policy.lease));
    assert!((secs(10)..=secs(30)).contains(&policy.heartbeat_every));
    // base 5 s, cap 300 s, three failures, three losses.
    assert_eq!((policy.retry_base, policy.retry_cap), (secs(5), secs(300)));
    assert_eq!((policy.failures_max, policy.lost_max), (3, 3));
}

#[test]
fn a_silent_worker_loses_its_lease_and_the_task_goes_on() {
    let (mut world, caller) = World::running();
    world.start(&caller);
    world.lose();
    // S3-48, S3-50, S4-45, R-11: the loss is decided here, by the clock, and closes the attempt as
    // LOST.
    assert_eq!(world.attempt_outcomes(), [(AttemptOutcome::Lost, Some(Reason::HeartbeatTimeout))]);
    // S2-103: the orphaned task is claimable at once, without backoff.
    assert_eq!((world.state(), world.due()), (State::Retry, world.now));
    // counted as lost, not as a failure, and not as another attempt.
    let task = world.task();
    assert_eq!((task.lost, task.failures, task.attempt), (1, 0, 1));
}

#[test]
fn a_task_that_kills_its_workers_ends() {
    let mut world = World::queued();
    for worker in ["ann", "bob", "cid"] {
        let caller = world.grant_when_due(worker);
        world.start(&caller);
        world.lose();
    }
    // W-19, S4-46, R-11: three lost workers, then failed with HEARTBEAT_TIMEOUT.
    let done = world.done();
    assert_eq!((done.end.state, done.end.reason), (State::Failed, Some(Reason::HeartbeatTimeout)));
    let category = done.end.fault.as_ref().map(|fault| fault.category);
    assert_eq!(category, Some(Category::Infrastructure));
    assert_eq!((done.lost, done.failures, done.attempt), (3, 0, 3));
}

#[test]
fn losses_and_failures_are_limited_apart() {
    let mut world = World::queued();
    for round in 0..2 {
        let caller = world.grant_when_due("ann");
        world.start(&caller);
        world.lose();
        let caller = world.grant_when_due("ann");
        world.report(&caller, failed(Category::UserCode));
        // after two of each, neither limit of three is reached.
        assert_eq!((world.task().lost, world.task().failures), (round + 1, round + 1));
    }
    assert_eq!(world.task().attempt, 4);
    let caller = world.grant_when_due("ann");
    world.report(&caller, failed(Category::UserCode));
    assert_eq!(world.done().end.reason, Some(Reason::AttemptsExhausted));
}

#[test]
fn a_grant_nobody_received_is_not_a_lost_worker() {
    let mut world = World::queued();
    for round in 1..=UNDELIVERED_MAX {
        assert_eq!(world.state() == State::Queued, round == 1);
        world.grant_when_due("ann");
        world.now = world.lease().expires_at;
        world.sweep();
        // W-18: no heartbeat ever arrived, and the lease still expires, counted from its grant. The
        // task waits longer and longer instead of spinning.
        if round < UNDELIVERED_MAX {
            assert!(world.due() > world.now);
            assert_eq!((world.task().lost, world.task().undelivered), (0, round));
        }
    }
    assert_eq!(world.done().end.reason, Some(Reason::Undelivered));
    assert_eq!(world.done().lost, 0);
}

#[test]
fn being_heard_ends_a_row_of_unheard_grants() {
    let mut world = World::queued();
    for _ in 0..UNDELIVERED_MAX - 1 {
        world.grant_when_due("ann");
        world.now = world.lease().expires_at;
        world.sweep();
    }
    let caller = world.grant_when_due("ann");
    world.report(&caller, failed(Category::UserCode));
    assert_eq!(world.task().undelivered, 0);
}

#[test]
fn an_attempt_over_its_limit_is_a_failure_like_any_other() {
    let policy = Policy { attempt_limit: Some(secs(60)), failures_max: 2, ..Policy::default() };
    let (mut world, caller) = World::running_with(policy);
    world.start(&caller);
    world.lose();
    // S2-101, W-21: detected by time; TIMEOUT is retryable, with backoff (S4-63).
    assert_eq!(world.now, START.plus(secs(60)));
    assert_eq!(world.attempt_outcomes(), [(AttemptOutcome::Revoked, Some(Reason::AttemptTimeout))]);
    assert!(world.due() > world.now);
    assert_eq!((world.task().failures, world.task().lost), (1, 0));
    let caller = world.grant_when_due("bob");
    world.start(&caller);
    world.lose();
    assert_eq!(world.done().end.reason, Some(Reason::AttemptTimeout));
}

#[test]
fn the_deadline_ends_a_task_wherever_it_stands() {
    let deadline = START.plus(secs(200));
    let policy = Policy { deadline: Some(deadline), ..Policy::default() };
    let queued = World::submitted(policy.clone());
    let (running, _) = World::running_with(policy.clone());
    let (mut retrying, caller) = World::running_with(policy);
    retrying.report(&caller, failed(Category::UserCode));
    for mut world in [queued, running, retrying] {
        if let Some(lease) = world.task().lease() {
            assert!(lease.expires_at <= deadline);
            world.beat(&world.caller());
        }
        world.now = deadline;
        world.sweep();
        // R-12, W-31: failed with category TIMEOUT, from queued, running and retry.
        let end = &world.done().end;
        assert_eq!((end.state, end.reason), (State::Failed, Some(Reason::DeadlineExceeded)));
        assert_eq!(end.fault.as_ref().map(|fault| fault.category), Some(Category::Timeout));
    }
}

#[test]
fn a_sweep_that_comes_early_or_twice_does_nothing() {
    let (mut world, caller) = World::running();
    assert_eq!(world.ask_in_vain(Request::Sweep), Answer::Nothing);
    world.start(&caller);
    world.lose();
    // S3-59: a sweep may be repeated like any other request.
    assert_eq!(world.ask_in_vain(Request::Sweep), Answer::Nothing);
    assert_eq!(World::empty().ask_in_vain(Request::Sweep), Answer::Nothing);
}
