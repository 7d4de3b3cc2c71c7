//! Budgets: what is counted, what is held for children, and how a run halts.

use verdict::request::{Caller, CancelMode, Heartbeat, Outcome, Report};
use verdict::run::{Metered, RunRequest, Spend, Step};
use verdict::{
    Amounts, Answer, AttemptOutcome, Balance, Budget, Digest, Limits, Policy, Reason, Request,
    Span, State, Subject, TaskId,
};

use crate::family::{Call, Family, ROOT, on_child, refused, run, step};
use crate::world::{secs, submission};

pub(crate) fn tokens(tokens: u64) -> Budget {
    let limits = Limits { tokens: Some(tokens), ..Limits::default() };
    Budget { limits, ..Budget::default() }
}

pub(crate) fn funded(budget: Budget) -> (Family, Caller) {
    let mut family = Family::empty();
    let mut submit = submission(Policy::default());
    submit.budget = Some(Box::new(budget));
    family.ask(ROOT, Request::Submit(submit));
    let caller = family.grant(ROOT);
    (family, caller)
}

pub(crate) fn spending(tokens: u64) -> Step {
    Step { spend: Spend { tokens, ..Spend::default() }, ..step("1") }
}

pub(crate) fn balance(family: &Family, id: TaskId) -> Balance {
    let run = match family.subject(id) {
        Subject::Live(task) => task.run.clone(),
        Subject::Done(done) => done.run.clone(),
        Subject::Absent => None,
    };
    *run.and_then(|run| run.balance).expect("the task has a budget")
}

pub(crate) fn metered(total: u64, call: Request) -> Request {
    let total = Spend { tokens: total, ..Spend::default() };
    run(RunRequest::Metered(Metered { total, call: Box::new(call) }))
}

pub(crate) fn beat(caller: &Caller) -> Request {
    Request::Heartbeat(Heartbeat { caller: caller.clone(), progress: None })
}

fn end_of(family: &Family, id: TaskId) -> verdict::End {
    match family.subject(id) {
        Subject::Done(done) => done.end.clone(),
        other => panic!("{other:?} has not ended"),
    }
}

#[test]
fn the_call_that_crosses_the_limit_halts_its_task_and_keeps_its_steps() {
    let (mut family, caller) = funded(tokens(100));
    let first = family.checkpoint(&caller, Call::default().step_of("a#1", spending(100)));
    // Reached is not crossed.
    assert_eq!(first.state, State::Running);
    let call = Call::default().step_of("b#1", spending(30));
    // S2-62, S2-64, S2-70, F86: neither a crash nor a failure, in that very answer.
    let answer = family.checkpoint(&caller, call.clone());
    assert_eq!((answer.state, answer.expires_at), (State::Halted, None));
    let end = end_of(&family, ROOT);
    assert_eq!((end.state, end.reason), (State::Halted, Some(Reason::BudgetExhausted)));
    // S2-99: the message names the limit. S2-97: every completed step is recorded.
    let message = end.fault.expect("a halt says why").message;
    assert_eq!(message.as_str(), "the budget allows 100 tokens, and 130 are used");
    assert_eq!(family.count(ROOT, "checkpointed"), 2);
    // The same call again gets the same answer, and another one has lost its authority.
    let again = family.ask_in_vain(ROOT, call.request(&caller));
    assert_eq!(crate::family::checkpointed(again).state, State::Halted);
    let late = Call::default().step("c#1", "1").request(&caller);
    assert_eq!(refused(family.ask_in_vain(ROOT, late)), "task_already_terminal");
}

#[test]
fn a_success_that_crosses_the_limit_halts_however_it_was_sent() {
    let done = || Outcome::Succeeded { output: Some("7".into()) };
    let (mut together, caller) = funded(tokens(10));
    together.call(&caller, Call::default().step_of("a#1", spending(11)).report(done()));
    let (mut apart, caller) = funded(tokens(10));
    apart.checkpoint(&caller, Call::default().step_of("a#1", spending(11)));
    assert_eq!(end_of(&together, ROOT).state, State::Halted);
    assert_eq!(end_of(&apart, ROOT).state, State::Halted);
    // S2-39: what was reported is kept.
    assert_eq!(end_of(&together, ROOT).output, Some("7".into()));
}

