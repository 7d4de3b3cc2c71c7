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
//! fixed period. Only while leases are alive does it wake more often, to notice that it was deaf.
//! A store that refuses is left alone for growing pauses, but for what somebody asks.
//!
//! Answers leave after the commit is durable, never before. Between two batches nothing is kept
//! but what may be lost: waiting polls.

mod administer;
mod backoff;
mod batch;
mod bisect;
mod hearing;
mod isolate;
mod polls;
mod retention;
mod share;
mod working;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use store::{Failure, FailureKind, Store, Writer};
use tokio::sync::{oneshot, watch as channel};
use tokio::time::Instant;
use verdict::{Retention, Time};

use self::backoff::Backoff;
pub(crate) use self::hearing::Hearing;
use self::polls::Polls;
use self::retention::Retaining;
pub(crate) use self::share::{Ears, Share};
use crate::admit::seal::Sealer;
use crate::allowances::Allowances;
use crate::aside::Aside;
use crate::coordinator::Ended;
use crate::ids::Ids;
use crate::intake::{Arrival, Outlet};
use crate::item::{Group, Item, Outage, Shortage};
use crate::metrics::Metrics;
use crate::trace::Telling;
use crate::watch::Watch;

/// Requests in one commit. STORAGE measured no gain beyond a thousand, and a commit this size
/// still ends within milliseconds.
const BATCH_ITEMS_MAX: usize = 1_024;

/// A wake-up further away than this is looked at again then: it bounds what a wrong clock can do.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// How often to look while a task is set aside: what it would have been woken for stands before all later alarms.
const ASIDE_LOOK: Duration = Duration::from_millis(500);

/// How often a start tries to give leases their time back while another writer has one of them, and how
/// long it rests in between: longer together than a database keeps the locks of a coordinator that died.
const RECOVERY_TRIES_MAX: usize = 150;
const RECOVERY_PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Carrier<S: Store> {
    share: Share,
    store: S,
    writer: S::Writer,
    ids: Ids,
    outlet: Outlet,
    watch: Watch,
    metrics: Metrics,
    /// Tasks that cannot be carried on.
    aside: Aside,
    allowances: Allowances,
    /// Whatever seals the audit, once there is something.
    sealer: Arc<OnceLock<Sealer>>,
    polls: Polls,
    hearing: Hearing,
    retaining: Retaining,
    /// Whoever is told what is durable, as spans.
    telling: Option<Telling>,
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

/// What came in while the last batch was being carried.
#[derive(Default)]
struct Arrivals {
    /// How many of any kind.
    count: usize,
    groups: Vec<Group>,
    items: usize,
    acts: Vec<administer::Act>,
    nudges: Vec<oneshot::Sender<()>>,
    close: bool,
}

impl Arrivals {
    fn is_any(&self) -> bool {
        self.items > 0 || !self.nudges.is_empty()
    }
}

/// Whether anything happened while the carrier listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    Kept,
    Broken,
}

/// Nothing can be decided any more: how the carrier ends.
#[derive(Debug)]
pub(crate) struct Fatal(Ended);

impl Fatal {
    /// The store is no longer to be trusted, or no longer to be understood.
    fn of(failure: &Failure) -> Self {
        match failure.kind {
            FailureKind::UnknownRules => Self(Ended::Outdated(failure.what.clone())),
            _ => Self(Ended::Fatal(bisect::chain(failure))),
        }
    }

    /// The store is sound, but not for this program.
    fn is_outdated(&self) -> bool {
        matches!(self.0, Ended::Outdated(_))
    }
}

impl<S: Store> Carrier<S> {
    pub(crate) fn new(
        store: S,
        writer: S::Writer,
        mut ids: Ids,
        outlet: Outlet,
        watch: Watch,
        metrics: Metrics,
        outage: channel::Sender<Option<Outage>>,
    ) -> Self {
        let now = store.now();
        Self {
            share: Share::Everything,
            store,
            writer,
            backoff: Backoff::new(ids.fork()),
            ids,
            outlet,
            watch,
            polls: Polls::new(metrics.polls_waiting.clone()),
            aside: Aside::new(metrics.set_aside.clone()),
            metrics,
            allowances: Allowances::default(),
            sealer: Arc::default(),
            hearing: Hearing::new(now),
            retaining: Retaining::new(Retention::FOR_EVER),
            telling: None,
            unclaimed: Vec::new(),
            outage,
            more_due: true,
            swept_at: now,
            left_over: None,
        }
    }

