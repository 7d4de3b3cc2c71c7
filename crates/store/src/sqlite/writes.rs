//! Writing rows. Statements only; which ones, in which order, is the batch's business.

use rusqlite::{Connection, params};
use verdict::{Closed, Done, Phase, Task};

use super::order::LaneId;
use super::rows::{LiveRow, id_bytes, millis, stamp_name, text, written};
use super::statements::{Hot, Statements};
use crate::codec::tale::Tale;
use crate::codec::{Stored, abridge, brief, terms};
use crate::row::{Entry, Refused, Spec};

type Written<T> = rusqlite::Result<T>;

pub(super) fn lane(connection: &Connection, lane: LaneId, task: Named<'_>) -> Written<()> {
    connection
        .prepare_cached(
            "INSERT INTO lanes (lane, tenant, workspace, queue, kind) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            lane.0,
            task.scope.tenant.as_str(),
            task.scope.workspace.as_str(),
            task.queue.as_str(),
            task.kind.as_str(),
        ])?;
    Ok(())
}

/// What a live and an ended task have in common.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) id: verdict::TaskId,
    pub(super) scope: &'a verdict::Scope,
    pub(super) queue: &'a verdict::Name,
    pub(super) kind: &'a verdict::Name,
    pub(super) priority: i32,
    pub(super) created_at: verdict::Time,
}

impl<'a> Named<'a> {
    pub(super) fn live(task: &'a Task) -> Self {
        let Task { id, scope, queue, kind, priority, created_at, .. } = task;
        let (id, priority, created_at) = (*id, *priority, *created_at);
        Self { id, scope, queue, kind, priority, created_at }
    }

    pub(super) fn done(done: &'a Done) -> Self {
        let Done { id, scope, queue, kind, priority, created_at, .. } = done;
        let (id, priority, created_at) = (*id, *priority, *created_at);
        Self { id, scope, queue, kind, priority, created_at }
    }
}

/// A row of `inputs`.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) row: i64,
    pub(super) lane: LaneId,
    pub(super) task: Named<'a>,
    pub(super) policy: Option<&'a verdict::Policy>,
    pub(super) spec: &'a Spec,
    pub(super) tale: &'a Tale,
}

pub(super) fn input(statements: &mut Statements<'_>, input: Input<'_>) -> Written<()> {
    let Input { row, lane, task, policy, spec, tale } = input;
    let labels = (!spec.labels.is_empty())
        .then(|| serde_json::to_string(&spec.labels).expect("labels are text"));
    statements
        .get(
            Hot::Input,
            "INSERT INTO inputs (row, id, lane, priority, created_at, terms, fingerprint, key,
                goal, task_key, asset_id, resources, labels, traceparent, input, tale)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?
        .execute(params![
            row,
            id_bytes(task.id),
            lane.0,
            task.priority,
            task.created_at.millis(),
            policy.map(terms::write),
            spec.fingerprint.bytes(),
            text(spec.key.as_ref()),
            text(spec.goal.as_ref()),
            spec.task_key.as_ref().map(|name| name.as_str()),
            text(spec.asset_id.as_ref()),
            written(spec.resources.as_ref()),
            labels,
            text(spec.traceparent.as_ref()),
            spec.input.as_str(),
            tale.bytes(),
        ])?;
    Ok(())
}

const LIVE_INSERT: &str = "INSERT INTO live (state, revision, due, wakes_at, started_at, attempt,
        failures, lost, undelivered, claim_version, decided_at, entries, chain, cancel, lease,
        owner, poll, fence, acquired_at, heartbeat_at, expires_at, attempt_at, heard, progress,
        tale, row, id, lane, priority, lease_ms)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
        ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)";

const LIVE_UPDATE: &str = "UPDATE live SET state = ?1, revision = ?2, due = ?3, wakes_at = ?4,
        started_at = ?5, attempt = ?6, failures = ?7, lost = ?8, undelivered = ?9,
        claim_version = ?10, decided_at = ?11, entries = ?12, chain = ?13, cancel = ?14,
        lease = ?15, owner = ?16, poll = ?17, fence = ?18, acquired_at = ?19, heartbeat_at = ?20,
        expires_at = ?21, attempt_at = ?22, heard = ?23, progress = ?24, tale = ?25
    WHERE row = ?26 AND revision = ?27";

pub(super) fn live_insert(statements: &mut Statements<'_>, live: &LiveRow) -> Written<()> {
    let LiveRow { row, lane, task, tale } = live;
    let statement = statements.get(Hot::LiveInsert, LIVE_INSERT)?;
    bind_changing(statement, task, tale)?;
    statement.raw_bind_parameter(26, row)?;
    statement.raw_bind_parameter(27, id_bytes(task.id))?;
    statement.raw_bind_parameter(28, lane.0)?;
    statement.raw_bind_parameter(29, task.priority)?;
    statement.raw_bind_parameter(30, task.policy.lease.millis() as i64)?;
    statement.raw_execute().map(drop)
}

/// How many rows had this revision: one, or none when somebody else came first.
pub(super) fn live_update(
    statements: &mut Statements<'_>,
    row: i64,
    before: u32,
    task: &Task,
    tale: &Tale,
) -> Written<usize> {
    let statement = statements.get(Hot::LiveUpdate, LIVE_UPDATE)?;
    bind_changing(statement, task, tale)?;
    statement.raw_bind_parameter(26, row)?;
    statement.raw_bind_parameter(27, before)?;
    statement.raw_execute()
}

