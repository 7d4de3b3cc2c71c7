//! Translates requests of the API into requests of the rules, member by member.
//!
//! HTTP and programs that embed the coordinator both use this, so that a request means the same for both: the same
//! limits, the same defaults, and the same digests by which a repeated submission or report is recognised. Nothing is
//! decided here. Structs are destructured exhaustively: a new member does not compile until it is translated.

mod budgets;
mod checkpoints;
#[cfg(feature = "http")]
mod log;
mod stages;
mod steps;

use edge::digests;
use serde::Serialize;
use store::{Resources, Spec};
use verdict::flow::debounce::DebounceCall;
use verdict::flow::{Debounce, Hold};
use verdict::request::{Caller, Outcome, Report};
use verdict::{
    Digest, Fault, FlowKey, Name, OnStall, Policy, ProgressClock, Scope, Span, Text, Time,
};
use wire::requests::{
    Completed, Flow, FlowHold, Metrics, ReportedError, Stall, StallAction, SubmitRun,
};
use wire::{Check, FieldError, TraceContext, limits};

#[cfg(feature = "http")]
pub(crate) use self::budgets::{budget, metered};
pub use self::checkpoints::CheckpointRequest;
#[cfg(feature = "http")]
pub(crate) use self::checkpoints::{
    approval_decision, checked_checkpoint, checked_last_call, checked_signal,
};
#[cfg(feature = "http")]
pub(crate) use self::log::sent_log;
use crate::item::Submission;
use crate::submit_defaults::{SubmitDefaults, terms_of};

/// A run to submit, with the documented defaults. Its idempotency key is the member `idempotency_key`.
pub fn submission(scope: &Scope, run: SubmitRun) -> Result<Submission, FieldError> {
    submission_with(scope, run, &SubmitDefaults::default())
}

/// The same with an operator's defaults.
pub fn submission_with(
    scope: &Scope,
    mut run: SubmitRun,
    defaults: &SubmitDefaults,
) -> Result<Submission, FieldError> {
    run.repair();
    run.check()?;
    let key = run.idempotency_key.take();
    Ok(checked_submission(scope, run, key, defaults))
}

/// The end of an attempt, as its worker reports it. `caller` is [`crate::Granted::caller`] of the lease. Steps and
/// children do not ride with it: see [`last_call`].
pub fn report(caller: Caller, mut completed: Completed) -> Result<Report, FieldError> {
    completed.repair();
    completed.check()?;
    if !completed.steps.is_empty() || !completed.children.is_empty() {
        return Err(FieldError::new(
            "steps",
            "and children need a last call instead of a plain report",
        ));
    }
    checked_report(caller, completed)
}

/// Steps, children and a wait of a worker. `scope` is that of its task.
pub fn checkpoint(
    caller: Caller,
    scope: &Scope,
    mut call: wire::requests::CheckpointCall,
) -> Result<CheckpointRequest, FieldError> {
    call.repair();
    call.check()?;
    checkpoints::checked_checkpoint(caller, scope, call, &SubmitDefaults::default())
}

/// The end of an attempt, with the steps and children that ride along. `scope` is that of its task.
pub fn last_call(
    caller: Caller,
    scope: &Scope,
    mut completed: Completed,
) -> Result<CheckpointRequest, FieldError> {
    completed.repair();
    completed.check()?;
    checkpoints::checked_last_call(caller, scope, completed, &SubmitDefaults::default())
}

/// A signal to a run. Without an idempotency key it is a new signal each time it arrives.
pub fn signal(
    signal: wire::requests::SendSignal,
    key: Option<String>,
) -> Result<verdict::run::SignalCall, FieldError> {
    signal.check()?;
    wire::idempotency_key("Idempotency-Key", key.as_deref())?;
    Ok(checkpoints::checked_signal(signal, key))
}

/// Translates a run that was validated when it was parsed. `key` is the idempotency key, from a header or a member.
pub(crate) fn checked_submission(
    scope: &Scope,
    run: SubmitRun,
    key: Option<String>,
    defaults: &SubmitDefaults,
) -> Submission {
    let fingerprint = digests::submission(&run);
    known_submission(scope, run, key, fingerprint, defaults)
}

