//! The connections that read concurrently with the writer: how many there are, the queue for them, and how a read
//! ends when its caller has gone.
//!
//! A read runs on a blocking thread, which a caller that gives up cannot stop. So the read checks every few
//! thousand steps whether its caller still waits, and aborts if not; it occupies its connection until then.
//! The coordinator's own reads (keys, limits) have a separate connection.

use std::os::raw::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Shared, errors, opening};
use crate::failure::{Failure, FailureKind};

/// How many reads run concurrently; more would only take disk bandwidth from the writer.
pub(super) const READERS_MAX: usize = 4;

/// How many reads may queue. Each takes milliseconds, so the last one is served while its caller still waits;
/// further callers are better told to retry.
pub(super) const WAITING_MAX: usize = 256;

/// The coordinator's own reads are few and short.
const OWN_MAX: usize = 1;

/// Virtual machine steps between two checks: some ten microseconds.
const STEPS: c_int = 2_000;

pub(super) type Read<T> = rusqlite::Result<T>;

/// On whose behalf a read runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A caller over HTTP, or a tool.
    Guest,
    /// The coordinator, for data that it needs to serve.
    Own,
}

pub(super) struct Readers {
    guests: ReadSlots,
    own: ReadSlots,
    idle: Mutex<Vec<Connection>>,
    /// The last field, so that connections are closed before the file is unlocked.
    shared: Arc<Shared>,
}

struct ReadSlots {
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    waiting_max: usize,
}

impl Readers {
    pub(super) fn open(shared: Arc<Shared>) -> Result<Self, Failure> {
        let first = opening::connect_reader(&shared.path, &shared.options)?;
        Ok(Self {
            guests: ReadSlots::new(READERS_MAX, WAITING_MAX),
            own: ReadSlots::new(OWN_MAX, usize::MAX),
            idle: Mutex::new(vec![first]),
            shared,
        })
    }

    /// Reads in one snapshot, on a thread that may block on the disk.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        reader: Reader,
        what: &'static str,
        work: impl FnOnce(&Connection) -> Read<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let places = match reader {
            Reader::Guest => &self.guests,
            Reader::Own => &self.own,
        };
        let place = places.take(what).await?;
        let caller = Caller::default();
        let (readers, gone) = (self.clone(), caller.gone.clone());
        let read = move || {
            let read = readers.read_once(what, &gone, work);
            drop(place);
            read
        };
        match tokio::runtime::Handle::try_current() {
            Err(_) => read(),
            Ok(runtime) => runtime.spawn_blocking(read).await.unwrap_or_else(|error| {
                Err(Failure::new(FailureKind::Unavailable, what).because(error))
            }),
        }
    }

    fn read_once<T>(
        &self,
        what: &'static str,
        gone: &Arc<AtomicBool>,
        work: impl FnOnce(&Connection) -> Read<T>,
    ) -> Result<T, Failure> {
        let idle = self.idle.lock().expect("nothing panics with the pool in hand").pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => opening::connect_reader(&self.shared.path, &self.shared.options)?,
        };
        let result = interruptible(&mut connection, gone, work);
        let is_interrupted = gone.load(Ordering::Relaxed);
        if (result.is_ok() || is_interrupted) && connection.is_autocommit() {
            self.idle.lock().expect("nothing panics with the pool in hand").push(connection);
        }
        result.map_err(errors::while_doing(what))
    }
}

fn interruptible<T>(
    connection: &mut Connection,
    gone: &Arc<AtomicBool>,
    work: impl FnOnce(&Connection) -> Read<T>,
) -> Read<T> {
    let look = gone.clone();
    connection.progress_handler(STEPS, Some(move || look.load(Ordering::Relaxed)))?;
    let result = in_snapshot(connection, work);
    connection.progress_handler(0, None::<fn() -> bool>)?;
    result
}

fn in_snapshot<T>(connection: &Connection, work: impl FnOnce(&Connection) -> Read<T>) -> Read<T> {
    let snapshot = connection.unchecked_transaction()?;
    let result = work(&snapshot)?;
    snapshot.finish()?;
    Ok(result)
}

