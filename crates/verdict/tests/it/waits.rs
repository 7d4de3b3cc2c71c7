//! Waits and signals: nothing is lost, whether it comes before, during or after the call.

use verdict::request::CancelMode;
use verdict::run::limits::{SIGNALS_MAX, WAIT_DEFAULT};
use verdict::run::{
    AwaitedEvent, Body, Message, MessageNumber, RunRequest, SignalCall, Taken, WaitMode, WaitRecord,
};
use verdict::{
    Answer, AttemptOutcome, Policy, Reason, RunAnswer, State, Subject, Time, WorkerVerdict,
};

use crate::family::{Call, Family, ROOT, checkpointed, on_child, on_signal, refused, run, signal};
use crate::world::{START, secs, succeeded};

fn wait_for_go() -> Call {
    Call::default().step("a#1", "1").wait("w#1", WaitMode::All, &[("go#1", on_signal("go"))])
}

fn record_of(family: &Family, key: &str) -> Option<WaitRecord> {
    let request = Call::default().wait(key, WaitMode::All, &[]);
    let caller = verdict::request::Caller {
        worker: "x".into(),
        attempt: 0,
        lease: verdict::LeaseId::from_u128(0),
        epoch: 0,
    };
    let loaded =
        family.members[&ROOT].records.load(family.subject(ROOT), &request.request(&caller));
    loaded.checkpoints.into_iter().find_map(|found| match found.recorded {
        verdict::run::Recorded::Wait(wait) => Some(wait),
        _ => None,
    })
}

fn is_ready(family: &Family) -> bool {
    family.task(ROOT).claimable_at().is_some()
}

#[test]
fn a_signal_wakes_the_run_whenever_it_comes() {
    // F85: before the call, the answer is there at once, under the same lease.
    let (mut family, caller) = Family::running();
    family.signal("go", Some("k1"));
    let answer = family.checkpoint(&caller, wait_for_go());
    assert_eq!((answer.state, answer.wait.is_some()), (State::Running, true));
    // After the call the attempt is suspended, and the signal makes the run ready.
    let (mut family, caller) = Family::running();
    let answer = family.checkpoint(&caller, wait_for_go());
    assert_eq!((answer.state, answer.expires_at), (State::Waiting, None));
    assert!(!is_ready(&family));
    family.signal("other", Some("k0"));
    assert!(!is_ready(&family));
    family.signal("go", Some("k1"));
    assert!(is_ready(&family));
    assert_eq!(family.state(ROOT), Some(State::Waiting), "it keeps its state until it is leased");
    // S2-86: the next attempt reads what was there, and a later signal does not change it.
    family.signal("go", Some("k2"));
    let next = family.grant(ROOT);
    let replayed = family.checkpoint(&next, wait_for_go());
    let bytes = 2;
    let taken = vec![Taken { item: "go#1".into(), signal: 2, bytes }];
    assert_eq!(replayed.wait, Some(WaitRecord { winner: None, taken }));
    assert!(replayed.replayed);
}

#[test]
fn a_suspended_attempt_counts_towards_no_limit_and_its_call_is_answered_again() {
    let (mut family, caller) = Family::running();
    let fence = family.task(ROOT).lease().unwrap().fence;
    family.call(&caller, wait_for_go());
    let again = checkpointed(family.ask_in_vain(ROOT, wait_for_go().request(&caller)));
    assert_eq!((again.replayed, again.state), (true, State::Waiting));
    let closed = family.members[&ROOT].closed[0].clone();
    assert_eq!(
        (closed.outcome, closed.reason),
        (AttemptOutcome::Suspended, Some(Reason::Suspended))
    );
    // Any other call under the closed lease has lost its authority.
    let other = Call::default().step("b#1", "2");
    let Answer::Refused(refusal) = family.ask_in_vain(ROOT, other.request(&caller)) else {
        panic!("accepted")
    };
    assert_eq!(refusal.worker_verdict(), WorkerVerdict::Cancelled);
    let report = crate::world::report(&caller, succeeded());
    let Answer::Refused(refusal) = family.ask_in_vain(ROOT, report) else { panic!("accepted") };
    assert_eq!(refusal.worker_verdict(), WorkerVerdict::Cancelled);
    family.signal("go", None);
    family.grant(ROOT);
    let task = family.task(ROOT);
    assert_eq!((task.attempt, task.failures, task.lost), (2, 0, 0));
    // Only the open attempt is not accounted for yet.
    assert_eq!(task.uncounted(), 1);
    assert!(task.lease().unwrap().fence > fence);
    let again = checkpointed(family.ask_in_vain(ROOT, wait_for_go().request(&caller)));
    // The answer is found after the resume too, and does not say that the lease goes on: it is another's now.
    assert_eq!((again.replayed, again.state, again.expires_at), (true, State::Waiting, None));
}

