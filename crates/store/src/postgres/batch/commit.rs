//! The end of a batch: all rows and a marker are written and committed, and the outcome of a lost COMMIT is looked
//! up.
//!
//! Each batch that a caller relies on inserts a marker, (committer, number). If the connection is lost after COMMIT
//! was sent, a void marker of the same number is inserted on a new connection. If the real marker is present, the
//! batch is committed; otherwise it was not committed and never will be. The outcome is unknown only if this fails
//! too.
//!
//! Old markers are deleted, but never the last one of a committer, and a marker is refused after a later one. So an
//! abandoned batch stays abandoned, however late its statements reach the server: it conflicts with its void marker,
//! or with a later marker.
//!
//! All writes and COMMIT go in one round trip. The database checks the guards, and fails the transaction if one does
//! not hold.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use verdict::{Rules, Subject, TaskId, Time};

use super::PostgresBatch;
use super::column_batch::{ColumnBatch, Statement};
use super::logs::LogWrites;
use super::pending_writes::LockedRow;
use super::spend::Additions;
use super::writes::{self, ColumnBatches};
use crate::failure::{CommitFailure, Failure, FailureKind};
use crate::postgres::Shared;
use crate::postgres::administration::pruning;
use crate::postgres::connection::session::COMMIT;
use crate::postgres::errors::{StepError, conflict, invalid};
use crate::postgres::flows::starts::StartRows;
use crate::postgres::peers::hints::Hint;
use crate::postgres::peers::rules;
use crate::postgres::reads::{self, Client, Read, set_scopes};
use crate::postgres::rows::Columns;

/// How often a new connection is tried to look up a lost COMMIT, and the pause between two tries. Together about as
/// long as a standby needs to take over.
const LOOKUPS_MAX: u32 = 40;
const LOOKUP_PAUSE: Duration = Duration::from_millis(250);

/// Identifies a batch: its committer, and its number.
#[derive(Clone, Copy, Debug)]
pub(in crate::postgres) struct Marker {
    pub(in crate::postgres) committer: [u8; 16],
    pub(in crate::postgres) n: i64,
}

const MARK: &str = "INSERT INTO tenure.batches (committer, n, at) VALUES ($1, $2, $3) \
    ON CONFLICT (committer, n) DO NOTHING";

/// Inserts a marker. Fails unless the rules that decided the batch are in force, the paused queues and endpoints are those
/// that the batch was given or has changed itself, and the committer has no later batch.
/// A committer sends one batch after the other, so a later marker means that this batch was abandoned. Its void
/// marker may have been deleted by then, and yet the batch must never be committed.
pub(in crate::postgres) const MARK_BY: &str = "INSERT INTO tenure.batches (committer, n, at) \
    SELECT $1, $2, $3::int8 / CASE WHEN rules = $4 AND pauses = $5 AND NOT EXISTS (SELECT 1 FROM tenure.batches b \
        WHERE b.committer = $1 AND b.n > $2) THEN 1 ELSE 0 END FROM tenure.meta";

pub(in crate::postgres) async fn commit(
    batch: &mut PostgresBatch<'_>,
) -> Result<(), CommitFailure> {
    let is_marked = !batch.forgotten.is_empty()
        || batch.has_answers
        || batch.keep_alive
        || batch.has_postponed_alarms
        || batch.has_changed_messages
        || batch.has_changed_objects
        || batch.flows.has_moved
        || !batch.spend.is_empty()
        || !batch.logs.is_empty()
        || !batch.pending.is_empty();
    if !is_marked {
        // No caller relies on this batch: it only read, and found nothing. Its locks end with the batch.
        finish(batch);
        return Ok(());
    }
    faultpoint::point!("pg.deciding");
    let now = batch.read_clock().await.map_err(CommitFailure::RolledBack)?;
    prepare(batch).await.map_err(CommitFailure::RolledBack)?;
    batch.park_pending(now);
    let marker = batch.writer.next_marker();
    let shared = batch.writer.shared.clone();
    match write_and_commit(batch, marker, now).await {
        Ok(Ok(())) => shared.primary.acknowledge(marker),
        Ok(Err(BatchError::Superseded)) => {
            let superseded = Box::pin(rules::superseded(&shared)).await;
            return Err(CommitFailure::RolledBack(superseded));
        }
        Ok(Err(BatchError::Step(error))) if error.is_definite() => {
            return Err(CommitFailure::RolledBack(error.while_doing("committing a batch")));
        }
        Ok(Err(BatchError::Step(error))) => {
            Box::pin(resolve_lost_commit(shared, marker, error)).await?;
        }
        Err(failure) => {
            Box::pin(resolve_lost_commit(shared, marker, StepError::Failure(failure))).await?;
        }
    }
    faultpoint::point!("pg.committed");
    finish(batch);
    faultpoint::point!("pg.remembered");
    Ok(())
}

