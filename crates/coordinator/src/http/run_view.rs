//! A run as the API shows it: the task, its submission, and how it ended.

use store::{
    Bodies, Browse, Entry, Failure, Listed, Refused, RowsAfter, Spec, StoredTask, TaskKey,
    TaskOverview,
};
use verdict::event::Submitted;
use verdict::run::RunState;
use verdict::{
    CancelRequest, Done, End, Event, Fault, Name, OnStall, Phase, Policy, ProgressClock, Subject,
    Task, TaskId, Text,
};
use wire::answers::{DurableView, Lease, RefusedCall, RetryPolicy, Run, RunError};
use wire::names::{FORK_OF_LABEL, RETRY_OF_LABEL};
use wire::requests::{Flow, Stall, StallAction};

use super::app_state::AppState;
use super::budget_view::budget_view;
use super::durable_view::{durable_view, parent_view};
use super::lease::seed_of;
use super::stages::stages_of;
use super::translate::{category, json, state, time, worker_verdict};

/// Reads a run's submission from its first history entry: an ended task keeps no policy.
pub(super) async fn submitted(app: &AppState, key: &TaskKey) -> Result<Option<Submitted>, Failure> {
    let first = app.coordinator.browse().rows(key, RowsAfter::Entry(0), 1).await?.history;
    Ok(first.into_iter().next().and_then(submission))
}

/// The submission in the first entry of a history.
pub(super) fn submission(first: Entry) -> Option<Submitted> {
    first.events.iter().find_map(Event::submitted).cloned()
}

/// A run with its worker, which holds the lease or had the latest attempt, and its refused calls.
pub(super) fn full_view(overview: TaskOverview, now: wire::Time) -> Option<Run> {
    let TaskOverview { task, first, latest, refused } = overview;
    let holder = task.subject.live().and_then(Task::lease).map(|lease| lease.owner.clone());
    let worker = latest.map(|closed| closed.owner).or(holder);
    let submitted = first.and_then(submission);
    assembled(&task, submitted.as_ref(), worker.as_ref(), refused, now)
}

/// The run from its parts. `worker` holds the lease or had the latest attempt.
pub(super) fn assembled(
    task: &StoredTask,
    submitted: Option<&Submitted>,
    worker: Option<&Name>,
    refused: Vec<Refused>,
    now: wire::Time,
) -> Option<Run> {
    let worker_id = worker.map(Name::to_string);
    let run = view(task, submitted, now);
    run.map(|run| Run { worker_id, refused: refused_calls(refused), ..run })
}

/// The view of one run. `None` for a subject that does not exist.
fn view(found: &StoredTask, submitted: Option<&Submitted>, now: wire::Time) -> Option<Run> {
    let (run, id) = match &found.subject {
        Subject::Absent => return None,
        Subject::Live(task) => (with_policy(live(task, now), &task.policy, task.id), task.id),
        Subject::Done(done) => (ended(done, now), done.id),
    };
    let run = with_submission(with_spec(run, &found.spec), submitted, id);
    Some(if has_stages(&found.subject) { Run { input: None, ..run } } else { run })
}

/// The input of a run with a plan is the plan, which its stages show.
fn has_stages(subject: &Subject) -> bool {
    let run = match subject {
        Subject::Absent => None,
        Subject::Live(task) => task.run.as_deref(),
        Subject::Done(done) => done.run.as_deref(),
    };
    stages_of(run).is_some()
}

/// A run in a list, with the requested bodies.
pub(super) fn list_view(listed: &Listed, bodies: Bodies, now: wire::Time) -> Option<Run> {
    let run = view(&listed.task, listed.submitted.as_ref(), now)?;
    let worker_id = listed.worker.as_ref().map(Name::to_string);
    Some(Run { input: run.input.filter(|_| bodies.input), worker_id, ..run })
}

/// The calls that were refused under the run's leases.
fn refused_calls(refused: Vec<Refused>) -> Vec<RefusedCall> {
    let view = |refused: Refused| RefusedCall {
        attempt: refused.attempt,
        worker_id: refused.worker.to_string(),
        call: refused.call.to_string(),
        error: refused.code.to_string(),
        verdict: worker_verdict(refused.worker_verdict),
        at: time(refused.at),
    };
    refused.into_iter().map(view).collect()
}

