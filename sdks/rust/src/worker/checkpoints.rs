//! Delivers the checkpoint calls of all durable functions of one worker: calls that wait share one request.
//!
//! A call is repeated, with the same content and a bound on repetitions, only while nothing was decided about it, or without
//! the lines that it carries if the coordinator knows nothing of them. A committed call renews its lease and implies the start. Each call gets exactly one [`Recording`].

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use wire::answers::{CheckpointAnswer, CheckpointAnswers};
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::CheckpointItem;
use wire::{Time, Verdict};

use super::backoff::Backoff;
use super::clock::Moment;
use super::durable::parts::size;
use super::lease_state::StopReason;
use super::lease_table::HeldLease;
use super::log_buffer::{is_refused, is_refused_by};
use crate::{Client, Error, Retries};

/// How many requests may be in flight: an answer that does not come must not keep other runs from their next step.
const REQUESTS_MAX: usize = 4;
/// Below the coordinator's limit of 1 MiB on a body. A larger call travels alone.
const BATCH_BYTES_MAX: usize = 768 * 1024;

/// A call that waits for its answer.
pub(crate) struct PendingCall {
    pub(crate) item: CheckpointItem,
    pub(crate) held: Arc<HeldLease>,
    pub(crate) recording: oneshot::Sender<Recording>,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Recording {
    Committed {
        answer: Box<CheckpointAnswer>,
        server_time: Time,
    },
    /// The attempt has lost its authority.
    Lost(String),
    /// The call is invalid, and nothing of it took effect.
    Refused {
        code: String,
        message: String,
    },
    /// Nothing was decided within the bound.
    Unanswered(String),
}

/// Delivers calls until it is stopped. A call that waits then belongs to an attempt that the worker has given up.
pub(crate) async fn deliver(
    client: Client,
    retries: Retries,
    mut pending: mpsc::Receiver<PendingCall>,
    stop: CancellationToken,
) {
    let mut in_flight = FuturesUnordered::new();
    // The call that did not fit into the last batch.
    let mut left_over: Option<PendingCall> = None;
    loop {
        let has_room = in_flight.len() < REQUESTS_MAX;
        let first = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(()) = in_flight.next() => continue,
            Some(first) = next(&mut left_over, &mut pending), if has_room => first,
        };
        let batch = gather(first, &mut pending, &mut left_over);
        in_flight.push(deliver_batch(client.clone(), retries, batch));
    }
}

async fn next(
    left_over: &mut Option<PendingCall>,
    pending: &mut mpsc::Receiver<PendingCall>,
) -> Option<PendingCall> {
    match left_over.take() {
        Some(call) => Some(call),
        None => pending.recv().await,
    }
}

fn gather(
    first: PendingCall,
    pending: &mut mpsc::Receiver<PendingCall>,
    left_over: &mut Option<PendingCall>,
) -> Vec<PendingCall> {
    let mut bytes = size(&first.item);
    let mut batch = vec![first];
    while batch.len() < BATCH_ITEMS_MAX {
        let Ok(call) = pending.try_recv() else { break };
        bytes += size(&call.item);
        if bytes > BATCH_BYTES_MAX {
            *left_over = Some(call);
            break;
        }
        batch.push(call);
    }
    batch
}

async fn deliver_batch(client: Client, retries: Retries, mut batch: Vec<PendingCall>) {
    let mut backoff = Backoff::new(retries);
    let mut why = String::new();
    for _ in 0..=retries.times {
        for call in &mut batch {
            call.item.task_token = call.held.lease_state.task_token();
        }
        let Some(sent) = batch.first().map(|call| call.held.lease_state.clock().now()) else {
            return;
        };
        match client.checkpoints_of(batch.iter().map(|call| &call.item)).await {
            Ok(answers) if fits(&batch, &answers) => {
                "the coordinator was too busy".clone_into(&mut why);
                batch = hand_out(batch, answers, sent);
            }
            Ok(_) => {
                let why = "the answers do not match the calls";
                return fail(batch, || Recording::Unanswered(why.to_owned()));
            }
            Err(error) if is_refused_by(&error) && drop_lines(&mut batch) => {}
            Err(error) if error.is_retryable() => why = error.to_string(),
            Err(error) => return fail(batch, || refused(&error)),
        }
        if batch.is_empty() {
            return;
        }
        backoff.wait().await;
        // A call of an attempt that was given up meanwhile is not sent again.
        batch.retain(|call| !call.recording.is_closed());
    }
    fail(batch, || Recording::Unanswered(why.clone()));
}

