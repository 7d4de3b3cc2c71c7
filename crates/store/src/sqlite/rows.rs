//! Rows to values and back. One place knows the columns of each table and their order.

use rusqlite::types::{FromSql, Type};
use rusqlite::{Row, ToSql};
use verdict::{
    AttemptOutcome, CancelRequest, Closed, Digest, Done, End, Fence, Json, Lease, LeaseId, Name,
    Phase, Reason, Scope, Span, Stamp, State, Task, TaskId, Text, Time,
};

use super::order::{LaneId, Marks, Order};
use crate::codec::tale::Tale;
use crate::codec::{Stored, brief, terms};
use crate::row::{Entry, PollRef, Refused, Spec, TaskKey};

/// Reads a row's columns one after the other, in the order of the lists below.
pub(super) struct Columns<'a> {
    row: &'a Row<'a>,
    next: usize,
}

type Read<T> = rusqlite::Result<T>;

impl<'a> Columns<'a> {
    pub(super) fn of(row: &'a Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn take<T: FromSql>(&mut self) -> Read<T> {
        self.next += 1;
        self.row.get(self.next - 1)
    }

    /// A value whose stored spelling is not one we write.
    pub(super) fn strange(&self, what: &'static str) -> rusqlite::Error {
        self.unreadable(Type::Text, format!("not a {what}"))
    }

    pub(super) fn unreadable(
        &self,
        kind: Type,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(self.next - 1, kind, error.into())
    }

    /// Read where it lies, to be copied once.
    fn text(&mut self) -> Read<&'a str> {
        self.next += 1;
        let text = self.row.get_ref(self.next - 1)?.as_str();
        text.map_err(|error| self.unreadable(Type::Text, error))
    }

    fn optional(&mut self) -> Read<Option<&'a str>> {
        self.next += 1;
        let text = self.row.get_ref(self.next - 1)?.as_str_or_null();
        text.map_err(|error| self.unreadable(Type::Text, error))
    }

    pub(super) fn name(&mut self) -> Read<Name> {
        self.text().map(Name::from)
    }

    pub(super) fn optional_name(&mut self) -> Read<Option<Name>> {
        Ok(self.optional()?.map(Name::from))
    }

    pub(super) fn optional_text(&mut self) -> Read<Option<Text>> {
        Ok(self.optional()?.map(Text::from))
    }

    fn json(&mut self) -> Read<Json> {
        self.text().map(Json::from)
    }

    fn optional_json(&mut self) -> Read<Option<Json>> {
        Ok(self.optional()?.map(Json::from))
    }

    pub(super) fn time(&mut self) -> Read<Time> {
        self.take().map(Time::from_millis)
    }

    pub(super) fn optional_time(&mut self) -> Read<Option<Time>> {
        Ok(self.take::<Option<i64>>()?.map(Time::from_millis))
    }

    fn sixteen(&mut self) -> Read<u128> {
        self.take::<[u8; 16]>().map(u128::from_be_bytes)
    }

    pub(super) fn task_id(&mut self) -> Read<TaskId> {
        self.sixteen().map(TaskId::from_u128)
    }

    pub(super) fn digest(&mut self) -> Read<Digest> {
        self.take().map(Digest::from_bytes)
    }

    fn optional_digest(&mut self) -> Read<Option<Digest>> {
        Ok(self.take::<Option<[u8; 32]>>()?.map(Digest::from_bytes))
    }

    fn fence(&mut self) -> Read<Fence> {
        Ok(Fence::from_u64(self.take::<i64>()? as u64))
    }

    pub(super) fn scope(&mut self) -> Read<Scope> {
        Ok(Scope { tenant: self.name()?, workspace: self.name()? })
    }

    fn stored<T: Stored>(&mut self) -> Read<T> {
        let text = self.text()?;
        T::read(text).map_err(|error| self.unreadable(Type::Text, error))
    }

    fn optional_stored<T: Stored>(&mut self) -> Read<Option<T>> {
        self.optional()?
            .map(T::read)
            .transpose()
            .map_err(|error| self.unreadable(Type::Text, error))
    }

    /// Packed, or as text in rows from before policies were packed.
    fn policy(&mut self) -> Read<verdict::Policy> {
        match self.optional_bytes()? {
            None => self.stored(),
            Some(bytes) => {
                self.next += 1;
                terms::read(bytes).map_err(|error| self.unreadable(Type::Blob, error))
            }
        }
    }

    pub(super) fn tale(&mut self) -> Read<Tale> {
        Ok(Tale::from_bytes(self.optional_bytes()?.unwrap_or_default().to_vec()))
    }

    fn optional_bytes(&mut self) -> Read<Option<&'a [u8]>> {
        self.next += 1;
        let bytes = self.row.get_ref(self.next - 1)?.as_blob_or_null();
        bytes.map_err(|error| self.unreadable(Type::Blob, error))
    }

    fn state(&mut self) -> Read<State> {
        let name = self.text()?;
        State::parse(name).ok_or_else(|| self.strange("state"))
    }

    fn optional_reason(&mut self) -> Read<Option<Reason>> {
        let Some(name) = self.optional()? else { return Ok(None) };
        Reason::parse(name).ok_or_else(|| self.strange("reason")).map(Some)
    }
}

