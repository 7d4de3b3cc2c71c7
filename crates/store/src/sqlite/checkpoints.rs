//! Checkpoints beside the writer: moves what was committed from the log into the database file, in small
//! steps, on a thread and a connection of their own.
//!
//! A checkpoint inside a commit makes all callers of that commit wait while the whole log is copied and
//! synced. Here a step copies what was added since the last one, and commits go on meanwhile. SQLite
//! starts the log again from its beginning when everything in it has been copied. On a busy store that
//! moment never comes by itself, because each step leaves behind what was committed during it. So once the
//! log is long and only little of it is left, the writer copies the rest itself, between two batches.
//!
//! Nothing here decides whether a commit is durable: commits are synced in the log, and the log is used
//! again only after the database file was synced. A step that fails or never runs costs disk space, not data.
//!
//! The log is bounded without this thread too: at [`LOG_PAGES_MAX`] SQLite checkpoints inside the commit.
//! Only a reader that stays in an old snapshot can make it longer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode, InterruptHandle, Row};

use super::{Shared, errors, opening};
use crate::failure::{Failure, FailureKind};

/// Pages that are committed and not yet copied, at which a step begins: some milliseconds of copying. Fewer
/// would copy pages that change often more often.
pub(super) const STEP_PAGES: u32 = 1_000;

/// The length at which the log should start again. A shorter one would make the writer complete checkpoints
/// more often, a longer one takes longer to recover after a crash.
const LOG_PAGES: u32 = 16_000;

/// What the writer copies itself to complete a checkpoint: little enough to cost about one more sync.
const REST_PAGES_MAX: u32 = 500;

/// What a step may leave so that another one follows at once: a few small commits. The log of a store with
/// little to do then starts again after each step.
const FOLLOW_UP_PAGES_MAX: u32 = 64;

/// How many steps may follow at once: each costs a sync, and on a busy store none of them will be the last.
const FOLLOW_UPS_MAX: u32 = 3;

/// The length at which SQLite checkpoints inside the commit, because the steps do not keep up or fail.
const LOG_PAGES_MAX: u32 = 4 * LOG_PAGES;

/// After a longer log has started again, its file is cut to this size.
const LOG_BYTES_KEPT: i64 = LOG_PAGES_MAX as i64 * 4_096;

/// The writer's side. Dropping it ends the thread and closes its connection.
pub(super) struct Checkpoints {
    log: Arc<LogProgress>,
    interrupt: InterruptHandle,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct LogProgress {
    state: Mutex<State>,
    /// The thread has something to do.
    wanted: Condvar,
}

/// What is known of the log, in pages from its beginning.
#[derive(Debug)]
struct State {
    /// After the last commit.
    length: u32,
    copied: u32,
    /// The length at which the next step begins.
    next_step: u32,
    /// Steps that followed at once on the last one.
    follow_ups: u32,
    is_running: bool,
    is_ended: bool,
}

impl Default for State {
    fn default() -> Self {
        let (length, copied, next_step, follow_ups) = (0, 0, STEP_PAGES, 0);
        Self { length, copied, next_step, follow_ups, is_running: false, is_ended: false }
    }
}

/// The log as a checkpoint found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    length: u32,
    copied: u32,
}

impl Checkpoints {
    /// Starts the thread. From now on the writer's commits no longer checkpoint by themselves.
    pub(super) fn begin(shared: &Shared, writer: &mut Connection) -> Result<Self, Failure> {
        let connection = opening::connect(&shared.path, &shared.options)?;
        let log = Arc::<LogProgress>::default();
        follow(writer, log.clone()).map_err(errors::while_doing("following the log"))?;
        let (interrupt, there) = (connection.get_interrupt_handle(), log.clone());
        let thread = thread::Builder::new()
            .name("tenure-checkpoint".into())
            .spawn(move || there.run(&connection))
            .map_err(|error| {
                let what = "the thread for checkpoints cannot be started";
                Failure::new(FailureKind::Unavailable, what).because(error)
            })?;
        Ok(Self { log, interrupt, thread: Some(thread) })
    }

    /// How many pages the log had after the last commit.
    pub(super) fn log_pages(&self) -> u32 {
        self.log.state().length
    }

