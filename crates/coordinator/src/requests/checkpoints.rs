//! Translates what workers of durable runs send, and signals. See [`super`] for the rules of translation.

use edge::digests::{self, ItemDigests};
use store::TaskKey;
use verdict::approval::{ApprovalCall, Decision, Terms, signal_name};
use verdict::effect::{Declared, EffectId, watch};
use verdict::request::{Caller, Submit};
use verdict::run::{
    Awaited, AwaitedEvent, CheckpointCall, ChildCall, Divergence, RunRequest, SignalCall, Spend,
    Step, StepCall, StepOutcome, Then, WaitCall, WaitMode,
};
use verdict::{Digest, Fault, Name, Request, Scope, Span, TaskId, Text};
use wire::FieldError;
use wire::approvals::ApprovalTerms;
use wire::plan::{self, PlanStep};
use wire::requests::{
    AwaitedEffect, AwaitedItem, ChildRun, Completed, DeclaredEffect, Diverged, SendSignal,
    StepError, StepRecord, WaitFor,
};

use super::budgets::spent;
use super::{checked_outcome, claims, instant, known_submission, raw, reported_category};
use crate::item::{Item, Submission, Watched};
use crate::submit_defaults::SubmitDefaults;

/// A checkpoint call, with the submissions of the children that it wants, in their order.
#[derive(Clone, Debug)]
pub struct CheckpointRequest {
    pub call: CheckpointCall,
    pub children: Vec<Submission>,
    /// What its steps ask for.
    pub effects: Vec<Declared>,
    /// The effects that its wait is for, each with the key of its item.
    awaited: Vec<(AwaitedEffect, Name)>,
}

impl CheckpointRequest {
    pub(crate) fn into_item(self, key: TaskKey) -> Item {
        let Self { call, children, effects, awaited } = self;
        let watched: Box<[Watched]> =
            awaited.iter().map(|(effect, item)| watched(key.id, effect, item)).collect();
        let request = Request::Run(Box::new(RunRequest::Checkpoint(call)));
        if children.is_empty() && effects.is_empty() && watched.is_empty() {
            return Item::asking(key, request);
        }
        let (children, effects) = (children.into(), effects.into());
        Item::WithChildren { key, request, children, effects, watched, log: None }
    }
}

/// Translates a call that was validated when it was parsed. `scope` is that of its task.
pub(crate) fn checked_checkpoint(
    caller: Caller,
    scope: &Scope,
    call: wire::requests::CheckpointCall,
    defaults: &SubmitDefaults,
) -> Result<CheckpointRequest, FieldError> {
    check_contents(call.wait.as_ref())?;
    let awaited = call.wait.as_ref().map_or_else(Vec::new, awaited_effects);
    let items =
        ItemDigests::of(&call.steps, &call.children).with_effects(&call.steps, &call.effects);
    let digest = digests::checkpoint(&call, &items);
    let wire::requests::CheckpointCall {
        attempt: _,
        worker_id: _,
        steps: done,
        children: wanted,
        wait,
        diverged,
        effects: declared,
        log: _,
    } = call;
    let then = match (wait, diverged) {
        (Some(wait), _) => Then::Wait(wait_call(wait)),
        (None, Some(diverged)) => Then::Diverged(divergence(diverged)),
        (None, None) => Then::Continue,
    };
    let (children, submissions) = children(scope, wanted, &items.children, defaults);
    let steps = steps(done, &items.steps)?;
    let call = CheckpointCall { caller, digest, steps, children, then, asked_by: None };
    Ok(CheckpointRequest { call, children: submissions, effects: effects(declared), awaited })
}

/// Translates a report with which steps or children ride along.
pub(crate) fn checked_last_call(
    caller: Caller,
    scope: &Scope,
    mut completed: Completed,
    defaults: &SubmitDefaults,
) -> Result<CheckpointRequest, FieldError> {
    let items = ItemDigests::of(&completed.steps, &completed.children)
        .with_effects(&completed.steps, &completed.effects);
    let digest = digests::last_call(&completed, &items);
    let claims = claims(&completed);
    let done = std::mem::take(&mut completed.steps);
    let wanted = std::mem::take(&mut completed.children);
    let declared = std::mem::take(&mut completed.effects);
    let then = Then::Report { outcome: checked_outcome(completed)?, claims };
    let (children, submissions) = children(scope, wanted, &items.children, defaults);
    let steps = steps(done, &items.steps)?;
    let call = CheckpointCall { caller, digest, steps, children, then, asked_by: None };
    let (effects, awaited) = (effects(declared), Vec::new());
    Ok(CheckpointRequest { call, children: submissions, effects, awaited })
}

