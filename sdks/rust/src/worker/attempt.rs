//! One attempt from its grant to the coordinator's final answer: executed under heartbeats, reported
//! once. The heartbeat thread reports its start, if it does not end before.
//!
//! This module never retries the task and never keeps a result whose authority was lost: after a
//! loss it drops the outcome of the code unread.

mod delivery;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use wire::answers::Envelope;
use wire::requests::{Report, ReportedError};
use wire::{Json, Outcome, TraceContext};
use workflow::{Failure, Function};

use self::delivery::{Said, has_riders, refusal_of};
use super::checkpoints::PendingCall;
use super::clock::{Clock, Moment, wall_clock};
use super::ctx::Ctx;
use super::durable::{Driver, Ended, Returned, reported};
use super::event::Events;
use super::lease_state::{LeaseState, Precondition, StopReason, locked};
use super::lease_table::{HeldLease, LeaseTable};
use super::log_buffer::{BUFFER_BYTES_MAX, LogSwitch};
use super::outbox::Outbox;
use super::panic::catch_panic;
use super::program::{Program, ProgramEnd, Recorder};
use super::reports::Delivery;
use super::task::{Handler, Task, Tasks};
use crate::Client;

/// State that all attempts of one worker share.
pub(crate) struct SharedState {
    /// For calls about attempts.
    pub(crate) client: Client,
    /// For the tasks' own calls.
    pub(crate) task_client: Client,
    pub(crate) worker_id: Arc<str>,
    pub(crate) tasks: Tasks,
    pub(crate) lease_table: Arc<LeaseTable>,
    pub(crate) outbox: Arc<Outbox>,
    /// The checkpoint calls of durable functions.
    pub(crate) calls: mpsc::Sender<PendingCall>,
    pub(crate) events: Events,
    pub(crate) clock: Clock,
    pub(crate) log_switch: LogSwitch,
    /// Whether a first attempt waits for the acknowledgement of its start too.
    pub(crate) awaits_starts: bool,
    /// How long a task that must stop may take to clean up before it is dropped.
    pub(crate) cleanup_timeout: Duration,
    /// Fires when a shutdown begins: from then on nothing more is leased.
    pub(crate) draining: CancellationToken,
    /// Fires when a shutdown stops waiting for tasks.
    pub(crate) drain_expired: CancellationToken,
    /// Leases in progress, so that a repeated answer starts no attempt twice.
    pub(crate) running_leases: Mutex<BTreeSet<String>>,
}

/// A granted attempt and its concurrency slot.
pub(crate) struct GrantedAttempt {
    shared: Arc<SharedState>,
    envelope: Envelope,
    /// Read before the call that returned the grant was sent.
    polled: Moment,
    permit: OwnedSemaphorePermit,
    /// Whether it came with the answer to a report: the attempt before it ended well, in this process.
    is_next_stage: bool,
}

impl GrantedAttempt {
    /// Returns `None` if an attempt for this lease is already running.
    pub(crate) fn new(
        shared: &Arc<SharedState>,
        envelope: Envelope,
        polled: Moment,
        permit: OwnedSemaphorePermit,
    ) -> Option<GrantedAttempt> {
        let is_new = locked(&shared.running_leases).insert(envelope.lease_id.clone());
        let shared = Arc::clone(shared);
        let is_next_stage = false;
        is_new.then(|| GrantedAttempt { shared, envelope, polled, permit, is_next_stage })
    }
}

/// Runs one granted attempt to its end, and the next stages of its task that come with the answers to its reports.
pub(crate) async fn run_attempt(granted: GrantedAttempt) {
    let mut granted = Some(granted);
    while let Some(next) = granted {
        let span = attempt_span(&next.envelope);
        granted = run_stage(next).instrument(span).await;
    }
}

/// The span of an attempt: what its code logs can be found by run, task, attempt and kind.
fn attempt_span(envelope: &Envelope) -> Span {
    tracing::info_span!(
        "tenure.attempt",
        run_id = envelope.run_id,
        task_id = envelope.task_id,
        attempt = envelope.attempt,
        kind = envelope.kind,
        queue = envelope.queue,
    )
}

/// Runs an attempt that was pushed, and gives its report to the answer of the push: nothing if a call has ended the attempt or
/// its authority is lost. If the sender no longer waits for the answer, the report goes to the coordinator by itself.
pub(crate) async fn run_pushed(
    shared: Arc<SharedState>,
    envelope: Envelope,
    answer: oneshot::Sender<Option<Report>>,
) {
    let received = shared.clock.now();
    let is_new = locked(&shared.running_leases).insert(envelope.lease_id.clone());
    if !is_new {
        return;
    }
    let span = attempt_span(&envelope);
    let attempt = Attempt::new(shared, envelope, false);
    attempt.lease_state.set_left(attempt.envelope.budget_left.clone());
    let end = attempt.execute(received).instrument(span).await;
    let report = end.and_then(|end| attempt.report(end));
    if let Err(Some(report)) = answer.send(report) {
        attempt.deliver(report, None).await;
    }
}

