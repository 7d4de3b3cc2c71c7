//! Every decision reads back as it was written.

use std::sync::Arc;

use proptest::prelude::*;
use store::codec::inline_history::{Appended, InlineHistory};
use store::codec::packed_terms::Terms;
use store::codec::payload_digest::{self, Payloads};
use store::codec::{Stored, Unreadable};
use store::{Entry, Renewals, Resources};
use verdict::budget::{Amounts, Budget, Limits, OnSoft};
use verdict::event::Submitted;
use verdict::flow::rate::RATE_PER_MAX;
use verdict::flow::{Rate, UNLIMITED};
use verdict::request::{
    Caller, Cancel, CancelMode, Extend, Grant, Heartbeat, Outcome, Report, Started, Submit,
    Undelivered,
};
use verdict::{
    AttemptOutcome, Build, CancelRequest, Category, ClosedAttempt, Digest, End, Event, Fault,
    Fence, FlowKey, Json, LeaseId, Next, OnStall, Policy, Progress, ProgressClock, Reason, Request,
    Scope, Span, State, TaskId, Text, Time,
};

fn reads_back<T: Stored + PartialEq + std::fmt::Debug>(value: &T) {
    let text = value.write();
    assert_eq!(&T::read(&text).unwrap(), value, "{text}");
}

fn policy() -> Policy {
    Policy {
        attempt_limit: Some(Span::from_millis(u64::MAX)),
        deadline: Some(Time::from_millis(i64::MAX)),
        ttl: Some(Span::from_millis(u64::MAX)),
        seed: Some(u64::MAX),
        progress_clock: Some(ProgressClock {
            after: Span::from_millis(u64::MAX),
            action: OnStall::Requeue,
        }),
        ..Policy::default()
    }
}

fn caller() -> Caller {
    Caller { worker: "w".into(), attempt: 2, lease: LeaseId::from_u128(5), epoch: 3 }
}

fn fault(category: Category) -> Fault {
    Fault {
        category,
        message: "said \"no\"\n".into(),
        stack_trace: Some(Text::from("line\n".repeat(50))),
        retryable: Some(false),
    }
}

fn closed(outcome: AttemptOutcome, reason: Option<Reason>) -> ClosedAttempt {
    ClosedAttempt {
        task: TaskId::from_u128(u128::MAX),
        attempt: 1,
        lease: LeaseId::from_u128(9),
        fence: Fence::from_u64(u64::MAX),
        owner: "w".into(),
        granted_at: Time::from_millis(-1),
        started_at: Some(Time::from_millis(0)),
        closed_at: Time::from_millis(7),
        outcome,
        reason,
        fault: Some(fault(Category::Timeout)),
        report: Some(Digest::of(&[b"report"])),
        claims: Some(Json::from(format!("{{\"logs\":\"{}\"}}", "l".repeat(300)))),
    }
}

fn end(state: State, reason: Option<Reason>) -> End {
    let output = Some(Json::from(format!("[{}1]", "0,".repeat(200))));
    End { state, reason, output, fault: Some(fault(Category::UserCode)) }
}

