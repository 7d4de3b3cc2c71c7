//! `tenure runs list`.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::Cell;
use tenure::Client;
use wire::State;
use wire::answers::{Run, RunError};
use wire::requests::{Included, ListRuns};

use super::filter::{self, Filters, More};
use super::records;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::{duration, flow};

/// A screenful; `--limit` takes more.
const LIMIT_DEFAULT: u32 = 20;
/// Flow keys that a list asks about: as many as a screenful of runs can have.
const KEYS_ASKED_MAX: usize = 20;
/// More at once is an export, which should use pages.
const LIMIT_MAX: i64 = 100_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filters: Filters,
    /// Maximum number of runs to list
    #[arg(long, short = 'n', default_value_t = LIMIT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: u32,
    /// List tasks that other tasks started too
    #[arg(long)]
    children: bool,
    /// Members of each run to include in --json: input, output, stackTrace
    #[arg(long, value_name = "BODIES", value_parser = bodies)]
    include: Option<String>,
}

/// Refused here, before any call is made.
fn bodies(list: &str) -> Result<String, &'static str> {
    let wrong = "give one or more of input, output, stackTrace, separated by commas";
    Included::read(list).map(|_| list.to_owned()).ok_or(wrong)
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let Arguments { filters, limit, children, include } = arguments;
    let has_filters = !filters.is_empty();
    let children = children.then_some(true);
    let query = ListRuns { include, children, ..filters.request() };
    let (runs, more) = filter::pages(&client, query, limit).await?;
    if format == Format::Json {
        output::json(&runs)?;
        return Ok(Exit::Done);
    }
    if !runs.is_empty() {
        print(&runs, &full_keys(&client, &runs).await)?;
    }
    match more {
        More::Yes => output::note(format_args!(
            "… older runs may match too; raise --limit to show more than {}",
            runs.len()
        )),
        More::Unsearched { searched, to } => output::note(format_args!(
            "searched the newest {searched} runs, back to {to}; `--until {to}` searches on from there"
        )),
        More::No if !runs.is_empty() => {}
        More::No if has_filters => {
            output::note("no runs match the filters; `tenure runs list` without them shows all");
        }
        More::No => {
            output::note("there are no runs; `tenure submit KIND --queue QUEUE` creates one");
        }
    }
    Ok(Exit::Done)
}

/// What the flow keys of the listed runs keep them from, by key. A key that may not be read, because the caller is limited to
/// queues, keeps nothing as far as is known.
async fn full_keys(client: &Client, runs: &[Run]) -> BTreeMap<String, String> {
    let keys = runs.iter().filter(|run| run.lease.is_none() && !run.state.is_terminal());
    let keys: BTreeSet<&str> =
        keys.filter_map(|run| Some(run.flow.as_ref()?.key.as_str())).collect();
    let mut full = BTreeMap::new();
    for key in keys.into_iter().take(KEYS_ASKED_MAX) {
        let found = client.queues().flow_keys().key(key).await;
        let found = found.map(|it| it.flow_keys).unwrap_or_default();
        full.extend(found.first().and_then(flow::waits).map(|why| (key.to_owned(), why)));
    }
    full
}

fn print(runs: &[Run], full_keys: &BTreeMap<String, String>) -> Result<(), CliError> {
    let mut table = output::table(&[
        "RUN", "KIND", "QUEUE", "STATE", "ATTEMPT", "AGE", "TOOK", "WORKER", "WHAT",
    ]);
    for run in runs {
        let took = run.completed_at.map(|at| duration::between(run.created_at, at));
        table.add_row([
            Cell::new(&run.run_id),
            Cell::new(&run.kind),
            Cell::new(&run.queue),
            output::state_cell(run.state),
            Cell::new(run.attempt),
            Cell::new(duration::between(run.created_at, run.server_time)),
            Cell::new(took.unwrap_or_default()),
            Cell::new(run.worker_id.as_deref().unwrap_or_default()),
            Cell::new(what(run, full_keys)),
        ]);
    }
    output::print_table(&table)
}

/// The most useful detail of a run, for a list.
fn what(run: &Run, full_keys: &BTreeMap<String, String>) -> String {
    if let Some(lease) = &run.lease {
        return lease.progress_pct.map(|pct| format!("{pct:.0} %")).unwrap_or_default();
    }
    let key = run.flow.as_ref().filter(|_| is_due(run));
    if let Some(why) = key.and_then(|flow| full_keys.get(&flow.key)) {
        return cut(why.clone());
    }
    match (run.state, &run.error) {
        (State::Waiting, _) => waits(run),
        (State::Queued, _) => until_next(run, run.run_at.unwrap_or(run.created_at)),
        (State::Retry, _) => run.next_attempt_at.map(|at| until_next(run, at)).unwrap_or_default(),
        (State::Succeeded, _) | (_, None) => String::new(),
        (_, Some(error)) => short(error),
    }
}

/// Whether its time has come, so that only a worker or a slot of its flow key is missing.
fn is_due(run: &Run) -> bool {
    let since = match run.state {
        State::Queued => run.run_at.or(Some(run.created_at)),
        State::Retry => run.next_attempt_at,
        State::Waiting => {
            let waiting = run.durable.as_ref().and_then(|durable| durable.waiting.as_ref());
            waiting.and_then(|waiting| waiting.ready_at)
        }
        _ => None,
    };
    since.is_some_and(|at| at <= run.server_time)
}

/// What a durable run waits for.
fn waits(run: &Run) -> String {
    let waiting = run.durable.as_ref().and_then(|durable| durable.waiting.as_ref());
    let Some(waiting) = waiting else { return String::new() };
    match (&waiting.wait, &waiting.diverged, &waiting.ending) {
        (Some(wait), _, _) => cut(records::awaited(wait)),
        (_, Some(_), _) => "diverged: waits for an operator".to_owned(),
        (_, _, Some(ending)) => format!("will be {}, waits for its children", ending.state),
        (None, None, None) => "waits for a worker".to_owned(),
    }
}

/// When the next attempt may begin. Once that time has passed, only a worker is missing, and a
/// countdown would stay at zero for as long as none polls.
pub(super) fn until_next(run: &Run, at: wire::Time) -> String {
    let again = if run.state == State::Retry { "again in" } else { "in" };
    match at > run.server_time {
        true => format!("{again} {}", duration::between(run.server_time, at)),
        false => format!("waits for a worker since {}", duration::between(at, run.server_time)),
    }
}

/// Fits a table cell; `runs show` has the rest.
const WHAT_CHARS_MAX: usize = 40;

fn short(error: &RunError) -> String {
    // The state already shows that a failure was the last one allowed, but not the kind of failure.
    let word = match (error.reason.as_str(), error.category) {
        ("ATTEMPTS_EXHAUSTED" | "NOT_RETRYABLE", Some(category)) => category.as_str(),
        (reason, _) => reason,
    };
    cut(format!("{word}: {}", error.message.lines().next().unwrap_or_default()))
}

fn cut(text: String) -> String {
    if text.chars().count() <= WHAT_CHARS_MAX {
        return text;
    }
    let cut: String = text.chars().take(WHAT_CHARS_MAX - 1).collect();
    format!("{cut}…")
}
