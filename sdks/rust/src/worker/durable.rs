//! Drives one attempt of a durable function: polls the engine, carries out its commands, brings the answers back.
//!
//! The engine decides what the function does next, and the coordinator what is true. Nothing is remembered here: after a
//! crash, the next attempt starts from what the coordinator has recorded.
//!
//! - A call is repeated until something was decided about it, within a bound. If nothing was, the attempt fails with
//!   `checkpoint_save_failed`, and no later step has started (S2-92).
//! - A lost lease drops the function at once. What it was doing is not reported.
//! - A cancelled run starts no further step. One that runs may end within half of the grace period, and is recorded.

pub(super) mod parts;
mod sealing;
mod timeouts;
mod translate;

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::sleep;
use wire::Verdict;
use wire::answers::{CheckpointAnswer, Envelope};
use wire::requests::{CheckpointItem, ReportedError};
use workflow::{Answer, Call, Command, Digest, Failure, Function, Report, Run, Start, State, Stop};

use self::timeouts::Timeouts;
use super::attempt::SharedState;
use super::checkpoints::{PendingCall, Recording};
use super::event::WorkerEvent;
use super::lease_state::StopReason;
use super::lease_table::HeldLease;
use super::log_buffer::{CALL_BYTES_MAX, last_of};
use crate::Error;
use crate::codec::Sealer;

/// How an attempt of a durable function ended.
pub(super) enum Ended {
    /// The function returned. What has yet to be recorded rides with the report.
    Returned(Box<Returned>),
    /// The attempt failed before the function returned.
    Failed(Failure),
    /// The run was cancelled, and the function dropped.
    Cancelled,
    /// A call ended the attempt: there is nothing to report.
    Closed,
    /// The lease is lost: nothing may be reported.
    Lost,
}

pub(super) struct Returned {
    pub(super) report: Report,
    pub(super) riding: CheckpointItem,
}

/// What is needed to drive one attempt.
pub(super) struct Driver<'a> {
    pub(super) shared: &'a SharedState,
    pub(super) envelope: &'a Envelope,
    pub(super) held: &'a Arc<HeldLease>,
}

/// A call under way.
type Recorded<'d> = BoxFuture<'d, Result<Answer, Ended>>;