#[test]
fn a_failure_that_may_be_retried_halts_and_a_final_one_stays_a_failure() {
    for (retryable, state) in [(true, State::Halted), (false, State::Failed)] {
        let (mut family, caller) = funded(tokens(10));
        let fault = verdict::Fault {
            category: verdict::Category::UserCode,
            message: "no".into(),
            stack_trace: None,
            retryable: Some(retryable),
        };
        let call = Call::default().step_of("a#1", spending(11)).report(Outcome::Failed(fault));
        family.call(&caller, call);
        assert_eq!(end_of(&family, ROOT).state, state);
    }
}

#[test]
fn a_total_of_the_attempt_counts_once_and_never_for_another_attempt() {
    let (mut family, caller) = funded(tokens(1000));
    family.checkpoint(&caller, Call::default().step_of("a#1", spending(40)));
    let used = |family: &Family| balance(family, ROOT).used.tokens;
    // The total includes the step; sent twice, or late and smaller, it says nothing new.
    for total in [60, 60, 50] {
        family.ask(ROOT, metered(total, beat(&caller)));
    }
    assert_eq!(used(&family), 60);
    // The next step was in the last total already.
    family.checkpoint(&caller, Call::default().step_of("b#1", spending(20)));
    assert_eq!(used(&family), 60);
    family.now = family.task(ROOT).lease().unwrap().expires_at;
    family.sweep(ROOT);
    assert_eq!(used(&family), 60);
    // The first total of a later attempt is that attempt's own.
    let next = family.grant(ROOT);
    family.ask(ROOT, metered(5, beat(&next)));
    assert_eq!(used(&family), 65);
    // A refused call counts nowhere: the late worker's total stays with the refusal.
    let id = family.owner_of(&caller);
    assert_eq!(refused(family.ask_in_vain(id, metered(900, beat(&caller)))), "attempt_mismatch");
    let digest = Digest::of(&[b"report"]);
    let outcome = Outcome::Succeeded { output: None };
    let report = Report { caller: next.clone(), outcome, digest, claims: None, by: None };
    family.ask(ROOT, metered(7, Request::Report(report)));
    assert_eq!((used(&family), family.state(ROOT)), (67, Some(State::Succeeded)));
}

#[test]
fn a_heartbeat_that_crosses_the_limit_stops_the_worker() {
    let (mut family, caller) = funded(tokens(10));
    let answer = family.ask(ROOT, metered(11, beat(&caller)));
    let Answer::Alive { cancel: Some(signal), .. } = answer else { panic!("{answer:?}") };
    assert_eq!(signal.reason.as_ref().map(|it| it.as_str()), Some("budget_exhausted"));
    assert_eq!(family.state(ROOT), Some(State::Halted));
    assert_eq!(balance(&family, ROOT).used.tokens, 11);
}

#[test]
fn a_lost_attempt_settles_its_reservation_and_no_other_attempt_does() {
    let reserve = Amounts { tokens: 30, ..Amounts::default() };
    let (mut family, caller) = funded(Budget { reserve, ..tokens(100) });
    family.checkpoint(&caller, Call::default().step_of("a#1", spending(10)));
    family.now = family.task(ROOT).lease().unwrap().expires_at;
    family.sweep(ROOT);
    assert_eq!(balance(&family, ROOT).used.tokens, 40);
    // A grant that no worker heard of settles nothing.
    family.grant(ROOT);
    family.now = family.task(ROOT).lease().unwrap().expires_at;
    family.sweep(ROOT);
    assert_eq!(balance(&family, ROOT).used.tokens, 40);
    family.now = family.task(ROOT).claimable_at().unwrap();
    let caller = family.grant(ROOT);
    family.call(&caller, Call::default().child("kid", 20));
    family.messages.clear();
    // Nor does one that waits.
    let wait = Call::default().wait("w", verdict::run::WaitMode::All, &[("kid", on_child("kid"))]);
    family.checkpoint(&caller, wait);
    assert_eq!(balance(&family, ROOT).used.tokens, 40);
    // There is never more reserved than there is.
    assert_eq!(
        Balance::open(Budget { reserve, ..tokens(20) }, family.now).reservation().tokens,
        20
    );
}

