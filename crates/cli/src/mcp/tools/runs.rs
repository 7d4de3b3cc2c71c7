//! Reading runs, and stopping one.

use serde::Deserialize;
use tenure::{CancelMode, Client};
use wire::requests::{ListRuns, LogsQuery};

use super::{Answer, page, wait, written};
use crate::runs::run_id;

/// Runs, history entries and log lines on a page: what fits the limit of an answer if they are of usual size.
const RUNS: (u32, u32) = (20, 100);
const ENTRIES: (u32, u32) = (50, 200);
const LINES: (u32, u32) = (100, 500);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GetRun {
    run_id: String,
    wait_ms: Option<u64>,
}

pub(super) async fn get_run(client: &Client, asked: GetRun) -> Answer {
    let run = client.run(run_id(&asked.run_id));
    let run = match wait(asked.wait_ms)? {
        Some(wait) => run.wait_timeout(wait).await,
        None => run.status().await,
    };
    written(&run?)
}

pub(super) async fn list_runs(client: &Client, asked: ListRuns) -> Answer {
    let limit = Some(page(asked.limit, RUNS.0, RUNS.1)?);
    written(&client.runs_with(ListRuns { limit, ..asked }).await?)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OfRun {
    run_id: String,
}

pub(super) async fn explain_run(client: &Client, asked: OfRun) -> Answer {
    written(&client.run(run_id(&asked.run_id)).explain().await?)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunHistory {
    run_id: String,
    after: Option<u64>,
    limit: Option<u32>,
}

pub(super) async fn run_history(client: &Client, asked: RunHistory) -> Answer {
    let limit = page(asked.limit, ENTRIES.0, ENTRIES.1)?;
    let history = client.run(run_id(&asked.run_id)).history().limit(limit);
    let history = match asked.after {
        Some(after) => history.after(after),
        None => history,
    };
    written(&history.await?)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunLogs {
    run_id: String,
    after: Option<String>,
    limit: Option<u32>,
}

pub(super) async fn run_logs(client: &Client, asked: RunLogs) -> Answer {
    let limit = Some(page(asked.limit, LINES.0, LINES.1)?);
    let query = LogsQuery { after: asked.after, limit };
    written(&client.run(run_id(&asked.run_id)).logs_page(&query).await?)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CancelRun {
    run_id: String,
    reason: Option<String>,
    #[serde(default)]
    force: bool,
}

pub(super) async fn cancel_run(client: &Client, asked: CancelRun) -> Answer {
    let mode = if asked.force { CancelMode::Immediate } else { CancelMode::Graceful };
    let cancel = client.run(run_id(&asked.run_id)).cancel().mode(mode);
    let cancel = match asked.reason {
        Some(reason) => cancel.reason(reason),
        None => cancel,
    };
    written(&cancel.await?)
}
