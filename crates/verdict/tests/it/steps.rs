//! Plans with steps: blocked, released, skipped, and the root that counts.

use verdict::plan::limits::{EDGES_MAX, STEPS_MAX, STEPS_PER_DECISION as SLICE};
use verdict::plan::{PlanRequest, StepTerms};
use verdict::request::{CancelMode, Grant};
use verdict::run::RunRequest;
use verdict::{Answer, Category, LeaseId, Policy, Reason, Request, State, Subject, Time};

use crate::family::{Family, ROOT, refused, run};
use crate::planned::{PLAIN, key_of, plan, planned, step, submit_steps, task_of, terms};
use crate::world::{failed, report, secs, start, succeeded};

const CONTINUE: StepTerms = terms(true, false);
const ALWAYS: StepTerms = terms(false, true);

fn fail(family: &mut Family, place: usize) {
    let caller = family.grant(task_of(place));
    family.ask(task_of(place), report(&caller, failed(Category::DataQuality)));
    family.settle();
}

fn finish(family: &mut Family, place: usize) {
    let caller = family.grant(task_of(place));
    family.ask(task_of(place), report(&caller, succeeded()));
    family.settle();
}

fn states(family: &Family, count: usize) -> Vec<State> {
    (0..count).filter_map(|place| family.state(task_of(place))).collect()
}

fn end_of(family: &Family, id: verdict::TaskId) -> verdict::End {
    match family.subject(id) {
        Subject::Done(done) => done.end.clone(),
        other => panic!("not ended but {:?}", other.state()),
    }
}

/// a → (b, c) → d
fn diamond(terms: StepTerms) -> Family {
    let steps = vec![
        step(0, &[], PLAIN),
        step(1, &[0], terms),
        step(2, &[0], PLAIN),
        step(3, &[1, 2], PLAIN),
    ];
    let mut family = planned(steps);
    family.settle();
    family
}

#[test]
fn a_step_is_blocked_until_all_its_upstreams_have_ended() {
    use State::{Blocked, Queued, Succeeded};
    let mut family = diamond(PLAIN);
    assert_eq!(states(&family, 4), [Queued, Blocked, Blocked, Blocked]);
    finish(&mut family, 0);
    // It keeps its state until it is leased, as a waiting task does.
    assert_eq!(states(&family, 4), [Succeeded, Blocked, Blocked, Blocked]);
    assert!(family.task(task_of(1)).claimable_at().is_some());
    finish(&mut family, 1);
    assert_eq!(family.task(task_of(3)).claimable_at(), None, "one of two upstreams");
    finish(&mut family, 2);
    finish(&mut family, 3);
    assert_eq!(family.state(ROOT), Some(Succeeded));
    family.repeat_messages();
}

#[test]
fn the_root_of_a_plan_is_never_leased() {
    // S2-25: only a claim makes running, and nobody claims the root.
    let mut family = diamond(PLAIN);
    let (lease, owner) = (LeaseId::from_u128(99), "ann".into());
    let grant = Request::Grant(Grant { lease, owner, poll: None, build: None });
    assert_eq!(family.ask_in_vain(ROOT, grant), Answer::Nothing);
    assert_eq!(family.state(ROOT), Some(State::Waiting));
    assert_eq!(refused(family.ask_in_vain(ROOT, run(RunRequest::Resume))), "not_diverged");
}

#[test]
fn a_failure_skips_what_depends_on_it_with_the_reason_on_each() {
    let mut family = diamond(PLAIN);
    finish(&mut family, 0);
    fail(&mut family, 1);
    assert_eq!(family.state(task_of(3)), Some(State::Blocked), "the other upstream runs");
    finish(&mut family, 2);
    let skipped = end_of(&family, task_of(3));
    assert_eq!((skipped.state, skipped.reason), (State::Skipped, Some(Reason::UpstreamFailed)));
    let message = skipped.fault.expect("it says why").message;
    assert!(message.as_str().contains(key_of(1).as_str()), "{message}");
    let root = end_of(&family, ROOT);
    assert_eq!((root.state, root.reason), (State::Failed, Some(Reason::StepFailed)));
    family.repeat_messages();
}

