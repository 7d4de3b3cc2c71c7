//! The end of a batch: everything is written, marked and committed, and a lost answer is looked up.
//!
//! Each batch that somebody relies on inserts a marker, (committer, number). If the connection is lost after COMMIT
//! was sent, a void marker of the same number is inserted on a new one: if a real one is there, the batch
//! is committed; else it never was and never will be. Only if that fails too is the outcome unknown.
//!
//! Old markers are cleared away, but never the last one of a committer, and a marker is refused behind a later one. So a
//! batch that was given up stays given up, however late its statements reach the server: it meets its void marker, or a
//! later one.
//!
//! What is written and COMMIT go in one round trip: whether everything went well is judged by the database, which
//! fails the transaction if not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use verdict::{Rules, TaskId, Time};

use super::batch::PostgresBatch;
use super::hints::Hint;
use super::own::Locked;
use super::reads::{self, Client, Read, set_scopes};
use super::rows::Columns;
use super::session::COMMIT;
use super::sheet::{Sheet, Statement};
use super::trouble::{Trouble, conflict, invalid};
use super::writes::{self, Sheets};
use super::{Shared, forgetting, rules};
use crate::failure::{CommitFailure, Failure, FailureKind};

/// How often, and with which pause, a new connection is tried to look up a lost COMMIT. Together about
/// as long as a standby needs to take over.
const LOOKS_MAX: u32 = 40;
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Which batch of which committer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marker {
    pub(super) committer: [u8; 16],
    pub(super) n: i64,
}

const MARK: &str = "INSERT INTO tenure.batches (committer, n, at) VALUES ($1, $2, $3) \
    ON CONFLICT (committer, n) DO NOTHING";

/// The same, if the rules that the batch was decided by are in force, and no later batch of the committer is there; else
/// it fails. A committer sends one batch after the other, so that a later marker means that this one was given up: its
/// void marker may have been cleared away by then, and yet it must never be committed.
pub(super) const MARK_BY: &str = "INSERT INTO tenure.batches (committer, n, at) \
    SELECT $1, $2, $3::int8 / CASE WHEN rules = $4 AND NOT EXISTS (SELECT 1 FROM tenure.batches b \
        WHERE b.committer = $1 AND b.n > $2) THEN 1 ELSE 0 END FROM tenure.meta";

pub(super) async fn commit(batch: &mut PostgresBatch<'_>) -> Result<(), CommitFailure> {
    let is_marked = !batch.forgotten.is_empty()
        || batch.answers
        || batch.pulse
        || batch.has_put_off
        || !batch.own.is_empty();
    if !is_marked {
        // Nothing that anybody could rely on: looked at, found nothing. Locks end with the batch.
        finish(batch);
        return Ok(());
    }
    faultpoint::point!("pg.deciding");
    let now = batch.read_clock().await.map_err(CommitFailure::RolledBack)?;
    prepare(batch).await.map_err(CommitFailure::RolledBack)?;
    let marker = batch.writer.next_marker();
    let shared = batch.writer.shared.clone();
    match write_and_commit(batch, marker, now).await {
        Ok(Ok(())) => shared.primary.tells(marker),
        Ok(Err(Undone::Overtaken)) => {
            return Err(CommitFailure::RolledBack(rules::overtaken(&shared).await));
        }
        Ok(Err(Undone::Trouble(trouble))) if trouble.is_answered() => {
            return Err(CommitFailure::RolledBack(trouble.while_doing("committing a batch")));
        }
        Ok(Err(Undone::Trouble(trouble))) => look_up(shared, marker, trouble).await?,
        Err(failure) => look_up(shared, marker, Trouble::Failure(failure)).await?,
    }
    faultpoint::point!("pg.committed");
    finish(batch);
    faultpoint::point!("pg.remembered");
    Ok(())
}

/// Memory follows what is committed.
fn finish(batch: &mut PostgresBatch<'_>) {
    let now = batch.now.unwrap_or_else(|| batch.writer.shared.clock.now());
    let mut memory = batch.writer.shared.memory();
    for subject in batch.own.subjects() {
        memory.candidates.committed(subject, now);
    }
    let wakes = batch.own.live().filter_map(|task| task.wakes_at());
    memory.swept(batch.quiet_until, wakes.min());
    let leases = batch.own.live().filter(|task| task.lease().is_some());
    let shortest = leases.map(|task| task.policy.lease).min();
    memory.leased(shortest);
    drop(memory);
    let hint = Hint::of(batch.own.subjects(), now);
    if !batch.has_looked_for_ready && hint.is_of_work() {
        // Whoever grants in this very process hears no hint of ours.
        batch.writer.shared.hints.stir();
    }
    batch.writer.shared.hints.send(hint);
}