/// Hands back an attempt that the worker was granted and does not begin, because it is shutting down.
pub(crate) async fn hand_back(shared: &Arc<SharedState>, envelope: Envelope) {
    let is_new = locked(&shared.running_leases).insert(envelope.lease_id.clone());
    if !is_new {
        return;
    }
    let attempt = Attempt::new(Arc::clone(shared), envelope, false);
    let report = released(attempt.empty_report());
    attempt.deliver(report, None).await;
}

/// Runs one attempt; returns the next stage if the answer to its report brought it.
async fn run_stage(granted: GrantedAttempt) -> Option<GrantedAttempt> {
    let GrantedAttempt { shared, envelope, polled, permit, is_next_stage } = granted;
    let attempt = Attempt::new(shared, envelope, is_next_stage);
    attempt.lease_state.set_left(attempt.envelope.budget_left.clone());
    let end = attempt.execute(polled).await;
    let mut report = attempt.report(end?)?;
    report.next = attempt.wants_next(&report);
    if report.next {
        return Box::pin(attempt.report_for_next(report, permit)).await;
    }
    attempt.deliver(report, Some(permit)).await;
    None
}

/// How an attempt ended.
enum AttemptEnd {
    Finished(Result<Json, Failure>),
    /// A durable function returned.
    Returned(Box<Returned>),
    /// A durable function was dropped because its run was cancelled.
    Cancelled,
    /// A durable function waits, or cannot go on: the attempt was ended by a call.
    Closed,
    /// The worker stopped before the code did.
    Interrupted,
}

impl From<Ended> for AttemptEnd {
    fn from(ended: Ended) -> AttemptEnd {
        match ended {
            Ended::Returned(returned) => AttemptEnd::Returned(returned),
            Ended::Failed(error) => AttemptEnd::Finished(Err(error)),
            Ended::Cancelled => AttemptEnd::Cancelled,
            Ended::Closed => AttemptEnd::Closed,
            Ended::Lost => AttemptEnd::Interrupted,
        }
    }
}

struct Attempt {
    shared: Arc<SharedState>,
    envelope: Arc<Envelope>,
    lease_state: Arc<LeaseState>,
    is_next_stage: bool,
    /// The span of the work, if the lease came with a trace.
    trace: Option<TraceContext>,
    /// Why the input cannot be read, if a codec wrote it that this worker does not have.
    unopened: Option<String>,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        locked(&self.shared.running_leases).remove(&self.envelope.lease_id);
    }
}

impl Attempt {
    fn new(shared: Arc<SharedState>, mut envelope: Envelope, is_next_stage: bool) -> Attempt {
        let stored = std::mem::take(&mut envelope.input);
        let unopened = match shared.client.codec().open(stored) {
            Ok(plain) => {
                envelope.input = plain;
                None
            }
            Err(why) => Some(why),
        };
        Attempt {
            unopened,
            trace: work_trace(&envelope),
            lease_state: Arc::new(
                LeaseState::new(envelope.task_token.clone(), shared.clock.clone())
                    .with_log_switch(shared.log_switch.clone()),
            ),
            envelope: Arc::new(envelope),
            is_next_stage,
            shared,
        }
    }

    /// How the code ended; `None` if its authority was lost.
    async fn execute(&self, polled: Moment) -> Option<AttemptEnd> {
        let held = Arc::new(HeldLease::new(
            Arc::clone(&self.envelope),
            Arc::clone(&self.lease_state),
            Arc::clone(&self.shared.worker_id),
            polled,
            self.precondition(),
        ));
        let _running = self.shared.events.metrics.begin();
        let number = self.shared.lease_table.insert(Arc::clone(&held));
        let end = self.run(&held).await;
        // Checks the clock before releasing the lease: a resumed process may be the first to notice
        // the expiry. A lease that was ended by a call is no longer needed.
        let is_lost = !matches!(end, AttemptEnd::Closed) && self.lease_state.is_lost();
        self.shared.lease_table.release(number);
        if is_lost {
            self.emit_lost(self.loss_reason());
            return None;
        }
        Some(end)
    }