    /// Between two batches: completes the checkpoint of a long log that has little left to copy.
    pub(super) fn complete(&self, writer: &Connection) {
        if self.log.state().is_nearly_copied() {
            let found = step(writer);
            self.log.state().note(found);
        }
    }

    /// Ends the thread, within a step if need be, and closes its connection.
    pub(super) fn end(&mut self) {
        self.log.state().is_ended = true;
        self.log.wanted.notify_one();
        self.interrupt.interrupt();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has closed its connection, too.
            let _ = thread.join();
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.end();
    }
}

/// Learns the log's length from each commit.
fn follow(writer: &mut Connection, log: Arc<LogProgress>) -> rusqlite::Result<()> {
    writer.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
    writer.wal_hook(Some(move |wal: &mut Wal, pages| {
        let length = u32::try_from(pages).unwrap_or(0);
        log.committed(length);
        if length >= LOG_PAGES_MAX {
            // The commit is durable whether or not this succeeds.
            let _ = wal.checkpoint();
        }
        Ok(())
    }))
}

/// Copies what no reader prevents, without making anyone wait. `None` if another checkpoint runs, or if it failed.
fn step(connection: &Connection) -> Option<Found> {
    let found = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], read_found);
    match found {
        Ok(found) => found,
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => None,
        Err(error) => {
            tracing::warn!(%error, "a checkpoint failed; the log grows until one succeeds");
            None
        }
    }
}

/// A checkpoint that did not run because another one does has no numbers: both are -1.
fn read_found(row: &Row<'_>) -> rusqlite::Result<Option<Found>> {
    if row.get::<_, bool>(0)? {
        return Ok(None);
    }
    Ok(Some(Found { length: row.get(1)?, copied: row.get(2)? }))
}

impl LogProgress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it counts pages")
    }

    fn committed(&self, length: u32) {
        let mut state = self.state();
        state.committed(length);
        if state.wants_step() {
            self.wanted.notify_one();
        }
    }

    /// The thread: one step after the other, as they are wanted.
    fn run(&self, connection: &Connection) {
        while self.await_step() {
            let found = step(connection);
            let mut state = self.state();
            state.is_running = false;
            state.note(found);
        }
    }

    /// Whether there is a step to make; otherwise the writer is gone.
    fn await_step(&self) -> bool {
        let idle = |state: &mut State| !state.is_ended && !state.wants_step();
        let waited = self.wanted.wait_while(self.state(), idle);
        let mut state = waited.expect("no code panics while it counts pages");
        state.is_running = !state.is_ended;
        state.is_running
    }
}

impl State {
    fn committed(&mut self, length: u32) {
        // It starts again with the first commit after all of it was copied, unless a reader prevents that; then the
        // next step finds out.
        if length < self.length || self.rest() == 0 {
            (self.copied, self.next_step) = (0, STEP_PAGES);
        }
        self.length = length;
    }

    fn wants_step(&self) -> bool {
        !self.is_running && self.length >= self.next_step
    }

    /// Whether the writer should copy the rest, so that the log starts again.
    fn is_nearly_copied(&self) -> bool {
        let is_little = (1..=REST_PAGES_MAX).contains(&self.rest());
        !self.is_running && self.length >= LOG_PAGES && is_little
    }

    /// Notes what a checkpoint found, `None` if it failed.
    fn note(&mut self, found: Option<Found>) {
        // What it found may have been passed by a log that has started again since.
        let found = found.filter(|found| found.length <= self.length);
        match found {
            Some(Found { copied, .. }) if copied > self.copied => {
                self.copied = copied;
                self.next_step =
                    if self.follows_up() { self.length } else { copied + self.step_pages() };
            }
            // A reader is in an old snapshot, or the disk is full: the next commits will not change that.
            _ => self.next_step = self.length + STEP_PAGES,
        }
    }

    fn rest(&self) -> u32 {
        self.length.saturating_sub(self.copied)
    }

    /// Whether so little is left that one more step may catch the writer idle.
    fn follows_up(&mut self) -> bool {
        let follows =
            self.follow_ups < FOLLOW_UPS_MAX && (1..=FOLLOW_UP_PAGES_MAX).contains(&self.rest());
        self.follow_ups = if follows { self.follow_ups + 1 } else { 0 };
        follows
    }

