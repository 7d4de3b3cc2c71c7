//! Stalls: periods in which the coordinator could not have received a heartbeat.
//!
//! Lease time runs only while a heartbeat could be recorded. A stopped process, a disk that hung or was full, a
//! restart: all of these are stalls of the coordinator, and no worker loses its lease because of them. A heartbeat that
//! cannot be stored counts as not received, however promptly it was refused. While leases are alive the carrier wakes
//! often enough to notice a stall that matters. If nothing else was written it writes a keep-alive commit, so that a
//! later start knows how long the stall was. A crash loop cannot keep a dead worker's lease alive for ever: time up to
//! each keep-alive commit counts.
//!
//! The first batch after a stall extends leases by it, in the same commit as the decisions of that batch. A batch that
//! is itself so slow that it becomes a stall is rolled back once and extends leases when it is carried again, so there
//! is progress however slow every batch is.
//!
//! The rules judge what is observed here: whether a silence is a stall, and which leases are extended instead of swept
//! ([`verdict::stall`]).
//!
//! How long a silence may last depends on the shortest lease that is alive, which another coordinator of the same
//! database may have granted. After a silence that could matter to the shortest allowed lease, the carrier reads the
//! shortest live lease from the store before it judges the silence.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard};

use store::{Batch, Decided, Failure, Lookup, Plan, Selection, Store, Writer};
use verdict::request::Extend;
use verdict::stall::{Silence, check_period, is_stall};
use verdict::{Request, Span, Time};

use super::batch::catch_task_panic;
use super::role::{CarrierRole, LeasedCarrier};
use super::working_set::WorkingSet;
use super::{Carrier, Fatal};
use crate::coordinator::StopReason;
use crate::item::{RequestError, UnavailableReason};

/// The shortest lease that a submission may request.
const LEASE_MIN: Span = Span::from_millis(*wire::limits::LEASE_MS.start());

/// Running tasks are loaded in slices of this size; all are saved in one commit.
const SLICE: usize = 512;

/// What is known about stalls. The carrier that handles leases writes it; the other carrier of the coordinator reads
/// it.
#[derive(Clone)]
pub(crate) struct StallDetector(Arc<Mutex<StallState>>);

struct StallState {
    /// When the last round began whose batch the store accepted.
    at: Time,
    /// The same before the current round, restored if the store refuses.
    before: Time,
    /// Since when the store has refused calls of workers. A small write that still succeeds does not end this; only
    /// extending leases does.
    refused_since: Option<Time>,
    /// When something was last committed.
    written_at: Time,
    /// Whether the last committed batch had to extend leases.
    was_late: bool,
    grants: GrantsUnderWay,
}

/// Grants of the carrier of new work that may be committed late. A lease runs from the clock of the batch that grants
/// it, and its worker can send no heartbeat before that batch is committed. The other carrier may have completed rounds
/// in time meanwhile, so it sees no stall that covers this.
#[derive(Clone, Copy, Default)]
struct GrantsUnderWay {
    /// The clock of the batch that is about to be committed.
    since: Option<Time>,
    /// Late batches after which no round has begun: the clock of the first, and the end of the last.
    late: Option<(Time, Time)>,
}

/// What a batch knows about stalls before it decides.
#[derive(Clone, Copy)]
pub(super) enum StallStatus<'a> {
    /// Heartbeats could be received at this time, and no known lease is shorter than this span. If the decision comes
    /// much later, the carrier stalled in between.
    AliveAt(Time, Option<Span>),
    /// No heartbeat could be received since this time: the batch extends leases before it decides.
    StalledSince(Time),
    /// The other carrier handles leases, and no known lease is shorter than this span.
    OtherCarrier(&'a StallDetector, Option<Span>, Lateness),
}

/// Whether a batch of the carrier of new work was already late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lateness {
    /// Not yet. A late batch is rolled back, and carried again once leases are extended. Its commit would be the newest
    /// in the store, and a start after a crash would take it as proof that heartbeats were received then.
    First,
    /// It was late before. The batch goes on, because otherwise there would be no progress while every batch is late.
    Again,
}

