//! One call with reports: as many as wait and fit.
//!
//! A report is repeated, with the same bytes and a bound on repetitions, only while nothing was
//! decided about it, or because the coordinator knows nothing of the lines that it carries. Each report gets exactly one [`Delivery`].

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::oneshot;
use wire::answers::{ReportAnswer, ReportAnswers};
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::Report;

use super::backoff::Backoff;
use super::checkpoints::is_unread;
use super::durable::parts::riding_size;
use super::lease_state::locked;
use super::log_buffer::{LogSwitch, is_refused, is_refused_by};
use crate::transport::Call;
use crate::{Client, Error, Retries};

/// Well below the coordinator's limit on a body, with room for one more report of any size.
const BATCH_BYTES_MAX: usize = 512 * 1024;
/// The size of a report without its texts.
const ITEM_BYTES: usize = 512;
/// The size of a line without its text.
const LOG_LINE_BYTES: usize = 96;

/// A report that waits for its answer.
pub(crate) struct PendingReport {
    pub(crate) report: Report,
    pub(crate) delivery: oneshot::Sender<Delivery>,
    pub(crate) log_switch: LogSwitch,
}

/// The result of a delivery.
#[derive(Debug)]
pub(crate) enum Delivery {
    Answered(ReportAnswer),
    /// The whole call was refused.
    Refused {
        code: String,
        message: String,
    },
    /// Nothing was decided within the bound.
    Unanswered(String),
}

/// The reports of one call. They can be taken away while it is under way; then its answer says nothing any more.
pub(super) struct Batch(Mutex<Vec<PendingReport>>);

/// The oldest reports that wait, as many as one call carries; `None` if none waits.
pub(super) fn gather(waiting: &mut VecDeque<PendingReport>) -> Option<Batch> {
    let mut bytes = 0;
    let fits = |pending: &&PendingReport| {
        let is_room = bytes <= BATCH_BYTES_MAX;
        bytes += size(&pending.report);
        is_room
    };
    let count = waiting.iter().take(BATCH_ITEMS_MAX).take_while(fits).count();
    (count > 0).then(|| Batch(Mutex::new(waiting.drain(..count).collect())))
}

impl Batch {
    pub(super) fn take(&self) -> Vec<PendingReport> {
        std::mem::take(&mut locked(&self.0))
    }

    /// The call; `None` if the reports were taken away.
    fn call(&self, client: &Client) -> Option<Result<Call, Error>> {
        let batch = locked(&self.0);
        let reports = || batch.iter().map(|pending| &pending.report);
        (!batch.is_empty()).then(|| client.reports_call(reports()))
    }

    /// Whether a report carried lines. None does any more.
    fn drop_lines(&self) -> bool {
        let mut batch = locked(&self.0);
        batch.iter_mut().map(|pending| pending.drop_lines()).filter(|had_lines| *had_lines).count()
            > 0
    }

    fn fail(&self, delivery: impl Fn() -> Delivery) {
        for pending in self.take() {
            pending.answer(delivery());
        }
    }

    /// Passes each report its answer and keeps those about which nothing was decided.
    fn hand_out(&self, answers: ReportAnswers) {
        let batch = self.take();
        if batch.is_empty() {
            return;
        }
        if !fits(&batch, &answers) {
            for pending in batch {
                pending.answer(unanswered("the answers do not match the reports"));
            }
            return;
        }
        *locked(&self.0) = undecided(batch, answers);
    }

    fn is_empty(&self) -> bool {
        locked(&self.0).is_empty()
    }
}

/// Repeats the call until all of its reports were decided, within the bound, or taken away.
pub(super) async fn deliver_batch(client: &Client, retries: Retries, batch: &Batch) {
    let mut backoff = Backoff::new(retries);
    for _ in 0..=retries.times {
        let Some(call) = batch.call(client) else { return };
        let answered = match call {
            Ok(call) => client.send_reports(&call).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(answers) => batch.hand_out(answers),
            Err(error) if is_refused_by(&error) && batch.drop_lines() => {}
            Err(error) => batch.fail(|| failed(&error)),
        }
        if batch.is_empty() {
            return;
        }
        backoff.wait().await;
    }
    batch.fail(|| unanswered("the coordinator was too busy"));
}

fn size(report: &Report) -> usize {
    let output = report.output.as_ref().map_or(0, |output| output.text().len());
    let partial = report.partial_progress.as_ref().map_or(0, |partial| partial.text().len());
    let error = report.error.as_ref();
    let error = error.map_or(0, |e| e.message.len() + e.stack_trace.as_deref().map_or(0, str::len));
    let riding = riding_size(report);
    let log: usize = report.log.iter().map(|line| line.text.len() + LOG_LINE_BYTES).sum();
    output + partial + error + riding + log + report.task_token.len() + ITEM_BYTES
}

fn fits(batch: &[PendingReport], answers: &ReportAnswers) -> bool {
    let is_its = |filed: &PendingReport, answer: &ReportAnswer| {
        filed.report.task_id == answer.task_id || is_unread(&answer.task_id, answer.verdict)
    };
    batch.len() == answers.answers.len()
        && batch.iter().zip(&answers.answers).all(|(filed, answer)| is_its(filed, answer))
}

/// Passes each report its answer and returns those about which nothing was decided.
fn undecided(batch: Vec<PendingReport>, answers: ReportAnswers) -> Vec<PendingReport> {
    let mut left = Vec::new();
    for (mut pending, answer) in batch.into_iter().zip(answers.answers) {
        let is_log_unknown = is_refused(answer.error.as_deref(), answer.field.as_deref());
        let is_undecided = answer.verdict.is_none() && matches!(answer.status, 429 | 503);
        if is_undecided || is_log_unknown && pending.drop_lines() {
            left.push(pending);
        } else {
            pending.answer(Delivery::Answered(answer));
        }
    }
    left
}

fn failed(error: &Error) -> Delivery {
    match error.problem().filter(|_| !error.is_retryable()) {
        Some(problem) => {
            Delivery::Refused { code: problem.error.clone(), message: error.to_string() }
        }
        None => unanswered(&error.to_string()),
    }
}

fn unanswered(why: &str) -> Delivery {
    Delivery::Unanswered(why.to_owned())
}

impl PendingReport {
    /// Whether the report carried lines. It does not any more, and no later call will.
    fn drop_lines(&mut self) -> bool {
        let had_lines = !self.report.log.is_empty();
        if had_lines {
            self.log_switch.turn_off();
            self.report.log.clear();
        }
        had_lines
    }

    fn answer(self, delivery: Delivery) {
        // An abandoned attempt no longer waits for its answer.
        let _ = self.delivery.send(delivery);
    }
}
