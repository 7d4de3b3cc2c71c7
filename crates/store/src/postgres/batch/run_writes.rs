//! Writing the rows of durable runs. A batch without them sends none of these statements.
//!
//! Every row belongs to a task that the batch has locked or created, so no statement waits for another transaction.

use std::sync::LazyLock;

use verdict::{Subject, Task};

use super::column_batch::{ColumnBatch, Statement};
use super::pending_writes::LockedRow;
use super::writes::{TaskIdentity, insert, inserting};
use crate::postgres::tables::{
    CHECKPOINTS, CHILDREN, CHILDREN_ENDED, ChildEnd, EDGES, KindAndQueue, LIVE_MOVED,
    MISSING_UPSTREAMS, SIGNALS, SIGNALS_TAKEN, STEPS, TakenSignal, TaskRef, WAITS, WAITS_OVER,
};
use crate::runs::{RunRows, StoredStep};
use crate::tables::{
    CheckpointColumns, ChildColumns, CountColumns, EdgeColumns, LeaseLength, SignalColumns,
    StepColumns, WaitColumns, long_wait,
};

/// The rows of durable runs that one batch writes, in the order in which they are sent.
pub(in crate::postgres) struct RunColumnBatches {
    checkpoints: ColumnBatch,
    children: ColumnBatch,
    ended: ColumnBatch,
    signals: ColumnBatch,
    taken: ColumnBatch,
    waits_over: ColumnBatch,
    waits: ColumnBatch,
    moved: ColumnBatch,
    steps: ColumnBatch,
    edges: ColumnBatch,
    new_counts: ColumnBatch,
    counts: ColumnBatch,
}

impl Default for RunColumnBatches {
    fn default() -> Self {
        Self {
            checkpoints: ColumnBatch::new(CHECKPOINTS.written),
            children: ColumnBatch::new(CHILDREN.written),
            ended: ColumnBatch::new(CHILDREN_ENDED),
            signals: ColumnBatch::new(SIGNALS.written),
            taken: ColumnBatch::new(SIGNALS_TAKEN),
            waits_over: ColumnBatch::new(WAITS_OVER),
            waits: ColumnBatch::new(WAITS.written),
            moved: ColumnBatch::new(LIVE_MOVED),
            steps: ColumnBatch::new(STEPS.written),
            edges: ColumnBatch::new(EDGES.written),
            new_counts: ColumnBatch::new(MISSING_UPSTREAMS.written),
            counts: ColumnBatch::new(MISSING_UPSTREAMS.written),
        }
    }
}