impl StallDetector {
    pub(crate) fn new(now: Time) -> Self {
        let (at, before, written_at) = (now, now, now);
        let grants = GrantsUnderWay::default();
        let state =
            StallState { at, before, refused_since: None, written_at, was_late: false, grants };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, StallState> {
        self.0.lock().expect("nothing panics with it in hand")
    }

    /// Whether the silence could matter to the shortest allowed lease. If so, the shortest live lease must be read
    /// before the silence is judged.
    fn may_have_stalled(&self, now: Time) -> bool {
        is_stall(self.state().at, Some(LEASE_MIN), now)
    }

    /// Begins a round. A round that begins in a stall does not count until leases are extended by the stall.
    fn begin_round(&self, shortest: Option<Span>, now: Time) {
        let is_stalled = self.stalled_since(shortest, now).is_some();
        let mut state = self.state();
        state.before = state.at;
        if !is_stalled {
            state.refused_since = None;
            state.at = now;
        }
    }

    /// Begins a round in which the shortest lease cannot be read. It does not count until the silence is judged.
    fn begin_unverified(&self) {
        let mut state = self.state();
        state.before = state.at;
    }

    /// Records a batch that was carried in time.
    fn completed_in_time(&self) {
        self.state().was_late = false;
    }

    /// Records that leases are extended up to `now`.
    fn leases_extended(&self, now: Time) {
        let mut state = self.state();
        (state.at, state.before) = (now, now);
        state.refused_since = None;
        state.was_late = true;
    }

    /// Records that the store refused a batch of this round: the round does not count.
    pub(super) fn refused(&self) {
        if faultpoint::mutant(7) {
            return;
        }
        let mut state = self.state();
        state.at = state.before;
        let before = state.before;
        state.refused_since.get_or_insert(before);
    }

    /// Whether the store has refused calls of workers and leases are not yet extended by that time.
    pub(super) fn is_refused(&self) -> bool {
        self.state().refused_since.is_some()
    }

    /// Records that a batch of the carrier of new work begins to grant.
    pub(super) fn granting(&self, now: Time) {
        self.state().grants.since = Some(now);
    }

    /// Records that this batch has ended, committed or not: a COMMIT without an answer may have happened or not.
    fn granted(&self, now: Time) {
        let grants = &mut self.state().grants;
        let Some(since) = grants.since.take() else { return };
        if is_stall(since, Some(LEASE_MIN), now) {
            let first = grants.late.map_or(since, |(first, _)| first.min(since));
            grants.late = Some((first, now));
        }
    }

    /// Leases acquired since this time may have been committed late. They are extended instead of swept.
    pub(super) fn late_grants_since(&self) -> Option<Time> {
        let GrantsUnderWay { since, late } = self.state().grants;
        [since, late.map(|(first, _)| first)].into_iter().flatten().min()
    }

    /// Records the commit of a round that began at `begun`: it has seen everything committed before.
    fn seen_grants(&self, begun: Time) {
        let grants = &mut self.state().grants;
        grants.late = grants.late.filter(|(_, end)| *end >= begun);
    }

    pub(super) fn written(&self, now: Time) {
        let mut state = self.state();
        state.written_at = state.written_at.max(now);
    }

    /// Whether a keep-alive commit is due: leases are alive and nothing was written for a period.
    pub(super) fn needs_keep_alive(&self, shortest: Option<Span>, now: Time) -> bool {
        let written_at = self.state().written_at;
        check_period(shortest).is_some_and(|period| now.since(written_at) >= period)
    }

    /// Since when no heartbeat could be received, if that is long enough to matter.
    pub(super) fn stalled_since(&self, shortest: Option<Span>, now: Time) -> Option<Time> {
        let StallState { at, refused_since, was_late, .. } = *self.state();
        Silence { alive_at: at, refused_since, was_late }.stalled_since(shortest, now)
    }

    /// The stall status for a batch that begins now and handles leases.
    fn stall_status(&self, shortest: Option<Span>, now: Time) -> StallStatus<'_> {
        match self.stalled_since(shortest, now) {
            Some(since) => StallStatus::StalledSince(since),
            None => StallStatus::AliveAt(self.state().at, shortest),
        }
    }
}

