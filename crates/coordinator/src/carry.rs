//! The carrier: one loop that takes what is waiting, and carries it to verdicts in one commit.
//!
//! ```text
//!   wait ─► load ─► decide each ─► sweep what is due ─► grant what is ready ─► commit ─► answer
//!    ▲                                                                              │
//!    └──────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! There is no timer that collects: an idle coordinator answers at once, a busy one shares each
//! commit among all who waited for the last. The loop sleeps until the earliest instant at which
//! time changes something (a lease ends, a retry is due, a poll has waited long enough), never by a
//! fixed period. Only while leases are alive does it wake more often, to notice a stall.
//! A store that refuses is left alone for growing pauses, but for what somebody asks.
//!
//! Answers leave after the commit is durable, never before. Between two batches nothing is kept
//! but what may be lost: waiting polls.

mod administer;
mod backoff;
mod batch;
mod commit_loop;
mod isolate;
mod polls;
mod retention;
mod role;
mod stall;
mod working_set;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use store::{Failure, FailureKind, Store, Writer};
use tokio::sync::{oneshot, watch as channel};
use tokio::time::Instant;
use verdict::{Retention, Time};

use self::backoff::Backoff;
use self::polls::Polls;
use self::retention::RetentionState;
pub(crate) use self::role::{CarrierRole, LeasedCarrier};
pub(crate) use self::stall::StallDetector;
use crate::admit::seal::Sealer;
use crate::allowances::Allowances;
use crate::coordinator::StopReason;
use crate::ids::Ids;
use crate::intake::{Arrival, IntakeReceiver};
use crate::item::{Group, Item, Outage, UnavailableReason};
use crate::metrics::Metrics;
use crate::set_aside::SetAsideList;
use crate::task_watch::TaskWatchers;
use crate::trace::TraceSender;

/// Requests in one commit. Measurements showed no gain beyond a thousand, and a commit this size
/// still ends within milliseconds.
const BATCH_ITEMS_MAX: usize = 1_024;

/// A wake-up further away than this is looked at again then: it bounds what a wrong clock can do.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// How often to look while a task is set aside: what it would have been woken for stands before all later alarms.
const SET_ASIDE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How often a start tries to give leases their time back while another writer has one of them, and how
/// long it rests in between: longer together than a database keeps the locks of a coordinator that died.
const RECOVERY_TRIES_MAX: usize = 150;
const RECOVERY_PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Carrier<S: Store> {
    role: CarrierRole,
    store: S,
    writer: S::Writer,
    ids: Ids,
    receiver: IntakeReceiver,
    watch: TaskWatchers,
    metrics: Metrics,
    /// Tasks that cannot be carried on.
    set_aside: SetAsideList,
    allowances: Allowances,
    /// Whatever seals the audit, once there is something.
    sealer: Arc<OnceLock<Sealer>>,
    polls: Polls,
    stall: StallDetector,
    retention_state: RetentionState,
    /// Whoever is told what is durable, as spans.
    trace_sender: Option<TraceSender>,
    /// Grants nobody received, to be handed back with the next batch.
    unclaimed: Vec<Item>,
    /// Until when not to start a batch that nobody asked for.
    backoff: Backoff,
    /// Why the store refused the last batch that wanted to write; `None` since one was written.
    outage: channel::Sender<Option<Outage>>,
    /// More was due than one batch takes.
    more_due: bool,
    /// The time of the last batch: what was due by then has been looked at.
    swept_at: Time,
    /// What was due by then and was still there when the carrier last asked when to wake.
    left_over: Option<Time>,
}

/// How a carrier is set up, and what it shares with its coordinator and the other carrier.
pub(crate) struct CarrierOptions {
    pub(crate) role: CarrierRole,
    /// `FOR_EVER` for the carrier of new work, which deletes nothing.
    pub(crate) retention: Retention,
    pub(crate) watch: TaskWatchers,
    pub(crate) metrics: Metrics,
    pub(crate) outage: channel::Sender<Option<Outage>>,
    pub(crate) set_aside: SetAsideList,
    pub(crate) allowances: Allowances,
    /// Empty until the server has opened its key file.
    pub(crate) sealer: Arc<OnceLock<Sealer>>,
    /// `None` where no spans are exported.
    pub(crate) trace_sender: Option<TraceSender>,
}

