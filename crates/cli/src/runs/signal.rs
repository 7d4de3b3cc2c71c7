//! `tenure runs signal`, `tenure runs resume` and `tenure runs unpin`: what a person tells a durable run.

use serde_json::Value;
use tenure::Client;

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run, or of its task
    #[arg(value_name = "RUN")]
    id: String,
    /// The name that the run waits for
    name: String,
    /// The value, as JSON; null without it
    #[arg(long, value_name = "JSON", value_parser = json)]
    data: Option<Value>,
    /// An idempotency key: a signal with a known key is not recorded again
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// Refused here, before any call is made.
fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| {
        format!("{error}; write JSON, such as '{{\"by\": \"ops\"}}', or '\"text\"' in quotes")
    })
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let Arguments { id, name, data, idempotency_key } = arguments;
    let run = client.run(super::run_id(&id));
    let signal = run.signal(&name, &data.unwrap_or(Value::Null));
    let signal = match idempotency_key {
        Some(key) => signal.idempotency_key(key),
        None => signal,
    };
    let accepted = signal.await.map_err(server::cli_error)?;
    if format == Format::Json {
        output::json(&accepted)?;
        return Ok(Exit::Done);
    }
    let before = if accepted.replayed == Some(true) { " before, under the same key" } else { "" };
    output::line(format_args!("{} has the signal {name}{before}", accepted.run_id))?;
    Ok(Exit::Done)
}

pub(crate) async fn resume(client: Client, format: Format, id: &str) -> CommandResult {
    let resumed = client.run(id).resume().await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&resumed)?,
        Format::People => resumed_line(&resumed.run_id)?,
    }
    Ok(Exit::Done)
}

pub(crate) async fn unpin(client: Client, format: Format, id: &str) -> CommandResult {
    let unpinned = client.run(id).unpin().await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&unpinned)?,
        Format::People => unpinned_line(&unpinned.run_id)?,
    }
    Ok(Exit::Done)
}

fn unpinned_line(run_id: &str) -> Result<(), CliError> {
    output::line(format_args!("{run_id} may be continued by workers of every build"))?;
    output::note(format_args!("if their code does not fit what it recorded, it stops as diverged"));
    Ok(())
}

fn resumed_line(run_id: &str) -> Result<(), CliError> {
    output::line(format_args!("{run_id} may be leased again"))?;
    output::note(format_args!("follow it with `tenure runs watch {run_id}`"));
    Ok(())
}
