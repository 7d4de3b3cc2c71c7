//! Keeps leases: sends starts and heartbeats when due, obeys the answers, and marks a lease as lost
//! when it expires.
//!
//! Runs on a separate thread (see `heartbeat_thread`), so that a task's code can delay neither
//! heartbeats nor expiry. One call with heartbeats is in flight at a time and carries everything that
//! is due; what becomes due meanwhile goes into the next call. A missing answer means nothing by
//! itself: the lease is lost when its own time is over.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wire::answers::{HeartbeatAnswer, HeartbeatAnswers};
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::Heartbeats;
use wire::{Time, Verdict};

use super::checkpoints::is_unread;
use super::clock::{Clock, Moment};
use super::event::{Events, WorkerEvent};
use super::lease_state::StopReason;
use super::lease_table::{HeldLease, LOOK_WITHIN, LeaseTable, Look};
use super::log_buffer::{is_refused, is_refused_by, last_of};
use super::metrics::HEARTBEAT_LATE_AFTER;
use super::outbox::Outbox;
use super::starts::{START_SPACING, StartCalls};
use crate::{Client, Error, Retries};

/// The minimum timeout for an answer, even if heartbeats are more frequent.
pub(super) const ANSWER_TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// Well below the coordinator's limit on a body; the rest goes into the next call.
const BATCH_BYTES_MAX: usize = 192 * 1024;
/// The interval at which the clocks are checked while leases are held. Timers stop while the
/// machine is suspended. A task has one second left when its lease is over, and with this interval
/// at least half of it is left when the task is notified.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The size of a heartbeat without its token and message.
const ITEM_BYTES: usize = 512;

/// Sends starts and heartbeats and watches deadlines until it is stopped. Heartbeats are repeated for
/// as long as their lease lasts, starts as `retries` says.
pub(crate) async fn send_heartbeats(
    client: Client,
    retries: Retries,
    lease_table: Arc<LeaseTable>,
    outbox: &Outbox,
    stop: CancellationToken,
) {
    let mut heartbeats: Option<BoxFuture<'static, BatchAnswer>> = None;
    let mut starts = StartCalls::new(client.clone(), retries);
    loop {
        let has_reports = outbox.look();
        let (Look { live, is_new }, now) = (lease_table.look(), lease_table.clock.now());
        if heartbeats.is_none() {
            let batch = take_due(&live, now);
            let is_late = |held: &&Arc<HeldLease>| {
                held.heartbeat_due().after(HEARTBEAT_LATE_AFTER).has_come(now)
            };
            lease_table.events.metrics.count_late_heartbeats(batch.iter().filter(is_late).count());
            let clock = lease_table.clock.clone();
            heartbeats = (!batch.is_empty()).then(|| send(client.clone(), batch, clock));
        }
        starts.send_due(&live, now);
        let idle = Idle { heartbeats: heartbeats.is_none(), starts: starts.may_send() };
        let soon = (is_new || has_reports).then(|| now.after(LOOK_WITHIN).timer(now));
        let wake = next_wake(&live, idle, now).into_iter().chain(soon).min();
        lease_table.plan_wake(wake);
        tokio::select! {
            () = stop.cancelled() => return,
            () = lease_table.changed() => {}
            () = at(wake) => {}
            answered = next_answer(&mut heartbeats) => {
                heartbeats = None;
                apply_answers(answered, &lease_table.events);
            }
            answered = starts.next_answer() => starts.apply(answered, &lease_table.events),
        }
    }
}

/// Which kinds of calls may be sent now, because few enough are in flight.
#[derive(Clone, Copy)]
struct Idle {
    heartbeats: bool,
    starts: bool,
}

/// When the clocks must be checked next; `None` while no lease is held.
fn next_wake(live: &[Arc<HeldLease>], idle: Idle, now: Moment) -> Option<Instant> {
    let heartbeats = live.iter().map(|held| held.heartbeat_due()).filter(|_| idle.heartbeats);
    let ends = live.iter().map(|held| held.ends_at());
    let next = ends.chain(heartbeats).map(|moment| moment.timer(now)).min();
    let starts = live.iter().filter_map(|held| held.start_due()).filter(|_| idle.starts);
    // Starts of tasks that began one after the other share a call.
    let soonest = now.after(START_SPACING).timer(now);
    let start = starts.map(|moment| moment.timer(now)).min().map(|start| start.max(soonest));
    let next = next.into_iter().chain(start).min();
    next.map(|next| next.min(now.after(CLOCK_CHECK_INTERVAL).timer(now)))
}