impl ReadSlots {
    fn new(free: usize, waiting_max: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(free)), waiting: Arc::default(), waiting_max }
    }

    async fn take(&self, what: &'static str) -> Result<OwnedSemaphorePermit, Failure> {
        if let Ok(place) = self.free.clone().try_acquire_owned() {
            return Ok(place);
        }
        let _waiting = Waiting::join(&self.waiting);
        if self.waiting.load(Ordering::Relaxed) > self.waiting_max {
            return Err(Failure::new(FailureKind::Overloaded, what));
        }
        let place = self.free.clone().acquire_owned().await;
        Ok(place.expect("the places are never closed"))
    }
}

/// Counts one queued read until it is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn join(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The caller of a read. Dropping it tells the read that its caller has gone.
#[derive(Default)]
struct Caller {
    gone: Arc<AtomicBool>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::super::{Options, SqliteStore};
    use super::*;
    use crate::clock::SystemClock;

    /// Counts for minutes; no test waits for its end.
    const ENDLESS: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000)
        SELECT count(*) FROM n";

    /// Longer than anything here takes; without a limit a failing test would hang.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn readers(folder: &tempfile::TempDir) -> (SqliteStore, Arc<Readers>) {
        let options = Options::new(Arc::new(SystemClock::start()));
        let store = SqliteStore::open(folder.path().join("tenure.db"), options).unwrap();
        let readers = store.browse.readers.clone();
        (store, readers)
    }

    /// Occupies all guest connections with reads that do not end.
    async fn occupy(readers: &Arc<Readers>) -> Vec<tokio::task::JoinHandle<Result<i64, Failure>>> {
        let (began, mut begun) = mpsc::channel(READERS_MAX);
        let endless = || {
            let (readers, began) = (readers.clone(), began.clone());
            tokio::spawn(async move {
                let count = move |connection: &Connection| {
                    began.try_send(()).unwrap();
                    connection.query_row(ENDLESS, [], |row| row.get(0))
                };
                readers.read(Reader::Guest, "counting", count).await
            })
        };
        let reads: Vec<_> = (0..READERS_MAX).map(|_| endless()).collect();
        for _ in 0..READERS_MAX {
            begun.recv().await.unwrap();
        }
        reads
    }

    fn is_pending(future: Pin<&mut impl Future>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    fn one(connection: &Connection) -> Read<i64> {
        connection.query_row("SELECT 1", [], |row| row.get(0))
    }

    #[tokio::test]
    async fn a_read_ends_when_its_caller_has_gone() {
        // F44: a read whose caller has gone frees its connection.
        let folder = tempfile::tempdir().unwrap();
        let (_store, readers) = readers(&folder);
        for read in occupy(&readers).await {
            read.abort();
        }
        for _ in 0..READERS_MAX {
            let next = readers.read(Reader::Guest, "reading", one);
            assert_eq!(tokio::time::timeout(PATIENCE, next).await.unwrap().unwrap(), 1);
        }
        // Every connection is free again, and no extra connection was opened.
        let places = readers.guests.free.acquire_many(READERS_MAX as u32);
        drop(tokio::time::timeout(PATIENCE, places).await.unwrap().unwrap());
        let idle = readers.idle.lock().unwrap().len();
        assert!(idle <= READERS_MAX, "{idle}");
    }

    #[tokio::test]
    async fn reads_beyond_those_that_may_wait_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (_store, readers) = readers(&folder);
        let endless = occupy(&readers).await;
        let mut waiting: Vec<_> = (0..WAITING_MAX)
            .map(|_| Box::pin(readers.read(Reader::Guest, "reading", one)))
            .collect();
        assert!(waiting.iter_mut().all(|read| is_pending(read.as_mut())));
        let refused = readers.read(Reader::Guest, "reading", one).await.unwrap_err();
        assert_eq!(refused.kind, FailureKind::Overloaded);
        // The coordinator's own reads do not queue behind them.
        let own = readers.read(Reader::Own, "reading keys", one);
        assert_eq!(tokio::time::timeout(PATIENCE, own).await.unwrap().unwrap(), 1);
        // A caller that stops waiting leaves room in the queue.
        waiting.truncate(WAITING_MAX - 1);
        assert!(is_pending(std::pin::pin!(readers.read(Reader::Guest, "reading", one))));
        drop(waiting);
        endless.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
