//! What waits for a person, and what the server has: queues, kinds, schedules.

use serde::Deserialize;
use tenure::Client;
use wire::requests::ListKinds;
use wire::schedules::ListSchedules;

use super::{Answer, page, written};
use crate::inbox::Inbox;

/// Kinds and schedules on a page.
const ITEMS: (u32, u32) = (50, 200);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InboxArguments {
    deployment: Option<String>,
}

pub(super) async fn inbox(client: &Client, asked: InboxArguments) -> Answer {
    written(&Inbox::read(client, asked.deployment).await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

pub(super) async fn list_queues(client: &Client, _: Nothing) -> Answer {
    written(&client.queues().list().await?)
}

pub(super) async fn list_kinds(client: &Client, asked: ListKinds) -> Answer {
    let limit = Some(page(asked.limit, ITEMS.0, ITEMS.1)?);
    written(&client.kinds().list().with(ListKinds { limit, ..asked }).await?)
}

pub(super) async fn list_schedules(client: &Client, asked: ListSchedules) -> Answer {
    let limit = Some(page(asked.limit, ITEMS.0, ITEMS.1)?);
    written(&client.schedules().list().with(ListSchedules { limit, ..asked }).await?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GetSchedule {
    schedule: String,
}

pub(super) async fn get_schedule(client: &Client, asked: GetSchedule) -> Answer {
    written(&client.schedules().get(&asked.schedule).await?)
}
