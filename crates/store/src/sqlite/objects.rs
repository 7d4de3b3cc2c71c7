//! Objects and their log. The writer knows when the next object is due, so a batch of a store without such objects
//! executes nothing here.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, ToSql, params};
use verdict::{Object, ObjectKey, ObjectType, Scope, TaskId, Time};

use super::batch::SqliteBatch;
use super::readers::Read;
use super::rows::Columns;
use super::tables::{OBJECT_LOG, OBJECTS};
use super::work::{StepError, Work, conflict, invalid};
use super::writes::{Binding, insert};
use crate::failure::Failure;
use crate::objects::{
    Dialect, LoadedObject, ObjectChange, ObjectFilter, ObjectLogFilter, PendingObjects, UniqueKey,
    names,
};
use crate::tables::{self, ObjectColumns, ObjectKeyColumns, ObjectLogColumns};

/// Stands for a task where an object was changed by another writer.
const NO_TASK: TaskId = TaskId::from_u128(0);

/// When the next object is due.
pub(super) fn next_due(connection: &Connection) -> Read<Option<Time>> {
    let sql = "SELECT due FROM objects WHERE due IS NOT NULL ORDER BY due LIMIT 1";
    let due = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    Ok(due.map(Time::from_millis))
}

/// How many objects something is to be done about, by type and status.
pub(super) fn count_pending(connection: &Connection) -> Read<Vec<PendingObjects>> {
    let sql = "SELECT object_type, status, count(*) FROM objects WHERE pending = 1
        GROUP BY 1, 2 ORDER BY 1, 2";
    let mut statement = connection.prepare_cached(sql)?;
    let counts = statement.query_map([], |row| {
        let (name, status, count): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        // A type that a newer version wrote is not counted here.
        let object_type = ObjectType::ALL.into_iter().find(|it| it.name() == name);
        let counted = |object_type| PendingObjects {
            object_type,
            status: status.into(),
            count: count.unsigned_abs(),
        };
        Ok(object_type.map(counted))
    })?;
    counts.filter_map(Result::transpose).collect()
}

impl SqliteBatch<'_> {
    pub(super) fn load_objects(
        &mut self,
        keys: &[ObjectKey],
    ) -> Result<Vec<LoadedObject>, Failure> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.step("loading objects", |work| {
            let load = |key: &ObjectKey| Ok(loaded(one(work.connection, key)?));
            keys.iter().map(load).collect()
        })
    }

    pub(super) fn load_unique_objects(
        &mut self,
        keys: &[UniqueKey],
    ) -> Result<Vec<LoadedObject>, Failure> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.step("loading objects", |work| {
            let load = |key: &UniqueKey| Ok(loaded(by_unique_key(work.connection, key)?));
            keys.iter().map(load).collect()
        })
    }

    pub(super) fn list_objects(
        &mut self,
        filters: &[ObjectFilter],
    ) -> Result<Vec<Vec<Object>>, Failure> {
        if filters.is_empty() {
            return Ok(Vec::new());
        }
        self.step("listing objects", |work| {
            filters.iter().map(|filter| Ok(list(work.connection, filter)?)).collect()
        })
    }

    pub(super) fn objects_due(&mut self, now: Time, limit: usize) -> Result<Vec<Object>, Failure> {
        self.step("looking for due objects", |work| {
            if !work.memory.object_due.is_some_and(|due| due.has_come(now)) {
                return Ok(Vec::new());
            }
            Ok(due(work.connection, now, limit)?)
        })
    }
}

fn loaded(found: Option<Object>) -> LoadedObject {
    found.map_or(LoadedObject::Absent, LoadedObject::Object)
}

impl Work<'_> {
    pub(super) fn save_objects(&mut self, changes: &[ObjectChange]) -> Result<(), StepError> {
        let mut is_due_changed = false;
        for change in changes {
            let stored = revision(self.connection, &change.after.key)?;
            if !change.follows(stored.map(|(revision, _)| revision)) {
                return Err(conflict(NO_TASK));
            }
            if change.after.revision == 0 {
                return Err(invalid("the first revision of an object is 1"));
            }
            is_due_changed |= change.after.due != stored.and_then(|(_, due)| due);
            write(self.connection, change)?;
        }
        if is_due_changed {
            self.memory.object_due = next_due(self.connection)?;
        }
        Ok(())
    }
}

/// The stored revision of an object, and when it is due.
fn revision(connection: &Connection, key: &ObjectKey) -> Read<Option<(u32, Option<Time>)>> {
    let sql = "SELECT revision, due FROM objects
        WHERE tenant = ?1 AND workspace = ?2 AND object_type = ?3 AND id = ?4";
    let [tenant, workspace, object_type, id] = names(key);
    let read = |row: &rusqlite::Row<'_>| {
        let due: Option<i64> = row.get(1)?;
        Ok((row.get(0)?, due.map(Time::from_millis)))
    };
    let parameters = params![tenant, workspace, object_type, id];
    connection.prepare_cached(sql)?.query_row(parameters, read).optional()
}

