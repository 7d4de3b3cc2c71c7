//! Objects: loaded and locked after the tasks of a batch, and written when they are saved, so that later reads of the
//! same batch see them. Most batches have none.
//!
//! Rows that another writer has locked are passed over and reported as locked. Two things wait for another transaction: a
//! batch that waits for a lock anyway, with a limit, waits for the objects that it names by their keys, too; and a change of an
//! endpoint or a pause waits for another one, because each raises one version, which fences batches that do not know of it
//! ([`crate::Batch::settings_version`]).

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::{Object, ObjectKey, ObjectType, Span, TaskId, Time};

use super::PostgresBatch;
use super::column_batch::{ColumnBatch, Statement};
use super::writes::inserting;
use crate::failure::Failure;
use crate::lookup::LockWait;
use crate::objects::{LoadedObject, ObjectChange, ObjectFilter, UniqueKey};
use crate::postgres::administration::{pauses, pruning};
use crate::postgres::errors::{conflict, invalid};
use crate::postgres::reads::objects::list;
use crate::postgres::reads::{Client, Read, as_limit, set_scopes};
use crate::postgres::rows::Columns;
use crate::postgres::tables::{OBJECT_KEYS, OBJECT_LOG, OBJECTS, UNIQUE_KEYS};
use crate::tables::{self, ObjectColumns, ObjectKeyColumns, ObjectLogColumns, UniqueKeyColumns};

/// After a read has found no object that is due, how long none is looked for, unless this process saves one: as for
/// saved messages.
const OBJECT_REST: Span = Span::from_millis(250);

/// Stands for a task where an object was changed by another writer.
const NO_TASK: TaskId = TaskId::from_u128(0);

const SAME_KEY: &str = "o.tenant = u.tenant AND o.workspace = u.workspace AND o.object_type = u.object_type AND o.id = u.id";

static OBJECTS_INSERT: LazyLock<Statement> = LazyLock::new(|| inserting(&OBJECTS));
static LOG_INSERT: LazyLock<Statement> = LazyLock::new(|| inserting(&OBJECT_LOG));

static OBJECTS_UPDATE: LazyLock<Statement> = LazyLock::new(|| {
    let is_changing = |name: &&str| *name != "parent";
    let names = ObjectColumns::COLUMNS.iter().map(|column| column.name).filter(is_changing);
    let set: Vec<String> = names.map(|name| format!("{name} = u.{name}")).collect();
    Statement::over(OBJECTS.written, |rows| {
        format!(
            "UPDATE tenure.objects o SET {} FROM {} WHERE {SAME_KEY} AND o.revision = u.revision - 1",
            set.join(", "),
            rows.table("u")
        )
    })
});

/// Where an object begins with a later revision, because its store was copied, it is inserted.
static OBJECTS_UPSERT: LazyLock<Statement> = LazyLock::new(|| {
    let is_changing = |name: &&str| *name != "parent";
    let names = ObjectColumns::COLUMNS.iter().map(|column| column.name).filter(is_changing);
    let set: Vec<String> = names.map(|name| format!("{name} = excluded.{name}")).collect();
    Statement::over(OBJECTS.written, |rows| {
        format!(
            "INSERT INTO tenure.objects AS o ({0}) SELECT {0} FROM {1} \
             ON CONFLICT (tenant, workspace, object_type, id) DO UPDATE SET {2} \
             WHERE o.revision = excluded.revision - 1",
            tables::names(OBJECTS.written, ""),
            rows.table("u"),
            set.join(", ")
        )
    })
});

fn selecting(list: tables::ColumnList, same: &str, lock: &str) -> Statement {
    let columns = tables::OBJECT.join(", ");
    Statement::over(list, |rows| {
        format!(
            "SELECT {columns} FROM {} JOIN tenure.objects o ON {same} \
             ORDER BY o.tenant, o.workspace, o.object_type, o.id {lock}",
            rows.table("u")
        )
    })
}

const SKIPPING: &str = "FOR UPDATE OF o SKIP LOCKED";
const WAITING: &str = "FOR UPDATE OF o";
const SAME_UNIQUE: &str = "o.tenant = u.tenant AND o.workspace = u.workspace AND o.object_type = u.object_type \
    AND o.unique_key = u.unique_key";

static BY_KEY: LazyLock<[Statement; 2]> =
    LazyLock::new(|| ["", SKIPPING].map(|lock| selecting(OBJECT_KEYS, SAME_KEY, lock)));
static BY_KEY_WAITING: LazyLock<[Statement; 2]> =
    LazyLock::new(|| ["", WAITING].map(|lock| selecting(OBJECT_KEYS, SAME_KEY, lock)));
static BY_UNIQUE_KEY: LazyLock<[Statement; 2]> =
    LazyLock::new(|| ["", SKIPPING].map(|lock| selecting(UNIQUE_KEYS, SAME_UNIQUE, lock)));