    /// Does this part of the work. Who does not hear workers looks at what is known of who does.
    #[must_use]
    pub(crate) fn sharing(self, share: Share) -> Self {
        let hearing = match &share {
            Share::NewWork(ears) => ears.hearing.clone(),
            Share::Everything | Share::Leased => self.hearing,
        };
        Self { share, hearing, ..self }
    }

    /// What is known about being able to hear workers.
    pub(crate) fn hearing(&self) -> Hearing {
        self.hearing.clone()
    }

    /// Forgets what the rule lets go, from the beginning.
    pub(crate) fn retaining(self, retention: Retention) -> Self {
        Self { retaining: Retaining::new(retention), ..self }
    }

    /// With a list of tasks to leave alone, which others look at too.
    #[must_use]
    pub(crate) fn setting_aside(self, aside: Aside) -> Self {
        Self { aside, ..self }
    }

    /// With what tenants may use, which others look at too.
    #[must_use]
    pub(crate) fn counting(self, allowances: Allowances) -> Self {
        Self { allowances, ..self }
    }

    /// With whatever seals the audit, which may come later.
    #[must_use]
    pub(crate) fn sealing(self, sealer: Arc<OnceLock<Sealer>>) -> Self {
        Self { sealer, ..self }
    }

    /// Tells what is committed.
    #[must_use]
    pub(crate) fn telling(self, telling: Option<Telling>) -> Self {
        Self { telling, ..self }
    }

    /// Recovers, says so, and carries until told to close or until the store fails.
    pub(crate) async fn run(mut self, recovered: oneshot::Sender<Result<(), Failure>>) -> Ended {
        let recovery = self.recover().await;
        let failed = recovery.is_err();
        // Nobody waiting for the start means nobody wants it.
        if recovered.send(recovery).is_err() || failed {
            return Ended::Drained;
        }
        let ended = self.carry_until_told().await;
        if ended != Ended::Drained {
            // Whoever shares the work must not go on as if nothing had happened.
            self.outlet.draining.cancel();
        }
        self.outlet.refuse_the_rest().await;
        if let Share::NewWork(ears) = &self.share {
            ears.intake.close_leased().await;
        }
        ended
    }

    async fn carry_until_told(&mut self) -> Ended {
        loop {
            let arrivals = self.wait().await;
            let close = arrivals.close;
            if let Err(Fatal(ended)) = self.turn(arrivals).await {
                tracing::error!(
                    ?ended,
                    "nothing can be decided any more; the store must be reopened"
                );
                if faultpoint::mutant(28) {
                    return Ended::Drained;
                }
                return ended;
            }
            if close {
                return self.finish().await;
            }
        }
    }

    /// Nothing new comes in; what is already waiting is still carried and answered.
    async fn finish(&mut self) -> Ended {
        self.outlet.close();
        while let Some(first) = self.outlet.last().await {
            let mut arrivals = Arrivals::default();
            self.sort(first, &mut arrivals);
            self.drain_lanes(&mut arrivals);
            if let Err(Fatal(ended)) = self.turn(arrivals).await {
                return ended;
            }
        }
        self.polls.answer_all_empty();
        Ended::Drained
    }

    /// Leases that were alive at the last commit get back the time nobody was listening.
    async fn recover(&mut self) -> Result<(), Failure> {
        let opened = self.store.opened();
        if !self.share.hears() {
            return Ok(());
        }
        let Some(last_heard) = opened.last_commit_at else { return Ok(()) };
        let silence = self.store.now().since(last_heard);
        let tolerated = Hearing::tolerated(self.writer.shortest_lease());
        // Where others may listen too, silence that is shorter than what counts as a stall is theirs.
        if opened.writers > 1 && tolerated.is_none_or(|tolerated| silence <= tolerated) {
            return Ok(());
        }
        let mut tries = 1;
        loop {
            let given = self.give_back_since(last_heard).await;
            if let Err(failure) = &given
                && self.sets_aside(failure)
            {
                continue;
            }
            let is_held = |failure: &Failure| matches!(failure.kind, FailureKind::Conflict(_));
            if tries == RECOVERY_TRIES_MAX || !given.as_ref().is_err_and(is_held) {
                return given;
            }
            tries += 1;
            tokio::time::sleep(RECOVERY_PAUSE).await;
        }
    }