/// What came in while the last batch was being carried.
#[derive(Default)]
struct Arrivals {
    /// How many of any kind.
    count: usize,
    groups: Vec<Group>,
    items: usize,
    acts: Vec<administer::Act>,
    pings: Vec<oneshot::Sender<()>>,
    close: bool,
}

impl Arrivals {
    fn is_any(&self) -> bool {
        self.items > 0 || !self.pings.is_empty()
    }
}

/// Whether anything happened while the carrier listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdleWait {
    Elapsed,
    Interrupted,
}

/// Nothing can be decided any more: how the carrier ends.
#[derive(Debug)]
pub(crate) struct Fatal(StopReason);

impl Fatal {
    /// The store is no longer to be trusted, or no longer to be understood.
    fn of(failure: &Failure) -> Self {
        match failure.kind {
            FailureKind::UnknownRules => Self(StopReason::Outdated(failure.what.clone())),
            _ => Self(StopReason::Fatal(commit_loop::error_chain(failure))),
        }
    }

    /// The store is sound, but not for this program.
    fn is_outdated(&self) -> bool {
        matches!(self.0, StopReason::Outdated(_))
    }
}

impl<S: Store> Carrier<S> {
    pub(crate) fn new(
        store: S,
        writer: S::Writer,
        mut ids: Ids,
        receiver: IntakeReceiver,
        options: CarrierOptions,
    ) -> Self {
        let CarrierOptions { role, retention, watch, metrics, outage, .. } = options;
        let CarrierOptions { set_aside, allowances, sealer, trace_sender, .. } = options;
        let now = store.now();
        // The carrier of new work reads the stall detector of the one that handles leases.
        let stall = match &role {
            CarrierRole::NewWork(leased_carrier) => leased_carrier.stall.clone(),
            CarrierRole::Everything | CarrierRole::Leased => StallDetector::new(now),
        };
        Self {
            role,
            store,
            writer,
            backoff: Backoff::new(ids.fork()),
            ids,
            receiver,
            watch,
            polls: Polls::new(metrics.polls_waiting.clone()),
            set_aside,
            metrics,
            allowances,
            sealer,
            stall,
            retention_state: RetentionState::new(retention),
            trace_sender,
            unclaimed: Vec::new(),
            outage,
            more_due: true,
            swept_at: now,
            left_over: None,
        }
    }

    pub(crate) fn stall_detector(&self) -> StallDetector {
        self.stall.clone()
    }

    /// Recovers, says so, and carries until told to close or until the store fails.
    pub(crate) async fn run(
        mut self,
        recovered: oneshot::Sender<Result<(), Failure>>,
    ) -> StopReason {
        let recovery = self.recover().await;
        let failed = recovery.is_err();
        // Nobody waiting for the start means nobody wants it.
        if recovered.send(recovery).is_err() || failed {
            return StopReason::Drained;
        }
        let ended = self.run_until_closed().await;
        if ended != StopReason::Drained {
            // Whoever shares the work must not go on as if nothing had happened.
            self.receiver.draining.cancel();
        }
        self.receiver.reject_remaining().await;
        if let CarrierRole::NewWork(leased_carrier) = &self.role {
            leased_carrier.intake.close_leased().await;
        }
        ended
    }

    async fn run_until_closed(&mut self) -> StopReason {
        loop {
            let arrivals = self.wait().await;
            let close = arrivals.close;
            if let Err(Fatal(ended)) = self.run_round(arrivals).await {
                tracing::error!(
                    ?ended,
                    "nothing can be decided any more; the store must be reopened"
                );
                if faultpoint::mutant(28) {
                    return StopReason::Drained;
                }
                return ended;
            }
            if close {
                return self.drain().await;
            }
        }
    }

    /// Nothing new comes in; what is already waiting is still carried and answered.
    async fn drain(&mut self) -> StopReason {
        self.receiver.close();
        while let Some(first) = self.receiver.next_after_close().await {
            let mut arrivals = Arrivals::default();
            self.accept(first, &mut arrivals);
            self.drain_intake(&mut arrivals);
            if let Err(Fatal(ended)) = self.run_round(arrivals).await {
                return ended;
            }
        }
        self.polls.answer_all_empty();
        StopReason::Drained
    }