fn requests() -> Vec<Request> {
    let submit = Submit {
        budget: None,
        flow: None,
        id: TaskId::from_u128(1),
        scope: Scope::new("acme", "main"),
        kind: "k".into(),
        queue: "q".into(),
        priority: i32::MIN,
        policy: policy(),
        run_at: Some(Time::from_millis(4)),
        input: Digest::of(&[b"in"]),
        fingerprint: Digest::of(&[b"all"]),
    };
    let progress = Some(Progress { percent: Some(50), message: Some("half".into()) });
    let report = |outcome| {
        let claims = closed(AttemptOutcome::Failed, None).claims;
        let digest = Digest::of(&[b"report"]);
        Request::Report(Report { caller: caller(), outcome, digest, claims, by: None })
    };
    let output = end(State::Succeeded, None).output;
    vec![
        Request::Submit(submit.clone()),
        Request::Submit(Submit {
            flow: Some(Box::new(FlowKey::new("customer", 8))),
            ..submit.clone()
        }),
        Request::Submit(Submit { flow: Some(Box::new(rated())), ..submit.clone() }),
        Request::Submit(Submit { budget: Some(Box::new(budget())), ..submit.clone() }),
        Request::Submit(Submit {
            budget: Some(Box::new(Budget { wall: Some(Span::from_secs(1)), ..Budget::default() })),
            flow: Some(Box::new(FlowKey::new("customer", 8))),
            ..submit.clone()
        }),
        Request::Submit(Submit {
            budget: Some(Box::new(budget())),
            flow: Some(Box::new(rated())),
            ..submit.clone()
        }),
        Request::Submit(Submit { policy: Policy::default(), run_at: None, ..submit }),
        Request::Grant(Grant {
            lease: LeaseId::from_u128(2),
            owner: "w".into(),
            poll: Some("p".into()),
            build: None,
        }),
        Request::Grant(Grant {
            lease: LeaseId::from_u128(2),
            owner: "w".into(),
            poll: None,
            build: Some(Box::new(Build { id: "7".into(), pins: true })),
        }),
        Request::Started(Started { caller: caller(), claimed_at: None }),
        Request::Started(Started { caller: caller(), claimed_at: Some(Time::from_millis(7)) }),
        Request::Heartbeat(Heartbeat { caller: caller(), progress }),
        report(Outcome::Succeeded { output: output.clone() }),
        report(Outcome::Failed(fault(Category::DataQuality))),
        report(Outcome::Cancelled { output }),
        report(Outcome::Succeeded { output: None }),
        Request::Cancel(Cancel { reason: Some("why".into()), mode: CancelMode::Graceful }),
        Request::Cancel(Cancel { reason: None, mode: CancelMode::Immediate }),
        Request::Sweep,
        Request::Undelivered(Undelivered { lease: LeaseId::from_u128(2) }),
        Request::Extend(Extend { stalled_since: Time::from_millis(1), gap: Span::from_millis(2) }),
    ]
}

/// A budget with every member.
fn budget() -> Budget {
    let limits = |factor: u64| Limits {
        cost_micros: Some(factor * 1_000_000),
        tokens: Some(factor),
        steps: Some(0),
        tool_calls: Some(u64::MAX),
    };
    Budget {
        limits: limits(2),
        reserve: Amounts { cost_micros: 1, tokens: 200, steps: 0, tool_calls: u64::MAX },
        soft: limits(1),
        on_soft: OnSoft::Ask,
        wall: Some(Span::from_millis(u64::MAX)),
        until: Some(Time::from_millis(-1)),
        active: Some(Span::from_secs(60)),
        paid_by: Some(u32::MAX),
    }
}

#[test]
fn a_submission_with_a_budget_is_as_short_as_one_without() {
    let submission = |budget: Option<Budget>| {
        let Some(Request::Submit(submit)) = requests().into_iter().next() else { unreachable!() };
        let submit = Submit { budget: budget.map(Box::new), ..submit };
        let said = submitted(&submit);
        let entry = entry(Request::Submit(submit), vec![Event::Submitted(Box::new(said))]);
        InlineHistory::of(TaskId::from_u128(1), &entry).bytes().unwrap().len()
    };
    let limits =
        Limits { cost_micros: Some(5_000_000), tokens: Some(200_000), ..Limits::default() };
    let usual = Budget { limits, ..Budget::default() };
    // It was eight hundred more, as JSON.
    assert!(submission(Some(usual)) <= submission(None) + 16);
}

fn rated() -> FlowKey {
    let rate = Some(Rate { count: 1_000, per: RATE_PER_MAX });
    FlowKey { rate, ..FlowKey::new("customer", UNLIMITED) }
}

fn events() -> Vec<Event> {
    let submitted = Submitted {
        budget: None,
        flow: None,
        id: TaskId::from_u128(1),
        scope: Scope::default(),
        kind: "k".into(),
        queue: "q".into(),
        priority: 3,
        policy: policy(),
        due: Time::from_millis(1),
        input: Digest::of(&[b"in"]),
    };
    let expires_at = Time::from_millis(99);
    let mut events = vec![
        Event::Submitted(Box::new(submitted)),
        Event::Granted {
            lease: LeaseId::from_u128(1),
            owner: "w".into(),
            poll: None,
            fence: Fence::new(1, 1),
            expires_at,
        },
        Event::Started,
        Event::Renewed { expires_at, progress: Some(Progress { percent: None, message: None }) },
        Event::Extended {
            expires_at,
            signalled_at: Some(Time::from_millis(5)),
            progressed_at: Some(Time::from_millis(6)),
        },
        Event::Stalled { since: expires_at },
        Event::CancelRequested { reason: Some("why".into()) },
        Event::CancelSignalled,
    ];
    for outcome in AttemptOutcome::ALL {
        for reason in Reason::ALL {
            let closed = Box::new(closed(outcome, Some(reason)));
            events.push(Event::AttemptClosed { closed, next: Next::Retry { due: expires_at } });
        }
    }
    for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
        events.push(Event::Ended(end(state, None)));
        let closed = Box::new(closed(AttemptOutcome::Succeeded, None));
        let next = Next::End(end(state, Some(Reason::CancelForced)));
        events.push(Event::AttemptClosed { closed, next });
    }
    events
}

