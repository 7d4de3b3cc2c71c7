//! Lists of objects and of their log.

use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::{Name, Object, ObjectType, Scope};

use super::{Client, Read, as_limit};
use crate::objects::{
    Dialect, OBJECT_ROW_BYTES, ObjectChange, ObjectFilter, ObjectLogFilter, PendingObjects, names,
};
use crate::postgres::rows::Columns;
use crate::tables;

const DIALECT: Dialect = Dialect {
    sign: '$',
    pending: "o.pending",
    is_among: "= ANY (ARRAY(SELECT json_array_elements_text($#::json)))",
};

/// Objects of one type and status in one scope: what calls look up again and again.
static OF_STATUS: LazyLock<String> = LazyLock::new(|| {
    list_statement(&ObjectFilter {
        scope: Some(Scope::default()),
        object_type: Some(ObjectType::Endpoint),
        status: Some(Name::from("any")),
        ..ObjectFilter::default()
    })
    .0
});

/// Statements that calls about objects repeat, to be prepared on direct connections.
pub(super) fn frequent_statements() -> [&'static str; 1] {
    [OF_STATUS.as_str()]
}

pub(in crate::postgres) async fn list(client: &Client, filter: &ObjectFilter) -> Read<Vec<Object>> {
    let ((sql, values), limit) = (list_statement(filter), as_limit(filter.limit));
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        values.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
    parameters.push((&limit, Type::INT8));
    let rows = client.query_typed(&sql, &parameters).await?;
    rows.iter().map(|row| Ok(tables::object(&mut Columns::of(row))?)).collect()
}

/// The list of a filter and the values of its parameters, after which comes the limit.
fn list_statement(filter: &ObjectFilter) -> (String, Vec<String>) {
    let (condition, values) = filter.condition(&DIALECT);
    let page = format!(
        "tenure.objects o WHERE {condition} \
         ORDER BY o.tenant, o.workspace, o.object_type, o.id LIMIT ${}",
        values.len() + 1
    );
    // The database leaves out what does not fit: otherwise all of it would be sent, to be dropped here.
    let from = match filter.bytes {
        None => page,
        Some(bytes) => format!(
            "(SELECT o.*, sum(octet_length(o.body) + {OBJECT_ROW_BYTES}) OVER ( \
                 ORDER BY o.tenant, o.workspace, o.object_type, o.id ROWS UNBOUNDED PRECEDING) \
                 - octet_length(o.body) - {OBJECT_ROW_BYTES} AS bytes_before FROM {page}) o \
             WHERE o.bytes_before < {bytes} ORDER BY o.tenant, o.workspace, o.object_type, o.id"
        ),
    };
    (format!("SELECT {} FROM {from}", tables::OBJECT.join(", ")), values)
}

pub(super) async fn log(client: &Client, filter: &ObjectLogFilter) -> Read<Vec<ObjectChange>> {
    let is_one = filter.key.is_some();
    let sql = format!(
        "SELECT {}, {} FROM tenure.object_log o \
         WHERE (o.tenant, o.workspace, o.object_type, o.id, o.revision) > ($1, $2, $3, $4, $5) AND {} \
         ORDER BY o.tenant, o.workspace, o.object_type, o.id, o.revision LIMIT $6",
        tables::OBJECT.join(", "),
        tables::OBJECT_LOG,
        if is_one {
            "o.tenant = $1 AND o.workspace = $2 AND o.object_type = $3 AND o.id = $4"
        } else {
            "true"
        },
    );
    let after = filter.after.as_ref();
    let key = filter.key.as_ref().or(after.map(|(key, _)| key));
    let [tenant, workspace, object_type, id] = key.map_or([""; 4], names);
    let revision = after.map_or(0, |(_, revision)| i32::try_from(*revision).unwrap_or(i32::MAX));
    let limit = as_limit(filter.limit);
    let parameters: [(&(dyn ToSql + Sync), Type); 6] = [
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&object_type, Type::TEXT),
        (&id, Type::TEXT),
        (&revision, Type::INT4),
        (&limit, Type::INT8),
    ];
    let rows = client.query_typed(&sql, &parameters).await?;
    rows.iter().map(|row| Ok(tables::object_change(&mut Columns::of(row))?)).collect()
}

/// How many objects something is to be done about, by type and status.
pub(super) async fn count_pending(client: &Client) -> Read<Vec<PendingObjects>> {
    let sql = "SELECT object_type, status, count(*) FROM tenure.objects WHERE pending \
        GROUP BY 1, 2 ORDER BY 1, 2";
    let rows = client.query_typed(sql, &[]).await?;
    let counted = |row: &Row| {
        let mut columns = Columns::of(row);
        let (name, status): (String, String) = (columns.take()?, columns.take()?);
        let count: i64 = columns.take()?;
        // A type that a newer version wrote is not counted here.
        let object_type = ObjectType::ALL.into_iter().find(|it| it.name() == name);
        let counts = |object_type| PendingObjects {
            object_type,
            status: status.into(),
            count: count.unsigned_abs(),
        };
        Ok(object_type.map(counts))
    };
    rows.iter().map(counted).filter_map(Result::transpose).collect()
}
