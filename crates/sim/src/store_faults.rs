//! Faults of the store: how long each call takes, which calls fail, and what happens to commits. This is a wrapper
//! around the memory engine and the disk below it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use store::{
    Administration, Backlog, Batch, Change, Claimable, CommitFailure, Decided, EndedPosition,
    EndedTask, Failure, FailureKind, Found, IdempotencyKey, KeyOwner, Loaded, LockWait, Lookup,
    PausedQueues, PeerHint, Plan, PolledQueues, RemoteChange, RunsOn, Selection, Store,
    StoreStatus, TaskKey, TaskWithSpec, Unfinished, Want, Writer,
};
use storetest::MemoryStore;
use storetest::memory::{Disk, MemoryBrowse, Synced};
use verdict::{Moment, Name, Object, Rules, Scope, Span, Subject, Task, Time};

use crate::committer_faults::{CommitterFaults, CommitterId};
use crate::coverage::CoverageGoal;
use crate::database::{Database, Session};
use crate::deployments::bugs;
use crate::durable_bugs;
use crate::escrow;
use crate::fault::Fault;
use crate::flows;
use crate::log::Log;
use crate::options::{Options, StoreOptions};
use crate::planted_bug::PlantedBug;
use crate::recovery;
use crate::rng::{SimRng, Stream};
use crate::schedules;

struct FaultState {
    rng: SimRng,
    options: StoreOptions,
    /// The end of the fault, in true time.
    full_until: u64,
    stalled_until: u64,
    store_stalled_until: u64,
    readers_full_until: u64,
    /// The options after faults have stopped: a permanently slow store stays slow.
    healthy: StoreOptions,
}

/// How late the planted bug reports a wake-up, and the interval at which a waiting call checks again.
const LATE: Span = Span::from_secs(5);
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// One commit in this many is lost, where commits are lost.
const DROPS_ONE_IN: u64 = 50;

/// Shared by all sessions of one store.
#[derive(Clone)]
pub(crate) struct StoreFaults {
    state: Arc<Mutex<FaultState>>,
    pub(crate) database: Database,
    pub(crate) committer_faults: CommitterFaults,
    log: Log,
    bug: PlantedBug,
    /// Whether runs have flow keys.
    has_flow_keys: bool,
    has_budgets: bool,
}

impl StoreFaults {
    pub(crate) fn new(seed: u64, options: &Options, log: Log, bug: PlantedBug) -> Self {
        let rng = SimRng::new(seed, Stream::StoreFaults);
        let state = FaultState {
            rng,
            options: options.store,
            full_until: 0,
            stalled_until: 0,
            store_stalled_until: 0,
            readers_full_until: 0,
            healthy: if options.is_slow_for_good { options.store } else { StoreOptions::healthy() },
        };
        let transactions = SimRng::new(seed, Stream::Transactions);
        let database = Database::new(transactions, options.database, log.clone());
        let committer_faults = CommitterFaults::new(log.clone());
        let has_flow_keys = options.runs.flow_keys > 0;
        let has_budgets = options.durable.is_some_and(|durable| durable.escrow);
        let state = Arc::new(Mutex::new(state));
        Self { state, database, committer_faults, log, bug, has_flow_keys, has_budgets }
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().expect("no code panics while it holds the state")
    }

    pub(crate) fn fill_disk(&self, until: u64) {
        self.state().full_until = until;
    }

    pub(crate) fn stall_disk(&self, until: u64) {
        self.state().stalled_until = until;
    }

    /// Makes every call wait until `until`.
    pub(crate) fn stall_store(&self, until: u64) {
        self.state().store_stalled_until = until;
    }

    /// Occupies all readers until `until`.
    pub(crate) fn fill_readers(&self, until: u64) {
        self.state().readers_full_until = until;
    }

    pub(crate) fn disconnect(&self, until: u64) {
        self.database.disconnect(until);
    }

