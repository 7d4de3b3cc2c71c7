//! The leases under which tasks execute, and when each of them needs a call: a start, a heartbeat,
//! or the notice that its time is over.
//!
//! Tasks insert and release leases; the heartbeat thread reads them. While leases are inserted it looks
//! every now and then by itself, and inserting wakes it only if the new lease needs it earlier: a worker
//! that executes short tasks must not wake it for each of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use wire::Time;
use wire::answers::{Envelope, Signal};
use wire::requests::{HeartbeatItem, StartItem};

use super::clock::{Clock, Moment, wall_clock};
use super::event::{Events, WorkerEvent};
use super::lease_state::{LeaseState, Precondition, StopReason, locked, usable_for};
use super::log_buffer::CALL_BYTES_MAX;

/// The backoff after a failed heartbeat or start; it doubles, up to the heartbeat interval.
pub(super) const INITIAL_BACKOFF: Duration = Duration::from_millis(100);

/// How long the start of a first attempt waits for the end of its code. A report implies the start,
/// so shorter tasks need no separate call.
pub(super) const START_DELAY: Duration = Duration::from_millis(5);

/// How long after the grant or the previous heartbeat a heartbeat is due that brings new progress. Short for a person
/// who watches, and long enough that a thousand tasks that report progress all the time cost some 300 writes per second.
pub(super) const PROGRESS_SPACING: Duration = Duration::from_secs(3);

/// How soon the heartbeat thread looks at a lease that needs nothing at once, and how often it looks while there are new ones.
/// Long against a short task, and short against the 100 ms within which a start is sent. A process that dies within this time
/// may leave no trace of the attempt.
pub(super) const LOOK_WITHIN: Duration = Duration::from_millis(20);

/// One lease under which a task is executing.
pub(crate) struct HeldLease {
    pub(super) envelope: Arc<Envelope>,
    pub(super) lease_state: Arc<LeaseState>,
    worker_id: Arc<str>,
    pub(super) precondition: Precondition,
    began: Time,
    schedule: Mutex<Schedule>,
}

struct Schedule {
    heartbeat: Due,
    /// When the request was sent whose answer renewed the lease last.
    renewed_at: Moment,
    /// When a heartbeat is due that brings new progress.
    progress: Moment,
    start: StartPhase,
    /// Until when the lease must be proven for the first time.
    unproven_until: Moment,
}

/// When a call is due, and how often it failed since it last succeeded.
#[derive(Clone, Copy)]
struct Due {
    at: Moment,
    failures: u32,
}

/// What is to be done about a start.
#[derive(Clone, Copy)]
enum StartPhase {
    Waiting(Due),
    /// A call with the start is in flight; the count of those that failed before it.
    Sent(u32),
    /// It was acknowledged, or is no longer sent.
    Settled,
}

impl Due {
    fn new(at: Moment) -> Due {
        Due { at, failures: 0 }
    }

    /// Later, after a call that got no answer.
    fn delay(&mut self, now: Moment, max: Duration) {
        let backoff = INITIAL_BACKOFF.saturating_mul(1 << self.failures.min(16));
        self.at = now.after(backoff.min(max));
        self.failures += 1;
    }
}

impl HeldLease {
    /// A lease granted in answer to a poll sent at `polled`. A poll may wait long: if too little of
    /// the lease is certain, the lease counts as unproven until the first heartbeat is answered.
    pub(crate) fn new(
        envelope: Arc<Envelope>,
        lease_state: Arc<LeaseState>,
        worker_id: Arc<str>,
        polled: Moment,
        precondition: Precondition,
    ) -> HeldLease {
        let now = lease_state.clock().now();
        let ttl = Duration::from_millis(envelope.heartbeat_timeout_ms);
        let left = polled.after(usable_for(ttl)).left(now);
        let is_proven = left >= usable_for(ttl) / 2;
        if is_proven {
            lease_state.renew(polled, ttl);
        }
        let interval = Duration::from_millis(envelope.heartbeat_interval_ms);
        let heartbeat = if is_proven { now.after(interval.min(left / 2)) } else { now };
        let start = match precondition {
            Precondition::Lease => now.after(START_DELAY),
            Precondition::LeaseAndStart => now,
        };
        let schedule = Mutex::new(Schedule {
            heartbeat: Due::new(heartbeat),
            renewed_at: polled,
            progress: now.after(PROGRESS_SPACING),
            start: StartPhase::Waiting(Due::new(start)),
            unproven_until: now.after(usable_for(ttl)),
        });
        let began = wall_clock();
        HeldLease { envelope, lease_state, worker_id, precondition, began, schedule }
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(self.envelope.heartbeat_interval_ms)
    }

