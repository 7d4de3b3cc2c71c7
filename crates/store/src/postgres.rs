//! The engine for several coordinators: one PostgreSQL database, any number of writers.
//!
//! The database is the point of agreement. Row locks and the revision guard make it safe; polling makes it live.
//! Correctness never depends on this process's memory: it holds candidates to try and times at which to read again,
//! and every read corrects it. The engine uses no session state, so a pooler in transaction mode may sit between it
//! and the server.
//!
//! It decides nothing: states, times and queue positions come with the tasks that are saved.

mod administration;
mod batch;
mod clock;
mod connection;
mod copy;
mod errors;
mod failover;
mod flows;
mod opening;
mod peers;
mod reads;
mod ready;
mod rows;
mod scopes;
mod tables;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use verdict::{Span, SupportedRules, Time};

use self::administration::key_expiry;
use self::administration::pauses::PauseCache;
pub use self::batch::PostgresBatch;
pub use self::batch::writer::PostgresWriter;
use self::clock::StoreClock;
use self::connection::connections::Pool;
pub use self::connection::server_list::LinkSecurity;
use self::connection::session::{BackgroundTasks, Purpose, Transaction};
pub use self::connection::tls;
pub use self::copy::{copy_source, copy_target};
use self::errors::StepError;
pub use self::failover::durability::{Durability, Standbys};
use self::failover::failover_watch;
use self::failover::primary::{self, Primary};
pub use self::opening::connect;
use self::peers::hints::{self, Hints};
use self::peers::rules::{self, InForce};
pub use self::peers::{PEER_TIMEOUT, Peer, PendingRules, pending_rules};
use self::reads::Client;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use self::reads::HotStatements;
pub use self::reads::browse::PostgresBrowse;
use self::ready::candidates::Candidates;
use self::ready::read_throttle::ReadThrottle;
use self::ready::refill::{self, RefillSignals};
#[cfg(feature = "testing")]
pub use self::tables::table_columns;
use crate::clock::{Clock, ClockAhead};
use crate::failure::{CommitFailure, Failure, FailureKind};
use crate::runs::long_waits::LongWaits;
use crate::schema::Schema;
use crate::seam::{PeerHint, RemoteChange, RunsOn, Store, StoreStatus};

/// Maximum number of writers per open store: one for calls under a lease, one for new work.
const WRITERS_MAX: usize = 2;

/// Statements that every task lifecycle sends to the database. For tests, which check the rows that a statement
/// visits.
#[cfg(feature = "testing")]
#[doc(hidden)]
pub fn hot_statements() -> HotStatements {
    reads::hot_statements()
}

/// Statements that list tasks. For tests, like [`hot_statements`].
#[cfg(feature = "testing")]
#[doc(hidden)]
pub fn list_statement(filter: &crate::row::Filter) -> String {
    reads::listing::list_statement(filter)
}

/// How long a stopping coordinator waits for its writers to be deregistered: as long as the interval at which it
/// records its presence.
const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two polls for peers' changes when no hint arrives.
const PEER_POLL_INTERVAL: Duration = Duration::from_millis(400);

/// Minimum idle time before the next wake-up is queried. Longer than a busy caller takes between two calls, and short
/// compared with any lease.
const IDLE_DELAY: Duration = Duration::from_millis(20);

/// After a sweep has found everything due, how long alarms are not read again, unless this process sets one.
const SWEEP_REST: Span = Span::from_millis(250);

/// How far before the end of the last sweep the next one begins: as long as a peer may take to commit, or may keep a
/// task locked.
const SWEEP_OVERLAP: Span = Span::from_secs(10);

/// How often all alarms are read, to find those that a peer committed later than `SWEEP_OVERLAP` allows for.
const SWEEP_ALL: Duration = Duration::from_secs(5);

