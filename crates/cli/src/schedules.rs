//! `tenure schedules …`: runs that are submitted again and again.

use std::path::PathBuf;
use std::time::Duration;

use comfy_table::Cell;
use tenure::Client;
use wire::requests::SubmitRun;
use wire::schedules::{CreateSchedule, ListSchedules, ScheduleView, UpdateSchedule};
use wire::{CatchUp, Overlap, Time, limits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::key_names::KeyNames;
use crate::output::{self, Format};
use crate::{duration, plan, server, submit};

/// More schedules than a person reads.
const LIMIT_MAX: usize = 10_000;

/// A screen of them.
const HISTORY_DEFAULT: u32 = 20;

/// The maximum page size of the server.
const PAGE: u32 = *limits::PAGE_ITEMS.end() as u32;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// List the schedules of the workspace
    List,
    /// Submit a run at every instant of a cron expression or interval
    Create(Create),
    /// Show a schedule: its terms, its next instant, and what became of the last ones
    Show(Named),
    /// Show the next instants
    Next {
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
        /// How many
        #[arg(long, value_name = "N", default_value_t = limits::SCHEDULE_PREVIEW_DEFAULT)]
        count: u32,
    },
    /// Show the last changes and firings, the newest first
    History {
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
        /// How many
        #[arg(long, value_name = "N", default_value_t = HISTORY_DEFAULT)]
        limit: u32,
    },
    /// Change a schedule; what is not given stays as it is
    Update(Update),
    /// Fire nothing until it is resumed
    Pause(Named),
    /// Fire again from now on; what passed is not made up for
    Resume(Named),
    /// Submit a run of the schedule now
    Trigger(Named),
    /// Fire the instants of a range of the past, one after the other
    Backfill {
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
        /// The beginning, such as 2026-03-01T00:00:00Z, or how long ago, such as 7d
        #[arg(long, value_name = "INSTANT|SPAN", value_parser = duration::parse_past)]
        from: Time,
        /// The end, included
        #[arg(long, value_name = "INSTANT|SPAN", value_parser = duration::parse_past)]
        to: Time,
    },
    /// Delete a schedule; its runs stay
    Delete(Named),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Its name or id
    #[arg(value_name = "SCHEDULE")]
    schedule: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct When {
    /// Five fields as in Vixie cron, or a nickname such as @daily
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "every")]
    cron: Option<String>,
    /// The interval, such as 15m
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    every: Option<Duration>,
    /// The time zone of the cron expression, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// While the run before has not ended: skip, queue, cancelOlder or allow [default: skip]
    #[arg(long, value_name = "POLICY", value_parser = overlap)]
    overlap: Option<Overlap>,
    /// Of instants that passed while no server ran, fire one or all [default: one]
    #[arg(long, value_name = "POLICY", value_parser = catch_up)]
    catch_up: Option<CatchUp>,
    /// How late an instant may fire, such as 1h [default: 1d]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    window: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// Unique in the workspace
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    when: When,
    /// Begin paused
    #[arg(long)]
    paused: bool,
    /// What a worker must be able to do
    #[arg(long, value_name = "KIND", required_unless_present_any = ["plan", "run"])]
    kind: Option<String>,
    /// Where the runs wait for a worker
    #[arg(long, value_name = "QUEUE", required_unless_present_any = ["plan", "run"])]
    queue: Option<String>,
    /// The input, as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "plan", allow_hyphen_values = true)]
    input: Option<String>,
    /// A file with a plan; its `schedule` says when, if no flag does
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "queue"])]
    plan: Option<PathBuf>,
    /// A file with the whole submission, as the body of POST /v1/runs; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "queue", "input", "plan"])]
    run: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    /// Its name or id
    #[arg(value_name = "SCHEDULE")]
    schedule: String,
    #[command(flatten)]
    when: When,
    /// A file with the whole submission, as the body of POST /v1/runs; `-` is stdin
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
}

fn overlap(text: &str) -> Result<Overlap, String> {
    text.parse().map_err(|_| "write skip, queue, cancelOlder or allow".to_owned())
}

