//! Checkpoint calls: what is recorded once, what is recognised, what is refused.

use verdict::bounds::ENTRIES_MAX;
use verdict::request::Outcome;
use verdict::run::limits::{
    CHILDREN_MAX, CHILDREN_PER_CALL_MAX, RESULT_MAX, SETBACKS_MAX, STEPS_MAX, STEPS_PER_CALL_MAX,
};
use verdict::run::{Spend, Step};
use verdict::{Answer, AttemptOutcome, Category, Policy, Request, State, WorkerVerdict};

use crate::family::{Call, Family, ROOT, checkpointed, refused, signal, step};
use crate::world::{failed, secs, succeeded};

#[test]
fn a_step_is_recorded_under_the_lease_and_renews_it() {
    let (mut family, caller) = Family::running();
    let end = family.task(ROOT).lease().unwrap().expires_at;
    family.wait(secs(30));
    let answer = family.checkpoint(&caller, Call::default().step("charge#1", "1"));
    // S2-83, R-30: recorded, renewed, and started without a separate call.
    assert_eq!((answer.state, answer.replayed), (State::Running, false));
    assert_eq!(answer.expires_at, Some(end.plus(secs(30))));
    let lease = family.task(ROOT).lease().unwrap();
    assert_eq!((lease.expires_at, lease.started_at), (end.plus(secs(30)), Some(family.now)));
    let run = family.task(ROOT).run.as_ref().unwrap();
    assert_eq!((run.steps, run.checkpoints), (1, 1));
}

#[test]
fn only_a_call_of_the_attempt_that_executes_records_a_step() {
    // Proves: S2-15: the engine owns what is recorded of steps. No other request writes, changes or removes any of it.
    let recorded = |family: &Family| {
        let run = family.task(ROOT).run.as_ref().unwrap();
        (run.steps, run.checkpoints, family.count(ROOT, "checkpointed"))
    };
    let (mut family, caller) = Family::running();
    family.call(&caller, Call::default().step("charge#1", "1"));
    let before = recorded(&family);
    for request in [
        crate::world::start(&caller),
        crate::world::beat(&caller),
        Request::Sweep,
        signal("go", None, Some("1")),
        crate::world::cancel(verdict::request::CancelMode::Graceful),
    ] {
        family.ask(ROOT, request);
        assert_eq!(recorded(&family), before);
    }
    // The worker is lost, the task is offered and granted again: what was recorded stays as it is.
    let (mut family, caller) = Family::running();
    family.call(&caller, Call::default().step("charge#1", "1"));
    family.now = family.task(ROOT).lease().unwrap().expires_at;
    family.sweep(ROOT);
    assert_eq!(recorded(&family), before);
    let next = family.grant(ROOT);
    assert_eq!(recorded(&family), before);
    // A worker without the lease records nothing, and the one that has it goes on behind what is there.
    assert_eq!(
        refused(family.ask_in_vain(ROOT, Call::default().step("ship#1", "2").request(&caller))),
        "attempt_mismatch"
    );
    family.call(&next, Call::default().step("ship#1", "2"));
    assert_eq!(recorded(&family).0, 2);
}

#[test]
fn a_repeated_step_is_recognised_in_every_later_attempt() {
    let (mut family, caller) = Family::running();
    let call = Call::default().step("a#1", "1");
    family.call(&caller, call.clone());
    // S2-4, S2-90, E3: again in this attempt, and again after a crash. There is one recorded result.
    let again = family.checkpoint(&caller, call.clone());
    assert_eq!((again.replayed, again.replayed_keys.len()), (true, 1));
    family.now = family.task(ROOT).lease().unwrap().expires_at;
    family.sweep(ROOT);
    let next = family.grant(ROOT);
    let later = family.checkpoint(&next, call.step("b#1", "2"));
    assert_eq!((later.replayed, later.replayed_keys), (false, vec!["a#1".into()]));
    assert_eq!(family.count(ROOT, "checkpointed"), 2);
    assert_eq!(family.task(ROOT).run.as_ref().unwrap().steps, 2);
}

