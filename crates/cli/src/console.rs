//! `tenure console`: a link that logs a browser in to the console, once.
//!
//! The key stays in the terminal: the link has a one-time code behind `#`, which browsers send to nobody, and the page
//! takes it out of its address before it uses it.

use std::process::{Command, Stdio};

use serde::Serialize;
use wire::Time;

use crate::args::GlobalArgs;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::profile::Connection;
use crate::server;

const EXAMPLES: &str = "\
The link logs in as the key of the profile, or as --key. It works once and for five minutes; `tenure console` makes
another. With --open the program that opens links gets it as an argument, which other users of this machine can see in
the list of processes until the page has loaded.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Open the link in a browser besides printing it
    #[arg(long)]
    open: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link {
    url: String,
    expires_at: Time,
}

pub(crate) async fn run(
    format: Format,
    global_args: &GlobalArgs,
    arguments: &Arguments,
) -> CommandResult {
    let connection = Connection::choose(global_args.url.as_deref(), global_args.key.as_deref())?;
    let client = server::client(&connection, global_args.ca_file.as_deref())?;
    let made = client.console_code().await.map_err(server::cli_error)?;
    let link = Link { url: url(&connection.url, &made.path), expires_at: made.expires_at };
    match format {
        Format::Json => output::json(&link)?,
        Format::People => {
            output::line(&link.url)?;
            output::note("logs in once, within five minutes");
        }
    }
    if arguments.open {
        open(&link.url)?;
    }
    Ok(Exit::Done)
}

/// The address of a path of the server.
pub(crate) fn url(server: &str, path: &str) -> String {
    format!("{}{path}", server.trim_end_matches('/'))
}

/// The program of the system that opens links.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

fn open(url: &str) -> Result<(), CliError> {
    let silent = Stdio::null;
    let opened =
        Command::new(OPENER).arg(url).stdin(silent()).stdout(silent()).stderr(silent()).status();
    match opened {
        Ok(status) if status.success() => Ok(()),
        Ok(_) | Err(_) => {
            let message = format!("`{OPENER}` opened no browser");
            Err(CliError::new(Exit::Failed, "no_browser", message)
                .hint("open the printed link yourself, on this machine or another one"))
        }
    }
}
