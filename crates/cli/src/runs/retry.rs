//! `tenure runs retry`: one run by its id, or many by filter.
//!
//! By filter it lists the runs, prints what would happen, asks for confirmation, and retries one after the other. The
//! set is fixed before the first retry. Each retry has an idempotency key that is derived from its run, and runs that
//! have a retry already are left out, so that the command can be repeated after an interruption. A run that the server
//! refuses to retry is named, and does not stop the others.

use serde::Serialize;
use tenure::{Client, Error, RetryRequest};
use tokio::task::JoinSet;
use wire::answers::{Run, RunAccepted};
use wire::names::RETRY_OF_LABEL;
use wire::requests::ListRuns;
use wire::{Code, State};

use super::filter::{Filters, More};
use super::redone::{self, RedoneRuns, Refused, SHOWN, is_about_the_run, preview};
use crate::bulk::{self, LIMIT_DEFAULT, LIMIT_MAX};
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

/// Concurrent retries: they share commits, and leave capacity of the server to other clients.
const CONCURRENCY: usize = 16;

/// Progress is printed after this many retries: several times a minute, at the speed of a small server.
const PROGRESS_EVERY: usize = 1_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run that failed, was halted or was cancelled
    #[arg(value_name = "RUN", required_unless_present = "filters", conflicts_with = "filters")]
    id: Option<String>,
    /// A repeated retry with the same key returns the run that the first one made
    #[arg(long, value_name = "KEY", conflicts_with = "filters")]
    idempotency_key: Option<String>,
    /// Also do again what the runs have recorded; without it such runs are refused (see `tenure runs continue`)
    #[arg(long)]
    from_scratch: bool,
    #[command(flatten)]
    filters: Filters,
    /// Print what would be retried, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation, which only filters need
    #[arg(long, short)]
    yes: bool,
    /// Retry at most this many, the newest first
    #[arg(long, short = 'n', requires = "filters", default_value_t = LIMIT_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct RetryOutcome {
    dry_run: bool,
    /// More runs match than were listed.
    more: bool,
    matched: Vec<String>,
    /// Runs that match, but have a retry already.
    already_retried: u64,
    /// The new runs.
    retried: Vec<String>,
    /// Runs that were removed meanwhile.
    gone: u64,
    /// Runs that the server refused to retry, and why.
    refused: Vec<Refused>,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    match &arguments.id {
        Some(id) if arguments.dry_run => preview_one(&client, format, id).await,
        Some(id) => one(client, format, id, &arguments).await,
        None => many(client, format, arguments).await,
    }
}

async fn one(client: Client, format: Format, id: &str, arguments: &Arguments) -> CommandResult {
    let id = super::run_id(id);
    let retry = request(&client, &id, arguments.from_scratch);
    let retry = match &arguments.idempotency_key {
        Some(key) => retry.idempotency_key(key),
        None => retry,
    };
    let accepted = retry.accepted().await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&accepted)?,
        Format::People => {
            output::line(&accepted.run_id)?;
            output::note(format_args!(
                "it repeats {id}; follow it with `tenure runs watch {}`",
                accepted.run_id
            ));
        }
    }
    Ok(Exit::Done)
}

fn request(client: &Client, id: &str, from_scratch: bool) -> RetryRequest {
    let retry = client.run(id).retry();
    if from_scratch { retry.from_scratch() } else { retry }
}

async fn preview_one(client: &Client, format: Format, id: &str) -> CommandResult {
    let run = client.run(super::run_id(id)).status().await.map_err(server::cli_error)?;
    refuse_run(&run)?;
    let matched = vec![run.run_id.clone()];
    let outcome = RetryOutcome { dry_run: true, matched, ..RetryOutcome::default() };
    match format {
        Format::Json => output::json(&outcome)?,
        Format::People => {
            preview(&[run], 1)?;
            print_summary(&outcome, LIMIT_DEFAULT)?;
        }
    }
    Ok(Exit::Done)
}

/// Refuses what the server would refuse because of the run's state.
fn refuse_run(run: &Run) -> Result<(), CliError> {
    let Run { run_id, state, .. } = run;
    match state {
        State::Failed | State::Halted | State::Cancelled | State::Skipped => Ok(()),
        State::Succeeded => {
            let message = format!("{run_id} succeeded and is not retried");
            Err(CliError::usage("state_succeeded", message)
                .hint("to repeat the work, submit it again"))
        }
        State::Queued | State::Running | State::Retry | State::Waiting | State::Blocked => {
            let message = format!("{run_id} is {state}: it has not ended and cannot be retried");
            Err(CliError::usage("state_not_ended", message)
                .hint(format!("follow it with `tenure runs watch {run_id}`")))
        }
    }
}

