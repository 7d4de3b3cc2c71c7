//! What happens to a task is exported as spans of its submitter's trace, and a collector can neither
//! delay nor break anything.

use std::sync::{Arc, Mutex};

use coordinator::trace::{Attribute, ExportFailed, Span, SpanExport};
use coordinator::{Coordinator, Options, SeededEntropy};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use storetest::{ManualClock, MemoryStore};
use verdict::request::{self, Cancel, Outcome, Report};
use verdict::{Answer, Category, Fault, Json, Text};
use wire::TraceContext;

use crate::harness::{World, key, report_of, submission, succeeded};

const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const WORK: &str = "00-0af7651916cd43dd8448eb211c80319c-00000000000000aa-01";

/// How a collector behaves.
#[derive(Clone, Copy)]
enum CollectorMode {
    Takes,
    Refuses,
    Hangs,
}

struct Collector {
    collector_mode: CollectorMode,
    spans: Mutex<Vec<Span>>,
}

impl Collector {
    fn new(collector_mode: CollectorMode) -> Arc<Collector> {
        Arc::new(Collector { collector_mode, spans: Mutex::default() })
    }

    fn spans(&self) -> Vec<Span> {
        self.spans.lock().expect("not poisoned").clone()
    }
}

impl SpanExport for Collector {
    fn export(&self, spans: Vec<Span>) -> BoxFuture<'_, Result<(), ExportFailed>> {
        match self.collector_mode {
            CollectorMode::Takes => {
                self.spans.lock().expect("not poisoned").extend(spans);
                std::future::ready(Ok(())).boxed()
            }
            CollectorMode::Refuses => {
                std::future::ready(Err(ExportFailed { source: "nobody listens".into() })).boxed()
            }
            CollectorMode::Hangs => std::future::pending().boxed(),
        }
    }
}

async fn start(store: MemoryStore, collector: &Arc<Collector>) -> Coordinator {
    let options = Options {
        entropy: Box::new(SeededEntropy::new(7)),
        spans: Some(collector.clone()),
        ..Options::default()
    };
    Coordinator::start(store, options).await.expect("the store starts")
}

async fn world(collector: &Arc<Collector>) -> World {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    World { coordinator: start(store, collector).await, clock }
}

fn traced(traceparent: &str) -> coordinator::Submission {
    let mut traced = submission("k");
    traced.spec.traceparent = Some(Text::from(traceparent));
    traced
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn text(span: &Span, attribute: &str) -> String {
    let found = span.attributes.iter().find(|(name, _)| *name == attribute);
    match found {
        Some((_, Attribute::Text(text))) => text.clone(),
        other => panic!("{attribute} is {other:?} in {span:?}"),
    }
}

fn count(coordinator: &Coordinator, series: &str) -> u64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, coordinator.registry())
        .expect("metrics are text");
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{series} in {text}"))
}

