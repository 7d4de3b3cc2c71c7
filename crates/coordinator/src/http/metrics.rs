//! `GET /metrics`: what the coordinator counts, and how full the queues are over all scopes.
//!
//! Open to scrapers without a key, so nothing here names a tenant, a queue or a task.

use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use store::{Browse, QueueDepth, Store};

use super::declined::Declined;
use super::door::Door;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics<S: Store>(State(door): State<Door<S>>) -> Result<Response, Declined> {
    let depths = door.read(Duration::ZERO, door.coordinator.browse().queues(None)).await?;
    let mut text = String::new();
    encode_registry(&mut text, door.coordinator.registry())
        .and_then(|()| encode_registry(&mut text, &gauges(&depths, &door)))
        .and_then(|()| encode_eof(&mut text))
        .expect("writing to a string cannot fail");
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

fn gauges<S: Store>(depths: &[QueueDepth], door: &Door<S>) -> Registry {
    let (now, rules) = (door.coordinator.now(), door.coordinator.store().rules_in_force());
    let mut registry = Registry::default();
    let mut gauge = |name: &str, help: &str, value: u64| {
        let gauge: Gauge = Gauge::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    };
    let sum = |of: fn(&QueueDepth) -> u64| depths.iter().map(of).sum::<u64>();
    gauge("tenure_tasks_ready", "Tasks that could be leased now", sum(|depth| depth.ready));
    gauge("tenure_tasks_delayed", "Tasks that wait for their time", sum(|depth| depth.delayed));
    gauge("tenure_tasks_running", "Tasks under a lease", sum(|depth| depth.running));
    let oldest = depths.iter().filter_map(|depth| depth.oldest_ready_at).min();
    let age = oldest.map_or(0, |oldest| now.since(oldest).millis() / 1000);
    gauge("tenure_oldest_ready_seconds", "How long the oldest ready task has waited", age);
    gauge("tenure_rules_version", "Version of the rules that decides", u64::from(rules));
    registry
}