/// What must be done before the last round trip.
async fn prepare(batch: &mut PostgresBatch<'_>) -> Result<(), Failure> {
    lock_the_rest(batch).await?;
    let forgotten: Vec<TaskId> = batch.forgotten.iter().copied().collect();
    if forgotten.is_empty() {
        return Ok(());
    }
    let setting = batch.scopes.all();
    let work =
        move |client: Client| async move { forgetting::leave(&client, setting, &forgotten).await };
    batch.transaction().run("forgetting ended tasks", work).await
}

/// Everything and COMMIT in one go.
async fn write_and_commit(
    batch: &mut PostgresBatch<'_>,
    marker: Marker,
    now: Time,
) -> Result<Result<(), Undone>, Failure> {
    let sheets = batch.own.sheets(now, &batch.locked);
    if !sheets.are_sound() {
        return Ok(Err(Undone::Trouble(invalid("a number is larger than its column").into())));
    }
    let scopes = batch.own.subjects().filter_map(|subject| subject.scope());
    let setting = batch.scopes.add(scopes);
    let rules = batch.rules;
    let transaction = batch.transaction.take().expect("a batch commits once");
    let work = move |client: Client| async move {
        let sending = Sending::default();
        let written = write_all(&client, &sending, setting, &sheets, (marker, rules), now);
        let commit = if faultpoint::mutant(19) { HASTY_HINT } else { COMMIT };
        let commit = sending.then(client.commit(commit));
        match futures_util::join!(written, commit) {
            (written, Some(committed)) => {
                written?;
                Ok(committed?)
            }
            (Err(Undone::Trouble(trouble)), None) => {
                Err(Trouble::Failure(trouble.while_doing("sending a batch")).into())
            }
            (Err(Undone::Overtaken), None) => Err(Undone::Overtaken),
            (Ok(()), None) => unreachable!("what could not be sent has failed"),
        }
    };
    transaction.commit_with(work).await
}

/// Whether all statements of a batch are on their way. One that is not, because a value cannot be sent or the
/// connection is closed, would else be missing in what is committed.
#[derive(Default)]
struct Sending {
    is_broken: AtomicBool,
}

impl Sending {
    /// A statement; all of them are polled before COMMIT is.
    async fn send<T>(&self, statement: impl Future<Output = Read<T>>) -> Read<()> {
        let sent = statement.await;
        if sent.as_ref().is_err_and(|trouble| !trouble.is_answered()) {
            self.is_broken.store(true, Ordering::SeqCst);
        }
        sent.map(drop)
    }

    /// COMMIT, unless a statement could not be sent.
    async fn then(&self, commit: impl Future<Output = Read<()>>) -> Option<Read<()>> {
        if self.is_broken.load(Ordering::SeqCst) { None } else { Some(commit.await) }
    }
}

/// Bug 19 of the museum: a notification inside the batch makes commits wait for each other.
const HASTY_HINT: &str = "NOTIFY tenure; COMMIT";

/// Why a batch that was sent did not happen, as far as is known.
enum Undone {
    /// Other rules came into force.
    Overtaken,
    Trouble(Trouble),
}

impl From<Trouble> for Undone {
    fn from(trouble: Trouble) -> Self {
        Undone::Trouble(trouble)
    }
}

/// What is changed was locked before, as a rule. Whatever was not is locked now, together with the tale of its history;
/// if it is gone another writer was faster.
async fn lock_the_rest(batch: &mut PostgresBatch<'_>) -> Result<(), Failure> {
    let ids = batch.own.unlocked(&batch.locked);
    if ids.is_empty() {
        return Ok(());
    }
    let scopes = batch.own.subjects().filter_map(|subject| subject.scope());
    let setting = batch.scopes.add(scopes);
    let asked = ids.clone();
    let work = move |client: Client| async move {
        let (set, rows) =
            futures_util::join!(set_scopes(&client, setting), reads::lock_ids(&client, &asked));
        set?;
        rows
    };
    let rows = batch.transaction().run("locking changed tasks", work).await?;
    batch.locked.extend(rows.iter().map(|row| (row.task.id, Locked::of(row))));
    let gone = ids.into_iter().find(|id| !batch.locked.contains_key(id));
    gone.map_or(Ok(()), |id| Err(conflict(id)))
}