impl Driver<'_> {
    /// Runs the function until it returns or waits, or until the attempt is over.
    pub(super) async fn drive(&self, function: Function<'static>) -> Ended {
        match self.start().await {
            Ok(start) => {
                let run = Run::with_digest(start, function, self.shared.client.codec().digest());
                run.set_left(self.held.lease_state.left());
                self.carry_out(run).await
            }
            Err(ended) => ended,
        }
    }

    async fn carry_out(&self, mut run: Run<'static>) -> Ended {
        let mut timeouts = Timeouts::default();
        let mut call: Option<Recorded<'_>> = None;
        let mut cancel_deadline = std::pin::pin!(self.cancel_deadline());
        loop {
            let command = tokio::select! {
                biased;
                () = self.held.lease_state.lost_token().cancelled() => return Ended::Lost,
                () = &mut cancel_deadline => return Ended::Cancelled,
                answer = answer_of(&mut call) => {
                    call = None;
                    match answer {
                        Ok(answer) => {
                            run.set_left(self.held.lease_state.left());
                            run.recorded(answer);
                        }
                        Err(ended) => return ended,
                    }
                    continue;
                }
                (key, number) = timeouts.next() => {
                    run.time_out(&key, number);
                    continue;
                }
                command = poll_fn(|cx| run.poll(cx)) => command,
            };
            match command {
                Ok(Command::Execute { .. }) if self.is_cancelled() => return Ended::Cancelled,
                Ok(Command::Execute { key, number, timeout }) => timeouts.add(key, number, timeout),
                Ok(Command::Checkpoint(next)) => {
                    timeouts.forget(&next.steps);
                    call = Some(self.record(next));
                }
                Ok(Command::Complete(report)) => return self.conclude(report).await,
                Ok(Command::Suspend) => return self.suspended(),
                Ok(Command::Halt) => return Ended::Closed,
                Ok(Command::Cancel) => return Ended::Cancelled,
                Err(stop) => return self.park(&stop).await,
            }
        }
    }

    /// What the attempt begins with. Checkpoints that the envelope has no room for are read in pages.
    async fn start(&self) -> Result<Start, Ended> {
        let envelope = self.envelope;
        let mut recorded = envelope.checkpoints.clone();
        let mut after = envelope.checkpoints_after;
        while let Some(number) = after {
            let page = self.page_after(number).await?;
            recorded.extend(page.checkpoints);
            after = page.next_after;
        }
        Ok(Start {
            task_id: envelope.task_id.clone(),
            origin: envelope.origin.clone(),
            fence: envelope.fence,
            seed: envelope.seed.unwrap_or_else(|| seed_of(&envelope.task_id)),
            created_at: envelope.enqueued_at,
            input: envelope.input.clone(),
            checkpoints: sealing::opened(self.codec(), workflow::checkpoints(recorded))?,
        })
    }

    async fn page_after(&self, number: u32) -> Result<wire::answers::Checkpoints, Ended> {
        let task_token = self.held.lease_state.task_token();
        let page =
            self.shared.client.checkpoints_after(&self.envelope.task_id, &task_token, number);
        page.await.map_err(|error| self.unreadable(&error))
    }

    /// Another worker may be able to read them.
    fn unreadable(&self, error: &Error) -> Ended {
        if error.verdict() == Some(Verdict::Cancelled) {
            return self.lost(error.to_string());
        }
        Ended::Failed(Failure::hand_back(format!("cannot read what is recorded: {error}")))
    }

    /// Sends a call of the engine, in parts if it is large. The last answer counts, unless an earlier one ends the run.
    fn record(&self, call: Call) -> Recorded<'_> {
        Box::pin(async move {
            let call = sealing::sealed_call(self.codec(), call)?;
            let mut parts = parts::split(call).into_iter().peekable();
            loop {
                let part = parts.next().expect("a call has at least one part");
                let answer = self.send(part).await?;
                let ends_here = answer.state != State::Running || answer.should_cancel;
                if ends_here || parts.peek().is_none() {
                    return Ok(answer);
                }
            }
        })
    }

    async fn send(&self, part: CheckpointItem) -> Result<Answer, Ended> {
        let item = CheckpointItem {
            task_id: self.envelope.task_id.clone(),
            attempt: self.envelope.attempt,
            worker_id: self.shared.worker_id.to_string(),
            log: self.held.lease_state.log_lines(CALL_BYTES_MAX),
            ..part
        };
        let last_line = last_of(&item.log);
        // The call implies the start.
        self.held.send_start();
        let (recording, recorded) = oneshot::channel();
        let call = PendingCall { item, held: Arc::clone(self.held), recording };
        // Without the thread that sends calls there are no heartbeats either.
        let ended = || self.lost("its worker no longer sends calls".to_owned());
        self.shared.calls.send(call).await.map_err(|_| ended())?;
        match recorded.await.map_err(|_| ended())? {
            Recording::Committed { answer, server_time } => {
                self.held.lease_state.log_arrived(last_line);
                let answer = self.with_results(*answer).await?;
                let answer = translate::answer(answer, server_time);
                let results = sealing::opened(self.codec(), answer.results)?;
                Ok(Answer { results, ..answer })
            }
            Recording::Lost(why) => Err(self.lost(why)),
            Recording::Refused { code, message } => Err(self.refused(code, message)),
            Recording::Unanswered(why) => Err(Ended::Failed(save_failed(&why))),
        }
    }

    /// Reads results that the answer had no room for.
    async fn with_results(&self, mut answer: CheckpointAnswer) -> Result<CheckpointAnswer, Ended> {
        if !answer.results_left_out {
            return Ok(answer);
        }
        // What the envelope brought is known. The engine keeps what it awaits, and ignores the rest.
        let known = self.envelope.checkpoints.last().map_or(0, |last| last.number);
        let mut after = Some(self.envelope.checkpoints_after.unwrap_or(known));
        let mut results = Vec::new();
        while let Some(number) = after {
            let page = self.page_after(number).await?;
            let is_result = |found: &wire::answers::Checkpoint| {
                let is_end = found.outcome != wire::CheckpointOutcome::Started;
                is_end && found.kind != wire::CheckpointKind::Step
            };
            results.extend(page.checkpoints.into_iter().filter(is_result));
            after = page.next_after;
        }
        answer.results = results;
        Ok(answer)
    }

    /// The end of the function. What is too large to ride with the report is recorded before it.
    async fn conclude(&self, report: Report) -> Ended {
        let mut report = match sealing::sealed_report(self.codec(), report) {
            Ok(report) => report,
            Err(ended) => return ended,
        };
        let (steps, children) =
            (std::mem::take(&mut report.steps), std::mem::take(&mut report.children));
        let (before, riding) = parts::of_report(steps, children);
        for part in before {
            match self.send(part).await {
                Ok(answer) if answer.state == State::Running => {}
                Ok(_) => return Ended::Closed,
                Err(ended) => return ended,
            }
        }
        Ended::Returned(Box::new(Returned { report, riding }))
    }

    /// The function cannot go on with this code: the run waits for another build.
    async fn park(&self, stop: &Stop) -> Ended {
        let diverged = Some(translate::diverged(stop));
        if let Err(ended) =
            self.send(CheckpointItem { diverged, ..CheckpointItem::default() }).await
        {
            return ended;
        }
        self.shared.events.emit(WorkerEvent::Diverged {
            task_id: self.envelope.task_id.clone(),
            attempt: self.envelope.attempt,
            why: stop.to_string(),
        });
        Ended::Closed
    }

    fn codec(&self) -> &Sealer {
        self.shared.client.codec()
    }

    fn suspended(&self) -> Ended {
        let (task_id, attempt) = (self.envelope.task_id.clone(), self.envelope.attempt);
        self.shared.events.emit(WorkerEvent::Suspended { task_id, attempt });
        Ended::Closed
    }

    fn lost(&self, why: String) -> Ended {
        self.held.lease_state.lose(why);
        Ended::Lost
    }

    fn refused(&self, code: String, message: String) -> Ended {
        let failed = format!("the coordinator refused a checkpoint ({code}): {message}");
        let task_id = Some(self.envelope.task_id.clone());
        self.shared.events.emit(WorkerEvent::Rejected { task_id, code, message });
        Ended::Failed(Failure::permanent(failed))
    }

    fn is_cancelled(&self) -> bool {
        let stopped = self.held.lease_state.stop_reason();
        matches!(stopped, Some(StopReason::CancelRequested { .. }))
    }

    /// Completes when a cancelled run has had half of its grace period. The other half is for the report.
    async fn cancel_deadline(&self) {
        self.held.lease_state.stop_token().cancelled().await;
        if !self.is_cancelled() {
            return pending().await;
        }
        sleep(Duration::from_millis(self.envelope.cancel_grace_period_ms) / 2).await;
    }
}

