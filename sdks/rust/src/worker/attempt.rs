//! One attempt from its grant to the coordinator's last word: started, executed under heartbeats,
//! reported once.
//!
//! Nothing here retries the task or keeps a result whose authority was lost: after a loss the outcome of
//! the code is dropped unseen.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use wire::answers::{Envelope, ReportAnswer};
use wire::requests::{Report, Started};
use wire::{Json, Outcome, TraceContext, Verdict};

use super::clock::{Clock, Moment, wall_clock};
use super::ctx::Ctx;
use super::event::{Events, WorkerEvent};
use super::heartbeats::{Held, Holdings, rejected};
use super::panic::caught;
use super::reports::{Delivery, Filed};
use super::standing::{Standing, Stop, locked};
use super::task::Tasks;
use crate::task_error::{TaskError, TaskResult};
use crate::{Client, Error};

/// What all attempts of one worker share.
pub(crate) struct Shop {
    pub(crate) client: Client,
    pub(crate) worker_id: String,
    pub(crate) tasks: Tasks,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) reports: mpsc::Sender<Filed>,
    pub(crate) events: Events,
    pub(crate) clock: Clock,
    /// How long a task that must stop may take to clean up before it is dropped.
    pub(crate) wind_down: Duration,
    /// Fires when a shutdown will wait no longer.
    pub(crate) closing: CancellationToken,
    /// Leases being carried, so that an answer that comes twice starts nothing twice.
    pub(crate) in_hand: Mutex<BTreeSet<String>>,
}

/// A granted attempt and its place among the concurrent ones.
pub(crate) struct Granted {
    shop: Arc<Shop>,
    envelope: Envelope,
    /// Taken before the poll was sent that granted it.
    polled: Moment,
    permit: OwnedSemaphorePermit,
}

impl Granted {
    /// Nothing when this very lease is being carried already.
    pub(crate) fn new(
        shop: &Arc<Shop>,
        envelope: Envelope,
        polled: Moment,
        permit: OwnedSemaphorePermit,
    ) -> Option<Granted> {
        let is_new = locked(&shop.in_hand).insert(envelope.lease_id.clone());
        is_new.then(|| Granted { shop: Arc::clone(shop), envelope, polled, permit })
    }
}

/// Carries one granted attempt to its end.
pub(crate) async fn carry(granted: Granted) {
    let Granted { shop, envelope, polled, permit } = granted;
    let attempt = Attempt {
        trace: work_trace(&envelope),
        standing: Arc::new(Standing::new(envelope.task_token.clone(), shop.clock.clone())),
        envelope: Arc::new(envelope),
        shop,
    };
    if !attempt.start().await {
        return;
    }
    let Some(end) = attempt.execute(polled).await else { return };
    let report = attempt.report(end);
    let outcome = report.outcome;
    let (delivery, delivered) = oneshot::channel();
    let filed = attempt.shop.reports.send(Filed { report, delivery }).await;
    // From here on others may use the place: nothing executes any more.
    drop(permit);
    let delivery = match filed {
        Ok(()) => delivered.await.ok(),
        Err(_) => None,
    };
    attempt.accept(outcome, delivery);
}

struct Attempt {
    shop: Arc<Shop>,
    envelope: Arc<Envelope>,
    standing: Arc<Standing>,
    /// The span of the work, if the lease came with a trace.
    trace: Option<TraceContext>,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        locked(&self.shop.in_hand).remove(&self.envelope.lease_id);
    }
}

impl Attempt {
    /// Whether execution may begin.
    async fn start(&self) -> bool {
        let started = Started {
            attempt: self.envelope.attempt,
            worker_id: self.shop.worker_id.clone(),
            started_at: Some(wall_clock()),
        };
        let token = &self.envelope.task_token;
        let answer = self.shop.client.started(&self.envelope.task_id, token, &started).await;
        match answer {
            Ok(ack) if ack.verdict == Verdict::Committed => return true,
            Ok(ack) => self.lost(format!("started was answered {}", ack.verdict)),
            Err(refusal) => self.not_started(&refusal),
        }
        false
    }

    fn not_started(&self, refusal: &Error) {
        match refusal.verdict() {
            Some(Verdict::Rejected) => {
                self.shop.events.emit(rejected(Some(self.envelope.task_id.clone()), refusal));
            }
            Some(_) => self.lost(reason(refusal)),
            None => self.unanswered(refusal.to_string()),
        }
    }

    /// What the code came to; nothing when its authority was lost or it had to be abandoned.
    async fn execute(&self, polled: Moment) -> Option<TaskResult<Json>> {
        let worker_id = self.shop.worker_id.clone();
        let standing = Arc::clone(&self.standing);
        self.shop.holdings.adopt(Held::new(
            Arc::clone(&self.envelope),
            standing,
            worker_id,
            polled,
        ));
        let end = self.run().await;
        // The clock is asked before the lease is let go: a paused process may be the first to know.
        let is_lost = self.standing.is_lost();
        self.shop.holdings.release(&self.envelope.lease_id);
        if is_lost {
            self.lost(self.loss());
            return None;
        }
        if end.is_none() {
            self.shop.events.emit(WorkerEvent::Abandoned {
                task_id: self.envelope.task_id.clone(),
                attempt: self.envelope.attempt,
            });
        }
        end
    }

