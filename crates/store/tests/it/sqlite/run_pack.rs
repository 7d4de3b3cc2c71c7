//! Packed entries of durable runs read back exactly, are short, and represent nothing that they cannot hold.

use store::Entry;
use store::codec::inline_history::InlineHistory;
use verdict::event::Submitted;
use verdict::request::{Caller, Outcome, Submit};
use verdict::run::{
    Body, Checkpoint, CheckpointCall, ChildEnd, Lineage, Message, MessageNumber, Recorded,
    RunEvent, RunRequest, Spend, Step, StepCall, StepOutcome, Then,
};
use verdict::{
    AttemptOutcome, Category, ClosedAttempt, Digest, End, Event, Fault, Fence, Json, LeaseId, Next,
    Policy, Request, Scope, State, TaskId, Time,
};

const TASK: TaskId = TaskId::from_u128(9);

/// The form of an entry whose events are stored as JSON beside its request.
const DELTA: u8 = 5;

fn digest(of: &str) -> Digest {
    Digest::of(&[of.as_bytes()])
}

fn step(key: &str, result: Option<&str>) -> StepCall {
    let outcome = StepOutcome::Succeeded { result: result.map(Json::from) };
    let step = Step { outcome, input: None, spend: Spend::default(), is_savepoint: false };
    StepCall { key: key.into(), digest: digest(key), step }
}

