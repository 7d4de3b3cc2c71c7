//! The overview of a task, read in one snapshot.

use rusqlite::Connection;

use super::browse::{attempts, find, history, refused};
use super::readers::Read;
use crate::overview::{TaskOverview, latest_closed};
use crate::row::TaskKey;

pub(super) fn overview(
    connection: &Connection,
    key: &TaskKey,
    refused_max: usize,
) -> Read<Option<TaskOverview>> {
    let Some(task) = find(connection, key)? else { return Ok(None) };
    let first = history(connection, key, 0, 1)?.into_iter().next();
    let latest = match latest_closed(&task.subject) {
        Some(closed) => attempts(connection, key, closed - 1, 1)?.into_iter().next(),
        None => None,
    };
    let refused = refused(connection, key, None, refused_max)?;
    Ok(Some(TaskOverview { task, first, latest, refused }))
}