async fn many(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let Arguments { filters, dry_run, yes, limit, from_scratch, .. } = arguments;
    let (runs, already_retried, more) = matching(&client, &filters, limit).await?;
    let matched: Vec<String> = runs.iter().map(|run| run.run_id.clone()).collect();
    let more = more.is_possible();
    let mut outcome =
        RetryOutcome { dry_run, more, matched, already_retried, ..RetryOutcome::default() };
    if format == Format::People && !(runs.is_empty() && already_retried > 0) {
        preview(&runs, if dry_run { runs.len() } else { SHOWN })?;
    }
    if !dry_run && !runs.is_empty() {
        if !yes {
            bulk::confirm("Retry", "retry", runs.len())?;
        }
        retry_all(&client, &mut outcome, from_scratch, format).await?;
    }
    match format {
        Format::Json => output::json(&outcome)?,
        Format::People => print_summary(&outcome, limit)?,
    }
    Ok(if outcome.refused.is_empty() { Exit::Done } else { Exit::Conflict })
}

/// The newest runs that match and have no retry, and how many newer ones have one.
async fn matching(
    client: &Client,
    filters: &Filters,
    limit: u32,
) -> Result<(Vec<Run>, u64, More), CliError> {
    let state = filters.state.unwrap_or(State::Failed);
    refuse_state(state)?;
    let query = ListRuns { state: Some(state), ..filters.request() };
    let retried = RedoneRuns::new(RETRY_OF_LABEL, |run| run.retry_of);
    redone::matching(client, query, limit, retried).await
}

fn refuse_state(state: State) -> Result<(), CliError> {
    match state {
        State::Failed | State::Halted | State::Cancelled | State::Skipped => Ok(()),
        State::Succeeded => {
            Err(CliError::usage("state_succeeded", "runs that succeeded are not retried").hint(
                "give --state failed, halted or cancelled; to repeat the work, submit it again",
            ))
        }
        State::Queued | State::Running | State::Retry | State::Waiting | State::Blocked => {
            let message = format!("runs that are {state} have not ended and cannot be retried");
            Err(CliError::usage("state_not_ended", message)
                .hint("give --state failed, halted or cancelled, or omit it for failed"))
        }
    }
}

async fn retry_all(
    client: &Client,
    outcome: &mut RetryOutcome,
    from_scratch: bool,
    format: Format,
) -> Result<(), CliError> {
    let mut under_way = JoinSet::new();
    for (number, id) in outcome.matched.clone().into_iter().enumerate() {
        if under_way.len() >= CONCURRENCY
            && let Some(answer) = under_way.join_next().await
        {
            tally(outcome, answer.expect("retries do not panic"))?;
        }
        if format == Format::People && number > 0 && number % PROGRESS_EVERY == 0 {
            output::note(format_args!("retried {number} of {}", outcome.matched.len()));
        }
        let retry = request(client, &id, from_scratch).idempotency_key(format!("retry-of-{id}"));
        under_way.spawn(async move { (id, retry.accepted().await) });
    }
    while let Some(answer) = under_way.join_next().await {
        tally(outcome, answer.expect("retries do not panic"))?;
    }
    Ok(())
}

fn tally(
    outcome: &mut RetryOutcome,
    (run_id, answer): (String, Result<RunAccepted, Error>),
) -> Result<(), CliError> {
    match answer {
        Ok(accepted) if accepted.replayed == Some(true) => outcome.already_retried += 1,
        Ok(accepted) => outcome.retried.push(accepted.run_id),
        Err(error) if error.code() == Some(Code::RunNotFound) => outcome.gone += 1,
        Err(Error::Refused(problem)) if is_about_the_run(&problem) => {
            outcome.refused.push(Refused::new(run_id, *problem));
        }
        Err(error) => {
            let cli_error = server::cli_error(error);
            let done = outcome.retried.len();
            let message = format!("stopped after {done} retries: {}", cli_error.message);
            let hint = "run it again: what was retried is not retried twice";
            return Err(CliError { message, ..cli_error }.hint(hint));
        }
    }
    Ok(())
}

fn print_summary(outcome: &RetryOutcome, limit: u32) -> Result<(), CliError> {
    let RetryOutcome { matched, already_retried, retried, gone, refused, .. } = outcome;
    refused.iter().for_each(Refused::warn);
    if outcome.more {
        output::note(format_args!("more runs match; raise --limit to retry more than {limit}"));
    }
    if *already_retried > 0 {
        let many = output::count(*already_retried, "run");
        output::note(format_args!("left out {many} that were retried before"));
    }
    if matched.is_empty() {
        return Ok(());
    }
    if outcome.dry_run {
        let many = output::count(matched.len() as u64, "run");
        return output::line(format_args!("would retry {many}; nothing was done"));
    }
    let gone = if *gone > 0 { format!(", {gone} removed meanwhile") } else { String::new() };
    let refused = match refused.len() {
        0 => String::new(),
        many => format!(", {many} refused"),
    };
    output::line(format_args!("{} retried{gone}{refused}", retried.len()))
}
