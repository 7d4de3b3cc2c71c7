//! `tenure prune`: deletes runs that ended long ago, in a store that no server uses.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use store::FailureKind;
use store::sqlite::retention::{self, AGE_MIN, Mode, Pruned, Rule};

use crate::backup::{self, at_text, options};
use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::ConfigArgument;
use crate::output::{self, Format};
use crate::{duration, serve};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Remove runs that ended longer ago than this; at least 24h
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    older_than: Duration,
    /// Keep the N runs that ended last, however old they are
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: u64,
    /// Print how many runs would be removed, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// The store [default: the one `tenure dev` and `tenure serve` use]
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
    #[command(flatten)]
    config: ConfigArgument,
}

pub(crate) fn run(format: Format, arguments: &Arguments) -> CommandResult {
    let age_ms = u64::try_from(arguments.older_than.as_millis()).unwrap_or(u64::MAX);
    if age_ms < AGE_MIN.millis() {
        let message = "ended runs are kept for at least 24h";
        return Err(CliError::usage("too_young", message).hint("give --older-than 24h or more"));
    }
    let store = arguments.config.store_path(arguments.store.as_deref()).map_err(served)?;
    if !store.exists() {
        return Err(backup::missing(&store));
    }
    let rule = Rule::of_millis(age_ms, arguments.keep);
    let mode = if arguments.dry_run { Mode::Count } else { Mode::Remove };
    let pruned =
        retention::prune(&store, rule, mode, &options()).map_err(|failure| match failure.kind {
            FailureKind::InUse => served(serve::store_error(&failure)),
            _ => serve::store_error(&failure),
        })?;
    match format {
        Format::Json => output::json(&members(&pruned, mode))?,
        Format::People => print(&store, &pruned, mode)?,
    }
    Ok(Exit::Done)
}

/// A server removes ended runs itself, over a file and over a database.
fn served(error: CliError) -> CliError {
    match error.code.as_str() {
        "sqlite_only" | "store_closed" => error.hint(
            "a server removes ended runs while it runs: start it with --retain-for or --retain-runs",
        ),
        _ => error,
    }
}

fn members(pruned: &Pruned, mode: Mode) -> serde_json::Value {
    json!({
        "dryRun": mode == Mode::Count,
        "forgotten": pruned.tasks,
        "left": pruned.left,
        "endedBefore": at_text(pruned.before.millis()),
    })
}

fn print(store: &Path, pruned: &Pruned, mode: Mode) -> Result<(), CliError> {
    let many = output::count(pruned.tasks, "run");
    let before = at_text(pruned.before.millis());
    let left = output::count(pruned.left, "ended run");
    let verb = match mode {
        Mode::Count => "would remove",
        Mode::Remove => "removed",
    };
    let remain = if pruned.left == 1 { "remains" } else { "remain" };
    output::line(format_args!("{verb} {many} that ended before {before}; {left} {remain}"))?;
    if mode == Mode::Remove && pruned.tasks > 0 {
        let shown = store.display();
        output::note(format_args!("{shown} keeps its size; the free space in it is reused"));
    }
    Ok(())
}
