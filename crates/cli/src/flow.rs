//! `tenure flow list`: the flow keys of which only so many runs are active at once or start in a while; and `--flow KEY=N` and
//! `--flow-rate 10/1s`, `--debounce 5s` and `--debounce-max 1m` beside it, of `tenure submit`.

use std::time::Duration;

use clap::Subcommand;
use comfy_table::Cell;
use tenure::Client;
use wire::answers::{FlowKeyView, FlowKeys};
use wire::limits;
use wire::requests::{Flow, FlowHold, FlowRate, ListFlowKeys};

use crate::duration;
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
    let mut page = ListFlowKeys { key: None, after: None, limit: Some(PAGE) };
    let mut answer =
        client.queues().flow_keys().with(page.clone()).await.map_err(server::cli_error)?;
    while let Some(after) = answer.next_after.take_if(|_| answer.flow_keys.len() < LIMIT_MAX) {
        page.after = Some(after);
        let next =
            client.queues().flow_keys().with(page.clone()).await.map_err(server::cli_error)?;
        answer.flow_keys.extend(next.flow_keys);
        answer.next_after = next.next_after;
    }
    Ok(answer)
}

fn print(keys: &[FlowKeyView]) -> Result<(), CliError> {
    let mut table = output::table(&[
        "KEY",
        "HELD",
        "LIMIT",
        "RATE",
        "NEXT START",
        "PARKED",
        "UNFINISHED",
        "HOLDERS",
    ]);
    for FlowKeyView { key, limit, rate, opens_at, held, parked, live, holders } in keys {
        let more = if *held > holders.len() as u64 { ",…" } else { "" };
        table.add_row([
            Cell::new(key),
            Cell::new(held),
            Cell::new(limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string())),
            Cell::new(rate.map_or_else(|| "-".to_owned(), format_rate)),
            Cell::new(next_start(*held, *limit, *opens_at)),
            Cell::new(parked),
            Cell::new(live),
            Cell::new(format!("{}{more}", holders.join(","))),
        ]);
    }
    output::print_table(&table)
}

/// When one more run with the key may start.
fn next_start(held: u64, limit: Option<u32>, opens_at: Option<wire::Time>) -> String {
    match opens_at {
        _ if limit.is_some_and(|limit| held >= u64::from(limit)) => {
            "when a slot is free".to_owned()
        }
        Some(at) => at.to_string(),
        None => "now".to_owned(),
    }
}

/// For what a run waits whose key has this state, if the key keeps it; `None` if only a worker is missing.
pub(crate) fn waits(key: &FlowKeyView) -> Option<String> {
    let FlowKeyView { key: name, limit, held, opens_at, .. } = key;
    match (limit, opens_at) {
        (Some(limit), _) if *held >= u64::from(*limit) => {
            Some(format!("waits for a slot of {name} ({held} of {limit} held)"))
        }
        (_, Some(at)) => Some(format!("waits for a start of {name} at {at}")),
        _ => None,
    }
}

/// Reads `KEY=N`, or `KEY` for a key with a rate alone.
pub(crate) fn parse(text: &str) -> Result<Flow, String> {
    let Some((key, limit)) = text.rsplit_once('=') else {
        return Ok(Flow { key: text.to_owned(), ..Flow::default() });
    };
    let limit = limit.parse().map_err(|_| format!("`{limit}` is no whole number"))?;
    Ok(Flow { key: key.to_owned(), limit: Some(limit), ..Flow::default() })
}

/// Reads `10/1s`: so many starts in any window of so long.
pub(crate) fn parse_rate(text: &str) -> Result<FlowRate, String> {
    let (count, per) = text.split_once('/').ok_or("write it as COUNT/SPAN, such as 10/1s")?;
    let count = count.parse().map_err(|_| format!("`{count}` is no whole number"))?;
    let per = duration::parse(per)?;
    Ok(FlowRate { count, per_ms: u64::try_from(per.as_millis()).unwrap_or(u64::MAX) })
}

/// A rate as [`parse_rate`] reads it, but for the space in its span.
pub(crate) fn format_rate(FlowRate { count, per_ms }: FlowRate) -> String {
    format!("{count}/{}", duration::format_exact(per_ms))
}

