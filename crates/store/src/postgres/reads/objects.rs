//! Lists of objects and of their log.

use tokio_postgres::types::{ToSql, Type};
use verdict::Object;

use super::{Client, Read, as_limit};
use crate::objects::{Dialect, ObjectChange, ObjectFilter, ObjectLogFilter, names};
use crate::postgres::rows::Columns;
use crate::tables;

const DIALECT: Dialect = Dialect {
    sign: '$',
    pending: "o.pending",
    is_among: "= ANY (ARRAY(SELECT json_array_elements_text($#::json)))",
};

pub(in crate::postgres) async fn list(client: &Client, filter: &ObjectFilter) -> Read<Vec<Object>> {
    let (condition, values) = filter.condition(&DIALECT);
    let sql = format!(
        "SELECT {} FROM tenure.objects o WHERE {} \
         ORDER BY o.tenant, o.workspace, o.object_type, o.id LIMIT {}",
        tables::OBJECT.join(", "),
        condition,
        as_limit(filter.limit)
    );
    let parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        values.iter().map(|value| (value as &(dyn ToSql + Sync), Type::TEXT)).collect();
    let rows = client.query_typed(&sql, &parameters).await?;
    rows.iter().map(|row| Ok(tables::object(&mut Columns::of(row))?)).collect()
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
