//! Why a task is in its state: one test for each gate.

use verdict::explain::{Gate, explain};
use verdict::request::CancelMode;
use verdict::{Category, Policy, Reason, Request, State, Subject};

use crate::world::{START, World, beat, cancel, failed, secs, submission};

fn gates(world: &World) -> Vec<Gate> {
    explain(&world.subject, None, world.moment())
}

#[test]
fn a_task_that_does_not_exist_has_no_gate() {
    assert_eq!(gates(&World::empty()), []);
}

#[test]
fn a_task_submitted_for_later_waits_for_its_time() {
    let mut world = World::empty();
    let due = START.plus(secs(60));
    let mut submit = submission(Policy::default());
    submit.run_at = Some(due);
    world.ask(Request::Submit(submit));
    assert_eq!(gates(&world), [Gate::RunAt { due }]);
    world.now = due;
    // an instant has come when now has reached it, here as everywhere.
    assert_eq!(gates(&world), [Gate::Ready { since: due }]);
}

#[test]
fn a_failed_task_waits_for_its_backoff() {
    let (world, _) = World::retrying();
    let due = world.due();
    let expected = Gate::Backoff {
        due,
        failures: 1,
        failures_max: 3,
        lost: 0,
        undelivered: 0,
        uncounted: 0,
        uncounted_max: 100,
    };
    assert_eq!(gates(&world), [expected]);
}

#[test]
fn a_task_that_could_be_leased_says_since_when() {
    let mut world = World::queued();
    world.wait(secs(5));
    assert_eq!(gates(&world), [Gate::Ready { since: START }]);
    let mut taken = World::queued();
    taken.grant("ann");
    assert!(!gates(&taken).iter().any(|gate| matches!(gate, Gate::Ready { .. })));
}

#[test]
fn a_leased_task_names_its_worker_and_the_last_heartbeat() {
    let (mut world, caller) = World::running();
    world.wait(secs(10));
    world.ask(beat(&caller));
    let expected = Gate::Leased {
        owner: "ann".into(),
        attempt: 1,
        heard_at: START.plus(secs(10)),
        until: START.plus(secs(100)),
        progress: None,
    };
    // S2-101: the bound on an attempt that only sends heartbeats is named, although nobody asked for it.
    let clock = world.task().policy.clock();
    let until = Some(START.plus(clock.after));
    let bound = Gate::Progress { clock, since: START, stalled_at: None, until };
    assert_eq!(gates(&world), [expected, bound]);
}

#[test]
fn a_grant_that_nobody_answered_is_called_so() {
    let (world, _) = World::running();
    let expected = Gate::Unheard {
        owner: "ann".into(),
        granted_at: START,
        until: START.plus(secs(90)),
        undelivered: 0,
        undelivered_max: 10,
    };
    assert_eq!(gates(&world), [expected]);
}

#[test]
fn a_lease_from_before_a_restore_holds_the_task_but_nobody_holds_the_lease() {
    let (mut world, caller) = World::running();
    world.start(&caller);
    world.epoch += 1;
    // S3-24: the lease has no authority; the task is granted again after the lease expires.
    let until = world.lease().expires_at;
    assert_eq!(gates(&world)[0], Gate::Restored { owner: "ann".into(), until });
}

#[test]
fn a_cancel_is_first_untold_then_told() {
    let (mut world, caller) = World::running();
    world.start(&caller);
    world.cancel();
    let lease_end = world.lease().expires_at;
    assert_eq!(gates(&world)[0], Gate::CancelUntold { requested_at: START, until: lease_end });
    world.wait(secs(10));
    world.beat(&caller);
    // the grace counts from the signal.
    let told_at = START.plus(secs(10));
    assert_eq!(gates(&world)[0], Gate::CancelTold { told_at, until: told_at.plus(secs(30)) });
    assert!(matches!(gates(&world)[1], Gate::Leased { .. }));
    assert_eq!(world.task().wakes_at(), Some(told_at.plus(secs(30))), "what the sweep waits for");
}

#[test]
fn limits_are_named_beside_what_holds_the_task() {
    let deadline = START.plus(secs(500));
    let policy =
        Policy { deadline: Some(deadline), attempt_limit: Some(secs(200)), ..Policy::default() };
    let (world, _) = World::running_with(policy.clone());
    // W-31: the attempt limit and the deadline.
    let limits =
        [Gate::AttemptLimit { at: START.plus(secs(200)) }, Gate::Deadline { at: deadline }];
    assert_eq!(gates(&world)[1..], limits);
    let waiting = World::submitted(policy);
    assert_eq!(gates(&waiting), [Gate::Ready { since: START }, Gate::Deadline { at: deadline }]);
}

#[test]
fn an_ended_task_says_how_why_and_with_which_attempt() {
    let (world, _) = World::succeeded();
    let succeeded = Gate::Ended { state: State::Succeeded, reason: None, attempt: 1, at: START };
    assert_eq!(gates(&world), [succeeded]);
    let (mut world, caller) = World::running();
    world.report(&caller, failed(Category::DataQuality));
    let reason = Some(Reason::NotRetryable);
    assert_eq!(
        gates(&world),
        [Gate::Ended { state: State::Failed, reason, attempt: 1, at: START }]
    );
    let mut world = World::queued();
    world.ask(cancel(CancelMode::Graceful));
    let Subject::Done(done) = &world.subject else { panic!("it ended") };
    let reason = done.end.reason;
    assert_eq!(
        gates(&world),
        [Gate::Ended { state: State::Cancelled, reason, attempt: 0, at: START }]
    );
}

#[test]
fn a_paused_queue_holds_what_waits_and_not_what_runs() {
    let since = Some(START.plus(secs(1)));
    let paused = Gate::QueuePaused { since: START.plus(secs(1)) };
    let world = World::queued();
    let explained = explain(&world.subject, since, world.moment());
    assert_eq!(explained, [paused.clone(), Gate::Ready { since: START }]);
    let (world, _) = World::retrying();
    assert_eq!(explain(&world.subject, since, world.moment())[0], paused);
    let (world, _) = World::running();
    assert!(!explain(&world.subject, since, world.moment()).contains(&paused));
}
