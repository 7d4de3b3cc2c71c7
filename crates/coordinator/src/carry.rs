//! The carrier: a loop that collects the waiting requests, decides them and commits them as one batch.
//!
//! ```text
//!   wait ─► load ─► decide each ─► sweep what is due ─► grant what is ready ─► commit ─► answer
//!    ▲                                                                              │
//!    └──────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! This file is the loop. The submodules hold the rest: waiting ([`wait`]), one batch ([`batch`], with [`load`] and
//! [`grant`] and [`messages`] and [`objects`]), committing and answering ([`commit`]), failed batches ([`abort`]) and the search for the bad request
//! in one ([`isolate`]), stalls ([`stall`]), the roles of two carriers ([`role`]), and retention ([`retention`]).
//!
//! An idle coordinator answers at once; a busy one shares each commit among all callers that waited for the previous
//! one. While the store refuses writes, background work backs off exponentially; requests of callers are always
//! tried.
//!
//! Invariants: answers are sent only after the commit is durable. Between two batches the carrier keeps only state
//! that may be lost: waiting polls.

mod abort;
mod administer;
mod backoff;
mod batch;
mod commit;
mod debounce;
mod deploying;
mod due;
mod effects;
mod escalation;
mod grant;
mod isolate;
mod load;
mod messages;
mod next_stage;
mod object_calls;
mod objects;
mod polls;
mod recovery;
mod retention;
mod role;
mod stall;
mod topologies;
mod wait;
mod working_set;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use store::{Failure, FailureKind, Store, Writer};
use tokio::sync::{oneshot, watch as channel};
use verdict::{Retention, Time};

use self::backoff::Backoff;
use self::due::DueItems;
pub(crate) use self::object_calls::ObjectCall;
#[cfg(feature = "http")]
pub(crate) use self::object_calls::{DecideObjects, ObjectSet};
use self::polls::Polls;
use self::retention::RetentionState;
pub(crate) use self::role::{CarrierRole, LeasedCarrier};
pub(crate) use self::stall::StallDetector;
use self::wait::Arrivals;
use crate::Sealer;
use crate::allowances::Allowances;
use crate::coordinator::StopReason;
use crate::ended_feed::EndedFeed;
use crate::ids::Ids;
use crate::intake::{IntakeReceiver, NewWorkSender};
use crate::item::{Item, Outage};
use crate::metrics::Metrics;
use crate::outbox::{EffectFeed, EndpointDirectory};
use crate::preparing::PreparationHint;
use crate::recent_runs::RecentRuns;
use crate::recovery::RecoveryDirectory;
use crate::set_aside::SetAsideList;
use crate::task_watch::TaskWatchers;
use crate::topologies::TopologyDirectory;
use crate::trace::TraceSender;
use crate::worker_signals::WorkerSignals;

/// How many times a start tries to extend leases while another writer holds a row lock on one of them, and the pause
/// between two tries. Together they are longer than a database keeps the locks of a coordinator that died.
const RECOVERY_TRIES_MAX: usize = 150;
const RECOVERY_PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Carrier<S: Store> {
    role: CarrierRole,
    store: S,
    writer: S::Writer,
    ids: Ids,
    receiver: IntakeReceiver,
    watch: TaskWatchers,
    recent_runs: RecentRuns,
    signals: WorkerSignals,
    metrics: Metrics,
    /// Tasks that cannot be processed.
    set_aside: SetAsideList,
    allowances: Allowances,
    /// Seals the audit log. Empty until the server has opened its key file.
    sealer: Arc<OnceLock<Sealer>>,
    /// Learns which tasks ended, for the sealer of records.
    ended_feed: EndedFeed,
    /// Who is told of ends, and who delivers what they are told.
    endpoints: EndpointDirectory,
    effect_feed: EffectFeed,
    /// For which runs recovery is wanted.
    recovery: RecoveryDirectory,
    /// Where steps of plans wait to be prepared.
    preparations: PreparationHint,
    /// Which deployments there are.
    topologies: TopologyDirectory,
    polls: Polls,
    stall: StallDetector,
    retention_state: RetentionState,
    /// Queue of the span exporter. Receives only what is durable.
    trace_sender: Option<TraceSender>,
    /// Grants that reached no worker, to be handed back with the next batch.
    unclaimed: Vec<Item>,
    /// Schedules and other objects that are due, for the next batches.
    due: DueItems,
    /// Where schedules that are due go, if another carrier creates tasks.
    firings: Option<NewWorkSender>,
    /// Until when to start no batch that no caller asked for.
    backoff: Backoff,
    /// Why the store refused the last batch that had something to write; `None` after a successful write.
    outage: channel::Sender<Option<Outage>>,
    /// More was due than one batch takes.
    more_due: bool,
    /// The time of the last batch. Everything due by then has been considered.
    swept_at: Time,
    /// A wake-up time at or before `swept_at` that the store still reported at the last `next_wake`.
    left_over: Option<Time>,
}

