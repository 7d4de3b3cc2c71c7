//! `GET /metrics`: the coordinator's counters, and the number of tasks in the queues over all scopes.
//!
//! Nothing here names a tenant, a queue or a task, unless the operator asked for metrics by queue. It still shows how busy
//! the installation is, so it is open only to this machine, to administrators, and on a listener that the operator opened for it.

use std::sync::atomic::AtomicU64;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use store::{Browse, Failure};
use wire::Code;

use super::api_error::ApiError;
use super::app_state::AppState;
use super::queue_counts::{CachedCounts, QueueCounts};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(State(app): State<AppState>) -> impl IntoResponse {
    let cached = app.inner.queue_counts.clone();
    let reading = || read(app.clone());
    let cached =
        cached.latest(&app.inner.background, app.inner.timeouts.queue_counts, reading).await;
    let mut text = String::new();
    encode_registry(&mut text, app.coordinator.registry())
        .and_then(|()| encode_registry(&mut text, &gauges(cached.as_ref(), &app)))
        .and_then(|()| encode_eof(&mut text))
        .expect("writing to a string cannot fail");
    ([(CONTENT_TYPE, OPEN_METRICS)], text)
}

pub(super) async fn only_metrics() -> ApiError {
    ApiError::new(Code::NotFound, "this address serves /metrics and nothing else")
}

/// Counts unfinished tasks. Stops if that takes too long or the coordinator ends, and then releases the
/// store.
async fn read(app: AppState) -> Option<QueueCounts> {
    let browse = app.coordinator.browse();
    let counting =
        async { Ok((browse.queues(None).await?, browse.count_pending_objects().await?)) };
    let counted: Result<_, Failure> = tokio::select! {
        counted = counting => counted,
        () = tokio::time::sleep(app.inner.timeouts.answer) => {
            tracing::warn!("cannot count tasks in time; metrics show the last known counts");
            return None;
        }
        _ = app.coordinator.stopped() => return None,
    };
    match counted {
        Ok((depths, pending)) => {
            let queues_max = app.inner.metrics_queues;
            Some(QueueCounts::of(&depths, &pending, app.coordinator.now(), queues_max))
        }
        Err(failure) => {
            tracing::warn!(error = %failure, "cannot count tasks; metrics show the last known counts");
            None
        }
    }
}

/// Values that are read at scrape time. Unknown ones are left out.
fn gauges(cached: Option<&CachedCounts>, app: &AppState) -> Registry {
    let mut registry = Registry::default();
    let rules = u64::from(app.coordinator.store().status().rules);
    register_gauge(&mut registry, "tenure_rules_version", "Version of the rules in force", rules);
    if app.inner.metrics_queues > 0 {
        app.coordinator.metrics().spend.register_named(&mut registry);
    }
    let Some(cached) = cached else { return registry };
    for (name, help, value) in figures(&cached.counts) {
        register_gauge(&mut registry, name, help, value);
    }
    let age: Gauge<f64, AtomicU64> = Gauge::default();
    age.set(cached.age().as_secs_f64());
    let help = "Age of the counts of waiting and running tasks";
    registry.register("tenure_task_counts_age_seconds", help, age);
    if let Some(by_queue) = &cached.counts.by_queue {
        by_queue.register(&mut registry);
    }
    registry
}

fn figures(counts: &QueueCounts) -> [(&'static str, &'static str, u64); 9] {
    [
        ("tenure_tasks_ready", "Tasks that could be leased now", counts.ready),
        (
            "tenure_tasks_parked",
            "Tasks that wait for a slot or a start of their flow key",
            counts.parked,
        ),
        ("tenure_tasks_delayed", "Tasks that wait for a start time or a retry", counts.delayed),
        ("tenure_tasks_running", "Tasks under a lease", counts.running),
        (
            "tenure_tasks_waiting",
            "Tasks that wait for time, signals, people, children or other steps",
            counts.waiting,
        ),
        (
            "tenure_oldest_ready_seconds",
            "How long the oldest ready task has waited",
            counts.oldest_ready_seconds,
        ),
        (
            "tenure_effects_dead",
            "Effects that were given up and block what is behind them",
            counts.effects_dead,
        ),
        (
            "tenure_effects_unknown",
            "Effects that may have arrived and block what is behind them",
            counts.effects_unknown,
        ),
        ("tenure_approvals_open", "Approvals that wait for people", counts.approvals_open),
    ]
}

fn register_gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register(name, help, gauge);
}