/// A signal. Without an idempotency key it is a new signal each time it arrives.
pub(crate) fn checked_signal(signal: SendSignal, key: Option<String>) -> SignalCall {
    let digest = digests::signal(&signal);
    let SendSignal { name, payload } = signal;
    let payload = payload.as_ref().map(raw);
    SignalCall { name: name.into(), key: key.map(Name::from), payload, digest }
}

fn effects(declared: Vec<DeclaredEffect>) -> Vec<Declared> {
    let effect = |effect: DeclaredEffect| {
        let DeclaredEffect { key, step, endpoint, r#type, aggregate, body } = effect;
        Declared {
            step: step.into(),
            key: key.into(),
            endpoint: endpoint.into(),
            kind: r#type.into(),
            aggregate: aggregate.map(Name::from),
            body: raw(&body),
        }
    };
    declared.into_iter().map(effect).collect()
}

fn steps(steps: Vec<StepRecord>, digests: &[Digest]) -> Result<Vec<StepCall>, FieldError> {
    let at = |index: usize| move |fault: FieldError| fault.under(&format!("steps[{index}]"));
    let steps = steps.into_iter().zip(digests).enumerate();
    steps.map(|(n, (done, digest))| step(done, *digest).map_err(at(n))).collect()
}

fn step(done: StepRecord, digest: Digest) -> Result<StepCall, FieldError> {
    let StepRecord { key, outcome, result, error, input_digest, spend, savepoint } = done;
    let outcome = match outcome {
        wire::StepOutcome::Succeeded => StepOutcome::Succeeded { result: result.as_ref().map(raw) },
        wire::StepOutcome::Failed => failed(error)?,
    };
    let step = Step {
        outcome,
        input: input_digest.as_deref().and_then(Digest::parse),
        spend: spend.map_or_else(Spend::default, spent),
        is_savepoint: savepoint,
    };
    Ok(StepCall { key: key.into(), digest, step })
}

fn failed(error: Option<StepError>) -> Result<StepOutcome, FieldError> {
    let missing = || FieldError::new("error", "is missing; a FAILED step needs a reason");
    let StepError { category, reason, message, stack_trace, retryable } =
        error.ok_or_else(missing)?;
    let category = reported_category(category)
        .ok_or_else(|| FieldError::new("error.category", "CANCELLED is no failure of a step"))?;
    let stack_trace = stack_trace.map(Into::into);
    let fault = Fault { category, message: message.into(), stack_trace, retryable };
    Ok(StepOutcome::Failed { fault, reason: reason.map(Text::from) })
}

fn children(
    scope: &Scope,
    wanted: Vec<ChildRun>,
    digests: &[Digest],
    defaults: &SubmitDefaults,
) -> (Vec<ChildCall>, Vec<Submission>) {
    let wanted = wanted.into_iter().zip(digests);
    wanted.map(|(wanted, digest)| child(scope, wanted, *digest, defaults)).unzip()
}

/// A child without an id, which it gets when the call is decided.
fn child(
    scope: &Scope,
    wanted: ChildRun,
    fingerprint: Digest,
    defaults: &SubmitDefaults,
) -> (ChildCall, Submission) {
    let (key, is_detached) = (Name::from(wanted.key.as_str()), wanted.detached);
    let submission = known_submission(scope, wanted.into_run(), None, fingerprint, defaults);
    let submit = Submit {
        id: TaskId::from_u128(0),
        scope: scope.clone(),
        kind: submission.kind.clone(),
        queue: submission.queue.clone(),
        priority: submission.priority,
        policy: submission.policy.clone(),
        run_at: submission.run_at,
        input: Digest::of(&[submission.spec.input.as_str().as_bytes()]),
        budget: submission.budget.clone(),
        flow: submission.flow.clone(),
        fingerprint,
    };
    (ChildCall { key, is_detached, submit }, submission)
}

fn check_contents(wait: Option<&WaitFor>) -> Result<(), FieldError> {
    for (index, item) in wait.iter().flat_map(|wait| wait.items.iter().enumerate()) {
        let checked = item.approval.as_ref().map_or(Ok(()), check_content);
        checked.map_err(|fault| fault.under(&format!("wait.for[{index}].approval")))?;
    }
    Ok(())
}

fn wait_call(wait: WaitFor) -> WaitCall {
    let digest = digests::wait(&wait);
    let WaitFor { key, mode, items, max_ms } = wait;
    let approvals = items.iter().filter_map(approval_call).collect();
    let mode = match mode {
        wire::WaitMode::All => WaitMode::All,
        wire::WaitMode::Any => WaitMode::Any,
    };
    WaitCall {
        key: key.into(),
        digest,
        mode,
        items: items.into_iter().map(awaited).collect(),
        approvals,
        max: max_ms.map(Span::from_millis),
    }
}

fn awaited(item: AwaitedItem) -> Awaited {
    let AwaitedItem { key, until, signal, child, approval: _, effect } = item;
    let key = Name::from(key);
    let event = match (until, signal, child, effect) {
        (Some(until), _, _, _) => AwaitedEvent::Time(instant(until)),
        (None, Some(signal), _, _) => AwaitedEvent::Signal(signal.into()),
        (None, None, Some(child), _) => AwaitedEvent::Child(child.into()),
        // What becomes of an effect is a signal, and what comes of an approval too.
        (None, None, None, Some(_)) => AwaitedEvent::Signal(watch::signal_name(&key)),
        (None, None, None, None) => AwaitedEvent::Signal(signal_name(&key)),
    };
    Awaited { key, event }
}

fn awaited_effects(wait: &WaitFor) -> Vec<(AwaitedEffect, Name)> {
    let awaited = |item: &AwaitedItem| Some((item.effect.clone()?, item.key.as_str().into()));
    wait.items.iter().filter_map(awaited).collect()
}

/// A task can name only its own effects: the id of an effect is made of its task.
fn watched(task: TaskId, effect: &AwaitedEffect, item: &Name) -> Watched {
    let AwaitedEffect { step, key } = effect;
    let (step, key) = (Name::from(step.as_str()), Name::from(key.as_str()));
    Watched { effect: EffectId::of_step(task, &step, &key), item: item.clone() }
}

/// An item that asks for an approval.
fn approval_call(item: &AwaitedItem) -> Option<ApprovalCall> {
    let terms = approval_terms(item.approval.clone()?);
    Some(ApprovalCall { item: item.key.as_str().into(), terms, asked_by: None })
}

/// Refuses a digest that is not that of the content: people would decide about something else than they are shown.
pub(super) fn check_content(terms: &ApprovalTerms) -> Result<(), FieldError> {
    let (Some(text), Some(digest)) = (terms.content_text(), terms.digest.as_deref()) else {
        return Ok(());
    };
    let made = Digest::of_bytes(text.as_bytes());
    match Digest::parse(digest) == Some(made) {
        true => Ok(()),
        false => Err(FieldError::new(
            "digest",
            format!(
                "is not the SHA-256 of `content` in its canonical form, which is {made}; leave it out"
            ),
        )),
    }
}

/// The terms of a step. What is composed of outputs is filled in when people are asked.
pub(super) fn step_terms(step: &PlanStep) -> Option<Terms> {
    let mut approval = step.approval.clone()?;
    if step.composes() {
        return Some(approval_terms(ApprovalTerms { content: None, digest: None, ..approval }));
    }
    // Data that looks like a reference is wrapped in the plan, and shown as it is.
    let unwrapped = approval.content.as_ref().map(|content| plan::resolve(content, |_| None));
    approval.content = unwrapped.and_then(Result::ok);
    Some(approval_terms(approval))
}

pub(super) fn approval_terms(terms: ApprovalTerms) -> Terms {
    let content = terms.content_text().map(Text::from);
    let ApprovalTerms {
        roles,
        keys,
        quorum,
        expires_at,
        expires_in_ms,
        default,
        subject,
        digest,
        content: _,
        subject_from: _,
    } = terms;
    let shown = content.as_ref().map(|text| Digest::of_bytes(text.as_str().as_bytes()));
    let names = |names: Vec<String>| names.into_iter().map(Name::from).collect();
    Terms {
        roles: names(roles),
        keys: names(keys),
        quorum: quorum.unwrap_or(1),
        expires_at: expires_at.map(instant),
        expires_in: expires_in_ms.map(Span::from_millis),
        default: default.map(approval_decision),
        subject: subject.map(Text::from),
        digest: shown.or_else(|| digest.as_deref().and_then(Digest::parse)),
        content,
        shows: None,
        done_by: Vec::new(),
    }
}

pub(crate) fn approval_decision(decision: wire::ApprovalDecision) -> Decision {
    match decision {
        wire::ApprovalDecision::Approved => Decision::Approved,
        wire::ApprovalDecision::Rejected => Decision::Rejected,
    }
}

fn divergence(diverged: Diverged) -> Divergence {
    let Diverged { branch, index, recorded, actual } = diverged;
    Divergence { branch: branch.into(), index, recorded: recorded.into(), actual: actual.into() }
}