    async fn turn(&mut self, arrivals: Arrivals) -> Result<(), Fatal> {
        let is_asked = arrivals.is_any() || !self.unclaimed.is_empty();
        let rests = !is_asked && self.backoff.is_resting(tokio::time::Instant::now());
        if self.outlet.draining.is_cancelled() {
            self.polls.answer_all_empty();
        }
        // Where the store refused, looking whether leases must be extended is a try like any other.
        if !(rests && self.hearing.is_refused()) {
            match self.begin_round().await? {
                None if rests && !self.is_in_gap() => {}
                None => self.carry(arrivals.groups).await?,
                Some(shortage) => self.refuse(arrivals.groups, shortage),
            }
        }
        self.administer(arrivals.acts).await?;
        if self.share.hears() {
            self.retain().await?;
        }
        let outage = *self.outage.borrow();
        self.polls.answer_overdue(tokio::time::Instant::now(), outage);
        // A nudge asks for a round trip and nothing more; its asker may have left.
        for nudge in arrivals.nudges {
            let _ = nudge.send(());
        }
        Ok(())
    }

    async fn wait(&mut self) -> Arrivals {
        let mut arrivals = Arrivals::default();
        // Who is waiting already is not made to wait for the question of how long to sleep.
        self.drain_lanes(&mut arrivals);
        if arrivals.count == 0 && self.unclaimed.is_empty() {
            let lull = if self.more_due { Duration::ZERO } else { S::LULL };
            let is_quiet = lull.is_zero()
                || self.listen(tokio::time::Instant::now() + lull, &mut arrivals).await
                    == Silence::Kept;
            if is_quiet {
                let wake = self.next_wake().await;
                self.listen(wake, &mut arrivals).await;
            }
        }
        arrivals
    }

    /// Waits for whoever comes, until then at the latest.
    async fn listen(&mut self, until: Instant, arrivals: &mut Arrivals) -> Silence {
        let (draining, outlet) = (self.outlet.draining.clone(), &mut self.outlet);
        // A lane without senders means that every handle is gone: nobody is left to ask.
        let first = tokio::select! {
            biased;
            arrival = outlet.next() => Some(arrival.unwrap_or(Arrival::Close)),
            () = draining.cancelled(), if !self.polls.is_empty() => None,
            () = tokio::time::sleep_until(until) => return Silence::Kept,
            () = stirred(&self.store, &self.share) => None,
        };
        first.into_iter().for_each(|arrival| self.sort(arrival, arrivals));
        self.drain_lanes(arrivals);
        Silence::Broken
    }

    /// Takes what else is waiting, calls under a lease first, up to one batch.
    fn drain_lanes(&mut self, arrivals: &mut Arrivals) {
        while arrivals.items < BATCH_ITEMS_MAX {
            let Some(arrival) = self.outlet.next_waiting() else { return };
            self.sort(arrival, arrivals);
        }
    }

    fn sort(&mut self, arrival: Arrival, arrivals: &mut Arrivals) {
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
            Arrival::Nudge(nudge) => arrivals.nudges.push(nudge),
            Arrival::Polling(asked) => self.polls.tell_count(asked),
            Arrival::Ended { created, at } => self.retaining.note_ends(&created, at),
            Arrival::Close => arrivals.close = true,
        }
    }

    /// The earliest of: time changes a task, a poll is over, hearing must be checked.
    async fn next_wake(&mut self) -> Instant {
        let here = tokio::time::Instant::now();
        let (by_store, to_forget) = match self.backoff.until() {
            None if self.more_due => (Some(here), None),
            // Time makes tasks ready that nobody waits for; the rest of what it does is not for this carrier.
            None if !self.share.hears() && self.polls.is_empty() => (None, None),
            None => {
                let to_forget = self.retaining.wake(here, self.store.now());
                (self.wake_by_store(here).await, to_forget)
            }
            until => (until, None),
        };
        let hidden = (!self.aside.is_empty()).then(|| here + ASIDE_LOOK);
        [by_store, to_forget, self.wake_to_hear(here), self.polls.earliest_end(), hidden]
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
                self.run_short(Shortage::of(&failure));
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
        if stays { S::LOOK } else { Duration::ZERO }
    }

    /// A store that refuses cannot hear: there is nothing to notice until it is tried again.
    fn wake_to_hear(&self, here: Instant) -> Option<Instant> {
        if self.hearing.is_refused() || !self.share.hears() {
            return None;
        }
        Hearing::period(self.writer.shortest_lease()).map(|period| here + duration(period))
    }
}

/// Resolves when others may have changed something. Whoever grants follows hints; for time it is enough to look.
async fn stirred<S: Store>(store: &S, share: &Share) {
    match share {
        Share::Everything | Share::NewWork(_) => store.stirred().await,
        Share::Leased => tokio::time::sleep(S::LOOK).await,
    }
}

fn duration(span: verdict::Span) -> Duration {
    Duration::from_millis(span.millis())
}
