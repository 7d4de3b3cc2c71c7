//! `tenure limits …`: request rates and quotas of tenants.

use clap::Subcommand;
use comfy_table::Cell;
use tenure::Client;
use wire::admin::{SetLimits, TenantLimits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show the limits of tenants and their usage
    List,
    /// Set the limits of a tenant; limits that are not named are removed
    Set(Set),
    /// Remove all limits of a tenant
    Clear(Tenant),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tenant {
    /// The tenant's name
    #[arg(value_name = "TENANT")]
    tenant: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    #[command(flatten)]
    tenant: Tenant,
    /// Calls of clients and polls of workers per second; heartbeats, reports and administration are never limited
    #[arg(long, value_name = "COUNT")]
    requests_per_second: Option<u32>,
    /// Requests that may arrive at once after a pause [default: the number per second]
    #[arg(long, value_name = "COUNT", requires = "requests_per_second")]
    burst: Option<u32>,
    /// Quota of runs that wait or run; 0 accepts no new runs
    #[arg(long, value_name = "COUNT")]
    unfinished_runs: Option<u64>,
}

pub(crate) async fn run(client: Client, format: Format, verb: Verb) -> CommandResult {
    match verb {
        Verb::List => {
            let found = client.limits().list().await.map_err(server::cli_error)?.limits;
            if found.is_empty() && format == Format::People {
                output::note("no tenant has limits; `tenure limits set TENANT` sets some");
                return Ok(Exit::Done);
            }
            show(format, &found)?;
        }
        Verb::Set(Set {
            tenant: Tenant { tenant },
            requests_per_second,
            burst,
            unfinished_runs,
        }) => {
            let wanted =
                SetLimits { tenant_id: tenant, requests_per_second, burst, unfinished_runs };
            set(&client, format, wanted).await?;
        }
        Verb::Clear(Tenant { tenant }) => {
            let wanted = SetLimits { tenant_id: tenant, ..SetLimits::default() };
            set(&client, format, wanted).await?;
        }
    }
    Ok(Exit::Done)
}

async fn set(client: &Client, format: Format, wanted: SetLimits) -> Result<(), CliError> {
    let limits =
        client.limits().set(&wanted.tenant_id).with(wanted).await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&limits),
        Format::People => show(format, &[limits]),
    }
}

fn show(format: Format, all: &[TenantLimits]) -> Result<(), CliError> {
    if format == Format::Json {
        return output::json(all);
    }
    let mut table = output::table(&["TENANT", "REQUESTS/S", "BURST", "UNFINISHED RUNS", "NOW"]);
    let number = |number: Option<u64>| number.map_or("any".to_owned(), |it| it.to_string());
    for limits in all {
        let rate = limits.requests_per_second;
        table.add_row([
            Cell::new(&limits.tenant_id),
            Cell::new(number(rate.map(u64::from))),
            Cell::new(number(limits.burst.or(rate).map(u64::from))),
            Cell::new(number(limits.unfinished_runs)),
            Cell::new(limits.unfinished_runs_now),
        ]);
    }
    output::print_table(&table)
}
