//! How a database with several writers treats their transactions, as `store::postgres` sees it.
//!
//! The memory engine already runs batches as transactions: it skips rows that another batch has locked, it reports a
//! conflict when a revision or key has changed meanwhile, and a commit is in flight until it is synced. This module
//! adds what lies between the engine and a coordinator: transactions rolled back because of another, lost
//! connections, skipped rows, hints, and COMMITs whose answer is lost and looked up by their marker.
//!
//! Without `DatabaseOptions` there is no database, and this module does nothing.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use store::{CommitFailure, Failure, FailureKind, TaskWithSpec};
use storetest::MemoryStore;
use storetest::memory::CommitOutcome;
use tokio::sync::Notify;
use verdict::TaskId;

use crate::coverage::CoverageGoal;
use crate::fault::Fault;
use crate::log::Log;
use crate::options::DatabaseOptions;
use crate::rng::SimRng;

/// Interval at which a coordinator polls for changes by its peers; the same as in `store::postgres`.
const PEER_POLL_INTERVAL: Duration = Duration::from_millis(400);

/// Delay between two lookups of a lost COMMIT, and the limit for all of them; the same as in `store::postgres`.
const LOOKUP_RETRY_DELAY: Duration = Duration::from_millis(250);
const LOOKUP_TIMEOUT_MS: u64 = 10_000;

/// How often a transaction retries a locked row, and the delay between two tries.
const LOCK_WAIT_TRIES: u32 = 20;
const LOCK_WAIT_DELAY: Duration = Duration::from_millis(100);

/// A placeholder where any task will do.
const SOME_TASK: TaskId = TaskId::from_u128(0);

/// The connections of a transaction. All connections of one session end together.
pub(crate) type Session = u64;

struct DatabaseState {
    rng: SimRng,
    options: Option<DatabaseOptions>,
    session: Session,
    /// Until when new connections are refused, in true time.
    down_until: u64,
}

/// Shared by all coordinators.
#[derive(Clone)]
pub(crate) struct Database {
    state: Arc<Mutex<DatabaseState>>,
    committed: Arc<Notify>,
    log: Log,
}

impl Database {
    pub(crate) fn new(rng: SimRng, options: Option<DatabaseOptions>, log: Log) -> Self {
        let state = DatabaseState { rng, options, session: 0, down_until: 0 };
        Self { state: Arc::new(Mutex::new(state)), committed: Arc::default(), log }
    }

    fn state(&self) -> MutexGuard<'_, DatabaseState> {
        self.state.lock().expect("no code panics while it holds the database")
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.state().options.is_some()
    }

    pub(crate) fn session(&self) -> Session {
        self.state().session
    }

    /// Drops every connection and refuses new ones until `until`.
    pub(crate) fn disconnect(&self, until: u64) {
        let mut state = self.state();
        state.session += 1;
        state.down_until = until;
    }

    pub(crate) fn stop_faults(&self) {
        let mut state = self.state();
        state.down_until = 0;
        state.options = state.options.map(DatabaseOptions::healthy);
    }

    /// Draws whether something happens, with the chance from the options.
    fn draws(&self, chance: impl FnOnce(&DatabaseOptions) -> u32) -> bool {
        let mut state = self.state();
        let Some(per_mille) = state.options.as_ref().map(chance) else { return false };
        per_mille > 0 && state.rng.chance(per_mille)
    }

    /// Opens a connection, unless the database is down.
    pub(crate) fn connect(&self) -> Result<Session, Failure> {
        let state = self.state();
        if self.log.now() < state.down_until {
            return Err(Failure::new(FailureKind::Unavailable, "no connection to the database"));
        }
        Ok(state.session)
    }

    /// Runs one statement of a transaction that began in this session.
    pub(crate) fn execute(&self, session: Session, what: &'static str) -> Result<(), Failure> {
        if self.session() != session {
            let lost = format!("the connection was lost at {what}");
            return Err(Failure::new(FailureKind::Unavailable, lost));
        }
        if self.draws(|options| options.lose_race) {
            self.log.fault(Fault::RaceLost);
            self.log.say(format_args!("{what} loses against another transaction"));
            let failure = Failure::new(FailureKind::Conflict(SOME_TASK), "could not serialise");
            return Err(failure);
        }
        Ok(())
    }

    pub(crate) fn loses_commit(&self) -> bool {
        self.draws(|options| options.lose_commit)
    }

    /// Looks up the outcome of a COMMIT whose answer was lost, by its batch's marker: the marker exists, or it never
    /// will. The lookup waits while the transaction itself may still be in flight.
    pub(crate) async fn look_up_commit(
        &self,
        store: &MemoryStore,
        batch: u64,
        lost: Failure,
    ) -> Result<(), CommitFailure> {
        self.log.fault(Fault::CommitAnswerLost);
        self.log.say(format_args!("the answer to a COMMIT is lost"));
        if self.draws(|options| options.cannot_ask) {
            self.log.fault(Fault::CommitNotAsked);
            let millis = self.state().rng.between(0, LOOKUP_TIMEOUT_MS);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            let what =
                "the connection was lost during a commit, and the database cannot be reached";
            let failure = Failure::new(FailureKind::Unavailable, what).because(lost);
            return Err(CommitFailure::Unknown(failure));
        }
        loop {
            let fate = self.connect().ok().and_then(|_| store.commit_outcome(batch));
            match fate {
                Some(CommitOutcome::Kept) => {
                    self.log.reach_goal(CoverageGoal::LostCommitFound);
                    return Ok(());
                }
                Some(CommitOutcome::Lost) => {
                    self.log.reach_goal(CoverageGoal::LostCommitVoid);
                    let what = "the connection was lost and the batch was not committed";
                    let kind = FailureKind::Conflict(SOME_TASK);
                    let failure = Failure::new(kind, what).because(lost);
                    return Err(CommitFailure::RolledBack(failure));
                }
                None => tokio::time::sleep(LOOKUP_RETRY_DELAY).await,
            }
        }
    }

    /// Drops some ready rows from the result, because lists of candidates are short and can be out of date.
    pub(crate) fn skip_candidates(&self, found: &mut [Vec<TaskWithSpec>]) {
        let most = self.state().options.map_or(usize::MAX, |options| options.candidates_max);
        for ready in found {
            for _ in most..ready.len() {
                self.log.fault(Fault::RowPassedOver);
            }
            ready.truncate(most);
            ready.retain(|_| {
                let is_passed = self.draws(|options| options.pass_over);
                if is_passed {
                    self.log.fault(Fault::RowPassedOver);
                }
                !is_passed
            });
        }
    }

    /// The delays between tries to get a row that another transaction has locked.
    pub(crate) fn lock_wait_delays(&self) -> impl Iterator<Item = Duration> + use<> {
        let looks = if self.is_enabled() { LOCK_WAIT_TRIES } else { 0 };
        std::iter::repeat_n(LOCK_WAIT_DELAY, looks as usize)
    }

    /// Notifies all coordinators of a commit.
    pub(crate) fn notify_commit(&self) {
        if self.state().options.is_some_and(|options| options.hints) {
            self.committed.notify_waiters();
        }
    }

    /// Resolves when a poll may find changes by a peer.
    pub(crate) async fn changed_elsewhere(&self) {
        if !self.is_enabled() {
            return std::future::pending().await;
        }
        tokio::select! {
            () = self.committed.notified() => {}
            () = tokio::time::sleep(PEER_POLL_INTERVAL) => {}
        }
    }
}
