//! Events that a worker reports to its operator. All of them are logged too.

use std::sync::Arc;

use wire::Outcome;

use super::metrics::Metrics;

/// An event that a program may want to count, alert on or test for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// The report was accepted: the attempt is over. `error` says why it failed.
    Committed { task_id: String, attempt: u32, outcome: Outcome, error: Option<String> },
    /// A durable function waits: the coordinator keeps what it waits for, and the slot is free.
    Suspended { task_id: String, attempt: u32 },
    /// A durable function stopped, because its code is not the code that recorded the run or does what no replay can
    /// repeat. Nothing was executed; the run waits for another build.
    Diverged { task_id: String, attempt: u32, why: String },
    /// Authority was lost: the work was stopped, its result discarded, and nothing was reported.
    Cancelled { task_id: String, attempt: u32, why: String },
    /// The coordinator refused a call as invalid: a defect, or a wrong key. Never repeated.
    Rejected { task_id: Option<String>, code: String, message: String },
    /// No coordinator answered a call about an attempt within the bound; its lease will expire.
    Unanswered { task_id: String, attempt: u32, why: String },
    /// The task blocked its thread until after the worker's end; its lease will expire.
    Abandoned { task_id: String, attempt: u32 },
    /// No coordinator answers polls; the worker keeps polling.
    Unreachable { why: String },
}

type Observer = Arc<dyn Fn(&WorkerEvent) + Send + Sync>;

/// Where events go.
#[derive(Clone)]
pub(crate) struct Events {
    observer: Observer,
    pub(super) metrics: Metrics,
}

impl Events {
    pub(crate) fn new(observer: impl Fn(&WorkerEvent) + Send + Sync + 'static) -> Events {
        Events { observer: Arc::new(observer), metrics: Metrics::default() }
    }

    /// The same with another observer.
    pub(crate) fn observed_by(
        self,
        observer: impl Fn(&WorkerEvent) + Send + Sync + 'static,
    ) -> Events {
        Events { observer: Arc::new(observer), ..self }
    }

    pub(crate) fn emit(&self, event: WorkerEvent) {
        match &event {
            WorkerEvent::Committed { task_id, attempt, outcome, error } => {
                tracing::debug!(task_id, attempt, %outcome, error, "committed");
            }
            WorkerEvent::Suspended { task_id, attempt } => {
                tracing::debug!(task_id, attempt, "suspended");
            }
            WorkerEvent::Diverged { task_id, attempt, why } => {
                tracing::error!(task_id, attempt, why, "the durable function was stopped");
            }
            WorkerEvent::Cancelled { task_id, attempt, why } => {
                tracing::info!(task_id, attempt, why, "authority lost, result discarded");
            }
            WorkerEvent::Rejected { task_id, code, message } => {
                tracing::error!(task_id, code, message, "rejected by the coordinator");
            }
            WorkerEvent::Unanswered { task_id, attempt, why } => {
                tracing::warn!(task_id, attempt, why, "no answer, gave up");
            }
            WorkerEvent::Abandoned { task_id, attempt } => {
                tracing::warn!(
                    task_id,
                    attempt,
                    "still running at the end of the drain; abandoned"
                );
            }
            WorkerEvent::Unreachable { why } => {
                tracing::warn!(why, "cannot fetch work; retrying");
            }
        }
        self.metrics.count(&event);
        (self.observer)(&event);
    }
}