fn catch_up(text: &str) -> Result<CatchUp, String> {
    text.parse().map_err(|_| "write one or all".to_owned())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) async fn run(client: Client, format: Format, verb: Verb) -> CommandResult {
    let schedules = client.schedules();
    let changed = match verb {
        Verb::List => return list(&client, format).await,
        Verb::Next { schedule, count } => return next(&client, format, &schedule, count).await,
        Verb::History { schedule, limit } => {
            return history(&client, format, &schedule, limit).await;
        }
        Verb::Trigger(Named { schedule }) => return trigger(&client, format, &schedule).await,
        Verb::Create(create) => schedules.create_with(&create.into_request()?).await,
        Verb::Show(Named { schedule }) => schedules.get(&schedule).await,
        Verb::Update(update) => {
            let schedule = update.schedule.clone();
            schedules.update_with(&schedule, &update.into_request()?).await
        }
        Verb::Pause(Named { schedule }) => schedules.pause(&schedule).await,
        Verb::Resume(Named { schedule }) => schedules.resume(&schedule).await,
        Verb::Delete(Named { schedule }) => schedules.delete(&schedule).await,
        Verb::Backfill { schedule, from, to } => schedules.backfill(&schedule, from, to).await,
    };
    let schedule = changed.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&schedule)?,
        Format::People => describe(&schedule)?,
    }
    Ok(Exit::Done)
}

impl Create {
    fn into_request(self) -> Result<CreateSchedule, CliError> {
        let When { cron, every, time_zone, overlap, catch_up, window } = self.when;
        let run = match &self.run {
            Some(file) => submission(file)?,
            None => SubmitRun {
                kind: self.kind.unwrap_or_default(),
                queue: self.queue.unwrap_or_default(),
                input: submit::input(self.input, None)?,
                ..SubmitRun::default()
            },
        };
        let schedule = CreateSchedule {
            name: self.name,
            cron,
            every_ms: every.map(millis),
            time_zone,
            overlap,
            catch_up,
            catch_up_window_ms: window.map(millis),
            paused: self.paused.then_some(true),
            run,
        };
        Ok(match self.plan.as_deref() {
            Some(file) => plan::of_file(file)?.into_schedule(schedule),
            None => schedule,
        })
    }
}

impl Update {
    fn into_request(self) -> Result<UpdateSchedule, CliError> {
        let When { cron, every, time_zone, overlap, catch_up, window } = self.when;
        Ok(UpdateSchedule {
            cron,
            every_ms: every.map(millis),
            time_zone,
            overlap,
            catch_up,
            catch_up_window_ms: window.map(millis),
            run: self.run.as_deref().map(submission).transpose()?,
        })
    }
}

/// A submission from a file. What it says is checked by the server.
fn submission(file: &std::path::Path) -> Result<SubmitRun, CliError> {
    let text = submit::read(file)?;
    serde_json::from_str(&text).map_err(|error| {
        let message = format!("{} is not a submission: {error}", file.display());
        CliError::usage("invalid_input", message)
            .hint("write the members of POST /v1/runs, such as {\"kind\": …, \"queue\": …}")
    })
}

