//! The overview of a task, read in one snapshot and two round trips.

use super::browse::{attempts, find, history, refused};
use super::{Client, Read};
use crate::overview::{TaskOverview, latest_closed};
use crate::row::TaskKey;

pub(super) async fn overview(
    client: &Client,
    key: &TaskKey,
    refused_max: usize,
) -> Read<Option<TaskOverview>> {
    let (task, first, refused) = futures_util::join!(
        find(client, key),
        history(client, key.id, 0, 1),
        refused(client, key, None, refused_max),
    );
    // A task of another scope is not found, and nothing of it is returned.
    let Some(task) = task? else { return Ok(None) };
    let latest = match latest_closed(&task.subject) {
        Some(closed) => attempts(client, key.id, closed - 1, 1).await?.into_iter().next(),
        None => None,
    };
    Ok(Some(TaskOverview { task, first: first?.into_iter().next(), latest, refused: refused? }))
}