    pub(crate) fn stop_faults(&self) {
        self.database.stop_faults();
        self.committer_faults.stop_faults();
        let mut state = self.state();
        (state.full_until, state.stalled_until) = (0, 0);
        (state.store_stalled_until, state.readers_full_until) = (0, 0);
        state.options = state.healthy;
    }

    /// Waits until the time that `until` returns.
    async fn wait_while(&self, until: impl Fn(&FaultState) -> u64, fault: Fault) {
        let mut is_told = false;
        while self.log.now() < until(&self.state()) {
            if !std::mem::replace(&mut is_told, true) {
                self.log.fault(fault);
            }
            tokio::time::sleep(RECHECK_INTERVAL).await;
        }
    }

    /// One call to the store: it takes time and may fail.
    async fn call(&self, what: &'static str) -> Result<(), Failure> {
        let (millis, refused) = {
            let mut state = self.state();
            let (low, high) = state.options.call_ms;
            let refuse = state.options.refuse;
            (state.rng.between(low, high), state.rng.chance(refuse))
        };
        if millis > 0 {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        self.wait_while(|state| state.store_stalled_until, Fault::StoreStalled).await;
        if refused {
            self.log.fault(Fault::StoreRefused);
            self.log.say(format_args!("store refuses {what}"));
            return Err(Failure::new(FailureKind::Unavailable, format!("no {what} now")));
        }
        Ok(())
    }

    fn check_room(&self) -> Result<(), Failure> {
        if self.log.now() < self.state().full_until {
            self.log.fault(Fault::DiskFull);
            return Err(Failure::new(FailureKind::Full, "no room"));
        }
        Ok(())
    }

    fn drops_commit(&self) -> bool {
        self.bug == PlantedBug::LosesCommits && self.state().rng.between(1, DROPS_ONE_IN) == 1
    }

    /// Whether a planted bug treats a commit in doubt as made.
    fn assumes_committed(&self, database: &Database) -> bool {
        match self.bug {
            PlantedBug::AnswersBeforeSync => !database.is_enabled(),
            PlantedBug::AssumesLostCommits => database.is_enabled(),
            _ => false,
        }
    }

    fn before_commit(&self) -> Result<(), Failure> {
        let mut state = self.state();
        let roll_back = state.options.roll_back;
        if state.rng.chance(roll_back) {
            self.log.fault(Fault::CommitRolledBack);
            return Err(Failure::new(FailureKind::Unavailable, "the commit was rolled back"));
        }
        Ok(())
    }
}

impl Disk for StoreFaults {
    fn sync(&self) -> Synced {
        let now = self.log.now();
        let mut state = self.state();
        let (low, high) = state.options.sync_ms;
        let mut millis = state.rng.between(low, high);
        if state.stalled_until > now {
            self.log.fault(Fault::DiskStalled);
            millis += state.stalled_until - now;
        }
        let unknown = state.options.unknown;
        let fails = state.rng.chance(unknown) && !self.database.is_enabled();
        let (database, session) = (self.database.clone(), self.database.session());
        let is_lost = database.loses_commit();
        Box::pin(async move {
            if millis > 0 {
                tokio::time::sleep(Duration::from_millis(millis)).await;
            }
            if is_lost || database.session() != session {
                return Err(Failure::new(FailureKind::Unavailable, "the connection was lost"));
            }
            match fails {
                true => Err(Failure::new(FailureKind::Fatal, "the disk did not say")),
                false => Ok(()),
            }
        })
    }
}

/// The memory engine behind injected faults.
#[derive(Clone)]
pub(crate) struct SimStore {
    pub(crate) inner: MemoryStore,
    pub(crate) store_faults: StoreFaults,
    /// The number of writers of a coordinator.
    pub(crate) committers: usize,
    pub(crate) host: usize,
    /// How many writers were handed out.
    pub(crate) given: Arc<AtomicUsize>,
}

pub(crate) struct SimWriter {
    inner: <MemoryStore as Store>::Writer,
    store: MemoryStore,
    store_faults: StoreFaults,
    committer_id: CommitterId,
}

pub(crate) struct SimBatch<'w> {
    inner: <<MemoryStore as Store>::Writer as Writer>::Batch<'w>,
    store: MemoryStore,
    store_faults: StoreFaults,
    session: Session,
    /// Whether the batch wrote something that peers must learn of.
    has_saved: bool,
}

