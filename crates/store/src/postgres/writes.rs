//! Writing rows. Statements only; which rows, and in which order, is the batch's business.

use std::sync::LazyLock;

use verdict::{Closed, Done, Phase, Scope, Task, TaskId, Time};

use super::place::Place;
use super::rows::{id_bytes, millis, stamp_name, text, written};
use super::sheet::Kind::{Bool, Bytes, Int, Long, Text};
use super::sheet::{Heading, Sheet, names, unnest};
use crate::codec::{Stored, abridge, brief};
use crate::row::{Entry, Held, Key, Refused, Spec};

pub(super) const INPUTS: Heading = &[
    ("id", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("queue", Text),
    ("kind", Text),
    ("priority", Int),
    ("created_at", Long),
    ("policy", Text),
    ("fingerprint", Bytes),
    ("key", Text),
    ("goal", Text),
    ("task_key", Text),
    ("asset_id", Text),
    ("resources", Text),
    ("labels", Text),
    ("traceparent", Text),
    ("input", Text),
];

/// What changes in the life of a task, behind what names it.
const LIVE: Heading = &[
    ("id", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("state", Text),
    ("revision", Int),
    ("due", Long),
    ("delayed", Bool),
    ("wakes_at", Long),
    ("alarm_at", Long),
    ("started_at", Long),
    ("attempt", Int),
    ("failures", Int),
    ("lost", Int),
    ("undelivered", Int),
    ("claim_version", Int),
    ("decided_at", Long),
    ("entries", Int),
    ("chain", Bytes),
    ("cancel", Text),
    ("lease", Bytes),
    ("owner", Text),
    ("poll", Text),
    ("fence", Long),
    ("acquired_at", Long),
    ("heartbeat_at", Long),
    ("expires_at", Long),
    ("attempt_at", Long),
    ("heard", Bool),
    ("progress", Text),
    // Where a new task stands; the guard of one that is changed.
    ("queue", Text),
    ("kind", Text),
    ("place", Bytes),
    ("priority", Int),
    ("lease_ms", Long),
    ("before", Int),
    ("entries_before", Int),
];

/// How many of [`LIVE`]'s columns name the task, and how many an update sets after those.
const NAMING: usize = 3;
const CHANGING: usize = 26;
/// How many a new row has: all but the two of the guard.
const INSERTED: usize = LIVE.len() - 2;

const ENDED: Heading = &[
    ("id", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("before", Int),
    ("entries_before", Int),
];

const DONE: Heading = &[
    ("id", Bytes),
    ("tenant", Text),
    ("workspace", Text),
    ("state", Text),
    ("reason", Text),
    ("started_at", Long),
    ("completed_at", Long),
    ("attempt", Int),
    ("failures", Int),
    ("lost", Int),
    ("claim_version", Int),
    ("entries", Int),
    ("record", Bytes),
    ("cancel", Text),
    ("fault", Text),
    ("output", Text),
];

const ATTEMPTS: Heading = &[
    ("task", Bytes),
    ("attempt", Int),
    ("tenant", Text),
    ("workspace", Text),
    ("lease", Bytes),
    ("fence", Long),
    ("owner", Text),
    ("granted_at", Long),
    ("started_at", Long),
    ("closed_at", Long),
    ("outcome", Text),
    ("reason", Text),
    ("report", Bytes),
    ("fault", Text),
    ("claims", Text),
];

const HISTORY: Heading = &[
    ("task", Bytes),
    ("n", Int),
    ("tenant", Text),
    ("workspace", Text),
    ("at", Long),
    ("epoch", Int),
    ("rules", Int),
    ("request", Text),
    ("loaded", Text),
    ("events", Text),
];

const REFUSED: Heading = &[
    ("task", Bytes),
    ("lease", Bytes),
    ("call", Text),
    ("code", Text),
    ("tenant", Text),
    ("workspace", Text),
    ("attempt", Int),
    ("worker", Text),
    ("stamp", Text),
    ("digest", Bytes),
    ("at", Long),
];

const KEYS: Heading = &[
    ("tenant", Text),
    ("workspace", Text),
    ("key", Text),
    ("task", Bytes),
    ("fingerprint", Bytes),
    ("seen", Bytes),
];

/// Everything one batch writes, one sheet per statement, in the order in which they are sent.
pub(super) struct Sheets {
    pub(super) inputs: Sheet,
    pub(super) born: Sheet,
    pub(super) changed: Sheet,
    pub(super) ended: Sheet,
    pub(super) done: Sheet,
    pub(super) attempts: Sheet,
    pub(super) history: Sheet,
    pub(super) refused: Sheet,
    pub(super) keys: Sheet,
}

impl Sheets {
    pub(super) fn new() -> Self {
        Self {
            inputs: Sheet::new(INPUTS),
            born: Sheet::new(LIVE),
            changed: Sheet::new(LIVE),
            ended: Sheet::new(ENDED),
            done: Sheet::new(DONE),
            attempts: Sheet::new(ATTEMPTS),
            history: Sheet::new(HISTORY),
            refused: Sheet::new(REFUSED),
            keys: Sheet::new(KEYS),
        }
    }
}

/// What guards a change: the revision and the length of the history that were loaded.
#[derive(Clone, Copy)]
pub(super) struct Guard {
    pub(super) before: u32,
    pub(super) entries_before: Option<u32>,
}

/// What a live and an ended task have in common.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) id: TaskId,
    pub(super) scope: &'a Scope,
    queue: &'a verdict::Name,
    kind: &'a verdict::Name,
    priority: i32,
    created_at: Time,
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

fn named<'s>(sheet: &'s mut Sheet, id: TaskId, scope: &Scope) -> &'s mut Sheet {
    let sheet = sheet.row().bytes(Some(&id_bytes(id)));
    sheet.text(Some(scope.tenant.as_str())).text(Some(scope.workspace.as_str()))
}

pub(super) fn input(
    sheet: &mut Sheet,
    task: Named<'_>,
    policy: Option<&verdict::Policy>,
    spec: &Spec,
) {
    let labels = (!spec.labels.is_empty())
        .then(|| serde_json::to_string(&spec.labels).expect("labels are text"));
    named(sheet, task.id, task.scope)
        .text(Some(task.queue.as_str()))
        .text(Some(task.kind.as_str()))
        .int(Some(task.priority))
        .long(Some(task.created_at.millis()))
        .text(written(policy))
        .bytes(Some(spec.fingerprint.bytes()))
        .text(text(spec.key.as_ref()))
        .text(text(spec.goal.as_ref()))
        .text(spec.task_key.as_ref().map(|name| name.as_str()))
        .text(text(spec.asset_id.as_ref()))
        .text(written(spec.resources.as_ref()))
        .text(labels)
        .text(text(spec.traceparent.as_ref()))
        .text(Some(spec.input.as_str()));
}

/// A live task, new or changed.
pub(super) fn live(
    sheet: &mut Sheet,
    task: &Task,
    now: Time,
    alarm_at: Option<Time>,
    guard: Option<Guard>,
) {
    let due = task.claimable_at();
    let lease = match &task.phase {
        Phase::Running(lease) => Some(lease),
        Phase::Queued { .. } | Phase::Retry { .. } => None,
    };
    named(sheet, task.id, &task.scope)
        .text(Some(task.state().name()))
        .count(task.revision)
        .long(millis(due))
        .flag(Some(due.is_some_and(|due| !due.has_come(now))))
        .long(millis(task.wakes_at()))
        .long(millis(alarm_at))
        .long(millis(task.started_at))
        .count(task.attempt)
        .count(task.failures)
        .count(task.lost)
        .count(task.undelivered)
        .count(task.claim_version)
        .long(Some(task.decided_at.millis()))
        .count(task.entries)
        .bytes(Some(task.chain.bytes()))
        .text(written(task.cancel.as_ref()))
        .bytes(lease.map(|lease| lease.id.as_u128().to_be_bytes()).as_ref().map(|id| &id[..]))
        .text(lease.map(|lease| lease.owner.as_str()))
        .text(lease.and_then(|lease| lease.poll.as_ref()).map(|poll| poll.as_str()))
        .long(lease.map(|lease| lease.fence.as_u64() as i64))
        .long(lease.map(|lease| lease.acquired_at.millis()))
        .long(lease.map(|lease| lease.heartbeat_at.millis()))
        .long(lease.map(|lease| lease.expires_at.millis()))
        .long(millis(lease.and_then(|lease| lease.started_at)))
        .flag(lease.map(|lease| lease.heard))
        .text(written(lease.and_then(|lease| lease.progress.as_ref())))
        .text(Some(task.queue.as_str()))
        .text(Some(task.kind.as_str()))
        .bytes(Some(Place::new(task.priority, task.id).bytes()))
        .int(Some(task.priority))
        .long(Some(task.policy.lease.millis() as i64))
        .int(guard.map(|guard| guard.before as i32))
        .int(guard.and_then(|guard| guard.entries_before).map(|entries| entries as i32));
}

pub(super) fn ended(sheet: &mut Sheet, id: TaskId, scope: &Scope, guard: Guard) {
    named(sheet, id, scope)
        .count(guard.before)
        .int(guard.entries_before.map(|entries| entries as i32));
}

pub(super) fn done(sheet: &mut Sheet, done: &Done) {
    named(sheet, done.id, &done.scope)
        .text(Some(done.end.state.name()))
        .text(done.end.reason.map(|reason| reason.name()))
        .long(millis(done.started_at))
        .long(Some(done.completed_at.millis()))
        .count(done.attempt)
        .count(done.failures)
        .count(done.lost)
        .count(done.claim_version)
        .count(done.entries)
        .bytes(Some(done.record.bytes()))
        .text(written(done.cancel.as_ref()))
        .text(written(done.end.fault.as_ref()))
        .text(done.end.output.as_ref().map(|output| output.as_str()));
}

pub(super) fn attempt(sheet: &mut Sheet, scope: &Scope, closed: &Closed) {
    sheet
        .row()
        .bytes(Some(&id_bytes(closed.task)))
        .count(closed.attempt)
        .text(Some(scope.tenant.as_str()))
        .text(Some(scope.workspace.as_str()))
        .bytes(Some(&closed.lease.as_u128().to_be_bytes()))
        .long(Some(closed.fence.as_u64() as i64))
        .text(Some(closed.owner.as_str()))
        .long(Some(closed.granted_at.millis()))
        .long(millis(closed.started_at))
        .long(Some(closed.closed_at.millis()))
        .text(Some(closed.outcome.name()))
        .text(closed.reason.map(|reason| reason.name()))
        .bytes(closed.report.as_ref().map(|report| &report.bytes()[..]))
        .text(written(closed.fault.as_ref()))
        .text(closed.claims.as_ref().map(|claims| claims.as_str()));
}

pub(super) fn entry(sheet: &mut Sheet, id: TaskId, scope: &Scope, entry: &Entry) {
    let entry = abridge::abridge(entry);
    sheet
        .row()
        .bytes(Some(&id_bytes(id)))
        .count(entry.n)
        .text(Some(scope.tenant.as_str()))
        .text(Some(scope.workspace.as_str()))
        .long(Some(entry.at.millis()))
        .count(entry.epoch)
        .count(entry.rules)
        .text(Some(entry.request.write()))
        .text(written(entry.loaded.as_ref()))
        .text(Some(brief::write(&entry.request, &entry.events)));
}

pub(super) fn refused(sheet: &mut Sheet, refused: &Refused) {
    let scope = &refused.task.scope;
    sheet
        .row()
        .bytes(Some(&id_bytes(refused.task.id)))
        .bytes(Some(&refused.lease.as_u128().to_be_bytes()))
        .text(Some(refused.call.as_str()))
        .text(Some(refused.code.as_str()))
        .text(Some(scope.tenant.as_str()))
        .text(Some(scope.workspace.as_str()))
        .count(refused.attempt)
        .text(Some(refused.worker.as_str()))
        .text(Some(stamp_name(refused.stamp)))
        .bytes(refused.digest.as_ref().map(|digest| &digest.bytes()[..]))
        .long(Some(refused.at.millis()));
}

/// A key with the task it belongs to from now on, and the one it was seen to belong to.
pub(super) fn key(sheet: &mut Sheet, key: &Key, held: &Held, seen: Option<TaskId>) {
    sheet
        .row()
        .text(Some(key.scope.tenant.as_str()))
        .text(Some(key.scope.workspace.as_str()))
        .text(Some(key.text.as_str()))
        .bytes(Some(&id_bytes(held.task)))
        .bytes(Some(held.fingerprint.bytes()))
        .bytes(seen.map(id_bytes).as_ref().map(|id| &id[..]));
}

fn insert(table: &str, heading: Heading, from: Heading, tail: &str) -> String {
    format!(
        "INSERT INTO tenure.{table} ({}) SELECT {} FROM {} ORDER BY u.ord {tail}",
        names(heading, "").join(", "),
        names(heading, "u.").join(", "),
        unnest(from)
    )
}

pub(super) static INPUTS_INSERT: LazyLock<String> =
    LazyLock::new(|| insert("inputs", INPUTS, INPUTS, "ON CONFLICT (id) DO NOTHING RETURNING id"));

pub(super) static LIVE_INSERT: LazyLock<String> =
    LazyLock::new(|| insert("live", &LIVE[..INSERTED], LIVE, ""));

const GUARDED: &str = "l.id = u.id AND l.tenant = u.tenant AND l.workspace = u.workspace \
    AND l.revision = u.before AND (u.entries_before IS NULL OR l.entries = u.entries_before)";

pub(super) static LIVE_UPDATE: LazyLock<String> = LazyLock::new(|| {
    let columns = &LIVE[NAMING..NAMING + CHANGING];
    let set: Vec<String> = columns.iter().map(|(name, _)| format!("{name} = u.{name}")).collect();
    format!(
        "UPDATE tenure.live l SET {} FROM {} WHERE {GUARDED} RETURNING l.id",
        set.join(", "),
        unnest(LIVE)
    )
});

pub(super) static LIVE_DELETE: LazyLock<String> = LazyLock::new(|| {
    format!("DELETE FROM tenure.live l USING {} WHERE {GUARDED} RETURNING l.id", unnest(ENDED))
});

pub(super) static DONE_INSERT: LazyLock<String> = LazyLock::new(|| insert("done", DONE, DONE, ""));

pub(super) static ATTEMPTS_INSERT: LazyLock<String> =
    LazyLock::new(|| insert("attempts", ATTEMPTS, ATTEMPTS, ""));

pub(super) static HISTORY_INSERT: LazyLock<String> =
    LazyLock::new(|| insert("history", HISTORY, HISTORY, ""));

/// The first refusal of its kind under a lease; later ones say nothing new. Calls about no task of ours
/// leave nothing.
pub(super) static REFUSED_INSERT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO tenure.refused ({}, ord) SELECT {}, u.ord FROM {} \
         JOIN tenure.inputs i ON i.id = u.task AND i.tenant = u.tenant AND i.workspace = u.workspace \
         ORDER BY u.ord ON CONFLICT (task, lease, call, code) DO NOTHING",
        names(REFUSED, "").join(", "),
        names(REFUSED, "u.").join(", "),
        unnest(REFUSED)
    )
});

/// Takes a key that belongs to nobody, or still to the one it was seen to belong to. In order, so that
/// two batches never wait for each other in a circle.
pub(super) static KEYS_WRITE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO tenure.keys AS k (tenant, workspace, key, task, fingerprint) \
         SELECT u.tenant, u.workspace, u.key, u.task, u.fingerprint FROM {} ORDER BY u.ord \
         ON CONFLICT (tenant, workspace, key) DO UPDATE \
            SET task = excluded.task, fingerprint = excluded.fingerprint \
            WHERE (k.tenant, k.workspace, k.key, k.task) IN (SELECT v.tenant, v.workspace, v.key, v.seen \
                FROM unnest($1::text[], $2::text[], $3::text[], $6::bytea[]) \
                AS v(tenant, workspace, key, seen)) \
         RETURNING k.task",
        unnest(KEYS)
    )
});
