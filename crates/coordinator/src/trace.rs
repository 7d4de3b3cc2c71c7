//! What happened to a task, as spans of a trace, for a collector.
//!
//! ```text
//!   submitter's span ─► run ─► task ─┬─► wait      from due to granted
//!                                    └─► attempt   from granted to closed ─► the worker's own spans
//! ```
//!
//! No span is kept open: its ids are derived from stored ids (a run's and a task's from the task's id,
//! an attempt's from its lease). A worker can therefore continue the trace before its attempt has
//! ended, and the coordinator that commits the end can export it. A task belongs to its submitter's
//! trace, by its `traceparent`; a task without one has a separate trace, named by its id.
//!
//! Spans are exported after the commit and may be lost: no decision depends on them and no caller waits
//! for them. Without an exporter nothing is done at all.

mod cache;
mod event;
mod exporter;

use std::error::Error;
use std::time::Duration;

use futures_util::future::BoxFuture;
use verdict::{LeaseId, TaskId, Time};
use wire::TraceContext;

pub(crate) use self::event::TraceEvent;
pub(crate) use self::exporter::{FINAL_EXPORT_TIMEOUT, TraceSender, open};

/// Sends spans to a collector.
pub trait SpanExport: Send + Sync + 'static {
    /// Called with one batch at a time, never concurrently. A call that takes too long is cancelled.
    fn export(&self, spans: Vec<Span>) -> BoxFuture<'_, Result<(), ExportFailed>>;
}

/// The collector refused a batch.
#[derive(Debug, thiserror::Error)]
#[error("the collector did not accept the spans")]
pub struct ExportFailed {
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// Something that took some time and is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub name: String,
    pub context: TraceContext,
    pub parent: Option<u64>,
    pub kind: SpanKind,
    pub start: Time,
    pub length: Duration,
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Related spans.
    pub links: Vec<TraceContext>,
    /// What went wrong, if anything.
    pub fault: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A worker had the task.
    Consumer,
    /// Only the coordinator was involved.
    Internal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Text(String),
    Number(i64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Attribute::Text(text.to_owned())
    }
}

impl From<u32> for Attribute {
    fn from(number: u32) -> Self {
        Attribute::Number(i64::from(number))
    }
}

/// A task's position in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskTrace {
    /// The submitter's span, if the submission named one.
    submitter: Option<TraceContext>,
    run: TraceContext,
    task: TraceContext,
}

impl TaskTrace {
    pub(crate) fn of(task: TaskId, traceparent: Option<&str>) -> Self {
        let submitter = traceparent.and_then(TraceContext::parse);
        let number = low_half(task.as_u128());
        let trace = submitter.unwrap_or(TraceContext::root(task.as_u128(), number));
        Self { submitter, run: trace.with_span(number), task: trace.with_span(!number) }
    }

    pub(crate) fn is_sampled(self) -> bool {
        self.run.is_sampled()
    }

    /// The attempt under this lease; a worker continues from here.
    pub(crate) fn attempt(self, lease: LeaseId) -> TraceContext {
        self.task.with_span(low_half(lease.as_u128()))
    }

    fn wait(self, lease: LeaseId) -> TraceContext {
        self.task.with_span(!low_half(lease.as_u128()))
    }
}

/// The random part of an id, possibly incremented.
const fn low_half(id: u128) -> u64 {
    id as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn everything_of_a_task_is_in_its_submitters_trace_or_in_one_of_its_own() {
        let task = TaskId::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let lease = LeaseId::from_u128(7);
        let given = TaskTrace::of(task, Some(GIVEN));
        let spans = [given.run, given.task, given.wait(lease), given.attempt(lease)];
        assert!(spans.iter().all(|it| it.trace == 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c));
        let mut numbers: Vec<u64> = spans.iter().map(|it| it.span).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), spans.len(), "each is a span of its own");
        let own = TaskTrace::of(task, Some("nonsense"));
        assert_eq!((own.run.trace, own.submitter), (task.as_u128(), None));
        assert!(own.is_sampled());
    }
}