/// The seed of a run that was submitted without one: equal in every attempt, and another one in every run.
fn seed_of(task_id: &str) -> u64 {
    let digest = Digest::of(task_id).expect("text has a JSON form");
    let mut first = [0; 8];
    first.copy_from_slice(&digest.bytes()[..8]);
    u64::from_be_bytes(first)
}

async fn answer_of(call: &mut Option<Recorded<'_>>) -> Result<Answer, Ended> {
    match call {
        Some(call) => call.await,
        None => pending().await,
    }
}

/// Nothing was recorded, so nothing later may start (S2-92).
fn save_failed(why: &str) -> Failure {
    let message = format!(
        "checkpoint_save_failed: the coordinator did not record the last steps ({why}). No later \
         step was started; another attempt continues from what is recorded"
    );
    Failure::infra(message).retryable()
}

/// Why a durable function failed. It fails in the same way in every replay, so another attempt is of no use unless the
/// function says otherwise.
pub(super) fn reported(failure: Failure) -> ReportedError {
    let Failure { category, reason, message, retryable, .. } = failure;
    let message = match reason {
        Some(reason) => format!("{reason}: {message}"),
        None => message,
    };
    ReportedError {
        category: match category {
            wire::ErrorCategory::Cancelled => wire::ErrorCategory::UserCode,
            category => category,
        },
        message,
        stack_trace: None,
        retryable: Some(retryable.unwrap_or(false)),
    }
}