/// Updates this process's memory after a commit.
fn finish(batch: &mut PostgresBatch<'_>) {
    let now = batch.now.unwrap_or_else(|| batch.writer.shared.clock.now());
    let openings = batch.openings(now);
    if batch.has_raised_version {
        batch.writer.shared.pauses.raised(batch.pauses.version);
    }
    let mut touched = batch.freed_keys();
    touched.extend(batch.flows.take_touched());
    let (has_touched, unparked) = (!touched.is_empty(), batch.flows.take_unparked());
    let has_unparked = !unparked.is_empty();
    let mut memory = batch.writer.shared.memory();
    memory.flows.add(touched);
    memory.flows.wake(openings);
    memory.candidates.apply_hint(&unparked, &HashSet::new());
    for subject in batch.pending.subjects() {
        match subject.live().filter(|task| batch.flows.is_parked(task)) {
            Some(parked) => memory.candidates.leave_out(parked),
            None => memory.candidates.apply_commit(subject, now),
        }
    }
    let wakes = batch.pending.live().filter_map(|task| task.wakes_at());
    memory.swept(batch.no_alarm_until, wakes.min());
    let leases = batch.pending.live().filter(|task| task.lease().is_some());
    let shortest = leases.map(|task| task.policy.shortest_silence()).min();
    memory.leased(shortest);
    drop(memory);
    let is_parked = |subject: &&Subject| subject.live().is_some_and(|it| batch.flows.is_parked(it));
    let offered = batch.pending.subjects().filter(|subject| !is_parked(subject));
    let hint = Hint::of(offered, now).with_ready(unparked);
    let is_for_other = !batch.has_looked_for_ready && hint.has_work();
    if is_for_other || has_touched || has_unparked || batch.has_changed_messages {
        // The other writer of this process grants or decides messages, and it receives no hint from its own process.
        batch.writer.shared.hints.notify_local();
    }
    batch.writer.shared.hints.send(hint);
}

/// Runs the steps that must precede the last round trip.
async fn prepare(batch: &mut PostgresBatch<'_>) -> Result<(), Failure> {
    lock_unlocked(batch).await?;
    let forgotten: Vec<TaskId> = batch.forgotten.iter().copied().collect();
    if forgotten.is_empty() {
        return Ok(());
    }
    let setting = batch.scopes.all();
    let work =
        move |client: Client| async move { pruning::delete(&client, setting, &forgotten).await };
    batch.transaction().run("forgetting ended tasks", work).await
}