/// The same with a digest that the caller has already.
fn known_submission(
    scope: &Scope,
    mut run: SubmitRun,
    key: Option<String>,
    fingerprint: Digest,
    defaults: &SubmitDefaults,
) -> Submission {
    let plan = run.plan.take();
    let compiled = plan.as_ref().and_then(steps::compiled);
    let stages = match (&plan, &compiled) {
        (Some(plan), None) => Some(stages::of(plan, run.seed, defaults)),
        _ => None,
    };
    match (&plan, &compiled) {
        (Some(plan), Some(_)) => steps::begin(&mut run, plan),
        (Some(plan), None) => stages::begin(&mut run, plan),
        (None, _) => {}
    }
    defaults.fill(&mut run);
    if plan.is_none() {
        // A run with a plan holds no lease of its own.
        defaults.fill_flow(&mut run);
    }
    let seed = run.seed;
    let policy = policy(&run);
    let SubmitRun {
        kind,
        queue,
        plan: _,
        input,
        goal,
        task_key,
        asset_id,
        resources,
        priority,
        max_attempts: _,
        lost_max: _,
        lease_ms: _,
        heartbeat_interval_ms: _,
        cancel_grace_ms: _,
        stall: _,
        run_at,
        delay_ms,
        deadline: _,
        deadline_ms,
        ttl_ms: _,
        seed: _,
        labels,
        retry: _,
        budget,
        flow,
        traceparent,
        idempotency_key: _,
    } = run;
    let spec = Spec {
        input: raw(&input),
        goal: goal.map(Text::from),
        task_key: task_key.map(Name::from),
        asset_id: asset_id.map(Text::from),
        resources: resources.map(resources_row),
        labels,
        // An invalid value is ignored, as W3C requires.
        traceparent: traceparent
            .and_then(|text| TraceContext::parse(&text))
            .map(|context| Text::from(context.to_string())),
        key: key.map(Text::from),
        fingerprint,
    };
    let priority = priority.unwrap_or(0);
    let asks_people =
        plan.as_ref().is_some_and(|plan| plan.steps.iter().any(|step| step.approval.is_some()));
    let traceparent = spec.traceparent.as_ref();
    let of_run = steps::OfRun { seed, priority, traceparent, asks_people };
    let planned = plan.as_ref().zip(compiled.as_ref());
    let steps = planned.map(|(plan, compiled)| steps::of(plan, compiled, &of_run, defaults));
    // One that says when it starts waits for nothing else.
    let debounce =
        flow.as_ref().and_then(debounce).filter(|_| run_at.is_none() && delay_ms.is_none());
    let debounce = debounce.map(DebounceCall::new);
    Submission {
        scope: scope.clone(),
        kind: kind.into(),
        queue: queue.into(),
        priority,
        policy,
        run_at: run_at.map(instant),
        delay: delay_ms.map(Span::from_millis),
        deadline_in: deadline_ms.map(Span::from_millis),
        budget: budget.map(|budget| Box::new(budgets::budget(budget))),
        flow: flow.map(|flow| Box::new(flow_key(flow))),
        debounce,
        spec,
        stages,
        fork: None,
        steps,
    }
}

fn flow_key(flow: Flow) -> FlowKey {
    let Flow { key, limit, rate, debounce_ms: _, debounce_max_ms: _, hold } = flow;
    let hold = match hold.unwrap_or_default() {
        FlowHold::Lease => Hold::Lease,
        FlowHold::Life => Hold::Life,
    };
    FlowKey { hold, ..FlowKey::new(key, terms_of(limit, rate)) }
}

fn debounce(flow: &Flow) -> Option<Debounce> {
    let span = Span::from_millis(flow.debounce_ms?);
    Some(Debounce::new(span, flow.debounce_max_ms.map(Span::from_millis)))
}

fn policy(run: &SubmitRun) -> Policy {
    let lease_ms = run.lease_ms.unwrap_or(limits::LEASE_MS_DEFAULT);
    let interval_ms = run
        .heartbeat_interval_ms
        .unwrap_or_else(|| limits::heartbeat_interval_ms_default(lease_ms));
    // A default interval may be too long for the progress clock; one that the run names was checked against it.
    let interval_ms = run.stall.map_or(interval_ms, |stall| {
        limits::heartbeat_interval_ms_for_stall(interval_ms, stall.after_ms)
    });
    let (base_ms, cap_ms) = run.retry.clone().unwrap_or_default().base_and_cap_ms();
    let limit_ms = run.resources.as_ref().and_then(|resources| resources.timeout_ms);
    let grace_ms = run.cancel_grace_ms.unwrap_or(limits::CANCEL_GRACE_MS_DEFAULT);
    Policy {
        lease: Span::from_millis(lease_ms),
        heartbeat_every: Span::from_millis(interval_ms),
        cancel_grace: Span::from_millis(grace_ms),
        failures_max: run.max_attempts.unwrap_or(limits::MAX_ATTEMPTS_DEFAULT),
        lost_max: run.lost_max.unwrap_or(limits::LOST_MAX_DEFAULT),
        retry_base: Span::from_millis(base_ms),
        retry_cap: Span::from_millis(cap_ms),
        attempt_limit: limit_ms.map(Span::from_millis),
        deadline: run.deadline.map(instant),
        ttl: run.ttl_ms.map(Span::from_millis),
        seed: run.seed,
        progress_clock: run.stall.map(progress_clock),
    }
}

