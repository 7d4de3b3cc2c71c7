//! Rows to values. One place knows the columns of each table and their order.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use verdict::{
    AttemptOutcome, CancelRequest, Closed, Digest, Done, End, Fence, Json, Lease, LeaseId, Name,
    Phase, Reason, Scope, Stamp, State, Task, TaskId, Text, Time,
};

use super::place::{PLACE_BYTES, Place};
use crate::codec::{Stored, brief};
use crate::failure::{Failure, FailureKind};
use crate::row::{Entry, Refused, Spec, TaskKey};

/// Reads a row's columns one after the other, in the order of the lists below.
pub(super) struct Columns<'a> {
    row: &'a Row,
    next: usize,
}

type Read<T> = Result<T, Failure>;

impl<'a> Columns<'a> {
    pub(super) fn of(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn take<T: FromSql<'a>>(&mut self) -> Read<T> {
        self.next += 1;
        self.row.try_get(self.next - 1).map_err(|error| self.unreadable(error))
    }

    /// A count, which may use all 32 bits.
    pub(super) fn count(&mut self) -> Read<u32> {
        Ok(self.take::<i32>()? as u32)
    }

    /// A value whose stored spelling is not one we write.
    fn strange(&self, what: &'static str) -> Failure {
        self.unreadable(format!("not a {what}"))
    }

    pub(super) fn unreadable(
        &self,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Failure {
        let column = self.row.columns().get(self.next - 1).map_or("?", |column| column.name());
        let what = format!("reading a stored row (column {column})");
        Failure::new(FailureKind::Fatal, what).because(error)
    }

    fn fixed<const N: usize>(&mut self) -> Read<[u8; N]> {
        let bytes: &[u8] = self.take()?;
        bytes.try_into().map_err(|error: std::array::TryFromSliceError| self.unreadable(error))
    }

    pub(super) fn optional_fixed<const N: usize>(&mut self) -> Read<Option<[u8; N]>> {
        let Some(bytes) = self.take::<Option<&[u8]>>()? else { return Ok(None) };
        let fixed = bytes.try_into();
        fixed.map(Some).map_err(|error: std::array::TryFromSliceError| self.unreadable(error))
    }

    pub(super) fn place(&mut self) -> Read<Place> {
        self.fixed::<PLACE_BYTES>().map(Place::from_bytes)
    }

    pub(super) fn name(&mut self) -> Read<Name> {
        Ok(Name::from(self.take::<String>()?))
    }

    pub(super) fn optional_name(&mut self) -> Read<Option<Name>> {
        Ok(self.take::<Option<String>>()?.map(Name::from))
    }

    pub(super) fn optional_text(&mut self) -> Read<Option<Text>> {
        Ok(self.take::<Option<String>>()?.map(Text::from))
    }

    fn optional_json(&mut self) -> Read<Option<Json>> {
        Ok(self.take::<Option<String>>()?.map(Json::from))
    }

    pub(super) fn time(&mut self) -> Read<Time> {
        self.take().map(Time::from_millis)
    }

    pub(super) fn optional_time(&mut self) -> Read<Option<Time>> {
        Ok(self.take::<Option<i64>>()?.map(Time::from_millis))
    }

    pub(super) fn sixteen(&mut self) -> Read<u128> {
        self.fixed().map(u128::from_be_bytes)
    }

    pub(super) fn task_id(&mut self) -> Read<TaskId> {
        self.sixteen().map(TaskId::from_u128)
    }

    pub(super) fn digest(&mut self) -> Read<Digest> {
        self.fixed().map(Digest::from_bytes)
    }

    pub(super) fn optional_digest(&mut self) -> Read<Option<Digest>> {
        Ok(self.optional_fixed()?.map(Digest::from_bytes))
    }

    fn fence(&mut self) -> Read<Fence> {
        Ok(Fence::from_u64(self.take::<i64>()? as u64))
    }

    pub(super) fn scope(&mut self) -> Read<Scope> {
        Ok(Scope { tenant: self.name()?, workspace: self.name()? })
    }

    fn stored<T: Stored>(&mut self) -> Read<T> {
        let text: String = self.take()?;
        T::read(&text).map_err(|error| self.unreadable(error))
    }

    fn optional_stored<T: Stored>(&mut self) -> Read<Option<T>> {
        let text: Option<String> = self.take()?;
        let read = |text: String| T::read(&text);
        text.map(read).transpose().map_err(|error| self.unreadable(error))
    }

    fn state(&mut self) -> Read<State> {
        let name: String = self.take()?;
        State::parse(&name).ok_or_else(|| self.strange("state"))
    }

    fn optional_reason(&mut self) -> Read<Option<Reason>> {
        let Some(name) = self.take::<Option<String>>()? else { return Ok(None) };
        Reason::parse(&name).ok_or_else(|| self.strange("reason")).map(Some)
    }
}

pub(super) fn id_bytes(id: TaskId) -> [u8; 16] {
    id.as_u128().to_be_bytes()
}

/// Columns of a task that lives; tables `live l`, `inputs i`.
pub(super) const TASK: &str = "l.alarm_at, l.id, l.tenant, l.workspace, l.kind, l.queue, \
    l.priority, i.policy, i.created_at, l.started_at, l.attempt, l.failures, l.lost, \
    l.undelivered, l.claim_version, l.cancel, l.decided_at, l.revision, l.entries, l.chain, \
    l.state, l.due, l.lease, l.owner, l.fence, l.poll, l.acquired_at, l.heartbeat_at, \
    l.expires_at, l.attempt_at, l.heard, l.progress";

/// A live task, and when the table's alarm for it rings: never later than it wakes.
#[derive(Clone)]
pub(super) struct LiveRow {
    pub(super) alarm_at: Option<Time>,
    pub(super) task: Task,
}

pub(super) fn live_row(columns: &mut Columns<'_>) -> Read<LiveRow> {
    let alarm_at = columns.optional_time()?;
    let task = Task {
        id: columns.task_id()?,
        scope: columns.scope()?,
        kind: columns.name()?,
        queue: columns.name()?,
        priority: columns.take()?,
        policy: columns.stored()?,
        created_at: columns.time()?,
        started_at: columns.optional_time()?,
        attempt: columns.count()?,
        failures: columns.count()?,
        lost: columns.count()?,
        undelivered: columns.count()?,
        claim_version: columns.count()?,
        cancel: columns.optional_stored()?,
        decided_at: columns.time()?,
        revision: columns.count()?,
        entries: columns.count()?,
        chain: columns.digest()?,
        phase: phase(columns)?,
    };
    Ok(LiveRow { alarm_at, task })
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

/// Columns of a task that has ended; tables `done d`, `inputs i`.
pub(super) const DONE: &str = "i.id, i.tenant, i.workspace, i.kind, i.queue, i.priority, \
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
        attempt: columns.count()?,
        failures: columns.count()?,
        lost: columns.count()?,
        claim_version: columns.count()?,
        cancel: columns.optional_stored::<CancelRequest>()?,
        end: End {
            state: columns.state()?,
            reason: columns.optional_reason()?,
            output: columns.optional_json()?,
            fault: columns.optional_stored()?,
        },
        entries: columns.count()?,
        record: columns.digest()?,
    })
}