#[test]
fn one_of_several_wins_and_the_others_keep_what_is_theirs() {
    let (mut family, caller) = Family::running();
    let later = family.now.plus(secs(60));
    let items = [
        ("cool#1", AwaitedEvent::Time(later)),
        ("go#1", on_signal("go")),
        ("no#1", on_signal("no")),
    ];
    family.call(&caller, Call::default().wait("w#1", WaitMode::Any, &items));
    family.signal("no", None);
    family.signal("go", None);
    let record = record_of(&family, "w#1").expect("the wait is over");
    assert_eq!(record.winner, Some("no#1".into()));
    // The signal that came second is not taken: the next wait finds it.
    let next = family.grant(ROOT);
    let items = [("go#2", on_signal("go"))];
    let answer = family.checkpoint(&next, Call::default().wait("w#2", WaitMode::All, &items));
    assert_eq!(answer.state, State::Running);
    assert_eq!(family.task(ROOT).run.as_ref().unwrap().signals.pending, 0);
}

#[test]
fn one_of_several_wins_when_more_than_one_was_there_before() {
    let (mut family, caller) = Family::running();
    family.signal("no", None);
    family.signal("go", None);
    let items = [("go#1", on_signal("go")), ("no#1", on_signal("no"))];
    let answer = family.checkpoint(&caller, Call::default().wait("w#1", WaitMode::Any, &items));
    // The order of the call decides, not the order of arrival, and the other signal stays.
    let taken = vec![Taken { item: "go#1".into(), signal: 2, bytes: 2 }];
    assert_eq!(answer.wait, Some(WaitRecord { winner: Some("go#1".into()), taken }));
    assert_eq!(family.task(ROOT).run.as_ref().unwrap().signals.pending, 1);
}

#[test]
fn a_signal_that_no_item_has_room_for_stands_for_nothing_else() {
    let (mut family, caller) = Family::running();
    let items = [("one", on_signal("go")), ("kid", on_child("kid"))];
    family.call(&caller, Call::default().child("kid", 20).wait("w#1", WaitMode::All, &items));
    family.settle();
    family.signal("go", None);
    family.signal("go", None);
    assert!(!is_ready(&family), "the child is missing");
    family.finish(verdict::TaskId::from_u128(20));
    family.settle();
    assert!(is_ready(&family));
    assert_eq!(family.task(ROOT).run.as_ref().unwrap().signals.pending, 1);
}

#[test]
fn all_of_several_are_counted_once_each() {
    let (mut family, caller) = Family::running();
    let later = family.now.plus(secs(60));
    let items = [
        ("one", on_signal("go")),
        ("two", on_signal("go")),
        ("kid", on_child("kid")),
        ("cool", AwaitedEvent::Time(later)),
    ];
    let call = Call::default().child("kid", 20).wait("w#1", WaitMode::All, &items);
    family.call(&caller, call);
    family.settle();
    let kid = verdict::TaskId::from_u128(20);
    family.signal("go", Some("k1"));
    family.signal("go", Some("k1"));
    family.finish(kid);
    family.settle();
    family.repeat_messages();
    assert_eq!(family.task(ROOT).wakes_at(), Some(START.plus(WAIT_DEFAULT)), "a signal is missing");
    family.now = later;
    family.sweep(ROOT);
    assert!(!is_ready(&family), "one signal is missing");
    family.signal("go", Some("k2"));
    assert!(is_ready(&family));
    let taken = record_of(&family, "w#1").unwrap().taken;
    let numbers: Vec<(&str, u32)> =
        taken.iter().map(|taken| (taken.item.as_str(), taken.signal)).collect();
    assert_eq!(numbers, [("one", 1), ("two", 2)]);
}

#[test]
fn a_timer_wakes_the_run_at_its_time_and_not_before() {
    let (mut family, caller) = Family::running();
    let later = family.now.plus(secs(60));
    let items = [("cool#1", AwaitedEvent::Time(later))];
    family.call(&caller, Call::default().wait("w#1", WaitMode::All, &items));
    assert_eq!(family.task(ROOT).wakes_at(), Some(later));
    family.now = Time::from_millis(later.millis() - 1);
    assert_eq!(family.sweep(ROOT), Answer::Nothing);
    family.now = later;
    assert_eq!(family.sweep(ROOT), Answer::Done);
    assert!(is_ready(&family));
    assert_eq!(family.sweep(ROOT), Answer::Nothing, "a repeated sweep does nothing");
}