fn progress_clock(stall: Stall) -> ProgressClock {
    let action = match stall.action {
        StallAction::Warn => OnStall::Warn,
        StallAction::Cancel => OnStall::Cancel,
        StallAction::Requeue => OnStall::Requeue,
    };
    ProgressClock { after: Span::from_millis(stall.after_ms), action }
}

fn resources_row(resources: wire::requests::Resources) -> Resources {
    let wire::requests::Resources { memory_bytes, cpu_millicores, timeout_ms } = resources;
    Resources { memory_bytes, cpu_millicores, timeout_ms }
}

/// Translates a report that was validated when it was parsed.
pub(crate) fn checked_report(caller: Caller, completed: Completed) -> Result<Report, FieldError> {
    let digest = digests::report(&completed);
    let claims = claims(&completed);
    Ok(Report { caller, outcome: checked_outcome(completed)?, digest, claims, by: None })
}

/// What the worker reports about its attempt, without the steps and children that ride along.
fn checked_outcome(completed: Completed) -> Result<Outcome, FieldError> {
    let Completed {
        attempt: _,
        worker_id: _,
        outcome,
        completed_at: _,
        output,
        error,
        metrics: _,
        cancelled_during_phase: _,
        partial_progress,
        traceparent: _,
        steps: _,
        children: _,
        spend: _,
        effects: _,
        next: _,
        log: _,
    } = completed;
    Ok(match outcome {
        wire::Outcome::Succeeded => Outcome::Succeeded { output: output.as_ref().map(raw) },
        wire::Outcome::Failed => Outcome::Failed(fault(error)?),
        // The partial output up to the stop is all the output there is (S4-35).
        wire::Outcome::Cancelled => {
            Outcome::Cancelled { output: partial_progress.as_ref().map(raw) }
        }
        wire::Outcome::Released => Outcome::Released,
    })
}

fn fault(error: Option<ReportedError>) -> Result<Fault, FieldError> {
    let missing = || FieldError::new("error", "is missing; a FAILED report needs a reason");
    let ReportedError { category, message, stack_trace, retryable } = error.ok_or_else(missing)?;
    let category = reported_category(category).ok_or_else(|| {
        FieldError::new("error.category", "CANCELLED is allowed only with the outcome CANCELLED")
    })?;
    Ok(Fault {
        category,
        message: message.into(),
        stack_trace: stack_trace.map(Into::into),
        retryable,
    })
}

/// What the worker reports beside its outcome: stored with the attempt, decides nothing. The members are in the order of
/// their names, and payloads keep their bytes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Claims<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_during_phase: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<wire::Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ReportedError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<&'a Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial_progress: Option<&'a wire::Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

/// `None` if the worker said nothing beside its outcome.
fn claims(completed: &Completed) -> Option<verdict::Json> {
    let is_cancelled = completed.outcome == wire::Outcome::Cancelled;
    let trace = completed.traceparent.as_deref().and_then(TraceContext::parse);
    let progress = completed.partial_progress.as_ref().filter(|progress| !progress.is_null());
    let claims = Claims {
        cancelled_during_phase: completed.cancelled_during_phase.as_deref(),
        completed_at: completed.completed_at,
        error: completed.error.as_ref().filter(|_| is_cancelled),
        metrics: completed.metrics.as_ref(),
        partial_progress: progress.filter(|_| !is_cancelled),
        traceparent: trace.map(|trace| trace.to_string()),
    };
    let text = serde_json::to_string(&claims).expect("what was parsed can be written again");
    (text != NOTHING_CLAIMED).then(|| text.into())
}

/// The claims of a worker that made none.
const NOTHING_CLAIMED: &str = "{}";

pub(crate) fn instant(time: wire::Time) -> Time {
    Time::from_millis(time.as_ms())
}

fn raw(json: &wire::Json) -> verdict::Json {
    verdict::Json::from(json.text())
}

/// `None` for the category that belongs to the outcome CANCELLED alone.
pub(crate) fn reported_category(category: wire::ErrorCategory) -> Option<verdict::Category> {
    match category {
        wire::ErrorCategory::UserCode => Some(verdict::Category::UserCode),
        wire::ErrorCategory::DataQuality => Some(verdict::Category::DataQuality),
        wire::ErrorCategory::Infrastructure => Some(verdict::Category::Infrastructure),
        wire::ErrorCategory::Configuration => Some(verdict::Category::Configuration),
        wire::ErrorCategory::Timeout => Some(verdict::Category::Timeout),
        wire::ErrorCategory::Cancelled => None,
    }
}