/// All statements in one go. The keys come last: only they may wait for another transaction. A statement that meets
/// what another writer did fails, and what follows in the same transaction with it, COMMIT too. The marker stands
/// behind the locks of all tasks: it fails if the rules that decided are no longer in force.
async fn write_all(
    client: &Client,
    sending: &Sending,
    setting: Option<String>,
    sheets: &Sheets,
    (marker, rules): (Marker, Rules),
    now: Time,
) -> Result<(), Undone> {
    let write = |statement, sheet| sending.send(write(client, statement, sheet));
    let (set, inputs, born, changed, ended, done, attempts, history, refused, mark, keys) = futures_util::join!(
        sending.send(set_scopes(client, setting)),
        write(&writes::INPUTS_INSERT, &sheets.inputs),
        write(&writes::LIVE_INSERT, &sheets.born),
        write(&writes::LIVE_UPDATE, &sheets.changed),
        write(&writes::LIVE_DELETE, &sheets.ended),
        write(&writes::DONE_INSERT, &sheets.done),
        write(&writes::ATTEMPTS_INSERT, &sheets.attempts),
        write(&writes::HISTORY_INSERT, &sheets.history),
        write(&writes::REFUSED_INSERT, &sheets.refused),
        sending.send(mark_by(client, marker, rules, now)),
        write(&writes::KEYS_WRITE, &sheets.keys),
    );
    // The first that failed says why.
    for written in [set, inputs, born, changed, ended, done, attempts, history, refused] {
        written?;
    }
    match mark {
        Err(trouble) if trouble.is_refuted() => return Err(Undone::Overtaken),
        mark => mark?,
    }
    Ok(keys?)
}

/// Runs a statement over a sheet, unless it is empty.
async fn write(client: &Client, statement: &Statement, sheet: &Sheet) -> Read<()> {
    if !sheet.is_empty() {
        client.query_typed(statement.text_for(sheet), &sheet.parameters()).await?;
    }
    Ok(())
}

/// Marks the batch as decided by the rules that are in force.
async fn mark_by(client: &Client, marker: Marker, rules: Rules, at: Time) -> Read<()> {
    let (committer, at, rules) = (&marker.committer[..], at.millis(), rules.number().cast_signed());
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&committer, Type::BYTEA),
        (&marker.n, Type::INT8),
        (&at, Type::INT8),
        (&rules, Type::INT4),
    ];
    client.query_typed(MARK_BY, &parameters).await?;
    Ok(())
}

/// Whether the marker is new. Waits while another transaction is about to write the same one.
async fn mark(client: &Client, marker: Marker, at: Time) -> Read<bool> {
    let (committer, at) = (&marker.committer[..], at.millis());
    let parameters: [(&(dyn ToSql + Sync), Type); 3] =
        [(&committer, Type::BYTEA), (&marker.n, Type::INT8), (&at, Type::INT8)];
    Ok(client.execute_typed(MARK, &parameters).await? == 1)
}

/// The time of a marker that stands for a batch which never was.
const VOID: i64 = -1;

/// Whether the batch with this marker is committed. If not, it never will be: its marker is taken now.
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
        // What is there may still wait for a standby; nobody is told of it sooner. A transaction that only reads
        // waits for nobody, so that this one writes, too: to the one row that is always there.
        client.execute_typed("UPDATE tenure.meta SET waits = waits", &[]).await?;
    }
    Ok(is_committed)
}

/// Finds out what became of a COMMIT whose answer was lost.
async fn look_up(shared: Arc<Shared>, marker: Marker, lost: Trouble) -> Result<(), CommitFailure> {
    tracing::warn!(?lost, "the answer to a COMMIT was lost; looking up what became of it");
    let mut last = lost.while_doing("committing a batch");
    for _ in 0..LOOKS_MAX {
        let look = move |client: Client| async move { is_committed(&client, marker).await };
        match shared.in_own_transaction("looking up a batch", look).await {
            Ok(true) => {
                shared.primary.tells(marker);
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
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    shared.memory().candidates.forget_all();
    let what = "the connection was lost while committing, and the database cannot be asked";
    Err(CommitFailure::Unknown(Failure::new(FailureKind::Unavailable, what).because(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_statement_that_could_not_be_sent_nothing_is_committed() {
        // S2-104: all of a batch or nothing of it. An answer is awaited; whatever cannot be sent fails at once.
        let unsent = || Trouble::CutShort;
        for (statement, is_committed) in [(None, true), (Some(unsent()), false)] {
            let (sending, has_committed) = (Sending::default(), AtomicBool::new(false));
            let statement = async { statement.map_or(Ok(()), Err) };
            let commit = async {
                has_committed.store(true, Ordering::SeqCst);
                Ok(())
            };
            let (sent, committed) =
                futures_util::join!(sending.send(statement), sending.then(commit));
            assert_eq!((sent.is_ok(), committed.is_some()), (is_committed, is_committed));
            assert_eq!(has_committed.load(Ordering::SeqCst), is_committed);
        }
    }
}
