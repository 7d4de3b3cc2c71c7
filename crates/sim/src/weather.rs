//! What the store does to a coordinator: how long each call takes, which ones it refuses, and what
//! becomes of commits. A wrapper around the memory engine, and the disk under it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use store::memory::{Disk, MemoryBrowse, MemoryStore, Synced};
use store::{
    Administration, Batch, Change, CommitFailure, Ended, Failure, FailureKind, Held, Key, Loaded,
    Opened, Place, PollRef, Polled, Ready, Refused, Stock, Store, TaskKey, Want, Writer,
};
use verdict::{Closed, LeaseId, Rules, Span, Subject, Task, TaskId, Time};

use crate::database::{Database, Session};
use crate::dice::{Dice, Stream};
use crate::fault::Fault;
use crate::log::Log;
use crate::mark::Mark;
use crate::options::{Options, StoreOptions};
use crate::plant::Plant;
use crate::seat::{Seat, Seats};

struct Sky {
    dice: Dice,
    options: StoreOptions,
    /// Until when, in true time.
    full_until: u64,
    stalled_until: u64,
    still_until: u64,
    readers_full_until: u64,
    /// A store that is slow for good is so when faults have stopped, too.
    calm: StoreOptions,
}

/// How much later than it should a planted bug wakes, and until when the store is looked at again.
const LATE: Span = Span::from_secs(5);
const AGAIN: Duration = Duration::from_millis(20);

/// One commit in so many is lost where commits get lost.
const LOSES_ONE_IN: u64 = 50;

/// Shared by all sessions with one store.
#[derive(Clone)]
pub(crate) struct Weather {
    sky: Arc<Mutex<Sky>>,
    pub(crate) database: Database,
    pub(crate) seats: Seats,
    log: Log,
    plant: Plant,
}

impl Weather {
    pub(crate) fn new(seed: u64, options: &Options, log: Log, plant: Plant) -> Self {
        let dice = Dice::new(seed, Stream::Weather);
        let sky = Sky {
            dice,
            options: options.store,
            full_until: 0,
            stalled_until: 0,
            still_until: 0,
            readers_full_until: 0,
            calm: if options.is_slow_for_good { options.store } else { StoreOptions::calm() },
        };
        let transactions = Dice::new(seed, Stream::Transactions);
        let database = Database::new(transactions, options.database, log.clone());
        let seats = Seats::new(log.clone());
        Self { sky: Arc::new(Mutex::new(sky)), database, seats, log, plant }
    }