/// The flow key of a run, in one line.
pub(crate) fn line(flow: &Flow) -> String {
    let Flow { key, limit, rate, debounce_ms, debounce_max_ms, hold } = flow;
    let span = |ms: &u64| duration::format_exact(*ms);
    let limit = limit.map(|limit| format!(", {limit} at once"));
    let rate = rate.map(|rate| format!(", {} starts", format_rate(rate)));
    let waits = debounce_ms.as_ref().map(|ms| format!(", waits {} for a newer run", span(ms)));
    let most = debounce_max_ms.as_ref().map(|ms| format!(", {} at most", span(ms)));
    let is_life = *hold == Some(FlowHold::Life);
    let life = is_life.then(|| ", held until its end".to_owned());
    let parts = [limit, life, rate, waits, most].into_iter().flatten();
    parts.fold(key.clone(), |line, part| line + &part)
}

/// What `tenure submit` says of a flow key.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct FlowArguments {
    /// At most so many runs with this key are active at once, such as customer-7=1
    #[arg(long, value_name = "KEY=N", value_parser = parse)]
    flow: Option<Flow>,
    /// Runs with the key of --flow start at most so often, such as 10/1s; then N is optional
    #[arg(long, value_name = "COUNT/SPAN", requires = "flow", value_parser = parse_rate)]
    flow_rate: Option<FlowRate>,
    /// Wait this long for a newer run with the key of --flow, which replaces this one; then N is optional
    #[arg(long, value_name = "SPAN", requires = "flow", value_parser = duration::parse)]
    debounce: Option<Duration>,
    /// Wait no longer than this, however many runs replace each other [default: 1h]
    #[arg(long, value_name = "SPAN", requires = "debounce", value_parser = duration::parse)]
    debounce_max: Option<Duration>,
    /// Hold the slot of --flow until the run has ended, also while it waits; its children share it
    #[arg(long, requires = "flow")]
    flow_life: bool,
}

impl FlowArguments {
    /// The key of the submission.
    pub(crate) fn flow(self) -> Result<Option<Flow>, CliError> {
        let Self { flow, flow_rate: rate, debounce, debounce_max, flow_life } = self;
        let Some(flow) = flow else { return Ok(None) };
        if flow.limit.is_none() && rate.is_none() && debounce.is_none() {
            let message = format!("`--flow {}` limits nothing", flow.key);
            return Err(CliError::usage("flow_without_limit", message)
                .hint("write --flow KEY=N, or add --flow-rate COUNT/SPAN or --debounce SPAN"));
        }
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let (debounce_ms, debounce_max_ms) = (debounce.map(millis), debounce_max.map(millis));
        let hold = flow_life.then_some(FlowHold::Life);
        Ok(Some(Flow { rate, debounce_ms, debounce_max_ms, hold, ..flow }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_its_limit_are_read() {
        let flow = parse("customer/7=3").unwrap();
        assert_eq!((flow.key.as_str(), flow.limit), ("customer/7", Some(3)));
        for wrong in ["customer=", "customer=many", "customer=-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let alone = parse("customer").unwrap();
        let said = |flow_rate, debounce| FlowArguments {
            flow: Some(alone.clone()),
            flow_rate,
            debounce,
            debounce_max: None,
            flow_life: false,
        };
        assert_eq!(said(None, None).flow().unwrap_err().code, "flow_without_limit");
        let rate = parse_rate("10/1s").unwrap();
        assert_eq!(said(Some(rate), None).flow().unwrap().unwrap().rate, Some(rate));
        let waits = said(None, Some(Duration::from_secs(5))).flow().unwrap().unwrap();
        assert_eq!((waits.debounce_ms, waits.debounce_max_ms), (Some(5_000), None));
    }

    #[test]
    fn a_full_key_has_no_next_start_until_a_slot_is_free() {
        let at = wire::Time::from_ms(0);
        assert_eq!(next_start(1, Some(2), None), "now");
        assert_eq!(next_start(2, Some(2), None), "when a slot is free");
        assert_eq!(next_start(2, Some(2), Some(at)), "when a slot is free");
        assert_eq!(next_start(0, None, Some(at)), at.to_string());
    }

    #[test]
    fn a_rate_is_read_as_it_is_written() {
        let rate = parse_rate("10/90s").unwrap();
        assert_eq!(rate, FlowRate { count: 10, per_ms: 90_000 });
        assert_eq!(format_rate(FlowRate { count: 5, per_ms: 3_600_000 }), "5/1 h");
        for wrong in ["10", "10/", "/1s", "ten/1s", "10/second", "-1/1s"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
