//! `tenure queues`: tasks by queue, and pauses.

use clap::Subcommand;
use comfy_table::Cell;
use tenure::Client;
use wire::answers::QueueView;
use wire::pausing::{Pause, PauseQueue, QueueStatus, ResumeQueue};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::{duration, server};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show waiting and running tasks per queue, and pauses; the default
    List,
    /// Lease no more tasks from a queue; running tasks, submits, cancels and deadlines go on
    Pause(PauseArguments),
    /// Lease tasks from a paused queue again
    Resume(QueueName),
}

#[derive(Debug, clap::Args)]
struct PauseArguments {
    #[command(flatten)]
    name: QueueName,
    /// Why, for people who wonder why nothing runs
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, clap::Args)]
struct QueueName {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// The tenant of the queue [default: the one of the key in use]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// The workspace of the queue [default: the one of the key in use]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    match arguments.verb.unwrap_or(Verb::List) {
        Verb::List => list(&client, format).await?,
        Verb::Pause(PauseArguments { name: QueueName { queue, tenant, workspace }, reason }) => {
            let how = PauseQueue { reason, tenant_id: tenant, workspace_id: workspace };
            let status = client.queues().pause(&queue).with(how).await;
            let status = status.map_err(server::cli_error)?;
            show(format, &status)?;
        }
        Verb::Resume(QueueName { queue, tenant, workspace }) => {
            let how = ResumeQueue { tenant_id: tenant, workspace_id: workspace };
            let status = client.queues().resume(&queue).with(how).await;
            let status = status.map_err(server::cli_error)?;
            show(format, &status)?;
        }
    }
    Ok(Exit::Done)
}

fn show(format: Format, status: &QueueStatus) -> Result<(), CliError> {
    if format == Format::Json {
        return output::json(status);
    }
    match &status.pause {
        Some(pause) => output::line(format_args!("{} is {}", status.queue, spell(pause))),
        None => output::line(format_args!("{} is not paused", status.queue)),
    }
}

fn spell(pause: &Pause) -> String {
    let Pause { paused_at, paused_by, reason } = pause;
    let why = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    format!("paused since {paused_at} by {paused_by}{why}")
}

async fn list(client: &Client, format: Format) -> Result<(), CliError> {
    let answer = client.queues().list().await.map_err(server::cli_error)?;
    if format == Format::Json {
        return output::json(&answer.queues);
    }
    if answer.queues.is_empty() {
        output::note("no tasks are waiting or running");
        return Ok(());
    }
    let is_any_paused = answer.queues.iter().any(|queue| queue.pause.is_some());
    let is_any_parked = answer.queues.iter().any(|queue| queue.parked > 0);
    // Columns that most installations never need.
    let is_shown = |head: &&str| match *head {
        "PARKED" => is_any_parked,
        "PAUSE" => is_any_paused,
        _ => true,
    };
    let heads: Vec<&str> = HEADS.into_iter().filter(is_shown).collect();
    let mut table = output::table(&heads);
    for queue in &answer.queues {
        table.add_row(heads.iter().map(|head| cell(queue, head)));
    }
    output::print_table(&table)?;
    if is_any_parked {
        output::note(
            "parked runs wait for their flow key, not for a worker: see `tenure flow list`",
        );
    }
    Ok(())
}

const HEADS: [&str; 7] = ["QUEUE", "READY", "PARKED", "DELAYED", "RUNNING", "OLDEST", "PAUSE"];

fn cell(queue: &QueueView, head: &str) -> Cell {
    match head {
        "QUEUE" => Cell::new(&queue.queue),
        "READY" => Cell::new(queue.ready),
        "PARKED" => Cell::new(queue.parked),
        "DELAYED" => Cell::new(queue.delayed),
        "RUNNING" => Cell::new(queue.running),
        "OLDEST" => {
            let oldest = queue.oldest_ready_at.map(|at| duration::between(at, duration::now()));
            Cell::new(oldest.unwrap_or_default())
        }
        _ => Cell::new(queue.pause.as_ref().map(spell).unwrap_or_default()),
    }
}
