//! Plans under construction, for the tests of stages and steps.

use verdict::plan::{
    Advance, Capabilities, NextLease, PlanAnswer, PlanForm, PlanRequest, PlanStep, PlanSubmit,
    Stage, StepTerms,
};
use verdict::request::{Caller, Outcome, Report, Submit};
use verdict::run::{ChildCall, RunAnswer, RunRequest};
use verdict::{Answer, Digest, LeaseId, Limits, Name, Policy, Request, Span, TaskId};

use crate::family::{Family, ROOT, run};
use crate::world::submission;

/// A stage whose kind is its key, in the queue `work`.
pub(crate) fn stage(key: &str) -> Stage {
    Stage {
        key: key.into(),
        kind: key.into(),
        queue: "work".into(),
        policy: Policy::default(),
        ceiling: Limits::default(),
        time_limit: None,
        input: Digest::of(&[key.as_bytes()]),
        has_references: false,
        continues_on_error: false,
        is_always: false,
        is_gate: false,
        may: Capabilities::ALL,
        asks: None,
        is_prepared: false,
    }
}

pub(crate) fn always(key: &str) -> Stage {
    Stage { is_always: true, ..stage(key) }
}

/// A family whose root passes through these stages.
pub(crate) fn staged(stages: Vec<Stage>, policy: Policy) -> Family {
    let mut family = Family::empty();
    let answer = family.ask(ROOT, submit_stages(stages, policy));
    assert!(matches!(answer, Answer::Accepted { .. }), "{answer:?}");
    family
}

pub(crate) fn submit_stages(stages: Vec<Stage>, policy: Policy) -> Request {
    let submit = Submit { policy, ..submission(Policy::default()) };
    let form = PlanForm::Stages { digest: Digest::of(&[b"plan"]), stages: stages.into() };
    plan(PlanRequest::Submit(PlanSubmit { submit, form, steps: [].into() }))
}

pub(crate) const PLAIN: StepTerms = terms(false, false);

pub(crate) const fn terms(continues_on_error: bool, is_always: bool) -> StepTerms {
    let (time_limit, has_references, asks) = (None, false, None);
    StepTerms {
        continues_on_error,
        is_always,
        time_limit,
        has_references,
        asks,
        when: None,
        keeps_keys: false,
        done_by: Vec::new(),
    }
}

/// The step in this place; its task's id follows from the place.
pub(crate) fn step(place: usize, upstreams: &[usize], terms: StepTerms) -> PlanStep {
    let submit = Submit { id: task_of(place), ..submission(Policy::default()) };
    let upstreams: Vec<Name> = upstreams.iter().map(|place| key_of(*place)).collect();
    let child = ChildCall { key: key_of(place), is_detached: false, submit };
    PlanStep { child, upstreams: upstreams.into(), terms }
}

pub(crate) fn key_of(place: usize) -> Name {
    Name::from(format!("s{place:05}"))
}

pub(crate) fn task_of(place: usize) -> TaskId {
    TaskId::from_u128(1_000 + place as u128)
}

/// A family whose root has these steps, with all messages decided.
pub(crate) fn planned(steps: Vec<PlanStep>) -> Family {
    let mut family = Family::empty();
    let answer = family.ask(ROOT, submit_steps(steps, Policy::default()));
    assert!(matches!(answer, Answer::Accepted { .. }), "{answer:?}");
    family
}

pub(crate) fn submit_steps(steps: Vec<PlanStep>, policy: Policy) -> Request {
    let submit = Submit { policy, ..submission(Policy::default()) };
    let form = PlanForm::Steps { digest: Digest::of(&[b"plan"]), count: steps.len() as u32 };
    plan(PlanRequest::Submit(PlanSubmit { submit, form, steps: steps.into() }))
}

pub(crate) fn plan(request: PlanRequest) -> Request {
    run(RunRequest::Plan(request))
}

/// What a poll allows that takes every stage.
pub(crate) fn next_lease(lease: u128) -> NextLease {
    NextLease { lease: LeaseId::from_u128(lease), until: u32::MAX, closed_queues: Vec::new() }
}

/// A report that asks for the next stage.
pub(crate) fn advance(caller: &Caller, outcome: Outcome, next: NextLease) -> Request {
    let digest = Digest::of(&[format!("{outcome:?}").as_bytes()]);
    let report = Report { caller: caller.clone(), outcome, digest, claims: None, by: None };
    advance_with(Request::Report(report), next)
}

/// The same with a report that says more.
pub(crate) fn advance_with(report: Request, next: NextLease) -> Request {
    plan(PlanRequest::Advance(Advance { report: Box::new(report), next }))
}

pub(crate) fn advanced(answer: Answer) -> Option<LeaseId> {
    match answer {
        Answer::Run(answer) => match *answer {
            RunAnswer::Plan(PlanAnswer::Advanced { lease, .. }) => lease,
            other => panic!("not advanced but {other:?}"),
        },
        other => panic!("not advanced but {other:?}"),
    }
}

/// Longer than every backoff.
pub(crate) const LATER: Span = Span::from_secs(600);