/// The setup of a carrier, and what it shares with its coordinator and the other carrier.
pub(crate) struct CarrierOptions {
    pub(crate) role: CarrierRole,
    /// `FOR_EVER` for the carrier of new work, which deletes nothing.
    pub(crate) retention: Retention,
    pub(crate) watch: TaskWatchers,
    pub(crate) recent_runs: RecentRuns,
    pub(crate) signals: WorkerSignals,
    pub(crate) metrics: Metrics,
    pub(crate) outage: channel::Sender<Option<Outage>>,
    pub(crate) set_aside: SetAsideList,
    pub(crate) allowances: Allowances,
    /// Empty until the server has opened its key file.
    pub(crate) sealer: Arc<OnceLock<Sealer>>,
    pub(crate) ended_feed: EndedFeed,
    pub(crate) endpoints: EndpointDirectory,
    pub(crate) effect_feed: EffectFeed,
    pub(crate) recovery: RecoveryDirectory,
    pub(crate) preparations: PreparationHint,
    pub(crate) topologies: TopologyDirectory,
    /// `None` where no spans are exported.
    pub(crate) trace_sender: Option<TraceSender>,
    /// The carrier that creates tasks, where this one does not.
    pub(crate) firings: Option<NewWorkSender>,
}

/// Ends the carrier: nothing can be decided any more.
#[derive(Debug)]
pub(crate) struct Fatal(StopReason);

impl Fatal {
    /// The store can no longer be trusted, or this program does not know its rules.
    fn of(failure: &Failure) -> Self {
        match failure.kind {
            FailureKind::UnknownRules => Self(StopReason::Outdated(failure.what.clone())),
            _ => Self(StopReason::Fatal(abort::error_chain(failure))),
        }
    }

    /// Whether the store is sound, but decided by rules that this program does not know.
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
        let CarrierOptions { role, retention, watch, recent_runs, signals, metrics, .. } = options;
        let outage = options.outage;
        let CarrierOptions { set_aside, allowances, sealer, ended_feed, trace_sender, .. } =
            options;
        let CarrierOptions { endpoints, effect_feed, recovery, preparations, topologies, .. } =
            options;
        let firings = options.firings;
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
            recent_runs,
            signals,
            polls: Polls::default(),
            set_aside,
            metrics,
            allowances,
            sealer,
            ended_feed,
            endpoints,
            effect_feed,
            recovery,
            preparations,
            topologies,
            stall,
            retention_state: RetentionState::new(retention),
            trace_sender,
            unclaimed: Vec::new(),
            due: DueItems::default(),
            firings,
            outage,
            more_due: true,
            swept_at: now,
            left_over: None,
        }
    }

    pub(crate) fn stall_detector(&self) -> StallDetector {
        self.stall.clone()
    }

    /// Recovers, reports the result to `recovered`, and runs until it is closed or the store fails.
    pub(crate) async fn run(
        mut self,
        recovered: oneshot::Sender<Result<(), Failure>>,
    ) -> StopReason {
        let recovery = self.recover().await;
        let failed = recovery.is_err();
        // The caller of `start` is gone, so the coordinator is not needed.
        if recovered.send(recovery).is_err() || failed {
            return StopReason::Drained;
        }
        let ended = self.run_until_closed().await;
        if ended != StopReason::Drained {
            // The other carrier must stop taking new work, too.
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
                tracing::error!(?ended, "stopped deciding; the store must be reopened");
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

    /// Closes the intake. Requests that are already waiting are still carried and answered.
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

    /// Extends leases that were alive at the last commit by the time in which no coordinator ran.
    async fn recover(&mut self) -> Result<(), Failure> {
        let opened = self.store.status();
        if !self.role.handles_leases() {
            return Ok(());
        }
        let Some(last_commit_at) = opened.last_commit_at else { return Ok(()) };
        let (shortest, now) = (self.writer.shortest_lease(), self.store.now());
        if !verdict::stall::is_outage_at_start(last_commit_at, shortest, opened.writers > 1, now) {
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

    /// Whether it has requests that no caller made.
    pub(super) fn has_own_items(&self) -> bool {
        !self.unclaimed.is_empty() || !self.due.is_empty()
    }

    async fn run_round(&mut self, arrivals: Arrivals) -> Result<(), Fatal> {
        let is_asked = arrivals.is_any() || self.has_own_items();
        let rests = !is_asked && self.backoff.is_resting(tokio::time::Instant::now());
        if self.receiver.draining.is_cancelled() {
            self.polls.answer_all_empty();
        }
        // If the store refused, a check for stalls is an attempt to write like any other, so it respects the backoff.
        if !(rests && self.stall.is_refused()) {
            match self.begin_round().await? {
                None if rests && !self.is_stalled() => {}
                None => self.carry(arrivals.groups).await?,
                Some(reason) => self.refuse(arrivals.groups, reason),
            }
        }
        self.administer(arrivals.acts).await?;
        self.carry_object_calls(arrivals.object_calls).await?;
        if self.role.handles_leases() {
            self.run_retention().await?;
        }
        let outage = *self.outage.borrow();
        self.polls.answer_expired(tokio::time::Instant::now(), outage);
        // A ping only waits for one round of the carrier; its sender may be gone.
        for ping in arrivals.pings {
            let _ = ping.send(());
        }
        Ok(())
    }
}

fn duration(span: verdict::Span) -> Duration {
    Duration::from_millis(span.millis())
}
