//! `GET /metrics`: what the coordinator counts, and how full the queues are over all scopes.
//!
//! Nothing here names a tenant, a queue or a task. Still it tells how busy everybody is, so that it is open
//! only to this machine, to administrators, and where the operator opened a listener for it.

use std::sync::atomic::AtomicU64;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use store::{Browse, Store};
use wire::Code;

use super::caller::Scraper;
use super::declined::Declined;
use super::door::Door;
use super::figures::{Counts, Known};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics<S: Store>(
    State(door): State<Door<S>>,
    Scraper: Scraper,
) -> impl IntoResponse {
    let known = door.inner.figures.clone();
    let reading = || read(door.clone());
    let known = known.latest(&door.inner.beside, door.inner.patience.figures, reading).await;
    let mut text = String::new();
    encode_registry(&mut text, door.coordinator.registry())
        .and_then(|()| encode_registry(&mut text, &gauges(known.as_ref(), &door)))
        .and_then(|()| encode_eof(&mut text))
        .expect("writing to a string cannot fail");
    ([(CONTENT_TYPE, OPEN_METRICS)], text)
}

pub(super) async fn only_metrics() -> Declined {
    Declined::new(Code::NotFound, "this address serves /metrics and nothing else")
}

/// Counts what is not ended, unless that takes too long or the coordinator ends: then the store is let go.
async fn read<S: Store>(door: Door<S>) -> Option<Counts> {
    let depths = tokio::select! {
        depths = door.coordinator.browse().queues(None) => depths,
        () = tokio::time::sleep(door.inner.patience.answer) => {
            tracing::warn!("tasks could not be counted in time; metrics show the last known figures");
            return None;
        }
        _ = door.coordinator.ended() => return None,
    };
    match depths {
        Ok(depths) => Some(Counts::of(&depths, door.coordinator.now())),
        Err(failure) => {
            tracing::warn!(error = %failure, "tasks could not be counted; metrics show the last known figures");
            None
        }
    }
}

/// What is not counted as it happens. Figures that are not known yet are left out.
fn gauges<S: Store>(known: Option<&Known>, door: &Door<S>) -> Registry {
    let mut registry = Registry::default();
    let rules = u64::from(door.coordinator.store().rules_in_force());
    tell(&mut registry, "tenure_rules_version", "Version of the rules that decides", rules);
    let Some(known) = known else { return registry };
    let Counts { ready, delayed, running, oldest_ready_seconds } = known.counts;
    tell(&mut registry, "tenure_tasks_ready", "Tasks that could be leased now", ready);
    tell(&mut registry, "tenure_tasks_delayed", "Tasks that wait for their time", delayed);
    tell(&mut registry, "tenure_tasks_running", "Tasks under a lease", running);
    let help = "How long the oldest ready task has waited";
    tell(&mut registry, "tenure_oldest_ready_seconds", help, oldest_ready_seconds);
    let age: Gauge<f64, AtomicU64> = Gauge::default();
    age.set(known.age().as_secs_f64());
    let help = "How old the figures about tasks that wait and run are";
    registry.register("tenure_task_counts_age_seconds", help, age);
    registry
}

fn tell(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register(name, help, gauge);
}
