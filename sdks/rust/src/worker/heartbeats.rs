//! Keeps leases: sends heartbeats when due, obeys the answers, and marks a lease as lost when it
//! expires.
//!
//! Runs on a separate thread (see `heartbeat_thread`), so that a task's code can delay neither
//! heartbeats nor expiry. One call is in flight at a time and carries every heartbeat that is due;
//! heartbeats that become due meanwhile go into the next call. A missing answer means nothing by
//! itself: the lease is lost when its own time is over.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wire::answers::{Envelope, HeartbeatAnswer, HeartbeatAnswers, Signal};
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::{HeartbeatItem, Heartbeats};
use wire::{Time, Verdict};

use super::clock::{Clock, Moment, wall_clock};
use super::event::{Events, WorkerEvent};
use super::lease_state::{LeaseState, StopReason, locked, usable_for};
use crate::{Client, Error};

/// The backoff after a failed heartbeat; it doubles, up to the heartbeat interval.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// The minimum timeout for an answer, even if heartbeats are more frequent.
const ANSWER_TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// Well below the coordinator's limit on a body; the rest goes into the next call.
const BATCH_BYTES_MAX: usize = 192 * 1024;
/// The interval at which the clocks are checked while leases are held. Timers stop while the
/// machine is suspended. A task has one second left when its lease is over, and with this interval
/// at least half of it is left when the task is notified.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The size of a heartbeat without its token and message.
const ITEM_BYTES: usize = 512;

/// One lease under which a task is executing.
pub(crate) struct HeldLease {
    envelope: Arc<Envelope>,
    lease_state: Arc<LeaseState>,
    worker_id: String,
    schedule: Mutex<HeartbeatSchedule>,
}

struct HeartbeatSchedule {
    due: Moment,
    failures: u32,
    /// Until when the lease must be proven for the first time.
    unproven_until: Moment,
}

impl HeldLease {
    /// A lease granted in answer to a poll sent at `polled`. A poll may wait long: if too little of
    /// the lease is certain, the lease counts as unproven until the first heartbeat is answered.
    pub(crate) fn new(
        envelope: Arc<Envelope>,
        lease_state: Arc<LeaseState>,
        worker_id: String,
        polled: Moment,
    ) -> HeldLease {
        let now = lease_state.clock().now();
        let ttl = Duration::from_millis(envelope.heartbeat_timeout_ms);
        let left = polled.after(usable_for(ttl)).left(now);
        let is_proven = left >= usable_for(ttl) / 2;
        if is_proven {
            lease_state.renew(polled, ttl);
        }
        let interval = Duration::from_millis(envelope.heartbeat_interval_ms);
        let due = if is_proven { now.after(interval.min(left / 2)) } else { now };
        let schedule = Mutex::new(HeartbeatSchedule {
            due,
            failures: 0,
            unproven_until: now.after(usable_for(ttl)),
        });
        HeldLease { envelope, lease_state, worker_id, schedule }
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(self.envelope.heartbeat_interval_ms)
    }

    fn due(&self) -> Moment {
        locked(&self.schedule).due
    }

    fn ends_at(&self) -> Moment {
        self.lease_state.valid_until().unwrap_or_else(|| locked(&self.schedule).unproven_until)
    }

    fn item(&self) -> HeartbeatItem {
        let progress = self.lease_state.progress();
        HeartbeatItem {
            task_id: self.envelope.task_id.clone(),
            task_token: self.lease_state.task_token(),
            attempt: self.envelope.attempt,
            worker_id: self.worker_id.clone(),
            heartbeat_at: Some(wall_clock()),
            progress_pct: progress.pct,
            message: progress.message,
        }
    }

    fn answered(&self, sent: Moment) {
        let mut schedule = locked(&self.schedule);
        schedule.due = sent.after(self.interval());
        schedule.failures = 0;
    }

    fn unanswered(&self) {
        let mut schedule = locked(&self.schedule);
        let backoff = INITIAL_BACKOFF.saturating_mul(1 << schedule.failures.min(16));
        schedule.due = self.lease_state.clock().now().after(backoff.min(self.interval()));
        schedule.failures += 1;
    }
}

/// Every lease of this worker under which a task is executing, by lease id.
pub(crate) struct LeaseTable {
    leases: Mutex<BTreeMap<String, Arc<HeldLease>>>,
    changed: Notify,
    events: Events,
    clock: Clock,
}

impl LeaseTable {
    pub(crate) fn new(events: Events, clock: Clock) -> LeaseTable {
        LeaseTable { leases: Mutex::default(), changed: Notify::new(), events, clock }
    }