#[tokio::test(start_paused = true)]
async fn a_life_is_one_trace_from_the_submitter_to_the_worker_and_back() {
    // The submitter's trace context goes with the task, through every attempt.
    let collector = Collector::new(CollectorMode::Takes);
    let world = world(&collector).await;
    world.submit(traced(GIVEN)).await;
    world.clock.advance(verdict::Span::from_millis(300));
    let first = world.lease_one("w").await;
    let handed = world.coordinator.traceparent(&first).expect("a worker continues the trace");
    world.clock.advance(verdict::Span::from_millis(200));
    let fault = Fault {
        category: Category::Infrastructure,
        message: "busy".into(),
        stack_trace: None,
        retryable: None,
    };
    world.report(&first, Outcome::Failed(fault)).await;
    world.pass(verdict::Span::from_secs(1)).await;
    let second = world.lease_one("w").await;
    // The worker reports which span was its own work.
    let claims = Some(Json::from(format!(r#"{{"traceparent":"{WORK}"}}"#)));
    let report = Report { claims, ..report_of(&second, succeeded("1")) };
    world.coordinator.report(second.key(), report).await.expect("the store works");
    world.coordinator.stop().await;

    let spans = collector.spans();
    let given = TraceContext::parse(GIVEN).expect("it is valid");
    assert!(spans.iter().all(|span| span.context.trace == given.trace), "{spans:?}");
    let ([run], [task]) = (&named(&spans, "run k")[..], &named(&spans, "task k")[..]) else {
        panic!("one run with one task: {spans:?}");
    };
    assert_eq!(run.parent, Some(given.span));
    assert_eq!(task.parent, Some(run.context.span));
    assert_eq!((run.length.as_millis(), text(run, "tenure.state")), (1_500, "succeeded".into()));
    let waits = named(&spans, "wait q");
    assert_eq!(waits.len(), 2);
    assert_eq!(waits[0].length.as_millis(), 300, "from submission to grant");
    let attempts = named(&spans, "attempt k");
    assert_eq!(attempts.len(), 2, "a retry is another attempt of the same trace");
    assert_eq!(attempts[0].length.as_millis(), 200);
    assert_eq!(attempts[0].context.to_string(), handed, "what the worker was handed");
    assert_eq!(attempts[0].fault.as_deref(), Some("INFRASTRUCTURE"));
    assert_eq!((attempts[1].fault.as_deref(), run.fault.as_deref()), (None, None));
    assert_eq!(attempts[0].links, []);
    assert_eq!(attempts[1].links, [TraceContext::parse(WORK).expect("it is valid")]);
    for span in waits.iter().chain(&attempts) {
        assert_eq!(span.parent, Some(task.context.span));
    }
    assert_eq!(count(&world.coordinator, "tenure_spans_sent_total"), spans.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_sampled_is_not_told_and_what_has_no_trace_gets_one() {
    let collector = Collector::new(CollectorMode::Takes);
    let world = world(&collector).await;
    let unsampled = GIVEN.replace("-01", "-00");
    world.submit(traced(&unsampled)).await;
    let granted = world.lease_one("w").await;
    assert_eq!(world.coordinator.traceparent(&granted), Some(unsampled));
    world.succeed(&granted).await;

    let task = world.submit(submission("untraced")).await;
    let granted = world.lease_one("w").await;
    let handed = world.coordinator.traceparent(&granted).expect("it has a trace of its own");
    let handed = TraceContext::parse(&handed).expect("what is handed out is valid");
    assert_eq!(handed.trace, task.as_u128());
    world.succeed(&granted).await;
    world.coordinator.stop().await;
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.context.trace == handed.trace), "{spans:?}");
    assert_eq!(named(&spans, "attempt untraced")[0].context, handed);
    assert_eq!(named(&spans, "run untraced")[0].parent, None);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_grant_was_not_seen_is_told_in_its_trace_all_the_same() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let before = World { coordinator: crate::harness::start(store.clone()).await, clock };
    let waiting = before.submit(traced(GIVEN)).await;
    let granted = before.lease_one("w").await;
    assert_eq!(granted.task.id, waiting);
    let queued = before.submit(traced(GIVEN)).await;
    before.coordinator.stop().await;
    // The next coordinator knows only what is stored about both.
    let collector = Collector::new(CollectorMode::Takes);
    let coordinator = start(store, &collector).await;
    let answered = coordinator.report(granted.key(), report_of(&granted, succeeded("1"))).await;
    assert!(matches!(answered.map(|it| it.answer), Ok(Answer::Committed { .. })));
    let cancel = Cancel { reason: None, mode: request::CancelMode::Graceful };
    coordinator.cancel(key(queued), cancel).await.expect("the store works");
    coordinator.stop().await;
    let spans = collector.spans();
    let given = TraceContext::parse(GIVEN).expect("it is valid");
    assert!(spans.iter().all(|span| span.context.trace == given.trace), "{spans:?}");
    let states: Vec<String> =
        named(&spans, "run k").iter().map(|run| text(run, "tenure.state")).collect();
    assert_eq!(states, ["succeeded", "cancelled"]);
    assert_eq!(named(&spans, "attempt k").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_gone_or_hangs_costs_spans_and_nothing_else() {
    for (collector_mode, all_counted) in
        [(CollectorMode::Refuses, true), (CollectorMode::Hangs, false)]
    {
        let collector = Collector::new(collector_mode);
        let world = world(&collector).await;
        for _ in 0..20 {
            world.submit(submission("k")).await;
            let granted = world.lease_one("w").await;
            assert!(matches!(world.succeed(&granted).await, Answer::Committed { .. }));
        }
        // It ends even if the collector never answers.
        world.coordinator.stop().await;
        assert_eq!(collector.spans(), []);
        assert_eq!(count(&world.coordinator, "tenure_spans_sent_total"), 0);
        let dropped = "tenure_spans_dropped_total{reason=\"collector\"}";
        let lost = count(&world.coordinator, dropped);
        // Each life cycle is a wait, an attempt, a task and a run. Spans that a stop cut off are in no
        // count.
        assert!(if all_counted { lost == 80 } else { lost <= 80 }, "{lost}");
    }
}
