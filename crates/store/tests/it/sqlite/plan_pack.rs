//! Packed entries and packed terms of plans with stages read back exactly, are short, and represent nothing that they
//! cannot hold.

use std::sync::Arc;

use store::Entry;
use store::codec::inline_history::InlineHistory;
use store::codec::packed_terms::Terms;
use verdict::event::Submitted;
use verdict::plan::{
    Advance, Capabilities, NextLease, PlanEvent, PlanForm, PlanRequest, PlanSubmit, Stage, Turn,
};
use verdict::request::{Caller, Outcome, Report, Submit};
use verdict::run::{Checkpoint, Recorded, RunEvent, RunRequest, Spend, Step, StepOutcome};
use verdict::{
    AttemptOutcome, ClosedAttempt, Digest, End, Event, Fence, Json, LeaseId, Limits, Next, Policy,
    Request, Scope, Span, State, TaskId, Time,
};

const TASK: TaskId = TaskId::from_u128(9);
const PLANNED: u8 = 9;
const STAGE_SUCCEEDED: u8 = 10;
const LAST_STAGE_SUCCEEDED: u8 = 11;
const STAGE_ADVANCED: u8 = 13;
const STAGE_LEFT: u8 = 14;
const LAST_STAGE_LEFT: u8 = 15;

fn digest(of: &str) -> Digest {
    Digest::of(&[of.as_bytes()])
}

fn asked() -> verdict::approval::Terms {
    verdict::approval::Terms {
        roles: vec!["ops".into()],
        keys: vec![],
        quorum: 2,
        expires_at: None,
        expires_in: Some(Span::from_secs(60)),
        default: Some(verdict::approval::Decision::Rejected),
        subject: Some("ship it".into()),
        digest: Some(digest("what")),
        content: None,
        shows: None,
        done_by: vec!["k3".into()],
    }
}

fn stage(key: &str) -> Stage {
    Stage {
        key: key.into(),
        kind: "resize".into(),
        queue: "images".into(),
        policy: Policy::default(),
        ceiling: Limits::default(),
        time_limit: None,
        input: digest(key),
        has_references: false,
        continues_on_error: false,
        is_always: false,
        is_gate: false,
        may: Capabilities::ALL,
        asks: None,
        is_prepared: false,
    }
}

fn ceiling() -> Limits {
    Limits { tokens: Some(70_000), tool_calls: Some(0), ..Limits::default() }
}

/// Stages with equal and other policies, and one for each thing that a stage can have.
fn stages() -> Vec<Stage> {
    let other = Policy { failures_max: 99, seed: Some(7), ..Policy::default() };
    let none = Capabilities { steps: false, waits: false, children: false };
    vec![
        stage("plain"),
        Stage { has_references: true, policy: other.clone(), ..stage("refers") },
        Stage { continues_on_error: true, policy: other, ..stage("continues") },
        Stage { is_always: true, ..stage("always") },
        Stage { is_gate: true, time_limit: Some(Span::from_millis(5)), ..stage("gate") },
        Stage { may: Capabilities::STEPS_ONLY, ..stage("steps") },
        Stage { may: Capabilities { waits: true, ..none }, ..stage("waits") },
        Stage { may: Capabilities { children: true, ..none }, ..stage("children") },
        Stage { asks: Some(Arc::new(asked())), ..stage("asks") },
    ]
}

fn entry(request: Request, events: Vec<Event>) -> Entry {
    Entry { n: 3, at: Time::from_millis(8), epoch: 1, rules: 6, request, loaded: None, events }
}