impl<S: Store> Carrier<S> {
    /// Begins a round. The carrier of new work first checks whether the other one stalled. If it did and leases could
    /// not be extended, nothing can be decided, and every request is answered with the returned reason.
    pub(super) async fn begin_round(&mut self) -> Result<Option<UnavailableReason>, Fatal> {
        let now = self.store.now();
        if let CarrierRole::NewWork(leased_carrier) = &self.role {
            let shortest = self.writer.shortest_lease();
            if faultpoint::mutant(39) {
                self.stall.begin_round(shortest, now);
            }
            return check_leased_carrier(leased_carrier, &self.stall, shortest, now).await;
        }
        if self.stall.may_have_stalled(now) && !self.refresh_shortest_lease().await {
            self.stall.begin_unverified();
            return Ok(None);
        }
        self.stall.begin_round(self.writer.shortest_lease(), now);
        Ok(None)
    }

    /// Reads the shortest lease again, including leases that other coordinators granted. Returns whether it is known
    /// now.
    async fn refresh_shortest_lease(&mut self) -> bool {
        if self.store.status().writers == 1 {
            return true;
        }
        let Ok(mut batch) = self.writer.begin().await else { return false };
        batch.look_up(Lookup::shortest_lease()).await.is_ok()
    }

    /// Whether leases must be extended even if no request arrived.
    pub(super) fn is_stalled(&self) -> bool {
        let (shortest, now) = (self.writer.shortest_lease(), self.store.now());
        self.role.handles_leases() && self.stall.stalled_since(shortest, now).is_some()
    }

    pub(super) fn stall_status<'a>(
        &self,
        stall: &'a StallDetector,
        lateness: Lateness,
    ) -> StallStatus<'a> {
        let shortest = self.writer.shortest_lease();
        match self.role.handles_leases() {
            true => stall.stall_status(shortest, self.store.now()),
            false => StallStatus::OtherCarrier(stall, shortest, lateness),
        }
    }

    /// Records that the batch of this carrier has ended, in whatever way.
    pub(super) fn note_batch_end(&self) {
        if !self.role.handles_leases() {
            self.stall.granted(self.store.now());
        }
    }

    /// At a start: extends leases that were alive at the last commit by the time since then.
    pub(super) async fn extend_leases_since(&mut self, since: Time) -> Result<(), Failure> {
        let resting = self.set_aside.excluded(tokio::time::Instant::now());
        let mut batch = self.writer.begin().await?;
        batch.prepare(Plan { exclude: Some(&resting), ..Plan::default() }).await?;
        let now = extend_all_leases(&mut batch, since).await?;
        batch.commit().await.map_err(|failure| match failure {
            store::CommitFailure::RolledBack(failure) | store::CommitFailure::Unknown(failure) => {
                failure
            }
        })?;
        faultpoint::point!("recover.committed");
        self.stall.written(now);
        Ok(())
    }
}

impl StallStatus<'_> {
    /// Records what the commit of a batch that began at this time says about stalls.
    pub(super) fn conclude(self, stall: &StallDetector, begun: Time, now: Time) {
        if !matches!(self, StallStatus::OtherCarrier(..)) {
            stall.seen_grants(begun);
        }
        match self {
            StallStatus::AliveAt(..) => stall.completed_in_time(),
            StallStatus::StalledSince(since) => {
                tracing::warn!(
                    millis = now.since(since).millis(),
                    "stalled; extended leases by the stall"
                );
                stall.leases_extended(now);
            }
            StallStatus::OtherCarrier(..) => {}
        }
    }
}

