//! Lists of objects and of their log.

use tokio_postgres::types::{ToSql, Type};
use verdict::{Name, Object, ObjectKey};

use super::{Client, Read, as_limit};
use crate::objects::{ObjectChange, ObjectFilter, ObjectLogFilter};
use crate::postgres::rows::Columns;
use crate::tables;

/// The names of a key, as a statement compares them.
fn names(key: &ObjectKey) -> [&str; 4] {
    let ObjectKey { scope, object_type, id } = key;
    [scope.tenant.as_str(), scope.workspace.as_str(), object_type.name(), id.as_str()]
}

pub(super) async fn list(client: &Client, filter: &ObjectFilter) -> Read<Vec<Object>> {
    let mut conditions = vec!["true".to_owned()];
    let mut values: Vec<String> = Vec::new();
    let mut compare = |column: &str, value: Option<&str>| {
        if let Some(value) = value {
            values.push(value.to_owned());
            conditions.push(format!("o.{column} = ${}", values.len()));
        }
    };
    compare("tenant", filter.scope.as_ref().map(|scope| scope.tenant.as_str()));
    compare("workspace", filter.scope.as_ref().map(|scope| scope.workspace.as_str()));
    compare("object_type", filter.object_type.map(|it| it.name()));
    compare("id", filter.id.as_ref().map(Name::as_str));
    compare("status", filter.status.as_ref().map(Name::as_str));
    compare("parent", filter.parent.as_ref().map(Name::as_str));
    if filter.is_pending {
        conditions.push("o.pending".to_owned());
    }
    if let Some(after) = &filter.after {
        values.extend(names(after).map(str::to_owned));
        let [a, b, c, d] = [3, 2, 1, 0].map(|back| values.len() - back);
        conditions.push(format!(
            "(o.tenant, o.workspace, o.object_type, o.id) > (${a}, ${b}, ${c}, ${d})"
        ));
        if filter.scope.is_some() && filter.object_type == Some(after.object_type) {
            conditions.push(format!("o.id > ${d}"));
        }
    }
    let sql = format!(
        "SELECT {} FROM tenure.objects o WHERE {} \
         ORDER BY o.tenant, o.workspace, o.object_type, o.id LIMIT {}",
        tables::OBJECT.join(", "),
        conditions.join(" AND "),
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
