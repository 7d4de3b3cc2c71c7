//! The end of a batch: everything is written, marked and committed, and a lost answer is looked up.
//!
//! Each batch that somebody relies on inserts a marker, (committer, number). If the connection is lost after COMMIT
//! was sent, a void marker of the same number is inserted on a new one: if a real one is there, the batch
//! is committed; else it never was and never will be. Only if that fails too is the outcome unknown.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use verdict::{Rules, TaskId, Time};

use super::batch::PostgresBatch;
use super::hints::Hint;
use super::own::{Expected, Locked};
use super::reads::{self, Client, Read, set_scopes};
use super::rows::Columns;
use super::sheet::Sheet;
use super::trouble::{Trouble, conflict};
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

/// The same, if the rules that the batch was decided by are in force.
pub(super) const MARK_BY: &str = "INSERT INTO tenure.batches (committer, n, at) \
    SELECT $1, $2, $3 FROM tenure.meta WHERE rules = $4";

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
    let marker = batch.writer.next_marker();
    write(batch, marker, now).await.map_err(CommitFailure::RolledBack)?;
    faultpoint::point!("pg.written");
    let transaction = batch.transaction.take().expect("a batch commits once");
    let shared = batch.writer.shared.clone();
    match transaction.commit().await {
        Ok(Ok(())) => shared.primary.tells(marker),
        Ok(Err(trouble)) if trouble.is_answered() => {
            return Err(CommitFailure::RolledBack(trouble.while_doing("committing a batch")));
        }
        Ok(Err(trouble)) => look_up(shared, marker, trouble).await?,
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
    let hint = Hint::of(batch.own.subjects());
    if !batch.has_looked_for_ready && hint.names_queues() {
        // Whoever grants in this very process hears no hint of ours.
        batch.writer.shared.hints.stir();
    }
    batch.writer.shared.hints.send(hint);
}

async fn write(batch: &mut PostgresBatch<'_>, marker: Marker, now: Time) -> Result<(), Failure> {
    look_at_unlocked(batch).await?;
    let sheets = batch.own.sheets(now, &batch.locked);
    let expected = batch.own.expected();
    let scopes = batch.own.subjects().filter_map(|subject| subject.scope());
    let setting = batch.scopes.add(scopes);
    let rules = batch.rules;
    let work = move |client: Client| async move {
        write_all(&client, setting, &sheets, &expected, (marker, rules), now).await
    };
    if !batch.transaction().run("saving decisions", work).await? {
        return Err(rules::overtaken(batch.transaction(), &batch.writer.shared.rules).await);
    }
    let forgotten: Vec<TaskId> = batch.forgotten.iter().copied().collect();
    if forgotten.is_empty() {
        return Ok(());
    }
    let setting = batch.scopes.all();
    let work =
        move |client: Client| async move { forgetting::leave(&client, setting, &forgotten).await };
    batch.transaction().run("forgetting ended tasks", work).await
}

/// What is changed was locked before, as a rule. For whatever was not, the tale of its history is read now;
/// the guard of the change notices if it has grown since.
async fn look_at_unlocked(batch: &mut PostgresBatch<'_>) -> Result<(), Failure> {
    let ids = batch.own.unlocked(&batch.locked);
    if ids.is_empty() {
        return Ok(());
    }
    let scopes = batch.own.subjects().filter_map(|subject| subject.scope());
    let setting = batch.scopes.add(scopes);
    let work = move |client: Client| async move {
        let (set, rows) =
            futures_util::join!(set_scopes(&client, setting), reads::unlocked(&client, &ids));
        set?;
        rows
    };
    let rows = batch.transaction().run("looking at changed tasks", work).await?;
    batch.locked.extend(rows.iter().map(|row| (row.task.id, Locked::of(row))));
    Ok(())
}

/// All statements in one go. The keys come last: only they may wait for another transaction. Returns whether the
/// rules that decided are in force: asked behind the locks of all tasks.
async fn write_all(
    client: &Client,
    setting: Option<String>,
    sheets: &Sheets,
    expected: &Expected,
    (marker, rules): (Marker, Rules),
    now: Time,
) -> Read<bool> {
    let (set, born, _live, changed, ended, done, attempts, history, refused, mark, keys) = futures_util::join!(
        set_scopes(client, setting),
        returned(client, &writes::INPUTS_INSERT, &sheets.inputs),
        returned(client, &writes::LIVE_INSERT, &sheets.born),
        returned(client, &writes::LIVE_UPDATE, &sheets.changed),
        returned(client, &writes::LIVE_DELETE, &sheets.ended),
        returned(client, &writes::DONE_INSERT, &sheets.done),
        returned(client, &writes::ATTEMPTS_INSERT, &sheets.attempts),
        returned(client, &writes::HISTORY_INSERT, &sheets.history),
        returned(client, &writes::REFUSED_INSERT, &sheets.refused),
        mark_by(client, marker, rules, now),
        returned(client, &writes::KEYS_WRITE, &sheets.keys),
    );
    set?;
    // Whoever was faster is met first here; what follows in the same transaction fails because of it.
    all_touched(&expected.born, &born?)?;
    all_touched(&expected.changed, &changed?)?;
    all_touched(&expected.ended, &ended?)?;
    for written in [_live, done, attempts, history, refused] {
        written?;
    }
    let is_marked = mark?;
    all_touched(&expected.keys, &keys?)?;
    if faultpoint::mutant(19) {
        client.batch_execute("NOTIFY tenure").await?;
    }
    Ok(is_marked)
}

fn all_touched(expected: &[TaskId], touched: &[TaskId]) -> Result<(), Failure> {
    if expected.len() == touched.len() {
        return Ok(());
    }
    let touched: HashSet<&TaskId> = touched.iter().collect();
    match expected.iter().find(|id| !touched.contains(id)) {
        Some(id) => Err(conflict(*id)),
        None => Ok(()),
    }
}

/// Runs a statement over a sheet, unless it is empty. Returns the ids that it returns.
async fn returned(client: &Client, sql: &str, sheet: &Sheet) -> Read<Vec<TaskId>> {
    if sheet.is_empty() {
        return Ok(Vec::new());
    }
    let rows = client.query_typed(sql, &sheet.parameters()).await?;
    rows.iter().map(|row| Ok(Columns::of(row).task_id()?)).collect()
}

/// Whether the batch is marked as decided by the rules that are in force.
async fn mark_by(client: &Client, marker: Marker, rules: Rules, at: Time) -> Read<bool> {
    let (committer, at, rules) = (&marker.committer[..], at.millis(), rules.number() as i32);
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&committer, Type::BYTEA),
        (&marker.n, Type::INT8),
        (&at, Type::INT8),
        (&rules, Type::INT4),
    ];
    Ok(client.execute_typed(MARK_BY, &parameters).await? == 1)
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