struct BatchAnswer {
    batch: Vec<Arc<HeldLease>>,
    /// The number of the last line that each heartbeat carried.
    last_lines: Vec<u64>,
    /// Read before the call was made.
    sent: Moment,
    answers: Result<HeartbeatAnswers, Error>,
}

fn take_due(live: &[Arc<HeldLease>], now: Moment) -> Vec<Arc<HeldLease>> {
    let mut bytes = 0;
    live.iter()
        .filter(|held| held.heartbeat_due().has_come(now))
        .take_while(|held| {
            let message = held.lease_state.progress().message.map_or(0, |message| message.len());
            let log = held.lease_state.log_bytes();
            bytes += held.envelope.task_token.len() + message + log + ITEM_BYTES;
            bytes <= BATCH_BYTES_MAX
        })
        .take(BATCH_ITEMS_MAX)
        .cloned()
        .collect()
}

fn send(
    client: Client,
    batch: Vec<Arc<HeldLease>>,
    clock: Clock,
) -> BoxFuture<'static, BatchAnswer> {
    Box::pin(async move {
        let heartbeats =
            Heartbeats { heartbeats: batch.iter().map(|held| held.heartbeat()).collect() };
        let last_lines = heartbeats.heartbeats.iter().map(|item| last_of(&item.log)).collect();
        let interval = batch.iter().map(|held| held.interval()).min().unwrap_or_default();
        let sent = clock.now();
        let answers =
            client.heartbeats_with_timeout(&heartbeats, interval.max(ANSWER_TIMEOUT_MIN)).await;
        BatchAnswer { batch, last_lines, sent, answers }
    })
}

fn apply_answers(answered: BatchAnswer, events: &Events) {
    let BatchAnswer { batch, last_lines, sent, answers } = answered;
    match answers {
        Ok(answers) if fits(&batch, &answers) => {
            for ((held, answer), last_line) in batch.iter().zip(answers.answers).zip(last_lines) {
                let is_log_unknown = is_refused(answer.error.as_deref(), answer.field.as_deref());
                if last_line > 0 && is_log_unknown {
                    without_lines(held);
                    continue;
                }
                if answer.verdict == Some(Verdict::Committed) {
                    held.lease_state.log_arrived(last_line);
                }
                apply_answer(held, answer, sent, answers.server_time, events);
            }
        }
        Err(error) if is_refused_by(&error) && last_lines.iter().any(|last| *last > 0) => {
            batch.iter().for_each(|held| without_lines(held));
        }
        Err(error) if error.verdict().is_some() => {
            events.emit(rejected(None, &error));
            for held in batch {
                held.lease_state.lose(error.to_string());
            }
        }
        other => {
            let why = other
                .err()
                .map_or("the answers do not match the heartbeats".to_owned(), |e| e.to_string());
            tracing::warn!(why, "heartbeats were not answered; retrying");
            for held in batch {
                held.heartbeat_unanswered();
            }
        }
    }
}

/// The coordinator knows nothing of the lines that a heartbeat carried: the next one comes soon, and without.
fn without_lines(held: &HeldLease) {
    held.lease_state.log_switch().turn_off();
    held.heartbeat_unanswered();
}

fn fits(batch: &[Arc<HeldLease>], answers: &HeartbeatAnswers) -> bool {
    let is_its = |held: &Arc<HeldLease>, answer: &HeartbeatAnswer| {
        held.envelope.task_id == answer.task_id || is_unread(&answer.task_id, answer.verdict)
    };
    batch.len() == answers.answers.len()
        && batch.iter().zip(&answers.answers).all(|(held, answer)| is_its(held, answer))
}

fn apply_answer(
    held: &HeldLease,
    answer: HeartbeatAnswer,
    sent: Moment,
    now: Time,
    events: &Events,
) {
    let why = || answer.error.clone().unwrap_or_else(|| format!("status {}", answer.status));
    match answer.verdict {
        Some(Verdict::Committed) => renewed(held, answer, sent, now),
        None if matches!(answer.status, 429 | 503) => held.heartbeat_unanswered(),
        Some(Verdict::Rejected) => {
            events.emit(WorkerEvent::Rejected {
                task_id: Some(held.envelope.task_id.clone()),
                code: why(),
                message: answer.message.clone().unwrap_or_default(),
            });
            held.lease_state.lose(why());
        }
        Some(Verdict::Cancelled) | None => held.lease_state.lose(why()),
    }
}

