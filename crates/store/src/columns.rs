//! From columns to values: the reading that all engines with tables share.
//!
//! An engine defines how one column is read and how a bad value is reported. Which columns make up a task, an
//! end or an attempt is defined here once, each list next to the function that reads it. Lists name their tables by
//! one letter: `live l`, `inputs i`, `done d`, `attempts a`, `history h`, `refused r`.

use std::collections::BTreeMap;

use verdict::event::Submitted;
use verdict::{
    AttemptOutcome, ClosedAttempt, Digest, Done, End, Event, Fence, Json, Lease, LeaseId, Name,
    Phase, Policy, Reason, Scope, State, Task, TaskId, Text, Time, WorkerVerdict,
};

use crate::codec::inline_history::InlineHistory;
use crate::codec::{Stored, delta, packed_policy};
use crate::row::{Bodies, Entry, Refused, Spec, TaskKey};

/// A row of an engine's table.
pub(crate) trait Row {
    type Error;

    fn text(&self, column: usize) -> Result<Option<&str>, Self::Error>;
    fn blob(&self, column: usize) -> Result<Option<&[u8]>, Self::Error>;
    fn int(&self, column: usize) -> Result<i32, Self::Error>;
    /// A count, which may use all 32 bits.
    fn count(&self, column: usize) -> Result<u32, Self::Error>;
    fn long(&self, column: usize) -> Result<Option<i64>, Self::Error>;
    fn flag(&self, column: usize) -> Result<bool, Self::Error>;

    /// The error for a column that cannot be read.
    fn unreadable(
        &self,
        column: usize,
        error: Box<dyn std::error::Error + Send + Sync>,
    ) -> Self::Error;
}

/// Reads the columns of one row, one after the other.
pub(crate) struct Columns<'a, R> {
    pub(crate) row: &'a R,
    pub(crate) next: usize,
}

impl<'a, R: Row> Columns<'a, R> {
    pub(crate) fn of(row: &'a R) -> Self {
        Self { row, next: 0 }
    }

    fn step(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Skips columns.
    pub(crate) fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    pub(crate) fn optional_str(&mut self) -> Result<Option<&'a str>, R::Error> {
        let column = self.step();
        self.row.text(column)
    }