/// Options for opening a store.
#[derive(Clone)]
pub struct Options {
    /// The clock to decide by; `None` for the database's clock, which production always uses.
    pub clock: Option<Arc<dyn Clock>>,
    pub ahead: ClockAhead,
    /// The name of this coordinator, as peers see it.
    pub name: String,
    pub notify: Notify,
    pub missing: Missing,
    /// The versions of the rules that this process can decide by; tests of an upgrade pass fewer than all.
    pub rules: SupportedRules,
    pub schema: Schema,
}

/// What to do if the database has no store yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Create,
    /// For commands that only read.
    Refuse,
}

impl Options {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            clock: None,
            ahead: ClockAhead::Refuse,
            name: name.into(),
            notify: Notify::On,
            missing: Missing::Create,
            rules: SupportedRules::OURS,
            schema: Schema::Current,
        }
    }
}

/// Whether peers notify each other of their commits. Without notifications they poll, and count as alive only while
/// they commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    On,
    Off,
}

#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    browse: PostgresBrowse,
    opened: StoreStatus,
    durability: Durability,
    link: LinkSecurity,
    id: Arc<str>,
}

/// State that the store, its writers and its readers share.
pub(crate) struct Shared {
    runtime: tokio::runtime::Handle,
    /// For batches, and for the reads of a writer between batches.
    pool: Pool,
    /// For keys, limits and the list of coordinators. These reads never wait for a caller's read.
    upkeep: Pool,
    /// For reads on behalf of callers.
    readers: Pool,
    background_tasks: Arc<BackgroundTasks>,
    /// Writers that have stopped and are being deregistered.
    deregistrations: BackgroundTasks,
    clock: StoreClock,
    primary: Arc<Primary>,
    name: String,
    rules: InForce,
    pauses: PauseCache,
    memory: Mutex<Memory>,
    hints: Hints,
    long_waits: LongWaits,
    /// Wakes the tasks that refill candidate buffers beside the batches.
    refill_signals: Arc<RefillSignals>,
    /// Ids of the writers of this open store. Their presence is recorded every few seconds.
    committers: Mutex<Vec<[u8; 16]>>,
    writers: AtomicUsize,
    batches: AtomicU64,
}

/// What this process assumes without a read. It may be out of date.
#[derive(Default)]
struct Memory {
    candidates: Candidates,
    flows: flows::FlowMemory,
    /// No alarm fires before this time, as far as this process knows.
    no_alarm_until: Option<Time>,
    /// Every alarm up to this time was found and handled, as far as this process knows.
    swept_to: Option<Time>,
    /// Throttle for the read of all alarms.
    sweeping: Option<ReadThrottle>,
    /// No saved message is due before this time, as far as this process knows.
    no_message_until: Option<Time>,
    /// No object is due before this time, as far as this process knows.
    no_due_object_until: Option<Time>,
    /// Shortest lease of all running tasks, as of the last read and of this process's commits since.
    shortest_lease: Option<Span>,
    /// Number of batches of this process that left leases.
    grants: u64,
}

impl Memory {
    /// Records that a batch left leases, and the length of the shortest one.
    fn leased(&mut self, shortest: Option<Span>) {
        self.grants += u64::from(shortest.is_some());
        self.shortest_lease = [self.shortest_lease, shortest].into_iter().flatten().min();
    }

    /// Records the shortest lease that was read. `grants` is the counter's value before the read: if it has grown
    /// since, the result may lack later leases.
    fn note_shortest_lease(&mut self, shortest: Option<Span>, grants: u64) {
        if self.grants == grants {
            self.shortest_lease = None;
        }
        self.shortest_lease = [self.shortest_lease, shortest].into_iter().flatten().min();
    }

    fn has_no_due_object(&self, now: Time) -> bool {
        self.no_due_object_until.is_some_and(|until| now < until)
    }

    /// Records when the next object is due, if there is one.
    fn note_due_object(&mut self, due: Option<Time>) {
        if let (Some(until), Some(due)) = (self.no_due_object_until, due) {
            self.no_due_object_until = Some(until.min(due));
        }
    }