    /// Earlier while there is new progress, which the heartbeat thread sees when it next checks its clocks. Not after a
    /// heartbeat that got no answer: then the backoff counts, and the next heartbeat brings the progress anyway.
    pub(super) fn heartbeat_due(&self) -> Moment {
        let has_news = self.lease_state.has_new_progress();
        let schedule = locked(&self.schedule);
        let Due { at, failures } = schedule.heartbeat;
        let now = self.lease_state.clock().now();
        let is_earlier = schedule.progress.left(now) < at.left(now);
        if has_news && failures == 0 && is_earlier { schedule.progress } else { at }
    }

    pub(super) fn start_due(&self) -> Option<Moment> {
        match locked(&self.schedule).start {
            StartPhase::Waiting(due) => Some(due.at),
            StartPhase::Sent(_) | StartPhase::Settled => None,
        }
    }

    /// A call with the start is made now.
    pub(super) fn send_start(&self) {
        let mut schedule = locked(&self.schedule);
        if let StartPhase::Waiting(due) = schedule.start {
            schedule.start = StartPhase::Sent(due.failures);
        }
    }

    pub(super) fn ends_at(&self) -> Moment {
        self.lease_state.valid_until().unwrap_or_else(|| locked(&self.schedule).unproven_until)
    }

    pub(super) fn heartbeat(&self) -> HeartbeatItem {
        let progress = self.lease_state.take_progress();
        let now = self.lease_state.clock().now();
        locked(&self.schedule).progress = now.after(PROGRESS_SPACING);
        HeartbeatItem {
            spend: self.lease_state.spend(),
            task_id: self.envelope.task_id.clone(),
            task_token: self.lease_state.task_token(),
            attempt: self.envelope.attempt,
            worker_id: self.worker_id.to_string(),
            heartbeat_at: Some(wall_clock()),
            progress_pct: progress.pct,
            message: progress.message,
            log: self.lease_state.log_lines(CALL_BYTES_MAX),
        }
    }

    pub(super) fn start(&self) -> StartItem {
        StartItem {
            task_id: self.envelope.task_id.clone(),
            task_token: self.lease_state.task_token(),
            attempt: self.envelope.attempt,
            worker_id: self.worker_id.to_string(),
            started_at: Some(self.began),
        }
    }

    /// The coordinator renewed the lease in answer to a request sent at `sent`: a heartbeat or a checkpoint. What
    /// answers of earlier requests say is known already.
    pub(super) fn renewed(&self, sent: Moment, lease_expires_at: Option<Time>, now: Time) {
        let mut schedule = locked(&self.schedule);
        if sent.is_before(schedule.renewed_at) {
            return;
        }
        schedule.renewed_at = sent;
        drop(schedule);
        // The lease may be shorter than requested if the run's deadline cuts it.
        let left_ms = lease_expires_at.map(|end| end.as_ms().saturating_sub(now.as_ms()).max(0));
        let ttl_ms = self.envelope.heartbeat_timeout_ms;
        let ttl_ms = left_ms.map_or(ttl_ms, |left| ttl_ms.min(left.unsigned_abs()));
        self.lease_state.renew(sent, Duration::from_millis(ttl_ms));
        self.heartbeat_answered(sent);
    }

    pub(super) fn heartbeat_answered(&self, sent: Moment) {
        locked(&self.schedule).heartbeat = Due::new(sent.after(self.interval()));
    }

    pub(super) fn heartbeat_unanswered(&self) {
        let now = self.lease_state.clock().now();
        locked(&self.schedule).heartbeat.delay(now, self.interval());
    }

    pub(super) fn start_answered(&self) {
        locked(&self.schedule).start = StartPhase::Settled;
        self.lease_state.acknowledge_start();
    }