fn write(connection: &Connection, change: &ObjectChange) -> Read<()> {
    static SAVE: LazyLock<String> = LazyLock::new(|| {
        let set = ObjectColumns::COLUMNS.iter().map(|it| format!("{0} = excluded.{0}", it.name));
        let set = set.collect::<Vec<_>>().join(", ");
        format!(
            "{} ON CONFLICT (tenant, workspace, object_type, id) DO UPDATE SET {set}",
            insert(&OBJECTS)
        )
    });
    static LOG: LazyLock<String> = LazyLock::new(|| insert(&OBJECT_LOG));
    let mut statement = connection.prepare_cached(&SAVE)?;
    let mut cells = Binding::of(&mut statement, OBJECTS.written);
    ObjectKeyColumns::write(&mut cells, &change.after.key);
    ObjectColumns::write(&mut cells, &change.after);
    cells.execute()?;
    let mut statement = connection.prepare_cached(&LOG)?;
    let mut cells = Binding::of(&mut statement, OBJECT_LOG.written);
    ObjectKeyColumns::write(&mut cells, &change.after.key);
    ObjectColumns::write(&mut cells, &change.after);
    ObjectLogColumns::write(&mut cells, change);
    cells.execute()?;
    match change.forgets_before() {
        Some(first) => shorten_log(connection, &change.after.key, first),
        None => Ok(()),
    }
}

/// Deletes the entries of an object's log before this revision.
fn shorten_log(connection: &Connection, key: &ObjectKey, first: u32) -> Read<()> {
    let sql = "DELETE FROM object_log WHERE tenant = ?1 AND workspace = ?2 AND object_type = ?3
        AND id = ?4 AND revision < ?5";
    let [tenant, workspace, object_type, id] = names(key);
    let parameters = params![tenant, workspace, object_type, id, first];
    connection.prepare_cached(sql)?.execute(parameters)?;
    Ok(())
}

fn read(connection: &Connection, from: &str, parameters: &[&dyn ToSql]) -> Read<Vec<Object>> {
    let sql = format!("SELECT {} FROM objects o {from}", tables::OBJECT.join(", "));
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(parameters, |row| tables::object(&mut Columns::of(row)))?.collect()
}

fn one(connection: &Connection, key: &ObjectKey) -> Read<Option<Object>> {
    let from = "WHERE o.tenant = ?1 AND o.workspace = ?2 AND o.object_type = ?3 AND o.id = ?4";
    let ObjectKey { scope, object_type, id } = key;
    let parameters =
        params![scope.tenant.as_str(), scope.workspace.as_str(), object_type.name(), id.as_str()];
    Ok(read(connection, from, parameters)?.pop())
}

fn by_unique_key(connection: &Connection, key: &UniqueKey) -> Read<Option<Object>> {
    let from =
        "WHERE o.tenant = ?1 AND o.workspace = ?2 AND o.object_type = ?3 AND o.unique_key = ?4";
    let UniqueKey { scope, object_type, unique_key } = key;
    let parameters = params![
        scope.tenant.as_str(),
        scope.workspace.as_str(),
        object_type.name(),
        unique_key.as_str()
    ];
    Ok(read(connection, from, parameters)?.pop())
}

fn due(connection: &Connection, now: Time, limit: usize) -> Read<Vec<Object>> {
    let from =
        "WHERE o.due <= ?1 ORDER BY o.due, o.tenant, o.workspace, o.object_type, o.id LIMIT ?2";
    read(connection, from, params![now.millis(), as_limit(limit)])
}

fn as_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A page of objects. Each wanted column is compared with a parameter, so that an index is used.
pub(super) fn list(connection: &Connection, filter: &ObjectFilter) -> Read<Vec<Object>> {
    let (from, values) = page(filter);
    let parameters: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
    let sql = format!("SELECT {} FROM objects o {from}", tables::OBJECT.join(", "));
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows =
        statement.query_map(&parameters[..], |row| tables::object(&mut Columns::of(row)))?;
    let (mut failed, found) = (None, rows.by_ref());
    let read = found.map_while(|row| row.map_err(|error| failed = Some(error)).ok());
    let page = filter.page(read);
    failed.map_or(Ok(page), Err)
}

const DIALECT: Dialect = Dialect {
    sign: '?',
    pending: "o.pending = 1",
    is_among: "IN (SELECT value FROM json_each(?#))",
};

