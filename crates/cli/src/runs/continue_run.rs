//! `tenure runs continue`: new runs that start from the recorded steps of runs that were halted, failed or were cancelled; one by its
//! id, or many by filter.
//!
//! By filter it lists the runs, names them, asks for confirmation and continues one after the other. Each call has an idempotency key
//! that is derived from its run, and runs that were continued before are left out, so that the command can be repeated after an
//! interruption. A run that the server refuses to continue is named, and does not stop the others.

use serde::Serialize;
use tenure::{Client, Error, ForkRequest};
use wire::State;
use wire::answers::Run;
use wire::names::FORK_OF_LABEL;
use wire::requests::{Budget, ListRuns};

use super::filter::{Filters, More};
use super::redone::{self, RedoneRuns, Refused, SHOWN, is_about_the_run, preview};
use crate::bulk::{self, LIMIT_DEFAULT, LIMIT_MAX};
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

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

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    match &arguments.id {
        Some(id) => one(&client, format, &super::run_id(id), &arguments).await,
        None => many(&client, format, arguments).await,
    }
}

fn request(client: &Client, id: &str, budget: Option<&Budget>) -> ForkRequest {
    let fork = client.run(id).fork();
    match budget {
        Some(budget) => fork.budget(budget.clone().into()),
        None => fork,
    }
}

async fn one(client: &Client, format: Format, id: &str, asked: &Arguments) -> CommandResult {
    let mut fork = request(client, id, asked.budget.as_ref());
    if let Some(step) = &asked.from_step {
        fork = fork.from_step(step);
    }
    if let Some(key) = &asked.idempotency_key {
        fork = fork.idempotency_key(key);
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
    let (runs, already_continued, more) = matching(client, &filters, limit).await?;
    let mut outcome = Outcome {
        dry_run,
        more: more.is_possible(),
        matched: runs.iter().map(|run| run.run_id.clone()).collect(),
        already_continued,
        ..Outcome::default()
    };
    if format == Format::People && !(runs.is_empty() && already_continued > 0) {
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

/// The newest runs that match and were not continued, and how many newer ones were.
async fn matching(
    client: &Client,
    filters: &Filters,
    limit: u32,
) -> Result<(Vec<Run>, u64, More), CliError> {
    let state = filters.state.unwrap_or(State::Halted);
    if !matches!(state, State::Halted | State::Failed | State::Cancelled) {
        let message = format!("runs that are {state} are not continued");
        return Err(CliError::usage("state_not_ended", message)
            .hint("give --state halted, failed or cancelled, or omit it for halted"));
    }
    let query = ListRuns { state: Some(state), ..filters.request() };
    let continued = RedoneRuns::new(FORK_OF_LABEL, |run| run.fork_of);
    redone::matching(client, query, limit, continued).await
}

async fn continue_all(
    client: &Client,
    outcome: &mut Outcome,
    budget: Option<&Budget>,
) -> Result<(), CliError> {
    for run_id in outcome.matched.clone() {
        let fork = request(client, &run_id, budget).idempotency_key(format!("fork-of-{run_id}"));
        match fork.accepted().await {
            Ok(accepted) if accepted.replayed == Some(true) => outcome.already_continued += 1,
            Ok(accepted) => outcome.continued.push(accepted.run_id),
            Err(Error::Refused(problem)) if is_about_the_run(&problem) => {
                outcome.refused.push(Refused::new(run_id, *problem));
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
    outcome.refused.iter().for_each(Refused::warn);
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
