//! `tenure runs watch`: every decision as it is made, until the run has ended.

use std::time::Duration;

use tenure::Client;
use tokio::time::Instant;
use wire::requests::HistoryQuery;

use super::entry;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::{duration, server, submit};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The run's id
    #[arg(value_name = "RUN")]
    id: String,
    /// Stop waiting after this time, such as 30s; the run continues
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    // The first look fails fast: a wrong address or run is not worth waiting for.
    client.run(&arguments.id).await.map_err(server::cli_error)?;
    let client = server::with_long_retries(client);
    let until = arguments.timeout.map(|timeout| Instant::now() + timeout);
    let mut query = HistoryQuery { limit: Some(super::PAGE), ..HistoryQuery::default() };
    loop {
        let left = until.map_or(Duration::MAX, |until| until - Instant::now());
        query.wait_ms = Some(wait_ms(left));
        print_page(&client, format, &arguments.id, &mut query).await?;
        let run = client.run(&arguments.id).await.map_err(server::cli_error)?;
        if run.state.is_terminal() {
            // What was decided between the page and the look at the run.
            query.wait_ms = None;
            while print_page(&client, format, &arguments.id, &mut query).await? > 0 {}
        }
        if run.state.is_terminal() || left.is_zero() {
            return ended(format, &run);
        }
    }
}

/// Prints what follows `query.after` and moves it on; answers how many entries there were.
async fn print_page(
    client: &Client,
    format: Format,
    id: &str,
    query: &mut HistoryQuery,
) -> Result<usize, CliError> {
    let page = client.history(id, query).await.map_err(server::cli_error)?;
    for entry in &page.entries {
        match format {
            Format::Json => output::json_line(entry)?,
            Format::People => output::line(entry::line(entry))?,
        }
    }
    query.after = Some(page.next_after);
    Ok(page.entries.len())
}

fn wait_ms(left: Duration) -> u64 {
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(*wire::limits::WAIT_MS.end())
}

fn ended(format: Format, run: &wire::answers::Run) -> CommandResult {
    if format == Format::People {
        output::note(submit::ending(run));
    }
    Ok(Exit::of_run(run.state))
}
