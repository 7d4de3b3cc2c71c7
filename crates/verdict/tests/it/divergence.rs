//! Code that does not match the checkpoints parks the run until an operator resumes it.

use verdict::request::CancelMode;
use verdict::run::{Divergence, RunRequest, Then, Waiting};
use verdict::{Answer, AttemptOutcome, Phase, Policy, Reason, RunAnswer, State, Subject};

use crate::family::{Call, Family, ROOT, checkpointed, refused, run};
use crate::world::{START, secs, succeeded};

fn diverged() -> Call {
    Call::default().then(Then::Diverged(divergence()))
}

fn divergence() -> Divergence {
    Divergence {
        branch: "main".into(),
        index: 3,
        recorded: "charge#1".into(),
        actual: "refund#1".into(),
    }
}

#[test]
fn a_diverged_run_waits_for_an_operator_and_goes_on_after_a_deploy() {
    let (mut family, caller) = Family::running();
    let answer = family.checkpoint(&caller, diverged());
    // E4: parked, and it says where. Nothing is granted.
    assert_eq!((answer.state, answer.expires_at), (State::Waiting, None));
    let Phase::Waiting(waiting) = &family.task(ROOT).phase else { panic!("it is not parked") };
    assert_eq!(**waiting, Waiting::Diverged(divergence()));
    assert_eq!(family.task(ROOT).claimable_at(), None);
    let at = verdict::Moment { now: family.now, epoch: 1, rules: verdict::Rules::NEWEST };
    let gates = verdict::explain::explain(family.subject(ROOT), None, at);
    assert_eq!(gates, [verdict::explain::Gate::Diverged { divergence: divergence() }]);
    family.signal("go", None);
    assert_eq!(family.task(ROOT).claimable_at(), None, "a signal does not resume it");
    let closed = &family.members[&ROOT].closed[0];
    assert_eq!((closed.outcome, closed.reason), (AttemptOutcome::Diverged, Some(Reason::Diverged)));
    let resumed = family.ask(ROOT, run(RunRequest::Resume));
    assert_eq!(resumed, Answer::Run(Box::new(RunAnswer::Resumed { state: State::Waiting })));
    assert_eq!(refused(family.ask_in_vain(ROOT, run(RunRequest::Resume))), "not_diverged");
    let next = family.grant(ROOT);
    assert_eq!((family.task(ROOT).failures, family.task(ROOT).lost), (0, 0));
    family.call(&next, Call::default().report(succeeded()));
    assert_eq!(family.state(ROOT), Some(State::Succeeded));
    assert_eq!(refused(family.ask(ROOT, run(RunRequest::Resume))), "run_already_terminal");
}

#[test]
fn the_call_that_diverged_is_answered_again() {
    let (mut family, caller) = Family::running();
    family.call(&caller, diverged());
    let again = checkpointed(family.ask_in_vain(ROOT, diverged().request(&caller)));
    assert_eq!((again.replayed, again.state), (true, State::Waiting));
}

#[test]
fn deadline_and_cancel_reach_a_diverged_run() {
    let over = START.plus(secs(100));
    let policy = Policy { deadline: Some(over), ..Policy::default() };
    let (mut family, caller) = Family::running_with(policy);
    family.call(&caller, diverged());
    assert_eq!(family.task(ROOT).wakes_at(), Some(over));
    family.now = over;
    family.sweep(ROOT);
    assert_eq!(family.state(ROOT), Some(State::Failed));
    let (mut family, caller) = Family::running();
    family.call(&caller, diverged());
    family.cancel(ROOT, CancelMode::Graceful);
    assert_eq!(family.state(ROOT), Some(State::Cancelled));
    // With a cancel pending no worker is left to honour it, and the run ends.
    let (mut family, caller) = Family::running();
    family.cancel(ROOT, CancelMode::Graceful);
    family.call(&caller, diverged());
    let Subject::Done(done) = family.subject(ROOT) else { panic!("it waits for nothing") };
    let end = (done.end.state, done.end.reason);
    assert_eq!(end, (State::Cancelled, Some(Reason::CancelRequested)));
    // A child of the same call is cancelled first.
    let (mut family, caller) = Family::running();
    family.cancel(ROOT, CancelMode::Graceful);
    family.call(&caller, diverged().child("one", 20));
    assert!(family.task(ROOT).closing().is_some(), "its child has not ended");
    family.sweep(ROOT);
    family.settle();
    assert_eq!(family.state(ROOT), Some(State::Cancelled));
}
