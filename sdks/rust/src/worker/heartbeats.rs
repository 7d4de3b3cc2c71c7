//! Keeps leases: sends heartbeats when due, obeys the answers, and loses a lease when its time is over.
//!
//! Runs on a thread of its own (see `lifeline`), so that a task's code can delay neither. One call is in
//! flight at a time and carries every heartbeat that is due; what becomes due meanwhile goes into the
//! next. Silence of the coordinator is not interpreted: the lease is lost when its own time is over.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use wire::answers::{Envelope, HeartbeatAnswer, HeartbeatAnswers};
use wire::limits::BATCH_ITEMS_MAX;
use wire::requests::{HeartbeatItem, Heartbeats};
use wire::{Time, Verdict};

use super::clock::{Clock, Moment, wall_clock};
use super::event::{Events, WorkerEvent};
use super::standing::{Standing, Stop, locked, usable};
use crate::{Client, Error};

/// A failed heartbeat is repeated after this, then after twice as long, up to its interval.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// An answer may take this long even where heartbeats are more frequent.
const ANSWER_TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// Well below the bound the coordinator puts on a body; the rest goes into the next call.
const BATCH_BYTES_MAX: usize = 192 * 1024;
/// How long the clocks are not looked at while leases are held. Timers stand still while the machine is suspended: of
/// the second that a task has left when its lease is over, at least half is left when it is told.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The members of a heartbeat beside its token and message.
const ITEM_BYTES: usize = 512;

/// One lease under which a task is executing.
pub(crate) struct Held {
    envelope: Arc<Envelope>,
    standing: Arc<Standing>,
    worker_id: String,
    beat: Mutex<Beat>,
}

struct Beat {
    due: Moment,
    failures: u32,
    /// Until when the first proof of the lease may take.
    unproven_until: Moment,
}

impl Held {
    /// A lease granted in answer to a poll sent at `polled`. A poll may wait long: where too little of
    /// the lease is certain, it counts as unproven until a first heartbeat is answered.
    pub(crate) fn new(
        envelope: Arc<Envelope>,
        standing: Arc<Standing>,
        worker_id: String,
        polled: Moment,
    ) -> Held {
        let now = standing.clock().now();
        let ttl = Duration::from_millis(envelope.heartbeat_timeout_ms);
        let left = polled.after(usable(ttl)).left(now);
        let is_proven = left >= usable(ttl) / 2;
        if is_proven {
            standing.renew(polled, ttl);
        }
        let interval = Duration::from_millis(envelope.heartbeat_interval_ms);
        let due = if is_proven { now.after(interval.min(left / 2)) } else { now };
        let beat = Mutex::new(Beat { due, failures: 0, unproven_until: now.after(usable(ttl)) });
        Held { envelope, standing, worker_id, beat }
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(self.envelope.heartbeat_interval_ms)
    }

    fn due(&self) -> Moment {
        locked(&self.beat).due
    }

    fn ends_at(&self) -> Moment {
        self.standing.valid_until().unwrap_or_else(|| locked(&self.beat).unproven_until)
    }

    fn item(&self) -> HeartbeatItem {
        let progress = self.standing.progress();
        HeartbeatItem {
            task_id: self.envelope.task_id.clone(),
            task_token: self.standing.task_token(),
            attempt: self.envelope.attempt,
            worker_id: self.worker_id.clone(),
            heartbeat_at: Some(wall_clock()),
            progress_pct: progress.pct,
            message: progress.message,
        }
    }

    fn answered(&self, sent: Moment) {
        let mut beat = locked(&self.beat);
        beat.due = sent.after(self.interval());
        beat.failures = 0;
    }

    fn unanswered(&self) {
        let mut beat = locked(&self.beat);
        let pause = FIRST_PAUSE.saturating_mul(1 << beat.failures.min(16));
        beat.due = self.standing.clock().now().after(pause.min(self.interval()));
        beat.failures += 1;
    }
}

/// Every lease of this worker under which a task is executing, by lease id.
pub(crate) struct Holdings {
    held: Mutex<BTreeMap<String, Arc<Held>>>,
    changed: Notify,
    events: Events,
    clock: Clock,
}

impl Holdings {
    pub(crate) fn new(events: Events, clock: Clock) -> Holdings {
        Holdings { held: Mutex::default(), changed: Notify::new(), events, clock }
    }

    pub(crate) fn adopt(&self, held: Held) {
        locked(&self.held).insert(held.envelope.lease_id.clone(), Arc::new(held));
        self.changed.notify_one();
    }

