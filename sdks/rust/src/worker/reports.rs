//! Delivers reports in batches: all reports that wait when a call returns go into the next call.
//!
//! A report is repeated, with the same bytes and a bound on repetitions, only while nothing was
//! decided about it, or because the coordinator knows nothing of the lines that it carries. Each report gets exactly one [`Delivery`].

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use wire::answers::{ReportAnswer, ReportAnswers};
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::Report;

use super::backoff::Backoff;
use super::checkpoints::is_unread;
use super::durable::parts::riding_size;
use super::log_buffer::{LogSwitch, is_refused, is_refused_by};
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

/// Delivers reports until stopped, and then delivers those that were already filed.
pub(crate) async fn deliver(
    client: Client,
    retries: Retries,
    mut pending: mpsc::Receiver<PendingReport>,
    stop: CancellationToken,
) {
    while let Some(first) = next(&mut pending, &stop).await {
        let batch = gather(first, &mut pending);
        deliver_batch(&client, retries, batch).await;
    }
}

/// Returns nothing once the sender is dropped or closed and every report was taken.
async fn next(
    pending: &mut mpsc::Receiver<PendingReport>,
    stop: &CancellationToken,
) -> Option<PendingReport> {
    tokio::select! {
        biased;
        first = pending.recv() => return first,
        () = stop.cancelled() => pending.close(),
    }
    pending.recv().await
}

fn gather(first: PendingReport, waiting: &mut mpsc::Receiver<PendingReport>) -> Vec<PendingReport> {
    let mut bytes = size(&first.report);
    let mut batch = vec![first];
    while batch.len() < BATCH_ITEMS_MAX && bytes <= BATCH_BYTES_MAX {
        let Ok(next) = waiting.try_recv() else { break };
        bytes += size(&next.report);
        batch.push(next);
    }
    batch
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

async fn deliver_batch(client: &Client, retries: Retries, mut batch: Vec<PendingReport>) {
    let mut backoff = Backoff::new(retries);
    for _ in 0..=retries.times {
        match client.reports_of(batch.iter().map(|pending| &pending.report)).await {
            Ok(answers) if fits(&batch, &answers) => batch = hand_out(batch, answers),
            Ok(_) => return fail(batch, || unanswered("the answers do not match the reports")),
            Err(error) if is_refused_by(&error) && drop_lines(&mut batch) => {}
            Err(error) => return fail(batch, || failed(&error)),
        }
        if batch.is_empty() {
            return;
        }
        backoff.wait().await;
    }
    fail(batch, || unanswered("the coordinator was too busy"));
}

fn fits(batch: &[PendingReport], answers: &ReportAnswers) -> bool {
    let is_its = |filed: &PendingReport, answer: &ReportAnswer| {
        filed.report.task_id == answer.task_id || is_unread(&answer.task_id, answer.verdict)
    };
    batch.len() == answers.answers.len()
        && batch.iter().zip(&answers.answers).all(|(filed, answer)| is_its(filed, answer))
}

/// Passes each report its answer and returns those about which nothing was decided.
fn hand_out(batch: Vec<PendingReport>, answers: ReportAnswers) -> Vec<PendingReport> {
    let mut undecided = Vec::new();
    for (mut pending, answer) in batch.into_iter().zip(answers.answers) {
        let is_log_unknown = is_refused(answer.error.as_deref(), answer.field.as_deref());
        let is_undecided = answer.verdict.is_none() && matches!(answer.status, 429 | 503);
        if is_undecided || is_log_unknown && pending.drop_lines() {
            undecided.push(pending);
        } else {
            pending.answer(Delivery::Answered(answer));
        }
    }
    undecided
}

fn fail(batch: Vec<PendingReport>, delivery: impl Fn() -> Delivery) {
    for pending in batch {
        pending.answer(delivery());
    }
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

/// Whether a report carried lines. None does any more.
fn drop_lines(batch: &mut [PendingReport]) -> bool {
    batch.iter_mut().map(|pending| pending.drop_lines()).filter(|had_lines| *had_lines).count() > 0
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
