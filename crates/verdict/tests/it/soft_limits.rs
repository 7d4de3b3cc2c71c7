//! Soft limits that ask: who may let a run go on, and what the history keeps of who asked.

use verdict::approval::{DecideCall, Decision};
use verdict::request::Caller;
use verdict::run::{RunAnswer, RunRequest};
use verdict::{Answer, Budget, Limits, OnSoft, Reason, Request, State, Subject};

use crate::budgets::{beat, funded, metered, spending, tokens};
use crate::family::{Call, Family, ROOT, refused, run};

const WORKER: &str = "key-of-the-worker";

/// A run that asks beyond 50 tokens, and its worker.
fn asking() -> (Family, Caller) {
    let soft = Limits { tokens: Some(50), ..Limits::default() };
    funded(Budget { soft, on_soft: OnSoft::Ask, ..tokens(100) })
}

fn crossing() -> Call {
    Call::default().step_of("a#1", spending(60)).asked_by(WORKER)
}

fn decide(key: &str, decision: Decision) -> Request {
    let roles = vec!["worker".into(), "approver".into()];
    let (number, digest, comment) = (1, None, None);
    run(RunRequest::Decide(DecideCall {
        number,
        key: key.into(),
        roles,
        decision,
        digest,
        comment,
    }))
}

fn is_voted(answer: &Answer) -> bool {
    matches!(answer, Answer::Run(answer) if matches!(**answer, RunAnswer::Voted { .. }))
}

#[test]
fn the_key_that_holds_the_lease_may_not_approve_its_own_spending() {
    // DESIGN 14: one vote per principal, never the lease's owner. S2-67: a worker cannot get around the limit.
    for decision in [Decision::Approved, Decision::Rejected] {
        let (mut family, caller) = asking();
        assert_eq!(family.checkpoint(&caller, crossing()).state, State::Waiting);
        let own = family.ask_in_vain(ROOT, decide(WORKER, decision));
        assert_eq!(refused(own), "approval_forbidden");
        assert_eq!(family.state(ROOT), Some(State::Waiting));
        assert!(is_voted(&family.ask(ROOT, decide("ann", decision))));
    }
}

#[test]
fn approved_it_goes_on_once_and_rejected_it_halts() {
    let (mut family, caller) = asking();
    family.checkpoint(&caller, crossing());
    family.ask(ROOT, decide("ann", Decision::Approved));
    let caller = family.grant(ROOT);
    let more = Call::default().step_of("b#1", spending(30)).asked_by(WORKER);
    assert_eq!(family.checkpoint(&caller, more).state, State::Running);
    let (mut family, caller) = asking();
    family.checkpoint(&caller, crossing());
    family.ask(ROOT, decide("ann", Decision::Rejected));
    let Subject::Done(done) = family.subject(ROOT) else { panic!("it has not ended") };
    assert_eq!((done.end.state, done.end.reason), (State::Halted, Some(Reason::BudgetExhausted)));
}

#[test]
fn what_a_heartbeat_crossed_is_asked_by_the_next_call() {
    let (mut family, caller) = asking();
    family.ask(ROOT, metered(60, beat(&caller)));
    assert_eq!(family.state(ROOT), Some(State::Running));
    let call = Call::default().step("a#1", "1").asked_by(WORKER);
    assert_eq!(family.checkpoint(&caller, call).state, State::Waiting);
    let own = family.ask_in_vain(ROOT, decide(WORKER, Decision::Approved));
    assert_eq!(refused(own), "approval_forbidden");
}

#[test]
fn who_made_a_call_is_kept_only_if_people_were_asked_because_of_it() {
    let (mut family, caller) = asking();
    family.checkpoint(&caller, Call::default().step_of("a#1", spending(10)).asked_by(WORKER));
    family.checkpoint(&caller, Call::default().step_of("b#1", spending(50)).asked_by(WORKER));
    let kept = family.members[&ROOT].entries.iter().filter_map(|(request, _, events)| {
        let mut request = request.clone();
        request.forget_asker(events);
        Some(request.checkpoint_call()?.asked_by.clone())
    });
    assert_eq!(kept.collect::<Vec<_>>(), [None, Some(WORKER.into())]);
}