#[test]
fn another_result_under_a_known_key_refuses_the_whole_call() {
    let (mut family, caller) = Family::running();
    family.call(&caller, Call::default().step("a#1", "1"));
    let call = Call::default().step("b#1", "2").step("a#1", "other").child("c", 20);
    let id = family.owner_of(&caller);
    // S2-3: all of a call is recorded, or nothing of it.
    let answer = family.ask_in_vain(id, call.request(&caller));
    let Answer::Refused(refusal) = answer else { panic!("{answer:?}") };
    assert_eq!(refusal.name(), "conflicting_step");
    assert_eq!(refusal.worker_verdict(), WorkerVerdict::Rejected);
    // Twice in one call is the same.
    let twice = Call::default().step("c#1", "1").step("c#1", "2");
    assert_eq!(refused(family.ask_in_vain(ROOT, twice.request(&caller))), "conflicting_step");
    // A key means one thing: a step is no child, and a child is no step.
    let as_child = Call::default().child("a#1", 21);
    assert_eq!(refused(family.ask_in_vain(ROOT, as_child.request(&caller))), "conflicting_step");
    family.call(&caller, Call::default().child("kid", 22));
    let as_step = Call::default().step("kid", "1");
    assert_eq!(refused(family.ask_in_vain(ROOT, as_step.request(&caller))), "conflicting_step");
}

#[test]
fn a_stale_lease_records_nothing_and_learns_that_it_lost_authority() {
    let (mut family, stale) = Family::running();
    family.now = family.task(ROOT).lease().unwrap().expires_at;
    let call = || Call::default().step("a#1", "1");
    for refused in [
        family.ask_in_vain(ROOT, call().request(&stale)),
        {
            family.sweep(ROOT);
            family.ask_in_vain(ROOT, call().request(&stale))
        },
        {
            family.wait(secs(600));
            family.grant(ROOT);
            family.ask_in_vain(ROOT, call().request(&stale))
        },
    ] {
        let Answer::Refused(refusal) = refused else { panic!("{refused:?}") };
        // S3-19: whatever replaced it, the worker learns CANCELLED.
        assert_eq!(refusal.worker_verdict(), WorkerVerdict::Cancelled, "{refusal:?}");
    }
}

#[test]
fn a_result_that_is_too_large_is_refused_for_good() {
    let (mut family, caller) = Family::running();
    let fits = Call::default().step("a#1", &"x".repeat(RESULT_MAX));
    assert_eq!(checkpointed(family.call(&caller, fits)).state, State::Running);
    let too_large = Call::default().step("b#1", &"x".repeat(RESULT_MAX + 1));
    let answer = family.ask_in_vain(ROOT, too_large.request(&caller));
    assert_eq!(refused(answer), "result_too_large");
    let many =
        (0..=STEPS_PER_CALL_MAX).fold(Call::default(), |call, n| call.step(&format!("s#{n}"), "1"));
    assert_eq!(refused(family.ask_in_vain(ROOT, many.request(&caller))), "call_too_long");
}

#[test]
fn steps_and_live_children_of_a_task_are_bounded() {
    let (mut family, caller) = Family::running();
    let known = Call::default().step("a#1", "1");
    family.call(&caller, known.clone());
    family.edit(ROOT, |task| {
        let run = task.run.as_mut().unwrap();
        (run.steps, run.live_children) = (STEPS_MAX, CHILDREN_MAX);
    });
    let step = Call::default().step("b#1", "1");
    assert_eq!(refused(family.ask_in_vain(ROOT, step.request(&caller))), "steps_exhausted");
    let child = Call::default().child("kid", 20);
    assert_eq!(refused(family.ask_in_vain(ROOT, child.request(&caller))), "too_many_children");
    // What was recorded before, and what lives on its own, needs no room.
    assert!(family.checkpoint(&caller, known.detached("own", 21)).replayed_keys.len() == 1);
    let many = (0..=CHILDREN_PER_CALL_MAX)
        .fold(Call::default(), |call, n| call.child(&format!("c{n}"), 100 + n as u128));
    assert_eq!(refused(family.ask_in_vain(ROOT, many.request(&caller))), "call_too_long");
}

