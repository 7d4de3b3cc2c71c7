//! `tenure runs continue`: new runs that start from the recorded steps of runs that were halted, failed or were cancelled; one by its
//! id, or many by filter.
//!
//! By filter it lists the runs, names them, asks for confirmation and continues one after the other. Each call has an idempotency key
//! that is derived from its run, and runs that were continued before are left out, so that the command can be repeated after an
//! interruption. A run that the server refuses to continue is named, and does not stop the others.

use std::collections::HashSet;

use serde::Serialize;
use tenure::{Client, Error, ForkRequest};
use wire::State;
use wire::answers::{Problem, Run};
use wire::names::FORK_OF_LABEL;
use wire::requests::{Budget, ListRuns};

use super::filter::{self, Filters, More};
use crate::bulk::{self, LIMIT_DEFAULT, LIMIT_MAX};
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

/// How many forks of one period are compared with the runs that match. For more, the idempotency keys remain.
const FORKS_MAX: u32 = 100_000;

/// The number of runs that are named before the confirmation; the rest is counted. A dry run names all.
const SHOWN: usize = 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run that was halted, failed or was cancelled
    #[arg(value_name = "RUN", required_unless_present = "filters", conflicts_with = "filters")]
    id: Option<String>,
    /// What each new run may use, as in `cost=500000,tokens=20000,steps=50,tools=100,wall=10m,active=5m`; as much as its old run
    /// could without it
    #[arg(long, value_name = "LIMITS", value_parser = crate::budget::limits)]
    budget: Option<Budget>,
    /// The key of the first step to execute again; without it, all recorded steps are taken over
    #[arg(long, value_name = "KEY", conflicts_with = "filters")]
    from_step: Option<String>,
    /// A repeated call with the same key returns the run that the first one made
    #[arg(long, value_name = "KEY", conflicts_with = "filters")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    filters: Filters,
    /// Print what would be continued, and do nothing
    #[arg(long, requires = "filters")]
    dry_run: bool,
    /// Do not ask for confirmation, which only filters need
    #[arg(long, short)]
    yes: bool,
    /// Continue at most this many, the newest first
    #[arg(long, short = 'n', requires = "filters", default_value_t = LIMIT_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: u32,
}

/// What came of many.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    dry_run: bool,
    /// More runs match than were listed.
    more: bool,
    matched: Vec<String>,
    /// Runs that match, but were continued before.
    already_continued: u64,
    /// The new runs.
    continued: Vec<String>,
    /// Runs that the server refused to continue, and why.
    refused: Vec<Refused>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Refused {
    run_id: String,
    error: String,
    message: String,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    match &arguments.id {
        Some(id) => one(&client, format, &super::run_id(id), &arguments).await,
        None => many(&client, format, arguments).await,
    }
}

fn request(client: &Client, id: &str, budget: Option<&Budget>) -> ForkRequest {
    let fork = client.run(id).fork();
    match budget {
        Some(budget) => fork.budget(budget.clone()),
        None => fork,
    }
}

async fn one(client: &Client, format: Format, id: &str, asked: &Arguments) -> CommandResult {
    let mut fork = request(client, id, asked.budget.as_ref());
    if let Some(step) = &asked.from_step {
        fork = fork.from_step(step);
    }
    if let Some(key) = &asked.idempotency_key {
        fork = fork.key(key);
    }
    let accepted = fork.accepted().await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&accepted)?,
        Format::People => {
            output::line(&accepted.run_id)?;
            output::note(format_args!(
                "it continues {id}; follow it with `tenure runs watch {}`",
                accepted.run_id
            ));
        }
    }
    Ok(Exit::Done)
}