    fn has_no_message(&self, now: Time) -> bool {
        self.no_message_until.is_some_and(|until| now < until)
    }

    /// Records when the next saved message is due, if there is one.
    fn note_message(&mut self, due: Option<Time>) {
        if let (Some(until), Some(due)) = (self.no_message_until, due) {
            self.no_message_until = Some(until.min(due));
        }
    }

    fn is_swept(&self, now: Time) -> bool {
        self.no_alarm_until.is_some_and(|until| now < until)
    }

    /// The time from which alarms are read. Earlier ones were handled, and an old snapshot may keep any number of
    /// their dead index entries in the way. Every `SWEEP_ALL` all alarms are read, because a peer may have committed
    /// one late.
    fn sweep_from(&self) -> Option<Time> {
        let is_allowed = self.sweeping.is_none_or(|throttle| throttle.is_allowed(SWEEP_ALL));
        self.swept_to.filter(|_| !is_allowed)
    }

    /// Records until when a batch found no alarm, and the earliest alarm that the batch set.
    fn swept(&mut self, until: Option<Time>, alarm: Option<Time>) {
        self.no_alarm_until = until.or(self.no_alarm_until);
        if let Some(until) = until {
            self.swept_to = Some(earlier(earlier(until, SWEEP_REST), SWEEP_OVERLAP));
        }
        if let (Some(swept), Some(alarm)) = (self.swept_to, alarm) {
            self.swept_to = Some(swept.min(earlier(alarm, Span::from_millis(1))));
        }
        if let (Some(quiet), Some(alarm)) = (self.no_alarm_until, alarm) {
            self.no_alarm_until = Some(quiet.min(alarm));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.refill_signals.close();
    }
}

fn earlier(time: Time, span: Span) -> Time {
    Time::from_millis(time.millis().saturating_sub_unsigned(span.millis()))
}

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("nothing panics with the memory in hand")
    }

    fn committers(&self) -> MutexGuard<'_, Vec<[u8; 16]>> {
        self.committers.lock().expect("nothing panics with the list in hand")
    }

    fn number_batch(&self) -> u64 {
        self.batches.fetch_add(1, Ordering::SeqCst)
    }

    /// Runs `work` in its own transaction and commits it.
    async fn in_own_transaction<T, F, W>(
        &self,
        what: &'static str,
        work: W,
    ) -> Result<T, CommitFailure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
        W: FnOnce(Client) -> F + Send + 'static,
    {
        primary::settle_failover(self).await.map_err(CommitFailure::RolledBack)?;
        let transaction =
            self.transaction(&self.pool, self.background_tasks.clone(), Purpose::Write);
        let value = transaction.run(what, work).await.map_err(CommitFailure::RolledBack)?;
        match transaction.commit().await {
            Ok(Ok(())) => Ok(value),
            Ok(Err(error)) if error.is_definite() => {
                Err(CommitFailure::RolledBack(error.while_doing(what)))
            }
            Ok(Err(error)) => Err(CommitFailure::Unknown(error.while_doing(what))),
            Err(failure) => Err(CommitFailure::Unknown(failure)),
        }
    }

    fn transaction(
        &self,
        pool: &Pool,
        background_tasks: Arc<BackgroundTasks>,
        purpose: Purpose,
    ) -> Transaction {
        Transaction::new(
            &self.runtime,
            pool.clone(),
            background_tasks,
            self.primary.clone(),
            purpose,
        )
    }

    /// Reads on behalf of a caller, in one snapshot of the scopes that `setting` names.
    async fn read<T, F, W>(
        &self,
        what: &'static str,
        setting: String,
        work: W,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
        W: FnOnce(Client) -> F + Send + 'static,
    {
        self.read_through(&self.readers, what, setting, work).await
    }

    /// Reads for a writer between its batches, in all scopes. The next batch waits for the answer, and with it every
    /// renewal and report, so this read never queues behind a caller's read.
    async fn read_for_writer<T, F, W>(&self, what: &'static str, work: W) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
        W: FnOnce(Client) -> F + Send + 'static,
    {
        self.read_through(&self.pool, what, scopes::ALL.to_owned(), work).await
    }

    /// Reads what a coordinator needs in order to serve: keys, limits, and the other coordinators.
    async fn read_upkeep<T, F, W>(&self, what: &'static str, work: W) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
        W: FnOnce(Client) -> F + Send + 'static,
    {
        self.read_through(&self.upkeep, what, scopes::ALL.to_owned(), work).await
    }

    async fn read_through<T, F, W>(
        &self,
        pool: &Pool,
        what: &'static str,
        setting: String,
        work: W,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StepError>> + Send,
        W: FnOnce(Client) -> F + Send + 'static,
    {
        let transaction = self.transaction(pool, Arc::default(), Purpose::Read);
        let scoped = move |client: Client| async move {
            let (set, value) = futures_util::join!(
                reads::set_scopes(&client, Some(setting)),
                work(client.clone())
            );
            set?;
            value
        };
        transaction.run(what, scoped).await
    }

    /// Drops all idle connections, so the next use of each pool connects again.
    fn drop_idle_connections(&self) {
        for pool in [&self.pool, &self.upkeep, &self.readers] {
            pool.retain(|_, _| false);
        }
    }
}

impl PostgresStore {
    /// Connects, migrates the schema to this version and checks that scopes are isolated.
    pub async fn open(url: &str, options: Options) -> Result<Self, Failure> {
        let parts = opening::open(url, &options).await?;
        let opened = StoreStatus {
            epoch: parts.primary.epoch(),
            rules: parts.header.rules,
            last_commit_at: parts.header.last_commit_at,
            writers: WRITERS_MAX,
            // Two keep the database busy. A coordinator that finds peers at work needs no second one for that, and
            // smaller batches cost the database more.
            committers: if parts.is_alone { WRITERS_MAX } else { 1 },
            promises: parts.durability.promises().into(),
        };
        let clock = StoreClock::open(&options, &parts.header)?;
        let hints = Hints::new(parts.header.instance, parts.is_alone);
        let shared = Arc::new(Shared {
            runtime: tokio::runtime::Handle::current(),
            pool: parts.pool,
            upkeep: parts.upkeep,
            readers: parts.readers,
            background_tasks: Arc::new(BackgroundTasks::default()),
            deregistrations: BackgroundTasks::default(),
            clock,
            primary: Arc::new(parts.primary),
            name: options.name,
            rules: InForce::new(options.rules, parts.header.rules),
            pauses: PauseCache::default(),
            memory: Mutex::new(Memory::default()),
            hints,
            long_waits: LongWaits::default(),
            refill_signals: Arc::default(),
            committers: Mutex::new(Vec::new()),
            writers: AtomicUsize::new(0),
            batches: AtomicU64::new(1),
        });
        refill::start(&shared);
        if options.notify == Notify::On {
            hints::start(&shared, parts.servers.clone());
        }
        // Commands that only read end before a failover matters.
        if options.missing == Missing::Create {
            failover_watch::start(&shared, &parts.servers);
        }
        let browse = PostgresBrowse::new(shared.clone());
        let (durability, link) = (parts.durability, parts.servers.link);
        let id: Arc<str> = parts.header.store_id.into();
        Ok(Self { shared, browse, opened, durability, link, id })
    }

    /// The id that the store got when it was created. Copies of the store have the same id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the database guarantees for a commit that it acknowledged.
    pub fn durability(&self) -> &Durability {
        &self.durability
    }

    /// Whether traffic to the database could be intercepted.
    pub fn link(&self) -> &LinkSecurity {
        &self.link
    }

    /// Whether batches reach the server directly and use prepared statements. Through a pooler they send text, which
    /// costs the database more.
    pub async fn is_direct(&self) -> Result<bool, Failure> {
        let connection = self.shared.pool.get().await.map_err(errors::no_connection)?;
        Ok(connection.is_direct())
    }

    /// How many idle connections of the pools could have prepared statements and have none. There must be none: such a
    /// connection has every statement planned anew.
    pub fn unprepared_connections(&self) -> usize {
        let mut unprepared = 0;
        for pool in [&self.shared.pool, &self.shared.readers] {
            pool.retain(|connection, _| {
                unprepared += usize::from(connection.lacks_statements());
                true
            });
        }
        unprepared
    }

    /// Statements that one connection has sent as text more than once, although it has prepared statements.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn statements_planned_again(&self) -> std::collections::BTreeSet<String> {
        let pools = [&self.shared.pool, &self.shared.readers];
        pools.into_iter().flat_map(|pool| pool.manager().planned_again()).collect()
    }

    /// Opens every connection of the pools for batches and reads, and leaves them there.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub async fn fill_pools(&self) -> Result<usize, Failure> {
        let mut held = Vec::new();
        for pool in [&self.shared.pool, &self.shared.readers] {
            for _ in 0..pool.status().max_size {
                held.push(pool.get().await.map_err(errors::no_connection)?);
            }
        }
        Ok(held.len())
    }

    /// Removes expired idempotency keys. Coordinators also do this on their own schedule, a page at a time.
    pub async fn forget_old_keys(&self) -> Result<(), Failure> {
        let client = self.shared.pool.get().await.map_err(errors::no_connection)?;
        let walked = key_expiry::KeyExpiry::default().run(&client, self.now()).await;
        walked.map_err(|error| StepError::from(error).while_doing("forgetting old keys"))
    }

    /// Activates a newer version of the rules if every live coordinator supports it, and returns the version in
    /// force. Coordinators also do this every few seconds.
    pub async fn agree_on_rules(&self) -> Result<u32, Failure> {
        let client = self.shared.pool.get().await.map_err(errors::no_connection)?;
        let agreed = rules::agree(&client, &self.shared).await;
        agreed.map_err(|error| error.while_doing("agreeing on a version of the rules"))
    }

    /// Coordinators that work on this store, and those that recently did.
    pub async fn peers(&self) -> Result<Vec<Peer>, Failure> {
        peers::list(&self.shared).await
    }
}

impl Store for PostgresStore {
    type Writer = PostgresWriter;
    type Browse = PostgresBrowse;

    const RUNS_ON: RunsOn = RunsOn::Runtime;
    const IDLE_DELAY: Duration = IDLE_DELAY;
    const PEER_POLL_INTERVAL: Duration = PEER_POLL_INTERVAL;

    async fn writer(&self) -> Result<PostgresWriter, Failure> {
        let taken = self.shared.writers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |taken| {
            (taken < WRITERS_MAX).then_some(taken + 1)
        });
        if taken.is_err() {
            return Err(Failure::new(FailureKind::Closed, "every writer of the store is taken"));
        }
        PostgresWriter::open(self.shared.clone()).await
    }

    async fn wait_for_dropped_writers(&self) {
        // A writer that is not deregistered by then times out later.
        let _ = tokio::time::timeout(DEREGISTER_TIMEOUT, self.shared.deregistrations.wait()).await;
    }

    fn browse(&self) -> &PostgresBrowse {
        &self.browse
    }

    fn now(&self) -> Time {
        self.shared.clock.now()
    }

    fn status(&self) -> StoreStatus {
        let (epoch, rules) = (self.shared.primary.epoch(), self.shared.rules.number());
        StoreStatus { epoch, rules, ..self.opened.clone() }
    }

    async fn peer_hint(&self, of: PeerHint) -> Vec<RemoteChange> {
        match of {
            PeerHint::Tasks => self.shared.hints.ended().await,
            PeerHint::Changed => {
                tokio::select! {
                    () = self.shared.hints.changed() => {}
                    () = tokio::time::sleep(PEER_POLL_INTERVAL) => {}
                }
                Vec::new()
            }
        }
    }
}
