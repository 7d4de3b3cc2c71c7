//! The copy loop: one page of tasks per commit, then the administrative rows.

pub(super) mod long;

use verdict::log::{LogChange, PieceId};
use verdict::{Name, ObjectKey, TaskId, Time};

use super::summary::{StoreSummary, SummaryBuilder, TaskSummary, owned_keys};
use super::{MoveFailure, PAGE, RECORDS, Stage};
use crate::administration::{Administration, AuditFilter, Audited};
use crate::browse::{Browse, ScanDepth};
use crate::failure::{CommitFailure, Failure};
use crate::logs::{LogRow, LogsOf, SavedLog};
use crate::objects::{ObjectChange, ObjectLogFilter};
use crate::pauses::PauseChange;
use crate::record_seals::{Leaves, RecordSeal, SealFilter, SealsOf};
use crate::row::{
    Change, IdempotencyKey, KeyOwner, Refused, StoredTask, TaskBundle, TaskKey, TaskRows,
};
use crate::runs::{MessageChanges, SavedMessage};
use crate::seam::{Batch, Decided, Loaded, Lookup, Store, Writer};
use crate::spend::SpendRow;

/// Copies everything. Returns a summary of what was sent, and the source's time.
pub(super) async fn copy<S: Store, D: Store>(
    from: &S,
    to: &D,
    watch: &mut (dyn FnMut(Stage) + Send),
) -> Result<(StoreSummary, Time), MoveFailure> {
    let at = from.now();
    let mut summary = SummaryBuilder::new(at);
    let mut writer = to.writer().await.map_err(MoveFailure::Destination)?;
    let mut after = None;
    loop {
        let page = from.browse().scan(after, PAGE, ScanDepth::AllRows).await;
        let page = page.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { break };
        after = Some(last.task.key().id);
        let (whole, long) = split_long(page);
        whole.iter().for_each(|(found, parts)| summary.task(found, TaskSummary::of(parts)));
        write_page(&mut writer, whole).await.map_err(MoveFailure::Destination)?;
        for found in long {
            let task_summary = long::copy(from.browse(), &mut writer, &found).await?;
            summary.task(&found, task_summary);
        }
        faultpoint::point!("move.page");
        watch(Stage::Copying(summary.tasks()));
    }
    copy_messages(from.browse(), &mut writer, &mut summary).await?;
    copy_objects(from.browse(), &mut writer, &mut summary).await?;
    copy_spend(from.browse(), &mut writer, &mut summary).await?;
    copy_logs(from.browse(), &mut writer, &mut summary).await?;
    copy_record_seals(from.browse(), &mut writer, &mut summary).await?;
    copy_administration(from.browse(), &mut writer, &mut summary).await?;
    Ok((summary.done(), at))
}

/// Splits a page into tasks that are written with all their rows, and long ones. A long task is alone in its page, so
/// that tasks are counted in order.
fn split_long(page: Vec<TaskBundle>) -> (Vec<(StoredTask, TaskRows)>, Vec<StoredTask>) {
    let (mut whole, mut long) = (Vec::new(), Vec::new());
    for TaskBundle { task: found, rows: parts } in page {
        match parts {
            Some(parts) => whole.push((found, parts)),
            None => long.push(found),
        }
    }
    (whole, long)
}

/// One commit: each task is one change from nothing to its current state.
pub(super) async fn write_page<W: Writer>(
    writer: &mut W,
    page: Vec<(StoredTask, TaskRows)>,
) -> Result<(), Failure> {
    let mut batch = writer.begin().await?;
    let found: Vec<&StoredTask> = page.iter().map(|(found, _)| found).collect();
    load(&mut batch, &found).await?;
    let mut changes = Vec::new();
    let mut refused: Vec<Refused> = Vec::new();
    for (found, parts) in page {
        // Checkpoints, children and signals follow from the history.
        let TaskRows { history, attempts, refused: refusals, .. } = parts;
        refused.extend(refusals);
        changes.push(Change {
            before: None,
            after: found.subject,
            spec: Some(found.spec),
            closed: attempts,
            entries: history,
            // A task with steps is copied in parts.
            steps: Vec::new(),
        });
    }
    batch.save(Decided { changes, refused, ..Decided::default() }).await?;
    commit(batch).await
}

