//! `tenure doctor`: checks the installation. One line per check, with a remedy for each problem.
//!
//! It changes nothing. It reports what it cannot check, such as the store of a server on another
//! machine, and continues.

mod connection;
mod database;
mod machine;

use serde::Serialize;

use crate::args::GlobalArgs;
use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::{ConfigArgument, StoreAddress};
use crate::output::{self, BAD, BOLD, Format, GOOD, WARN};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The store to check [default: the one `tenure dev` and `tenure serve` use]
    #[arg(long, value_name = "sqlite:PATH|postgres://…")]
    store: Option<String>,
    #[command(flatten)]
    config: ConfigArgument,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Grade {
    Ok,
    /// It works, but not as it should, or it could not be checked.
    Warn,
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    check: &'static str,
    grade: Grade,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn ok(check: &'static str, found: impl Into<String>) -> Check {
        Check { check, grade: Grade::Ok, found: found.into(), remedy: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { check, grade: Grade::Warn, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { grade: Grade::Fail, ..Check::warn(check, found, remedy) }
    }

    fn from_error(check: &'static str, cli_error: CliError) -> Check {
        let remedy = cli_error.hint.unwrap_or_else(|| "see the message above".to_owned());
        Check::fail(check, cli_error.message, remedy)
    }
}

pub(crate) async fn run(
    format: Format,
    global_args: &GlobalArgs,
    arguments: Arguments,
) -> CommandResult {
    let store = arguments.config.store_address(arguments.store.as_deref())?;
    let mut checks = connection::checks(global_args).await;
    match &store {
        StoreAddress::Sqlite(path) => checks.extend(machine::checks(path)),
        StoreAddress::Postgres(url) => checks.extend(database::checks(url).await),
    }
    match format {
        Format::Json => output::json(&checks)?,
        Format::People => print(&checks)?,
    }
    let failed = checks.iter().any(|check| check.grade == Grade::Fail);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn print(checks: &[Check]) -> Result<(), CliError> {
    for Check { check, grade, found, remedy } in checks {
        let (style, word) = match grade {
            Grade::Ok => (GOOD, "ok"),
            Grade::Warn => (WARN, "warn"),
            Grade::Fail => (BAD, "fail"),
        };
        output::line(format_args!("{style}{word:<4}{style:#}  {check:<11}  {found}"))?;
        if let Some(remedy) = remedy {
            output::line(format_args!("{:<19}{BOLD}->{BOLD:#} {remedy}", ""))?;
        }
    }
    Ok(())
}