    async fn run(&self) -> Option<TaskResult<Json>> {
        self.standing.proven().await;
        if self.standing.is_lost() {
            return None;
        }
        let (envelope, standing) = (Arc::clone(&self.envelope), Arc::clone(&self.standing));
        let ctx = Ctx::new(envelope, standing, &self.shop.worker_id).tracing(self.trace);
        let Some(task) = self.shop.tasks.of(&self.envelope.kind) else {
            let kind = &self.envelope.kind;
            return Some(Err(TaskError::config(format!("this worker has no task `{kind}`"))));
        };
        tokio::select! {
            biased;
            end = caught(task(ctx)) => Some(end),
            () = self.overdue() => self.forced_end(),
        }
    }

    /// Returns when the code was told to stop and has not, within the time to wind down. A requested
    /// cancel has no such bound here: its grace is the coordinator's to measure.
    async fn overdue(&self) {
        tokio::select! {
            () = self.standing.lost().cancelled() => {}
            () = self.shop.closing.cancelled() => self.standing.stop(Stop::ShuttingDown),
            () = self.timeout() => self.standing.stop(Stop::TimedOut),
        }
        sleep(self.shop.wind_down).await;
    }

    fn timeout(&self) -> impl Future<Output = ()> + use<> {
        let timeout_ms = self.envelope.resources.as_ref().and_then(|needs| needs.timeout_ms);
        async move {
            match timeout_ms {
                Some(ms) => sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Code that overran its own time has failed; code that outlived the worker has no end to report.
    fn forced_end(&self) -> Option<TaskResult<Json>> {
        let is_timeout = self.standing.stopped() == Some(Stop::TimedOut);
        is_timeout.then(|| Err(TaskError::timeout("dropped after its time was over")))
    }

    fn report(&self, end: TaskResult<Json>) -> Report {
        let empty = Report {
            task_id: self.envelope.task_id.clone(),
            task_token: self.standing.task_token(),
            attempt: self.envelope.attempt,
            worker_id: self.shop.worker_id.clone(),
            outcome: Outcome::Succeeded,
            completed_at: Some(wall_clock()),
            output: None,
            error: None,
            metrics: None,
            cancelled_during_phase: None,
            partial_progress: None,
            traceparent: self.trace.map(|trace| trace.to_string()),
        };
        match (end, self.standing.stopped()) {
            (Ok(output), _) => Report { output: Some(output), ..empty },
            (Err(error), Some(Stop::CancelRequested { .. })) => Report {
                outcome: Outcome::Cancelled,
                cancelled_during_phase: error.phase(),
                partial_progress: error.partial_progress(),
                ..empty
            },
            (Err(error), stopped) => {
                let error = blamed(error, stopped).reported();
                Report { outcome: Outcome::Failed, error: Some(error), ..empty }
            }
        }
    }

    /// The coordinator's word about a report is the last one, whatever it is.
    fn accept(&self, outcome: Outcome, delivery: Option<Delivery>) {
        match delivery {
            Some(Delivery::Answered(answer)) => self.accept_answer(outcome, answer),
            Some(Delivery::Refused { code, message }) => self.reject(code, message),
            Some(Delivery::Unanswered(why)) => self.unanswered(why),
            None => self.unanswered("the worker ended first".to_owned()),
        }
    }

    fn accept_answer(&self, outcome: Outcome, answer: ReportAnswer) {
        let why = answer.error.unwrap_or_else(|| format!("status {}", answer.status));
        match answer.verdict {
            Some(Verdict::Committed) => self.shop.events.emit(WorkerEvent::Committed {
                task_id: self.envelope.task_id.clone(),
                attempt: self.envelope.attempt,
                outcome,
            }),
            Some(Verdict::Cancelled) => self.lost(why),
            Some(Verdict::Rejected) | None => self.reject(why, answer.message.unwrap_or_default()),
        }
    }

    fn reject(&self, code: String, message: String) {
        let task_id = Some(self.envelope.task_id.clone());
        self.shop.events.emit(WorkerEvent::Rejected { task_id, code, message });
    }

    fn lost(&self, why: String) {
        let (task_id, attempt) = (self.envelope.task_id.clone(), self.envelope.attempt);
        self.shop.events.emit(WorkerEvent::Cancelled { task_id, attempt, why });
    }

    fn unanswered(&self, why: String) {
        let (task_id, attempt) = (self.envelope.task_id.clone(), self.envelope.attempt);
        self.shop.events.emit(WorkerEvent::Unanswered { task_id, attempt, why });
    }

    fn loss(&self) -> String {
        match self.standing.stopped() {
            Some(Stop::LeaseLost { why }) => why,
            _ => "the lease is over".to_owned(),
        }
    }
}

/// A span of its own for the work, below the one the lease names.
fn work_trace(envelope: &Envelope) -> Option<TraceContext> {
    let parent = TraceContext::parse(envelope.traceparent.as_deref()?)?;
    let span = getrandom::u64().expect("the operating system has randomness");
    Some(parent.with_span(span))
}

/// Code that failed because it was told to stop is not to blame for it.
fn blamed(error: TaskError, stopped: Option<Stop>) -> TaskError {
    match stopped {
        Some(Stop::ShuttingDown) => {
            TaskError::infra(format!("the worker shut down: {error}")).worth_retrying()
        }
        Some(Stop::TimedOut) => TaskError::timeout(format!("its time was over: {error}")),
        _ => error,
    }
}

fn reason(refusal: &Error) -> String {
    refusal.problem().map_or_else(|| refusal.to_string(), |problem| problem.error.clone())
}