    /// The end of a lost lease is discarded by the caller.
    async fn run(&self, held: &Arc<HeldLease>) -> AttemptEnd {
        self.lease_state.wait_until(self.precondition()).await;
        if self.lease_state.is_lost() {
            return AttemptEnd::Interrupted;
        }
        if let Some(why) = &self.unopened {
            return AttemptEnd::Finished(Err(Failure::config(format!("the input {why}"))));
        }
        let Some(handler) = self.shared.tasks.of(&self.envelope.kind) else {
            let kind = &self.envelope.kind;
            let error = Failure::config(format!("this worker has no handler for `{kind}`"));
            return AttemptEnd::Finished(Err(error));
        };
        tokio::select! {
            biased;
            end = self.run_handler(handler, held) => end,
            () = self.stop_deadline() => self.forced_end(),
        }
    }

    async fn run_handler(&self, handler: &Handler, held: &Arc<HeldLease>) -> AttemptEnd {
        match handler {
            Handler::Task(task) => self.run_task(task).await,
            // Boxed, because the future of a plain task would have to make room for them.
            Handler::Durable(function) => Box::pin(self.run_durable(function.clone(), held)).await,
            Handler::Program(program) => Box::pin(self.run_program(program, held)).await,
        }
    }

    async fn run_task(&self, task: &Task) -> AttemptEnd {
        let end = catch_panic(task(self.ctx())).await;
        AttemptEnd::Finished(end.and_then(|output| self.sealed(output)))
    }

    async fn run_durable(&self, function: Function<'static>, held: &Arc<HeldLease>) -> AttemptEnd {
        let driver = Driver { shared: &self.shared, envelope: &self.envelope, held };
        let ended = catch_panic(async { Ok(driver.drive(function).await) }).await;
        ended.map_or_else(|panic| AttemptEnd::Finished(Err(panic)), AttemptEnd::from)
    }

    async fn run_program(&self, program: &Program, held: &Arc<HeldLease>) -> AttemptEnd {
        let recorder = Recorder {
            shared: Arc::clone(&self.shared),
            envelope: Arc::clone(&self.envelope),
            held: Arc::clone(held),
        };
        let ended = catch_panic(async { Ok(program(self.ctx(), recorder).await) }).await;
        match ended.unwrap_or_else(|panic| ProgramEnd::Finished(Err(panic))) {
            ProgramEnd::Finished(end) => AttemptEnd::Finished(end.and_then(|it| self.sealed(it))),
            ProgramEnd::Closed => AttemptEnd::Closed,
        }
    }

    fn sealed(&self, output: Json) -> Result<Json, Failure> {
        let sealed = self.shared.client.codec().seal(output);
        sealed.map_err(|why| Failure::permanent(format!("the output {why}")))
    }

    /// The code of a first attempt runs beside its start, which may be needless. An earlier attempt
    /// that did not end in success may have killed its process: from the second on, the coordinator
    /// knows of the start before the code runs, so that such an attempt counts as lost.
    fn precondition(&self) -> Precondition {
        let may_follow_a_crash = self.envelope.attempt > 1 && !self.is_next_stage;
        if self.shared.awaits_starts || may_follow_a_crash {
            Precondition::LeaseAndStart
        } else {
            Precondition::Lease
        }
    }

    fn ctx(&self) -> Ctx {
        let (envelope, lease_state) = (Arc::clone(&self.envelope), Arc::clone(&self.lease_state));
        let client = self.shared.task_client.clone();
        Ctx::new(envelope, lease_state, Arc::clone(&self.shared.worker_id), client)
            .with_trace(self.trace)
    }