fn page(filter: &ObjectFilter) -> (String, Vec<String>) {
    let (condition, values) = filter.condition(&DIALECT);
    let from = format!(
        "WHERE {} ORDER BY o.tenant, o.workspace, o.object_type, o.id LIMIT {}",
        condition,
        as_limit(filter.limit)
    );
    (from, values)
}

pub(super) fn log(connection: &Connection, filter: &ObjectLogFilter) -> Read<Vec<ObjectChange>> {
    let is_one = filter.key.is_some();
    let sql = format!(
        "SELECT {}, {} FROM object_log o
         WHERE (o.tenant, o.workspace, o.object_type, o.id, o.revision) > (?1, ?2, ?3, ?4, ?5) AND {}
         ORDER BY o.tenant, o.workspace, o.object_type, o.id, o.revision LIMIT ?6",
        tables::OBJECT.join(", "),
        tables::OBJECT_LOG,
        if is_one {
            "o.tenant = ?1 AND o.workspace = ?2 AND o.object_type = ?3 AND o.id = ?4"
        } else {
            "1"
        },
    );
    let after = filter.after.as_ref();
    let key = filter.key.as_ref().or(after.map(|(key, _)| key));
    let [tenant, workspace, object_type, id] = key.map_or([""; 4], names);
    let revision = after.map_or(0, |(_, revision)| *revision);
    let parameters = params![tenant, workspace, object_type, id, revision, as_limit(filter.limit)];
    let mut statement = connection.prepare_cached(&sql)?;
    let changes =
        statement.query_map(parameters, |row| tables::object_change(&mut Columns::of(row)))?;
    changes.collect()
}

/// Whether something is still to be done about an object of this run.
pub(super) fn has_pending(connection: &Connection, scope: &Scope, run: TaskId) -> Read<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM objects
        WHERE tenant = ?1 AND workspace = ?2 AND parent = ?3 AND pending = 1)";
    let parameters = params![scope.tenant.as_str(), scope.workspace.as_str(), run.run_name()];
    connection.prepare_cached(sql)?.query_row(parameters, |row| row.get(0))
}

/// Deletes the objects of runs that are being forgotten, with their log. Call it while the runs are in `leaving`.
pub(super) fn forget(connection: &Connection) -> Read<()> {
    let roots = "SELECT i.id, n.tenant, n.workspace FROM leaving g JOIN inputs i ON i.row = g.row
        JOIN lanes n ON n.lane = i.lane WHERE i.root IS NULL";
    let mut statement = connection.prepare_cached(roots)?;
    let runs = statement.query_map([], |row| {
        let mut columns = Columns::of(row);
        let id = TaskId::from_u128(u128::from_be_bytes(columns.take()?));
        Ok((id.run_name(), columns.scope()?))
    })?;
    let runs: Vec<_> = runs.collect::<Read<_>>()?;
    for sql in [
        "DELETE FROM object_log WHERE tenant = ?1 AND workspace = ?2 AND (object_type, id) IN (
            SELECT object_type, id FROM objects WHERE tenant = ?1 AND workspace = ?2 AND parent = ?3)",
        "DELETE FROM objects WHERE tenant = ?1 AND workspace = ?2 AND parent = ?3",
    ] {
        let mut statement = connection.prepare_cached(sql)?;
        for (run, scope) in &runs {
            statement.execute(params![scope.tenant.as_str(), scope.workspace.as_str(), run])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use verdict::{ObjectType, Scope};

    use super::*;

    /// What SQLite does to read a page.
    fn plan(filter: &ObjectFilter) -> String {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../../migrations/V1__store.sql")).unwrap();
        let (from, values) = page(filter);
        let sql = format!("EXPLAIN QUERY PLAN SELECT o.body FROM objects o {from}");
        let mut statement = connection.prepare(&sql).unwrap();
        let lines = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(3));
        lines.unwrap().collect::<Read<Vec<String>>>().unwrap().join("\n")
    }

    #[test]
    fn a_page_of_pending_approvals_reads_its_own_rows_and_sorts_none() {
        // F72: whatever else there is, and wherever the page begins.
        let first = ObjectFilter {
            scope: Some(Scope::default()),
            object_type: Some(ObjectType::Approval),
            status: Some(crate::objects::APPROVAL_PENDING.into()),
            limit: 100,
            ..ObjectFilter::default()
        };
        let (scope, object_type) = (Scope::default(), ObjectType::Approval);
        let after = Some(ObjectKey { scope, object_type, id: "appr_1".into() });
        for filter in [ObjectFilter { after, ..first.clone() }, first] {
            let plan = plan(&filter);
            // A later page begins at its place in the order of ids, and passes over closed ones.
            let index = ["objects_by_status (tenant=? AND workspace=?", "PRIMARY KEY (tenant=?"];
            assert!(index.iter().any(|index| plan.contains(index)), "{plan}");
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN"), "{plan}");
        }
    }
}
