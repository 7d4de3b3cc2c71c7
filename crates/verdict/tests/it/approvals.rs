//! Approvals: who may decide, how many must agree, and what closes one.

use verdict::approval::{
    Approval, ApprovalCall, DecideCall, Decision, Outcome, Terms, VoteRefusal, approval_id,
    changes, parse_approval_id, signal_name,
};
use verdict::request::{Caller, CancelMode};
use verdict::run::{Awaited, AwaitedEvent, RunAnswer, RunRequest, Then, WaitCall, WaitMode};
use verdict::{Answer, Digest, Refusal, Request, RunRefusal, Span, State, TaskId, Time};

use crate::family::{Call, Family, ROOT, run};

const KEY: &str = "ship#1";

fn terms() -> Terms {
    Terms {
        roles: vec![],
        keys: vec![],
        quorum: 1,
        expires_at: None,
        expires_in: None,
        default: None,
        subject: Some("ship it".into()),
        digest: Some(Digest::of(&[b"what"])),
        content: None,
        shows: None,
        done_by: vec![],
    }
}

fn wait_for(terms: Terms) -> Then {
    let approvals = vec![ApprovalCall { item: KEY.into(), terms, asked_by: Some("worker".into()) }];
    let event = AwaitedEvent::Signal(signal_name(&KEY.into()));
    let items = vec![Awaited { key: KEY.into(), event }].into();
    let digest = Digest::of(&[b"wait"]);
    let (mode, max) = (WaitMode::All, None);
    Then::Wait(WaitCall { key: "w#1".into(), digest, mode, items, approvals, max })
}

/// A wait for the approval, or for whatever else comes first.
fn wait_for_any(key: &str, terms: Option<Terms>, other: &str) -> Then {
    let other = Awaited { key: other.into(), event: AwaitedEvent::Signal(other.into()) };
    let Then::Wait(asked) = wait_for(terms.clone().unwrap_or_else(self::terms)) else {
        unreachable!()
    };
    let approval = asked.items.iter().filter(|_| terms.is_some()).cloned();
    let items: Vec<Awaited> = approval.chain([other]).collect();
    let approvals = if terms.is_some() { asked.approvals } else { vec![] };
    let (digest, mode, max) = (Digest::of(&[key.as_bytes()]), WaitMode::Any, None);
    Then::Wait(WaitCall { key: key.into(), digest, mode, items: items.into(), approvals, max })
}

/// A run that had one of two votes when something else woke it, and is leased again.
fn woken(terms: &Terms) -> (Family, Caller) {
    let (mut family, caller) = Family::running();
    let wait = wait_for_any("w#1", Some(terms.clone()), "other");
    family.checkpoint(&caller, Call::default().then(wait));
    assert_eq!(outcome(family.ask(ROOT, ask(decide("ann", Decision::Approved)))), None);
    family.signal("other", None);
    let caller = family.grant(ROOT);
    (family, caller)
}

fn votes(family: &Family) -> Vec<(u32, usize)> {
    let open = &family.task(ROOT).run.as_ref().expect("a durable run").approvals.open;
    open.iter().map(|approval| (approval.number, approval.votes.len())).collect()
}

fn decide(key: &str, decision: Decision) -> DecideCall {
    let roles = vec!["approver".into()];
    let digest = terms().digest;
    DecideCall { number: 1, key: key.into(), roles, decision, digest, comment: None }
}

fn ask(call: DecideCall) -> Request {
    run(RunRequest::Decide(call))
}

/// A run that waits for an approval.
fn waiting(terms: Terms) -> Family {
    let (mut family, caller) = Family::running();
    family.checkpoint(&caller, Call::default().then(wait_for(terms)));
    assert_eq!(family.state(ROOT), Some(State::Waiting));
    family
}

fn refusal(answer: Answer) -> VoteRefusal {
    match answer {
        Answer::Refused(Refusal::Run(RunRefusal::Approval(refusal))) => refusal,
        other => panic!("{other:?}"),
    }
}