/// One step as most are, and one with everything that a success can have.
fn steps() -> Vec<StepCall> {
    let mut full = step("step#2", None);
    full.step.input = Some(digest("input"));
    full.step.spend = Spend { cost_micros: u64::MAX, tokens: 1, tool_calls: 2 };
    full.step.is_savepoint = true;
    vec![step("step#1", Some(r#"{"ok":1}"#)), full]
}

fn call(then: Then) -> CheckpointCall {
    let caller = Caller { worker: "w".into(), attempt: 2, lease: LeaseId::from_u128(5), epoch: 3 };
    CheckpointCall {
        caller,
        digest: digest("call"),
        steps: steps(),
        children: vec![],
        then,
        asked_by: None,
    }
}

fn checkpoint(call: &CheckpointCall, place: usize) -> Checkpoint {
    let StepCall { key, digest, step } = call.steps[place].clone();
    Checkpoint {
        number: 7 + place as u32,
        key,
        digest,
        attempt: call.caller.attempt,
        at: Time::from_millis(8),
        recorded: Recorded::Step(step),
    }
}

fn recorded(checkpoint: Checkpoint) -> Event {
    Event::Run(Box::new(RunEvent::Checkpointed(Box::new(checkpoint))))
}

fn entry(request: RunRequest, events: Vec<Event>) -> Entry {
    let (at, request) = (Time::from_millis(8), Request::Run(Box::new(request)));
    Entry { n: 3, at, epoch: 1, rules: 5, request, loaded: None, events }
}

/// The steps of a worker that goes on.
fn stepped(is_started: bool) -> Entry {
    let call = call(Then::Continue);
    let renewed = Event::Renewed { expires_at: Time::from_millis(99), progress: None };
    let started = is_started.then_some(Event::Started);
    let steps = (0..2).map(|place| recorded(checkpoint(&call, place)));
    let events = started.into_iter().chain([renewed]).chain(steps).collect();
    entry(RunRequest::Checkpoint(call), events)
}

fn closed(call: &CheckpointCall) -> ClosedAttempt {
    ClosedAttempt {
        task: TASK,
        attempt: call.caller.attempt,
        lease: call.caller.lease,
        fence: Fence::from_u64(11),
        owner: call.caller.worker.clone(),
        granted_at: Time::from_millis(1),
        started_at: Some(Time::from_millis(2)),
        closed_at: Time::from_millis(8),
        outcome: AttemptOutcome::Succeeded,
        reason: None,
        fault: None,
        report: Some(call.digest),
        claims: Some("{\"metrics\":{}}".into()),
    }
}

/// The last steps of a worker, with its report.
fn succeeded() -> Entry {
    let output = Some(Json::from("{\"ok\":true}"));
    let claims = Some(Json::from("{\"metrics\":{}}"));
    let outcome = Outcome::Succeeded { output: output.clone() };
    let call = call(Then::Report { outcome, claims });
    let end = End { state: State::Succeeded, reason: None, output, fault: None };
    let next = Next::End(end);
    let mut events: Vec<Event> = (0..2).map(|n| recorded(checkpoint(&call, n))).collect();
    events.push(Event::AttemptClosed { closed: Box::new(closed(&call)), next });
    entry(RunRequest::Checkpoint(call), events)
}

fn spawned(lineage: Lineage) -> Entry {
    let submit = Submit {
        budget: None,
        flow: None,
        id: TASK,
        scope: Scope::default(),
        kind: "resize".into(),
        queue: "images".into(),
        priority: -3,
        policy: Policy::default(),
        run_at: Some(Time::from_millis(4)),
        input: digest("input"),
        fingerprint: digest("all"),
    };
    let Submit { id, scope, kind, queue, priority, policy, input, .. } = submit.clone();
    let due = Time::from_millis(5);
    let submitted = Box::new(Submitted {
        budget: None,
        flow: None,
        id,
        scope,
        kind,
        queue,
        priority,
        policy,
        due,
        input,
    });
    let event = RunEvent::Spawned { submitted, lineage: lineage.clone() };
    let number = MessageNumber { entry: 70, index: 499 };
    let body = Body::Spawn { submit: Box::new(submit), lineage };
    let message = Message { from: TaskId::from_u128(3), number, to: TASK, body };
    entry(RunRequest::Message(message), vec![Event::Run(Box::new(event))])
}

fn packed() -> Vec<Entry> {
    let (run, cause, key) = (TaskId::from_u128(1), TaskId::from_u128(2), "child#1".into());
    let child = Lineage::Child { run, parent: cause, key };
    let detached = Lineage::Detached { cause, key: "k".into() };
    vec![stepped(true), stepped(false), succeeded(), spawned(child), spawned(detached)]
}

/// The first byte after the length, which may take two.
fn form(history: &InlineHistory) -> u8 {
    let bytes = history.bytes().unwrap();
    bytes[if bytes[0] < 0x80 { 1 } else { 2 }]
}

#[test]
fn what_is_packed_reads_back_and_is_short() {
    for entry in packed() {
        let history = InlineHistory::of(TASK, &entry);
        assert_eq!(history.entries(TASK).unwrap(), std::slice::from_ref(&entry));
        assert!(form(&history) > DELTA, "{entry:?}");
        let length = history.bytes().unwrap().len();
        assert!(length < 320, "{length} bytes for {entry:?}");
    }
}

#[test]
fn five_steps_and_their_report_stay_in_the_row_of_their_task() {
    let mut history = InlineHistory::default();
    let mut one = stepped(true);
    let Request::Run(request) = &mut one.request else { unreachable!() };
    let RunRequest::Checkpoint(call) = &mut **request else { unreachable!() };
    call.steps.truncate(1);
    one.events.truncate(3);
    for n in 2..7 {
        let entry = Entry { n, ..one.clone() };
        let appended = history.try_append(TASK, 1, &entry);
        assert_eq!(appended, store::codec::inline_history::Appended::Inline, "entry {n}");
    }
    assert_eq!(history.entries(TASK).unwrap().len(), 5);
}

/// Changes the call and the events of an entry.
fn altered(mut entry: Entry, change: impl FnOnce(&mut CheckpointCall, &mut Vec<Event>)) -> Entry {
    let Request::Run(request) = &mut entry.request else { unreachable!() };
    let RunRequest::Checkpoint(call) = &mut **request else { unreachable!() };
    change(call, &mut entry.events);
    entry
}

fn alter_checkpoint(event: &mut Event, change: impl FnOnce(&mut Checkpoint)) {
    let Event::Run(event) = event else { unreachable!() };
    let RunEvent::Checkpointed(checkpoint) = &mut **event else { unreachable!() };
    change(checkpoint);
}

fn fail(step: &mut Step) {
    let fault = Fault {
        category: Category::Timeout,
        message: "late".into(),
        stack_trace: None,
        retryable: None,
    };
    step.outcome = StepOutcome::Failed { fault, reason: None };
}

fn unpackable() -> Vec<Entry> {
    let last = |change: fn(&mut Checkpoint)| {
        altered(stepped(false), |_, events| alter_checkpoint(events.last_mut().unwrap(), change))
    };
    let other_end = |change: fn(&mut ClosedAttempt, &mut End)| {
        altered(succeeded(), |_, events| {
            let Some(Event::AttemptClosed { closed, next: Next::End(end) }) = events.last_mut()
            else {
                unreachable!()
            };
            change(closed, end);
        })
    };
    vec![
        last(|checkpoint| checkpoint.number += 1),
        last(|checkpoint| checkpoint.at = Time::from_millis(9)),
        last(|checkpoint| checkpoint.attempt += 1),
        last(|checkpoint| checkpoint.key = "other".into()),
        last(|checkpoint| checkpoint.digest = digest("other")),
        last(|checkpoint| checkpoint.recorded = Recorded::Step(steps().remove(0).step)),
        // A step that was recorded before has no event.
        altered(stepped(false), |_, events| drop(events.pop())),
        altered(stepped(true), |_, events| events.push(Event::CancelSignalled)),
        altered(stepped(true), |call, _| call.then = succeeded_then()),
        altered(stepped(false), |call, events| {
            fail(&mut call.steps[1].step);
            let failed = call.steps[1].step.clone();
            alter_checkpoint(&mut events[2], |it| it.recorded = Recorded::Step(failed));
        }),
        altered(succeeded(), |_, events| drop(events.remove(0))),
        other_end(|closed, _| closed.task = TaskId::from_u128(1)),
        other_end(|closed, _| closed.report = None),
        other_end(|_, end| end.output = None),
    ]
}

fn succeeded_then() -> Then {
    Then::Report { outcome: Outcome::Succeeded { output: None }, claims: None }
}

#[test]
fn what_says_anything_else_than_its_call_is_not_packed() {
    for entry in unpackable() {
        let history = InlineHistory::of(TASK, &entry);
        assert_eq!(history.entries(TASK).unwrap(), std::slice::from_ref(&entry));
        assert_eq!(form(&history), DELTA, "{entry:?}");
    }
}

/// The end of a child, as its parent records it.
fn child_ended(change: impl FnOnce(&mut Checkpoint)) -> Entry {
    let (key, record) = (verdict::Name::from("child#1"), digest("record"));
    let body = Body::ChildEnded {
        is_unneeded: false,
        charge: None,
        halt: None,
        done_by: vec![],
        key: key.clone(),
        state: State::Failed,
        record,
    };
    let (from, number) = (TaskId::from_u128(3), MessageNumber { entry: 4, index: 0 });
    let message = Message { from, number, to: TASK, body };
    let end = ChildEnd { child: from, state: State::Failed, record };
    let mut checkpoint = Checkpoint {
        number: 12,
        key,
        digest: digest("child"),
        attempt: 0,
        at: Time::from_millis(8),
        recorded: Recorded::Child(end),
    };
    change(&mut checkpoint);
    let advanced = Event::Run(Box::new(RunEvent::WaitAdvanced { missing: 3 }));
    entry(RunRequest::Message(message), vec![recorded(checkpoint), advanced])
}

#[test]
fn the_end_of_a_child_says_once_what_its_message_says() {
    let length = |entry: &Entry| {
        let history = InlineHistory::of(TASK, entry);
        assert_eq!(history.entries(TASK).unwrap(), std::slice::from_ref(entry));
        history.bytes().unwrap().len()
    };
    let told = length(&child_ended(|_| {}));
    for other in [
        child_ended(|checkpoint| checkpoint.attempt = 1),
        child_ended(|checkpoint| checkpoint.key = "child#2".into()),
        child_ended(|checkpoint| checkpoint.recorded = Recorded::Step(steps().remove(0).step)),
    ] {
        assert!(length(&other) > told, "{other:?}");
    }
}

#[test]
fn damaged_bytes_are_refused_and_nothing_else_happens() {
    for entry in packed() {
        let whole = InlineHistory::of(TASK, &entry).bytes().unwrap().to_vec();
        for length in 1..whole.len() {
            let cut = InlineHistory::from_bytes(whole[..length].to_vec());
            assert!(cut.entries(TASK).is_err(), "{length} of {} bytes", whole.len());
        }
    }
}
