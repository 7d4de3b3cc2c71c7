//! From columns to values: the reading that all engines with tables share.
//!
//! An engine defines how one column is read and how a bad value is reported. [`crate::tables`] lists the columns; here
//! the rows that were read become tasks, ends and attempts. Lists name their tables by one letter: `live l`,
//! `inputs i`, `done d`, `attempts a`, `history h`, `refused r`.

use std::sync::LazyLock;

use verdict::build::queue_of;
use verdict::event::Submitted;
use verdict::{
    ClosedAttempt, Digest, Done, End, Event, Lease, Name, Phase, ProgressMark, Scope, State, Task,
    TaskId, Text, Time, Waiting,
};

use crate::codec::inline_history::InlineHistory;
use crate::codec::packed_terms::Terms;
use crate::codec::{Stored, delta, outcome_word};
use crate::row::{BatchSpec, Bodies, Entry, Refused, SPEC_IN_BATCH_BYTES_MAX, Spec, TaskKey};
use crate::tables::{
    Attempt, AttemptRow, ColumnValue, Created, CreatedRow, DoneRun, DoneRunRow, DoneState,
    DoneStateRow, HistoryEntry, HistoryEntryRow, LiveLease, LiveLeaseRow, LiveRun, LiveRunRow,
    LiveState, LiveStateRow, Names, NamesRow, Priority, PriorityRow, Refusal, RefusalRow,
    Specification, SpecificationRow, Tale, present_policy, select, with_items, with_stages,
};

/// A row of an engine's table.
pub(crate) trait Row {
    type Error;

    fn text(&self, column: usize) -> Result<Option<&str>, Self::Error>;
    fn blob(&self, column: usize) -> Result<Option<&[u8]>, Self::Error>;
    fn int(&self, column: usize) -> Result<Option<i32>, Self::Error>;
    /// A count, which may use all 32 bits.
    fn count(&self, column: usize) -> Result<Option<u32>, Self::Error>;
    fn long(&self, column: usize) -> Result<Option<i64>, Self::Error>;
    fn flag(&self, column: usize) -> Result<Option<bool>, Self::Error>;

    /// The name of a column of the statement.
    fn column_name(&self, column: usize) -> &str;

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

    pub(crate) fn optional_int(&mut self) -> Result<Option<i32>, R::Error> {
        let column = self.step();
        self.row.int(column)
    }

    pub(crate) fn optional_count(&mut self) -> Result<Option<u32>, R::Error> {
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

    /// A number of bytes.
    fn size(&mut self) -> Result<usize, R::Error> {
        let size = self.optional_int()?.and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| self.unreadable("it is no size"))
    }

    pub(crate) fn optional_flag(&mut self) -> Result<Option<bool>, R::Error> {
        let column = self.step();
        self.row.flag(column)
    }

    /// Reads the next column, which has this name.
    pub(crate) fn column<T: ColumnValue>(&mut self, name: &str) -> Result<T, R::Error> {
        debug_assert_eq!(self.row.column_name(self.next), name, "column {}", self.next);
        T::read(self)
    }

    /// A value that must not be absent in this row, although its column allows it.
    fn required<T>(&self, value: Option<T>, name: &str) -> Result<T, R::Error> {
        value.ok_or_else(|| self.unreadable_column(name, "it is null"))
    }

