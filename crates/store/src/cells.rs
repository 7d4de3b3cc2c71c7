//! From values to cells: the writing that all engines with tables share.
//!
//! An engine defines where a cell goes: into a parameter of a statement, or into a column of many rows. Which
//! cells a task, an end or an attempt has, and in which order, is defined here once.

use verdict::{ClosedAttempt, Done, LeaseId, Name, Phase, Policy, Scope, Task, TaskId, Text, Time};

use crate::codec::inline_history::InlineHistory;
use crate::codec::{Stored, delta, packed_policy, payload_digest};
use crate::columns::{id_bytes, worker_verdict_name};
use crate::row::{Entry, Refused, Spec};

/// Takes cells one after the other. A cell that could not be taken is reported at the end of the row.
pub(crate) trait Cells {
    fn text(&mut self, value: Option<&str>) -> &mut Self;
    fn bytes(&mut self, value: Option<&[u8]>) -> &mut Self;
    fn int(&mut self, value: i32) -> &mut Self;
    /// A count, which may use all 32 bits.
    fn count(&mut self, value: u32) -> &mut Self;
    fn long(&mut self, value: Option<i64>) -> &mut Self;
    fn flag(&mut self, value: Option<bool>) -> &mut Self;

    fn name(&mut self, value: &Name) -> &mut Self {
        self.text(Some(value.as_str()))
    }

    fn free_text(&mut self, value: Option<&Text>) -> &mut Self {
        self.text(value.map(Text::as_str))
    }

    fn time(&mut self, value: Time) -> &mut Self {
        self.long(Some(value.millis()))
    }

    fn optional_time(&mut self, value: Option<Time>) -> &mut Self {
        self.long(value.map(Time::millis))
    }

    fn id(&mut self, value: TaskId) -> &mut Self {
        self.bytes(Some(&id_bytes(value)))
    }

    fn lease(&mut self, value: Option<LeaseId>) -> &mut Self {
        let bytes = value.map(|lease| lease.as_u128().to_be_bytes());
        self.bytes(bytes.as_ref().map(|bytes| &bytes[..]))
    }

    fn stored<T: Stored>(&mut self, value: Option<&T>) -> &mut Self {
        self.text(value.map(Stored::write).as_deref())
    }

    fn inline_history(&mut self, inline_history: &InlineHistory) -> &mut Self {
        self.bytes(inline_history.bytes())
    }
}

/// What live and ended tasks have in common.
#[derive(Clone, Copy)]
pub(crate) struct TaskIdentity<'a> {
    pub(crate) id: TaskId,
    pub(crate) scope: &'a Scope,
    pub(crate) queue: &'a Name,
    pub(crate) kind: &'a Name,
    pub(crate) priority: i32,
    pub(crate) created_at: Time,
}

impl<'a> TaskIdentity<'a> {
    pub(crate) fn live(task: &'a Task) -> Self {
        let Task { id, scope, queue, kind, priority, created_at, .. } = task;
        let (id, priority, created_at) = (*id, *priority, *created_at);
        Self { id, scope, queue, kind, priority, created_at }
    }

    pub(crate) fn done(done: &'a Done) -> Self {
        let Done { id, scope, queue, kind, priority, created_at, .. } = done;
        let (id, priority, created_at) = (*id, *priority, *created_at);
        Self { id, scope, queue, kind, priority, created_at }
    }
}

/// `priority, created_at, terms, fingerprint, key, goal, task_key, asset_id, resources, labels,
/// traceparent, input, tale`: here `tale` is the inline history of the submission.
pub(crate) fn input(
    cells: &mut impl Cells,
    task: TaskIdentity<'_>,
    policy: Option<&Policy>,
    spec: &Spec,
    inline_history: &InlineHistory,
) {
    let labels = (!spec.labels.is_empty())
        .then(|| serde_json::to_string(&spec.labels).expect("labels are text"));
    cells
        .int(task.priority)
        .time(task.created_at)
        .bytes(policy.map(packed_policy::write).as_deref())
        .bytes(Some(spec.fingerprint.bytes()))
        .free_text(spec.key.as_ref())
        .free_text(spec.goal.as_ref())
        .text(spec.task_key.as_ref().map(Name::as_str))
        .free_text(spec.asset_id.as_ref())
        .stored(spec.resources.as_ref())
        .text(labels.as_deref())
        .free_text(spec.traceparent.as_ref())
        .text(Some(spec.input.as_str()))
        .inline_history(inline_history);
}