    /// Borrowed from the row, so that the text is copied only once.
    pub(crate) fn str(&mut self) -> Result<&'a str, R::Error> {
        self.optional_str()?.ok_or_else(|| self.unreadable("it is null"))
    }

    pub(crate) fn optional_bytes(&mut self) -> Result<Option<&'a [u8]>, R::Error> {
        let column = self.step();
        self.row.blob(column)
    }

    fn bytes(&mut self) -> Result<&'a [u8], R::Error> {
        self.optional_bytes()?.ok_or_else(|| self.unreadable("it is null"))
    }

    pub(crate) fn int(&mut self) -> Result<i32, R::Error> {
        let column = self.step();
        self.row.int(column)
    }

    pub(crate) fn count(&mut self) -> Result<u32, R::Error> {
        let column = self.step();
        self.row.count(column)
    }

    pub(crate) fn optional_long(&mut self) -> Result<Option<i64>, R::Error> {
        let column = self.step();
        self.row.long(column)
    }

    pub(crate) fn long(&mut self) -> Result<i64, R::Error> {
        self.optional_long()?.ok_or_else(|| self.unreadable("it is null"))
    }

    fn flag(&mut self) -> Result<bool, R::Error> {
        let column = self.step();
        self.row.flag(column)
    }

    /// The error for the column that was read last.
    pub(crate) fn unreadable(
        &self,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> R::Error {
        self.row.unreadable(self.next - 1, error.into())
    }

    /// The error for a value whose stored spelling is not one that Tenure writes.
    pub(crate) fn unknown_value(&self, what: &'static str) -> R::Error {
        self.unreadable(format!("not a {what}"))
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], R::Error> {
        let bytes = self.bytes()?;
        bytes.try_into().map_err(|error: std::array::TryFromSliceError| self.unreadable(error))
    }

    pub(crate) fn optional_fixed<const N: usize>(&mut self) -> Result<Option<[u8; N]>, R::Error> {
        let Some(bytes) = self.optional_bytes()? else { return Ok(None) };
        let fixed = bytes.try_into();
        fixed.map(Some).map_err(|error: std::array::TryFromSliceError| self.unreadable(error))
    }

    pub(crate) fn name(&mut self) -> Result<Name, R::Error> {
        self.str().map(Name::from)
    }

    pub(crate) fn optional_name(&mut self) -> Result<Option<Name>, R::Error> {
        Ok(self.optional_str()?.map(Name::from))
    }

    pub(crate) fn optional_text(&mut self) -> Result<Option<Text>, R::Error> {
        Ok(self.optional_str()?.map(Text::from))
    }

    pub(crate) fn json(&mut self) -> Result<Json, R::Error> {
        self.str().map(Json::from)
    }

    pub(crate) fn optional_json(&mut self) -> Result<Option<Json>, R::Error> {
        Ok(self.optional_str()?.map(Json::from))
    }

    pub(crate) fn time(&mut self) -> Result<Time, R::Error> {
        self.long().map(Time::from_millis)
    }

    pub(crate) fn optional_time(&mut self) -> Result<Option<Time>, R::Error> {
        Ok(self.optional_long()?.map(Time::from_millis))
    }

    pub(crate) fn u128_bytes(&mut self) -> Result<u128, R::Error> {
        self.fixed().map(u128::from_be_bytes)
    }

    pub(crate) fn task_id(&mut self) -> Result<TaskId, R::Error> {
        self.u128_bytes().map(TaskId::from_u128)
    }

    pub(crate) fn lease_id(&mut self) -> Result<LeaseId, R::Error> {
        self.u128_bytes().map(LeaseId::from_u128)
    }

    pub(crate) fn digest(&mut self) -> Result<Digest, R::Error> {
        self.fixed().map(Digest::from_bytes)
    }

    pub(crate) fn optional_digest(&mut self) -> Result<Option<Digest>, R::Error> {
        Ok(self.optional_fixed()?.map(Digest::from_bytes))
    }

    pub(crate) fn fence(&mut self) -> Result<Fence, R::Error> {
        Ok(Fence::from_u64(self.long()? as u64))
    }

    pub(crate) fn scope(&mut self) -> Result<Scope, R::Error> {
        Ok(Scope { tenant: self.name()?, workspace: self.name()? })
    }

    pub(crate) fn stored<T: Stored>(&mut self) -> Result<T, R::Error> {
        let text = self.str()?;
        T::read(text).map_err(|error| self.unreadable(error))
    }

    pub(crate) fn optional_stored<T: Stored>(&mut self) -> Result<Option<T>, R::Error> {
        let text = self.optional_str()?;
        text.map(T::read).transpose().map_err(|error| self.unreadable(error))
    }

    /// A policy, packed.
    pub(crate) fn packed_policy(&mut self) -> Result<Policy, R::Error> {
        let bytes = self.bytes()?;
        packed_policy::read(bytes).map_err(|error| self.unreadable(error))
    }

    pub(crate) fn inline_history(&mut self) -> Result<InlineHistory, R::Error> {
        Ok(InlineHistory::from_bytes(self.optional_bytes()?.unwrap_or_default().to_vec()))
    }

    pub(crate) fn state(&mut self) -> Result<State, R::Error> {
        let name = self.str()?;
        State::parse(name).ok_or_else(|| self.unknown_value("state"))
    }

    pub(crate) fn optional_reason(&mut self) -> Result<Option<Reason>, R::Error> {
        let Some(name) = self.optional_str()? else { return Ok(None) };
        Reason::parse(name).ok_or_else(|| self.unknown_value("reason")).map(Some)
    }
}

pub(crate) fn id_bytes(id: TaskId) -> [u8; 16] {
    id.as_u128().to_be_bytes()
}

/// Scope, queue and kind of a task: read separately, because engines store them in different places.
#[derive(Clone)]
pub(crate) struct QueueAndKind {
    pub(crate) scope: Scope,
    pub(crate) kind: Name,
    pub(crate) queue: Name,
}