pub(super) fn id_bytes(id: TaskId) -> [u8; 16] {
    id.as_u128().to_be_bytes()
}

/// Columns of a task that lives, in three parts; tables `live l`, `lanes n`, and `live l`, `inputs i`.
/// Who knows the names of lanes leaves out the second.
pub(super) const WHERE: &str = "l.row, l.lane";
pub(super) const NAMES: &str = "n.tenant, n.workspace, n.kind, n.queue";
pub(super) const TASK: &str = "l.id, l.priority, i.terms, i.policy, i.created_at, l.started_at, \
    l.attempt, l.failures, l.lost, l.undelivered, l.claim_version, l.cancel, l.decided_at, \
    l.revision, l.entries, l.chain, l.state, l.due, l.lease, l.owner, l.fence, l.poll, \
    l.acquired_at, l.heartbeat_at, l.expires_at, l.attempt_at, l.heard, l.progress, l.tale";

/// What the tasks of a lane have in common.
#[derive(Clone)]
pub(super) struct Names {
    pub(super) scope: Scope,
    pub(super) kind: Name,
    pub(super) queue: Name,
}

impl Names {
    pub(super) fn read(columns: &mut Columns<'_>) -> Read<Self> {
        Ok(Self { scope: columns.scope()?, kind: columns.name()?, queue: columns.name()? })
    }
}

/// A live task with where it is stored.
#[derive(Clone)]
pub(super) struct LiveRow {
    pub(super) row: i64,
    pub(super) lane: LaneId,
    pub(super) task: Task,
    pub(super) tale: Tale,
}

