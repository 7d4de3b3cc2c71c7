//! Cancels many runs by filter: lists them, prints what would happen, asks for confirmation,
//! cancels.
//!
//! Uses only the public calls list and cancel, so that nothing can be cancelled here that could not
//! be cancelled one by one. The set of matching runs is fixed before the first cancel: a run that
//! is submitted meanwhile is not touched. Runs that wait are cancelled before runs that run.

use std::io::{IsTerminal, Write};

use serde::Serialize;
use tenure::{CancelMode, Client, Error};
use tokio::task::JoinSet;
use wire::answers::Run;
use wire::requests::ListRuns;
use wire::{Code, State};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

/// Only runs that have not ended can be cancelled.
const UNFINISHED: [State; 4] = [State::Queued, State::Retry, State::Waiting, State::Running];

/// Concurrent cancels: they share commits, and leave capacity of the server to other clients.
const CONCURRENCY: usize = 16;

/// The maximum page size of the server.
const PAGE: u32 = 1_000;

/// The number of runs that a preview names; the rest is counted.
const SHOWN: usize = 10;

pub(crate) const LIMIT_DEFAULT: u32 = 1_000;
pub(crate) const LIMIT_MAX: i64 = 100_000;

/// What the runs have in common.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "common", multiple = true)]
pub(crate) struct RunFilter {
    /// Only runs of this queue
    #[arg(long, short)]
    queue: Option<String>,
    /// Only runs of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Only runs in this state: queued, retry, waiting or running [default: all four]
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Only runs with this label, or with any value of it; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    label: Vec<String>,
}

/// How to go about it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct BulkOptions {
    /// Print what would be cancelled, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation, which only filters need
    #[arg(long, short)]
    yes: bool,
    /// Cancel at most this many, the newest first
    #[arg(long, short = 'n', requires = "common", default_value_t = LIMIT_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct BulkOutcome {
    dry_run: bool,
    /// More runs match than were listed.
    more: bool,
    matched: Vec<String>,
    /// No worker held these runs: they have ended.
    cancelled: u64,
    /// A worker holds these runs and was asked to stop.
    asked: u64,
    /// These runs ended before the cancel arrived.
    ended_meanwhile: u64,
}

pub(crate) async fn cancel(
    client: Client,
    format: Format,
    filter: RunFilter,
    bulk_options: BulkOptions,
    reason: Option<String>,
    mode: CancelMode,
) -> CommandResult {
    refuse_ended(filter.state)?;
    let (runs, more) = matching(&client, &filter, bulk_options.limit).await?;
    let matched: Vec<String> = runs.iter().map(|run| run.run_id.clone()).collect();
    let mut outcome =
        BulkOutcome { dry_run: bulk_options.dry_run, more, matched, ..BulkOutcome::default() };
    if format == Format::People {
        preview(&runs, more)?;
    }
    if !bulk_options.dry_run && !runs.is_empty() {
        if !bulk_options.yes {
            confirm("Cancel", "cancel", runs.len())?;
        }
        let (running, waiting): (Vec<Run>, Vec<Run>) =
            runs.into_iter().partition(|run| run.state == State::Running);
        // What runs comes last: its end frees a slot or a worker, which would start a run that is to be cancelled, too.
        for part in [waiting, running] {
            let ids = part.into_iter().map(|run| run.run_id);
            cancel_all(&client, ids, &mut outcome, reason.as_deref(), mode).await?;
        }
    }
    match format {
        Format::Json => output::json(&outcome)?,
        Format::People => print_summary(&outcome)?,
    }
    Ok(Exit::Done)
}

/// What a cancel of one run would do.
pub(crate) async fn preview_one(client: &Client, format: Format, id: &str) -> CommandResult {
    let run = client.run(id).status().await.map_err(server::cli_error)?;
    if run.state.is_terminal() {
        let message = format!("{} is {} and cannot be cancelled", run.run_id, run.state);
        return Err(CliError::usage("state_ended", message)
            .hint(format!("`tenure runs show {}` shows how it ended", run.run_id)));
    }
    let matched = vec![run.run_id.clone()];
    let outcome = BulkOutcome { dry_run: true, matched, ..BulkOutcome::default() };
    match format {
        Format::Json => output::json(&outcome)?,
        Format::People => {
            preview(&[run], false)?;
            print_summary(&outcome)?;
        }
    }
    Ok(Exit::Done)
}

fn refuse_ended(state: Option<State>) -> Result<(), CliError> {
    match state {
        Some(state) if !UNFINISHED.contains(&state) => {
            let message = format!("runs that are {state} have ended and cannot be cancelled");
            Err(CliError::usage("state_ended", message)
                .hint("give --state queued, retry or running, or omit it"))
        }
        _ => Ok(()),
    }
}