impl SimBatch<'_> {
    /// One call inside the transaction: it takes time, may fail, and may lose the transaction.
    async fn call(&self, what: &'static str) -> Result<(), Failure> {
        self.store_faults.call(what).await?;
        self.store_faults.database.execute(self.session, what)
    }
}

impl Store for SimStore {
    type Writer = SimWriter;
    type Browse = MemoryBrowse;

    const RUNS_ON: RunsOn = MemoryStore::RUNS_ON;

    async fn writer(&self) -> Result<SimWriter, Failure> {
        let (store, store_faults) = (self.inner.clone(), self.store_faults.clone());
        let inner = self.inner.writer().await?;
        let committer = self.given.fetch_add(1, Ordering::SeqCst);
        let committer_id = CommitterId { host: self.host, committer };
        Ok(SimWriter { inner, store, store_faults, committer_id })
    }

    fn browse(&self) -> &MemoryBrowse {
        self.inner.browse()
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn status(&self) -> StoreStatus {
        let status = StoreStatus { committers: self.committers, ..self.inner.status() };
        match self.store_faults.bug {
            PlantedBug::ForgetsLastCommit => StoreStatus { last_commit_at: None, ..status },
            _ => status,
        }
    }

    async fn peer_hint(&self, of: PeerHint) -> Vec<RemoteChange> {
        if of == PeerHint::Tasks || self.store_faults.bug == PlantedBug::MissesPeerChanges {
            return std::future::pending().await;
        }
        self.store_faults.database.changed_elsewhere().await;
        Vec::new()
    }
}

impl Writer for SimWriter {
    type Batch<'w> = SimBatch<'w>;

    async fn begin(&mut self) -> Result<SimBatch<'_>, Failure> {
        self.store_faults.committer_faults.before_batch(self.committer_id).await?;
        self.store_faults.call("begin").await?;
        let session = self.store_faults.database.connect()?;
        let (store, store_faults) = (self.store.clone(), self.store_faults.clone());
        let inner = self.inner.begin().await?;
        Ok(SimBatch { inner, store, store_faults, session, has_saved: false })
    }

    async fn next_wake(&mut self) -> Result<Option<Time>, Failure> {
        self.store_faults.wait_while(|state| state.readers_full_until, Fault::ReadersFull).await;
        let (wake, now) = (self.inner.next_wake().await?, self.store.now());
        Ok(match self.store_faults.bug {
            PlantedBug::NamesNoWake => None,
            PlantedBug::NamesLateWakes => wake.map(|wake| wake.plus(LATE)),
            PlantedBug::ForgetsPastWakes => wake.filter(|wake| !wake.has_come(now)),
            _ => wake,
        })
    }

    fn shortest_lease(&self) -> Option<Span> {
        let keeps_to_itself = self.store_faults.bug == PlantedBug::HidesLeases;
        if keeps_to_itself
            && self.committer_id.committer == 0
            && self.store_faults.committer_faults.has_two(self.committer_id)
        {
            return None;
        }
        self.inner.shortest_lease()
    }

    async fn administer(&mut self, act: &Administration) -> Result<(), CommitFailure> {
        self.store_faults.check_room().map_err(CommitFailure::RolledBack)?;
        self.inner.administer(act).await
    }
}

