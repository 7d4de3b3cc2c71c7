//! `tenure audit`: who administered what, and who was refused.

use comfy_table::Cell;
use tenure::Client;
use wire::admin::AuditQuery;

use crate::exit::{Ended, Exit};
use crate::output::{self, Format};
use crate::server;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many entries to show
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u32,
    /// Only entries before this number
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> Ended {
    let Arguments { limit, before } = arguments;
    let query = AuditQuery { before, limit: Some(limit) };
    let log = client.audit(&query).await.map_err(server::complaint)?;
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
        output::note(format_args!("more with --before {next}"));
    }
    Ok(Exit::Done)
}
