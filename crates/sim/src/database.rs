//! What a database with several writers does to their transactions, as `store::postgres` meets it.
//!
//! The memory engine already runs batches as transactions: rows that another has locked are missed, a revision
//! or a key that changed meanwhile is a conflict, and a commit is in flight until it is synced. Here is what lies
//! between it and a coordinator: transactions that are rolled back because of another, connections that are
//! lost, rows that are passed over, hints, and COMMITs whose answer is lost and looked up by their marker.
//!
//! Without options there is no database, and nothing here does anything.

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

/// How long a coordinator rests between two looks at what others did; as `store::postgres` does.
const PEER_POLL_INTERVAL: Duration = Duration::from_millis(400);

/// Between two tries to look up a lost COMMIT, and how long it is tried at most; as `store::postgres` does.
const LOOKUP_RETRY_DELAY: Duration = Duration::from_millis(250);
const LOOKUP_TIMEOUT_MS: u64 = 10_000;

/// How long a transaction waits for a row, and how often it looks.
const LOCK_WAIT_TRIES: u32 = 20;
const LOCK_WAIT_DELAY: Duration = Duration::from_millis(100);

/// Stands for "whichever task it was".
const SOME_TASK: TaskId = TaskId::from_u128(0);

/// Which connections a transaction is on: all end together.
pub(crate) type Session = u64;

struct DatabaseState {
    rng: SimRng,
    options: Option<DatabaseOptions>,
    session: Session,
    /// Until when nobody can connect, in true time.
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

    /// Every connection is gone, and there are no new ones until then.
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

    /// Draws whether something happens whose chance the options give.
    fn draws(&self, chance: impl FnOnce(&DatabaseOptions) -> u32) -> bool {
        let mut state = self.state();
        let Some(per_mille) = state.options.as_ref().map(chance) else { return false };
        per_mille > 0 && state.rng.chance(per_mille)
    }

    /// Whether a new connection can be had.
    pub(crate) fn connect(&self) -> Result<Session, Failure> {
        let state = self.state();
        if self.log.now() < state.down_until {
            return Err(Failure::new(FailureKind::Unavailable, "no connection to the database"));
        }
        Ok(state.session)
    }

    /// One statement of a transaction that began on these connections.
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

    /// Finds out what became of a COMMIT whose answer was lost, by the marker of its batch: it is there, or it
    /// never will be. While the transaction itself may still be under way, asking waits for it.
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

    /// Lists of candidates are short and out of date: some rows that are ready are not found this time.
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

    /// How long to wait for a row that another transaction has: pauses between looks.
    pub(crate) fn lock_wait_delays(&self) -> impl Iterator<Item = Duration> + use<> {
        let looks = if self.is_enabled() { LOCK_WAIT_TRIES } else { 0 };
        std::iter::repeat_n(LOCK_WAIT_DELAY, looks as usize)
    }

    /// Tells everybody that something was committed.
    pub(crate) fn notify_commit(&self) {
        if self.state().options.is_some_and(|options| options.hints) {
            self.committed.notify_waiters();
        }
    }

    /// Resolves when another look may find what others did.
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