#[test]
fn a_skip_is_passed_on() {
    // 0 fails → 1 is skipped → 2 is skipped, although 1 would continue on its own error.
    let steps = vec![step(0, &[], PLAIN), step(1, &[0], CONTINUE), step(2, &[1], PLAIN)];
    let mut family = planned(steps);
    family.settle();
    fail(&mut family, 0);
    assert_eq!(states(&family, 3), [State::Failed, State::Skipped, State::Skipped]);
    let message = end_of(&family, task_of(2)).fault.expect("it says why").message;
    assert!(message.as_str().contains(key_of(1).as_str()), "{message}");
}

#[test]
fn a_step_that_continues_lets_its_downstreams_run() {
    // S2-91: `continue`.
    let mut family = diamond(CONTINUE);
    finish(&mut family, 0);
    fail(&mut family, 1);
    finish(&mut family, 2);
    finish(&mut family, 3);
    assert_eq!(family.state(ROOT), Some(State::Succeeded));
}

#[test]
fn an_always_step_runs_after_a_failure_and_after_a_cancel() {
    let steps = || vec![step(0, &[], PLAIN), step(1, &[0], PLAIN), step(2, &[1], ALWAYS)];
    let mut family = planned(steps());
    family.settle();
    fail(&mut family, 0);
    assert_eq!(family.state(task_of(1)), Some(State::Skipped));
    finish(&mut family, 2);
    assert_eq!(end_of(&family, ROOT).state, State::Failed);

    let mut family = planned(steps());
    family.settle();
    family.cancel(ROOT, CancelMode::Graceful);
    family.sweep(ROOT);
    family.settle();
    assert_eq!(states(&family, 3), [State::Cancelled, State::Cancelled, State::Blocked]);
    finish(&mut family, 2);
    assert_eq!(end_of(&family, ROOT).state, State::Cancelled);

    let mut family = planned(steps());
    family.settle();
    family.cancel(ROOT, CancelMode::Immediate);
    family.sweep(ROOT);
    family.settle();
    assert_eq!(states(&family, 3), [State::Cancelled; 3]);
    assert_eq!(end_of(&family, ROOT).state, State::Cancelled);
}

#[test]
fn the_deadline_of_the_run_binds_every_step_but_those_that_must_run() {
    let deadline = Time::from_millis(1_000_000).plus(secs(60));
    let limited = StepTerms { time_limit: Some(secs(10)), ..PLAIN };
    let steps = vec![step(0, &[], limited.clone()), step(1, &[0], limited), step(2, &[0], ALWAYS)];
    let policy = Policy { deadline: Some(deadline), ..Policy::default() };
    let mut family = Family::empty();
    family.ask(ROOT, submit_steps(steps, policy));
    family.settle();
    let deadline_of = |family: &Family, place| family.task(task_of(place)).policy.deadline;
    assert_eq!(deadline_of(&family, 0), Some(family.now.plus(secs(10))));
    assert_eq!(deadline_of(&family, 1), Some(deadline), "its own limit begins with its release");
    family.wait(secs(5));
    finish(&mut family, 0);
    assert_eq!(deadline_of(&family, 1), Some(family.now.plus(secs(10))));
    assert_eq!(deadline_of(&family, 2), None);
    family.now = deadline;
    family.sweep(ROOT);
    family.sweep(ROOT);
    family.settle();
    assert_eq!(family.state(task_of(2)), Some(State::Blocked));
    finish(&mut family, 2);
    assert_eq!(end_of(&family, ROOT).reason, Some(Reason::DeadlineExceeded));
}

#[test]
fn a_lost_worker_does_not_skip_anything_before_the_step_has_ended() {
    let mut family = diamond(PLAIN);
    let caller = family.grant(task_of(0));
    family.ask(task_of(0), start(&caller));
    family.now = family.task(task_of(0)).lease().expect("it is running").expires_at;
    family.sweep(task_of(0));
    family.settle();
    use State::{Blocked, Retry};
    assert_eq!(states(&family, 4), [Retry, Blocked, Blocked, Blocked]);
}

#[test]
fn a_step_whose_input_cannot_be_resolved_fails_for_good() {
    let referring = StepTerms { has_references: true, ..PLAIN };
    let mut family = planned(vec![step(0, &[], PLAIN), step(1, &[0], referring)]);
    family.settle();
    let unresolved = || plan(PlanRequest::InputUnresolved { message: "`/x` is not there".into() });
    assert_eq!(family.ask_in_vain(task_of(1), unresolved()), Answer::Nothing, "it is blocked");
    finish(&mut family, 0);
    assert_eq!(family.ask(task_of(1), unresolved()), Answer::Done);
    family.settle();
    assert_eq!(end_of(&family, task_of(1)).reason, Some(Reason::InputUnresolved));
    assert_eq!(end_of(&family, ROOT).state, State::Failed);
}

