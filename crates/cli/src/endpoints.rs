//! `tenure endpoints …`: where effects are delivered.

use std::time::Duration;

use comfy_table::Cell;
use tenure::Client;
use wire::effects::{CreateEndpoint, EndpointSecret, EndpointView, UpdateEndpoint};
use wire::requests::Retry;
use wire::{EndpointState, OnDead};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::{duration, server};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// List all endpoints
    List,
    /// Register an endpoint and print its secret; it is shown only once
    Create(Create),
    /// Show one endpoint
    Show(Name),
    /// Change an endpoint; what is not given stays
    Update(Update),
    /// Make a new secret and print it; the old one signs beside it for a time
    Rotate(Rotate),
    /// Send nothing until it is enabled again; effects wait
    Disable(Name),
    /// Send again
    Enable(Name),
    /// Delete an endpoint; its effects are given up
    Delete(Name),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Name {
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    #[command(flatten)]
    name: Name,
    /// Where effects are sent: https, or http in ranges that `tenure serve --allow-private-receivers` allows
    #[arg(value_name = "URL")]
    receiver: String,
    #[command(flatten)]
    settings: EndpointSettings,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Update {
    #[command(flatten)]
    name: Name,
    /// Where effects are sent from now on
    #[arg(long, value_name = "URL")]
    receiver: Option<String>,
    #[command(flatten)]
    settings: EndpointSettings,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EndpointSettings {
    /// What it is told of, such as run.failed, run.*, task.*, approval.* or *; may be repeated [default: run.*]
    #[arg(long = "type", value_name = "WORD")]
    types: Vec<String>,
    /// Tell it of no end: only what workers declare for it is sent
    #[arg(long, conflicts_with = "types")]
    no_types: bool,
    /// Push the tasks of this queue to it; may be repeated. Without --type it is then told of no end
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// Push it no more tasks
    #[arg(long, conflicts_with = "queues")]
    no_queues: bool,
    /// Whether the receiver recognises a repeated webhook-id [default: true]
    #[arg(long, value_name = "BOOL")]
    idempotent: Option<bool>,
    /// Tries before an effect is dead [default: 20]
    #[arg(long, value_name = "COUNT")]
    max_tries: Option<u32>,
    /// Pause after the first failed try, which doubles [default: 5s]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    retry_base: Option<Duration>,
    /// The longest pause between two tries [default: 6h]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    retry_cap: Option<Duration>,
    /// What becomes of an aggregate whose oldest effect is dead: block or skip [default: block]
    #[arg(long, value_name = "WORD")]
    on_dead: Option<OnDead>,
    /// Effects in flight from one coordinator, and pushed tasks that are not done [default: 16]
    #[arg(long, value_name = "COUNT")]
    concurrency: Option<u32>,
    /// Calls per second from one coordinator [default: no limit]
    #[arg(long, value_name = "COUNT")]
    rate: Option<u32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rotate {
    #[command(flatten)]
    name: Name,
    /// How long the old secret signs too
    #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = duration::parse)]
    overlap: Duration,
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl EndpointSettings {
    fn into_update(self, url: Option<String>) -> UpdateEndpoint {
        let (base, cap) = (self.retry_base.map(millis), self.retry_cap.map(millis));
        let is_retry = base.is_some() || cap.is_some();
        let types = (self.no_types || !self.types.is_empty()).then_some(self.types);
        let queues = (self.no_queues || !self.queues.is_empty()).then_some(self.queues);
        UpdateEndpoint {
            url,
            types,
            queues,
            idempotent: self.idempotent,
            max_tries: self.max_tries,
            retry: is_retry.then_some(Retry { base_ms: base, cap_ms: cap }),
            on_dead: self.on_dead,
            concurrency: self.concurrency,
            rate_per_second: self.rate,
            enabled: None,
        }
    }
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let endpoints = client.endpoints();
    let shown = match arguments.verb {
        None | Some(Verb::List) => return list(&client, format).await,
        Some(Verb::Create(create)) => {
            return secret(endpoints.create(&wanted(create)).await, format);
        }
        Some(Verb::Rotate(Rotate { name, overlap })) => {
            return secret(endpoints.rotate(&name.name).overlap(overlap).await, format);
        }
        Some(Verb::Show(Name { name })) => endpoints.get(&name).await,
        Some(Verb::Update(Update { name, receiver, settings })) => {
            endpoints.update(&name.name).with(settings.into_update(receiver)).await
        }
        Some(Verb::Disable(Name { name })) => endpoints.pause(&name).await,
        Some(Verb::Enable(Name { name })) => endpoints.resume(&name).await,
        Some(Verb::Delete(Name { name })) => endpoints.delete(&name).await,
    };
    let endpoint = shown.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&endpoint)?,
        Format::People => describe(&endpoint)?,
    }
    Ok(Exit::Done)
}

fn wanted(create: Create) -> CreateEndpoint {
    let Create { name: Name { name }, receiver: url, settings } = create;
    let update = settings.into_update(None);
    let UpdateEndpoint { types, idempotent, max_tries, retry, on_dead, .. } = update;
    let UpdateEndpoint { concurrency, rate_per_second, queues, .. } = update;
    CreateEndpoint {
        name,
        url,
        types,
        queues,
        idempotent,
        max_tries,
        retry,
        on_dead,
        concurrency,
        rate_per_second,
    }
}

async fn list(client: &Client, format: Format) -> CommandResult {
    let endpoints = client.endpoints().list().await.map_err(server::cli_error)?.endpoints;
    if format == Format::Json {
        output::json(&endpoints)?;
        return Ok(Exit::Done);
    }
    if endpoints.is_empty() {
        output::note("no endpoint is registered; `tenure endpoints create NAME URL` registers one");
        return Ok(Exit::Done);
    }
    let mut table = output::table(&["NAME", "STATE", "TYPES", "URL"]);
    for endpoint in &endpoints {
        table.add_row([
            Cell::new(&endpoint.name),
            Cell::new(state(endpoint)),
            Cell::new(endpoint.types.join(" ")),
            Cell::new(&endpoint.url),
        ]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

fn state(endpoint: &EndpointView) -> String {
    match (endpoint.state, &endpoint.disabled_because) {
        (EndpointState::Disabled, Some(why)) => format!("disabled ({why})"),
        (state, _) => state.as_str().to_owned(),
    }
}

fn secret(made: Result<EndpointSecret, tenure::Error>, format: Format) -> CommandResult {
    let made = made.map_err(server::cli_error)?;
    if format == Format::Json {
        output::json(&made)?;
        return Ok(Exit::Done);
    }
    output::line(format_args!("{BOLD}{}{BOLD:#}", made.secret))?;
    let name = &made.name;
    output::note(format_args!(
        "the secret of {name}, for its receiver. It is shown only once: store it now"
    ));
    Ok(Exit::Done)
}

fn describe(endpoint: &EndpointView) -> Result<(), CliError> {
    let field =
        |name: &str, value: String| output::line(format_args!("{FAINT}{name:<12}{FAINT:#}{value}"));
    output::line(format_args!("{BOLD}{}{BOLD:#}  {}", endpoint.name, state(endpoint)))?;
    field("url", endpoint.url.clone())?;
    field("types", endpoint.types.join(" "))?;
    if !endpoint.queues.is_empty() {
        field("queues", endpoint.queues.join(" "))?;
    }
    field("idempotent", endpoint.idempotent.to_string())?;
    let retry = endpoint.retry;
    let pauses =
        format!("{} tries, {} ms to {} ms", endpoint.max_tries, retry.base_ms, retry.cap_ms);
    field("retries", pauses)?;
    field("when dead", endpoint.on_dead.as_str().to_owned())?;
    field("concurrency", endpoint.concurrency.to_string())?;
    if let Some(rate) = endpoint.rate_per_second {
        field("rate", format!("{rate} per second"))?;
    }
    if let Some(until) = endpoint.previous_secret_until {
        field("old secret", format!("signs until {until}"))?;
    }
    Ok(())
}
