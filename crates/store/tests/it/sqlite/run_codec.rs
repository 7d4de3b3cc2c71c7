//! Everything of a durable run reads back as it was written.

use store::codec::Stored;
use store::codec::inline_history::InlineHistory;
use store::{Entry, Resources, Spec};
use verdict::approval::{
    self, Approval, ApprovalCall, Approvals, DecideCall, Decision, Terms, Vote,
};
use verdict::event::Submitted;
use verdict::request::{Caller, Cancel, CancelMode, Outcome, Submit};
use verdict::run::{
    Awaited, AwaitedEvent, Body, Checkpoint, CheckpointCall, Child, ChildCall, ChildEnd, ChildRef,
    Closing, Divergence, Inherit, Inherited, Items, Lineage, Message, MessageNumber, Recorded,
    RunEvent, RunRequest, RunState, Signal, SignalCall, SignalCounts, Slice, Spend, Step, StepCall,
    StepOutcome, Taken, Then, Wait, WaitCall, WaitMode, WaitRecord, Waiting,
};
use verdict::{
    Build, Category, Digest, End, Event, Fault, FlowKey, Json, LeaseId, Policy, Reason, Request,
    Scope, Span, State, TaskId, Time,
};

const TASK: TaskId = TaskId::from_u128(9);

fn reads_back<T: Stored + PartialEq + std::fmt::Debug>(value: &T) {
    let text = value.write();
    assert_eq!(&T::read(&text).unwrap(), value, "{text}");
}

fn digest(of: &str) -> Digest {
    Digest::of(&[of.as_bytes()])
}

fn fault() -> Fault {
    let (message, stack_trace) = ("said \"no\"\n".into(), Some("line\n".repeat(50).into()));
    Fault { category: Category::UserCode, message, stack_trace, retryable: Some(false) }
}

fn end() -> End {
    let output = Some(Json::from("[1]"));
    End { state: State::Failed, reason: Some(Reason::WaitTimeout), output, fault: Some(fault()) }
}

fn submit() -> Submit {
    Submit {
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
    }
}

fn child(is_detached: bool) -> ChildCall {
    ChildCall { key: "child/a#1".into(), is_detached, submit: submit() }
}

fn lineages() -> [Lineage; 2] {
    let (run, parent, key) = (TaskId::from_u128(1), TaskId::from_u128(2), "k".into());
    [Lineage::Child { run, parent, key }, Lineage::Detached { cause: run, key: "k".into() }]
}

fn steps() -> Vec<StepCall> {
    let spend = Spend { cost_micros: u64::MAX, tokens: 1, tool_calls: 2 };
    let outcomes = [
        (StepOutcome::Succeeded { result: None }, Spend::default(), false),
        (StepOutcome::Succeeded { result: Some("{\"a\":null}".into()) }, spend, true),
        (StepOutcome::Failed { fault: fault(), reason: None }, spend, false),
        (StepOutcome::Failed { fault: fault(), reason: Some("STEP_TIMEOUT".into()) }, spend, false),
    ];
    let call = |(n, (outcome, spend, is_savepoint))| {
        let input = (n != 0).then(|| digest("input"));
        let step = Step { outcome, input, spend, is_savepoint };
        StepCall { key: format!("step {n}").into(), digest: digest("step"), step }
    };
    outcomes.into_iter().enumerate().map(call).collect()
}

fn items() -> Vec<Awaited> {
    let events = [
        AwaitedEvent::Time(Time::from_millis(-1)),
        AwaitedEvent::Signal("go".into()),
        AwaitedEvent::Child("child/a#1".into()),
    ];
    let item = |(n, event)| Awaited { key: format!("item {n}").into(), event };
    events.into_iter().enumerate().map(item).collect()
}

fn divergence() -> Divergence {
    let [branch, recorded, actual] = ["main", "step a", "step \"b\""].map(Into::into);
    Divergence { branch, index: u32::MAX, recorded, actual }
}