    pub(crate) fn insert(&self, held: HeldLease) {
        locked(&self.leases).insert(held.envelope.lease_id.clone(), Arc::new(held));
        self.changed.notify_one();
    }

    pub(crate) fn release(&self, lease_id: &str) {
        locked(&self.leases).remove(lease_id);
    }

    /// Sends the heartbeats of these tasks now: their answers bring a signal.
    pub(crate) fn hurry(&self, signals: &[Signal]) {
        let now = self.clock.now();
        for held in self.all() {
            if signals.iter().any(|signal| signal.task_id == held.envelope.task_id) {
                locked(&held.schedule).due = now;
            }
        }
        if !signals.is_empty() {
            self.changed.notify_one();
        }
    }

    pub(crate) fn stop_all(&self, stop: &StopReason) {
        for held in self.all() {
            held.lease_state.stop(stop.clone());
        }
    }

    /// Reports the tasks that still execute when the worker ends.
    pub(crate) fn abandon_all(&self) {
        for held in self.all() {
            self.events.emit(WorkerEvent::Abandoned {
                task_id: held.envelope.task_id.clone(),
                attempt: held.envelope.attempt,
            });
        }
    }

    fn all(&self) -> Vec<Arc<HeldLease>> {
        locked(&self.leases).values().cloned().collect()
    }

    /// Lost leases need no more heartbeats; their tasks are notified through their context.
    fn live(&self) -> Vec<Arc<HeldLease>> {
        let now = self.clock.now();
        let mut held = locked(&self.leases);
        held.retain(|_, held| {
            if held.lease_state.valid_until().is_none() && held.ends_at().has_come(now) {
                held.lease_state
                    .lose("no heartbeat was answered before the lease could be confirmed");
            }
            !held.lease_state.is_lost()
        });
        held.values().cloned().collect()
    }
}

/// Sends heartbeats and watches deadlines until it is stopped.
pub(crate) async fn send_heartbeats(
    client: Client,
    lease_table: Arc<LeaseTable>,
    stop: CancellationToken,
) {
    let mut in_flight: Option<BoxFuture<'static, BatchAnswer>> = None;
    loop {
        let live = lease_table.live();
        if in_flight.is_none() {
            let batch = take_due(&live, lease_table.clock.now());
            let clock = lease_table.clock.clone();
            in_flight = (!batch.is_empty()).then(|| send(client.clone(), batch, clock));
        }
        let wake = next_wake(&live, in_flight.is_none(), lease_table.clock.now());
        tokio::select! {
            () = stop.cancelled() => return,
            () = lease_table.changed.notified() => {}
            () = at(wake) => {}
            answered = next_answer(&mut in_flight) => {
                in_flight = None;
                apply_answers(answered, &lease_table.events);
            }
        }
    }
}

/// When the clocks must be checked next; `None` while no lease is held.
fn next_wake(live: &[Arc<HeldLease>], may_send: bool, now: Moment) -> Option<Instant> {
    let heartbeats = live.iter().map(|held| held.due()).filter(|_| may_send);
    let ends = live.iter().map(|held| held.ends_at());
    let next = ends.chain(heartbeats).map(|moment| moment.timer(now)).min();
    next.map(|next| next.min(now.after(CLOCK_CHECK_INTERVAL).timer(now)))
}

struct BatchAnswer {
    batch: Vec<Arc<HeldLease>>,
    /// Read before the call was made.
    sent: Moment,
    answers: Result<HeartbeatAnswers, Error>,
}

fn take_due(live: &[Arc<HeldLease>], now: Moment) -> Vec<Arc<HeldLease>> {
    let mut bytes = 0;
    live.iter()
        .filter(|held| held.due().has_come(now))
        .take_while(|held| {
            let message = held.lease_state.progress().message.map_or(0, |message| message.len());
            bytes += held.envelope.task_token.len() + message + ITEM_BYTES;
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
        let heartbeats = Heartbeats { heartbeats: batch.iter().map(|held| held.item()).collect() };
        let interval = batch.iter().map(|held| held.interval()).min().unwrap_or_default();
        let sent = clock.now();
        let answers =
            client.heartbeats_with_timeout(&heartbeats, interval.max(ANSWER_TIMEOUT_MIN)).await;
        BatchAnswer { batch, sent, answers }
    })
}

fn apply_answers(answered: BatchAnswer, events: &Events) {
    let BatchAnswer { batch, sent, answers } = answered;
    match answers {
        Ok(answers) if fits(&batch, &answers) => {
            for (held, answer) in batch.iter().zip(answers.answers) {
                apply_answer(held, answer, sent, answers.server_time, events);
            }
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
                held.unanswered();
            }
        }
    }
}

