//! The steps and edges of plans: written once with the submission of their root, and read in slices.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};
use verdict::plan::limits::STEPS_PER_DECISION;
use verdict::plan::{PlanLoaded, PlanNeed, StepRow};
use verdict::{Name, Subject, TaskId};

use super::rows::Columns;
use super::tables::{EDGES, MISSING_UPSTREAMS, STEPS, TaskRow};
use super::work::{StepError, Work, invalid};
use super::writes::{Binding, insert};
use crate::codec::Stored;
use crate::row::Spec;
use crate::row_size::{self, ByteBudget};
use crate::run_columns::{STEP, step, step_row, step_without_payload};
use crate::runs::{CountedStep, StoredStep, steps};
use crate::tables::{CountColumns, EdgeColumns, StepColumns};

type Read<T> = rusqlite::Result<T>;

/// What the root of a plan needs, and what the steps that it may spawn are created with.
pub(super) type FoundSteps = (PlanLoaded, Vec<(TaskId, Spec)>);

impl Work<'_> {
    /// Writes the steps of a plan that was just submitted.
    pub(super) fn save_steps(&mut self, row: i64, steps: &[StoredStep]) -> Result<(), StepError> {
        static STEP_ROW: LazyLock<String> = LazyLock::new(|| insert(&STEPS));
        static EDGE_ROW: LazyLock<String> = LazyLock::new(|| insert(&EDGES));
        static COUNT_ROW: LazyLock<String> = LazyLock::new(|| insert(&MISSING_UPSTREAMS));
        if steps.is_empty() {
            return Ok(());
        }
        let mut insert_step = self.connection.prepare_cached(&STEP_ROW)?;
        let mut insert_edge = self.connection.prepare_cached(&EDGE_ROW)?;
        let mut insert_count = self.connection.prepare_cached(&COUNT_ROW)?;
        for stored in steps {
            let mut cells = Binding::of(&mut insert_step, STEPS.written);
            TaskRow::write(&mut cells, row);
            StepColumns::write(&mut cells, stored);
            cells.execute()?;
            for upstream in stored.step.upstreams.iter() {
                let mut cells = Binding::of(&mut insert_edge, EDGES.written);
                TaskRow::write(&mut cells, row);
                EdgeColumns::write(&mut cells, upstream, stored.key());
                cells.execute()?;
            }
            if let Some(counted) = stored.count() {
                let mut cells = Binding::of(&mut insert_count, MISSING_UPSTREAMS.written);
                TaskRow::write(&mut cells, row);
                CountColumns::write(&mut cells, counted);
                cells.execute()?;
            }
        }
        Ok(())
    }

    /// Writes what became of steps whose upstreams have ended.
    pub(super) fn save_counts<'a>(
        &mut self,
        row: i64,
        counted: impl Iterator<Item = &'a CountedStep<'a>>,
    ) -> Result<(), StepError> {
        let sql =
            "UPDATE missing_upstreams SET missing = ?3, blame = ?4 WHERE task = ?1 AND key = ?2";
        for CountedStep { key, missing, blame } in counted {
            let blame = blame.map(Stored::write);
            let parameters = params![row, key.as_str(), missing, blame];
            match self.connection.prepare_cached(sql)?.execute(parameters)? {
                1 => {}
                _ => return Err(invalid("an upstream of a step that has none")),
            }
        }
        Ok(())
    }
}

/// What the rules need of a plan.
pub(super) fn load(
    connection: &Connection,
    row: i64,
    need: PlanNeed<'_>,
    subject: &Subject,
) -> Read<FoundSteps> {
    let spawned = steps::spawned(subject);
    let mut loaded = PlanLoaded::default();
    match need {
        PlanNeed::Ended { key } => {
            loaded.ended = by_key(connection, row, key, spawned)?;
            load_downstreams(connection, row, (key, None), spawned, &mut loaded)?;
        }
        PlanNeed::Downstreams { of, after } => {
            load_downstreams(connection, row, (of, after), spawned, &mut loaded)?;
        }
        PlanNeed::Unspawned { from } => {
            let stored = from_place(connection, row, from, STEPS_PER_DECISION, None)?;
            loaded.unspawned = stored.iter().map(|stored| stored.row(spawned)).collect();
            let specs = stored.into_iter().map(|it| (it.step.child.submit.id, it.spec));
            return Ok((loaded, specs.collect()));
        }
    }
    Ok((loaded, Vec::new()))
}

fn by_key(connection: &Connection, row: i64, key: &Name, spawned: u32) -> Read<Option<StepRow>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let columns = step_without_payload();
        format!("SELECT {columns} FROM {WITH_COUNTS} WHERE p.task = ?1 AND p.key = ?2")
    });
    connection
        .prepare_cached(&SQL)?
        .query_row((row, key.as_str()), |row| step_row(&mut Columns::of(row), spawned))
        .optional()
}

/// The next downstreams of a step. One more than a slice is read, so that the rules know whether there are more.
fn load_downstreams(
    connection: &Connection,
    row: i64,
    (of, after): (&Name, Option<&Name>),
    spawned: u32,
    loaded: &mut PlanLoaded,
) -> Read<()> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let columns = step_without_payload();
        format!(
            "SELECT {columns} FROM edges e JOIN {WITH_COUNTS}
             WHERE p.task = e.task AND p.key = e.downstream
                AND e.task = ?1 AND e.upstream = ?2 AND e.downstream > ?3
             ORDER BY e.downstream LIMIT ?4"
        )
    });
    // No key is empty.
    let after = after.map_or("", Name::as_str);
    let mut statement = connection.prepare_cached(&SQL)?;
    let parameters = params![row, of.as_str(), after, STEPS_PER_DECISION as i64 + 1];
    let found = statement.query_map(parameters, |row| step_row(&mut Columns::of(row), spawned))?;
    loaded.downstreams = found.collect::<Read<_>>()?;
    loaded.has_more_downstreams = loaded.downstreams.len() > STEPS_PER_DECISION;
    loaded.downstreams.truncate(STEPS_PER_DECISION);
    Ok(())
}

const WITH_COUNTS: &str =
    "steps p LEFT JOIN missing_upstreams m ON m.task = p.task AND m.key = p.key";

/// The step under this key, with everything that is stored of it.
pub(super) fn stored_by_key(
    connection: &Connection,
    row: i64,
    key: &Name,
) -> Read<Option<StoredStep>> {
    let columns = STEP.join(", ");
    let sql = format!("SELECT {columns} FROM {WITH_COUNTS} WHERE p.task = ?1 AND p.key = ?2");
    connection
        .prepare_cached(&sql)?
        .query_row((row, key.as_str()), |row| step(&mut Columns::of(row)))
        .optional()
}

/// Steps from this place on, up to the limits.
pub(super) fn from_place(
    connection: &Connection,
    row: i64,
    place: u32,
    limit: usize,
    mut budget: Option<ByteBudget>,
) -> Read<Vec<StoredStep>> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let columns = STEP.join(", ");
        format!(
            "SELECT {columns} FROM {WITH_COUNTS} WHERE p.task = ?1 AND p.place >= ?2
             ORDER BY p.place LIMIT ?3"
        )
    });
    let mut statement = connection.prepare_cached(&SQL)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![row, place, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let stored = step(&mut Columns::of(row))?;
        if budget.as_mut().is_some_and(|budget| !budget.takes(row_size::step(&stored))) {
            break;
        }
        found.push(stored);
    }
    Ok(found)
}