impl QueueAndKind {
    pub(crate) fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok(Self { scope: columns.scope()?, kind: columns.name()?, queue: columns.name()? })
    }
}

/// Columns of a live task, after its id, its priority and its policy.
pub(crate) const TASK: &str = "i.created_at, l.started_at, l.attempt, l.failures, l.lost, \
    l.undelivered, l.claim_version, l.cancel, l.decided_at, l.revision, l.entries, l.chain, \
    l.state, l.due, l.lease, l.owner, l.fence, l.poll, l.acquired_at, l.heartbeat_at, \
    l.expires_at, l.attempt_at, l.heard, l.progress, l.tale";

/// Reads [`TASK`], after the columns before it. Returns the task with the inline part of its history.
pub(crate) fn task<R: Row>(
    columns: &mut Columns<'_, R>,
    names: QueueAndKind,
    id: TaskId,
    priority: i32,
    policy: Policy,
) -> Result<(Task, InlineHistory), R::Error> {
    let QueueAndKind { scope, kind, queue } = names;
    let task = Task {
        id,
        scope,
        kind,
        queue,
        priority,
        policy,
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
    Ok((task, columns.inline_history()?))
}

fn phase<R: Row>(columns: &mut Columns<'_, R>) -> Result<Phase, R::Error> {
    match columns.state()? {
        State::Queued => Ok(Phase::Queued { due: skip_lease(columns)? }),
        State::Retry => Ok(Phase::Retry { due: skip_lease(columns)? }),
        State::Running => {
            columns.skip(1);
            lease(columns).map(Phase::Running)
        }
        _ => Err(columns.unknown_value("state of a live task")),
    }
}

const LEASE_COLUMNS: usize = 10;

fn skip_lease<R: Row>(columns: &mut Columns<'_, R>) -> Result<Time, R::Error> {
    let due = columns.time()?;
    columns.skip(LEASE_COLUMNS);
    Ok(due)
}

fn lease<R: Row>(columns: &mut Columns<'_, R>) -> Result<Lease, R::Error> {
    Ok(Lease {
        id: columns.lease_id()?,
        owner: columns.name()?,
        fence: columns.fence()?,
        poll: columns.optional_name()?,
        acquired_at: columns.time()?,
        heartbeat_at: columns.time()?,
        expires_at: columns.time()?,
        started_at: columns.optional_time()?,
        heard: columns.flag()?,
        progress: columns.optional_stored()?,
    })
}

/// Columns of an ended task, after its id and its names.
pub(crate) const DONE: &str = "i.priority, i.created_at, d.started_at, d.completed_at, \
    d.attempt, d.failures, d.lost, d.claim_version, d.cancel, d.state, d.reason, d.output, \
    d.fault, d.entries, d.record";

/// Reads the id, the names and [`DONE`].
pub(crate) fn done<R: Row>(columns: &mut Columns<'_, R>) -> Result<Done, R::Error> {
    let id = columns.task_id()?;
    let QueueAndKind { scope, kind, queue } = QueueAndKind::read(columns)?;
    Ok(Done {
        id,
        scope,
        kind,
        queue,
        priority: columns.int()?,
        created_at: columns.time()?,
        started_at: columns.optional_time()?,
        completed_at: columns.time()?,
        attempt: columns.count()?,
        failures: columns.count()?,
        lost: columns.count()?,
        claim_version: columns.count()?,
        cancel: columns.optional_stored()?,
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

/// Columns of what a task was submitted with.
pub(crate) const SPEC: &str = "i.input, i.goal, i.task_key, i.asset_id, i.resources, i.labels, \
    i.traceparent, i.key, i.fingerprint";

pub(crate) fn spec<R: Row>(columns: &mut Columns<'_, R>) -> Result<Spec, R::Error> {
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

fn labels<R: Row>(columns: &mut Columns<'_, R>) -> Result<BTreeMap<String, String>, R::Error> {
    let Some(text) = columns.optional_str()? else { return Ok(BTreeMap::new()) };
    serde_json::from_str(text).map_err(|error| columns.unreadable(error))
}

/// [`SPEC`] for a list: with the input only where it is requested.
pub(crate) fn listed_spec(bodies: Bodies) -> String {
    if bodies.input { SPEC.to_owned() } else { SPEC.replacen("i.input", "'null'", 1) }
}

/// [`DONE`] for a list. The engine passes the expression that reads a fault without its stack trace.
pub(crate) fn listed_done(bodies: Bodies, without_trace: &str) -> String {
    let output = if bodies.output { "d.output" } else { "NULL" };
    let fault = if bodies.stack_trace { "d.fault" } else { without_trace };
    DONE.replacen("d.output", output, 1).replacen("d.fault", fault, 1)
}

/// The submission that the first entry of a history records.
pub(crate) fn submitted(entries: Vec<Entry>) -> Option<Submitted> {
    let events = entries.into_iter().next()?.events;
    events.into_iter().find_map(|event| match event {
        Event::Submitted(submitted) => Some(*submitted),
        _ => None,
    })
}

pub(crate) const CLOSED: &str = "a.attempt, a.lease, a.fence, a.owner, a.granted_at, \
    a.started_at, a.closed_at, a.outcome, a.reason, a.fault, a.report, a.claims";

pub(crate) fn closed<R: Row>(
    task: TaskId,
    columns: &mut Columns<'_, R>,
) -> Result<ClosedAttempt, R::Error> {
    Ok(ClosedAttempt {
        task,
        attempt: columns.count()?,
        lease: columns.lease_id()?,
        fence: columns.fence()?,
        owner: columns.name()?,
        granted_at: columns.time()?,
        started_at: columns.optional_time()?,
        closed_at: columns.time()?,
        outcome: {
            let name = columns.str()?;
            AttemptOutcome::parse(name).ok_or_else(|| columns.unknown_value("outcome"))?
        },
        reason: columns.optional_reason()?,
        fault: columns.optional_stored()?,
        report: columns.optional_digest()?,
        claims: columns.optional_json()?,
    })
}

pub(crate) const ENTRY: &str = "h.n, h.at, h.epoch, h.rules, h.request, h.loaded, h.events";

pub(crate) fn entry<R: Row>(task: TaskId, columns: &mut Columns<'_, R>) -> Result<Entry, R::Error> {
    let (n, at) = (columns.count()?, columns.time()?);
    let (epoch, rules) = (columns.count()?, columns.count()?);
    let request = columns.stored()?;
    let loaded = columns.optional_stored()?;
    let events = delta::read(task, &request, columns.str()?);
    let events = events.map_err(|error| columns.unreadable(error))?;
    Ok(Entry { n, at, epoch, rules, request, loaded, events })
}

pub(crate) const REFUSED: &str = "r.lease, r.attempt, r.worker, r.call, r.code, r.stamp, \
    r.digest, r.at";

pub(crate) fn refused<R: Row>(
    task: &TaskKey,
    columns: &mut Columns<'_, R>,
) -> Result<Refused, R::Error> {
    Ok(Refused {
        task: task.clone(),
        lease: columns.lease_id()?,
        attempt: columns.count()?,
        worker: columns.name()?,
        call: columns.name()?,
        code: columns.name()?,
        worker_verdict: {
            let name = columns.str()?;
            worker_verdict(name).ok_or_else(|| columns.unknown_value("stamp"))?
        },
        digest: columns.optional_digest()?,
        at: columns.time()?,
    })
}

pub(crate) const fn worker_verdict_name(worker_verdict: WorkerVerdict) -> &'static str {
    match worker_verdict {
        WorkerVerdict::Committed => "committed",
        WorkerVerdict::Cancelled => "cancelled",
        WorkerVerdict::Rejected => "rejected",
    }
}

fn worker_verdict(name: &str) -> Option<WorkerVerdict> {
    [WorkerVerdict::Committed, WorkerVerdict::Cancelled, WorkerVerdict::Rejected]
        .into_iter()
        .find(|worker_verdict| worker_verdict_name(*worker_verdict) == name)
}