    /// A long log is copied in smaller steps, so that what they leave is soon little enough for the writer.
    fn step_pages(&self) -> u32 {
        if self.length < LOG_PAGES { STEP_PAGES } else { REST_PAGES_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(length: u32, copied: u32) -> Option<Found> {
        Some(Found { length, copied })
    }

    fn at(length: u32) -> State {
        let mut state = State::default();
        state.committed(length);
        state
    }

    #[test]
    fn a_busy_checkpoint_has_found_nothing_and_has_not_failed() {
        let connection = Connection::open_in_memory().unwrap();
        let read = |answer: &str| connection.query_row(answer, [], read_found);
        assert_eq!(read("SELECT 1, -1, -1"), Ok(None));
        assert_eq!(read("SELECT 0, 12, 7"), Ok(found(12, 7)));
        assert!(read("SELECT 0, -1, -1").is_err(), "a database without a log");
    }

    #[test]
    fn a_step_begins_when_enough_was_committed_since_the_last_one() {
        let mut state = at(STEP_PAGES - 1);
        assert!(!state.wants_step());
        state.committed(STEP_PAGES);
        assert!(state.wants_step());
        state.note(found(STEP_PAGES, STEP_PAGES - 100));
        assert!(!state.wants_step());
        state.committed(2 * STEP_PAGES - 100);
        assert!(state.wants_step());
    }

    #[test]
    fn a_few_more_steps_follow_at_once_where_little_is_left() {
        let mut state = at(STEP_PAGES + 10);
        state.note(found(STEP_PAGES + 10, STEP_PAGES));
        for more in 1..=FOLLOW_UPS_MAX {
            assert!(state.wants_step(), "follow-up {more}");
            state.committed(STEP_PAGES + 10 + more);
            state.note(found(STEP_PAGES + 10 + more, STEP_PAGES + more));
        }
        assert!(!state.wants_step(), "the store is busy");
        let mut idle = at(STEP_PAGES + 10);
        idle.note(found(STEP_PAGES + 10, STEP_PAGES + 10));
        assert!(!idle.wants_step(), "nothing is left");
    }

    #[test]
    fn a_step_that_copied_nothing_is_not_repeated_at_once() {
        // F27: a reader in an old snapshot, or a full disk.
        for nothing in [found(STEP_PAGES, 0), None] {
            let mut state = at(STEP_PAGES);
            state.note(nothing);
            state.committed(2 * STEP_PAGES - 1);
            assert!(!state.wants_step());
            state.committed(2 * STEP_PAGES);
            assert!(state.wants_step());
        }
    }

    #[test]
    fn the_writer_completes_the_checkpoint_of_a_long_log_with_little_left() {
        let mut state = at(LOG_PAGES + REST_PAGES_MAX);
        state.note(found(LOG_PAGES + REST_PAGES_MAX, LOG_PAGES - 1));
        assert!(!state.is_nearly_copied(), "too much is left");
        assert!(state.wants_step(), "so the thread goes on at once");
        state.note(found(LOG_PAGES + REST_PAGES_MAX, LOG_PAGES));
        assert!(state.is_nearly_copied());
        state.is_running = true;
        assert!(!state.is_nearly_copied(), "only one checkpoint at a time");
        state.is_running = false;
        state.note(found(LOG_PAGES + REST_PAGES_MAX, LOG_PAGES + REST_PAGES_MAX));
        assert!(!state.is_nearly_copied(), "nothing is left");
        let mut short = at(LOG_PAGES - 1);
        short.note(found(LOG_PAGES - 1, LOG_PAGES - 2));
        assert!(!short.is_nearly_copied());
    }

    #[test]
    fn a_log_that_has_started_again_is_counted_from_its_beginning() {
        let mut state = at(LOG_PAGES);
        state.note(found(LOG_PAGES, LOG_PAGES));
        state.committed(10);
        assert_eq!((state.copied, state.next_step), (0, STEP_PAGES));
        // A step of the log before it ends late.
        state.note(found(LOG_PAGES, LOG_PAGES));
        assert_eq!(state.copied, 0);
        state.committed(10 + STEP_PAGES);
        assert!(state.wants_step());
    }

    #[test]
    fn a_log_that_starts_again_with_a_longer_commit_is_noticed() {
        let mut state = at(STEP_PAGES);
        state.note(found(STEP_PAGES, STEP_PAGES));
        state.committed(STEP_PAGES + 100);
        assert!(state.wants_step(), "these may all be new");
    }
}