/// Reads what a batch reads before it writes: the owner of a key must be read before the key is taken over from a
/// task that has ended.
async fn load<B: Batch>(batch: &mut B, page: &[&StoredTask]) -> Result<(), Failure> {
    let tasks: Vec<TaskKey> = page.iter().map(|found| found.key()).collect();
    let keys: Vec<IdempotencyKey> = page.iter().filter_map(|found| key_of(found)).collect();
    batch.look_up(Lookup { tasks: &tasks, keys: &keys, ..Lookup::default() }).await?;
    batch.moment().await?;
    Ok(())
}

async fn commit<B: Batch>(batch: B) -> Result<(), Failure> {
    batch.commit().await.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => failure,
    })
}

async fn copy_messages<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    summary: &mut SummaryBuilder,
) -> Result<(), MoveFailure> {
    let mut after = None;
    loop {
        let page = from.saved_messages(after.as_ref(), PAGE).await.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.key());
        page.iter().for_each(|saved| summary.message(saved));
        write_messages(writer, page).await.map_err(MoveFailure::Destination)?;
    }
}

async fn write_messages<W: Writer>(
    writer: &mut W,
    saved: Vec<SavedMessage>,
) -> Result<(), Failure> {
    let mut batch = writer.begin().await?;
    batch.moment().await?;
    let messages = MessageChanges { saved, ..MessageChanges::default() };
    batch.save(Decided { messages, ..Decided::default() }).await?;
    commit(batch).await
}

/// The log says all: each entry is saved as the change that it was.
async fn copy_objects<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    summary: &mut SummaryBuilder,
) -> Result<(), MoveFailure> {
    let mut after = None;
    loop {
        let page = object_log(from, after).await.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.after.key.clone(), last.after.revision));
        page.iter().for_each(|change| summary.object_change(change));
        write_objects(writer, page).await.map_err(MoveFailure::Destination)?;
    }
}

async fn write_objects<W: Writer>(
    writer: &mut W,
    objects: Vec<ObjectChange>,
) -> Result<(), Failure> {
    let mut batch = writer.begin().await?;
    batch.moment().await?;
    batch.save(Decided { objects, ..Decided::default() }).await?;
    commit(batch).await
}

async fn copy_spend<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    summary: &mut SummaryBuilder,
) -> Result<(), MoveFailure> {
    let mut after = None;
    loop {
        let page = from.spend_rows(after.as_ref(), RECORDS).await.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.scope.clone(), last.day));
        page.iter().for_each(|row| summary.spend(row));
        write_spend(writer, page).await.map_err(MoveFailure::Destination)?;
    }
}

async fn write_spend<W: Writer>(writer: &mut W, spend: Vec<SpendRow>) -> Result<(), Failure> {
    let mut batch = writer.begin().await?;
    batch.moment().await?;
    batch.save(Decided { spend, ..Decided::default() }).await?;
    commit(batch).await
}

async fn copy_logs<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    summary: &mut SummaryBuilder,
) -> Result<(), MoveFailure> {
    let mut after = None;
    loop {
        let page = log_rows(from, after).await.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.task.id, last.piece.id));
        page.iter().for_each(|row| summary.log(row));
        write_logs(writer, page).await.map_err(MoveFailure::Destination)?;
    }
}

/// The pieces of all logs after this one.
pub(super) async fn log_rows<B: Browse>(
    browse: &B,
    after: Option<(TaskId, PieceId)>,
) -> Result<Vec<LogRow>, Failure> {
    browse.logs(&LogsOf::All { after }, RECORDS).await
}

async fn write_logs<W: Writer>(writer: &mut W, rows: Vec<LogRow>) -> Result<(), Failure> {
    let mut batch = writer.begin().await?;
    batch.moment().await?;
    let saved = |LogRow { task, piece, lines }| SavedLog {
        task,
        change: LogChange { removed: Vec::new(), saved: vec![(piece, lines)] },
    };
    let logs = rows.into_iter().map(saved).collect();
    batch.save(Decided { logs, ..Decided::default() }).await?;
    commit(batch).await
}

