//! Exports trace events as spans: a bounded queue, and a separate task that sends its events to a
//! collector.
//!
//! The carrier never waits: events that find the queue full are counted and dropped. The exporter takes
//! everything that waits when the previous export ends, so an idle coordinator exports at once and a busy
//! one in batches. After a failed export it backs off with growing pauses, while the queue fills and
//! overflows.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use store::{Browse, DynBrowse};
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinHandle;
use verdict::TaskId;

use super::cache::TraceCache;
use super::event::EventDetail;
use super::{ExportFailed, Span, SpanExport, TaskTrace, TraceEvent};
use crate::coordinator::StopReason;
use crate::metrics::{Metrics, SpanDropReason};

/// Events that may wait for the exporter: some seconds of a busy coordinator, a few megabytes.
const QUEUE_MAX: usize = 16_384;

/// Events in one export: requests of a few hundred kilobytes.
const BATCH_MAX: usize = 512;

/// Timeout of one export, the default of OTLP exporters.
const EXPORT_WITHIN: Duration = Duration::from_secs(10);

/// Pauses after a failed export, growing from the first to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long the last export may take when the coordinator stops; it then stops without it.
pub(crate) const FINAL_EXPORT_TIMEOUT: Duration = Duration::from_secs(3);

/// The sending side of the queue, owned by a carrier.
#[derive(Clone)]
pub(crate) struct TraceSender {
    queue: mpsc::Sender<TraceEvent>,
    metrics: Metrics,
}

impl TraceSender {
    pub(crate) fn send(&self, trace_events: Vec<TraceEvent>) {
        for event in trace_events {
            if let Err(refused) = self.queue.try_send(event) {
                self.metrics
                    .count_dropped_spans(SpanDropReason::Queue, refused.into_inner().count());
            }
        }
    }
}

/// Opens a queue into `exporter`. The task ends when all senders are gone and everything is exported.
pub(crate) fn open(
    exporter: Arc<dyn SpanExport>,
    browse: DynBrowse,
    metrics: Metrics,
    ended: channel::Receiver<Option<StopReason>>,
) -> (TraceSender, JoinHandle<()>) {
    let (queue, trace_events) = mpsc::channel(QUEUE_MAX);
    let trace_sender = TraceSender { queue, metrics: metrics.clone() };
    let pause = PAUSE_FIRST;
    let exporter =
        SpanExporter { exporter, browse, metrics, ended, cache: TraceCache::default(), pause };
    (trace_sender, tokio::spawn(exporter.run(trace_events)))
}

struct SpanExporter {
    exporter: Arc<dyn SpanExport>,
    browse: DynBrowse,
    metrics: Metrics,
    ended: channel::Receiver<Option<StopReason>>,
    cache: TraceCache,
    /// The pause after the next failure.
    pause: Duration,
}

impl SpanExporter {
    async fn run(mut self, mut trace_events: mpsc::Receiver<TraceEvent>) {
        let mut waiting = Vec::with_capacity(BATCH_MAX);
        while trace_events.recv_many(&mut waiting, BATCH_MAX).await > 0 {
            let mut spans = Vec::new();
            for event in waiting.drain(..) {
                spans.extend(self.spans(event).await);
            }
            if !spans.is_empty() {
                self.export(spans).await;
            }
        }
    }

    async fn spans(&mut self, event: TraceEvent) -> Vec<Span> {
        let Some(trace) = self.trace(&event).await else {
            self.metrics.count_dropped_spans(SpanDropReason::Store, event.count());
            return Vec::new();
        };
        if let EventDetail::Ended { .. } = event.detail {
            self.cache.remove(event.task.id);
        }
        if trace.is_sampled() { event.spans(trace) } else { Vec::new() }
    }

    /// From the grant, else from the cache, else from the store: another coordinator granted the task, or
    /// this one did before its last start, or it was never granted.
    async fn trace(&mut self, event: &TraceEvent) -> Option<TaskTrace> {
        let id: TaskId = event.task.id;
        if let EventDetail::Granted { traceparent, .. } = &event.detail {
            let trace = TaskTrace::of(id, traceparent.as_ref().map(|text| text.as_str()));
            self.cache.insert(id, trace);
            return Some(trace);
        }
        if let Some(trace) = self.cache.get(id) {
            return Some(trace);
        }
        let found = self.browse.find(&event.task).await.ok().flatten()?;
        let traceparent = found.spec.traceparent;
        Some(TaskTrace::of(id, traceparent.as_ref().map(|text| text.as_str())))
    }

    async fn export(&mut self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        match tokio::time::timeout(EXPORT_WITHIN, self.exporter.export(spans)).await {
            Ok(Ok(())) => {
                self.metrics.spans_sent.inc_by(count);
                if self.pause > PAUSE_FIRST {
                    tracing::info!("the collector accepts spans again");
                }
                self.pause = PAUSE_FIRST;
            }
            Ok(Err(failed)) => self.failed(count, &reason(&failed)).await,
            Err(_) => self.failed(count, "the request timed out").await,
        }
    }

    async fn failed(&mut self, count: u64, why: &str) {
        self.metrics.count_dropped_spans(SpanDropReason::Collector, count);
        if self.pause == PAUSE_FIRST {
            tracing::warn!(why, "spans are lost because the collector does not accept them");
        }
        let stopping = self.ended.wait_for(Option::is_some);
        // A stopping coordinator does not wait for a collector that has just failed.
        let _ = tokio::time::timeout(self.pause, stopping).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

fn reason(failed: &ExportFailed) -> String {
    let mut text = failed.to_string();
    let mut source = failed.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use store::DynStore;
    use storetest::{ManualClock, MemoryStore};
    use verdict::{LeaseId, Policy, Scope, Subject, Task, Time};

    use super::*;
    use crate::coordinator::StopReason;

    struct Hanging;

    impl SpanExport for Hanging {
        fn export(&self, _spans: Vec<Span>) -> BoxFuture<'_, Result<(), ExportFailed>> {
            std::future::pending().boxed()
        }
    }

    fn task() -> Task {
        let submitted = verdict::Event::Submitted(Box::new(verdict::event::Submitted {
            budget: None,
            flow: None,
            id: TaskId::from_u128(7),
            scope: Scope::default(),
            kind: "k".into(),
            queue: "q".into(),
            priority: 0,
            policy: Policy::default(),
            due: Time::from_millis(0),
            input: verdict::Digest::of(&[]),
        }));
        match Subject::Absent.settle(&[submitted], Time::from_millis(0)) {
            Subject::Live(task) => task,
            other => panic!("a submitted task is live: {other:?}"),
        }
    }

    #[tokio::test]
    async fn what_finds_no_room_is_counted_and_nobody_waits() {
        let task = task();
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = Metrics::register(&mut registry);
        let store = MemoryStore::new(Arc::new(ManualClock::default()));
        let browse = DynStore::new(store).browse().clone();
        let (_end, ended) = channel::channel::<Option<StopReason>>(None);
        let (trace_sender, exporter) = open(Arc::new(Hanging), browse, metrics.clone(), ended);
        let event =
            || TraceEvent::granted(&task, None, 1, LeaseId::from_u128(9), Time::from_millis(5));
        // This call awaits nothing, so it cannot wait for the collector.
        trace_sender.send((0..QUEUE_MAX + 30).map(|_| event()).collect());
        let label = crate::metrics::ReasonLabel { reason: "queue" };
        assert_eq!(metrics.spans_dropped.get_or_create(&label).get(), 30);
        exporter.abort();
    }
}