    /// Leases that were alive at the last commit get back the time nobody was listening.
    async fn recover(&mut self) -> Result<(), Failure> {
        let opened = self.store.opened();
        if !self.role.handles_leases() {
            return Ok(());
        }
        let Some(last_commit_at) = opened.last_commit_at else { return Ok(()) };
        let silence = self.store.now().since(last_commit_at);
        let tolerance = StallDetector::tolerance(self.writer.shortest_lease());
        // Where others may listen too, silence that is shorter than what counts as a stall is theirs.
        if opened.writers > 1 && tolerance.is_none_or(|tolerance| silence <= tolerance) {
            return Ok(());
        }
        let mut tries = 1;
        loop {
            let given = self.extend_leases_since(last_commit_at).await;
            if let Err(failure) = &given
                && self.set_aside_failed_task(failure)
            {
                continue;
            }
            let is_locked = |failure: &Failure| matches!(failure.kind, FailureKind::Conflict(_));
            if tries == RECOVERY_TRIES_MAX || !given.as_ref().is_err_and(is_locked) {
                return given;
            }
            tries += 1;
            tokio::time::sleep(RECOVERY_PAUSE).await;
        }
    }

    async fn run_round(&mut self, arrivals: Arrivals) -> Result<(), Fatal> {
        let is_asked = arrivals.is_any() || !self.unclaimed.is_empty();
        let rests = !is_asked && self.backoff.is_resting(tokio::time::Instant::now());
        if self.receiver.draining.is_cancelled() {
            self.polls.answer_all_empty();
        }
        // Where the store refused, looking whether leases must be extended is a try like any other.
        if !(rests && self.stall.is_refused()) {
            match self.begin_round().await? {
                None if rests && !self.is_stalled() => {}
                None => self.carry(arrivals.groups).await?,
                Some(reason) => self.refuse(arrivals.groups, reason),
            }
        }
        self.administer(arrivals.acts).await?;
        if self.role.handles_leases() {
            self.run_retention().await?;
        }
        let outage = *self.outage.borrow();
        self.polls.answer_expired(tokio::time::Instant::now(), outage);
        // A ping asks for a round trip and nothing more; its asker may have left.
        for ping in arrivals.pings {
            let _ = ping.send(());
        }
        Ok(())
    }

    async fn wait(&mut self) -> Arrivals {
        let mut arrivals = Arrivals::default();
        // Who is waiting already is not made to wait for the question of how long to sleep.
        self.drain_intake(&mut arrivals);
        if arrivals.count == 0 && self.unclaimed.is_empty() {
            let idle_delay = if self.more_due { Duration::ZERO } else { S::IDLE_DELAY };
            let is_quiet = idle_delay.is_zero()
                || self
                    .receive_until(tokio::time::Instant::now() + idle_delay, &mut arrivals)
                    .await
                    == IdleWait::Elapsed;
            if is_quiet {
                let wake = self.next_wake().await;
                self.receive_until(wake, &mut arrivals).await;
            }
        }
        arrivals
    }

    /// Waits for whoever comes, until then at the latest.
    async fn receive_until(&mut self, until: Instant, arrivals: &mut Arrivals) -> IdleWait {
        let (draining, receiver) = (self.receiver.draining.clone(), &mut self.receiver);
        // A priority class without senders means that every handle is gone: nobody is left to ask.
        let first = tokio::select! {
            biased;
            arrival = receiver.next() => Some(arrival.unwrap_or(Arrival::Close)),
            () = draining.cancelled(), if !self.polls.is_empty() => None,
            () = tokio::time::sleep_until(until) => return IdleWait::Elapsed,
            () = changed_elsewhere(&self.store, &self.role) => None,
        };
        first.into_iter().for_each(|arrival| self.accept(arrival, arrivals));
        self.drain_intake(arrivals);
        IdleWait::Interrupted
    }