impl SimBatch<'_> {
    async fn find_owners(
        &mut self,
        keys: &[IdempotencyKey],
    ) -> Result<Vec<Option<KeyOwner>>, Failure> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.call("holders").await?;
        let found = self.inner.look_up(Lookup::keys(keys)).await?;
        let is_forgetful = self.store_faults.bug == PlantedBug::ForgetsKeys;
        let owner = |found: Option<(KeyOwner, Loaded)>| {
            found.filter(|_| !is_forgetful).map(|(owner, _)| owner)
        };
        let mut owners: Vec<_> = found.owners.into_iter().map(owner).collect();
        if self.store_faults.bug == PlantedBug::TearsFirings {
            schedules::forget_firings(keys, &mut owners);
        }
        if self.store_faults.bug == PlantedBug::RecoversTwice {
            recovery::forget_forks(keys, &mut owners);
        }
        Ok(owners)
    }

    async fn load(
        &mut self,
        keys: &[TaskKey],
        lock_wait: LockWait,
    ) -> Result<Vec<Loaded>, Failure> {
        let mut loaded = self.load_once(keys).await?;
        if lock_wait == LockWait::Skip {
            return Ok(loaded);
        }
        for pause in self.store_faults.database.lock_wait_delays() {
            if !loaded.contains(&Loaded::Locked) {
                break;
            }
            self.store_faults.log.reach_goal(CoverageGoal::RowWaitedFor);
            tokio::time::sleep(pause).await;
            loaded = self.load_once(keys).await?;
        }
        Ok(loaded)
    }

    async fn load_once(&mut self, keys: &[TaskKey]) -> Result<Vec<Loaded>, Failure> {
        self.call("load").await?;
        let mut loaded = self.inner.look_up(Lookup::tasks(keys)).await?.tasks;
        if loaded.contains(&Loaded::Locked) {
            self.store_faults.log.reach_goal(CoverageGoal::RowHeldByAnother);
        }
        if self.store_faults.bug == PlantedBug::ForgetsVotes {
            loaded.iter_mut().for_each(durable_bugs::forget_votes);
        }
        if self.store_faults.bug == PlantedBug::TreatsLockedAsMissing {
            let gone = Loaded::Subject(Subject::Absent);
            loaded.iter_mut().filter(|it| **it == Loaded::Locked).for_each(|it| *it = gone.clone());
        }
        Ok(loaded)
    }

    async fn recall(&mut self, lookup: Lookup<'_>) -> Result<Found, Failure> {
        self.call("polled").await?;
        let found = self.inner.look_up(lookup).await?;
        if found.leased.iter().flatten().any(|leases| !leases.is_empty()) {
            self.store_faults.log.reach_goal(CoverageGoal::GrantRecalled);
        }
        Ok(found)
    }

    async fn save_changes(&mut self, changes: &mut [Change]) -> Result<(), Failure> {
        self.store_faults.check_room()?;
        self.call("save").await?;
        self.has_saved = true;
        if self.store_faults.bug == PlantedBug::SavesPartially {
            changes.iter_mut().for_each(|change| change.closed.clear());
        }
        Ok(())
    }

    async fn running(&mut self, selection: Selection, limit: usize) -> Result<Vec<Task>, Failure> {
        self.call("running").await?;
        let mut looks = self.store_faults.database.lock_wait_delays();
        loop {
            match (self.inner.select(selection, limit).await, looks.next()) {
                (Err(held), Some(pause)) if matches!(held.kind, FailureKind::Conflict(_)) => {
                    self.store_faults.log.reach_goal(CoverageGoal::LeaseWaitedFor);
                    tokio::time::sleep(pause).await;
                    self.call("running").await?;
                }
                (found, _) => return found,
            }
        }
    }
}