async fn many(client: &Client, format: Format, asked: Arguments) -> CommandResult {
    let Arguments { filters, dry_run, yes, limit, budget, .. } = asked;
    let (runs, more) = matching(client, &filters, limit).await?;
    let before = continued_before(client, &runs).await?;
    let (old, runs): (Vec<Run>, Vec<Run>) =
        runs.into_iter().partition(|run| before.contains(&run.run_id));
    let mut outcome = Outcome {
        dry_run,
        more: more == More::Yes,
        matched: runs.iter().map(|run| run.run_id.clone()).collect(),
        already_continued: old.len() as u64,
        ..Outcome::default()
    };
    if format == Format::People {
        preview(&runs, if dry_run { runs.len() } else { SHOWN })?;
    }
    if !dry_run && !runs.is_empty() {
        if !yes {
            bulk::confirm("Continue", "continue", runs.len())?;
        }
        continue_all(client, &mut outcome, budget.as_ref()).await?;
    }
    match format {
        Format::Json => output::json(&outcome)?,
        Format::People => summary(&outcome, limit)?,
    }
    Ok(if outcome.refused.is_empty() { Exit::Done } else { Exit::Conflict })
}

async fn matching(
    client: &Client,
    filters: &Filters,
    limit: u32,
) -> Result<(Vec<Run>, More), CliError> {
    let state = filters.state.unwrap_or(State::Halted);
    if !matches!(state, State::Halted | State::Failed | State::Cancelled) {
        let message = format!("runs that are {state} are not continued");
        return Err(CliError::usage("state_not_ended", message)
            .hint("give --state halted, failed or cancelled, or omit it for halted"));
    }
    let query = ListRuns { state: Some(state), ..filters.request() };
    filter::pages(client, query, limit).await
}

/// The runs that were continued. A fork is younger than its run, so it is enough to read as far back as the runs go.
async fn continued_before(client: &Client, runs: &[Run]) -> Result<HashSet<String>, CliError> {
    let Some(oldest) = runs.iter().map(|run| run.created_at).min() else {
        return Ok(HashSet::new());
    };
    let label = vec![FORK_OF_LABEL.to_owned()];
    let query = ListRuns { label, since: Some(oldest), ..ListRuns::default() };
    let (forks, _) = filter::pages(client, query, FORKS_MAX).await?;
    Ok(forks.into_iter().filter_map(|run| run.fork_of).collect())
}

fn preview(runs: &[Run], shown: usize) -> Result<(), CliError> {
    if runs.is_empty() {
        output::note("no run matches that was not continued; nothing to do");
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

async fn continue_all(
    client: &Client,
    outcome: &mut Outcome,
    budget: Option<&Budget>,
) -> Result<(), CliError> {
    for run_id in outcome.matched.clone() {
        let fork = request(client, &run_id, budget).key(format!("fork-of-{run_id}"));
        match fork.accepted().await {
            Ok(accepted) if accepted.replayed == Some(true) => outcome.already_continued += 1,
            Ok(accepted) => outcome.continued.push(accepted.run_id),
            Err(Error::Refused(problem)) if matches!(problem.status, 404 | 409 | 422) => {
                let Problem { error, message, .. } = *problem;
                outcome.refused.push(Refused { run_id, error, message });
            }
            Err(error) => {
                let hint = "run it again: what was continued is not continued twice";
                return Err(server::cli_error(error).hint(hint));
            }
        }
    }
    Ok(())
}

fn summary(outcome: &Outcome, limit: u32) -> Result<(), CliError> {
    for Refused { run_id, error, message } in &outcome.refused {
        output::warning(format_args!("{run_id}: {message} [{error}]"));
    }
    if outcome.more {
        output::note(format_args!("more runs match; raise --limit to continue more than {limit}"));
    }
    if outcome.already_continued > 0 {
        let many = output::count(outcome.already_continued, "run");
        output::note(format_args!("left out {many} that were continued before"));
    }
    let many = output::count(outcome.matched.len() as u64, "run");
    match (outcome.matched.is_empty(), outcome.dry_run) {
        (true, _) => Ok(()),
        (false, true) => output::line(format_args!("would continue {many}; nothing was done")),
        (false, false) => {
            let done = output::count(outcome.continued.len() as u64, "run");
            output::line(format_args!("continued {done}"))
        }
    }
}