    /// Takes what else is waiting, calls under a lease first, up to one batch.
    fn drain_intake(&mut self, arrivals: &mut Arrivals) {
        while arrivals.items < BATCH_ITEMS_MAX {
            let Some(arrival) = self.receiver.try_next() else { return };
            self.accept(arrival, arrivals);
        }
    }

    fn accept(&mut self, arrival: Arrival, arrivals: &mut Arrivals) {
        arrivals.count += 1;
        match arrival {
            Arrival::Group(group) => {
                arrivals.items += group.items.len();
                arrivals.groups.push(group);
            }
            Arrival::Poll(poll) => {
                arrivals.items += 1;
                self.polls.add(poll);
            }
            Arrival::Administer { act, reply } => {
                arrivals.items += 1;
                arrivals.acts.push(administer::Act { act, reply });
            }
            Arrival::Ping(ping) => arrivals.pings.push(ping),
            Arrival::CountPolls(asked) => self.polls.answer_count(asked),
            Arrival::TasksEnded { created, at } => self.retention_state.note_ends(&created, at),
            Arrival::Close => arrivals.close = true,
        }
    }

    /// The earliest of: time changes a task, a poll is over, a stall check is due.
    async fn next_wake(&mut self) -> Instant {
        let here = tokio::time::Instant::now();
        let (by_store, to_forget) = match self.backoff.until() {
            None if self.more_due => (Some(here), None),
            // Time makes tasks ready that nobody waits for; the rest of what it does is not for this carrier.
            None if !self.role.handles_leases() && self.polls.is_empty() => (None, None),
            None => {
                let to_forget = self.retention_state.wake(here, self.store.now());
                (self.wake_by_store(here).await, to_forget)
            }
            until => (until, None),
        };
        let hidden = (!self.set_aside.is_empty()).then(|| here + SET_ASIDE_POLL_INTERVAL);
        [by_store, to_forget, self.wake_for_stall_check(here), self.polls.earliest_end(), hidden]
            .into_iter()
            .flatten()
            .fold(here + SLEEP_MAX, Instant::min)
    }

    async fn wake_by_store(&mut self, here: Instant) -> Option<Instant> {
        let now = self.store.now();
        match self.writer.next_wake().await {
            Ok(wake) => {
                // Bug 13 of the museum: what did not fit into one sweep is forgotten.
                let is_forgotten = |at: &Time| faultpoint::mutant(13) && *at <= self.swept_at;
                let wake = wake.filter(|at| !is_forgotten(at));
                let pause = self.pause_for(wake);
                wake.map(|wake| here + duration(wake.since(now)).max(pause))
            }
            Err(failure) => {
                tracing::warn!(error = %failure, "the store does not say when to wake");
                self.enter_outage(UnavailableReason::of(&failure));
                self.backoff.until()
            }
        }
    }

    /// What was due at the last batch and is still there came with that batch, after it had swept: it is looked
    /// at once more at once. If it stays, another writer has it, and it is looked at now and then; whatever is due
    /// later must not wait for it.
    fn pause_for(&mut self, wake: Option<Time>) -> Duration {
        let left_over = wake.filter(|wake| *wake <= self.swept_at);
        let stays = left_over.is_some() && self.left_over == left_over;
        self.left_over = left_over;
        if stays { S::PEER_POLL_INTERVAL } else { Duration::ZERO }
    }

    /// A store that refuses cannot hear: there is nothing to notice until it is tried again.
    fn wake_for_stall_check(&self, here: Instant) -> Option<Instant> {
        if self.stall.is_refused() || !self.role.handles_leases() {
            return None;
        }
        StallDetector::check_period(self.writer.shortest_lease())
            .map(|period| here + duration(period))
    }
}

/// Resolves when others may have changed something. Whoever grants follows hints; for time it is enough to look.
async fn changed_elsewhere<S: Store>(store: &S, role: &CarrierRole) {
    match role {
        CarrierRole::Everything | CarrierRole::NewWork(_) => store.changed_elsewhere().await,
        CarrierRole::Leased => tokio::time::sleep(S::PEER_POLL_INTERVAL).await,
    }
}

fn duration(span: verdict::Span) -> Duration {
    Duration::from_millis(span.millis())
}
