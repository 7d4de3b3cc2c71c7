//! `tenure runs …`: show, follow, signal, cancel, retry and continue runs.

mod cancel;
mod continue_run;
mod decode;
mod entry;
mod filter;
mod list;
mod logs;
mod plan_view;
mod records;
mod redone;
mod retry;
mod show;
mod signal;
mod timeline;
mod watch;

use clap::Subcommand;
use tenure::{Client, HistoryRequest};
use wire::Code;
use wire::answers::{HistoryEntry, RunError};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List runs, newest first
    List(list::Arguments),
    /// Show one run with a timeline of its attempts, steps, waits and children
    Show(show::Arguments),
    /// Follow a run until it ends; the exit code says how it ended
    Watch(watch::Arguments),
    /// Cancel a run, or many by queue, kind, state or label
    Cancel(cancel::Arguments),
    /// Submit a run that did not succeed once more, or many by queue, kind, state, label or time
    Retry(Box<retry::Arguments>),
    /// Continue a run that was halted, failed or was cancelled from its recorded steps, as a new run
    Continue(Box<continue_run::Arguments>),
    /// Send a value to a durable run by name; it is kept until the run takes it
    Signal(signal::Arguments),
    /// Let a diverged run continue, after code was deployed that fits what it recorded
    Resume(Id),
    /// Let workers of every build continue a run that is pinned to one, whose workers are gone
    Unpin(Id),
    /// Print every decision about a run, in order
    History(Id),
    /// Print the record of an ended run: input, output and every attempt
    Record(Id),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Id {
    /// The id of a run, or of its task
    #[arg(value_name = "RUN")]
    id: String,
}

pub(crate) async fn run(client: Client, format: Format, verb: Verb) -> CommandResult {
    match verb {
        Verb::List(arguments) => list::run(client, format, arguments).await,
        Verb::Show(arguments) => show::run(client, format, arguments).await,
        Verb::Watch(arguments) => watch::run(client, format, arguments).await,
        Verb::Cancel(arguments) => cancel::run(client, format, arguments).await,
        Verb::Retry(arguments) => retry::run(client, format, *arguments).await,
        Verb::Continue(arguments) => continue_run::run(client, format, *arguments).await,
        Verb::Signal(arguments) => signal::run(client, format, arguments).await,
        Verb::Resume(Id { id }) => signal::resume(client, format, &run_id(&id)).await,
        Verb::Unpin(Id { id }) => signal::unpin(client, format, &run_id(&id)).await,
        Verb::History(Id { id }) => history(client, format, &run_id(&id)).await,
        Verb::Record(Id { id }) => record(client, format, &run_id(&id)).await,
    }
}

/// The ids of a run and its task differ only in their prefix; people copy either.
pub(crate) fn run_id(id: &str) -> String {
    id.strip_prefix("task_").map_or_else(|| id.to_owned(), |shared| format!("run_{shared}"))
}

async fn history(client: Client, format: Format, id: &str) -> CommandResult {
    if format == Format::Json {
        output::json(&whole_history(&client, id).await?)?;
        return Ok(Exit::Done);
    }
    let mut request = client.run(id).history().limit(PAGE);
    while let Some(entries) = next_page(&mut request).await? {
        for entry in &entries {
            output::line(entry::line(entry))?;
        }
    }
    Ok(Exit::Done)
}

/// Every entry that exists now.
async fn whole_history(client: &Client, id: &str) -> Result<Vec<HistoryEntry>, CliError> {
    let mut entries = Vec::new();
    let mut request = client.run(id).history().limit(PAGE);
    while let Some(page) = next_page(&mut request).await? {
        entries.extend(page);
    }
    Ok(entries)
}

/// The next entries; `None` after the last.
async fn next_page(request: &mut HistoryRequest) -> Result<Option<Vec<HistoryEntry>>, CliError> {
    let page = request.clone().await.map_err(server::cli_error)?;
    *request = request.clone().after(page.next_after);
    Ok((!page.entries.is_empty()).then_some(page.entries))
}

/// How long each retry had to wait, as decided.
pub(crate) async fn retry_pauses(client: &Client, id: &str) -> Result<Vec<i64>, CliError> {
    let entries = whole_history(client, id).await?;
    Ok(entries.iter().filter_map(entry::pause_ms).collect())
}

/// The maximum number of entries in one answer.
const PAGE: u32 = *wire::limits::PAGE_ITEMS.end() as u32;

async fn record(client: Client, format: Format, id: &str) -> CommandResult {
    let record = client.run(id).record().await.map_err(|error| match error.code() {
        // The run exists, else the code would be that of a missing run.
        Some(Code::NotFound) => server::cli_error(error)
            .hint(format!("follow it with `tenure runs watch {id}`, then ask again")),
        _ => server::cli_error(error),
    })?;
    match format {
        Format::Json => output::json(&record)?,
        // A record is for archiving and checking: people, too, want all of it.
        Format::People => output::line(
            serde_json::to_string_pretty(&record).expect("a record has string keys only"),
        )?,
    }
    Ok(Exit::Done)
}

/// Why a run did not succeed, on one line.
pub(crate) fn reason(error: &RunError) -> String {
    let first_line = error.message.lines().next().unwrap_or_default();
    match (&error.category, first_line) {
        (_, "") => error.reason.clone(),
        (Some(category), text) if category.as_str() != error.reason => {
            format!("{category} ({}), {text}", error.reason)
        }
        (_, text) => format!("{}, {text}", error.reason),
    }
}
