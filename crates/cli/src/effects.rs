//! `tenure effects …`: what left or should leave, and what to do about what did not arrive.

use comfy_table::Cell;
use tenure::Client;
use wire::effects::{EffectView, ListEffects, RedriveEffects};
use wire::{EffectState, Time, limits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::server;

/// More effects than a person reads.
const LIMIT_MAX: usize = 10_000;

/// The maximum page size of the server.
const PAGE: u32 = *limits::PAGE_ITEMS.end() as u32;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    listing: Listing,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Listing {
    #[command(flatten)]
    filter: Filter,
    /// Only effects in this state: queued, pending, in_flight, delivered, unknown or dead
    #[arg(long, value_name = "STATE")]
    state: Option<EffectState>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Filter {
    /// Only effects of this run
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Only effects for this endpoint
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// List effects; so does the command alone
    List(Listing),
    /// Show one effect: what is sent, and everything that happened to it
    Show(Id),
    /// Give new tries to dead effects: to one, or to all of a run, an endpoint or a time
    Redrive(Redrive),
    /// Let an aggregate go on behind a dead effect
    Release(Id),
    /// Say whether an unknown effect has arrived
    Reconcile(Reconcile),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Id {
    #[arg(value_name = "EFFECT")]
    id: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Redrive {
    /// One effect; without it, all dead ones that the options select
    #[arg(value_name = "EFFECT", conflicts_with_all = ["run", "endpoint", "since"])]
    id: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// Only effects decided at this time or later, such as 2026-11-17T04:00:00.000Z
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Reconcile {
    #[command(flatten)]
    id: Id,
    /// The receiver has it
    #[arg(long, required_unless_present = "not_arrived", conflicts_with = "not_arrived")]
    arrived: bool,
    /// The receiver does not have it: it is sent again
    #[arg(long)]
    not_arrived: bool,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let effects = client.effects();
    let shown = match arguments.verb.unwrap_or(Verb::List(arguments.listing)) {
        Verb::List(listing) => return list(&client, format, listing).await,
        Verb::Redrive(Redrive { id: None, filter, since }) => {
            return redrive_many(&client, format, filter, since).await;
        }
        Verb::Show(Id { id }) => effects.get(&id).await,
        Verb::Redrive(Redrive { id: Some(id), .. }) => effects.redrive(&id).await,
        Verb::Release(Id { id }) => effects.release(&id).await,
        Verb::Reconcile(Reconcile { id: Id { id }, arrived, .. }) => {
            effects.reconcile(&id, arrived).await
        }
    };
    let effect = shown.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&effect)?,
        Format::People => describe(&effect)?,
    }
    Ok(Exit::Done)
}

/// The effects in a state, up to a limit.
pub(crate) async fn in_state(
    client: &Client,
    state: EffectState,
) -> Result<Vec<EffectView>, CliError> {
    let state = Some(state);
    pages(client, ListEffects { state, limit: Some(PAGE), ..ListEffects::default() }).await
}

async fn pages(client: &Client, mut page: ListEffects) -> Result<Vec<EffectView>, CliError> {
    let mut effects = Vec::new();
    loop {
        let next = client.effects().list().with(page.clone()).await.map_err(server::cli_error)?;
        effects.extend(next.effects);
        page.cursor = next.cursor;
        if page.cursor.is_none() || effects.len() >= LIMIT_MAX {
            return Ok(effects);
        }
    }
}

async fn list(client: &Client, format: Format, listing: Listing) -> CommandResult {
    let Listing { filter, state } = listing;
    let Filter { run, endpoint } = filter;
    let page = ListEffects { run_id: run, endpoint, state, cursor: None, limit: Some(PAGE) };
    let effects = pages(client, page).await?;
    if format == Format::Json {
        output::json(&effects)?;
        return Ok(Exit::Done);
    }
    if effects.is_empty() {
        output::note("no effect was found");
        return Ok(Exit::Done);
    }
    let mut table =
        output::table(&["ENDPOINT", "TYPE", "AGGREGATE", "SEQ", "STATE", "TRIES", "EFFECT"]);
    for effect in &effects {
        table.add_row([
            Cell::new(&effect.endpoint),
            Cell::new(&effect.r#type),
            Cell::new(&effect.aggregate),
            Cell::new(effect.sequence),
            Cell::new(state_text(effect)),
            Cell::new(effect.tries),
            Cell::new(&effect.effect_id),
        ]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

fn state_text(effect: &EffectView) -> String {
    match &effect.reason {
        Some(reason) => format!("{} ({reason})", effect.state.as_str()),
        None => effect.state.as_str().to_owned(),
    }
}

async fn redrive_many(
    client: &Client,
    format: Format,
    filter: Filter,
    since: Option<Time>,
) -> CommandResult {
    let Filter { run, endpoint } = filter;
    let wanted = RedriveEffects { run_id: run, endpoint, since };
    let mut all =
        client.effects().redrive_all().with(wanted.clone()).await.map_err(server::cli_error)?;
    while all.more {
        let next =
            client.effects().redrive_all().with(wanted.clone()).await.map_err(server::cli_error)?;
        all.redriven += next.redriven;
        all.more = next.more && next.redriven > 0;
    }
    match format {
        Format::Json => output::json(&all)?,
        Format::People => {
            let effects = output::count(all.redriven, "effect");
            let verb = if all.redriven == 1 { "has" } else { "have" };
            output::line(format_args!("{effects} {verb} new tries"))?;
        }
    }
    Ok(Exit::Done)
}

fn describe(effect: &EffectView) -> Result<(), CliError> {
    let field =
        |name: &str, value: String| output::line(format_args!("{FAINT}{name:<11}{FAINT:#}{value}"));
    output::line(format_args!("{BOLD}{}{BOLD:#}  {}", effect.effect_id, state_text(effect)))?;
    field("type", effect.r#type.clone())?;
    field("endpoint", effect.endpoint.clone())?;
    field("aggregate", format!("{}  number {}", effect.aggregate, effect.sequence))?;
    field("run", effect.run_id.clone())?;
    field("decided", effect.decided_at.to_string())?;
    if let Some(due) = effect.due_at {
        field("due", due.to_string())?;
    }
    if effect.blocks == Some(true) {
        field("blocks", "its aggregate waits for it: redrive, release or reconcile it".to_owned())?;
    }
    if let Some(body) = &effect.body {
        field("body", body.text().to_owned())?;
    }
    let mut before = None;
    for change in &effect.log {
        // A change repeats the last try until there is another one.
        let last = change.last_try.as_ref().filter(|last| before != Some(*last));
        before = change.last_try.as_ref();
        let status = last.and_then(|last| last.status).map(|status| status.to_string());
        let note = last.and_then(|last| last.note.clone()).unwrap_or_default();
        let by = change.key_id.as_ref().map(|key| format!("by {key}")).unwrap_or_default();
        let (at, state) = (change.at, change.state.as_str());
        output::line(format_args!("{at}  {state:<10} {} {note} {by}", status.unwrap_or_default()))?;
    }
    Ok(())
}
