//! Delivers the report of an attempt and obeys the answer, which is final whatever it is.
//!
//! A report is filed with the outbox, from which it is repeated until something was decided. Two refusals are followed by
//! another report: of what rode along, and of a release by a coordinator that is older than releases.

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use wire::answers::ReportAnswer;
use wire::requests::{Report, ReportedError};
use wire::{Code, Outcome, Verdict};
use workflow::Failure;

use super::{Attempt, AttemptEnd};
use crate::worker::event::WorkerEvent;
use crate::worker::outbox::Filed;
use crate::worker::reports::{Delivery, PendingReport};

/// What the operator is told of a report.
pub(super) struct Said {
    outcome: Outcome,
    error: Option<String>,
}

impl Said {
    pub(super) fn of(report: &Report) -> Said {
        let error = report.error.as_ref().map(|error| error.message.clone());
        Said { outcome: report.outcome, error }
    }
}

impl Attempt {
    /// Reports the end of the attempt. The slot is free as soon as the report is filed.
    pub(super) async fn deliver(&self, report: Report, permit: Option<OwnedSemaphorePermit>) {
        let said = Said::of(&report);
        let instead = failed_instead(&report);
        let has_riders = has_riders(&report);
        match (self.answer_to(report, permit).await, instead) {
            (Some(delivery), Some(instead)) if is_release_unknown(&delivery) => {
                let said = Said::of(&instead);
                let delivery = self.answer_to(instead, None).await;
                self.handle_delivery(said, delivery);
            }
            (Some(delivery), None) if has_riders && refusal_of(&delivery).is_some() => {
                Box::pin(self.file_refused(&delivery)).await;
            }
            (delivery, _) => self.handle_delivery(said, delivery),
        }
    }

    /// The coordinator's answer to a report; `None` if the worker ended before it came.
    pub(super) async fn answer_to(
        &self,
        report: Report,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<Delivery> {
        let (delivery, delivered) = oneshot::channel();
        let log_switch = self.shared.log_switch.clone();
        let filed = self.shared.outbox.file(PendingReport { report, delivery, log_switch }).await;
        // Nothing executes from here on, so another attempt may use the slot.
        drop(permit);
        match filed {
            Filed::Shared => {}
            // A call has a large future, which every attempt would have to make room for.
            Filed::Turn(turn) => Box::pin(turn.deliver()).await,
            Filed::Refused => return None,
        }
        delivered.await.ok()
    }

    /// What rode with the report was refused: a report without it tells why, and the run does not wait for its lease.
    pub(super) async fn file_refused(&self, delivery: &Delivery) {
        let Some((code, message)) = refusal_of(delivery) else { return };
        self.emit_rejected(code.clone(), message.clone());
        let error = format!("the coordinator refused the last steps ({code}): {message}");
        let end = AttemptEnd::Finished(Err(Failure::permanent(error)));
        let Some(report) = self.report(end) else { return };
        let said = Said::of(&report);
        let delivery = self.answer_to(report, None).await;
        self.handle_delivery(said, delivery);
    }

    /// The coordinator's answer to a report is final, whatever it is.
    pub(super) fn handle_delivery(&self, said: Said, delivery: Option<Delivery>) {
        match delivery {
            Some(Delivery::Answered(answer)) => self.handle_answer(said, answer),
            Some(Delivery::Refused { code, message }) => self.emit_rejected(code, message),
            Some(Delivery::Unanswered(why)) => self.emit_unanswered(why),
            None => self.emit_unanswered("the worker stopped before that".to_owned()),
        }
    }

    fn handle_answer(&self, said: Said, answer: ReportAnswer) {
        let why = answer.error.unwrap_or_else(|| format!("status {}", answer.status));
        match answer.verdict {
            Some(Verdict::Committed) => self.shared.events.emit(WorkerEvent::Committed {
                task_id: self.envelope.task_id.clone(),
                attempt: self.envelope.attempt,
                outcome: said.outcome,
                error: said.error,
            }),
            Some(Verdict::Cancelled) => self.emit_lost(why),
            Some(Verdict::Rejected) | None => {
                self.emit_rejected(why, answer.message.unwrap_or_default())
            }
        }
    }

    fn emit_rejected(&self, code: String, message: String) {
        let task_id = Some(self.envelope.task_id.clone());
        self.shared.events.emit(WorkerEvent::Rejected { task_id, code, message });
    }

    pub(super) fn emit_lost(&self, why: String) {
        let (task_id, attempt) = (self.envelope.task_id.clone(), self.envelope.attempt);
        self.shared.events.emit(WorkerEvent::Cancelled { task_id, attempt, why });
    }

    fn emit_unanswered(&self, why: String) {
        let (task_id, attempt) = (self.envelope.task_id.clone(), self.envelope.attempt);
        self.shared.events.emit(WorkerEvent::Unanswered { task_id, attempt, why });
    }
}

/// Whether steps or children ride along with the report.
pub(super) fn has_riders(report: &Report) -> bool {
    !report.steps.is_empty() || !report.children.is_empty()
}

/// The code and message of a report that was refused as invalid, and may be followed by another one.
pub(super) fn refusal_of(delivery: &Delivery) -> Option<(String, String)> {
    let Delivery::Answered(answer) = delivery else { return None };
    let is_invalid = answer.verdict == Some(Verdict::Rejected) && answer.status != 409;
    let message = || answer.message.clone().unwrap_or_default();
    is_invalid.then(|| (answer.error.clone().unwrap_or_default(), message()))
}

/// Whether the coordinator refused a release because it does not know any: it is older than this
/// SDK.
fn is_release_unknown(delivery: &Delivery) -> bool {
    let code = match delivery {
        Delivery::Answered(answer) => answer.error.as_deref(),
        Delivery::Refused { code, .. } => Some(code.as_str()),
        Delivery::Unanswered(_) => None,
    };
    let code = code.and_then(|code| code.parse::<Code>().ok());
    matches!(code, Some(Code::InvalidArgument))
}

/// The report for a coordinator that does not know releases, if the report is one. The attempt
/// counts as a failure there.
fn failed_instead(report: &Report) -> Option<Report> {
    let error = Failure::infra("the worker shut down before the task was done").retryable();
    (report.outcome == Outcome::Released).then(|| Report {
        outcome: Outcome::Failed,
        error: Some(ReportedError::from(&error)),
        ..report.clone()
    })
}