/// Columns of what a task was submitted with; table `inputs i`.
pub(super) const SPEC: &str = "i.input, i.goal, i.task_key, i.asset_id, i.resources, i.labels, \
    i.traceparent, i.key, i.fingerprint";

pub(super) fn spec(columns: &mut Columns<'_>) -> Read<Spec> {
    Ok(Spec {
        input: Json::from(columns.take::<String>()?),
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
    let Some(text) = columns.take::<Option<String>>()? else { return Ok(Default::default()) };
    serde_json::from_str(&text).map_err(|error| columns.unreadable(error))
}

pub(super) const CLOSED: &str = "a.attempt, a.lease, a.fence, a.owner, a.granted_at, \
    a.started_at, a.closed_at, a.outcome, a.reason, a.fault, a.report, a.claims";

pub(super) fn closed(task: TaskId, columns: &mut Columns<'_>) -> Read<Closed> {
    Ok(Closed {
        task,
        attempt: columns.count()?,
        lease: columns.sixteen().map(LeaseId::from_u128)?,
        fence: columns.fence()?,
        owner: columns.name()?,
        granted_at: columns.time()?,
        started_at: columns.optional_time()?,
        closed_at: columns.time()?,
        outcome: {
            let name: String = columns.take()?;
            AttemptOutcome::parse(&name).ok_or_else(|| columns.strange("outcome"))?
        },
        reason: columns.optional_reason()?,
        fault: columns.optional_stored()?,
        report: columns.optional_digest()?,
        claims: columns.optional_json()?,
    })
}

pub(super) const ENTRY: &str = "h.n, h.at, h.epoch, h.rules, h.request, h.loaded, h.events";

pub(super) fn entry(task: TaskId, columns: &mut Columns<'_>) -> Read<Entry> {
    let (n, at) = (columns.count()?, columns.time()?);
    let (epoch, rules) = (columns.count()?, columns.count()?);
    let request = columns.stored()?;
    let loaded = columns.optional_stored()?;
    let events: String = columns.take()?;
    let events = brief::read(task, &request, &events);
    let events = events.map_err(|error| columns.unreadable(error))?;
    Ok(Entry { n, at, epoch, rules, request, loaded, events })
}

pub(super) const REFUSED: &str = "r.lease, r.attempt, r.worker, r.call, r.code, r.stamp, \
    r.digest, r.at";

pub(super) fn refused(task: &TaskKey, columns: &mut Columns<'_>) -> Read<Refused> {
    Ok(Refused {
        task: task.clone(),
        lease: columns.sixteen().map(LeaseId::from_u128)?,
        attempt: columns.count()?,
        worker: columns.name()?,
        call: columns.name()?,
        code: columns.name()?,
        stamp: {
            let name: String = columns.take()?;
            stamp(&name).ok_or_else(|| columns.strange("stamp"))?
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

pub(super) fn millis(time: Option<Time>) -> Option<i64> {
    time.map(Time::millis)
}

pub(super) fn written<T: Stored>(value: Option<&T>) -> Option<String> {
    value.map(Stored::write)
}

pub(super) fn text(text: Option<&Text>) -> Option<&str> {
    text.map(Text::as_str)
}
