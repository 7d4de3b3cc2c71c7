//! `tenure backup`: copies a store while its server runs.
//!
//! This process reads the store's file itself, beside the server. The key that signs task tokens is
//! in another file and is not copied.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use store::SystemClock;
use store::sqlite::Options;
use store::sqlite::backup::{self, Copied, Existing};

use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::ConfigArgument;
use crate::output::{self, BOLD, FAINT, Format};
use crate::{duration, serve};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file to write
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// The store to copy [default: the one `tenure dev` and `tenure serve` use]
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
    #[command(flatten)]
    config: ConfigArgument,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(format: Format, arguments: &Arguments) -> CommandResult {
    let store = arguments.config.store_path(arguments.store.as_deref())?;
    if !store.exists() {
        return Err(missing(&store));
    }
    let copied = backup::back_up(&store, &arguments.target, existing(arguments.force), &options())
        .map_err(|failure| serve::store_error(&failure))?;
    match format {
        Format::Json => output::json(&members(&arguments.target, &copied))?,
        Format::People => print(&store, &arguments.target, &copied)?,
    }
    Ok(Exit::Done)
}

pub(crate) fn options() -> Options {
    Options::new(Arc::new(SystemClock::start()))
}

pub(crate) fn existing(force: bool) -> Existing {
    if force { Existing::Replace } else { Existing::Keep }
}

pub(crate) fn missing(store: &Path) -> CliError {
    let message = format!("there is no store at {}", store.display());
    CliError::new(Exit::NotFound, "store_missing", message).hint(
        "give its path with --store sqlite:PATH; `tenure dev` or `tenure serve` creates one at its first start",
    )
}

pub(crate) fn members(target: &Path, copied: &Copied) -> serde_json::Value {
    json!({
        "path": target,
        "bytes": copied.bytes,
        "live": copied.live,
        "ended": copied.done,
        "epoch": copied.epoch,
        "lastCommitAt": copied.last_commit_at.map(|at| at_text(at.millis())),
    })
}

pub(crate) fn at_text(millis: i64) -> String {
    wire::Time::from_ms(millis).to_string()
}

fn print(store: &Path, target: &Path, copied: &Copied) -> Result<(), CliError> {
    output::line(format_args!("{BOLD}{}{BOLD:#} holds {}", target.display(), contents(copied)))?;
    output::line(format_args!(
        "{FAINT}checked{FAINT:#}  every page is readable, rows are consistent"
    ))?;
    if let Some(at) = copied.last_commit_at {
        let text = at_text(at.millis());
        output::line(format_args!("{FAINT}as of{FAINT:#}    {text}, the time of its last commit"))?;
    }
    let key = store.with_extension("key");
    output::line(format_args!("{FAINT}without{FAINT:#}  the signing key {}", key.display()))?;
    output::note("protect it like the store: it holds inputs, outputs and digests of API keys");
    Ok(())
}

pub(crate) fn contents(copied: &Copied) -> String {
    let live = output::count(copied.live, "live task");
    let done = output::count(copied.done, "ended one");
    format!("{live} and {done} in {}", duration::format_bytes(copied.bytes))
}
