//! The trace events of a batch, from which spans are made. Created while deciding, exported once the
//! batch is durable; cheap, because names and texts are shared.

use std::time::Duration;

use serde::Deserialize;
use store::TaskKey;
use verdict::{AttemptOutcome, ClosedAttempt, End, LeaseId, Name, State, Task, Text, Time};
use wire::TraceContext;

use super::{Attribute, Span, SpanKind, TaskTrace};

#[derive(Debug)]
pub(crate) struct TraceEvent {
    pub(super) task: TaskKey,
    queue: Name,
    kind: Name,
    created_at: Time,
    pub(super) detail: EventDetail,
}

#[derive(Debug)]
pub(super) enum EventDetail {
    Granted { traceparent: Option<Text>, attempt: u32, lease: LeaseId, since: Time, at: Time },
    Closed(Box<ClosedAttempt>),
    Ended { end: End, attempts: u32, at: Time },
}

impl TraceEvent {
    /// A waiting task is granted to a worker at `at`; `attempt` and `lease` are the new ones.
    pub(crate) fn granted(
        waiting: &Task,
        traceparent: Option<Text>,
        attempt: u32,
        lease: LeaseId,
        at: Time,
    ) -> Self {
        let since = waiting.claimable_at().unwrap_or(at);
        Self::about(waiting, EventDetail::Granted { traceparent, attempt, lease, since, at })
    }

    pub(crate) fn closed(task: &Task, closed: &ClosedAttempt) -> Self {
        Self::about(task, EventDetail::Closed(Box::new(closed.clone())))
    }

    pub(crate) fn ended(task: &Task, end: &End, at: Time) -> Self {
        // Spans do not contain the output.
        let end = End { output: None, ..end.clone() };
        Self::about(task, EventDetail::Ended { end, attempts: task.attempt, at })
    }

    fn about(task: &Task, detail: EventDetail) -> Self {
        Self {
            task: TaskKey { scope: task.scope.clone(), id: task.id },
            queue: task.queue.clone(),
            kind: task.kind.clone(),
            created_at: task.created_at,
            detail,
        }
    }

    /// How many spans are lost if the event is dropped.
    pub(super) fn count(&self) -> u64 {
        match self.detail {
            EventDetail::Granted { .. } | EventDetail::Closed(_) => 1,
            EventDetail::Ended { .. } => 2,
        }
    }

    pub(super) fn spans(&self, trace: TaskTrace) -> Vec<Span> {
        match &self.detail {
            EventDetail::Granted { attempt, lease, since, at, .. } => {
                let name = format!("wait {}", self.queue);
                let mut span = self.span(name, trace.wait(*lease), *since, *at);
                span.parent = Some(trace.task.span);
                span.attributes.push(("tenure.attempt", (*attempt).into()));
                vec![span]
            }
            EventDetail::Closed(closed) => vec![self.attempt(trace, closed)],
            EventDetail::Ended { end, attempts, at } => self.whole(trace, end, *attempts, *at),
        }
    }

    fn attempt(&self, trace: TaskTrace, closed: &ClosedAttempt) -> Span {
        let name = format!("attempt {}", self.kind);
        let context = trace.attempt(closed.lease);
        let mut span = self.span(name, context, closed.granted_at, closed.closed_at);
        span.parent = Some(trace.task.span);
        span.kind = SpanKind::Consumer;
        span.links.extend(work(closed).filter(|work| *work != context));
        span.attributes.extend([
            ("tenure.attempt", closed.attempt.into()),
            ("tenure.lease.id", closed.lease.to_string().as_str().into()),
            ("tenure.worker.id", closed.owner.as_str().into()),
            ("tenure.outcome", closed.outcome.name().into()),
        ]);
        let why = fault(closed);
        span.attributes.extend(why.map(|why| ("error.type", why.into())));
        span.fault = why.map(str::to_owned);
        span
    }

    /// The two spans of an ended task: `run`, which continues the submitter's trace, and `task` below it, which has the
    /// attempts.
    fn whole(&self, trace: TaskTrace, end: &End, attempts: u32, at: Time) -> Vec<Span> {
        let reason = end.reason.map(|reason| reason.name());
        let failed = end.state == State::Failed;
        let category = end.fault.as_ref().map(|fault| fault.category.name());
        let fault = failed.then(|| reason.or(category).unwrap_or("FAILED").to_owned());
        let span = |name: &str, context, parent| {
            let name = format!("{name} {}", self.kind);
            let mut span = self.span(name, context, self.created_at, at);
            span.parent = parent;
            span.attributes.push(("tenure.attempts", attempts.into()));
            span.attributes.push(("tenure.state", end.state.name().into()));
            span.attributes.extend(reason.map(|reason| ("tenure.reason", reason.into())));
            span.fault.clone_from(&fault);
            span
        };
        let submitter = trace.submitter.map(|submitter| submitter.span);
        vec![span("run", trace.run, submitter), span("task", trace.task, Some(trace.run.span))]
    }

    fn span(&self, name: String, context: TraceContext, start: Time, end: Time) -> Span {
        let TaskKey { scope, id } = &self.task;
        let text = |text: &str| Attribute::from(text);
        Span {
            name,
            context,
            parent: None,
            kind: SpanKind::Internal,
            start,
            length: Duration::from_millis(end.since(start).millis()),
            attributes: vec![
                ("messaging.system", text("tenure")),
                ("messaging.destination.name", text(self.queue.as_str())),
                ("messaging.message.id", text(&id.to_string())),
                ("tenure.run.id", text(&id.run_name())),
                ("tenure.kind", text(self.kind.as_str())),
                ("tenure.tenant", text(scope.tenant.as_str())),
                ("tenure.workspace", text(scope.workspace.as_str())),
            ],
            links: Vec::new(),
            fault: None,
        }
    }
}

/// Why an attempt failed. Stopping on request is no failure.
fn fault(closed: &ClosedAttempt) -> Option<&'static str> {
    match closed.outcome {
        AttemptOutcome::Succeeded
        | AttemptOutcome::Cancelled
        | AttemptOutcome::Released
        | AttemptOutcome::Suspended => None,
        AttemptOutcome::Failed
        | AttemptOutcome::Lost
        | AttemptOutcome::Undelivered
        | AttemptOutcome::Revoked
        | AttemptOutcome::Diverged => {
            let category = closed.fault.as_ref().map(|fault| fault.category.name());
            category.or(closed.reason.map(|reason| reason.name())).or(Some(closed.outcome.name()))
        }
    }
}

/// The span of the worker's own work, if its report names one.
fn work(closed: &ClosedAttempt) -> impl Iterator<Item = TraceContext> {
    #[derive(Deserialize)]
    struct Said {
        traceparent: Option<String>,
    }
    let said = closed.claims.as_ref();
    let said = said.and_then(|claims| serde_json::from_str::<Said>(claims.as_str()).ok());
    said.and_then(|said| TraceContext::parse(&said.traceparent?)).into_iter()
}
