//! `tenure flow list`: the flow keys of which only so many runs are active at once; and `--flow KEY=N` of `tenure submit`.

use clap::Subcommand;
use comfy_table::Cell;
use tenure::Client;
use wire::answers::{FlowKeyView, FlowKeys};
use wire::limits;
use wire::requests::{Flow, ListFlowKeys};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

/// More keys than a person reads, and fewer than a terminal can hold.
const LIMIT_MAX: usize = 10_000;

/// The maximum page size of the server.
const PAGE: u32 = *limits::PAGE_ITEMS.end() as u32;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the keys that runs which have not ended use: who holds their slots, and how many wait for one
    List,
}

pub(crate) async fn run(client: Client, format: Format, verb: &Verb) -> CommandResult {
    match verb {
        Verb::List => list(client, format).await,
    }
}

async fn list(client: Client, format: Format) -> CommandResult {
    let answer = all(&client).await?;
    if format == Format::Json {
        output::json(&answer.flow_keys)?;
        return Ok(Exit::Done);
    }
    if answer.flow_keys.is_empty() {
        output::note(
            "no run that has not ended has a flow key; `tenure submit --flow KEY=N` gives one",
        );
    } else {
        print(&answer.flow_keys)?;
    }
    if answer.next_after.is_some() {
        output::note(format_args!("… and more keys; only the first {LIMIT_MAX} are listed"));
    }
    Ok(Exit::Done)
}

/// The pages as one answer, up to a limit.
async fn all(client: &Client) -> Result<FlowKeys, CliError> {
    let mut page = ListFlowKeys { after: None, limit: Some(PAGE) };
    let mut answer = client.flow_keys(&page).await.map_err(server::cli_error)?;
    while let Some(after) = answer.next_after.take_if(|_| answer.flow_keys.len() < LIMIT_MAX) {
        page.after = Some(after);
        let next = client.flow_keys(&page).await.map_err(server::cli_error)?;
        answer.flow_keys.extend(next.flow_keys);
        answer.next_after = next.next_after;
    }
    Ok(answer)
}

fn print(keys: &[FlowKeyView]) -> Result<(), CliError> {
    let mut table = output::table(&["KEY", "HELD", "LIMIT", "PARKED", "UNFINISHED", "HOLDERS"]);
    for FlowKeyView { key, limit, held, parked, live, holders } in keys {
        let more = if *held > holders.len() as u64 { ",…" } else { "" };
        table.add_row([
            Cell::new(key),
            Cell::new(held),
            Cell::new(limit),
            Cell::new(parked),
            Cell::new(live),
            Cell::new(format!("{}{more}", holders.join(","))),
        ]);
    }
    output::print_table(&table)
}

/// Reads `KEY=N`.
pub(crate) fn parse(text: &str) -> Result<Flow, String> {
    let (key, limit) = text.rsplit_once('=').ok_or("write it as KEY=N, such as customer-7=1")?;
    let limit = limit.parse().map_err(|_| format!("`{limit}` is no whole number"))?;
    Ok(Flow { key: key.to_owned(), limit })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_key_and_its_limit_are_read() {
        let flow = parse("customer/7=3").unwrap();
        assert_eq!((flow.key.as_str(), flow.limit), ("customer/7", 3));
        for wrong in ["customer", "customer=", "customer=many", "customer=-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