fn fits(batch: &[PendingCall], answers: &CheckpointAnswers) -> bool {
    let answers = &answers.answers;
    // An item that could not be read is answered without its task, in its place.
    let is_its = |call: &PendingCall, answer: &CheckpointAnswer| {
        call.item.task_id == answer.task_id || is_unread(&answer.task_id, answer.verdict)
    };
    batch.len() == answers.len()
        && batch.iter().zip(answers).all(|(call, answer)| is_its(call, answer))
}

/// Whether the coordinator refused an item before it knew the item's task.
pub(super) fn is_unread(task_id: &str, verdict: Option<Verdict>) -> bool {
    task_id.is_empty() && verdict == Some(Verdict::Rejected)
}

/// Passes each call its answer and returns those about which nothing was decided.
fn hand_out(batch: Vec<PendingCall>, answers: CheckpointAnswers, sent: Moment) -> Vec<PendingCall> {
    let mut undecided = Vec::new();
    let CheckpointAnswers { answers, server_time, .. } = answers;
    for (mut call, answer) in batch.into_iter().zip(answers) {
        let is_log_unknown = is_refused(answer.error.as_deref(), answer.field.as_deref());
        let is_undecided = answer.verdict.is_none() && matches!(answer.status, 429 | 503);
        if is_undecided || is_log_unknown && call.drop_lines() {
            undecided.push(call);
        } else {
            let recording = recording(&call.held, answer, sent, server_time);
            call.answer(recording);
        }
    }
    undecided
}

/// Whether a call carried lines. None does any more.
fn drop_lines(batch: &mut [PendingCall]) -> bool {
    batch.iter_mut().map(|call| call.drop_lines()).filter(|had_lines| *had_lines).count() > 0
}

fn recording(
    held: &HeldLease,
    mut answer: CheckpointAnswer,
    sent: Moment,
    server_time: Time,
) -> Recording {
    let code = answer.error.take().unwrap_or_else(|| format!("status {}", answer.status));
    match answer.verdict {
        Some(Verdict::Committed) => {
            held.lease_state.set_left(answer.left.take());
            renew(held, &mut answer, sent, server_time);
            Recording::Committed { answer: Box::new(answer), server_time }
        }
        Some(Verdict::Cancelled) => Recording::Lost(code),
        Some(Verdict::Rejected) | None => {
            Recording::Refused { code, message: answer.message.unwrap_or_default() }
        }
    }
}

/// A call that ended its attempt renews nothing.
fn renew(held: &HeldLease, answer: &mut CheckpointAnswer, sent: Moment, server_time: Time) {
    if answer.lease_expires_at.is_none() {
        return;
    }
    held.renewed(sent, answer.lease_expires_at, server_time);
    held.start_answered();
    if let Some(task_token) = answer.task_token.take() {
        held.lease_state.refresh_token(task_token);
    }
    if answer.should_cancel == Some(true) {
        let reason = answer.cancel_reason.clone();
        held.lease_state.stop(StopReason::CancelRequested { reason });
    }
}

fn fail(batch: Vec<PendingCall>, recording: impl Fn() -> Recording) {
    for call in batch {
        call.answer(recording());
    }
}

fn refused(error: &Error) -> Recording {
    let code = error.problem().map_or_else(String::new, |problem| problem.error.clone());
    Recording::Refused { code, message: error.message() }
}

impl PendingCall {
    /// Whether the call carried lines. It does not any more, and no later call will.
    fn drop_lines(&mut self) -> bool {
        let had_lines = !self.item.log.is_empty();
        if had_lines {
            self.held.lease_state.log_switch().turn_off();
            self.item.log.clear();
        }
        had_lines
    }