fn renewed(held: &HeldLease, answer: HeartbeatAnswer, sent: Moment, now: Time) {
    held.renewed(sent, answer.lease_expires_at, now);
    held.lease_state.set_left(answer.left);
    if let Some(task_token) = answer.task_token {
        held.lease_state.refresh_token(task_token);
    }
    if answer.should_cancel == Some(true) {
        let reason = answer.cancel_reason;
        held.lease_state.stop(StopReason::CancelRequested { reason });
    }
}

pub(crate) fn rejected(task_id: Option<String>, error: &Error) -> WorkerEvent {
    let code = error.problem().map_or_else(String::new, |problem| problem.error.clone());
    WorkerEvent::Rejected { task_id, code, message: error.to_string() }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

async fn next_answer<T>(in_flight: &mut Option<BoxFuture<'static, T>>) -> T {
    match in_flight {
        Some(call) => call.await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::super::lease_state::{LeaseState, Precondition, Progress, usable_for};
    use super::super::lease_table::{INITIAL_BACKOFF, PROGRESS_SPACING, START_DELAY};
    use super::*;
    use crate::testing::envelope;

    const TTL: Duration = Duration::from_millis(2_000);

    /// No call is in flight.
    const IDLE: Idle = Idle { heartbeats: true, starts: true };

    /// A machine that is never suspended.
    fn clock() -> Clock {
        Clock::with_boot_time(|| Duration::ZERO)
    }

    fn held(polled: Moment) -> Arc<HeldLease> {
        held_for(polled, 2_000, 600)
    }

    fn held_for(polled: Moment, ttl_ms: u64, interval_ms: u64) -> Arc<HeldLease> {
        let mut envelope = envelope(wire::Json::null());
        envelope.heartbeat_timeout_ms = ttl_ms;
        envelope.heartbeat_interval_ms = interval_ms;
        let lease_state = Arc::new(LeaseState::new("token".to_owned(), clock()));
        Arc::new(HeldLease::new(
            Arc::new(envelope),
            lease_state,
            "w".into(),
            polled,
            Precondition::Lease,
        ))
    }

    fn renewal(held: &HeldLease) -> HeartbeatAnswer {
        let verdict = Some(Verdict::Committed);
        let task_id = held.envelope.task_id.clone();
        HeartbeatAnswer { task_id, status: 200, verdict, ..HeartbeatAnswer::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_from_a_quick_poll_counts_from_the_sending_of_the_poll() {
        let polled = clock().now();
        tokio::time::advance(Duration::from_millis(100)).await;
        let held = held(polled);
        assert_eq!(held.lease_state.valid_until(), Some(polled.after(usable_for(TTL))));
        assert_eq!(held.heartbeat_due(), clock().now().after(Duration::from_millis(600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_lease_from_a_long_poll_must_be_proven_by_a_heartbeat_first() {
        // S3-8, S3-10: the answer may have been in transit for as long as the poll took.
        let polled = clock().now();
        tokio::time::advance(Duration::from_secs(29)).await;
        let held = held(polled);
        assert_eq!(held.lease_state.valid_until(), None);
        assert_eq!(held.heartbeat_due(), clock().now());
        let sent = clock().now();
        let events = Events::new(|_| {});
        apply_answer(&held, renewal(&held), sent, Time::MIN, &events);
        held.lease_state.wait_until(Precondition::Lease).await;
        assert_eq!(held.lease_state.valid_until(), Some(sent.after(usable_for(TTL))));
        assert_eq!(held.heartbeat_due(), sent.after(Duration::from_millis(600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_cannot_be_proven_is_lost_in_time() {
        let lease_table = LeaseTable::new(Events::new(|_| {}), clock());
        let polled = clock().now();
        tokio::time::advance(Duration::from_secs(29)).await;
        let held = held(polled);
        let lease_state = Arc::clone(&held.lease_state);
        lease_table.insert(held);
        assert_eq!(lease_table.look().live.len(), 1);
        tokio::time::advance(usable_for(TTL)).await;
        assert!(lease_table.look().live.is_empty());
        assert!(lease_state.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_no_longer_than_the_coordinator_says() {
        let held = held(clock().now());
        let sent = clock().now();
        let now = Time::from_ms(5_000);
        let answer =
            HeartbeatAnswer { lease_expires_at: Some(Time::from_ms(6_000)), ..renewal(&held) };
        renewed(&held, answer, sent, now);
        let until = held.lease_state.valid_until();
        assert_eq!(until, Some(sent.after(usable_for(Duration::from_millis(1_000)))));
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_are_looked_at_often_while_leases_are_held_and_never_without() {
        // F63: no timer runs while a machine is suspended, and this one has the whole interval
        // left.
        let now = clock().now();
        assert_eq!(next_wake(&[], IDLE, now), None);
        let held = held(now);
        held.start_answered();
        assert_eq!(
            next_wake(&[Arc::clone(&held)], IDLE, now),
            Some(now.after(CLOCK_CHECK_INTERVAL).timer(now))
        );
        held.heartbeat_unanswered();
        let backoff = now.after(INITIAL_BACKOFF).timer(now);
        assert_eq!(next_wake(&[Arc::clone(&held)], IDLE, now), Some(backoff));
        assert_eq!(
            next_wake(&[held], Idle { heartbeats: false, ..IDLE }, now),
            Some(now.after(CLOCK_CHECK_INTERVAL).timer(now))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_between_failed_heartbeats_double_up_to_the_interval() {
        // S4-41: exponential backoff, never slower than the interval itself.
        let held = held(clock().now());
        let mut pauses = Vec::new();
        for _ in 0..5 {
            held.heartbeat_unanswered();
            pauses.push(held.heartbeat_due().left(clock().now()).as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 600, 600]);
        held.heartbeat_answered(clock().now());
        held.heartbeat_unanswered();
        assert_eq!(held.heartbeat_due().left(clock().now()).as_millis(), 100);
    }

    fn tell(held: &HeldLease, pct: f64) {
        held.lease_state.set_progress(Progress { pct: Some(pct), message: None });
    }

    #[tokio::test(start_paused = true)]
    async fn new_progress_is_sent_early_but_not_at_any_rate() {
        let granted = clock().now();
        let interval = Duration::from_secs(30);
        let held = held_for(granted, 90_000, 30_000);
        assert_eq!(held.heartbeat_due(), granted.after(interval));
        tell(&held, 10.0);
        assert_eq!(
            held.heartbeat_due(),
            granted.after(PROGRESS_SPACING),
            "a short task costs no call"
        );
        tokio::time::advance(Duration::from_secs(5)).await;
        let sent = clock().now();
        assert_eq!(held.heartbeat().progress_pct, Some(10.0));
        assert_eq!(held.heartbeat_due(), granted.after(interval), "sent with this heartbeat");
        held.heartbeat_answered(sent);
        tell(&held, 10.0);
        assert_eq!(held.heartbeat_due(), sent.after(interval), "the same again is no news");
        tell(&held, 20.0);
        assert_eq!(held.heartbeat_due(), sent.after(PROGRESS_SPACING));
    }

    #[tokio::test(start_paused = true)]
    async fn new_progress_neither_delays_a_heartbeat_nor_shortens_a_backoff() {
        let now = clock().now();
        let held = held(now);
        tell(&held, 10.0);
        assert_eq!(held.heartbeat_due(), now.after(Duration::from_millis(600)));
        let held = held_for(now, 90_000, 30_000);
        for _ in 0..8 {
            held.heartbeat_unanswered();
        }
        tell(&held, 10.0);
        assert_eq!(held.heartbeat_due(), now.after(INITIAL_BACKOFF * 128));
    }

    #[tokio::test(start_paused = true)]
    async fn the_start_of_a_first_attempt_is_due_a_moment_later_and_shares_its_call() {
        let now = clock().now();
        let held = held(now);
        assert_eq!(held.start_due(), Some(now.after(START_DELAY)));
        let due = now.after(START_DELAY).timer(now);
        assert_eq!(next_wake(&[Arc::clone(&held)], IDLE, now), Some(due));
        tokio::time::advance(START_DELAY - Duration::from_millis(1)).await;
        let now = clock().now();
        let spaced = now.after(START_SPACING).timer(now);
        assert_eq!(next_wake(&[Arc::clone(&held)], IDLE, now), Some(spaced));
        held.send_start();
        assert_eq!(held.start_due(), None);
    }
}
