//! The work continues the trace of its lease, and the report names the span.

use serde_json::{Value, json};
use tenure::Ctx;
use tenure::wire::TraceContext;

use crate::coordinator::{Coordinator, envelope, envelope_with};
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