#[test]
fn every_request_and_event_reads_back() {
    // S2-114: a record is worth only what can be read back.
    requests().iter().for_each(reads_back);
    events().iter().for_each(reads_back);
    reads_back(&events());
}

#[test]
fn every_column_reads_back() {
    reads_back(&policy());
    Category::ALL.into_iter().for_each(|category| reads_back(&fault(category)));
    reads_back(&CancelRequest {
        requested_at: Time::from_millis(1),
        reason: None,
        signalled_at: Some(Time::from_millis(2)),
    });
    reads_back(&Progress { percent: Some(100), message: Some("all".into()) });
    reads_back(&Resources { memory_bytes: Some(u64::MAX), ..Resources::default() });
    reads_back(&Renewals {
        claim_version: u32::MAX,
        revision: 1,
        decided_at: Time::from_millis(3),
        heartbeat_at: None,
        expires_at: Some(Time::from_millis(4)),
        heard: true,
        progressed_at: Some(Time::from_millis(5)),
        stalled_at: None,
    });
}

#[test]
fn what_we_did_not_write_is_not_read() {
    let read: Result<Policy, Unreadable> = Policy::read("{\"lease\":true}");
    assert_eq!(read.unwrap_err().to_string(), "a stored policy cannot be read");
    assert!(Request::read("{\"sweeping\":{}}").is_err());
    assert!(Event::read("{\"ended\":{\"state\":\"finished\"}}").is_err());
}

#[test]
fn every_policy_reads_back_and_nothing_else_does() {
    let extreme = Policy { lease: Span::from_millis(u64::MAX), failures_max: u32::MAX, ..policy() };
    for policy in [Policy::default(), policy(), extreme] {
        let terms = Terms { policy, stages: Arc::default() };
        let bytes = terms.write();
        assert_eq!(Terms::read(&bytes).unwrap(), terms);
        for length in 0..bytes.len() {
            assert!(Terms::read(&bytes[..length]).is_err(), "{length} bytes are no policy");
        }
        assert!(Terms::read(&[bytes.as_slice(), &[0]].concat()).is_err(), "nor is one byte more");
    }
}

/// What the rules say to a submission.
fn submitted(submit: &Submit) -> Submitted {
    let Submit { id, scope, kind, queue, priority, policy, input, budget, flow, .. } =
        submit.clone();
    let due = Time::from_millis(-1);
    Submitted { budget, flow, id, scope, kind, queue, priority, policy, due, input }
}

/// Entries as the rules produce them, and every other pair of request and event.
fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for request in requests() {
        for event in events() {
            entries.push(entry(request.clone(), vec![event.clone(), event]));
        }
        entries.extend(events().into_iter().map(|event| entry(request.clone(), vec![event])));
        if let Request::Submit(submit) = &request {
            let said = submitted(submit);
            entries.push(entry(request.clone(), vec![Event::Submitted(Box::new(said))]));
        }
    }
    for task in [1, 2] {
        let attempt = ClosedAttempt {
            task: TaskId::from_u128(task),
            attempt: 2,
            lease: LeaseId::from_u128(5),
            reason: None,
            fault: None,
            claims: None,
            ..closed(AttemptOutcome::Succeeded, None)
        };
        let output = Some(Json::from("[1]"));
        let outcome = Outcome::Succeeded { output: output.clone() };
        let digest = attempt.report.unwrap();
        let request =
            Request::Report(Report { caller: caller(), outcome, digest, claims: None, by: None });
        let next = Next::End(End { state: State::Succeeded, reason: None, output, fault: None });
        entries
            .push(entry(request, vec![Event::AttemptClosed { closed: Box::new(attempt), next }]));
    }
    let loaded = Some(Renewals {
        claim_version: u32::MAX,
        revision: 1,
        decided_at: Time::from_millis(i64::MIN),
        heartbeat_at: None,
        expires_at: Some(Time::from_millis(i64::MAX)),
        heard: true,
        progressed_at: Some(Time::from_millis(i64::MIN)),
        stalled_at: Some(Time::from_millis(i64::MAX)),
    });
    entries.last_mut().expect("there are some").loaded = loaded;
    entries
}