    fn sky(&self) -> MutexGuard<'_, Sky> {
        self.sky.lock().expect("no code panics while it holds the weather")
    }

    pub(crate) fn fill_disk(&self, until: u64) {
        self.sky().full_until = until;
    }

    pub(crate) fn stall_disk(&self, until: u64) {
        self.sky().stalled_until = until;
    }

    /// Every call waits until then.
    pub(crate) fn stand_still(&self, until: u64) {
        self.sky().still_until = until;
    }

    /// Nobody else can read until then.
    pub(crate) fn fill_readers(&self, until: u64) {
        self.sky().readers_full_until = until;
    }

    pub(crate) fn disconnect(&self, until: u64) {
        self.database.disconnect(until);
    }

    pub(crate) fn calm_down(&self) {
        self.database.calm_down();
        self.seats.calm_down();
        let mut sky = self.sky();
        (sky.full_until, sky.stalled_until) = (0, 0);
        (sky.still_until, sky.readers_full_until) = (0, 0);
        sky.options = sky.calm;
    }

    /// Waits for as long as the sky says so.
    async fn wait_while(&self, until: impl Fn(&Sky) -> u64, fault: Fault) {
        let mut is_told = false;
        while self.log.now() < until(&self.sky()) {
            if !std::mem::replace(&mut is_told, true) {
                self.log.fault(fault);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// One call to the store: takes its time, and may be refused.
    async fn call(&self, what: &'static str) -> Result<(), Failure> {
        let (millis, refused) = {
            let mut sky = self.sky();
            let (low, high) = sky.options.call_ms;
            let refuse = sky.options.refuse;
            (sky.dice.between(low, high), sky.dice.chance(refuse))
        };
        if millis > 0 {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        self.wait_while(|sky| sky.still_until, Fault::StoreStandsStill).await;
        if refused {
            self.log.fault(Fault::StoreRefused);
            self.log.say(format_args!("store refuses {what}"));
            return Err(Failure::new(FailureKind::Unavailable, format!("no {what} now")));
        }
        Ok(())
    }

    fn check_room(&self) -> Result<(), Failure> {
        if self.log.now() < self.sky().full_until {
            self.log.fault(Fault::DiskFull);
            return Err(Failure::new(FailureKind::Full, "no room"));
        }
        Ok(())
    }

    fn loses_this_one(&self) -> bool {
        self.plant == Plant::LosesCommits && self.sky().dice.between(1, LOSES_ONE_IN) == 1
    }

    /// Whether a planted bug takes a commit in doubt for one that was made.
    fn believes(&self, database: &Database) -> bool {
        match self.plant {
            Plant::AnswersBeforeTheDisk => !database.is_there(),
            Plant::BelievesLostCommits => database.is_there(),
            _ => false,
        }
    }

    fn before_commit(&self) -> Result<(), Failure> {
        let mut sky = self.sky();
        let roll_back = sky.options.roll_back;
        if sky.dice.chance(roll_back) {
            self.log.fault(Fault::CommitRolledBack);
            return Err(Failure::new(FailureKind::Unavailable, "the commit was rolled back"));
        }
        Ok(())
    }
}

impl Disk for Weather {
    fn sync(&self) -> Synced {
        let now = self.log.now();
        let mut sky = self.sky();
        let (low, high) = sky.options.sync_ms;
        let mut millis = sky.dice.between(low, high);
        if sky.stalled_until > now {
            self.log.fault(Fault::DiskStalled);
            millis += sky.stalled_until - now;
        }
        let unknown = sky.options.unknown;
        let fails = sky.dice.chance(unknown) && !self.database.is_there();
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

/// The memory engine in its weather.
#[derive(Clone)]
pub(crate) struct SimStore {
    pub(crate) inner: MemoryStore,
    pub(crate) weather: Weather,
    /// How many writers a coordinator has.
    pub(crate) committers: usize,
    pub(crate) host: usize,
    /// How many of them were given out.
    pub(crate) given: Arc<AtomicUsize>,
}

pub(crate) struct SimWriter {
    inner: <MemoryStore as Store>::Writer,
    store: MemoryStore,
    weather: Weather,
    seat: Seat,
}

pub(crate) struct SimBatch<'w> {
    inner: <<MemoryStore as Store>::Writer as Writer>::Batch<'w>,
    store: MemoryStore,
    weather: Weather,
    session: Session,
    /// Whether others would care.
    has_saved: bool,
}

impl SimBatch<'_> {
    /// One call inside the transaction: takes its time, and may be refused or lose it.
    async fn call(&self, what: &'static str) -> Result<(), Failure> {
        self.weather.call(what).await?;
        self.weather.database.execute(self.session, what)
    }
}

impl Store for SimStore {
    type Writer = SimWriter;
    type Browse = MemoryBrowse;

    fn committers(&self) -> usize {
        self.committers
    }

    async fn writer(&self) -> Result<SimWriter, Failure> {
        let (store, weather) = (self.inner.clone(), self.weather.clone());
        let inner = self.inner.writer().await?;
        let committer = self.given.fetch_add(1, Ordering::SeqCst);
        let seat = Seat { host: self.host, committer };
        Ok(SimWriter { inner, store, weather, seat })
    }

    fn browse(&self) -> &MemoryBrowse {
        self.inner.browse()
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn opened(&self) -> Opened {
        let opened = self.inner.opened();
        match self.weather.plant {
            Plant::ForgetsHearing => Opened { last_commit_at: None, ..opened },
            _ => opened,
        }
    }

    fn rules_in_force(&self) -> u32 {
        self.inner.rules_in_force()
    }

    async fn stirred(&self) {
        if self.weather.plant == Plant::NeverStirs {
            return std::future::pending().await;
        }
        self.weather.database.stirred().await;
    }
}

impl Writer for SimWriter {
    type Batch<'w> = SimBatch<'w>;

    async fn begin(&mut self) -> Result<SimBatch<'_>, Failure> {
        self.weather.seats.sit(self.seat).await?;
        self.weather.call("begin").await?;
        let session = self.weather.database.connect()?;
        let (store, weather) = (self.store.clone(), self.weather.clone());
        let inner = self.inner.begin().await?;
        Ok(SimBatch { inner, store, weather, session, has_saved: false })
    }

    async fn next_wake(&mut self) -> Result<Option<Time>, Failure> {
        self.weather.wait_while(|sky| sky.readers_full_until, Fault::ReadersFull).await;
        let (wake, now) = (self.inner.next_wake().await?, self.store.now());
        Ok(match self.weather.plant {
            Plant::NamesNoWake => None,
            Plant::NamesLateWakes => wake.map(|wake| wake.plus(LATE)),
            Plant::ForgetsPastWakes => wake.filter(|wake| !wake.has_come(now)),
            _ => wake,
        })
    }

    fn shortest_lease(&self) -> Option<Span> {
        let keeps_to_itself = self.weather.plant == Plant::KeepsLeasesToItself;
        if keeps_to_itself && self.seat.committer == 0 && self.weather.seats.are_two(self.seat) {
            return None;
        }
        self.inner.shortest_lease()
    }

    async fn administer(&mut self, act: &Administration) -> Result<(), CommitFailure> {
        self.weather.check_room().map_err(CommitFailure::RolledBack)?;
        self.inner.administer(act).await
    }
}

impl Batch for SimBatch<'_> {
    fn avoid(&mut self, tasks: &BTreeSet<TaskId>) {
        self.inner.avoid(tasks);
    }

    async fn load(&mut self, keys: &[TaskKey]) -> Result<Vec<Loaded>, Failure> {
        self.call("load").await?;
        let mut loaded = self.inner.load(keys).await?;
        if loaded.contains(&Loaded::Held) {
            self.weather.log.mark(Mark::RowHeldByAnother);
        }
        if self.weather.plant == Plant::TakesHeldForGone {
            let gone = Loaded::Subject(Subject::Absent);
            loaded.iter_mut().filter(|it| **it == Loaded::Held).for_each(|it| *it = gone.clone());
        }
        Ok(loaded)
    }

    async fn load_patiently(&mut self, keys: &[TaskKey]) -> Result<Vec<Loaded>, Failure> {
        let mut loaded = self.load(keys).await?;
        let looks = self.weather.database.row_looks();
        for pause in looks {
            if !loaded.contains(&Loaded::Held) {
                break;
            }
            self.weather.log.mark(Mark::RowWaitedFor);
            tokio::time::sleep(pause).await;
            loaded = self.load(keys).await?;
        }
        Ok(loaded)
    }

    async fn closed(
        &mut self,
        leases: &[(TaskId, LeaseId)],
    ) -> Result<Vec<Option<Closed>>, Failure> {
        self.call("closed").await?;
        self.inner.closed(leases).await
    }

    async fn holders(&mut self, keys: &[Key]) -> Result<Vec<Option<Held>>, Failure> {
        self.call("holders").await?;
        let held = self.inner.holders(keys).await?;
        let is_forgetful = self.weather.plant == Plant::ForgetsKeys;
        Ok(if is_forgetful { vec![None; keys.len()] } else { held })
    }

    async fn polled(&mut self, polls: &[PollRef]) -> Result<Vec<Vec<Ready>>, Failure> {
        self.call("polled").await?;
        let found = self.inner.polled(polls).await?;
        if found.iter().any(|leases| !leases.is_empty()) {
            self.weather.log.mark(Mark::GrantRecalled);
        }
        Ok(found)
    }

    async fn now(&mut self) -> Result<Time, Failure> {
        self.inner.now().await
    }

    async fn save(
        &mut self,
        mut changes: Vec<Change>,
        refused: Vec<Refused>,
    ) -> Result<(), Failure> {
        self.weather.check_room()?;
        self.call("save").await?;
        self.has_saved = true;
        if self.weather.plant == Plant::TearsSaves {
            changes.iter_mut().for_each(|change| change.closed.clear());
        }
        self.inner.save(changes, refused).await
    }

    async fn stocked(&mut self, polled: &dyn Polled, now: Time) -> Result<Vec<Stock>, Failure> {
        self.call("stocked").await?;
        self.inner.stocked(polled, now).await
    }

    async fn ready(&mut self, wants: &[Want], now: Time) -> Result<Vec<Vec<Ready>>, Failure> {
        self.call("ready").await?;
        let mut found = match self.weather.plant {
            Plant::MixesTenants => self.inner.ready(&mixed(wants), now).await?,
            _ => self.inner.ready(wants, now).await?,
        };
        self.weather.database.pass_over(&mut found);
        Ok(found)
    }

    async fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Task>, Failure> {
        self.call("due").await?;
        if self.weather.plant == Plant::NeverSweeps {
            return Ok(Vec::new());
        }
        self.inner.due(now, limit).await
    }

    async fn running(&mut self, after: Option<TaskId>, limit: usize) -> Result<Vec<Task>, Failure> {
        self.call("running").await?;
        let mut looks = self.weather.database.row_looks();
        loop {
            match (self.inner.running(after, limit).await, looks.next()) {
                (Err(held), Some(pause)) if matches!(held.kind, FailureKind::Conflict(_)) => {
                    self.weather.log.mark(Mark::LeaseWaitedFor);
                    tokio::time::sleep(pause).await;
                    self.call("running").await?;
                }
                (found, _) => return found,
            }
        }
    }

    async fn ended(&mut self, after: Option<Place>, limit: usize) -> Result<Vec<Ended>, Failure> {
        self.call("ended").await?;
        if self.weather.plant == Plant::NeverForgets {
            return Ok(Vec::new());
        }
        self.inner.ended(after, limit).await
    }

    async fn forget(&mut self, places: &[Place]) -> Result<(), Failure> {
        self.call("forget").await?;
        self.inner.forget(places).await
    }

    fn rules(&self) -> Rules {
        match self.weather.plant {
            Plant::ForgetsRules if self.inner.number().is_multiple_of(2) => Rules::OLDEST,
            _ => self.inner.rules(),
        }
    }

    fn pulse(&mut self) {
        self.inner.pulse();
    }

    async fn commit(self) -> Result<(), CommitFailure> {
        let Self { inner, store, weather, session, has_saved } = self;
        weather.before_commit().map_err(CommitFailure::RolledBack)?;
        let database = weather.database.clone();
        database.execute(session, "commit").map_err(CommitFailure::RolledBack)?;
        if weather.loses_this_one() {
            return Ok(());
        }
        let batch = inner.number();
        let committed = match inner.commit().await {
            Err(CommitFailure::Unknown(_)) if weather.believes(&database) => Ok(()),
            Err(CommitFailure::Unknown(lost)) if database.is_there() => {
                database.look_up(&store, batch, lost).await
            }
            committed => committed,
        };
        if has_saved && committed.is_ok() {
            database.tell();
        }
        if let Err(CommitFailure::RolledBack(failure)) = &committed
            && matches!(failure.kind, FailureKind::Conflict(_))
        {
            weather.log.mark(Mark::CommitConflict);
        }
        committed
    }
}

/// The same wants, each in the scope of the one before it.
fn mixed(wants: &[Want]) -> Vec<Want> {
    let scopes = wants.iter().map(|want| want.scope.clone());
    let others = scopes.cycle().skip(1).take(wants.len());
    wants.iter().cloned().zip(others).map(|(want, scope)| Want { scope, ..want }).collect()
}