/// Whether a batch may decide at this time. If enough time has passed to matter, it first reads the shortest lease,
/// including leases that other coordinators granted.
pub(super) async fn check_batch<B: Batch>(
    batch: &mut B,
    stall_status: StallStatus<'_>,
    now: Time,
) -> Result<StallAction, Failure> {
    let (last_alive_at, known) = match stall_status {
        StallStatus::StalledSince(_) => return Ok(StallAction::Proceed),
        StallStatus::AliveAt(last_alive_at, shortest) => (last_alive_at, shortest),
        StallStatus::OtherCarrier(stall, shortest, _) => (stall.state().at, shortest),
    };
    let may_have_stalled = is_stall(last_alive_at, Some(LEASE_MIN), now);
    let others = match may_have_stalled {
        true => batch.look_up(Lookup::shortest_lease()).await?.shortest_lease,
        false => None,
    };
    let shortest = [known, others].into_iter().flatten().min();
    Ok(match stall_status {
        StallStatus::OtherCarrier(stall, _, lateness) => {
            match (stall.stalled_since(shortest, now), lateness) {
                (None, _) => StallAction::Proceed,
                (Some(_), Lateness::First) => StallAction::Retry,
                (Some(since), Lateness::Again) => StallAction::ExtendSince(since),
            }
        }
        _ if is_stall(last_alive_at, shortest, now) => StallAction::Retry,
        _ => StallAction::Proceed,
    })
}

/// What to do before a batch decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StallAction {
    Proceed,
    /// The carrier that handles leases extends all other leases; those of this batch are extended here, before anything
    /// else is decided about them.
    ExtendSince(Time),
    /// The stall was too long: the batch is carried again, and extends leases first.
    Retry,
}

/// Extends every lease that was alive at `since` by the time since then, in one commit: a crash in between must not
/// leave only some of them extended. Returns the batch's time.
pub(super) async fn extend_all_leases<B: Batch>(
    batch: &mut B,
    since: Time,
) -> Result<Time, Failure> {
    let at = batch.moment().await?;
    faultpoint::point!("recover.deciding");
    let request = Request::Extend(Extend::between(since, at.now));
    let mut after = None;
    loop {
        let tasks = batch.select(Selection::Running { after }, SLICE).await?;
        let Some(last) = tasks.last() else { break };
        after = Some(last.id);
        let mut work = WorkingSet::default();
        for task in tasks {
            catch_task_panic(task.id, || {
                let key = work.adopt(task);
                work.decide(&key, Cow::Borrowed(&request), at)
            })?;
        }
        let (changes, refused) = work.take();
        batch.save(Decided { changes, refused, ..Decided::default() }).await?;
    }
    faultpoint::point!("recover.saved");
    Ok(at.now)
}

/// Asks the carrier that handles leases whether it stalled. If so, that carrier extends leases first.
async fn check_leased_carrier(
    leased_carrier: &LeasedCarrier,
    stall: &StallDetector,
    shortest: Option<Span>,
    now: Time,
) -> Result<Option<UnavailableReason>, Fatal> {
    if stall.stalled_since(shortest, now).is_none() || faultpoint::mutant(37) {
        return Ok(None);
    }
    match leased_carrier.intake.ping_leased().await {
        // Its priority class is full. The calls in it were not recorded, so the stall continues.
        Ok(()) | Err(RequestError::Overloaded) => {}
        Err(_) => {
            return Err(Fatal(StopReason::Fatal(
                "the loop that receives worker calls has ended".to_owned(),
            )));
        }
    }
    Ok(stall.stalled_since(shortest, now).map(|_| leased_carrier.reason()))
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch as channel;

    use super::*;
    use crate::intake;

    #[tokio::test]
    async fn too_many_waiting_to_be_heard_is_an_outage_and_no_end() {
        // S3-60: in an outage calls under a lease pile up; the carrier of new work refuses its own requests and goes
        // on.
        let (intake, leased, _new_work) = intake::for_two_carriers();
        for _ in 0..intake::LEASED_WAITING_MAX {
            intake.note_ends(Vec::new(), Time::from_millis(0));
        }
        let stall = StallDetector::new(Time::from_millis(0));
        let (_short, outage) = channel::channel(None);
        let leased_carrier = LeasedCarrier { intake, stall: stall.clone(), outage };
        let (lease, late) = (Some(Span::from_secs(2)), Time::from_millis(60_000));
        let asked = check_leased_carrier(&leased_carrier, &stall, lease, late).await;
        assert_eq!(asked.expect("the other carrier lives"), Some(UnavailableReason::Contended));
        drop(leased);
        assert!(
            check_leased_carrier(&leased_carrier, &stall, lease, late).await.is_err(),
            "the other carrier has ended"
        );
    }
}