/// The lookup of many objects by their keys, without a lock.
#[cfg(feature = "testing")]
pub(in crate::postgres) fn by_key() -> &'static str {
    BY_KEY[0].texts()[1]
}

static DUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM tenure.objects o WHERE o.due <= $1 \
         ORDER BY o.due, o.tenant, o.workspace, o.object_type, o.id LIMIT $2 FOR UPDATE SKIP LOCKED",
        tables::OBJECT.join(", ")
    )
});

/// The earliest time at which an object is due, for the computation of the next wake-up.
pub(in crate::postgres) const NEXT_DUE: &str =
    "(SELECT o.due FROM tenure.objects o WHERE o.due IS NOT NULL ORDER BY o.due LIMIT 1)";

/// Statements that batches with objects repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> impl Iterator<Item = &'static str> {
    let written: [&'static LazyLock<Statement>; 4] =
        [&OBJECTS_INSERT, &OBJECTS_UPDATE, &OBJECTS_UPSERT, &LOG_INSERT];
    let written = written.into_iter().flat_map(|statement| statement.texts());
    let loaded: [&'static LazyLock<[Statement; 2]>; 3] = [&BY_KEY, &BY_KEY_WAITING, &BY_UNIQUE_KEY];
    let loaded = loaded.into_iter().flat_map(|both| both.iter().flat_map(Statement::texts));
    written.chain(loaded).chain([DUE.as_str()]).chain(pruning::frequent_statements())
}

impl PostgresBatch<'_> {
    pub(super) async fn load_objects(
        &mut self,
        keys: &[ObjectKey],
        lock_wait: LockWait,
    ) -> Result<Vec<LoadedObject>, Failure> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = ColumnBatch::new(OBJECT_KEYS);
        keys.iter().for_each(|key| ObjectKeyColumns::write(rows.row(), key));
        let setting = self.scopes.add(keys.iter().map(|key| &key.scope));
        let statements = match lock_wait {
            LockWait::Wait => &BY_KEY_WAITING,
            LockWait::Skip => &BY_KEY,
        };
        let found = self.lock_objects(setting, rows, statements).await?;
        let by_key: HashMap<ObjectKey, LoadedObject> =
            found.into_iter().map(|(object, loaded)| (object.key, loaded)).collect();
        Ok(keys
            .iter()
            .map(|key| by_key.get(key).cloned().unwrap_or(LoadedObject::Absent))
            .collect())
    }

    pub(super) async fn load_unique_objects(
        &mut self,
        keys: &[UniqueKey],
    ) -> Result<Vec<LoadedObject>, Failure> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = ColumnBatch::new(UNIQUE_KEYS);
        keys.iter().for_each(|key| UniqueKeyColumns::write(rows.row(), key));
        let setting = self.scopes.add(keys.iter().map(|key| &key.scope));
        let found = self.lock_objects(setting, rows, &BY_UNIQUE_KEY).await?;
        let unique = |object: &Object| {
            let ObjectKey { scope, object_type, .. } = object.key.clone();
            Some(UniqueKey { scope, object_type, unique_key: object.unique_key.clone()? })
        };
        let by_key: HashMap<UniqueKey, LoadedObject> = found
            .into_iter()
            .filter_map(|(object, loaded)| Some((unique(&object)?, loaded)))
            .collect();
        Ok(keys
            .iter()
            .map(|key| by_key.get(key).cloned().unwrap_or(LoadedObject::Absent))
            .collect())
    }

    /// The named objects, and for each whether this batch has locked it.
    async fn lock_objects(
        &mut self,
        setting: Option<String>,
        rows: ColumnBatch,
        statements: &'static [Statement; 2],
    ) -> Result<Vec<(Object, LoadedObject)>, Failure> {
        self.has_answers = true;
        let work = move |client: Client| async move {
            set_scopes(&client, setting).await?;
            let [seen, locked] = statements;
            let parameters = rows.parameters();
            let locked = client.query_typed(locked.text_for(&rows), &parameters).await?;
            let seen = client.query_typed(seen.text_for(&rows), &parameters).await?;
            Ok((read(&locked)?, read(&seen)?))
        };
        let (locked, seen) = self.transaction().run("loading objects", work).await?;
        let ours: HashSet<ObjectKey> = locked.iter().map(|object| object.key.clone()).collect();
        let others = seen.into_iter().filter(|object| !ours.contains(&object.key));
        let others: Vec<_> = others.map(|object| (object, LoadedObject::Locked)).collect();
        let ours = locked.into_iter().map(|it| (it.clone(), LoadedObject::Object(it)));
        Ok(ours.chain(others).collect())
    }

    /// Objects as they are committed now: every statement of a batch sees what was committed before it.
    pub(super) async fn list_objects(
        &mut self,
        filters: &[ObjectFilter],
    ) -> Result<Vec<Vec<Object>>, Failure> {
        if filters.is_empty() {
            return Ok(Vec::new());
        }
        let setting = self.scopes.add(filters.iter().filter_map(|filter| filter.scope.as_ref()));
        let filters = filters.to_vec();
        let work = move |client: Client| async move {
            set_scopes(&client, setting).await?;
            let mut listed = Vec::with_capacity(filters.len());
            for filter in &filters {
                listed.push(list(&client, filter).await?);
            }
            Ok(listed)
        };
        self.transaction().run("listing objects", work).await
    }

    pub(super) async fn list_due_objects(
        &mut self,
        now: Time,
        limit: usize,
    ) -> Result<Vec<Object>, Failure> {
        if self.writer.shared.memory().has_no_due_object(now) {
            return Ok(Vec::new());
        }
        let setting = self.scopes.all();
        let limit = as_limit(limit);
        let work = move |client: Client| async move {
            set_scopes(&client, setting).await?;
            let now = now.millis();
            let parameters: [(&(dyn ToSql + Sync), Type); 2] =
                [(&now, Type::INT8), (&limit, Type::INT8)];
            read(&client.query_typed(&DUE, &parameters).await?)
        };
        let due = self.transaction().run("looking for due objects", work).await?;
        if due.is_empty() {
            self.writer.shared.memory().no_due_object_until = Some(now.plus(OBJECT_REST));
        }
        Ok(due)
    }

    /// Writes objects with their log. Fails if another writer has changed one of them.
    pub(super) async fn change_objects(
        &mut self,
        changes: Vec<ObjectChange>,
    ) -> Result<(), Failure> {
        if changes.iter().any(|change| change.after.revision == 0) {
            return Err(invalid("the first revision of an object is 1"));
        }
        self.has_changed_objects = true;
        self.writer.shared.memory().no_due_object_until = None;
        let is_of_endpoint =
            |change: &ObjectChange| change.after.key.object_type == ObjectType::Endpoint;
        let is_raised = !self.has_raised_version && changes.iter().any(is_of_endpoint);
        self.has_raised_version |= is_raised;
        let setting = self.scopes.add(changes.iter().map(|change| &change.after.key.scope));
        let work = move |client: Client| async move {
            set_scopes(&client, setting).await?;
            let mut left = changes.as_slice();
            while !left.is_empty() {
                let (together, later) = left.split_at(distinct(left));
                if !write(&client, together).await? {
                    return Ok(false);
                }
                left = later;
            }
            if is_raised {
                pauses::raise(&client).await?;
            }
            Ok(true)
        };
        let is_whole = self.transaction().run("writing objects", work).await?;
        if is_whole { Ok(()) } else { Err(conflict(NO_TASK)) }
    }
}