impl Batch for SimBatch<'_> {
    async fn prepare(&mut self, plan: Plan<'_>) -> Result<Option<Vec<Unfinished>>, Failure> {
        self.inner.prepare(plan).await
    }

    /// Each part takes its own time, like the statements of a database: other writers commit in between.
    async fn look_up(&mut self, lookup: Lookup<'_>) -> Result<Found, Failure> {
        if !lookup.polls.is_empty() {
            return self.recall(lookup).await;
        }
        if lookup.shortest_lease {
            return self.inner.look_up(lookup).await;
        }
        let owners = self.find_owners(lookup.keys).await?;
        let tasks = lookup.tasks_to_load(&owners);
        let loaded = self.load(&tasks, lookup.lock_wait).await?;
        let found = Found::of(&lookup, owners, loaded);
        self.call("closed").await?;
        let rest = Lookup {
            tasks: &[],
            keys: &[],
            polls: &[],
            shortest_lease: false,
            spend: &[],
            ..lookup
        };
        let Found {
            closed,
            mut runs,
            messages,
            mut flows,
            objects,
            unique_objects,
            step_specs,
            debounced,
            listed,
            ..
        } = self.inner.look_up(rest).await?;
        if self.store_faults.bug == PlantedBug::ForgetsHolders {
            flows.fill(None);
        }
        if self.store_faults.bug == PlantedBug::ForgetsStarts {
            let rates = flows.iter_mut().flatten().filter_map(|in_use| in_use.rate.as_mut());
            rates.for_each(|rate| rate.left = u32::MAX);
        }
        runs.iter_mut().for_each(|loaded| durable_bugs::forget(self.store_faults.bug, loaded));
        let loaded = Found { closed, runs, messages, flows, step_specs, debounced, ..found };
        Ok(Found { objects, unique_objects, listed, ..loaded })
    }

    async fn moment(&mut self) -> Result<Moment, Failure> {
        let moment = self.inner.moment().await?;
        match self.store_faults.bug {
            PlantedBug::ForgetsRules if self.inner.number().is_multiple_of(2) => {
                Ok(Moment { rules: Rules::OLDEST, ..moment })
            }
            _ => Ok(moment),
        }
    }

    async fn save(&mut self, mut decided: Decided) -> Result<(), Failure> {
        if !decided.messages.saved.is_empty() {
            self.store_faults.log.reach_goal(CoverageGoal::MessageSaved);
        }
        if self.store_faults.bug == PlantedBug::LosesMessages {
            durable_bugs::lose_messages(&mut decided.messages);
        }
        if self.store_faults.bug == PlantedBug::DropsLostSpend {
            durable_bugs::drop_lost_spend(&mut decided.changes);
        }
        if self.store_faults.bug == PlantedBug::TearsFirings {
            schedules::tear(&mut decided, self.inner.number());
        }
        match self.store_faults.bug {
            PlantedBug::LosesFailures => recovery::lose_notes(&mut decided, self.inner.number()),
            PlantedBug::RecoversTwice => recovery::lose_closed(&mut decided, self.inner.number()),
            PlantedBug::LosesRecoveryDecisions => {
                recovery::lose_decisions(&mut decided, self.inner.number());
            }
            PlantedBug::OrdersWithoutKeys => bugs::drop_keys(&mut decided),
            PlantedBug::EndsEventsFirst => bugs::lose_orders(&mut decided, self.inner.number()),
            PlantedBug::PausesTwice => bugs::double_pauses(&mut decided, self.inner.number()),
            PlantedBug::JudgesAfterPause => bugs::lose_records(&mut decided, self.inner.number()),
            PlantedBug::LosesEventEnds => bugs::lose_notes(&mut decided),
            _ => {}
        }
        if !decided.forgotten.is_empty() {
            self.call("forget").await?;
        } else if !decided.keep_alive {
            self.save_changes(&mut decided.changes).await?;
        }
        self.inner.save(decided).await
    }

    async fn backlogs(
        &mut self,
        polled: &dyn PolledQueues,
        claimable: Claimable,
    ) -> Result<Vec<Backlog>, Failure> {
        if claimable != Claimable::Likely {
            self.call("stocked").await?;
        }
        self.inner.backlogs(polled, claimable).await
    }

    async fn ready(
        &mut self,
        wants: &[Want],
        now: Time,
    ) -> Result<Vec<Vec<TaskWithSpec>>, Failure> {
        self.call("ready").await?;
        let mut found = match self.store_faults.bug {
            PlantedBug::MixesTenants => self.inner.ready(&with_swapped_scopes(wants), now).await?,
            _ => self.inner.ready(wants, now).await?,
        };
        self.store_faults.database.skip_candidates(&mut found);
        Ok(found)
    }

    async fn most_urgent(
        &mut self,
        queues: &[(Scope, Name)],
        now: Time,
    ) -> Result<Vec<Option<i32>>, Failure> {
        self.call("most_urgent").await?;
        self.inner.most_urgent(queues, now).await
    }

    async fn select(&mut self, selection: Selection, limit: usize) -> Result<Vec<Task>, Failure> {
        let Selection::Due { .. } = selection else {
            return self.running(selection, limit).await;
        };
        self.call("due").await?;
        if self.store_faults.bug == PlantedBug::NeverSweeps {
            return Ok(Vec::new());
        }
        let mut due = self.inner.select(selection, limit).await?;
        let bug = self.store_faults.bug;
        due.iter_mut().for_each(|task| durable_bugs::forget_progress_clock(bug, task));
        Ok(due)
    }

    async fn addressees(&mut self, now: Time, limit: usize) -> Result<Vec<TaskKey>, Failure> {
        self.call("addressees").await?;
        self.inner.addressees(now, limit).await
    }

    async fn due_objects(&mut self, now: Time, limit: usize) -> Result<Vec<Object>, Failure> {
        self.call("due_objects").await?;
        self.inner.due_objects(now, limit).await
    }

    async fn ended(
        &mut self,
        after: Option<EndedPosition>,
        limit: usize,
    ) -> Result<Vec<EndedTask>, Failure> {
        self.call("ended").await?;
        if self.store_faults.bug == PlantedBug::NeverForgets {
            return Ok(Vec::new());
        }
        self.inner.ended(after, limit).await
    }

    fn paused(&self) -> &PausedQueues {
        self.inner.paused()
    }

    fn settings_version(&self) -> i64 {
        self.inner.settings_version()
    }

    async fn commit(self) -> Result<(), CommitFailure> {
        let Self { inner, store, store_faults, session, has_saved } = self;
        store_faults.before_commit().map_err(CommitFailure::RolledBack)?;
        let database = store_faults.database.clone();
        database.execute(session, "commit").map_err(CommitFailure::RolledBack)?;
        if store_faults.drops_commit() {
            return Ok(());
        }
        let batch = inner.number();
        let committed = match inner.commit().await {
            Err(CommitFailure::Unknown(_)) if store_faults.assumes_committed(&database) => Ok(()),
            Err(CommitFailure::Unknown(lost)) if database.is_enabled() => {
                database.look_up_commit(&store, batch, lost).await
            }
            committed => committed,
        };
        if has_saved && committed.is_ok() {
            database.notify_commit();
            if store_faults.has_flow_keys {
                flows::check(&store_faults.log, &store).await;
            }
            if store_faults.has_budgets {
                escrow::check(&store_faults.log, &store).await;
            }
        }
        if let Err(CommitFailure::RolledBack(failure)) = &committed
            && matches!(failure.kind, FailureKind::Conflict(_))
        {
            store_faults.log.reach_goal(CoverageGoal::CommitConflict);
        }
        committed
    }
}

/// The same wants, each with the scope of the previous one.
fn with_swapped_scopes(wants: &[Want]) -> Vec<Want> {
    let scopes = wants.iter().map(|want| want.scope.clone());
    let others = scopes.cycle().skip(1).take(wants.len());
    wants.iter().cloned().zip(others).map(|(want, scope)| Want { scope, ..want }).collect()
}