/// The changes of all objects after this one.
pub(super) async fn object_log<B: Browse>(
    browse: &B,
    after: Option<(ObjectKey, u32)>,
) -> Result<Vec<ObjectChange>, Failure> {
    browse.object_log(&ObjectLogFilter { key: None, after, limit: RECORDS }).await
}

pub(super) fn key_of(found: &StoredTask) -> Option<IdempotencyKey> {
    Some(IdempotencyKey { scope: found.key().scope, text: found.spec.key.clone()? })
}

async fn copy_record_seals<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    summary: &mut SummaryBuilder,
) -> Result<(), MoveFailure> {
    let mut after = None;
    loop {
        let page = record_seals(from, after).await.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.tenant.clone(), last.n));
        page.iter().for_each(|seal| summary.record_seal(seal));
        let act = Administration { record_seals: page, ..Administration::default() };
        administer(writer, &act).await?;
    }
}

/// The seals after this one, with all they cover.
pub(super) async fn record_seals<B: Browse>(
    browse: &B,
    after: Option<(Name, u64)>,
) -> Result<Vec<RecordSeal>, Failure> {
    let of = SealsOf::After(after);
    browse.record_seals(&SealFilter { tenant: None, of, leaves: Leaves::ALL, limit: PAGE }).await
}

async fn copy_administration<B: Browse, W: Writer>(
    from: &B,
    writer: &mut W,
    summary: &mut SummaryBuilder,
) -> Result<(), MoveFailure> {
    let rows = from.administration().await.map_err(MoveFailure::Source)?;
    let (keys, limits) = (rows.api_keys, rows.tenant_limits);
    let paused = from.paused_queues().await.map_err(MoveFailure::Source)?;
    summary.administration(&keys, &limits, &paused);
    let pauses = paused.iter().cloned().map(PauseChange::Pause).collect();
    let uses = keys.iter().filter_map(|key| Some((key.id.clone(), key.last_used_at?))).collect();
    let act = Administration { keys, limits, pauses, uses, ..Administration::default() };
    administer(writer, &act).await?;
    let mut n = 0;
    loop {
        let page = records(from, n).await.map_err(MoveFailure::Source)?;
        let Some(last) = page.last() else { return Ok(()) };
        n = last.n;
        page.iter().for_each(|record| summary.record(record));
        let audit = page.into_iter().map(|record| record.audit).collect();
        administer(writer, &Administration { audit, ..Administration::default() }).await?;
    }
}

pub(super) async fn administer<W: Writer>(
    writer: &mut W,
    act: &Administration,
) -> Result<(), MoveFailure> {
    writer.administer(act).await.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => {
            MoveFailure::Destination(failure)
        }
    })
}

/// The audit records after the `n`th, oldest first: they are numbered without gaps.
pub(super) async fn records<B: Browse>(browse: &B, n: u64) -> Result<Vec<Audited>, Failure> {
    let filter = AuditFilter {
        before: Some(n + RECORDS as u64 + 1),
        limit: RECORDS,
        ..AuditFilter::default()
    };
    let mut page = browse.audit(&filter).await?;
    page.retain(|record| record.n > n);
    page.reverse();
    Ok(page)
}

/// Checks that each key which no other task may use now is found with its owner. Returns what is wrong.
pub(super) async fn check_key_owners<W: Writer>(
    writer: &mut W,
    page: &[StoredTask],
    at: Time,
) -> Result<Vec<String>, Failure> {
    let held = owned_keys(page, at);
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<IdempotencyKey> = held.iter().map(|(key, _)| key.clone()).collect();
    let mut batch = writer.begin().await?;
    let found = batch.look_up(Lookup::keys(&keys)).await?.owners;
    drop(batch);
    let owner = |found: Option<(KeyOwner, Loaded)>| found.map(|(owner, _)| owner);
    let found = found.into_iter().map(owner);
    let wrong = held.iter().zip(found).filter(|((_, held), found)| found.as_ref() != Some(held));
    Ok(wrong
        .map(|((_, held), _)| {
            format!("the idempotency key of {} is missing in the copy", held.task)
        })
        .collect())
}