fn calls() -> Vec<CheckpointCall> {
    let (key, digest) = ("wait".into(), digest("wait"));
    let max = Some(Span::from_secs(5));
    let approvals =
        vec![ApprovalCall { item: "i".into(), terms: terms(), asked_by: Some("k".into()) }];
    let wait = WaitCall { key, digest, mode: WaitMode::Any, items: items().into(), approvals, max };
    let claims = Some(Json::from("{}"));
    let thens = [
        Then::Continue,
        Then::Wait(WaitCall { mode: WaitMode::All, max: None, approvals: vec![], ..wait.clone() }),
        Then::Wait(wait),
        Then::Diverged(divergence()),
        Then::Report { outcome: Outcome::Failed(fault()), claims },
    ];
    let caller = Caller { worker: "w".into(), attempt: 2, lease: LeaseId::from_u128(5), epoch: 3 };
    let call = |then| CheckpointCall {
        caller: caller.clone(),
        digest,
        steps: steps(),
        children: vec![child(false), child(true)],
        then,
        asked_by: None,
    };
    let empty = CheckpointCall { steps: vec![], children: vec![], ..call(Then::Continue) };
    let asked = CheckpointCall { asked_by: Some("k".into()), ..empty.clone() };
    thens.into_iter().map(call).chain([empty, asked]).collect()
}

fn signal_call(key: Option<&str>, payload: Option<&str>) -> SignalCall {
    let (key, payload) = (key.map(Into::into), payload.map(Into::into));
    SignalCall { name: "go".into(), key, payload, digest: digest("signal") }
}

fn bodies() -> Vec<Body> {
    let spawn = |lineage| Body::Spawn { submit: Box::new(submit()), lineage };
    let ended = Body::ChildEnded {
        is_unneeded: false,
        charge: None,
        halt: Some(Box::new(End {
            state: State::Halted,
            reason: Some(Reason::BudgetExhausted),
            output: None,
            fault: None,
        })),
        done_by: vec!["k9".into()],
        key: "k".into(),
        state: State::Halted,
        record: digest("record"),
    };
    let cancel = Cancel { reason: Some("parent_ended".into()), mode: CancelMode::Immediate };
    let others = [ended, Body::Cancel(cancel), Body::Signal(signal_call(Some("k"), Some("1")))];
    lineages().into_iter().map(spawn).chain(others).collect()
}

fn requests() -> Vec<RunRequest> {
    let message = |body| {
        let number = MessageNumber { entry: 7, index: 0 };
        RunRequest::Message(Message { from: TaskId::from_u128(3), number, to: TASK, body })
    };
    let mut all: Vec<RunRequest> = calls().into_iter().map(RunRequest::Checkpoint).collect();
    all.extend([
        RunRequest::Signal(signal_call(None, None)),
        RunRequest::Signal(signal_call(Some("key"), Some("{\"a\":1}"))),
        RunRequest::Resume,
        RunRequest::Unpin,
        RunRequest::Decide(DecideCall {
            number: 2,
            key: "k".into(),
            roles: vec!["approver".into()],
            decision: Decision::Rejected,
            digest: Some(Digest::of(&[b"seen"])),
            comment: Some("\"no\"".into()),
        }),
    ]);
    all.extend(bodies().into_iter().map(message));
    all.push(RunRequest::Inherit(inherit()));
    all
}

fn inherited_child() -> Child {
    let (key, id) = ("child".into(), TaskId::from_u128(9));
    Child { key, id, digest: digest("child"), is_detached: true, end: None }
}

fn inherit() -> Inherit {
    let signal = Signal {
        number: 1,
        name: "go".into(),
        key: None,
        payload: Some("1".into()),
        digest: digest("signal"),
    };
    let mut items = vec![
        Inherited::Signal(signal),
        Inherited::Child(inherited_child()),
        Inherited::Again(child(false)),
    ];
    items.extend(recorded().into_iter().map(|it| Inherited::Checkpoint(checkpoint(it))));
    Inherit { from: TaskId::from_u128(4), record: digest("record"), items }
}