#[test]
fn every_entry_of_a_inline_history_reads_back() {
    // S2-114: packed or not, an entry is read as it was written.
    let task = TaskId::from_u128(1);
    for entry in entries() {
        let inline_history = InlineHistory::of(task, &entry);
        let read = inline_history.entries(task).unwrap();
        assert_eq!(read, [payload_digest::digest_payloads(&entry).into_owned()]);
    }
}

#[test]
fn bytes_that_are_no_inline_history_are_refused() {
    let task = TaskId::from_u128(1);
    for entry in entries() {
        let bytes = InlineHistory::of(task, &entry).bytes().unwrap().to_vec();
        for length in 1..bytes.len() {
            let short = InlineHistory::from_bytes(bytes[..length].to_vec());
            assert!(short.entries(task).is_err(), "{length} of {} bytes", bytes.len());
        }
        let mut strange = bytes.clone();
        let form = bytes.len() - body_length(&bytes);
        strange[form] = 200;
        assert!(InlineHistory::from_bytes(strange).entries(task).is_err(), "an unknown form");
    }
}

/// How many bytes follow the length of the only entry of an inline history.
fn body_length(bytes: &[u8]) -> usize {
    let digits = bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    bytes.len() - digits
}

#[test]
fn a_inline_history_takes_entries_in_order_as_long_as_there_is_room() {
    let task = TaskId::from_u128(1);
    let numbered = |n| Entry { n, ..entry(Request::Sweep, vec![Event::CancelSignalled]) };
    let mut inline_history = InlineHistory::default();
    assert_eq!(inline_history.bytes(), None, "an empty tale is not stored");
    assert_eq!(inline_history.try_append(task, 1, &numbered(1)), Appended::NoRoom, "told before");
    assert_eq!(inline_history.try_append(task, 1, &numbered(3)), Appended::NoRoom, "not yet");
    assert_eq!(inline_history.try_append(task, 1, &numbered(2)), Appended::Inline);
    assert_eq!(inline_history.try_append(task, 1, &numbered(2)), Appended::NoRoom, "told just now");
    let mut last = 2;
    while inline_history.try_append(task, 1, &numbered(last + 1)) == Appended::Inline {
        last += 1;
    }
    let told = inline_history.entries(task).unwrap();
    assert_eq!(told.len() as u32, last - 1, "what found no room left no trace");
    assert!(last > 10 && inline_history.bytes().unwrap().len() <= 1_024, "{last} entries");
}

fn entry(request: Request, events: Vec<Event>) -> Entry {
    Entry { n: 1, at: Time::from_millis(1), epoch: 1, rules: 1, request, loaded: None, events }
}

#[test]
fn payloads_are_stored_once_and_come_back_with_the_entry() {
    let attempt = closed(AttemptOutcome::Failed, None);
    let mut ended = end(State::Succeeded, None);
    ended.fault.clone_from(&attempt.fault);
    let event =
        Event::AttemptClosed { closed: Box::new(attempt.clone()), next: Next::End(ended.clone()) };
    for request in requests() {
        let mut whole = entry(request, vec![event.clone()]);
        if let Request::Report(report) = &mut whole.request
            && let Outcome::Failed(fault) = &mut report.outcome
        {
            *fault = attempt.fault.clone().unwrap();
        }
        let short = payload_digest::digest_payloads(&whole).into_owned();
        assert!(!short.events.write().contains("0,0,0"), "no output in the history");
        assert!(!short.events.write().contains("llll"), "no claims in the history");
        let attempts = [attempt.clone()];
        let payloads = Payloads { attempts: &attempts, end: Some(&ended), checkpoints: &[] };
        assert_eq!(payload_digest::restore(short.clone(), payloads), whole);
        let changed = End { output: Some("[]".into()), ..ended.clone() };
        let payloads = Payloads { attempts: &attempts, end: Some(&changed), checkpoints: &[] };
        assert_ne!(
            payload_digest::restore(short, payloads),
            whole,
            "another output is not taken for it"
        );
    }
}

proptest! {
    #[test]
    fn any_text_reads_back(message in ".*", trace in ".{0,200}", retryable: Option<bool>) {
        let fault = Fault {
            category: Category::UserCode,
            message: message.into(),
            stack_trace: Some(trace.into()),
            retryable,
        };
        prop_assert_eq!(Fault::read(&fault.write()).unwrap(), fault);
    }
}
