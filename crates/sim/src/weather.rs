//! What the store does to a coordinator: how long each call takes, which ones it refuses, and what
//! becomes of commits. A wrapper around the memory engine, and the disk under it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use store::memory::{Disk, MemoryBrowse, MemoryStore, Synced};
use store::{
    Administration, Batch, Change, CommitFailure, Ended, Failure, FailureKind, Held, Key, Loaded,
    Opened, Place, PollRef, Ready, Refused, Store, TaskKey, Want, Writer,
};
use verdict::{Closed, LeaseId, Span, Task, TaskId, Time};

use crate::dice::Dice;
use crate::fault::Fault;
use crate::log::Log;
use crate::mark::Mark;
use crate::options::StoreOptions;

struct Sky {
    dice: Dice,
    options: StoreOptions,
    /// Until when, in true time.
    full_until: u64,
    stalled_until: u64,
}

/// A bug that is there on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    Nothing,
    /// Some commits are acknowledged and not made.
    LosesCommits,
    /// A start does not know since when nobody listened.
    ForgetsHearing,
}

/// One commit in so many is lost where commits get lost.
const LOSES_ONE_IN: u64 = 50;

/// Shared by all sessions with one store.
#[derive(Clone)]
pub(crate) struct Weather {
    sky: Arc<Mutex<Sky>>,
    log: Log,
    plant: Plant,
}

impl Weather {
    pub(crate) fn new(dice: Dice, options: StoreOptions, log: Log, plant: Plant) -> Self {
        let sky = Sky { dice, options, full_until: 0, stalled_until: 0 };
        Self { sky: Arc::new(Mutex::new(sky)), log, plant }
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

    pub(crate) fn calm_down(&self) {
        let mut sky = self.sky();
        (sky.full_until, sky.stalled_until) = (0, 0);
        sky.options = StoreOptions::calm();
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
        let fails = sky.dice.chance(unknown);
        Box::pin(async move {
            if millis > 0 {
                tokio::time::sleep(Duration::from_millis(millis)).await;
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
}

pub(crate) struct SimWriter {
    inner: <MemoryStore as Store>::Writer,
    weather: Weather,
}

pub(crate) struct SimBatch<'w> {
    inner: <<MemoryStore as Store>::Writer as Writer>::Batch<'w>,
    weather: Weather,
}

impl Store for SimStore {
    type Writer = SimWriter;
    type Browse = MemoryBrowse;

    async fn writer(&self) -> Result<SimWriter, Failure> {
        Ok(SimWriter { inner: self.inner.writer().await?, weather: self.weather.clone() })
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
            Plant::Nothing | Plant::LosesCommits => opened,
        }
    }
}

impl Writer for SimWriter {
    type Batch<'w> = SimBatch<'w>;

    async fn begin(&mut self) -> Result<SimBatch<'_>, Failure> {
        self.weather.call("begin").await?;
        Ok(SimBatch { inner: self.inner.begin().await?, weather: self.weather.clone() })
    }

    async fn next_wake(&mut self) -> Result<Option<Time>, Failure> {
        self.inner.next_wake().await
    }

    fn shortest_lease(&self) -> Option<Span> {
        self.inner.shortest_lease()
    }

    async fn administer(&mut self, act: &Administration) -> Result<(), CommitFailure> {
        self.weather.check_room().map_err(CommitFailure::RolledBack)?;
        self.inner.administer(act).await
    }
}

impl Batch for SimBatch<'_> {
    async fn load(&mut self, keys: &[TaskKey]) -> Result<Vec<Loaded>, Failure> {
        self.weather.call("load").await?;
        let loaded = self.inner.load(keys).await?;
        if loaded.contains(&Loaded::Held) {
            self.weather.log.mark(Mark::RowHeldByAnother);
        }
        Ok(loaded)
    }

    async fn closed(
        &mut self,
        leases: &[(TaskId, LeaseId)],
    ) -> Result<Vec<Option<Closed>>, Failure> {
        self.weather.call("closed").await?;
        self.inner.closed(leases).await
    }

    async fn holders(&mut self, keys: &[Key]) -> Result<Vec<Option<Held>>, Failure> {
        self.weather.call("holders").await?;
        self.inner.holders(keys).await
    }

    async fn polled(&mut self, polls: &[PollRef]) -> Result<Vec<Vec<Ready>>, Failure> {
        self.weather.call("polled").await?;
        let found = self.inner.polled(polls).await?;
        if found.iter().any(|leases| !leases.is_empty()) {
            self.weather.log.mark(Mark::GrantRecalled);
        }
        Ok(found)
    }

    async fn now(&mut self) -> Result<Time, Failure> {
        self.inner.now().await
    }

    async fn save(&mut self, changes: Vec<Change>, refused: Vec<Refused>) -> Result<(), Failure> {
        self.weather.check_room()?;
        self.weather.call("save").await?;
        self.inner.save(changes, refused).await
    }

    async fn ready(&mut self, wants: &[Want], now: Time) -> Result<Vec<Vec<Ready>>, Failure> {
        self.weather.call("ready").await?;
        self.inner.ready(wants, now).await
    }

    async fn due(&mut self, now: Time, limit: usize) -> Result<Vec<Task>, Failure> {
        self.weather.call("due").await?;
        self.inner.due(now, limit).await
    }

    async fn running(&mut self, after: Option<TaskId>, limit: usize) -> Result<Vec<Task>, Failure> {
        self.weather.call("running").await?;
        self.inner.running(after, limit).await
    }

    async fn ended(&mut self, after: Option<Place>, limit: usize) -> Result<Vec<Ended>, Failure> {
        self.weather.call("ended").await?;
        self.inner.ended(after, limit).await
    }

    async fn forget(&mut self, places: &[Place]) -> Result<(), Failure> {
        self.weather.call("forget").await?;
        self.inner.forget(places).await
    }

    fn pulse(&mut self) {
        self.inner.pulse();
    }

    async fn commit(self) -> Result<(), CommitFailure> {
        let Self { inner, weather } = self;
        weather.before_commit().map_err(CommitFailure::RolledBack)?;
        if weather.loses_this_one() {
            return Ok(());
        }
        let committed = inner.commit().await;
        if let Err(CommitFailure::RolledBack(failure)) = &committed
            && matches!(failure.kind, FailureKind::Conflict(_))
        {
            weather.log.mark(Mark::CommitConflict);
        }
        committed
    }
}