/// Sends all writes and COMMIT in one round trip.
async fn write_and_commit(
    batch: &mut PostgresBatch<'_>,
    marker: Marker,
    now: Time,
) -> Result<Result<(), BatchError>, Failure> {
    let parked = batch.flows.parked();
    let column_batches = batch.pending.column_batches(now, &batch.locked, parked);
    if !column_batches.all_fit() {
        return Ok(Err(BatchError::Step(invalid("a number is larger than its column").into())));
    }
    let scopes = batch.pending.subjects().filter_map(|subject| subject.scope());
    let scopes = scopes.chain(batch.logs.iter().map(|log| &log.task.scope));
    let setting = batch.scopes.add(scopes.chain(batch.spend.iter().map(|row| &row.scope)));
    let logs = LogWrites::of(&batch.logs);
    let additions = Additions::of(&batch.spend, &batch.writer.committer);
    let starts = StartRows::of(batch.flows.starts());
    let given = (batch.rules, batch.pauses.version + i64::from(batch.has_raised_version));
    let transaction = batch.transaction.take().expect("a batch commits once");
    let work = move |client: Client| async move {
        let sending = Sending::default();
        let rows = (&column_batches, &additions, &starts, &logs);
        let written = write_all(&client, &sending, setting, rows, (marker, given), now);
        let commit = if faultpoint::mutant(19) { NOTIFY_AND_COMMIT } else { COMMIT };
        let commit = sending.then(client.commit(commit));
        match futures_util::join!(written, commit) {
            (written, Some(committed)) => {
                written?;
                Ok(committed?)
            }
            (Err(BatchError::Step(error)), None) => {
                Err(StepError::Failure(error.while_doing("sending a batch")).into())
            }
            (Err(BatchError::Superseded), None) => Err(BatchError::Superseded),
            (Ok(()), None) => unreachable!("what could not be sent has failed"),
        }
    };
    transaction.commit_with(work).await
}

/// Whether all statements of a batch could be sent. If one could not, because a value cannot be encoded or the
/// connection is closed, COMMIT would commit the batch without it.
#[derive(Default)]
struct Sending {
    is_broken: AtomicBool,
}

impl Sending {
    /// Notes what became of a statement; all statements are polled before COMMIT is.
    fn note(&self, sent: &Read<()>) {
        if sent.as_ref().is_err_and(|error| !error.is_definite()) {
            self.is_broken.store(true, Ordering::SeqCst);
        }
    }

    /// Sends COMMIT, unless a statement could not be sent.
    async fn then(&self, commit: impl Future<Output = Read<()>>) -> Option<Read<()>> {
        if self.is_broken.load(Ordering::SeqCst) { None } else { Some(commit.await) }
    }
}

/// Bug 19 of the museum: a notification inside the batch makes commits wait for each other.
const NOTIFY_AND_COMMIT: &str = "NOTIFY tenure; COMMIT";

/// Why a batch that was sent failed, as far as is known.
enum BatchError {
    /// The rules in force, the paused queues or the endpoints have changed.
    Superseded,
    Step(StepError),
}

impl From<StepError> for BatchError {
    fn from(error: StepError) -> Self {
        BatchError::Step(error)
    }
}

/// Locks changed tasks that are not locked yet, together with the inline part of their history. Most were locked when
/// they were loaded. If a row is gone, another writer changed it first, and the batch conflicts.
async fn lock_unlocked(batch: &mut PostgresBatch<'_>) -> Result<(), Failure> {
    let ids = batch.pending.unlocked(&batch.locked);
    if ids.is_empty() {
        return Ok(());
    }
    let scopes = batch.pending.subjects().filter_map(|subject| subject.scope());
    let setting = batch.scopes.add(scopes);
    let asked = ids.clone();
    let work = move |client: Client| async move {
        let (set, rows) =
            futures_util::join!(set_scopes(&client, setting), reads::lock_ids(&client, &asked));
        set?;
        rows
    };
    let rows = batch.transaction().run("locking changed tasks", work).await?;
    batch.locked.extend(rows.iter().map(|row| (row.task.id, LockedRow::of(row))));
    let gone = ids.into_iter().find(|id| !batch.locked.contains_key(id));
    gone.map_or(Ok(()), |id| Err(conflict(id)))
}

