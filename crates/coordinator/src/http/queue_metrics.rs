//! Metrics by queue, for `/metrics`: off unless the operator asks for them, and then for a bounded number of queues.
//!
//! A metric with a name in its labels has as many series as there are names, and clients invent names. So only the
//! queues that need attention are listed: those whose oldest ready task waits longest, then the fullest ones. The number
//! of queues that are left out is a metric too. The figures come from the same reading as the totals
//! ([`super::queue_counts`]).

use std::cmp::Reverse;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use store::QueueDepth;
use verdict::Time;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    tenant: String,
    workspace: String,
    queue: String,
}

/// The listed queues.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct QueueMetrics {
    queues: Vec<QueueFigures>,
    /// Queues with unfinished tasks that are not listed.
    left_out: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct QueueFigures {
    labels: QueueLabels,
    ready: u64,
    parked: u64,
    delayed: u64,
    running: u64,
    oldest_ready_seconds: u64,
}

impl QueueFigures {
    fn of(depth: &QueueDepth, now: Time) -> Self {
        let QueueDepth {
            scope,
            queue,
            ready,
            parked,
            delayed,
            running,
            unfinished: _,
            runs: _,
            oldest_ready_at,
        } = depth;
        let labels = QueueLabels {
            tenant: scope.tenant.to_string(),
            workspace: scope.workspace.to_string(),
            queue: queue.to_string(),
        };
        let waited = oldest_ready_at.map_or(0, |oldest| now.since(oldest).millis() / 1_000);
        let (ready, parked, delayed, running) = (*ready, *parked, *delayed, *running);
        Self { labels, ready, parked, delayed, running, oldest_ready_seconds: waited }
    }
}

impl QueueMetrics {
    /// The `max` queues that need attention most.
    pub(super) fn of(depths: &[QueueDepth], now: Time, max: usize) -> Self {
        let mut order: Vec<&QueueDepth> = depths.iter().collect();
        // A queue without a ready task comes after all others.
        order.sort_by_key(|depth| {
            let oldest = depth.oldest_ready_at;
            (oldest.is_none(), oldest, Reverse(depth.unfinished))
        });
        let left_out = order.len().saturating_sub(max) as u64;
        let queues = order.into_iter().take(max).map(|depth| QueueFigures::of(depth, now));
        Self { queues: queues.collect(), left_out }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        type Figure = fn(&QueueFigures) -> u64;
        let families: [(&str, &str, Figure); 5] = [
            ("tenure_queue_tasks_ready", "Tasks that could be leased now", |it| it.ready),
            ("tenure_queue_tasks_parked", "Tasks that wait for their flow key", |it| it.parked),
            ("tenure_queue_tasks_delayed", "Tasks that wait for a start time", |it| it.delayed),
            ("tenure_queue_tasks_running", "Tasks under a lease", |it| it.running),
            (
                "tenure_queue_oldest_ready_seconds",
                "How long the oldest ready task has waited",
                |it| it.oldest_ready_seconds,
            ),
        ];
        for (name, help, figure) in families {
            let family: Family<QueueLabels, Gauge> = Family::default();
            for queue in &self.queues {
                let value = i64::try_from(figure(queue)).unwrap_or(i64::MAX);
                family.get_or_create(&queue.labels).set(value);
            }
            registry.register(name, format!("{help}, by queue"), family);
        }
        let left_out: Gauge = Gauge::default();
        left_out.set(i64::try_from(self.left_out).unwrap_or(i64::MAX));
        registry.register("tenure_queues_left_out", "Queues beyond the limit of metrics", left_out);
    }
}

#[cfg(test)]
mod tests {
    use verdict::Scope;

    use super::*;

    fn depth(queue: &str, ready: u64, oldest_ready_at: Option<i64>) -> QueueDepth {
        QueueDepth {
            scope: Scope::default(),
            queue: queue.into(),
            ready,
            parked: 4,
            delayed: 1,
            running: 2,
            unfinished: ready + 7,
            runs: 0,
            oldest_ready_at: oldest_ready_at.map(Time::from_millis),
        }
    }

    #[test]
    fn the_queues_that_wait_longest_are_listed_and_the_others_are_counted() {
        let depths = [
            depth("idle", 0, None),
            depth("new", 90, Some(9_000)),
            depth("stuck", 1, Some(1_000)),
            depth("full", 5, Some(9_000)),
        ];
        let listed = QueueMetrics::of(&depths, Time::from_millis(11_500), 3);
        let names: Vec<&str> = listed.queues.iter().map(|it| it.labels.queue.as_str()).collect();
        assert_eq!((names, listed.left_out), (vec!["stuck", "new", "full"], 1));
        assert_eq!(listed.queues[0].oldest_ready_seconds, 10);
        let mut registry = Registry::default();
        listed.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let labels = r#"{tenant="default",workspace="default",queue="stuck"}"#;
        for line in [
            format!("tenure_queue_oldest_ready_seconds{labels} 10\n"),
            format!("tenure_queue_tasks_ready{labels} 1\n"),
            format!("tenure_queue_tasks_parked{labels} 4\n"),
            format!("tenure_queue_tasks_delayed{labels} 1\n"),
            format!("tenure_queue_tasks_running{labels} 2\n"),
            "tenure_queues_left_out 1\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(!text.contains("idle"), "{text}");
    }
}