fn outcome(answer: Answer) -> Option<Outcome> {
    match answer {
        Answer::Run(answer) => match *answer {
            RunAnswer::Voted { outcome } => outcome,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_word_closes_an_approval_and_wakes_its_task() {
    let mut family = waiting(terms());
    let said = family.ask(ROOT, ask(decide("ann", Decision::Approved)));
    assert_eq!(outcome(said), Some(Outcome::Approved));
    assert!(family.task(ROOT).claimable_at().is_some());
    assert!(family.task(ROOT).run.as_ref().unwrap().approvals.open.is_empty());
    let again = family.ask(ROOT, ask(decide("bob", Decision::Rejected)));
    assert_eq!(refusal(again), VoteRefusal::Closed);
}

#[test]
fn nobody_decides_twice_for_himself_or_about_something_else() {
    let mut family = waiting(Terms { quorum: 2, ..terms() });
    let approve = |key| decide(key, Decision::Approved);
    let mut vain = |call| refusal(family.ask_in_vain(ROOT, ask(call)));
    assert_eq!(vain(approve("worker")), VoteRefusal::OwnWork);
    let other = Some(Digest::of(&[b"other"]));
    assert_eq!(vain(DecideCall { digest: other, ..approve("ann") }), VoteRefusal::DigestMismatch);
    assert_eq!(vain(DecideCall { digest: None, ..approve("ann") }), VoteRefusal::DigestMismatch);
    assert_eq!(vain(DecideCall { roles: vec![], ..approve("ann") }), VoteRefusal::NotNamed);
    assert_eq!(vain(DecideCall { number: 2, ..approve("ann") }), VoteRefusal::NotFound);
    assert_eq!(outcome(family.ask(ROOT, ask(approve("ann")))), None);
    assert_eq!(
        refusal(family.ask(ROOT, ask(decide("ann", Decision::Rejected)))),
        VoteRefusal::AlreadyVoted
    );
    let enough = family.ask(ROOT, ask(approve("bob")));
    assert_eq!(outcome(enough), Some(Outcome::Approved));
}

#[test]
fn one_rejection_rejects_whatever_the_quorum() {
    let mut family = waiting(Terms { quorum: 3, ..terms() });
    family.ask(ROOT, ask(decide("ann", Decision::Approved)));
    let said = family.ask(ROOT, ask(decide("bob", Decision::Rejected)));
    assert_eq!(outcome(said), Some(Outcome::Rejected));
}

#[test]
fn an_expiry_is_decided_by_the_default_and_a_later_word_is_refused() {
    for (default, expected) in [(None, "EXPIRED"), (Some(Decision::Rejected), "REJECTED")] {
        let expires_in = Some(Span::from_secs(60));
        let mut family = waiting(Terms { expires_in, default, ..terms() });
        assert!(family.task(ROOT).wakes_at().is_some(), "the expiry wakes the task");
        family.wait(Span::from_secs(60));
        let late = family.ask(ROOT, ask(decide("ann", Decision::Approved)));
        assert_eq!(refusal(late), VoteRefusal::Closed, "before the sweep");
        family.sweep(ROOT);
        assert!(family.task(ROOT).claimable_at().is_some(), "{expected}");
        let late = family.ask(ROOT, ask(decide("ann", Decision::Approved)));
        assert_eq!(refusal(late), VoteRefusal::Closed);
    }
}

#[test]
fn an_approval_is_withdrawn_with_its_task() {
    let mut family = waiting(terms());
    family.cancel(ROOT, CancelMode::Graceful);
    let said = family.ask(ROOT, ask(decide("ann", Decision::Approved)));
    assert_eq!(refusal(said), VoteRefusal::Closed);
}

#[test]
fn votes_outlive_the_wait_that_asked_for_them() {
    // Branches of a function wait together, and each that goes on ends the wait of the others.
    let terms = Terms { quorum: 2, ..terms() };
    let (mut family, caller) = woken(&terms);
    assert_eq!(votes(&family), [(1, 1)]);
    let again = wait_for_any("w#2", Some(terms), "third");
    let said = family.checkpoint(&caller, Call::default().then(again));
    assert_eq!((said.state, votes(&family)), (State::Waiting, vec![(1, 1)]));
    let said = family.ask(ROOT, ask(decide("bob", Decision::Approved)));
    assert_eq!(outcome(said), Some(Outcome::Approved));
    assert_eq!(family.count(ROOT, "approval_opened"), 1);
    assert!(family.task(ROOT).claimable_at().is_some());
}

#[test]
fn a_decision_while_the_task_runs_is_there_for_its_next_wait() {
    let terms = Terms { quorum: 2, ..terms() };
    let (mut family, caller) = woken(&terms);
    let said = family.ask(ROOT, ask(decide("bob", Decision::Approved)));
    assert_eq!(outcome(said), Some(Outcome::Approved));
    let again = wait_for_any("w#2", Some(terms), "third");
    let said = family.checkpoint(&caller, Call::default().then(again));
    assert_eq!(said.state, State::Running);
    assert_eq!(said.wait.unwrap().winner, Some(KEY.into()));
    assert_eq!(family.count(ROOT, "approval_opened"), 1);
}

#[test]
fn another_question_or_another_wait_withdraws_the_approval() {
    let first = Terms { quorum: 2, ..terms() };
    let other = Terms { digest: Some(Digest::of(&[b"other"])), ..first.clone() };
    let (mut family, caller) = woken(&first);
    let wait = wait_for_any("w#2", Some(other), "third");
    family.checkpoint(&caller, Call::default().then(wait));
    assert_eq!(votes(&family), [(2, 0)], "no vote counts for what nobody has seen");
    let late = family.ask(ROOT, ask(decide("bob", Decision::Approved)));
    assert_eq!(refusal(late), VoteRefusal::Closed);

    let (mut family, caller) = woken(&first);
    let wait = wait_for_any("w#2", None, "third");
    family.checkpoint(&caller, Call::default().then(wait));
    assert_eq!(votes(&family), []);
}

#[test]
fn ids_name_their_task_and_nothing_else_is_one() {
    let task = TaskId::from_u128(77);
    let id = approval_id(task, 12);
    assert_eq!(parse_approval_id(id.as_str()), Some((task, 12)));
    for bad in ["", "appr_", "appr_x-1", "task_1-1", &format!("{id}0x"), &format!("{id} ")] {
        assert_eq!(parse_approval_id(bad), None, "{bad}");
    }
    let padded = id.as_str().replace("-12", "-012");
    assert_eq!(parse_approval_id(&padded), None);
}

#[test]
fn an_index_has_one_revision_for_each_decision() {
    let approval = Approval {
        number: 1,
        key: KEY.into(),
        wait: None,
        terms: terms(),
        expires_at: None,
        asked_by: None,
        opened_at: Time::from_millis(0),
        votes: vec![],
    };
    let gone = changes(std::slice::from_ref(&approval), &verdict::Subject::Absent, &[]);
    assert_eq!(gone[0].outcome, Some(Outcome::Withdrawn));
    assert_eq!(gone[0].revision, 2);
}
