//! Tells facts as spans: a bounded queue, and a task of its own that empties it into a collector.
//!
//! The carrier never waits: what finds no room is counted and gone. The teller takes whatever waits when
//! the last export has ended, so that an idle coordinator tells at once and a busy one in batches. A
//! collector that fails is left alone for growing pauses, while the queue fills and spills.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use store::{Browse, Store};
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinHandle;
use verdict::TaskId;

use super::fact::What;
use super::memory::Memory;
use super::{ExportFailed, Fact, Span, SpanExport, TaskTrace};
use crate::coordinator::Ended;
use crate::metrics::{Metrics, Unsent};

/// Facts that wait for the teller: some seconds of a busy coordinator, a few megabytes.
const QUEUE_MAX: usize = 16_384;

/// Facts in one export, which makes requests of some hundred kilobytes.
const BATCH_MAX: usize = 512;

/// How long a collector may take for one batch. What OTLP exporters allow by default.
const EXPORT_WITHIN: Duration = Duration::from_secs(10);

/// Pauses after a failed export, growing from the first to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long the last spans may take when the coordinator stops; it stops without them otherwise.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(3);

/// A carrier's end of the queue.
#[derive(Clone)]
pub(crate) struct Telling {
    queue: mpsc::Sender<Fact>,
    metrics: Metrics,
}

impl Telling {
    pub(crate) fn tell(&self, facts: Vec<Fact>) {
        for fact in facts {
            if let Err(refused) = self.queue.try_send(fact) {
                self.metrics.count_unsent(Unsent::Queue, refused.into_inner().count());
            }
        }
    }
}

/// Opens a queue into `exporter`. The task ends when the carrier's end is gone and all is told.
pub(crate) fn open<S: Store>(
    exporter: Arc<dyn SpanExport>,
    store: S,
    metrics: Metrics,
    ended: channel::Receiver<Option<Ended>>,
) -> (Telling, JoinHandle<()>) {
    let (queue, facts) = mpsc::channel(QUEUE_MAX);
    let telling = Telling { queue, metrics: metrics.clone() };
    let pause = PAUSE_FIRST;
    let teller = Teller { exporter, store, metrics, ended, memory: Memory::default(), pause };
    (telling, tokio::spawn(teller.run(facts)))
}

struct Teller<S> {
    exporter: Arc<dyn SpanExport>,
    store: S,
    metrics: Metrics,
    ended: channel::Receiver<Option<Ended>>,
    memory: Memory,
    /// How long to leave the collector alone after the next failure.
    pause: Duration,
}

impl<S: Store> Teller<S> {
    async fn run(mut self, mut facts: mpsc::Receiver<Fact>) {
        let mut waiting = Vec::with_capacity(BATCH_MAX);
        while facts.recv_many(&mut waiting, BATCH_MAX).await > 0 {
            let mut spans = Vec::new();
            for fact in waiting.drain(..) {
                spans.extend(self.spans(fact).await);
            }
            if !spans.is_empty() {
                self.export(spans).await;
            }
        }
    }

    async fn spans(&mut self, fact: Fact) -> Vec<Span> {
        let Some(trace) = self.trace(&fact).await else {
            self.metrics.count_unsent(Unsent::Store, fact.count());
            return Vec::new();
        };
        if let What::Ended { .. } = fact.what {
            self.memory.forget(fact.task.id);
        }
        if trace.is_sampled() { fact.spans(trace) } else { Vec::new() }
    }

    /// From the grant, else from memory, else from the store: another coordinator granted it, or this
    /// one before its last start, or nobody.
    async fn trace(&mut self, fact: &Fact) -> Option<TaskTrace> {
        let id: TaskId = fact.task.id;
        if let What::Granted { traceparent, .. } = &fact.what {
            let trace = TaskTrace::of(id, traceparent.as_ref().map(|text| text.as_str()));
            self.memory.remember(id, trace);
            return Some(trace);
        }
        if let Some(trace) = self.memory.recall(id) {
            return Some(trace);
        }
        let found = self.store.browse().find(&fact.task).await.ok().flatten()?;
        let traceparent = found.spec.traceparent;
        Some(TaskTrace::of(id, traceparent.as_ref().map(|text| text.as_str())))
    }

    async fn export(&mut self, spans: Vec<Span>) {
        let count = spans.len() as u64;
        match tokio::time::timeout(EXPORT_WITHIN, self.exporter.export(spans)).await {
            Ok(Ok(())) => {
                self.metrics.spans_sent.inc_by(count);
                if self.pause > PAUSE_FIRST {
                    tracing::info!("the collector takes spans again");
                }
                self.pause = PAUSE_FIRST;
            }
            Ok(Err(failed)) => self.failed(count, &reason(&failed)).await,
            Err(_) => self.failed(count, "it took too long").await,
        }
    }

    async fn failed(&mut self, count: u64, why: &str) {
        self.metrics.count_unsent(Unsent::Collector, count);
        if self.pause == PAUSE_FIRST {
            tracing::warn!(why, "spans are lost because the collector does not take them");
        }
        let stopping = self.ended.wait_for(Option::is_some);
        // Who stops does not wait for a collector that has just failed.
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
    use store::Spec;
    use store::memory::{ManualClock, MemoryStore};
    use verdict::{LeaseId, Policy, Scope, Subject, Task, Time};

    use super::*;
    use crate::coordinator::Ended;

    struct Hanging;

    impl SpanExport for Hanging {
        fn export(&self, _spans: Vec<Span>) -> BoxFuture<'_, Result<(), ExportFailed>> {
            std::future::pending().boxed()
        }
    }

    fn task() -> Task {
        let submitted = verdict::Event::Submitted(Box::new(verdict::event::Submitted {
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

    fn spec() -> Spec {
        Spec {
            input: "1".into(),
            goal: None,
            task_key: None,
            asset_id: None,
            resources: None,
            labels: Default::default(),
            traceparent: None,
            key: None,
            fingerprint: verdict::Digest::of(&[]),
        }
    }

    #[tokio::test]
    async fn what_finds_no_room_is_counted_and_nobody_waits() {
        let (task, spec) = (task(), spec());
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = Metrics::register(&mut registry);
        let store = MemoryStore::new(Arc::new(ManualClock::default()));
        let (_end, ended) = channel::channel::<Option<Ended>>(None);
        let (telling, teller) = open(Arc::new(Hanging), store, metrics.clone(), ended);
        let fact = || Fact::granted(&task, &spec, 1, LeaseId::from_u128(9), Time::from_millis(5));
        // This call does not await anything: it cannot wait for the collector.
        telling.tell((0..QUEUE_MAX + 30).map(|_| fact()).collect());
        let label = crate::metrics::ReasonLabel { reason: "queue" };
        assert_eq!(metrics.spans_dropped.get_or_create(&label).get(), 30);
        teller.abort();
    }
}