/// The columns that change in the life of a task, in the order of both statements above.
fn bind_changing(statement: &mut rusqlite::Statement<'_>, task: &Task, tale: &Tale) -> Written<()> {
    statement.raw_bind_parameter(1, task.state().name())?;
    statement.raw_bind_parameter(2, task.revision)?;
    statement.raw_bind_parameter(3, millis(task.claimable_at()))?;
    statement.raw_bind_parameter(4, millis(task.wakes_at()))?;
    statement.raw_bind_parameter(5, millis(task.started_at))?;
    statement.raw_bind_parameter(6, task.attempt)?;
    statement.raw_bind_parameter(7, task.failures)?;
    statement.raw_bind_parameter(8, task.lost)?;
    statement.raw_bind_parameter(9, task.undelivered)?;
    statement.raw_bind_parameter(10, task.claim_version)?;
    statement.raw_bind_parameter(11, task.decided_at.millis())?;
    statement.raw_bind_parameter(12, task.entries)?;
    statement.raw_bind_parameter(13, task.chain.bytes())?;
    statement.raw_bind_parameter(14, written(task.cancel.as_ref()))?;
    let lease = match &task.phase {
        Phase::Running(lease) => Some(lease),
        Phase::Queued { .. } | Phase::Retry { .. } => None,
    };
    statement.raw_bind_parameter(15, lease.map(|lease| lease.id.as_u128().to_be_bytes()))?;
    statement.raw_bind_parameter(16, lease.map(|lease| lease.owner.as_str()))?;
    let poll = lease.and_then(|lease| lease.poll.as_ref());
    statement.raw_bind_parameter(17, poll.map(|poll| poll.as_str()))?;
    statement.raw_bind_parameter(18, lease.map(|lease| lease.fence.as_u64() as i64))?;
    statement.raw_bind_parameter(19, lease.map(|lease| lease.acquired_at.millis()))?;
    statement.raw_bind_parameter(20, lease.map(|lease| lease.heartbeat_at.millis()))?;
    statement.raw_bind_parameter(21, lease.map(|lease| lease.expires_at.millis()))?;
    statement.raw_bind_parameter(22, millis(lease.and_then(|lease| lease.started_at)))?;
    statement.raw_bind_parameter(23, lease.map(|lease| lease.heard))?;
    let progress = lease.and_then(|lease| lease.progress.as_ref());
    statement.raw_bind_parameter(24, written(progress))?;
    statement.raw_bind_parameter(25, tale.bytes())
}

pub(super) fn live_delete(
    statements: &mut Statements<'_>,
    row: i64,
    before: u32,
) -> Written<usize> {
    statements
        .get(Hot::LiveDelete, "DELETE FROM live WHERE row = ?1 AND revision = ?2")?
        .execute(params![row, before])
}

pub(super) fn done_insert(
    statements: &mut Statements<'_>,
    row: i64,
    done: &Done,
    tale: &Tale,
) -> Written<()> {
    statements
        .get(
            Hot::Done,
            "INSERT INTO done (row, state, reason, started_at, completed_at, attempt, failures,
                lost, claim_version, entries, record, cancel, fault, output, tale)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(params![
            row,
            done.end.state.name(),
            done.end.reason.map(|reason| reason.name()),
            millis(done.started_at),
            done.completed_at.millis(),
            done.attempt,
            done.failures,
            done.lost,
            done.claim_version,
            done.entries,
            done.record.bytes(),
            written(done.cancel.as_ref()),
            written(done.end.fault.as_ref()),
            done.end.output.as_ref().map(|output| output.as_str()),
            tale.bytes(),
        ])?;
    Ok(())
}

pub(super) fn attempt(statements: &mut Statements<'_>, row: i64, closed: &Closed) -> Written<()> {
    statements
        .get(
            Hot::Attempt,
            "INSERT INTO attempts (task, attempt, lease, fence, owner, granted_at, started_at,
                closed_at, outcome, reason, report, fault, claims)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            row,
            closed.attempt,
            closed.lease.as_u128().to_be_bytes(),
            closed.fence.as_u64() as i64,
            closed.owner.as_str(),
            closed.granted_at.millis(),
            millis(closed.started_at),
            closed.closed_at.millis(),
            closed.outcome.name(),
            closed.reason.map(|reason| reason.name()),
            closed.report.as_ref().map(|report| report.bytes()),
            written(closed.fault.as_ref()),
            closed.claims.as_ref().map(|claims| claims.as_str()),
        ])?;
    Ok(())
}

pub(super) fn entry(connection: &Connection, row: i64, entry: &Entry) -> Written<()> {
    let entry = abridge::abridge(entry);
    connection
        .prepare_cached(
            "INSERT INTO history (task, n, at, epoch, rules, request, loaded, events)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            row,
            entry.n,
            entry.at.millis(),
            entry.epoch,
            entry.rules,
            entry.request.write(),
            written(entry.loaded.as_ref()),
            brief::write(&entry.request, &entry.events),
        ])?;
    Ok(())
}

/// The first refusal of its kind under a lease; later ones say nothing new.
pub(super) fn refused(connection: &Connection, row: i64, refused: &Refused) -> Written<()> {
    connection
        .prepare_cached(
            "INSERT INTO refused (task, lease, call, code, attempt, worker, stamp, digest, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (task, lease, call, code) DO NOTHING",
        )?
        .execute(params![
            row,
            refused.lease.as_u128().to_be_bytes(),
            refused.call.as_str(),
            refused.code.as_str(),
            refused.attempt,
            refused.worker.as_str(),
            stamp_name(refused.stamp),
            refused.digest.as_ref().map(|digest| digest.bytes()),
            refused.at.millis(),
        ])?;
    Ok(())
}

pub(super) fn clock(connection: &Connection, now: verdict::Time) -> Written<()> {
    connection
        .prepare_cached("UPDATE meta SET clock = max(coalesce(clock, ?1), ?1)")?
        .execute([now.millis()])?;
    Ok(())
}