/// `state, revision, due, wakes_at, started_at, attempt, failures, lost, undelivered, claim_version,
/// decided_at, entries, chain, cancel, lease, owner, poll, fence, acquired_at, heartbeat_at, expires_at,
/// attempt_at, heard, progress, tale`: the columns that change while a task lives.
pub(crate) fn changing(cells: &mut impl Cells, task: &Task, inline_history: &InlineHistory) {
    let lease = match &task.phase {
        Phase::Running(lease) => Some(lease),
        Phase::Queued { .. } | Phase::Retry { .. } => None,
    };
    cells
        .text(Some(task.state().name()))
        .count(task.revision)
        .optional_time(task.claimable_at())
        .optional_time(task.wakes_at())
        .optional_time(task.started_at)
        .count(task.attempt)
        .count(task.failures)
        .count(task.lost)
        .count(task.undelivered)
        .count(task.claim_version)
        .time(task.decided_at)
        .count(task.entries)
        .bytes(Some(task.chain.bytes()))
        .stored(task.cancel.as_ref())
        .lease(lease.map(|lease| lease.id))
        .text(lease.map(|lease| lease.owner.as_str()))
        .text(lease.and_then(|lease| lease.poll.as_ref()).map(Name::as_str))
        .long(lease.map(|lease| lease.fence.as_u64() as i64))
        .optional_time(lease.map(|lease| lease.acquired_at))
        .optional_time(lease.map(|lease| lease.heartbeat_at))
        .optional_time(lease.map(|lease| lease.expires_at))
        .optional_time(lease.and_then(|lease| lease.started_at))
        .flag(lease.map(|lease| lease.heard))
        .stored(lease.and_then(|lease| lease.progress.as_ref()))
        .inline_history(inline_history);
}

/// `state, reason, started_at, completed_at, attempt, failures, lost, claim_version, entries, record,
/// cancel, fault, output, tale`.
pub(crate) fn done(cells: &mut impl Cells, done: &Done, inline_history: &InlineHistory) {
    cells
        .text(Some(done.end.state.name()))
        .text(done.end.reason.map(|reason| reason.name()))
        .optional_time(done.started_at)
        .time(done.completed_at)
        .count(done.attempt)
        .count(done.failures)
        .count(done.lost)
        .count(done.claim_version)
        .count(done.entries)
        .bytes(Some(done.record.bytes()))
        .stored(done.cancel.as_ref())
        .stored(done.end.fault.as_ref())
        .text(done.end.output.as_ref().map(|output| output.as_str()))
        .inline_history(inline_history);
}

/// `attempt, lease, fence, owner, granted_at, started_at, closed_at, outcome, reason, report, fault, claims`.
pub(crate) fn attempt(cells: &mut impl Cells, closed: &ClosedAttempt) {
    cells
        .count(closed.attempt)
        .lease(Some(closed.lease))
        .long(Some(closed.fence.as_u64() as i64))
        .name(&closed.owner)
        .time(closed.granted_at)
        .optional_time(closed.started_at)
        .time(closed.closed_at)
        .text(Some(closed.outcome.name()))
        .text(closed.reason.map(|reason| reason.name()))
        .bytes(closed.report.as_ref().map(|report| &report.bytes()[..]))
        .stored(closed.fault.as_ref())
        .text(closed.claims.as_ref().map(|claims| claims.as_str()));
}

/// `n, at, epoch, rules, request, loaded, events`.
pub(crate) fn entry(cells: &mut impl Cells, entry: &Entry) {
    let entry = payload_digest::digest_payloads(entry);
    cells
        .count(entry.n)
        .time(entry.at)
        .count(entry.epoch)
        .count(entry.rules)
        .text(Some(&entry.request.write()))
        .stored(entry.loaded.as_ref())
        .text(Some(&delta::write(&entry.request, &entry.events)));
}

/// `lease, call, code, attempt, worker, stamp, digest, at`.
pub(crate) fn refused(cells: &mut impl Cells, refused: &Refused) {
    cells
        .lease(Some(refused.lease))
        .name(&refused.call)
        .name(&refused.code)
        .count(refused.attempt)
        .name(&refused.worker)
        .text(Some(worker_verdict_name(refused.worker_verdict)))
        .bytes(refused.digest.as_ref().map(|digest| &digest.bytes()[..]))
        .time(refused.at);
}