    /// The error for a column that was read before.
    fn unreadable_column(
        &self,
        name: &str,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> R::Error {
        let is_named = |column: &usize| self.row.column_name(*column) == name;
        let column = (0..self.next).rev().find(is_named).unwrap_or(self.next - 1);
        self.row.unreadable(column, error.into())
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

    pub(crate) fn digest(&mut self) -> Result<Digest, R::Error> {
        self.fixed().map(Digest::from_bytes)
    }

    pub(crate) fn scope(&mut self) -> Result<Scope, R::Error> {
        Ok(Scope { tenant: self.name()?, workspace: self.name()? })
    }

    pub(crate) fn optional_stored<T: Stored>(&mut self) -> Result<Option<T>, R::Error> {
        let text = self.optional_str()?;
        text.map(T::read).transpose().map_err(|error| self.unreadable(error))
    }

    pub(crate) fn inline_history(&mut self) -> Result<InlineHistory, R::Error> {
        Ok(InlineHistory::from_bytes(self.optional_bytes()?.unwrap_or_default().to_vec()))
    }
}

pub(crate) fn id_bytes(id: TaskId) -> [u8; 16] {
    id.as_u128().to_be_bytes()
}

/// Scope, queue and kind of a task: read separately, because engines store them in different places. The queue of a live task is
/// the one in which it is offered ([`Task::offered_in`]).
#[derive(Clone)]
pub(crate) struct QueueAndKind {
    pub(crate) scope: Scope,
    pub(crate) kind: Name,
    pub(crate) queue: Name,
}

impl QueueAndKind {
    pub(crate) fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let NamesRow { tenant, workspace, queue, kind } = Names::read(columns)?;
        Ok(Self { scope: Scope { tenant, workspace }, kind, queue })
    }
}

/// The columns that [`task`] reads, after those of the engine, which passes the expression for the items of a long wait:
/// a column `items` that is NULL for every other task.
pub(crate) fn task_columns(items: &str) -> String {
    let state = (select!("l", LiveState), select!("l", LiveLease), select!("l", LiveRun));
    let tale = select!("l", Tale);
    format!("{}, {}, {}, {}, {items}, {tale}", select!("i", Created), state.0, state.1, state.2)
}

/// What a task is read with from the columns of its engine.
pub(crate) struct TaskHead {
    pub(crate) names: QueueAndKind,
    pub(crate) id: TaskId,
    pub(crate) priority: i32,
    pub(crate) terms: Terms,
}

/// Reads [`task_columns`], after the columns before them. Returns the task with the inline part of its history.
pub(crate) fn task<R: Row>(
    columns: &mut Columns<'_, R>,
    head: TaskHead,
) -> Result<(Task, InlineHistory), R::Error> {
    let TaskHead { names: QueueAndKind { scope, kind, queue }, id, priority, terms } = head;
    let CreatedRow { created_at } = Created::read(columns)?;
    let LiveStateRow {
        state,
        revision,
        claimable_at,
        started_at,
        attempt,
        failures,
        lost,
        undelivered,
        claim_version,
        decided_at,
        entries,
        chain,
        cancel,
    } = LiveState::read(columns)?;
    let lease = lease(columns, state)?;
    let LiveRunRow { run, waiting, deadline } = LiveRun::read(columns)?;
    let Terms { policy, stages } = terms;
    let run = run.map(|run| with_stages(run, stages));
    let policy = present_policy(run.as_ref(), deadline, policy);
    let items = columns.column("items")?;
    let waiting = waiting.map(|waiting| with_items(waiting, items));
    let task = Task {
        id,
        scope,
        kind,
        queue: queue_of(queue),
        priority,
        policy,
        created_at,
        started_at,
        attempt,
        failures,
        lost,
        undelivered,
        claim_version,
        cancel,
        decided_at,
        revision,
        entries,
        chain,
        phase: phase(columns, state, claimable_at, lease, waiting)?,
        run: run.map(Box::new),
    };
    Ok((task, Tale::read(columns)?.tale))
}

fn phase<R: Row>(
    columns: &Columns<'_, R>,
    state: State,
    claimable_at: Option<Time>,
    lease: Option<Lease>,
    waiting: Option<Waiting>,
) -> Result<Phase, R::Error> {
    let due = || columns.required(claimable_at, "claimable_at");
    match state {
        State::Queued => Ok(Phase::Queued { due: due()? }),
        State::Retry => Ok(Phase::Retry { due: due()? }),
        State::Running => columns.required(lease, "lease").map(Phase::Running),
        State::Waiting | State::Blocked => {
            columns.required(waiting, "waiting").map(|waiting| Phase::Waiting(Box::new(waiting)))
        }
        _ => Err(columns.unreadable_column("state", "not a state of a live task")),
    }
}

/// Reads the lease of a running task, and skips it in every other state.
fn lease<R: Row>(columns: &mut Columns<'_, R>, state: State) -> Result<Option<Lease>, R::Error> {
    if state != State::Running {
        columns.skip(LiveLease::COLUMNS.len());
        return Ok(None);
    }
    let LiveLeaseRow {
        lease,
        owner,
        poll,
        fence,
        acquired_at,
        heartbeat_at,
        expires_at,
        attempt_at,
        heard,
        progress,
        progressed_at,
        stalled_at,
    } = LiveLease::read(columns)?;
    Ok(Some(Lease {
        id: columns.required(lease, "lease")?,
        owner: columns.required(owner, "owner")?,
        fence: columns.required(fence, "fence")?,
        poll,
        acquired_at: columns.required(acquired_at, "acquired_at")?,
        heartbeat_at: columns.required(heartbeat_at, "heartbeat_at")?,
        expires_at: columns.required(expires_at, "expires_at")?,
        started_at: attempt_at,
        heard: columns.required(heard, "heard")?,
        progress,
        progress_mark: progressed_at.map(|at| ProgressMark { at, stalled_at }),
    }))
}

/// The columns of an ended task, after its id and its names.
const DONE_HEAD: [&str; 2] = [select!("i", Priority), select!("i", Created)];
const DONE: [&str; 2] = [select!("d", DoneState), select!("d", DoneRun)];

pub(crate) fn done_columns() -> String {
    format!("{}, {}", DONE_HEAD.join(", "), DONE.join(", "))
}

/// Reads the id, the names and [`done_columns`].
pub(crate) fn done<R: Row>(columns: &mut Columns<'_, R>) -> Result<Done, R::Error> {
    let id = columns.task_id()?;
    let QueueAndKind { scope, kind, queue } = QueueAndKind::read(columns)?;
    let PriorityRow { priority } = Priority::read(columns)?;
    let CreatedRow { created_at } = Created::read(columns)?;
    let DoneStateRow {
        state,
        reason,
        started_at,
        completed_at,
        attempt,
        failures,
        lost,
        claim_version,
        entries,
        record,
        cancel,
        fault,
        output,
    } = DoneState::read(columns)?;
    let DoneRunRow { run } = DoneRun::read(columns)?;
    let end = End { state, reason, output, fault };
    Ok(Done {
        id,
        scope,
        kind,
        queue,
        priority,
        created_at,
        started_at,
        completed_at,
        attempt,
        failures,
        lost,
        claim_version,
        cancel,
        end,
        entries,
        record,
        run: run.map(Box::new),
    })
}

/// Columns of what a task was submitted with.
pub(crate) const SPEC: &str = select!("i", Specification);

pub(crate) fn spec<R: Row>(columns: &mut Columns<'_, R>) -> Result<Spec, R::Error> {
    let SpecificationRow {
        fingerprint,
        key,
        goal,
        task_key,
        asset_id,
        resources,
        labels,
        traceparent,
        input,
    } = Specification::read(columns)?;
    Ok(Spec { input, goal, task_key, asset_id, resources, labels, traceparent, key, fingerprint })
}

/// [`SPEC`] for a batch: with the sizes in front, and without what is long ([`BatchSpec`]). The sizes are known without reading what
/// they are of.
pub(crate) static BATCH_SPEC: LazyLock<String> = LazyLock::new(|| {
    let bytes = |column: &str| format!("coalesce(octet_length({column}),0)");
    let all = ["i.input", "i.labels", "i.goal"].map(bytes).join(" + ");
    let short = |column: &str, name: &str| {
        format!("CASE WHEN {all} <= {SPEC_IN_BATCH_BYTES_MAX} THEN {column} END AS {name}")
    };
    let list = instead(SPEC, "i.input", &short("i.input", "input"));
    let list = instead(&list, "i.labels", &short("i.labels", "labels"));
    format!("{all} AS spec_bytes, octet_length(i.input) AS input_bytes, {list}")
});

pub(crate) fn batch_spec<R: Row>(columns: &mut Columns<'_, R>) -> Result<BatchSpec, R::Error> {
    let (all, input_bytes) = (columns.size()?, columns.size()?);
    if all <= SPEC_IN_BATCH_BYTES_MAX {
        return spec(columns).map(BatchSpec::Whole);
    }
    let listed = || Specification::COLUMNS.iter().map(|column| column.name);
    let before = listed().position(|name| name == "traceparent").expect("it is a column of these");
    columns.skip(before);
    let traceparent = columns.column("traceparent")?;
    columns.skip(Specification::COLUMNS.len() - before - 1);
    Ok(BatchSpec::Long { input_bytes, traceparent })
}

/// [`SPEC`] for a list: with the input only where it is requested.
pub(crate) fn listed_spec(bodies: Bodies) -> String {
    if bodies.input { SPEC.to_owned() } else { instead(SPEC, "i.input", "'null' AS input") }
}

/// [`done_columns`] for a list. The engine passes the expression that reads a fault without its stack trace.
pub(crate) fn listed_done(bodies: Bodies, without_trace: &str) -> String {
    let mut columns = done_columns();
    if !bodies.output {
        columns = instead(&columns, "d.output", "NULL AS output");
    }
    if !bodies.stack_trace {
        columns = instead(&columns, "d.fault", &format!("{without_trace} AS fault"));
    }
    columns
}

/// The list with an expression in the place of one column.
fn instead(list: &str, column: &str, expression: &str) -> String {
    let replace = |item| if item == column { expression } else { item };
    list.split(", ").map(replace).collect::<Vec<_>>().join(", ")
}

/// The submission that the first entry of a history records.
pub(crate) fn submitted(entries: Vec<Entry>) -> Option<Submitted> {
    let first = entries.into_iter().next()?;
    first.events.iter().find_map(Event::submitted).cloned()
}

pub(crate) const CLOSED: &str = select!("a", Attempt);

pub(crate) fn closed<R: Row>(
    task: TaskId,
    columns: &mut Columns<'_, R>,
) -> Result<ClosedAttempt, R::Error> {
    let AttemptRow {
        attempt,
        lease,
        fence,
        owner,
        granted_at,
        started_at,
        closed_at,
        outcome,
        reason,
        report,
        fault,
        claims,
    } = Attempt::read(columns)?;
    let outcome = outcome_word::read(outcome, reason);
    Ok(ClosedAttempt {
        task,
        attempt,
        lease,
        fence,
        owner,
        granted_at,
        started_at,
        closed_at,
        outcome,
        reason,
        fault,
        report,
        claims,
    })
}

pub(crate) const ENTRY: &str = select!("h", HistoryEntry);

pub(crate) fn entry<R: Row>(task: TaskId, columns: &mut Columns<'_, R>) -> Result<Entry, R::Error> {
    let row = HistoryEntry::read(columns)?;
    let HistoryEntryRow { n, at, epoch, rules, request, loaded, events } = row;
    let events = delta::read(task, &request, &events);
    let events = events.map_err(|error| columns.unreadable_column("events", error))?;
    Ok(Entry { n, at, epoch, rules, request, loaded, events })
}

pub(crate) const REFUSED: &str = select!("r", Refusal);

pub(crate) fn refused<R: Row>(
    task: &TaskKey,
    columns: &mut Columns<'_, R>,
) -> Result<Refused, R::Error> {
    let row = Refusal::read(columns)?;
    let RefusalRow { lease, call, code, attempt, worker, stamp, digest, at } = row;
    let task = task.clone();
    Ok(Refused { task, lease, attempt, worker, call, code, worker_verdict: stamp, digest, at })
}