    pub(crate) fn release(&self, lease_id: &str) {
        locked(&self.held).remove(lease_id);
    }

    pub(crate) fn stop_all(&self, stop: &Stop) {
        for held in self.all() {
            held.standing.stop(stop.clone());
        }
    }

    fn all(&self) -> Vec<Arc<Held>> {
        locked(&self.held).values().cloned().collect()
    }

    /// Lost leases need no more heartbeats; their tasks learn of it by their context.
    fn live(&self) -> Vec<Arc<Held>> {
        let now = self.clock.now();
        let mut held = locked(&self.held);
        held.retain(|_, held| {
            if held.standing.valid_until().is_none() && held.ends_at().has_come(now) {
                held.standing.lose("no heartbeat was answered before the lease could be proven");
            }
            !held.standing.is_lost()
        });
        held.values().cloned().collect()
    }
}

/// Sends heartbeats and watches deadlines until told to stop.
pub(crate) async fn keep(client: Client, holdings: Arc<Holdings>, stop: CancellationToken) {
    let mut in_flight: Option<BoxFuture<'static, Answered>> = None;
    loop {
        let live = holdings.live();
        if in_flight.is_none() {
            let batch = take_due(&live, holdings.clock.now());
            let clock = holdings.clock.clone();
            in_flight = (!batch.is_empty()).then(|| send(client.clone(), batch, clock));
        }
        let wake = next_look(&live, in_flight.is_none(), holdings.clock.now());
        tokio::select! {
            () = stop.cancelled() => return,
            () = holdings.changed.notified() => {}
            () = at(wake) => {}
            answered = landed(&mut in_flight) => {
                in_flight = None;
                obey(answered, &holdings.events);
            }
        }
    }
}

/// When the clocks must be looked at again; never while nothing is held.
fn next_look(live: &[Arc<Held>], may_send: bool, now: Moment) -> Option<Instant> {
    let beats = live.iter().map(|held| held.due()).filter(|_| may_send);
    let ends = live.iter().map(|held| held.ends_at());
    let next = ends.chain(beats).map(|moment| moment.timer(now)).min();
    next.map(|next| next.min(now.after(LOOK_EVERY).timer(now)))
}

struct Answered {
    batch: Vec<Arc<Held>>,
    /// Taken before the call was made.
    sent: Moment,
    answers: Result<HeartbeatAnswers, Error>,
}

fn take_due(live: &[Arc<Held>], now: Moment) -> Vec<Arc<Held>> {
    let mut bytes = 0;
    live.iter()
        .filter(|held| held.due().has_come(now))
        .take_while(|held| {
            let message = held.standing.progress().message.map_or(0, |message| message.len());
            bytes += held.envelope.task_token.len() + message + ITEM_BYTES;
            bytes <= BATCH_BYTES_MAX
        })
        .take(BATCH_ITEMS_MAX)
        .cloned()
        .collect()
}

fn send(client: Client, batch: Vec<Arc<Held>>, clock: Clock) -> BoxFuture<'static, Answered> {
    Box::pin(async move {
        let heartbeats = Heartbeats { heartbeats: batch.iter().map(|held| held.item()).collect() };
        let interval = batch.iter().map(|held| held.interval()).min().unwrap_or_default();
        let sent = clock.now();
        let answers = client.heartbeats_within(&heartbeats, interval.max(ANSWER_TIMEOUT_MIN)).await;
        Answered { batch, sent, answers }
    })
}

fn obey(answered: Answered, events: &Events) {
    let Answered { batch, sent, answers } = answered;
    match answers {
        Ok(answers) if fits(&batch, &answers) => {
            for (held, answer) in batch.iter().zip(answers.answers) {
                obey_one(held, answer, sent, answers.server_time, events);
            }
        }
        Err(error) if error.verdict().is_some() => {
            events.emit(rejected(None, &error));
            for held in batch {
                held.standing.lose(error.to_string());
            }
        }
        other => {
            let why = other.err().map_or("not one answer each".to_owned(), |e| e.to_string());
            tracing::warn!(why, "heartbeats were not answered; repeating");
            for held in batch {
                held.unanswered();
            }
        }
    }
}

fn fits(batch: &[Arc<Held>], answers: &HeartbeatAnswers) -> bool {
    batch.len() == answers.answers.len()
        && batch.iter().zip(&answers.answers).all(|(held, a)| held.envelope.task_id == a.task_id)
}

