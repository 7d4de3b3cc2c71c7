//! `tenure runs watch`: prints every decision as it is made, until the run has ended.

use std::time::Duration;

use tenure::{Client, HistoryRequest};
use tokio::time::Instant;

use super::entry;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::{duration, server, submit};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run, or of its task
    #[arg(value_name = "RUN")]
    id: String,
    /// Stop waiting after this time, such as 30s; the run continues
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    // The first call fails fast: there is no point in waiting with a wrong address or run.
    let id = super::run_id(&arguments.id);
    client.run(&id).status().await.map_err(server::cli_error)?;
    let watched = server::with_long_retries(client).run(id);
    let until = arguments.timeout.map(|timeout| Instant::now() + timeout);
    let mut request = watched.history().limit(super::PAGE);
    loop {
        let left = until.map_or(Duration::MAX, |until| until - Instant::now());
        request = request.wait(left);
        print_page(format, &mut request).await?;
        let run = watched.status().await.map_err(server::cli_error)?;
        if run.state.is_terminal() {
            // Fetches the decisions made between the last page and the status.
            request = request.wait(Duration::ZERO);
            while print_page(format, &mut request).await? > 0 {}
        }
        if run.state.is_terminal() || left.is_zero() {
            return ended(format, &run);
        }
    }
}

/// Prints the requested page, prepares the request for the next one, and returns the number of
/// entries.
async fn print_page(format: Format, request: &mut HistoryRequest) -> Result<usize, CliError> {
    let page = request.clone().await.map_err(server::cli_error)?;
    for entry in &page.entries {
        match format {
            Format::Json => output::json_line(entry)?,
            Format::People => output::line(entry::line(entry))?,
        }
    }
    *request = request.clone().after(page.next_after);
    Ok(page.entries.len())
}

fn ended(format: Format, run: &wire::answers::Run) -> CommandResult {
    if format == Format::People {
        output::note(submit::ending(run));
    }
    Ok(Exit::of_run(run.state))
}