/// How many of these changes can be written together: one object may change twice in a batch, and the second change is
/// guarded by the first.
fn distinct(changes: &[ObjectChange]) -> usize {
    let mut seen = HashSet::new();
    changes.iter().take_while(|change| seen.insert(&change.after.key)).count()
}

/// Writes changes of different objects, in four statements at most, and shortens bounded logs. Whether all of them were as
/// expected.
async fn write(client: &Client, changes: &[ObjectChange]) -> Read<bool> {
    let [mut inserted, mut updated, mut upserted] =
        [(); 3].map(|()| ColumnBatch::new(OBJECTS.written));
    let mut log = ColumnBatch::new(OBJECT_LOG.written);
    let [mut inserts, mut updates, mut upserts] = [0_u64; 3];
    for change in changes {
        let is_bounded = change.after.key.object_type.has_bounded_log();
        let (rows, count) = match change.before() {
            None => (&mut inserted, &mut inserts),
            Some(_) if is_bounded => (&mut upserted, &mut upserts),
            Some(_) => (&mut updated, &mut updates),
        };
        *count += 1;
        let cells = rows.row();
        ObjectKeyColumns::write(cells, &change.after.key);
        ObjectColumns::write(cells, &change.after);
        let cells = log.row();
        ObjectKeyColumns::write(cells, &change.after.key);
        ObjectColumns::write(cells, &change.after);
        ObjectLogColumns::write(cells, change);
    }
    for (count, rows, statement) in [
        (inserts, &inserted, &OBJECTS_INSERT),
        (updates, &updated, &OBJECTS_UPDATE),
        (upserts, &upserted, &OBJECTS_UPSERT),
    ] {
        if count > 0
            && client.execute_typed(statement.text_for(rows), &rows.parameters()).await? != count
        {
            return Ok(false);
        }
    }
    client.execute_typed(LOG_INSERT.text_for(&log), &log.parameters()).await?;
    for change in changes {
        if let Some(first) = change.forgets_before() {
            pruning::shorten_log(client, &change.after.key, first).await?;
        }
    }
    Ok(true)
}

fn read(rows: &[Row]) -> Read<Vec<Object>> {
    rows.iter().map(|row| Ok(tables::object(&mut Columns::of(row))?)).collect()
}