fn planned(stages: Vec<Stage>) -> Entry {
    let submit = Submit {
        budget: None,
        flow: None,
        id: TASK,
        scope: Scope::default(),
        kind: "resize".into(),
        queue: "images".into(),
        priority: -3,
        policy: Policy::default(),
        run_at: None,
        input: digest("plan"),
        fingerprint: digest("all"),
    };
    let Submit { id, scope, kind, queue, priority, policy, input, .. } = submit.clone();
    let due = Time::from_millis(5);
    let said = Submitted {
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
    let form = PlanForm::Stages { digest: digest("plan"), stages: stages.into() };
    let planned = RunEvent::Plan(Box::new(PlanEvent::Planned(form.clone())));
    let asked = PlanRequest::Submit(PlanSubmit { submit, form, steps: Arc::from([]) });
    let request = Request::Run(Box::new(RunRequest::Plan(asked)));
    entry(request, vec![Event::Submitted(Box::new(said)), Event::Run(Box::new(planned))])
}

fn succeeded(next: Next) -> Entry {
    let caller = Caller { worker: "w".into(), attempt: 2, lease: LeaseId::from_u128(5), epoch: 3 };
    let output = Some(Json::from("{\"ok\":true}"));
    let step = Step {
        outcome: StepOutcome::Succeeded { result: output.clone() },
        input: Some(digest("input")),
        spend: Spend::default(),
        is_savepoint: true,
    };
    let (attempt, at) = (caller.attempt, Time::from_millis(8));
    let recorded = Recorded::Step(step);
    let checkpoint =
        Checkpoint { number: 4, key: "plain".into(), digest: digest("d"), attempt, at, recorded };
    let closed = ClosedAttempt {
        task: TASK,
        attempt,
        lease: caller.lease,
        fence: Fence::from_u64(11),
        owner: caller.worker.clone(),
        granted_at: Time::from_millis(1),
        started_at: None,
        closed_at: at,
        outcome: AttemptOutcome::Succeeded,
        reason: None,
        fault: None,
        report: Some(digest("report")),
        claims: None,
    };
    let outcome = Outcome::Succeeded { output };
    let report = Report { caller, outcome, digest: digest("report"), claims: None, by: None };
    let recorded = Event::Run(Box::new(RunEvent::Checkpointed(Box::new(checkpoint))));
    let closed = Event::AttemptClosed { closed: Box::new(closed), next };
    entry(Request::Report(report), vec![recorded, closed])
}

/// The same with a report that asks for the next stage, and gets it or not.
fn advanced(next: Next, is_granted: bool) -> Entry {
    let Entry { request, mut events, .. } = succeeded(next);
    let lease = LeaseId::from_u128(6);
    if is_granted {
        let (owner, poll) = ("w".into(), Some(NextLease::mark(LeaseId::from_u128(5))));
        let (fence, expires_at) = (Fence::from_u64(12), Time::from_millis(90));
        events.push(Event::Granted { lease, owner, poll, fence, expires_at });
    }
    let next = NextLease { lease, until: 3, closed_queues: Vec::new() };
    let asked = PlanRequest::Advance(Advance { report: Box::new(request), next });
    entry(Request::Run(Box::new(RunRequest::Plan(asked))), events)
}

/// One that was asked for something else, or got something else.
fn advanced_otherwise(change: impl FnOnce(&mut NextLease, &mut Vec<Event>)) -> Entry {
    let mut entry = advanced(turn(None), true);
    let Request::Run(run) = &mut entry.request else { unreachable!("a request of a plan") };
    let RunRequest::Plan(PlanRequest::Advance(asked)) = &mut **run else {
        unreachable!("a report that asks")
    };
    change(&mut asked.next, &mut entry.events);
    entry
}

fn turn(ending: Option<End>) -> Next {
    Next::Stage(Box::new(Turn { ending, ..Turn::new(1, Time::from_millis(8)) }))
}

fn end(reason: Option<verdict::Reason>) -> End {
    End { state: State::Succeeded, reason, output: None, fault: None }
}

fn form(history: &InlineHistory) -> u8 {
    let bytes = history.bytes().unwrap();
    bytes[bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1]
}

#[test]
fn entries_of_stages_are_packed_and_read_back() {
    // S2-114: packed or not, an entry is read as it was written.
    let expected = [
        (planned(stages()), PLANNED),
        (succeeded(turn(None)), STAGE_SUCCEEDED),
        (succeeded(Next::End(end(None))), LAST_STAGE_SUCCEEDED),
        (advanced(turn(None), true), STAGE_ADVANCED),
        (advanced(turn(None), false), STAGE_LEFT),
        (advanced(Next::End(end(None)), false), LAST_STAGE_LEFT),
    ];
    for (entry, packed_as) in expected {
        let history = InlineHistory::of(TASK, &entry);
        assert_eq!(form(&history), packed_as);
        assert_eq!(history.entries(TASK).unwrap(), std::slice::from_ref(&entry));
        let bytes = history.bytes().unwrap();
        for length in 1..bytes.len() {
            let short = InlineHistory::from_bytes(bytes[..length].to_vec());
            assert!(short.entries(TASK).is_err(), "{length} of {} bytes", bytes.len());
        }
    }
}

/// What makes an entry say something else than its packed form can hold.
fn changed(change: impl FnOnce(&mut Checkpoint, &mut ClosedAttempt)) -> Entry {
    let mut entry = succeeded(turn(None));
    let [Event::Run(event), Event::AttemptClosed { closed, .. }] = &mut *entry.events else {
        unreachable!("a checkpoint and a closed attempt")
    };
    let RunEvent::Checkpointed(checkpoint) = &mut **event else { unreachable!("a checkpoint") };
    change(checkpoint, closed);
    entry
}

#[test]
fn an_entry_that_says_anything_else_is_not_packed_and_reads_back_too() {
    let step = |of: fn(&mut Step)| {
        changed(|checkpoint, _| {
            let Recorded::Step(step) = &mut checkpoint.recorded else { unreachable!("a step") };
            of(step);
        })
    };
    let mut limited = stages();
    limited[1].ceiling = ceiling();
    let entries = [
        planned(limited),
        succeeded(turn(Some(end(None)))),
        succeeded(Next::End(end(Some(verdict::Reason::CancelRequested)))),
        succeeded(Next::Retry { due: Time::from_millis(1) }),
        step(|step| step.is_savepoint = false),
        step(|step| step.spend.tokens = 1),
        step(|step| step.input = None),
        step(|step| step.outcome = StepOutcome::Succeeded { result: None }),
        changed(|checkpoint, _| checkpoint.attempt = 1),
        changed(|checkpoint, _| checkpoint.at = Time::from_millis(9)),
        changed(|_, closed| closed.owner = "other".into()),
        changed(|_, closed| closed.task = TaskId::from_u128(1)),
        advanced_otherwise(|next, _| next.closed_queues.push("other".into())),
        advanced_otherwise(|next, _| next.lease = LeaseId::from_u128(7)),
        advanced_otherwise(|_, events| events.push(Event::Started)),
    ];
    for entry in entries {
        let history = InlineHistory::of(TASK, &entry);
        assert!(form(&history) < PLANNED, "{entry:?}");
        assert_eq!(history.entries(TASK).unwrap(), [entry]);
    }
}

#[test]
fn terms_hold_stages_in_a_fraction_of_their_text() {
    let mut limited = stages();
    (limited[0].ceiling, limited[8].ceiling) = (ceiling(), ceiling());
    for stages in [stages(), limited] {
        let terms = Terms { policy: Policy::default(), stages: stages.into() };
        let bytes = terms.write();
        assert_eq!(Terms::read(&bytes).unwrap(), terms);
        for length in 0..bytes.len() {
            assert!(Terms::read(&bytes[..length]).is_err(), "{length} bytes are no terms");
        }
    }
    let alike = ["a", "b", "c", "d", "e"].map(stage).to_vec();
    let five = Terms { policy: Policy::default(), stages: alike.into() };
    assert!(five.write().len() < 350, "{} bytes for five stages", five.write().len());
}