    /// Completes when the code was asked to stop and did not stop within the cleanup timeout. A
    /// requested cancel has no such bound here: the coordinator measures its grace period.
    async fn stop_deadline(&self) {
        tokio::select! {
            () = self.lease_state.lost_token().cancelled() => {}
            () = self.shared.drain_expired.cancelled() => self.lease_state.stop(StopReason::ShuttingDown),
            () = self.timeout() => self.lease_state.stop(StopReason::TimedOut),
        }
        sleep(self.shared.cleanup_timeout).await;
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

    /// Code that exceeded its time limit has failed; code that the worker outran is handed back.
    fn forced_end(&self) -> AttemptEnd {
        match self.lease_state.stop_reason() {
            Some(StopReason::TimedOut) => {
                AttemptEnd::Finished(Err(Failure::timeout("dropped after its time limit")))
            }
            _ => AttemptEnd::Interrupted,
        }
    }

    /// Whether the report asks for the next stage of the task: one that ends a stage, and comes while the worker still takes
    /// work. A coordinator that sends stages knows the wish.
    fn wants_next(&self, report: &Report) -> bool {
        let ends_stage = matches!(report.outcome, Outcome::Succeeded | Outcome::Failed);
        let takes_work = !self.shared.draining.is_cancelled();
        self.envelope.stage.is_some() && ends_stage && takes_work
    }

    /// Reports, and keeps the slot for the stage that may come with the answer.
    async fn report_for_next(
        self,
        report: Report,
        permit: OwnedSemaphorePermit,
    ) -> Option<GrantedAttempt> {
        let (said, polled) = (Said::of(&report), self.shared.clock.now());
        let has_riders = has_riders(&report);
        let mut delivery = self.answer_to(report, None).await;
        let next = match &mut delivery {
            Some(Delivery::Answered(answer)) => answer.next.take(),
            _ => None,
        };
        match delivery {
            Some(delivery) if has_riders && refusal_of(&delivery).is_some() => {
                self.file_refused(&delivery).await;
            }
            delivery => self.handle_delivery(said, delivery),
        }
        let granted = GrantedAttempt::new(&self.shared, *next?, polled, permit)?;
        Some(GrantedAttempt { is_next_stage: true, ..granted })
    }

    /// What is reported; nothing if a call has ended the attempt.
    fn report(&self, end: AttemptEnd) -> Option<Report> {
        let empty = self.empty_report();
        match end {
            AttemptEnd::Finished(end) => Some(self.report_task(end, empty)),
            AttemptEnd::Returned(returned) => Some(report_returned(*returned, empty)),
            AttemptEnd::Cancelled => Some(Report { outcome: Outcome::Cancelled, ..empty }),
            AttemptEnd::Closed => None,
            AttemptEnd::Interrupted => Some(released(empty)),
        }
    }

    fn empty_report(&self) -> Report {
        Report {
            spend: self.lease_state.spend(),
            task_id: self.envelope.task_id.clone(),
            task_token: self.lease_state.task_token(),
            attempt: self.envelope.attempt,
            worker_id: self.shared.worker_id.to_string(),
            outcome: Outcome::Succeeded,
            completed_at: Some(wall_clock()),
            output: None,
            error: None,
            metrics: None,
            cancelled_during_phase: None,
            partial_progress: None,
            traceparent: self.trace.map(|trace| trace.to_string()),
            steps: Vec::new(),
            children: Vec::new(),
            effects: Vec::new(),
            next: false,
            log: self.lease_state.log_lines(BUFFER_BYTES_MAX),
        }
    }

    fn report_task(&self, end: Result<Json, Failure>, empty: Report) -> Report {
        match (end, self.lease_state.stop_reason()) {
            (Ok(output), _) => Report { output: Some(output), ..empty },
            // Whatever the code says of it, it ended because the worker stops.
            (Err(_), Some(StopReason::ShuttingDown)) => released(empty),
            (Err(error), Some(StopReason::CancelRequested { .. })) => Report {
                outcome: Outcome::Cancelled,
                cancelled_during_phase: error.phase().map(str::to_owned),
                partial_progress: error.partial_progress().cloned(),
                ..empty
            },
            (Err(error), _) if error.is_hand_back() => released(empty),
            (Err(error), stopped) => {
                let error = ReportedError::from(&attribute_error(error, stopped));
                Report { outcome: Outcome::Failed, error: Some(error), ..empty }
            }
        }
    }

    fn loss_reason(&self) -> String {
        match self.lease_state.stop_reason() {
            Some(StopReason::LeaseLost { why }) => why,
            _ => "the lease has expired".to_owned(),
        }
    }
}

fn released(empty: Report) -> Report {
    Report { outcome: Outcome::Released, ..empty }
}

/// The end of a durable function, with what has yet to be recorded.
fn report_returned(returned: Returned, empty: Report) -> Report {
    let Returned { report, riding } = returned;
    let outcome = match report.outcome {
        workflow::Outcome::Succeeded | workflow::Outcome::Started => Outcome::Succeeded,
        workflow::Outcome::Failed => Outcome::Failed,
        workflow::Outcome::Cancelled => Outcome::Cancelled,
    };
    Report {
        outcome,
        output: report.output,
        error: report.error.map(reported),
        steps: riding.steps,
        children: riding.children,
        effects: riding.effects,
        ..empty
    }
}

/// Creates a span for the work, as a child of the one that the lease names.
fn work_trace(envelope: &Envelope) -> Option<TraceContext> {
    let parent = TraceContext::parse(envelope.traceparent.as_deref()?)?;
    let span = getrandom::u64().expect("the operating system has randomness");
    Some(parent.with_span(span))
}

/// An error that a stop request caused is attributed to that stop.
fn attribute_error(error: Failure, stopped: Option<StopReason>) -> Failure {
    match stopped {
        Some(StopReason::TimedOut) => Failure::timeout(format!("its time limit passed: {error}")),
        _ => error,
    }
}