fn recorded() -> Vec<Recorded> {
    let taken = vec![Taken { item: "item 1".into(), signal: 3, bytes: 9 }];
    let ended = ChildEnd { child: TASK, state: State::Cancelled, record: digest("record") };
    let steps = steps().into_iter().map(|call| Recorded::Step(call.step));
    let others = [
        Recorded::Wait(WaitRecord { winner: None, taken: vec![] }),
        Recorded::Wait(WaitRecord { winner: Some("item 1".into()), taken }),
        Recorded::Child(ended),
    ];
    steps.chain(others).collect()
}

fn checkpoint(recorded: Recorded) -> Checkpoint {
    let at = Time::from_millis(8);
    Checkpoint { number: 4, key: "key".into(), digest: digest("it"), attempt: 0, at, recorded }
}

fn waitings() -> Vec<Waiting> {
    let wait = Wait {
        key: "wait".into(),
        digest: digest("wait"),
        mode: WaitMode::All,
        items: items().into(),
        missing: 2,
        gives_up_at: Time::from_millis(99),
    };
    let closing = |slice| Closing { end: end(), mode: CancelMode::Graceful, slice };
    let slice = Slice { due: Time::from_millis(3), after: Some("child".into()) };
    vec![
        Waiting::For(Wait { items: Items::default(), ..wait.clone() }),
        Waiting::For(wait),
        Waiting::Ready { due: Time::from_millis(1) },
        Waiting::Diverged(divergence()),
        Waiting::Closing(closing(None)),
        Waiting::Closing(closing(Some(Slice { after: None, ..slice.clone() }))),
        Waiting::Closing(closing(Some(slice))),
    ]
}

fn events() -> Vec<RunEvent> {
    let Submit { id, scope, kind, queue, priority, policy, input, .. } = submit();
    let due = Time::from_millis(5);
    let submitted = Submitted {
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
    };
    let spawned = |lineage| RunEvent::Spawned { submitted: Box::new(submitted.clone()), lineage };
    let signal = Signal {
        number: 1,
        name: "go".into(),
        key: Some("k".into()),
        payload: Some("1".into()),
        digest: digest("signal"),
    };
    let children = vec![ChildRef { key: "child".into(), id: TASK }];
    let mode = CancelMode::Immediate;
    let checkpointed = |it| RunEvent::Checkpointed(Box::new(checkpoint(it)));
    let mut all: Vec<RunEvent> = lineages().into_iter().map(spawned).collect();
    all.extend(recorded().into_iter().map(checkpointed));
    all.extend([
        RunEvent::ChildSpawned(Box::new(child(true))),
        RunEvent::SignalReceived(Box::new(signal)),
        RunEvent::ChildInherited(Box::new(inherited_child())),
        RunEvent::Forked { from: TASK, record: digest("record") },
        RunEvent::WaitAdvanced { missing: 1 },
        RunEvent::Closing(end(), mode),
        RunEvent::ChildrenCancelled { children, mode, has_more: true },
        RunEvent::Hastened,
        RunEvent::Resumed,
        RunEvent::BuildNoted(None),
        RunEvent::BuildNoted(Some(Box::new(Build { id: "7".into(), pins: true }))),
        RunEvent::Unpinned,
        RunEvent::ApprovalOpened(Box::new(approval())),
        RunEvent::ApprovalVoted { number: 1, vote: Box::new(approval().votes[0].clone()) },
        RunEvent::ApprovalClosed { number: 1, outcome: approval::Outcome::Withdrawn },
    ]);
    all
}

fn terms() -> Terms {
    Terms {
        roles: vec!["approver".into()],
        keys: vec!["k1".into(), "k2".into()],
        quorum: 2,
        expires_at: Some(Time::from_millis(7)),
        expires_in: Some(Span::from_millis(8)),
        default: Some(Decision::Approved),
        subject: Some("ship it".into()),
        digest: Some(Digest::of(&[b"it"])),
        content: Some("it".into()),
        shows: Some("execute".into()),
        done_by: vec!["k3".into()],
    }
}

