//! The metrics that the contract requires exist, with a name, a description, and labels from bounded
//! sets.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use verdict::Span;

use super::test_server::{TestServer, both, run, seconds};

/// The contract's list of metrics, with their names here. Outbox, gates and pause states are not
/// features of this version, so there is nothing to count.
const CONTRACT: [(&str, &str); 13] = [
    ("leased tasks", "tenure_tasks_running"),
    ("lease expirations", "tenure_leases_expired"),
    ("lost attempts", "tenure_attempts_closed"),
    ("duplicate executions", "tenure_verdicts"),
    ("retries by category", "tenure_retries_scheduled"),
    ("restarts", "tenure_start_time_seconds"),
    ("replay duration", "tenure_recovery_seconds"),
    ("queue depth", "tenure_tasks_ready"),
    ("queue depth of what waits for its time", "tenure_tasks_delayed"),
    ("oldest age", "tenure_oldest_ready_seconds"),
    ("heartbeat lag", "tenure_heartbeat_lag_seconds"),
    ("cancel signals", "tenure_cancel_signals"),
    ("cancel timeouts", "tenure_cancel_timeouts"),
];

/// All labels; a new one must be added here, and comes from a bounded set.
const LABELS: [&str; 11] = [
    "outcome", "state", "category", "verdict", "code", "limit", "reason", "version", "promise",
    "level", "le",
];

/// More series than this mean an unbounded label.
const SERIES_MAX: usize = 250;

async fn metrics(api: &TestServer) -> String {
    api.get("/metrics").await.body.as_str().unwrap().to_owned()
}

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{series} in {text}"))
}

#[tokio::test]
async fn everything_the_contract_wants_counted_is_exposed_and_explained() {
    // The mandatory metrics: leased tasks, expirations, duplicates, retries, restarts, replay duration.
    for api in both().await {
        // Metrics with labels appear after the first event: a lost attempt, its retry, a late report.
        let lost = api.leased(json!({})).await;
        api.started(&lost).await.ok();
        api.pass(seconds(2)).await;
        api.lease("w1").await;
        api.succeed(&lost).await.problem(409, "attempt_mismatch");
        let text = metrics(&api).await;
        let helps: BTreeMap<&str, &str> =
            text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')).collect();
        for (wanted, name) in CONTRACT {
            assert!(helps.contains_key(name), "{wanted}: {name} is missing in {text}");
        }
        for (name, help) in helps {
            assert!(help.len() > 8 && help.contains(' '), "{name}: {help:?} explains nothing");
            assert!(name.starts_with("tenure_"), "{name}");
        }
        assert_eq!(value(&text, "tenure_attempts_closed_total{outcome=\"LOST\"}"), 1.0);
        assert_eq!(value(&text, "tenure_retries_scheduled_total{category=\"LOST\"}"), 1.0);
        let late = "tenure_verdicts_total{verdict=\"CANCELLED\",code=\"attempt_mismatch\"}";
        assert_eq!(value(&text, late), 1.0);
    }
}

#[tokio::test]
async fn a_lost_lease_and_a_late_heartbeat_are_counted_once() {
    for api in both().await {
        let lease = api.leased(json!({"heartbeatIntervalMs": 600})).await;
        api.started(&lease).await.ok();
        api.pass(Span::from_millis(1_600)).await;
        api.heartbeat(&lease).await.ok();
        api.pass(seconds(2)).await;
        let text = metrics(&api).await;
        assert_eq!(value(&text, "tenure_leases_renewed_total"), 1.0);
        assert_eq!(value(&text, "tenure_heartbeat_lag_seconds_count"), 1.0);
        assert_eq!(value(&text, "tenure_heartbeat_lag_seconds_sum"), 1.0);
        assert_eq!(value(&text, "tenure_leases_expired_total"), 1.0);
        assert_eq!(value(&text, "tenure_attempt_seconds_sum"), 3.6);
    }
}

#[tokio::test]
async fn a_wait_is_measured_from_when_the_task_could_be_leased() {
    for api in both().await {
        api.submit(json!({})).await;
        api.pass(seconds(4)).await;
        let lease = api.lease("w1").await;
        api.succeed(&lease).await.ok();
        let text = metrics(&api).await;
        assert_eq!(value(&text, "tenure_wait_seconds_count"), 1.0);
        assert_eq!(value(&text, "tenure_wait_seconds_sum"), 4.0);
        assert_eq!(value(&text, "tenure_leases_expired_total"), 0.0);
        assert_eq!(value(&text, "tenure_attempt_seconds_count"), 1.0);
    }
}

#[tokio::test]
async fn no_label_grows_with_what_people_name() {
    // F77: queues, kinds, workers and tasks are never labels, however many there are.
    for api in both().await {
        for n in 0..20 {
            let (kind, queue) = (format!("kind-{n}"), format!("queue-{n}"));
            let body = run(json!({"kind": kind, "queue": queue}));
            api.post("/v1/runs", &api.key, body).await.ok();
            let poll = json!({"workerId": format!("worker-{n}"), "queues": [queue], "max": 1});
            api.post("/v1/leases", &api.key, poll).await.ok();
        }
        let text = metrics(&api).await;
        assert!(!["kind-", "queue-", "worker-"].iter().any(|name| text.contains(name)), "{text}");
        let series = text.lines().filter(|line| !line.starts_with('#'));
        assert!(series.clone().count() <= SERIES_MAX, "{text}");
        let labels: BTreeSet<&str> = series
            .filter_map(|line| Some(line.split_once('{')?.1.split_once('}')?.0))
            .flat_map(|labels| labels.split(','))
            .filter_map(|label| Some(label.split_once('=')?.0))
            .collect();
        for label in labels {
            assert!(LABELS.contains(&label), "{label} is of no known set");
        }
    }
}

#[tokio::test]
async fn what_a_commit_survives_is_told_where_the_store_knows() {
    // S2-104: the page lists what the store's commits survive, promise by promise.
    let mut told = 0;
    for api in both().await {
        let text = metrics(&api).await;
        told += text.lines().filter(|line| line.starts_with("tenure_store_promise{")).count();
    }
    assert_eq!(told, 1, "SQLite waits for its disk or not; memory promises nothing");
}