fn fits(batch: &[Arc<HeldLease>], answers: &HeartbeatAnswers) -> bool {
    batch.len() == answers.answers.len()
        && batch.iter().zip(&answers.answers).all(|(held, a)| held.envelope.task_id == a.task_id)
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
        None if matches!(answer.status, 429 | 503) => held.unanswered(),
        Some(Verdict::Rejected) => {
            events.emit(WorkerEvent::Rejected {
                task_id: Some(answer.task_id.clone()),
                code: why(),
                message: answer.message.clone().unwrap_or_default(),
            });
            held.lease_state.lose(why());
        }
        Some(Verdict::Cancelled) | None => held.lease_state.lose(why()),
    }
}

fn renewed(held: &HeldLease, answer: HeartbeatAnswer, sent: Moment, now: Time) {
    // The lease may be shorter than requested if the run's deadline cuts it.
    let left_ms = answer.lease_expires_at.map(|end| end.as_ms().saturating_sub(now.as_ms()).max(0));
    let ttl_ms = held.envelope.heartbeat_timeout_ms;
    let ttl_ms = left_ms.map_or(ttl_ms, |left| ttl_ms.min(left.unsigned_abs()));
    held.lease_state.renew(sent, Duration::from_millis(ttl_ms));
    held.answered(sent);
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

async fn next_answer(in_flight: &mut Option<BoxFuture<'static, BatchAnswer>>) -> BatchAnswer {
    match in_flight {
        Some(call) => call.await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::envelope;

    const TTL: Duration = Duration::from_millis(2_000);

    /// A machine that is never suspended.
    fn clock() -> Clock {
        Clock::with_boot_time(|| Duration::ZERO)
    }

    fn held(polled: Moment) -> Arc<HeldLease> {
        let mut envelope = envelope(wire::Json::null());
        envelope.heartbeat_timeout_ms = 2_000;
        envelope.heartbeat_interval_ms = 600;
        let lease_state = Arc::new(LeaseState::new("token".to_owned(), clock()));
        Arc::new(HeldLease::new(Arc::new(envelope), lease_state, "w".to_owned(), polled))
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
        assert_eq!(held.due(), clock().now().after(Duration::from_millis(600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_lease_from_a_long_poll_must_be_proven_by_a_heartbeat_first() {
        // S3-8, S3-10: the answer may have been in transit for as long as the poll took.
        let polled = clock().now();
        tokio::time::advance(Duration::from_secs(29)).await;
        let held = held(polled);
        assert_eq!(held.lease_state.valid_until(), None);
        assert_eq!(held.due(), clock().now());
        let sent = clock().now();
        let events = Events::new(|_| {});
        apply_answer(&held, renewal(&held), sent, Time::MIN, &events);
        held.lease_state.wait_until_proven().await;
        assert_eq!(held.lease_state.valid_until(), Some(sent.after(usable_for(TTL))));
        assert_eq!(held.due(), sent.after(Duration::from_millis(600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_cannot_be_proven_is_lost_in_time() {
        let lease_table = LeaseTable::new(Events::new(|_| {}), clock());
        let polled = clock().now();
        tokio::time::advance(Duration::from_secs(29)).await;
        let held = held(polled);
        let lease_state = Arc::clone(&held.lease_state);
        locked(&lease_table.leases).insert("lease".to_owned(), held);
        assert_eq!(lease_table.live().len(), 1);
        tokio::time::advance(usable_for(TTL)).await;
        assert!(lease_table.live().is_empty());
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
        assert_eq!(next_wake(&[], true, now), None);
        let held = held(now);
        assert_eq!(
            next_wake(&[Arc::clone(&held)], true, now),
            Some(now.after(CLOCK_CHECK_INTERVAL).timer(now))
        );
        held.unanswered();
        let backoff = now.after(INITIAL_BACKOFF).timer(now);
        assert_eq!(next_wake(&[Arc::clone(&held)], true, now), Some(backoff));
        assert_eq!(
            next_wake(&[held], false, now),
            Some(now.after(CLOCK_CHECK_INTERVAL).timer(now))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_between_failed_heartbeats_double_up_to_the_interval() {
        // S4-41: exponential backoff, never slower than the interval itself.
        let held = held(clock().now());
        let mut pauses = Vec::new();
        for _ in 0..5 {
            held.unanswered();
            pauses.push(held.due().left(clock().now()).as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 600, 600]);
        held.answered(clock().now());
        held.unanswered();
        assert_eq!(held.due().left(clock().now()).as_millis(), 100);
    }
}