fn live(task: &Task, now: wire::Time) -> Run {
    let next_attempt_at = match task.phase {
        Phase::Retry { due } => Some(time(due)),
        Phase::Queued { .. } | Phase::Running(_) | Phase::Waiting(_) => None,
    };
    Run {
        run_id: task.id.run_name(),
        task_id: task.id.to_string(),
        tenant_id: task.scope.tenant.to_string(),
        workspace_id: task.scope.workspace.to_string(),
        kind: task.kind.to_string(),
        queue: task.queue.to_string(),
        state: state(task.state()),
        attempt: task.attempt,
        failures: task.failures,
        lost: task.lost,
        max_attempts: task.policy.failures_max,
        priority: task.priority,
        lost_max: None,
        lease_ms: None,
        heartbeat_interval_ms: None,
        cancel_grace_ms: None,
        stall: None,
        ttl_ms: None,
        retry: None,
        resources: None,
        seed: None,
        idempotency_key: None,
        retry_of: None,
        fork_of: None,
        forks: Vec::new(),
        retries: Vec::new(),
        worker_id: task.lease().map(|lease| lease.owner.to_string()),
        output: None,
        error: None,
        plan: Vec::new(),
        plan_steps: None,
        labels: Default::default(),
        goal: None,
        task_key: None,
        asset_id: None,
        created_at: time(task.created_at),
        started_at: task.started_at.map(time),
        completed_at: None,
        run_at: None,
        next_attempt_at,
        deadline: task.policy.deadline.map(time),
        cancel_requested_at: requested_at(task.cancel.as_ref()),
        cancel_reason: cancel_reason(task.cancel.as_ref()),
        lease: task.lease().map(|lease| lease_view(task, lease)),
        input: None,
        refused: Vec::new(),
        server_time: now,
        parent: parent_view(task.run.as_deref()),
        durable: durable_view(task.run.as_deref(), Some(&task.phase)),
        flow: flow_view(task.run.as_deref()),
        budget: budget_view(task.run.as_deref()),
        children: Vec::new(),
    }
}

fn flow_view(run: Option<&RunState>) -> Option<Flow> {
    run?.flow.as_deref().map(super::flow_keys::flow_view)
}

fn lease_view(task: &Task, lease: &verdict::Lease) -> Lease {
    let progress = lease.progress.as_ref();
    Lease {
        lease_id: lease.id.to_string(),
        owner: lease.owner.to_string(),
        attempt: task.attempt,
        fence: lease.fence.as_u64(),
        claim_version: u64::from(task.claim_version),
        acquired_at: time(lease.acquired_at),
        heartbeat_at: time(lease.heartbeat_at),
        expires_at: time(lease.expires_at),
        progress_pct: progress.and_then(|progress| progress.percent).map(f64::from),
        message: progress.and_then(|progress| progress.message.as_ref()).map(Text::to_string),
        progressed_at: lease.progress_mark.map(|mark| time(mark.at)),
        stalled_at: lease.progress_mark.and_then(|mark| mark.stalled_at).map(time),
    }
}

fn ended(done: &Done, now: wire::Time) -> Run {
    Run {
        run_id: done.id.run_name(),
        task_id: done.id.to_string(),
        tenant_id: done.scope.tenant.to_string(),
        workspace_id: done.scope.workspace.to_string(),
        kind: done.kind.to_string(),
        queue: done.queue.to_string(),
        state: state(done.end.state),
        attempt: done.attempt,
        failures: done.failures,
        lost: done.lost,
        max_attempts: wire::limits::MAX_ATTEMPTS_DEFAULT,
        priority: done.priority,
        lost_max: None,
        lease_ms: None,
        heartbeat_interval_ms: None,
        cancel_grace_ms: None,
        stall: None,
        ttl_ms: None,
        retry: None,
        resources: None,
        seed: None,
        idempotency_key: None,
        retry_of: None,
        fork_of: None,
        forks: Vec::new(),
        retries: Vec::new(),
        worker_id: None,
        output: done.end.output.as_ref().map(json),
        error: run_error(&done.end),
        plan: Vec::new(),
        plan_steps: None,
        labels: Default::default(),
        goal: None,
        task_key: None,
        asset_id: None,
        created_at: time(done.created_at),
        started_at: done.started_at.map(time),
        completed_at: Some(time(done.completed_at)),
        run_at: None,
        next_attempt_at: None,
        deadline: None,
        cancel_requested_at: requested_at(done.cancel.as_ref()),
        cancel_reason: cancel_reason(done.cancel.as_ref()),
        lease: None,
        input: None,
        refused: Vec::new(),
        server_time: now,
        parent: parent_view(done.run.as_deref()),
        durable: durable_view(done.run.as_deref(), None),
        flow: flow_view(done.run.as_deref()),
        budget: budget_view(done.run.as_deref()),
        children: Vec::new(),
    }
}