fn approval() -> Approval {
    let comment = Some("\"fine\"".into());
    let (decision, at) = (Decision::Approved, Time::from_millis(9));
    Approval {
        number: 1,
        key: "ship#1".into(),
        wait: Some("w".into()),
        terms: terms(),
        expires_at: Some(Time::from_millis(7)),
        asked_by: Some("k9".into()),
        opened_at: Time::from_millis(5),
        votes: vec![Vote { key: "k1".into(), decision, comment, at }],
    }
}

fn state() -> RunState {
    let [lineage, _] = lineages();
    RunState {
        balance: None,
        lineage: Some(lineage),
        forked_from: Some(TaskId::from_u128(77)),
        checkpoints: 1,
        steps: 2,
        savepoint: 3,
        children: 4,
        live_children: 5,
        signals: SignalCounts { received: 6, pending: 7, pending_bytes: 8 },
        spend: Spend { cost_micros: 9, tokens: u64::MAX, tool_calls: 10 },
        forgiven: 11,
        suspensions: 12,
        approvals: Approvals { opened: 3, open: vec![approval()] },
        flow: Some(Box::new(FlowKey::new("customer", 8))),
        plan: None,
        build: Some(Box::new(Build { id: "7".into(), pins: false })),
    }
}

#[test]
fn every_value_reads_back() {
    requests().into_iter().for_each(|it| reads_back(&Request::Run(Box::new(it))));
    events().into_iter().for_each(|it| reads_back(&Event::Run(Box::new(it))));
    waitings().iter().for_each(reads_back);
    recorded().iter().for_each(reads_back);
    bodies().iter().for_each(reads_back);
    reads_back(&items());
    reads_back(&state());
    reads_back(&RunState::default());
    let spec = Spec {
        input: "{\"a\": 1}".into(),
        goal: Some("g".into()),
        task_key: Some("t".into()),
        asset_id: Some("a".into()),
        resources: Some(Resources { memory_bytes: Some(u64::MAX), ..Resources::default() }),
        labels: [("team".to_owned(), "red".to_owned())].into(),
        traceparent: Some("00-1".into()),
        key: Some("k".into()),
        fingerprint: digest("all"),
    };
    reads_back(&spec);
}

fn entry(request: RunRequest, events: Vec<RunEvent>) -> Entry {
    let events = events.into_iter().map(|event| Event::Run(Box::new(event))).collect();
    let (at, request) = (Time::from_millis(8), Request::Run(Box::new(request)));
    Entry { n: 3, at, epoch: 1, rules: 5, request, loaded: None, events }
}

#[test]
fn an_entry_says_once_what_its_call_says() {
    let call = calls().remove(0);
    let recorded = |(n, step): (usize, &StepCall)| {
        let StepCall { key, digest, step } = step.clone();
        let (attempt, at) = (call.caller.attempt, Time::from_millis(8));
        let recorded = Recorded::Step(Step { ..step });
        let number = n as u32 + 1;
        RunEvent::Checkpointed(Box::new(Checkpoint { number, key, digest, attempt, at, recorded }))
    };
    let mut events: Vec<RunEvent> = call.steps.iter().enumerate().map(recorded).collect();
    events.push(RunEvent::ChildSpawned(Box::new(call.children[0].clone())));
    let whole = entry(RunRequest::Checkpoint(call), events);
    let history = InlineHistory::of(TASK, &whole);
    // Stack traces are stored by their digests, which no other part of this test restores.
    let stored = store::codec::payload_digest::digest_payloads(&whole).into_owned();
    assert_eq!(history.entries(TASK).unwrap(), std::slice::from_ref(&stored));
    let alone = Entry { events: Vec::new(), ..stored };
    let (all, none) = (history.bytes().unwrap(), InlineHistory::of(TASK, &alone));
    let added = all.len() - none.bytes().unwrap().len();
    assert!(added < 60 * whole.events.len(), "{added} bytes for {} events", whole.events.len());
}