async fn list(client: &Client, format: Format) -> CommandResult {
    let mut page = ListSchedules { limit: Some(PAGE), ..ListSchedules::default() };
    let mut schedules = Vec::new();
    loop {
        let next = client.schedules().list().with(page.clone()).await.map_err(server::cli_error)?;
        schedules.extend(next.schedules);
        page.cursor = next.cursor;
        if page.cursor.is_none() || schedules.len() >= LIMIT_MAX {
            break;
        }
    }
    if format == Format::Json {
        output::json(&schedules)?;
        return Ok(Exit::Done);
    }
    if schedules.is_empty() {
        output::note("there are no schedules; `tenure schedules create` makes one");
        return Ok(Exit::Done);
    }
    let mut table = output::table(&["SCHEDULE", "STATE", "WHEN", "NEXT", "LAST RUN", "FIRED"]);
    for schedule in &schedules {
        table.add_row(row(schedule));
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

fn row(schedule: &ScheduleView) -> [Cell; 6] {
    let last = schedule.last.as_ref().map(|last| last.run_id.clone());
    [
        Cell::new(&schedule.name),
        Cell::new(schedule.state.as_str()),
        Cell::new(recurrence(schedule)),
        Cell::new(schedule.next_at.map(|at| at.to_string()).unwrap_or_default()),
        Cell::new(last.unwrap_or_default()),
        Cell::new(schedule.fired),
    ]
}

fn recurrence(schedule: &ScheduleView) -> String {
    let ScheduleView { cron, every_ms, time_zone, .. } = schedule;
    match (cron, every_ms) {
        (Some(cron), _) => format!("{cron}  {}", time_zone.as_deref().unwrap_or("UTC")),
        (None, Some(ms)) => format!("every {}", duration::format_exact(*ms)),
        (None, None) => String::new(),
    }
}

fn describe(schedule: &ScheduleView) -> Result<(), CliError> {
    let state = schedule.state.as_str();
    output::line(format_args!("{}  {state}  {}", schedule.name, schedule.schedule_id))?;
    output::line(format_args!("when     {}", recurrence(schedule)))?;
    let (overlap, catch_up) = (schedule.overlap.as_str(), schedule.catch_up.as_str());
    let window = duration::format_exact(schedule.catch_up_window_ms);
    output::line(format_args!("overlap  {overlap}; catches up {catch_up}, at most {window} late"))?;
    if let Some(run) = &schedule.run {
        let what = if run.plan.is_some() { "a plan" } else { run.kind.as_str() };
        output::line(format_args!("submits  {what} {}", run.queue))?;
    }
    if let Some(at) = schedule.next_at {
        output::line(format_args!("next     {at}"))?;
    }
    if schedule.waiting > 0 {
        output::line(format_args!("waiting  {} instants", schedule.waiting))?;
    }
    if let Some(last) = &schedule.last {
        output::line(format_args!("last     {} for {}", last.run_id, last.instant))?;
    }
    if let Some(refusal) = &schedule.last_refusal {
        output::line(format_args!("refused  {} at {}", refusal.error, refusal.instant))?;
    }
    let ScheduleView { fired, skipped, missed, refused, .. } = schedule;
    output::line(format_args!(
        "so far   {fired} fired, {skipped} skipped, {missed} missed, {refused} refused"
    ))
}

async fn next(client: &Client, format: Format, schedule: &str, count: u32) -> CommandResult {
    let preview = client.schedules().preview(schedule, count).await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&preview)?,
        Format::People => {
            for instant in &preview.instants {
                output::line(instant)?;
            }
        }
    }
    Ok(Exit::Done)
}

async fn history(client: &Client, format: Format, schedule: &str, limit: u32) -> CommandResult {
    let history = client.schedules().history(schedule).limit(limit).await;
    let history = history.map_err(server::cli_error)?;
    if format == Format::Json {
        output::json(&history.entries)?;
        return Ok(Exit::Done);
    }
    let names = KeyNames::of(client).await;
    let heads = ["AT", "BY", "STATE", "LAST RUN", "FIRED", "SKIPPED", "MISSED", "REFUSED"];
    let mut table = output::table(&heads);
    for entry in &history.entries {
        let it = &entry.schedule;
        let last = it.last.as_ref().map(|last| last.run_id.clone()).unwrap_or_default();
        let by = entry.key_id.as_deref().map_or_else(|| "time".to_owned(), |id| names.spell(id));
        let state = it.state.as_str().to_owned();
        let counts = [it.fired, it.skipped, it.missed, it.refused].map(|count| count.to_string());
        table.add_row([entry.at.to_string(), by, state, last].into_iter().chain(counts));
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

async fn trigger(client: &Client, format: Format, schedule: &str) -> CommandResult {
    let triggered = client.schedules().trigger(schedule).await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&triggered)?,
        Format::People => output::line(&triggered.run_id)?,
    }
    Ok(Exit::Done)
}