    /// Sends the start again later, and returns whether it is: not after `times` repetitions.
    pub(super) fn repeat_start(&self, times: usize) -> bool {
        let now = self.lease_state.clock().now();
        let mut schedule = locked(&self.schedule);
        let StartPhase::Sent(failures) = schedule.start else { return true };
        let is_repeated = (failures as usize) < times;
        schedule.start = if is_repeated {
            let mut due = Due { at: now, failures };
            due.delay(now, self.interval());
            StartPhase::Waiting(due)
        } else {
            StartPhase::Settled
        };
        is_repeated
    }

    /// Until when the heartbeat thread must have looked at a new lease.
    fn look_by(&self) -> Moment {
        let now = self.lease_state.clock().now();
        let schedule = locked(&self.schedule);
        let heartbeat = schedule.heartbeat.at;
        let start = match self.precondition {
            Precondition::Lease => now.after(LOOK_WITHIN),
            Precondition::LeaseAndStart => now,
        };
        if start.left(now) < heartbeat.left(now) { start } else { heartbeat }
    }
}

/// Every lease of this worker under which a task is executing, in the order of their beginning.
pub(crate) struct LeaseTable {
    held: Mutex<Held>,
    changed: Notify,
    pub(super) events: Events,
    pub(super) clock: Clock,
}

#[derive(Default)]
struct Held {
    leases: BTreeMap<LeaseNumber, Arc<HeldLease>>,
    next: u64,
    /// Whether the heartbeat thread has something new to look at.
    is_new: bool,
    /// When the heartbeat thread wakes without being told; absent while it must be told.
    wakes_at: Option<Instant>,
}

/// What the heartbeat thread sees.
pub(super) struct Look {
    pub(super) live: Vec<Arc<HeldLease>>,
    /// Whether a lease was inserted since it looked last.
    pub(super) is_new: bool,
}

/// The place of a lease in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeaseNumber(u64);

impl LeaseTable {
    pub(crate) fn new(events: Events, clock: Clock) -> LeaseTable {
        LeaseTable { held: Mutex::default(), changed: Notify::new(), events, clock }
    }

    pub(crate) fn insert(&self, lease: Arc<HeldLease>) -> LeaseNumber {
        let due = lease.look_by().timer(self.clock.now());
        let mut held = locked(&self.held);
        let number = LeaseNumber(held.next);
        held.next += 1;
        held.leases.insert(number, lease);
        self.look_at(held, due);
        number
    }

    /// There is something that the heartbeat thread should know of soon.
    pub(super) fn look_soon(&self) {
        let now = self.clock.now();
        self.look_at(locked(&self.held), now.after(LOOK_WITHIN).timer(now));
    }

    fn look_at(&self, mut held: MutexGuard<'_, Held>, due: Instant) {
        held.is_new = true;
        let wakes_in_time = held.wakes_at.is_some_and(|wakes_at| wakes_at <= due);
        drop(held);
        if !wakes_in_time {
            self.changed.notify_one();
        }
    }

    pub(crate) fn release(&self, number: LeaseNumber) {
        locked(&self.held).leases.remove(&number);
    }

    /// Sends the heartbeats of these tasks now: their answers bring a signal.
    pub(crate) fn hurry(&self, signals: &[Signal]) {
        if signals.is_empty() {
            return;
        }
        let now = self.clock.now();
        for held in self.all() {
            if signals.iter().any(|signal| signal.task_id == held.envelope.task_id) {
                locked(&held.schedule).heartbeat.at = now;
            }
        }
        self.changed.notify_one();
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
        locked(&self.held).leases.values().cloned().collect()
    }

    /// Lost leases need no more calls; their tasks are notified through their context. Until
    /// [`LeaseTable::plan_wake`], every lease that is inserted notifies.
    pub(super) fn look(&self) -> Look {
        let now = self.clock.now();
        let mut held = locked(&self.held);
        held.wakes_at = None;
        held.leases.retain(|_, held| {
            if held.lease_state.valid_until().is_none() && held.ends_at().has_come(now) {
                held.lease_state
                    .lose("no heartbeat was answered before the lease could be confirmed");
            }
            !held.lease_state.is_lost()
        });
        let is_new = std::mem::take(&mut held.is_new);
        Look { live: held.leases.values().cloned().collect(), is_new }
    }

    /// The heartbeat thread will look again at this moment, unless it is notified before.
    pub(super) fn plan_wake(&self, wakes_at: Option<Instant>) {
        locked(&self.held).wakes_at = wakes_at;
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