#[test]
fn a_wait_ends_at_its_limit_and_at_the_deadline() {
    let items = [("go#1", on_signal("go"))];
    let waiting = |policy: Policy| {
        let (mut family, caller) = Family::running_with(policy);
        let max = Some(secs(100));
        family.call(&caller, Call::default().wait_at_most("w#1", WaitMode::All, &items, max));
        family
    };
    let mut family = waiting(Policy::default());
    assert_eq!(family.task(ROOT).wakes_at(), Some(START.plus(secs(100))));
    family.now = START.plus(secs(100));
    family.sweep(ROOT);
    let Subject::Done(done) = family.subject(ROOT) else { panic!("it waits for ever") };
    assert_eq!((done.end.state, done.end.reason), (State::Failed, Some(Reason::WaitTimeout)));
    let deadline = Some(START.plus(secs(50)));
    let mut family = waiting(Policy { deadline, ..Policy::default() });
    family.now = START.plus(secs(50));
    family.sweep(ROOT);
    let Subject::Done(done) = family.subject(ROOT) else { panic!("it waits for ever") };
    assert_eq!(done.end.reason, Some(Reason::DeadlineExceeded));
}

#[test]
fn with_a_cancel_pending_a_wait_does_not_suspend() {
    let (mut family, caller) = Family::running();
    family.cancel(ROOT, CancelMode::Graceful);
    let answer = family.checkpoint(&caller, wait_for_go());
    assert_eq!((answer.state, answer.cancel.is_some()), (State::Running, true));
    // the answer carried the signal, and the grace counts from it.
    let cancel = family.task(ROOT).cancel.clone().unwrap();
    assert_eq!(cancel.signalled_at, Some(family.now));
    assert_eq!(family.count(ROOT, "checkpointed"), 1, "the step is recorded all the same");
}

#[test]
fn a_cancel_ends_what_waits() {
    let (mut family, caller) = Family::running();
    family.call(&caller, wait_for_go());
    family.cancel(ROOT, CancelMode::Graceful);
    assert_eq!(family.state(ROOT), Some(State::Cancelled));
}

#[test]
fn a_signal_is_recorded_once_per_key_and_within_its_bounds() {
    let (mut family, _) = Family::running();
    let first = family.ask(ROOT, signal("go", Some("k"), Some("1")));
    let again = family.ask_in_vain(ROOT, signal("go", Some("k"), Some("1")));
    let signalled =
        |replayed| Answer::Run(Box::new(RunAnswer::Signalled { state: State::Running, replayed }));
    assert_eq!((first, again), (signalled(false), signalled(true)));
    let other = family.ask_in_vain(ROOT, signal("go", Some("k"), Some("2")));
    assert_eq!(refused(other), "idempotency_key_reused");
    for _ in 1..SIGNALS_MAX {
        family.signal("go", None);
    }
    let full = family.ask_in_vain(ROOT, signal("go", None, None));
    assert_eq!(refused(full), "signals_full");
    let large = "x".repeat(200 * 1024);
    let (mut family, _) = Family::running();
    for n in 0..5 {
        family.ask(ROOT, signal("go", Some(&n.to_string()), Some(&large)));
    }
    let full = family.ask_in_vain(ROOT, signal("go", None, Some(&large)));
    assert_eq!(refused(full), "signals_full");
}

#[test]
fn a_signal_of_another_task_counts_once() {
    let (mut family, caller) = Family::running();
    family.call(&caller, wait_for_go());
    let digest = verdict::Digest::of(&[b"go"]);
    let call = SignalCall { name: "go".into(), key: None, payload: None, digest };
    let message = Message {
        from: verdict::TaskId::from_u128(99),
        number: MessageNumber { entry: 4, index: 1 },
        to: ROOT,
        body: Body::Signal(call),
    };
    let request = run(RunRequest::Message(message));
    assert_eq!(family.ask(ROOT, request.clone()), Answer::Done);
    assert!(is_ready(&family));
    assert_eq!(family.ask_in_vain(ROOT, request), Answer::Nothing);
}

#[test]
fn an_ended_run_takes_no_signal() {
    let (mut family, caller) = Family::running();
    family.signal("go", Some("k"));
    family.call(&caller, Call::default().report(succeeded()));
    assert_eq!(refused(family.signal("go", None)), "run_already_terminal");
    // The repetition of one that was taken in is still found.
    assert!(matches!(family.signal("go", Some("k")), Answer::Run(_)));
}

#[test]
fn a_wait_for_nothing_or_for_a_stranger_is_refused() {
    let (mut family, caller) = Family::running();
    let nothing = Call::default().wait("w#1", WaitMode::All, &[]);
    assert_eq!(refused(family.ask_in_vain(ROOT, nothing.request(&caller))), "empty_wait");
    let items = [("kid", on_child("kid"))];
    let stranger = Call::default().step("a#1", "1").wait("w#1", WaitMode::All, &items);
    assert_eq!(refused(family.ask_in_vain(ROOT, stranger.request(&caller))), "unknown_child");
    let detached = Call::default().detached("kid", 20).wait("w#1", WaitMode::All, &items);
    assert_eq!(refused(family.ask_in_vain(ROOT, detached.request(&caller))), "unknown_child");
}