fn obey_one(held: &Held, answer: HeartbeatAnswer, sent: Moment, now: Time, events: &Events) {
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
            held.standing.lose(why());
        }
        Some(Verdict::Cancelled) | None => held.standing.lose(why()),
    }
}

fn renewed(held: &Held, answer: HeartbeatAnswer, sent: Moment, now: Time) {
    // A lease may be shorter than asked for, where the run's own deadline cuts it.
    let left_ms = answer.lease_expires_at.map(|end| end.as_ms().saturating_sub(now.as_ms()).max(0));
    let ttl_ms = held.envelope.heartbeat_timeout_ms;
    let ttl_ms = left_ms.map_or(ttl_ms, |left| ttl_ms.min(left.unsigned_abs()));
    held.standing.renew(sent, Duration::from_millis(ttl_ms));
    held.answered(sent);
    if let Some(task_token) = answer.task_token {
        held.standing.refresh_token(task_token);
    }
    if answer.should_cancel == Some(true) {
        let reason = answer.cancel_reason;
        held.standing.stop(Stop::CancelRequested { reason });
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

async fn landed(in_flight: &mut Option<BoxFuture<'static, Answered>>) -> Answered {
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

    fn held(polled: Moment) -> Arc<Held> {
        let mut envelope = envelope(wire::Json::null());
        envelope.heartbeat_timeout_ms = 2_000;
        envelope.heartbeat_interval_ms = 600;
        let standing = Arc::new(Standing::new("token".to_owned(), clock()));
        Arc::new(Held::new(Arc::new(envelope), standing, "w".to_owned(), polled))
    }

    fn renewal(held: &Held) -> HeartbeatAnswer {
        let verdict = Some(Verdict::Committed);
        let task_id = held.envelope.task_id.clone();
        HeartbeatAnswer { task_id, status: 200, verdict, ..HeartbeatAnswer::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_from_a_quick_poll_counts_from_the_sending_of_the_poll() {
        let polled = clock().now();
        tokio::time::advance(Duration::from_millis(100)).await;
        let held = held(polled);
        assert_eq!(held.standing.valid_until(), Some(polled.after(usable(TTL))));
        assert_eq!(held.due(), clock().now().after(Duration::from_millis(600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_lease_from_a_long_poll_must_be_proven_by_a_heartbeat_first() {
        // S3-8, S3-10: the answer may have been on its way for as long as the poll took.
        let polled = clock().now();
        tokio::time::advance(Duration::from_secs(29)).await;
        let held = held(polled);
        assert_eq!(held.standing.valid_until(), None);
        assert_eq!(held.due(), clock().now());
        let sent = clock().now();
        let events = Events::new(|_| {});
        obey_one(&held, renewal(&held), sent, Time::MIN, &events);
        held.standing.proven().await;
        assert_eq!(held.standing.valid_until(), Some(sent.after(usable(TTL))));
        assert_eq!(held.due(), sent.after(Duration::from_millis(600)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_cannot_be_proven_is_lost_in_time() {
        let holdings = Holdings::new(Events::new(|_| {}), clock());
        let polled = clock().now();
        tokio::time::advance(Duration::from_secs(29)).await;
        let held = held(polled);
        let standing = Arc::clone(&held.standing);
        locked(&holdings.held).insert("lease".to_owned(), held);
        assert_eq!(holdings.live().len(), 1);
        tokio::time::advance(usable(TTL)).await;
        assert!(holdings.live().is_empty());
        assert!(standing.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_no_longer_than_the_coordinator_says() {
        let held = held(clock().now());
        let sent = clock().now();
        let now = Time::from_ms(5_000);
        let answer =
            HeartbeatAnswer { lease_expires_at: Some(Time::from_ms(6_000)), ..renewal(&held) };
        renewed(&held, answer, sent, now);
        let until = held.standing.valid_until();
        assert_eq!(until, Some(sent.after(usable(Duration::from_millis(1_000)))));
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_are_looked_at_often_while_leases_are_held_and_never_without() {
        // F63: no timer runs while a machine is suspended, and this one has the whole interval to go.
        let now = clock().now();
        assert_eq!(next_look(&[], true, now), None);
        let held = held(now);
        assert_eq!(
            next_look(&[Arc::clone(&held)], true, now),
            Some(now.after(LOOK_EVERY).timer(now))
        );
        held.unanswered();
        let pause = now.after(FIRST_PAUSE).timer(now);
        assert_eq!(next_look(&[Arc::clone(&held)], true, now), Some(pause));
        assert_eq!(next_look(&[held], false, now), Some(now.after(LOOK_EVERY).timer(now)));
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
