//! The work continues the trace of its lease, and the report names the span.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::Ctx;
use tenure::wire::TraceContext;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::coordinator::{Coordinator, envelope, envelope_with};
use crate::log::Log;
use crate::worker::{Running, worker};

const HANDED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn the_work_has_a_span_of_its_own_and_the_report_names_it() {
    // The worker gets the trace header with the envelope.
    let coordinator = Coordinator::start().await;
    let tell = |ctx: Ctx, _: Value| async move { Ok(ctx.trace().map(|trace| trace.to_string())) };
    let running = Running::start(worker(&coordinator).handle("work", tell));
    coordinator.offer([
        envelope_with(1, json!({"traceparent": HANDED})),
        envelope_with(2, json!({"traceparent": HANDED})),
        envelope_with(3, json!({"traceparent": "nonsense"})),
        envelope(4),
    ]);
    running.until_committed(4).await;
    running.end().await.unwrap();

    let handed = TraceContext::parse(HANDED).unwrap();
    let mut spans = vec![handed.span];
    for report in coordinator.reports() {
        if matches!(report["taskId"].as_str(), Some("task_3" | "task_4")) {
            assert_eq!((&report["output"], report.get("traceparent")), (&Value::Null, None));
            continue;
        }
        assert_eq!(report["output"], report["traceparent"], "what the code saw is what is said");
        let work = TraceContext::parse(report["traceparent"].as_str().unwrap()).unwrap();
        assert_eq!((work.trace, work.flags), (handed.trace, handed.flags));
        assert!(!spans.contains(&work.span), "a span of its own: {report}");
        spans.push(work.span);
    }
    assert_eq!(spans.len(), 3);
}

/// Keeps the fields of every span by its name.
struct Spans(Arc<Log<String>>);

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let name = span.metadata().name();
        if name == "tenure.attempt" {
            self.0.push(format!("{name} {}", span.values()));
        }
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn an_attempt_is_a_span_with_its_run_its_task_and_its_kind() {
    let spans = Arc::new(Log::new());
    // The test and its worker share one thread, for which alone this holds.
    let _guard = tracing::subscriber::set_default(Spans(Arc::clone(&spans)));
    let coordinator = Coordinator::start().await;
    let running = Running::start(
        worker(&coordinator).handle("work", |_: Ctx, n: Value| async move { Ok(n) }),
    );
    coordinator.offer([envelope(7)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let said = spans.all().join("\n");
    for field in ["tenure.attempt", "run_7", "task_7", "attempt", "work"] {
        assert!(said.contains(field), "{field} in {said}");
    }
}
