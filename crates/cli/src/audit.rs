//! `tenure audit`: administrative changes and refused calls, and whether the log is unchanged.

use clap::Subcommand;
use comfy_table::Cell;
use tenure::Client;
use wire::admin::{AuditQuery, AuditVerified};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BAD, Format, GOOD};
use crate::{open_store, server, verify};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Maximum number of entries to show
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u32,
    /// Show only entries before this number
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Check that no entry was changed, removed, added or reordered
    Verify {
        /// Read this store directly instead of asking a server
        #[arg(long, value_name = "sqlite:PATH|postgres://…")]
        store: Option<String>,
    },
}

pub(crate) async fn run(
    connect: impl FnOnce() -> Result<Client, CliError>,
    format: Format,
    arguments: Arguments,
) -> CommandResult {
    match &arguments.verb {
        Some(Verb::Verify { store: Some(store) }) => told(read(store).await?, format),
        Some(Verb::Verify { store: None }) => {
            told(connect()?.audit().verify().await.map_err(server::cli_error)?, format)
        }
        None => show(&connect()?, format, &arguments).await,
    }
}

/// Checks the store's log directly, with the key file of this machine.
async fn read(store: &str) -> Result<AuditVerified, CliError> {
    let address = open_store::store_address(Some(store))?;
    let Some(found) = verify::audit_of(&address).await? else {
        let message = "the key file that the audit is sealed with is not on this machine";
        return Err(CliError::new(Exit::NotFound, "keyring", message)
            .hint("run this on a machine where a coordinator of the store runs"));
    };
    Ok(found)
}

fn told(found: AuditVerified, format: Format) -> CommandResult {
    let exit = if found.findings.is_empty() { Exit::Done } else { Exit::Failed };
    if format == Format::Json {
        output::json(&found)?;
        return Ok(exit);
    }
    for finding in &found.findings {
        output::line(format_args!("{BAD}finding{BAD:#} {}", finding.message))?;
    }
    let (style, word) = match found.findings.len() {
        0 => (GOOD, "no findings".to_owned()),
        n => (BAD, output::count(n as u64, "finding")),
    };
    let entries = match found.entries {
        1 => "1 entry".to_owned(),
        n => format!("{n} entries"),
    };
    output::line(format_args!(
        "{style}{word}{style:#} in {entries}, {} of them sealed",
        found.sealed
    ))?;
    if !found.anchored {
        output::note(
            "there is no anchor beside the key file, so a truncated audit cannot be detected",
        );
    }
    Ok(exit)
}

async fn show(client: &Client, format: Format, arguments: &Arguments) -> CommandResult {
    let Arguments { limit, before, .. } = *arguments;
    let query = AuditQuery { before, limit: Some(limit) };
    let log = client.audit().list().with(query).await.map_err(server::cli_error)?;
    if format == Format::Json {
        output::json(&log)?;
        return Ok(Exit::Done);
    }
    let heads = ["N", "AT", "ACTOR", "ACTION", "OBJECT", "SCOPE", "ERROR", "TIMES"];
    let mut table = output::table(&heads);
    for entry in &log.entries {
        table.add_row([
            Cell::new(entry.n),
            Cell::new(entry.at),
            Cell::new(&entry.actor),
            Cell::new(&entry.action),
            Cell::new(&entry.object),
            Cell::new(format!("{}/{}", entry.tenant_id, entry.workspace_id)),
            Cell::new(entry.error.as_deref().unwrap_or("-")),
            Cell::new(entry.times),
        ]);
    }
    output::print_table(&table)?;
    if let Some(next) = log.next_before {
        output::note(format_args!("older entries: --before {next}"));
    }
    Ok(Exit::Done)
}
