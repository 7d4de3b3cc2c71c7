//! What can happen next in a world of a plan, and the requests that it makes.

use std::sync::Arc;

use verdict::plan::{PlanForm, PlanRequest, PlanStep, PlanSubmit, StepTerms};
use verdict::request::{Caller, CancelMode, Outcome, Report, Submit};
use verdict::run::{ChildCall, RunRequest};
use verdict::{Category, Digest, Fault, Name, Policy, Request, Scope, Span};

use super::world::{DeclaredStep, PlanBounds, ROOT, id};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A worker's poll is granted the step.
    Poll(usize),
    /// A report under the lease with this index: for the first time, or again.
    Report(usize, bool),
    Cancel(CancelMode),
    Sweep(usize),
    /// A saved message is decided.
    Deliver(usize),
    /// A message that was decided is decided again.
    Repeat(usize),
}

fn digest(number: u8) -> Digest {
    Digest::from_bytes([number; 32])
}

fn submit(at: usize) -> Submit {
    Submit {
        budget: None,
        flow: None,
        id: id(at),
        scope: Scope::default(),
        kind: "k".into(),
        queue: "q".into(),
        priority: 0,
        policy: Policy { failures_max: 1, lease: Span::from_secs(60), ..Policy::default() },
        run_at: None,
        input: digest(0),
        fingerprint: digest(3),
    }
}

/// The submission of the plan.
pub(super) fn submission(bounds: &PlanBounds) -> PlanSubmit {
    let step = |(at, declared): (usize, &DeclaredStep)| PlanStep {
        child: ChildCall { key: declared.key.into(), is_detached: false, submit: submit(at + 1) },
        upstreams: declared.after.iter().map(|key| Name::from(*key)).collect(),
        terms: StepTerms {
            continues_on_error: declared.continues,
            is_always: declared.always,
            time_limit: None,
            has_references: false,
            asks: None,
            when: None,
            keeps_keys: false,
            done_by: Vec::new(),
        },
    };
    let steps: Arc<[PlanStep]> = bounds.steps.iter().enumerate().map(step).collect();
    let form = PlanForm::Steps { digest: digest(9), count: steps.len() as u32 };
    PlanSubmit { submit: submit(ROOT), form, steps }
}

pub(super) fn planned(plan: PlanSubmit) -> Request {
    Request::Run(Box::new(RunRequest::Plan(PlanRequest::Submit(plan))))
}

/// The report of a worker. A failure is final.
pub(super) fn report(caller: Caller, succeeds: bool) -> Request {
    let (category, message) = (Category::DataQuality, "x".into());
    let fault = Fault { category, message, stack_trace: None, retryable: None };
    let outcome = match succeeds {
        true => Outcome::Succeeded { output: None },
        false => Outcome::Failed(fault),
    };
    Request::Report(Report {
        caller,
        outcome,
        digest: digest(u8::from(succeeds)),
        claims: None,
        by: None,
    })
}