fn with_spec(run: Run, spec: &Spec) -> Run {
    let Spec {
        input,
        goal,
        task_key,
        asset_id,
        resources,
        labels,
        traceparent: _,
        key,
        fingerprint: _,
    } = spec;
    Run {
        input: Some(json(input)),
        goal: goal.as_ref().map(Text::to_string),
        task_key: task_key.as_ref().map(ToString::to_string),
        asset_id: asset_id.as_ref().map(Text::to_string),
        resources: resources.map(resources_view),
        idempotency_key: key.as_ref().map(Text::to_string),
        retry_of: labels.get(RETRY_OF_LABEL).cloned(),
        fork_of: labels.get(FORK_OF_LABEL).cloned(),
        labels: labels.clone(),
        ..run
    }
}

fn with_submission(run: Run, submitted: Option<&Submitted>, id: TaskId) -> Run {
    let Some(submitted) = submitted else { return run };
    let run_at = Some(time(submitted.due)).filter(|due| *due > run.created_at);
    with_policy(Run { run_at, ..run }, &submitted.policy, id)
}

/// The settings that the rules apply. `timeoutMs` is shown with the resources, where it was submitted.
fn with_policy(run: Run, policy: &Policy, id: TaskId) -> Run {
    let Policy {
        lease,
        heartbeat_every,
        cancel_grace,
        failures_max,
        lost_max,
        retry_base,
        retry_cap,
        attempt_limit: _,
        deadline,
        ttl,
        seed,
        progress_clock,
    } = policy;
    let sent = seed.unwrap_or_else(|| seed_of(id));
    Run {
        max_attempts: *failures_max,
        lost_max: Some(*lost_max),
        lease_ms: Some(lease.millis()),
        heartbeat_interval_ms: Some(heartbeat_every.millis()),
        cancel_grace_ms: Some(cancel_grace.millis()),
        stall: progress_clock.map(stall_view),
        ttl_ms: ttl.map(verdict::Span::millis),
        retry: Some(RetryPolicy { base_ms: retry_base.millis(), cap_ms: retry_cap.millis() }),
        deadline: deadline.map(time),
        seed: *seed,
        durable: run.durable.map(|durable| DurableView { seed: Some(sent), ..durable }),
        ..run
    }
}

fn stall_view(clock: ProgressClock) -> Stall {
    let action = match clock.action {
        OnStall::Warn => StallAction::Warn,
        OnStall::Cancel => StallAction::Cancel,
        OnStall::Requeue => StallAction::Requeue,
    };
    Stall { after_ms: clock.after.millis(), action }
}

fn resources_view(resources: store::Resources) -> wire::requests::Resources {
    let store::Resources { memory_bytes, cpu_millicores, timeout_ms } = resources;
    wire::requests::Resources { memory_bytes, cpu_millicores, timeout_ms }
}

fn requested_at(cancel: Option<&CancelRequest>) -> Option<wire::Time> {
    cancel.map(|cancel| time(cancel.requested_at))
}

fn cancel_reason(cancel: Option<&CancelRequest>) -> Option<String> {
    cancel.and_then(|cancel| cancel.reason.as_ref()).map(Text::to_string)
}

/// Why a run did not succeed; `None` when it did.
pub(super) fn run_error(end: &End) -> Option<RunError> {
    if end.reason.is_none() && end.fault.is_none() {
        return None;
    }
    let reason = end.reason.map_or("FAILED", |reason| reason.name());
    Some(match &end.fault {
        Some(Fault { category: found, message, stack_trace, retryable: _ }) => RunError {
            category: Some(category(*found)),
            reason: reason.to_owned(),
            message: message.to_string(),
            stack_trace: stack_trace.as_ref().map(Text::to_string),
        },
        None => RunError {
            category: None,
            reason: reason.to_owned(),
            message: reason.to_lowercase().replace('_', " "),
            stack_trace: None,
        },
    })
}