#[test]
fn a_childs_ceiling_leaves_the_balance_and_what_is_left_comes_back() {
    let (mut family, caller) = funded(tokens(100));
    family.checkpoint(&caller, with_child("kid", 20, 70));
    assert_eq!(balance(&family, ROOT).left(verdict::Unit::Tokens), Some(30));
    // A spawn above the balance refuses the call, with its steps.
    let above = with_child("more", 21, 31).step("a#1", "1").request(&caller);
    assert_eq!(refused(family.ask_in_vain(ROOT, above)), "budget_insufficient");
    family.settle();
    let child = TaskId::from_u128(20);
    let worker = family.grant(child);
    family.checkpoint(&worker, Call::default().step_of("a#1", spending(25)));
    family.call(&worker, Call::default().report(Outcome::Succeeded { output: None }));
    family.settle();
    let after = balance(&family, ROOT);
    assert_eq!((after.used.tokens, after.held.tokens), (25, 0));
    family.repeat_messages();
}

fn with_child(key: &str, id: u128, ceiling: u64) -> Call {
    Call::default().funded_child(key, id, Some(tokens(ceiling)))
}

#[test]
fn what_a_call_says_was_used_is_not_promised_to_its_children() {
    // S2-67: the total of the call counts before its children get their shares.
    let (mut family, caller) = funded(tokens(100));
    let above = metered(40, with_child("kid", 20, 61).request(&caller));
    assert_eq!(refused(family.ask_in_vain(ROOT, above)), "budget_insufficient");
    family.ask(ROOT, metered(40, with_child("kid", 20, 60).request(&caller)));
    let after = balance(&family, ROOT);
    assert_eq!((after.used.tokens, after.held.tokens), (40, 60));
    // A total beyond the limit halts, and no child of the same call starts.
    let (mut family, caller) = funded(tokens(100));
    family.ask(ROOT, metered(101, with_child("kid", 20, 10).request(&caller)));
    assert_eq!(end_of(&family, ROOT).state, State::Halted);
    assert_eq!(balance(&family, ROOT).held.tokens, 0);
}

#[test]
fn a_child_without_a_ceiling_may_use_nothing_that_its_parent_limits() {
    let (mut family, caller) = funded(tokens(100));
    family.checkpoint(&caller, Call::default().child("kid", 20));
    family.settle();
    let child = TaskId::from_u128(20);
    let worker = family.grant(child);
    // W-10: what was promised to nobody is not used. A child that uses nothing goes on.
    let free = family.checkpoint(&worker, Call::default().step("a#1", "1"));
    assert_eq!(free.state, State::Running);
    let answer = family.checkpoint(&worker, Call::default().step_of("b#1", spending(1)));
    assert_eq!(answer.state, State::Halted);
    family.settle();
    // A child that halted is a value for its parent, which goes on.
    assert_eq!(family.state(ROOT), Some(State::Running));
    assert_eq!(balance(&family, ROOT).used.tokens, 1);
}

#[test]
fn a_halted_parent_stops_its_children_and_then_ends() {
    let (mut family, caller) = funded(tokens(100));
    family.checkpoint(&caller, with_child("kid", 20, 50).funded_child("idle", 21, None));
    family.settle();
    let kid = TaskId::from_u128(20);
    let worker = family.grant(kid);
    // The answer says halted although children are still to end.
    let answer = family.checkpoint(&caller, Call::default().step_of("a#1", spending(51)));
    assert_eq!((answer.state, family.state(ROOT)), (State::Halted, Some(State::Waiting)));
    family.sweep(ROOT);
    family.settle();
    // Nothing new starts, and running workers are told why to stop.
    assert_eq!(family.state(TaskId::from_u128(21)), Some(State::Cancelled));
    let Answer::Alive { cancel: Some(signal), .. } = family.ask(kid, beat(&worker)) else {
        panic!("the worker is not told")
    };
    assert_eq!(signal.reason.as_ref().map(|it| it.as_str()), Some("budget_exhausted"));
    family.call(&worker, Call::default().report(Outcome::Cancelled { output: None }));
    family.settle();
    assert_eq!(end_of(&family, ROOT).state, State::Halted);
}