/// The newest runs in each requested state, and whether there are more.
async fn matching(
    client: &Client,
    filter: &RunFilter,
    limit: u32,
) -> Result<(Vec<Run>, bool), CliError> {
    let states = filter.state.map_or(UNFINISHED.to_vec(), |state| vec![state]);
    let mut runs: Vec<Run> = Vec::new();
    for state in states {
        let mut query = ListRuns {
            state: Some(state),
            queue: filter.queue.clone(),
            kind: filter.kind.clone(),
            label: filter.label.clone(),
            limit: Some(PAGE),
            ..ListRuns::default()
        };
        loop {
            let page = client.runs_with(query.clone()).await.map_err(server::cli_error)?;
            runs.extend(page.runs);
            query.cursor = page.next_cursor;
            if query.cursor.is_none() || runs.len() > limit as usize {
                break;
            }
        }
    }
    // A run that changed its state between two pages was listed twice.
    runs.sort_by(|one, other| other.run_id.cmp(&one.run_id));
    runs.dedup_by(|one, other| one.run_id == other.run_id);
    let more = runs.len() > limit as usize;
    runs.truncate(limit as usize);
    Ok((runs, more))
}

fn preview(runs: &[Run], more: bool) -> Result<(), CliError> {
    if runs.is_empty() {
        output::note("no run matches; nothing to do");
        return Ok(());
    }
    for run in runs.iter().take(SHOWN) {
        let Run { run_id, kind, queue, state, .. } = run;
        output::line(format_args!("{run_id}  {kind} on {queue}  {state}"))?;
    }
    if runs.len() > SHOWN {
        output::line(format_args!("… and {} others", runs.len() - SHOWN))?;
    }
    if more {
        output::note(format_args!(
            "more runs match; raise --limit to cancel more than {} at once",
            runs.len()
        ));
    }
    Ok(())
}

/// Asks at a terminal; anywhere else `--yes` must have been given.
pub(crate) fn confirm(verb: &str, noun: &str, count: usize) -> Result<(), CliError> {
    let unsure = || {
        let runs = output::count(count as u64, "run");
        let verb = if count == 1 { "matches" } else { "match" };
        let message = format!("{runs} {verb}, but the {noun} was not confirmed");
        CliError::usage("not_confirmed", message)
            .hint("check with --dry-run, then confirm with --yes")
    };
    if !std::io::stdin().is_terminal() {
        return Err(unsure());
    }
    let mut stderr = anstream::stderr().lock();
    write!(stderr, "{verb} {}? [y/N] ", output::count(count as u64, "run"))?;
    stderr.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(unsure()),
    }
}

/// Returns when all of them are decided.
async fn cancel_all(
    client: &Client,
    ids: impl Iterator<Item = String>,
    outcome: &mut BulkOutcome,
    reason: Option<&str>,
    mode: CancelMode,
) -> Result<(), CliError> {
    let mut under_way = JoinSet::new();
    for id in ids {
        if under_way.len() >= CONCURRENCY
            && let Some(answer) = under_way.join_next().await
        {
            tally(outcome, answer.expect("cancels do not panic"))?;
        }
        let cancel = client.run(id).cancel().mode(mode);
        let cancel = match reason {
            Some(reason) => cancel.reason(reason),
            None => cancel,
        };
        under_way.spawn(cancel.into_future());
    }
    while let Some(answer) = under_way.join_next().await {
        tally(outcome, answer.expect("cancels do not panic"))?;
    }
    Ok(())
}

fn tally(
    outcome: &mut BulkOutcome,
    answer: Result<wire::answers::CancelAccepted, Error>,
) -> Result<(), CliError> {
    match answer {
        Ok(accepted) if accepted.state == State::Running => outcome.asked += 1,
        Ok(_) => outcome.cancelled += 1,
        Err(error) if error.code() == Some(Code::RunAlreadyTerminal) => {
            outcome.ended_meanwhile += 1;
        }
        Err(error) => {
            let done = outcome.cancelled + outcome.asked;
            let cli_error = server::cli_error(error);
            let message = format!("stopped after {done} runs: {}", cli_error.message);
            let hint = "run it again: cancelled runs do not match any more";
            return Err(CliError { message, ..cli_error }.hint(hint));
        }
    }
    Ok(())
}

fn print_summary(outcome: &BulkOutcome) -> Result<(), CliError> {
    let BulkOutcome { matched, cancelled, asked, ended_meanwhile, .. } = outcome;
    if matched.is_empty() {
        return Ok(());
    }
    if outcome.dry_run {
        let many = output::count(matched.len() as u64, "run");
        return output::line(format_args!("would cancel {many}; nothing was done"));
    }
    output::line(format_args!(
        "{cancelled} cancelled, {asked} asked to stop, {ended_meanwhile} ended meanwhile"
    ))
}
