//! What `retry` and `continue` share when they take many runs: runs that were redone before are left out, the runs are named
//! before the confirmation, and a refusal of one run does not stop the others.
//!
//! Whether a run was redone is read from the runs that were made of it: they carry its id under a label.

use std::collections::HashSet;

use serde::Serialize;
use tenure::Client;
use wire::answers::{Problem, Run};
use wire::requests::ListRuns;
use wire::{Code, Time};

use super::filter::{self, More};
use crate::exit::CliError;
use crate::output;
use crate::server;

/// The number of runs that are named before the confirmation; the rest is counted. A dry run names all.
pub(super) const SHOWN: usize = 10;

/// How many new runs of one period are compared with the runs that match. For more, the idempotency keys remain.
const REDONE_MAX: u32 = 100_000;

/// The runs that were redone. A new run is younger than the one that it redoes, so it is enough to read as far back as the runs go.
pub(super) struct RedoneRuns {
    label: &'static str,
    redoes: fn(Run) -> Option<String>,
    ids: HashSet<String>,
    /// New runs since then were read.
    since: Option<Time>,
}

impl RedoneRuns {
    /// `redoes` is the run that a run with this label redoes.
    pub(super) fn new(label: &'static str, redoes: fn(Run) -> Option<String>) -> Self {
        Self { label, redoes, ids: HashSet::new(), since: None }
    }

    async fn read_back_to(&mut self, client: &Client, runs: &[Run]) -> Result<(), CliError> {
        let Some(oldest) = runs.iter().map(|run| run.created_at).min() else { return Ok(()) };
        let query = ListRuns {
            label: vec![self.label.to_owned()],
            since: Some(oldest),
            until: self.since,
            ..ListRuns::default()
        };
        let (new, _) = filter::pages(client, query, REDONE_MAX).await?;
        self.ids.extend(new.into_iter().filter_map(self.redoes));
        self.since = Some(oldest);
        Ok(())
    }
}

/// The newest runs that match and were not redone, and how many newer ones were.
pub(super) async fn matching(
    client: &Client,
    mut query: ListRuns,
    limit: u32,
    mut redone: RedoneRuns,
) -> Result<(Vec<Run>, u64, More), CliError> {
    let (mut runs, mut left_out) = (Vec::new(), 0);
    loop {
        let missing = limit - u32::try_from(runs.len()).unwrap_or(limit);
        query.limit = Some(missing.min(super::PAGE));
        let page = client.runs_with(query.clone()).await.map_err(server::cli_error)?;
        redone.read_back_to(client, &page.runs).await?;
        let (before, after): (Vec<Run>, Vec<Run>) =
            page.runs.into_iter().partition(|run| redone.ids.contains(&run.run_id));
        left_out += before.len() as u64;
        runs.extend(after);
        match page.next_cursor {
            Some(_) if runs.len() >= limit as usize => return Ok((runs, left_out, More::Yes)),
            Some(cursor) => query.cursor = Some(cursor),
            None => return Ok((runs, left_out, More::No)),
        }
    }
}

pub(super) fn preview(runs: &[Run], shown: usize) -> Result<(), CliError> {
    if runs.is_empty() {
        output::note("no run matches; nothing to do");
        return Ok(());
    }
    for run in runs.iter().take(shown) {
        let Run { run_id, kind, queue, state, .. } = run;
        let why = run.error.as_ref().map(super::reason).unwrap_or_default();
        output::line(format!("{run_id}  {kind} on {queue}  {state}  {why}").trim_end())?;
    }
    if runs.len() > shown {
        output::line(format_args!("… and {} others", runs.len() - shown))?;
    }
    Ok(())
}

/// A run that the server refused to redo, and why.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refused {
    run_id: String,
    error: String,
    message: String,
}

impl Refused {
    pub(super) fn new(run_id: String, problem: Problem) -> Self {
        let Problem { error, message, .. } = problem;
        Self { run_id, error, message }
    }

    pub(super) fn warn(&self) {
        let Self { run_id, error, message } = self;
        output::warning(format_args!("{run_id}: {message} [{error}]"));
    }
}

/// Whether a refusal says something about one run, so that another one may be accepted.
pub(super) fn is_about_the_run(problem: &Problem) -> bool {
    let is_about_all = matches!(problem.code(), Some(Code::QuotaReached | Code::BudgetSpent));
    matches!(problem.status, 404 | 409 | 422) && !is_about_all
}
