//! `tenure runs cancel`: one run by its id, or many by filter.

use tenure::{CancelMode, Client};
use wire::State;

use crate::bulk::{self, BulkOptions, RunFilter};
use crate::exit::{CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run, or of its task
    #[arg(value_name = "RUN", required_unless_present = "common", conflicts_with = "common")]
    id: Option<String>,
    #[command(flatten)]
    filter: RunFilter,
    #[command(flatten)]
    bulk_options: BulkOptions,
    /// Reason, which is passed to the worker
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Revoke the lease at once instead of asking the worker to stop
    #[arg(long)]
    force: bool,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let mode = if arguments.force { CancelMode::Immediate } else { CancelMode::Graceful };
    let Arguments { id, filter, bulk_options, reason, .. } = arguments;
    match id {
        Some(id) if bulk_options.dry_run => {
            bulk::preview_one(&client, format, &super::run_id(&id)).await
        }
        Some(id) => one(client, format, &super::run_id(&id), reason.as_deref(), mode).await,
        None => bulk::cancel(client, format, filter, bulk_options, reason, mode).await,
    }
}

async fn one(
    client: Client,
    format: Format,
    id: &str,
    reason: Option<&str>,
    mode: CancelMode,
) -> CommandResult {
    let cancel = client.run(id).cancel().mode(mode);
    let cancel = match reason {
        Some(reason) => cancel.reason(reason),
        None => cancel,
    };
    let accepted = cancel.await.map_err(server::cli_error)?;
    match (format, accepted.state) {
        (Format::Json, _) => output::json(&accepted)?,
        (Format::People, State::Running) => {
            output::line(format_args!("{} was asked to stop", accepted.run_id))?;
            output::note(format_args!("follow it with `tenure runs watch {}`", accepted.run_id));
        }
        (Format::People, state) => output::line(format_args!("{} is {state}", accepted.run_id))?,
    }
    Ok(Exit::Done)
}
