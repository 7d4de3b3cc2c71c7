//! The columns of objects and of their log.

use verdict::{Json, Name, Object, ObjectKey, ObjectType, Scope, Time};

use super::{columns, select};
use crate::columns::{Columns, Row};
use crate::objects::ObjectChange;
#[cfg(feature = "postgres")]
use crate::objects::UniqueKey;

columns! {
    ObjectKeyColumns(key: &ObjectKey) reads ObjectKeyRow {
        tenant: Name = &key.scope.tenant,
        workspace: Name = &key.scope.workspace,
        object_type: ObjectType = &key.object_type,
        id: Name = &key.id,
    }
}

columns! {
    ObjectColumns(object: &Object) reads ObjectRow {
        revision: u32 = &object.revision,
        status: Name = &object.status,
        due: Option<Time> = object.due.as_ref(),
        unique_key: Option<Name> = object.unique_key.as_ref(),
        parent: Option<Name> = object.parent.as_ref(),
        pending: bool = &object.is_pending,
        body: Json = &object.body,
    }
}

columns! {
    /// What the log has besides.
    ObjectLogColumns(change: &ObjectChange) reads ObjectLogRow {
        at: Time = &change.at,
        by_key: Option<Name> = change.by.as_ref(),
    }
}

#[cfg(feature = "postgres")]
columns! {
    /// A unique key. Parameters of a statement.
    UniqueKeyColumns(key: &UniqueKey) {
        tenant: Name = &key.scope.tenant,
        workspace: Name = &key.scope.workspace,
        object_type: ObjectType = &key.object_type,
        unique_key: Name = &key.unique_key,
    }
}

/// The columns of `objects o`, or of the log under the same letter.
pub(crate) const OBJECT: [&str; 2] = [select!("o", ObjectKeyColumns), select!("o", ObjectColumns)];

pub(crate) const OBJECT_LOG: &str = select!("o", ObjectLogColumns);

pub(crate) fn object<R: Row>(columns: &mut Columns<'_, R>) -> Result<Object, R::Error> {
    let ObjectKeyRow { tenant, workspace, object_type, id } = ObjectKeyColumns::read(columns)?;
    let key = ObjectKey { scope: Scope { tenant, workspace }, object_type, id };
    let ObjectRow { revision, status, due, unique_key, parent, pending, body } =
        ObjectColumns::read(columns)?;
    Ok(Object { key, revision, status, due, unique_key, parent, is_pending: pending, body })
}

pub(crate) fn object_change<R: Row>(
    columns: &mut Columns<'_, R>,
) -> Result<ObjectChange, R::Error> {
    let after = object(columns)?;
    let ObjectLogRow { at, by_key } = ObjectLogColumns::read(columns)?;
    Ok(ObjectChange { after, at, by: by_key })
}