/// Sends all statements in one round trip. What was used and the keys come last: only they may wait for another transaction. A
/// statement that finds a change by another writer fails, and every later statement of the transaction fails with it,
/// COMMIT too. The marker comes after the locks of all tasks: it fails if the rules that decided are no longer in
/// force, or other queues are paused.
async fn write_all(
    client: &Client,
    sending: &Sending,
    setting: Option<String>,
    (column_batches, additions, starts, logs): (&ColumnBatches, &Additions, &StartRows, &LogWrites),
    (marker, given): (Marker, Given),
    now: Time,
) -> Result<(), BatchError> {
    let mut statements: Vec<Written<'_>> = vec![Box::pin(set_scopes(client, setting))];
    for (statement, rows) in column_batches.before_marker() {
        statements.push(write(client, statement, rows));
    }
    if !logs.is_empty() {
        statements.push(Box::pin(logs.remove_all(client)));
        statements.push(Box::pin(logs.save_all(client)));
    }
    if !starts.is_empty() {
        statements.push(Box::pin(starts.insert(client)));
        statements.push(Box::pin(starts.prune(client, now)));
    }
    let marked = statements.len();
    statements.push(Box::pin(mark_by(client, marker, given, now)));
    if !additions.is_empty() {
        statements.push(Box::pin(additions.write(client)));
    }
    if !column_batches.keys.is_empty() {
        statements.push(write(client, &writes::KEYS_WRITE, &column_batches.keys));
    }
    // The first failed statement is the cause; the later ones fail because of it.
    let first = in_order(statements, |sent| sending.note(sent))
        .await
        .into_iter()
        .enumerate()
        .find(|(_, it)| it.is_err());
    match first {
        Some((place, Err(error))) if place == marked && error.is_guard_failure() => {
            Err(BatchError::Superseded)
        }
        Some((_, written)) => Ok(written?),
        None => Ok(()),
    }
}

/// A statement of a batch on its way.
type Written<'a> = Pin<Box<dyn Future<Output = Read<()>> + Send + 'a>>;

/// Polls statements in their order until all have ended: they are sent in the order in which they are polled first, and that
/// order matters. `note` gets each outcome before COMMIT is polled.
async fn in_order(mut statements: Vec<Written<'_>>, note: impl Fn(&Read<()>)) -> Vec<Read<()>> {
    let mut ended: Vec<Option<Read<()>>> = statements.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut is_waiting = false;
        for (statement, ended) in statements.iter_mut().zip(&mut ended) {
            if ended.is_some() {
                continue;
            }
            match statement.as_mut().poll(context) {
                Poll::Ready(sent) => {
                    note(&sent);
                    *ended = Some(sent);
                }
                Poll::Pending => is_waiting = true,
            }
        }
        if is_waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    ended.into_iter().flatten().collect()
}

/// Runs a statement over a column batch.
fn write<'a>(client: &'a Client, statement: &'a Statement, rows: &'a ColumnBatch) -> Written<'a> {
    Box::pin(async move {
        client.query_typed(statement.text_for(rows), &rows.parameters()).await?;
        Ok(())
    })
}

/// What a batch was decided by: the rules, and the version of pauses and endpoints.
type Given = (Rules, i64);

/// Inserts the marker of a batch. Fails if what it was decided by has changed.
async fn mark_by(client: &Client, marker: Marker, (rules, pauses): Given, at: Time) -> Read<()> {
    let (committer, at, rules) = (&marker.committer[..], at.millis(), rules.number().cast_signed());
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&committer, Type::BYTEA),
        (&marker.n, Type::INT8),
        (&at, Type::INT8),
        (&rules, Type::INT4),
        (&pauses, Type::INT8),
    ];
    client.query_typed(MARK_BY, &parameters).await?;
    Ok(())
}

/// Returns whether the marker is new. Waits while another transaction is inserting the same one.
async fn mark(client: &Client, marker: Marker, at: Time) -> Read<bool> {
    let (committer, at) = (&marker.committer[..], at.millis());
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&committer, Type::BYTEA), (&marker.n, Type::INT8), (&at, Type::INT8)];
    Ok(client.execute_typed(MARK, &parameters).await? == 1)
}

/// The time in a void marker, which stands for a batch that was never committed.
const VOID: i64 = -1;

/// Whether the batch with this marker is committed. If not, it never will be: this call inserts its void marker.
async fn is_committed(client: &Client, marker: Marker) -> Read<bool> {
    mark(client, marker, Time::from_millis(VOID)).await?;
    let committer = &marker.committer[..];
    let sql = "SELECT at FROM tenure.batches WHERE committer = $1 AND n = $2";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&committer, Type::BYTEA), (&marker.n, Type::INT8)];
    let rows = client.query_typed(sql, &parameters).await?;
    let at: Option<i64> = rows.first().map(|row| Columns::of(row).take()).transpose()?;
    let is_committed = at.is_some_and(|at| at != VOID);
    if is_committed {
        // The commit may still be waiting for a standby, and must not be reported before that wait ends. A read-only
        // transaction does not wait for standbys, so this one also writes, to the one row that always exists.
        client.execute_typed("UPDATE tenure.meta SET waits = waits", &[]).await?;
    }
    Ok(is_committed)
}

