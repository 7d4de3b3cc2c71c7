//! The linearizability search: it is exact within its budget, and reports when it exceeds it.

use historyck::event::{
    Answer, Event, EventKind, Granted, Invoke, Operation, Outcome, Return, State,
};
use historyck::{Invariant, check};

fn invoke(call: u64, op: Operation) -> Invoke {
    Invoke { call, task: Some("t".to_owned()), ..Invoke::of(op) }
}

fn answer(call: u64) -> Return {
    Return { call, ..Return::of(Answer::Ok) }
}

fn event(at: u64, what: EventKind) -> Event {
    Event { at, who: "w".to_owned(), clock: None, what }
}

fn grant(call: u64, attempt: u32) -> Return {
    let granted = Granted {
        task: "t".to_owned(),
        attempt,
        lease: None,
        fence: None,
        expires: None,
        lease_ms: None,
    };
    Return { grants: vec![granted], ..answer(call) }
}

/// Many concurrent calls: leases and reads, all in flight together.
fn storm(reads: u64, last_state: State) -> Vec<Event> {
    let mut events = Vec::new();
    for call in 1..=reads {
        let what = if call == 1 {
            Invoke { task: None, ..invoke(call, Operation::Lease) }
        } else {
            invoke(call, Operation::Get)
        };
        events.push(event(call, EventKind::Invoke(what)));
    }
    for call in 1..=reads {
        let what = match call {
            1 => grant(call, 1),
            _ if call == reads => Return { state: Some(last_state), ..answer(call) },
            _ if call % 2 == 0 => Return { state: Some(State::Queued), ..answer(call) },
            _ => Return { state: Some(State::Running), ..answer(call) },
        };
        events.push(event(reads + call, EventKind::Return(what)));
    }
    events
}

#[test]
fn calls_that_were_all_under_way_are_put_in_order() {
    assert_eq!(check(&storm(60, State::Running)).unwrap(), []);
}

/// Reports without an answer, `rivals` for each of `attempts` attempts, and then a state that none of them explains.
fn reports_in_vain(attempts: u32, rivals: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut say = |what| events.push(event(events.len() as u64 + 1, what));
    let mut call = 0;
    for attempt in 1..=attempts {
        for rival in 0..rivals {
            call += 1;
            let report = Invoke {
                attempt: Some(attempt),
                outcome: Some(Outcome::Failed),
                digest: Some(rival.to_string()),
                ..invoke(call, Operation::Report)
            };
            say(EventKind::Invoke(report));
        }
    }
    let last = call + 1;
    say(EventKind::Invoke(invoke(last, Operation::Get)));
    say(EventKind::Return(Return { state: Some(State::Succeeded), ..answer(last) }));
    events
}

#[test]
fn what_is_not_explained_within_the_budget_is_a_failure() {
    // No call reported a success, and the possible reports have more orders than the budget allows.
    let found = check(&reports_in_vain(12, 3)).unwrap();
    let said = found.iter().find(|finding| finding.invariant == Invariant::A5).unwrap();
    assert!(said.why.starts_with("unknown"), "{}", said.why);
}

#[test]
fn calls_that_were_refused_for_now_cost_the_search_nothing() {
    // A full disk: one worker retries again and again while others read.
    let mut events = Vec::new();
    let mut say = |what| events.push(event(events.len() as u64 + 1, what));
    for call in 1..=200 {
        let op = if call % 3 == 0 { Operation::Get } else { Operation::Heartbeat };
        say(EventKind::Invoke(Invoke { attempt: Some(1), ..invoke(call, op) }));
    }
    for call in 1..=200 {
        let code = Some("unavailable".to_owned());
        say(EventKind::Return(Return { answer: Answer::Fail, code, ..answer(call) }));
    }
    assert_eq!(check(&events).unwrap(), []);
}

#[test]
fn what_was_refused_for_now_may_not_have_happened() {
    let cancel = Return { answer: Answer::Fail, code: Some("unavailable".to_owned()), ..answer(1) };
    let events = [
        event(1, EventKind::Invoke(invoke(1, Operation::Cancel))),
        event(2, EventKind::Return(cancel)),
        event(3, EventKind::Invoke(invoke(2, Operation::Get))),
        event(4, EventKind::Return(Return { state: Some(State::Cancelled), ..answer(2) })),
    ];
    let found = check(&events).unwrap();
    let said = found.iter().find(|finding| finding.invariant == Invariant::A5).unwrap();
    assert!(said.why.starts_with("no order"), "{}", said.why);
}

#[test]
fn few_calls_without_an_order_are_refused_for_certain() {
    let found = check(&storm(8, State::Succeeded)).unwrap();
    let said = found.iter().find(|finding| finding.invariant == Invariant::A5).unwrap();
    assert!(said.why.starts_with("no order"), "{}", said.why);
}

/// A worker is refused as superseded although nobody was seen to get the next attempt, and then says or hears `last`.
fn superseded_by_nobody_seen(last: Return) -> Vec<Event> {
    let of_attempt = |call, op| Invoke { attempt: Some(1), ..invoke(call, op) };
    let report = Invoke { outcome: Some(Outcome::Succeeded), ..of_attempt(2, Operation::Report) };
    let code = Some("attempt_mismatch".to_owned());
    let refused = Return { answer: Answer::Fail, code, ..answer(2) };
    vec![
        event(1, EventKind::Invoke(Invoke { task: None, ..invoke(1, Operation::Lease) })),
        event(2, EventKind::Return(grant(1, 1))),
        event(3, EventKind::Invoke(report)),
        event(4, EventKind::Return(refused)),
        event(5, EventKind::Invoke(of_attempt(3, Operation::Heartbeat))),
        event(6, EventKind::Return(last)),
    ]
}

#[test]
fn a_grant_whose_answer_was_lost_supersedes_too() {
    let code = Some("attempt_mismatch".to_owned());
    let again = Return { answer: Answer::Fail, code, ..answer(3) };
    assert_eq!(check(&superseded_by_nobody_seen(again)).unwrap(), []);
}

#[test]
fn who_was_superseded_by_nobody_seen_is_not_heard_again() {
    let found = check(&superseded_by_nobody_seen(answer(3))).unwrap();
    let said = found.iter().find(|finding| finding.invariant == Invariant::A5).unwrap();
    assert!(said.why.starts_with("no order"), "{}", said.why);
}