impl RunColumnBatches {
    /// The statements with their rows, in the order in which they are sent.
    pub(in crate::postgres) fn statements(&self) -> [(&'static Statement, &ColumnBatch); 12] {
        [
            (&CHECKPOINTS_INSERT, &self.checkpoints),
            (&CHILDREN_INSERT, &self.children),
            (&CHILDREN_UPDATE, &self.ended),
            (&SIGNALS_INSERT, &self.signals),
            (&SIGNALS_UPDATE, &self.taken),
            (&WAITS_DELETE, &self.waits_over),
            (&WAITS_UPSERT, &self.waits),
            (&LIVE_MOVE, &self.moved),
            (&STEPS_INSERT, &self.steps),
            (&EDGES_INSERT, &self.edges),
            (&COUNTS_INSERT, &self.new_counts),
            (&COUNTS_UPDATE, &self.counts),
        ]
    }

    pub(in crate::postgres) fn all_fit(&self) -> bool {
        self.statements().iter().all(|(_, column_batch)| column_batch.fits_columns())
    }

    /// Adds the rows of one task. `before` is its row as this batch locked it.
    pub(super) fn add(
        &mut self,
        task: &TaskIdentity<'_>,
        rows: &RunRows<'_>,
        before: Option<&LockedRow>,
        after: &Subject,
    ) {
        let had_long_wait = before.is_some_and(|before| before.has_long_wait);
        if had_long_wait && after.live().and_then(long_wait).is_none() {
            TaskRef::write(self.waits_over.row(), task.id, task.scope);
        }
        let is_moved = |live: &&Task| rows.is_moved && !is_at_same_place(before, live);
        if let Some(live) = after.live().filter(is_moved) {
            let cells = self.moved.row();
            TaskRef::write(cells, task.id, task.scope);
            KindAndQueue::write(cells, live);
            LeaseLength::write(cells, live);
        }
        if !rows.is_empty() {
            self.add_rows(task, rows);
        }
    }

    /// Adds the steps of a plan that is submitted.
    pub(in crate::postgres) fn add_steps(&mut self, task: &TaskIdentity<'_>, steps: &[StoredStep]) {
        let refer = |cells: &mut ColumnBatch| TaskRef::write(cells, task.id, task.scope);
        for stored in steps {
            let cells = self.steps.row();
            refer(cells);
            StepColumns::write(cells, stored);
            for upstream in stored.step.upstreams.iter() {
                let cells = self.edges.row();
                refer(cells);
                EdgeColumns::write(cells, upstream, stored.key());
            }
            if let Some(counted) = stored.count() {
                let cells = self.new_counts.row();
                refer(cells);
                CountColumns::write(cells, counted);
            }
        }
    }

    fn add_rows(&mut self, task: &TaskIdentity<'_>, rows: &RunRows<'_>) {
        let refer = |cells: &mut ColumnBatch| TaskRef::write(cells, task.id, task.scope);
        for checkpoint in &rows.checkpoints {
            let cells = self.checkpoints.row();
            refer(cells);
            CheckpointColumns::write(cells, checkpoint);
        }
        for started in &rows.children {
            let cells = self.children.row();
            refer(cells);
            ChildColumns::write(cells, started);
        }
        for child in &rows.ended {
            let cells = self.ended.row();
            refer(cells);
            ChildEnd::write(cells, child.key, child.state);
        }
        for (signal, is_taken) in &rows.signals {
            let cells = self.signals.row();
            refer(cells);
            SignalColumns::write(cells, signal, *is_taken);
        }
        for number in &rows.taken {
            let cells = self.taken.row();
            refer(cells);
            TakenSignal::write(cells, *number);
        }
        for counted in rows.counted.values() {
            let cells = self.counts.row();
            refer(cells);
            CountColumns::write(cells, *counted);
        }
        if let Some(wait) = rows.wait {
            let cells = self.waits.row();
            refer(cells);
            WaitColumns::write(cells, wait);
        }
    }
}

/// Whether the row has the queue, kind and lease of this task already. Most stages of a plan have those of the stage before,
/// and their row is not written twice.
fn is_at_same_place(before: Option<&LockedRow>, after: &Task) -> bool {
    let before = before.and_then(|before| before.run.as_deref()).and_then(Subject::live);
    before.is_some_and(|before| {
        (before.offered_in(), &before.kind, before.policy.lease)
            == (after.offered_in(), &after.kind, after.policy.lease)
    })
}

static CHECKPOINTS_INSERT: LazyLock<Statement> = LazyLock::new(|| inserting(&CHECKPOINTS));
static CHILDREN_INSERT: LazyLock<Statement> = LazyLock::new(|| inserting(&CHILDREN));
static SIGNALS_INSERT: LazyLock<Statement> = LazyLock::new(|| inserting(&SIGNALS));

static STEPS_INSERT: LazyLock<Statement> = LazyLock::new(|| inserting(&STEPS));
static EDGES_INSERT: LazyLock<Statement> = LazyLock::new(|| inserting(&EDGES));
static COUNTS_INSERT: LazyLock<Statement> = LazyLock::new(|| inserting(&MISSING_UPSTREAMS));

/// Sent after the steps themselves: an upstream may end in the commit that copies a plan.
static COUNTS_UPDATE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(MISSING_UPSTREAMS.written, |rows| {
        format!(
            "UPDATE tenure.missing_upstreams t SET missing = u.missing, blame = u.blame FROM {} \
             WHERE {OF_TASK} AND t.key = u.key COLLATE \"C\"",
            rows.table("u")
        )
    })
});

const OF_TASK: &str = "t.task = u.task AND t.tenant = u.tenant AND t.workspace = u.workspace";

static CHILDREN_UPDATE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(CHILDREN_ENDED, |rows| {
        format!(
            "UPDATE tenure.children t SET ended = u.ended FROM {} WHERE {OF_TASK} AND t.key = u.key COLLATE \"C\"",
            rows.table("u")
        )
    })
});

static SIGNALS_UPDATE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(SIGNALS_TAKEN, |rows| {
        format!(
            "UPDATE tenure.signals t SET taken = true FROM {} WHERE {OF_TASK} AND t.number = u.number",
            rows.table("u")
        )
    })
});

/// Tasks whose stage has another queue, kind or lease, or that are offered to another build. Sent after the change itself: a trigger asks for the run of the row.
static LIVE_MOVE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(LIVE_MOVED, |rows| {
        format!(
            "UPDATE tenure.live t SET queue = u.queue, kind = u.kind, lease_ms = u.lease_ms FROM {} \
             WHERE t.id = u.task AND t.tenant = u.tenant AND t.workspace = u.workspace",
            rows.table("u")
        )
    })
});

static WAITS_DELETE: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(WAITS_OVER, |rows| {
        format!("DELETE FROM tenure.waits t USING {} WHERE {OF_TASK}", rows.table("u"))
    })
});

static WAITS_UPSERT: LazyLock<Statement> = LazyLock::new(|| {
    Statement::over(WAITS.written, |rows| {
        format!("{} ON CONFLICT (task) DO UPDATE SET items = excluded.items", insert(&WAITS, rows))
    })
});

/// Statements that batches with durable runs repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let built: [&'static LazyLock<Statement>; 12] = [
        &CHECKPOINTS_INSERT,
        &CHILDREN_INSERT,
        &CHILDREN_UPDATE,
        &SIGNALS_INSERT,
        &SIGNALS_UPDATE,
        &WAITS_DELETE,
        &WAITS_UPSERT,
        &LIVE_MOVE,
        &STEPS_INSERT,
        &EDGES_INSERT,
        &COUNTS_INSERT,
        &COUNTS_UPDATE,
    ];
    built.into_iter().flat_map(|statement| statement.texts())
}