#[test]
fn clocks_halt_whatever_the_task_does() {
    let wall = Budget { wall: Some(secs(60)), ..Budget::default() };
    let (mut family, _) = funded(wall.clone());
    assert_eq!(family.task(ROOT).lease().unwrap().expires_at, family.now.plus(secs(60)));
    family.wait(secs(60));
    family.sweep(ROOT);
    let end = end_of(&family, ROOT);
    assert_eq!((end.state, end.reason), (State::Halted, Some(Reason::BudgetTimeExhausted)));
    // A task that nobody leased halts too, when the sweep that it asked for comes.
    let mut family = Family::empty();
    let submit =
        verdict::request::Submit { budget: Some(Box::new(wall)), ..submission(Policy::default()) };
    family.ask(ROOT, Request::Submit(submit));
    assert_eq!(family.task(ROOT).wakes_at(), Some(family.now.plus(secs(60))));
    family.wait(secs(60));
    family.sweep(ROOT);
    assert_eq!(family.state(ROOT), Some(State::Halted));
}

#[test]
fn active_time_counts_under_leases_without_our_gaps() {
    let (mut family, caller) = funded(Budget { active: Some(secs(100)), ..Budget::default() });
    family.wait(secs(30));
    family.call(&caller, Call::default().report(Outcome::Released));
    assert_eq!(balance(&family, ROOT).active, secs(30));
    family.wait(secs(1000));
    let caller = family.grant(ROOT);
    let lease = family.task(ROOT).lease().unwrap().clone();
    assert_eq!(lease.expires_at, family.now.plus(secs(70)));
    let since = family.now;
    family.wait(secs(50));
    family.ask(ROOT, Request::Extend(verdict::request::Extend::between(since, family.now)));
    let extended = family.task(ROOT).lease().unwrap().expires_at;
    assert_eq!(extended, lease.expires_at.plus(secs(50)));
    family.ask(ROOT, beat(&caller));
    family.now = extended;
    family.sweep(ROOT);
    assert_eq!(end_of(&family, ROOT).reason, Some(Reason::BudgetTimeExhausted));
    assert_eq!(balance(&family, ROOT).active, secs(100));
}

#[test]
fn a_soft_limit_is_noted_once_and_stops_nothing() {
    let soft = Limits { tokens: Some(50), ..Limits::default() };
    let (mut family, caller) = funded(Budget { soft, ..tokens(100) });
    for (key, spend) in [("a", 40), ("b", 20), ("c", 20)] {
        let answer = family.checkpoint(&caller, Call::default().step_of(key, spending(spend)));
        assert_eq!(answer.state, State::Running);
    }
    assert_eq!(family.count(ROOT, "budget_warned"), 1);
}

#[test]
fn absurd_numbers_are_beyond_every_limit() {
    let largest = tokens(verdict::budget::LIMIT_MAX);
    let (mut family, caller) = funded(largest.clone());
    family.checkpoint(&caller, Call::default().step_of("a", spending(u64::MAX)));
    assert_eq!(family.state(ROOT), Some(State::Halted));
    // W-10: a sum that does not fit does not pass.
    let (mut family, caller) = funded(largest);
    family.checkpoint(&caller, with_child("kid", 20, verdict::budget::LIMIT_MAX));
    let answer = family.checkpoint(&caller, Call::default().step_of("b", spending(u64::MAX - 1)));
    assert_eq!(answer.state, State::Halted);
    // A sum is a number that JavaScript and every other reader of JSON keeps exactly.
    let used = balance(&family, ROOT).used.tokens;
    assert_eq!((used, (used as f64) as u64), (verdict::budget::SUM_MAX, used));
}

#[test]
fn a_cancelled_child_gives_back_what_it_did_not_use() {
    let (mut family, caller) = funded(tokens(100));
    family.checkpoint(&caller, with_child("kid", 20, 60));
    family.settle();
    let kid = TaskId::from_u128(20);
    let worker = family.grant(kid);
    family.checkpoint(&worker, Call::default().step_of("a", spending(10)));
    family.cancel(kid, CancelMode::Immediate);
    family.settle();
    let after = balance(&family, ROOT);
    assert_eq!((after.used.tokens, after.held.tokens), (10, 0));
    let closed = family.members[&kid].closed.last().unwrap();
    assert_eq!(closed.outcome, AttemptOutcome::Revoked);
    assert_eq!(after.active, Span::ZERO);
}