    fn answer(self, recording: Recording) {
        // An attempt that was given up no longer waits for its answer.
        let _ = self.recording.send(recording);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::clock::Clock;
    use super::super::lease_state::{LeaseState, Precondition, usable_for};
    use super::*;
    use crate::testing::envelope;

    const TTL: Duration = Duration::from_secs(90);

    fn held(polled: Moment, clock: Clock) -> HeldLease {
        let lease_state = Arc::new(LeaseState::new("old".to_owned(), clock));
        let envelope = Arc::new(envelope(wire::Json::null()));
        HeldLease::new(envelope, lease_state, "w".into(), polled, Precondition::LeaseAndStart)
    }

    fn committed(lease_expires_at: Option<Time>) -> CheckpointAnswer {
        CheckpointAnswer {
            status: 200,
            verdict: Some(Verdict::Committed),
            lease_expires_at,
            task_token: Some("new".to_owned()),
            should_cancel: Some(true),
            ..CheckpointAnswer::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_committed_call_renews_the_lease_from_its_sending_and_implies_the_start() {
        // R-30, S3-10: trusted from before the call was sent, however long its answer took.
        let clock = Clock::with_boot_time(|| Duration::ZERO);
        let held = held(clock.now(), clock.clone());
        tokio::time::advance(Duration::from_secs(20)).await;
        let sent = clock.now();
        tokio::time::advance(Duration::from_secs(5)).await;
        let later = clock.now();
        let answer = committed(Some(Time::from_ms(90_000)));
        let recorded = recording(&held, answer.clone(), sent, Time::from_ms(0));
        assert!(matches!(recorded, Recording::Committed { .. }));
        assert_eq!(held.lease_state.valid_until(), Some(sent.after(usable_for(TTL))));
        assert_eq!(held.lease_state.task_token(), "new");
        assert_eq!(held.start_due(), None);
        held.lease_state.wait_until(Precondition::LeaseAndStart).await;
        let reason = None;
        let stopped = Some(StopReason::CancelRequested { reason });
        assert_eq!(held.lease_state.stop_reason(), stopped);

        // The answer of an earlier call that comes later says nothing new.
        recording(&held, answer.clone(), later, Time::from_ms(0));
        recording(&held, answer, sent, Time::from_ms(0));
        assert_eq!(held.lease_state.valid_until(), Some(later.after(usable_for(TTL))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_ended_its_attempt_renews_nothing() {
        let clock = Clock::with_boot_time(|| Duration::ZERO);
        let polled = clock.now();
        let held = held(polled, clock.clone());
        tokio::time::advance(Duration::from_secs(20)).await;
        recording(&held, committed(None), clock.now(), Time::from_ms(0));
        assert_eq!(held.lease_state.valid_until(), Some(polled.after(usable_for(TTL))));
        assert_eq!(held.lease_state.stop_reason(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_refused_for_its_lines_is_sent_without() {
        let clock = Clock::with_boot_time(|| Duration::ZERO);
        let held = Arc::new(held(clock.now(), clock.clone()));
        held.lease_state.log(wire::LogLevel::Info, "begun");
        let log = held.lease_state.log_lines(usize::MAX);
        let (recording, mut recorded) = oneshot::channel();
        let item = CheckpointItem { log, ..CheckpointItem::default() };
        let call = PendingCall { item, held: Arc::clone(&held), recording };
        let refusal = CheckpointAnswer {
            status: 400,
            verdict: Some(Verdict::Rejected),
            error: Some("invalid_argument".to_owned()),
            field: Some("checkpoints[0].log".to_owned()),
            ..CheckpointAnswer::default()
        };
        let answers =
            || CheckpointAnswers { answers: vec![refusal.clone()], server_time: Time::MIN };
        let again = hand_out(vec![call], answers(), clock.now());
        assert!(again[0].item.log.is_empty() && held.lease_state.log_lines(usize::MAX).is_empty());
        assert!(recorded.try_recv().is_err(), "nothing was decided");
        assert!(hand_out(again, answers(), clock.now()).is_empty());
        assert!(matches!(recorded.try_recv(), Ok(Recording::Refused { .. })));
    }
}