/// Decides messages and sweeps of the root until nothing is left to do. Returns the largest number of messages that one
/// decision sent.
fn drain(family: &mut Family) -> usize {
    let mut most = 0;
    // More rounds than ten thousand steps have slices.
    for _ in 0..100 {
        let before = family.messages.len();
        if family.subject(ROOT).live().and_then(|root| root.wakes_at()).is_some() {
            family.sweep(ROOT);
            most = most.max(family.messages.len() - before);
        }
        while !family.messages.is_empty() {
            let before = family.messages.len() - 1;
            family.deliver();
            most = most.max(family.messages.len().saturating_sub(before));
        }
        if family.subject(ROOT).live().and_then(|root| root.wakes_at()).is_none() {
            return most;
        }
    }
    panic!("the root is due again and again, and nothing comes of it");
}

#[test]
fn the_largest_plan_goes_in_slices() {
    const COUNT: usize = STEPS_MAX;
    let last = COUNT - 1;
    let all: Vec<usize> = (1..last).collect();
    let mut steps = vec![step(0, &[], PLAIN)];
    steps.extend((1..last).map(|place| step(place, &[0], PLAIN)));
    steps.push(step(last, &all, PLAIN));
    let mut family = planned(steps);
    assert_eq!(family.messages.len(), SLICE, "the first slice goes with the submission");
    assert!(drain(&mut family) <= SLICE);
    assert_eq!(states(&family, COUNT).len(), COUNT);
    let caller = family.grant(task_of(0));
    family.ask(task_of(0), report(&caller, succeeded()));
    assert!(drain(&mut family) <= SLICE, "a fan-out is told in slices");
    assert!((1..last).all(|place| family.task(task_of(place)).claimable_at().is_some()));
    for place in 1..last {
        assert_eq!(family.task(task_of(last)).claimable_at(), None);
        finish(&mut family, place);
    }
    finish(&mut family, last);
    assert_eq!(family.state(ROOT), Some(State::Succeeded));
}

#[test]
fn steps_whose_upstreams_ended_before_they_were_spawned_are_told_at_once() {
    // Step 600 is not in the first slice; its only upstream ends before it is spawned.
    let build = || {
        let mut steps: Vec<_> = (0..600).map(|place| step(place, &[], PLAIN)).collect();
        steps.push(step(600, &[0], PLAIN));
        let mut family = planned(steps);
        family.settle();
        family
    };
    let mut family = build();
    finish(&mut family, 0);
    drain(&mut family);
    assert_eq!(family.state(task_of(600)), Some(State::Queued));
    let mut family = build();
    fail(&mut family, 0);
    drain(&mut family);
    assert_eq!(family.state(task_of(600)), Some(State::Skipped));
}

#[test]
fn a_cancel_while_steps_are_spawned_reaches_all_of_them() {
    let mut steps: Vec<_> = (0..1_200).map(|place| step(place, &[], PLAIN)).collect();
    steps.push(step(1_200, &[7], ALWAYS));
    let mut family = planned(steps);
    family.settle();
    family.cancel(ROOT, CancelMode::Graceful);
    drain(&mut family);
    let states = states(&family, 1_201);
    assert!(states[..1_200].iter().all(|state| *state == State::Cancelled));
    assert_eq!(states[1_200], State::Blocked);
    finish(&mut family, 1_200);
    assert_eq!(end_of(&family, ROOT).state, State::Cancelled);
}

#[test]
fn plans_with_too_many_steps_or_edges_are_refused() {
    let many = (0..=STEPS_MAX).map(|place| step(place, &[], PLAIN)).collect();
    let all: Vec<usize> = (0..1_000).collect();
    let dense = (0..=EDGES_MAX / 1_000).map(|place| step(place, &all, PLAIN)).collect();
    for steps in [vec![], many, dense] {
        let answer = Family::empty().ask(ROOT, submit_steps(steps, Policy::default()));
        assert_eq!(refused(answer), "plan_invalid");
    }
}