/// Looks up the outcome of a COMMIT whose answer was lost.
async fn resolve_lost_commit(
    shared: Arc<Shared>,
    marker: Marker,
    lost: StepError,
) -> Result<(), CommitFailure> {
    tracing::warn!(?lost, "the answer to a COMMIT was lost; looking up its outcome");
    let mut last = lost.while_doing("committing a batch");
    for _ in 0..LOOKUPS_MAX {
        let look = move |client: Client| async move { is_committed(&client, marker).await };
        match shared.in_own_transaction("looking up a batch", look).await {
            Ok(true) => {
                shared.primary.acknowledge(marker);
                return Ok(());
            }
            Ok(false) => {
                let what = "the connection was lost and the batch was not committed";
                let kind = FailureKind::Conflict(TaskId::from_u128(0));
                return Err(CommitFailure::RolledBack(Failure::new(kind, what).because(last)));
            }
            Err(CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure)) => {
                last = failure;
            }
        }
        tokio::time::sleep(LOOKUP_PAUSE).await;
    }
    shared.memory().candidates.forget_all();
    let what = "the connection was lost during a commit, and the database cannot be reached";
    Err(CommitFailure::Unknown(Failure::new(FailureKind::Unavailable, what).because(last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::connection::session::future_bytes;

    /// What a batch may copy when the future of its commit is moved. Each round of a lifecycle moves it several times.
    const COMMIT_BYTES_MAX: usize = 2_048;

    #[test]
    fn the_future_of_a_commit_is_small() {
        let commit = future_bytes(|batch: &'static mut PostgresBatch<'static>| commit(batch));
        assert!(commit <= COMMIT_BYTES_MAX, "{commit}");
        type Rows = (ColumnBatches, Additions, StartRows, LogWrites);
        let write =
            future_bytes(|(client, sending, rows, marker): (_, _, &'static Rows, Marker)| {
                let rows = (&rows.0, &rows.1, &rows.2, &rows.3);
                let given = (Rules::NEWEST, 0);
                write_all(client, sending, None, rows, (marker, given), Time::from_millis(0))
            });
        assert!(write <= COMMIT_BYTES_MAX, "{write}");
    }

    #[tokio::test]
    async fn statements_are_sent_in_their_order() {
        let sent = std::sync::Mutex::new(Vec::new());
        let statement = |n: usize| -> Written<'_> {
            let sent = &sent;
            Box::pin(async move {
                sent.lock().unwrap().push(n);
                tokio::task::yield_now().await;
                Ok(())
            })
        };
        let ended = in_order((0..40).map(statement).collect(), |_| ()).await;
        assert_eq!(ended.len(), 40);
        assert_eq!(*sent.lock().unwrap(), (0..40).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn without_a_statement_that_could_not_be_sent_nothing_is_committed() {
        // S2-104: all of a batch or nothing of it. For a sent batch the answer is awaited; a statement that cannot be
        // sent fails at once.
        let unsent = || StepError::StandbyWaitCancelled;
        for (statement, is_committed) in [(None, true), (Some(unsent()), false)] {
            let (sending, has_committed) = (Sending::default(), AtomicBool::new(false));
            let statement: Written<'_> = Box::pin(async { statement.map_or(Ok(()), Err) });
            let commit = async {
                has_committed.store(true, Ordering::SeqCst);
                Ok(())
            };
            let sent = in_order(vec![statement], |sent| sending.note(sent));
            let (sent, committed) = futures_util::join!(sent, sending.then(commit));
            assert_eq!((sent[0].is_ok(), committed.is_some()), (is_committed, is_committed));
            assert_eq!(has_committed.load(Ordering::SeqCst), is_committed);
        }
    }
}
