//! What happened to a task, as spans of a trace, for whoever collects them.
//!
//! ```text
//!   submitter's span ─► run ─► task ─┬─► wait      from due to granted
//!                                    └─► attempt   from granted to closed ─► the worker's own spans
//! ```
//!
//! Nobody keeps a span open: its ids come from what is stored (a run's and a task's from the task's id,
//! an attempt's from its lease), so that a worker can continue the trace before its attempt has ended,
//! and whichever coordinator commits the end can tell it. A trace is the submitter's, by its
//! `traceparent`; a task without one has a trace of its own, named by its id.
//!
//! Spans are told after the commit and may be lost: nothing is decided by them and nobody waits for
//! them. Without an exporter nothing is done at all.

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
    /// Called with one batch after the other, never with two at once. A call that takes too long is
    /// given up.
    fn export(&self, spans: Vec<Span>) -> BoxFuture<'_, Result<(), ExportFailed>>;
}

/// A collector did not take a batch.
#[derive(Debug, thiserror::Error)]
#[error("the collector did not accept the spans")]
pub struct ExportFailed {
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// Something that took a while and is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub name: String,
    pub context: TraceContext,
    pub parent: Option<u64>,
    pub kind: SpanKind,
    pub start: Time,
    pub length: Duration,
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Other spans that belong to this one.
    pub links: Vec<TraceContext>,
    /// Why it did not go well.
    pub fault: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A worker had the task.
    Consumer,
    /// Nobody but the coordinator.
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

/// A task's place in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskTrace {
    /// Who submitted it, if that was said.
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

/// The part of an id that is random, or counts on from what was.
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