pub(super) fn live_row(
    columns: &mut Columns<'_>,
    names: impl FnOnce(&mut Columns<'_>, LaneId) -> Read<Names>,
) -> Read<LiveRow> {
    let row = columns.take()?;
    let lane = LaneId(columns.take()?);
    let Names { scope, kind, queue } = names(columns, lane)?;
    let task = Task {
        id: columns.task_id()?,
        scope,
        kind,
        queue,
        priority: columns.take()?,
        policy: columns.policy()?,
        created_at: columns.time()?,
        started_at: columns.optional_time()?,
        attempt: columns.take()?,
        failures: columns.take()?,
        lost: columns.take()?,
        undelivered: columns.take()?,
        claim_version: columns.take()?,
        cancel: columns.optional_stored()?,
        decided_at: columns.time()?,
        revision: columns.take()?,
        entries: columns.take()?,
        chain: columns.digest()?,
        phase: phase(columns)?,
    };
    let tale = columns.tale()?;
    Ok(LiveRow { row, lane, task, tale })
}

fn phase(columns: &mut Columns<'_>) -> Read<Phase> {
    match columns.state()? {
        State::Queued => Ok(Phase::Queued { due: skip_lease(columns)? }),
        State::Retry => Ok(Phase::Retry { due: skip_lease(columns)? }),
        State::Running => {
            columns.next += 1;
            lease(columns).map(Phase::Running)
        }
        _ => Err(columns.strange("state of a live task")),
    }
}

const LEASE_COLUMNS: usize = 10;

fn skip_lease(columns: &mut Columns<'_>) -> Read<Time> {
    let due = columns.time()?;
    columns.next += LEASE_COLUMNS;
    Ok(due)
}

fn lease(columns: &mut Columns<'_>) -> Read<Lease> {
    Ok(Lease {
        id: columns.sixteen().map(LeaseId::from_u128)?,
        owner: columns.name()?,
        fence: columns.fence()?,
        poll: columns.optional_name()?,
        acquired_at: columns.time()?,
        heartbeat_at: columns.time()?,
        expires_at: columns.time()?,
        started_at: columns.optional_time()?,
        heard: columns.take()?,
        progress: columns.optional_stored()?,
    })
}

/// Columns that say where a live task stands; table `live l`.
pub(super) const MARKS: &str = "l.id, l.lane, l.priority, l.due, l.wakes_at, l.lease_ms, \
    l.owner, l.poll";

/// Memory knows the lanes by then.
pub(super) fn marks(columns: &mut Columns<'_>, order: &Order) -> Read<Marks> {
    let id = columns.task_id()?;
    let lane = LaneId(columns.take()?);
    let priority = columns.take()?;
    let claimable_at = columns.optional_time()?;
    let wakes_at = columns.optional_time()?;
    if claimable_at.is_some() {
        let (lease, poll) = (None, None);
        return Ok(Marks { id, lane, priority, claimable_at, wakes_at, lease, poll });
    }
    let lease = Some(Span::from_millis(columns.take::<i64>()? as u64));
    let Names { scope, .. } = order.names(lane).ok_or_else(|| columns.strange("lane"))?;
    let owner = columns.name()?;
    let poll = columns.optional_name()?.map(|poll| PollRef { scope, owner, poll });
    Ok(Marks { id, lane, priority, claimable_at, wakes_at, lease, poll })
}

/// Columns of a task that has ended; tables `done d`, `inputs i`, `lanes n`.
pub(super) const DONE: &str = "i.id, n.tenant, n.workspace, n.kind, n.queue, i.priority, \
    i.created_at, d.started_at, d.completed_at, d.attempt, d.failures, d.lost, d.claim_version, \
    d.cancel, d.state, d.reason, d.output, d.fault, d.entries, d.record";

pub(super) fn done(columns: &mut Columns<'_>) -> Read<Done> {
    Ok(Done {
        id: columns.task_id()?,
        scope: columns.scope()?,
        kind: columns.name()?,
        queue: columns.name()?,
        priority: columns.take()?,
        created_at: columns.time()?,
        started_at: columns.optional_time()?,
        completed_at: columns.time()?,
        attempt: columns.take()?,
        failures: columns.take()?,
        lost: columns.take()?,
        claim_version: columns.take()?,
        cancel: columns.optional_stored::<CancelRequest>()?,
        end: End {
            state: columns.state()?,
            reason: columns.optional_reason()?,
            output: columns.optional_json()?,
            fault: columns.optional_stored()?,
        },
        entries: columns.take()?,
        record: columns.digest()?,
    })
}

/// Columns of what a task was submitted with; table `inputs i`.
pub(super) const SPEC: &str = "i.input, i.goal, i.task_key, i.asset_id, i.resources, i.labels, \
    i.traceparent, i.key, i.fingerprint";

pub(super) fn spec(columns: &mut Columns<'_>) -> Read<Spec> {
    Ok(Spec {
        input: columns.json()?,
        goal: columns.optional_text()?,
        task_key: columns.optional_name()?,
        asset_id: columns.optional_text()?,
        resources: columns.optional_stored()?,
        labels: labels(columns)?,
        traceparent: columns.optional_text()?,
        key: columns.optional_text()?,
        fingerprint: columns.digest()?,
    })
}

fn labels(columns: &mut Columns<'_>) -> Read<std::collections::BTreeMap<String, String>> {
    let Some(text) = columns.optional()? else { return Ok(Default::default()) };
    serde_json::from_str(text).map_err(|error| columns.unreadable(Type::Text, error))
}

pub(super) const CLOSED: &str = "a.attempt, a.lease, a.fence, a.owner, a.granted_at, \
    a.started_at, a.closed_at, a.outcome, a.reason, a.fault, a.report, a.claims";

pub(super) fn closed(task: TaskId, columns: &mut Columns<'_>) -> Read<Closed> {
    Ok(Closed {
        task,
        attempt: columns.take()?,
        lease: columns.sixteen().map(LeaseId::from_u128)?,
        fence: columns.fence()?,
        owner: columns.name()?,
        granted_at: columns.time()?,
        started_at: columns.optional_time()?,
        closed_at: columns.time()?,
        outcome: {
            let name = columns.text()?;
            AttemptOutcome::parse(name).ok_or_else(|| columns.strange("outcome"))?
        },
        reason: columns.optional_reason()?,
        fault: columns.optional_stored()?,
        report: columns.optional_digest()?,
        claims: columns.optional_json()?,
    })
}

pub(super) const ENTRY: &str = "h.n, h.at, h.epoch, h.rules, h.request, h.loaded, h.events";

pub(super) fn entry(task: TaskId, columns: &mut Columns<'_>) -> Read<Entry> {
    let (n, at) = (columns.take()?, columns.time()?);
    let (epoch, rules) = (columns.take()?, columns.take()?);
    let request = columns.stored()?;
    let loaded = columns.optional_stored()?;
    let events = brief::read(task, &request, columns.text()?);
    let events = events.map_err(|error| columns.unreadable(Type::Text, error))?;
    Ok(Entry { n, at, epoch, rules, request, loaded, events })
}

pub(super) const REFUSED: &str = "r.lease, r.attempt, r.worker, r.call, r.code, r.stamp, \
    r.digest, r.at";

pub(super) fn refused(task: &TaskKey, columns: &mut Columns<'_>) -> Read<Refused> {
    Ok(Refused {
        task: task.clone(),
        lease: columns.sixteen().map(LeaseId::from_u128)?,
        attempt: columns.take()?,
        worker: columns.name()?,
        call: columns.name()?,
        code: columns.name()?,
        stamp: {
            let name = columns.text()?;
            stamp(name).ok_or_else(|| columns.strange("stamp"))?
        },
        digest: columns.optional_digest()?,
        at: columns.time()?,
    })
}

pub(super) const fn stamp_name(stamp: Stamp) -> &'static str {
    match stamp {
        Stamp::Committed => "committed",
        Stamp::Cancelled => "cancelled",
        Stamp::Rejected => "rejected",
    }
}

fn stamp(name: &str) -> Option<Stamp> {
    [Stamp::Committed, Stamp::Cancelled, Stamp::Rejected]
        .into_iter()
        .find(|stamp| stamp_name(*stamp) == name)
}

/// A list of parameters of mixed types.
pub(super) type Parameters<'a> = &'a [&'a dyn ToSql];

pub(super) fn millis(time: Option<Time>) -> Option<i64> {
    time.map(Time::millis)
}

pub(super) fn written<T: Stored>(value: Option<&T>) -> Option<String> {
    value.map(Stored::write)
}

pub(super) fn text(text: Option<&Text>) -> Option<&str> {
    text.map(Text::as_str)
}