#[test]
fn a_full_history_takes_no_more_steps_and_still_takes_the_report() {
    let (mut family, caller) = Family::running();
    family.edit(ROOT, |task| task.entries = ENTRIES_MAX);
    // F71: a run cannot grow without end, and it can always end.
    let step = Call::default().step("a#1", "1");
    assert_eq!(refused(family.ask_in_vain(ROOT, step.clone().request(&caller))), "history_full");
    let go = signal("go", None, None);
    assert_eq!(refused(family.ask_in_vain(ROOT, go)), "history_full");
    let answer = family.call(&caller, step.report(succeeded()));
    assert!(matches!(answer, Answer::Committed { .. }), "{answer:?}");
}

#[test]
fn spend_adds_up_and_a_savepoint_moves_the_start_of_replay() {
    let (mut family, caller) = Family::running();
    let spend = Spend { cost_micros: 1_200, tokens: 800, tool_calls: 1 };
    let paid = |is_savepoint| Step { spend, is_savepoint, ..step("1") };
    let call = Call::default().step_of("a#1", paid(false)).step_of("b#1", paid(true));
    family.call(&caller, call.clone());
    family.call(&caller, call.step_of("c#1", paid(false)));
    let run = family.task(ROOT).run.as_ref().unwrap();
    // A repetition is not paid for again.
    let three = Spend { cost_micros: 3_600, tokens: 2_400, tool_calls: 3 };
    assert_eq!((run.spend, run.savepoint, run.checkpoints), (three, 2, 3));
}

#[test]
fn a_report_takes_steps_and_children_with_it() {
    let (mut family, caller) = Family::running();
    let call = Call::default().step("a#1", "1").detached("next", 30).report(succeeded());
    let answer = family.call(&caller, call.clone());
    let committed = |replayed| Answer::Committed {
        outcome: AttemptOutcome::Succeeded,
        state: State::Succeeded,
        replayed,
    };
    assert_eq!(answer, committed(false));
    assert_eq!(family.count(ROOT, "checkpointed"), 1);
    // S3-62, R-5: the same report again gets its first answer, another one is refused.
    assert_eq!(family.ask_in_vain(ROOT, call.request(&caller)), committed(true));
    let other = Call::default().report(failed(Category::UserCode));
    assert_eq!(refused(family.ask_in_vain(ROOT, other.request(&caller))), "conflicting_report");
}

#[test]
fn failures_count_since_the_last_progress_and_not_without_end() {
    let policy = Policy { failures_max: 2, ..Policy::default() };
    let (mut family, mut caller) = Family::running_with(policy.clone());
    let fail = |family: &mut Family, call: Call, caller: &_| {
        family.call(caller, call.report(failed(Category::UserCode)))
    };
    // Without progress the second failure is the last.
    fail(&mut family, Call::default(), &caller);
    family.wait(secs(600));
    caller = family.grant(ROOT);
    fail(&mut family, Call::default(), &caller);
    assert_eq!(family.state(ROOT), Some(State::Failed));
    // With a new step before each failure the task goes on, up to the limit for the whole task.
    let (mut family, mut caller) = Family::running_with(policy);
    let mut failures = 0;
    while family.state(ROOT) != Some(State::Failed) {
        failures += 1;
        let progress = Call::default().step(&format!("s#{failures}"), "1");
        fail(&mut family, progress, &caller);
        if family.state(ROOT) == Some(State::Retry) {
            family.wait(secs(600));
            caller = family.grant(ROOT);
        }
    }
    assert_eq!(failures, SETBACKS_MAX);
}

#[test]
fn a_release_of_a_durable_run_is_no_failure() {
    let (mut family, caller) = Family::running();
    let call = Call::default().step("a#1", "1").report(Outcome::Released);
    let answer = family.call(&caller, call);
    let (outcome, state) = (AttemptOutcome::Released, State::Retry);
    assert_eq!(answer, Answer::Committed { outcome, state, replayed: false });
    assert_eq!(family.task(ROOT).uncounted(), 1);
}

#[test]
fn a_plain_task_has_nothing_of_a_durable_run() {
    let (mut family, caller) = Family::running();
    assert!(family.task(ROOT).run.is_none());
    let request: Request = crate::world::beat(&caller);
    family.ask(ROOT, request);
    family.ask(ROOT, crate::world::report(&caller, succeeded()));
    assert!(family.messages.is_empty());
    let verdict::Subject::Done(done) = family.subject(ROOT) else { panic!("it has ended") };
    assert!(done.run.is_none());
}
