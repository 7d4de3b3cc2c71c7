//! `tenure artifacts …`: what a deployment works on, created, looked at and moved by people.

use std::fs;
use std::io::{self, Read as _};

use comfy_table::Cell;
use tenure::Client;
use wire::topologies::{ArtifactView, CreateArtifact, ListArtifacts, MoveArtifact};
use wire::{Json, limits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, FAINT, Format};
use crate::server;

/// The maximum page size of the server.
const PAGE: u32 = *limits::PAGE_ITEMS.end() as u32;

/// More artifacts than a person reads.
const LIMIT_MAX: usize = 10_000;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// List the artifacts of a type
    List {
        #[command(flatten)]
        of: OfType,
        /// Only artifacts in this status
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = LIMIT_MAX)]
        limit: usize,
    },
    /// Show an artifact with its fields
    Show(One),
    /// Create an artifact in its initial status
    Create {
        #[command(flatten)]
        one: One,
        /// Its fields: a JSON object, `@FILE`, or `-` for stdin
        #[arg(long, value_name = "JSON")]
        fields: Option<String>,
    },
    /// Move an artifact to another status
    Move(Moved),
    /// Approve a change of an artifact's status; needs a key with the role approver or admin
    Approve(Moved),
    /// Ask for an event that the topology declares with `on: request`
    Request {
        /// The deployment
        #[arg(value_name = "DEPLOYMENT")]
        deployment: String,
        /// The event
        #[arg(value_name = "EVENT")]
        event: String,
        /// Key for safe repeats: the same key is the same event
        #[arg(long, value_name = "KEY")]
        idempotency_key: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct OfType {
    /// The deployment
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    /// The artifact type
    #[arg(value_name = "TYPE")]
    kind: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct One {
    #[command(flatten)]
    of: OfType,
    /// The id of the artifact
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Moved {
    #[command(flatten)]
    one: One,
    /// The status it enters
    #[arg(value_name = "STATUS")]
    to: String,
    /// Refuse if the artifact has another revision by now
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
    /// Its fields from now on: a JSON object, `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON")]
    fields: Option<String>,
}

pub(crate) async fn run(client: Client, format: Format, verb: Verb) -> CommandResult {
    match verb {
        Verb::List { of, status, limit } => list(&client, format, &of, status, limit).await,
        Verb::Show(One { of, id }) => {
            let shown = client.deployments().artifact(&of.deployment, &of.kind, &id).await;
            print(format, &shown.map_err(server::cli_error)?)
        }
        Verb::Create { one: One { of, id }, fields } => {
            let artifact = CreateArtifact { id, fields: read(fields.as_deref())? };
            let deployments = client.deployments();
            let made = deployments.create_artifact(&of.deployment, &of.kind, &artifact).await;
            print(format, &made.map_err(server::cli_error)?)
        }
        Verb::Move(moved) => change(&client, format, moved, false).await,
        Verb::Approve(moved) => change(&client, format, moved, true).await,
        Verb::Request { deployment, event, idempotency_key } => {
            let made = client.deployments().event(&deployment, event, idempotency_key).await;
            let made = made.map_err(server::cli_error)?;
            match format {
                Format::Json => output::json(&made)?,
                Format::People => {
                    output::line(format_args!("{}  {}", made.event_id, made.run_id))?;
                }
            }
            Ok(Exit::Done)
        }
    }
}

async fn change(client: &Client, format: Format, moved: Moved, approves: bool) -> CommandResult {
    let Moved { one: One { of, id }, to, revision, fields } = moved;
    let wanted = MoveArtifact { to, revision, fields: read(fields.as_deref())? };
    let deployments = client.deployments();
    let moved = match approves {
        true => deployments.approve_artifact(&of.deployment, &of.kind, &id, &wanted).await,
        false => deployments.move_artifact(&of.deployment, &of.kind, &id, &wanted).await,
    };
    print(format, &moved.map_err(server::cli_error)?)
}

async fn list(
    client: &Client,
    format: Format,
    of: &OfType,
    status: Option<String>,
    limit: usize,
) -> CommandResult {
    let mut page = ListArtifacts { status, cursor: None, limit: Some(PAGE) };
    let mut found = Vec::new();
    loop {
        let left = limit.saturating_sub(found.len());
        page.limit = Some(u32::try_from(left).unwrap_or(PAGE).clamp(1, PAGE));
        let next =
            client.deployments().artifacts(&of.deployment, &of.kind).with(page.clone()).await;
        let next = next.map_err(server::cli_error)?;
        found.extend(next.artifacts);
        page.cursor = next.cursor;
        if page.cursor.is_none() || found.len() >= limit {
            break;
        }
    }
    if format == Format::Json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        output::note(format!("{} has no such {}", of.deployment, of.kind));
        return Ok(Exit::Done);
    }
    let mut table = output::table(&["ID", "STATUS", "SINCE", "CYCLES", "WORK ORDER"]);
    for it in &found {
        let order = it.reserved_by.as_deref().or(it.passed.as_deref());
        table.add_row([
            Cell::new(&it.id),
            Cell::new(&it.status),
            Cell::new(it.entered_at),
            Cell::new(it.cycles),
            Cell::new(order.unwrap_or_default()),
        ]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

fn print(format: Format, it: &ArtifactView) -> CommandResult {
    if format == Format::Json {
        output::json(it)?;
        return Ok(Exit::Done);
    }
    output::line(format_args!(
        "{}/{}  {}  {FAINT}revision {}, since {}{FAINT:#}",
        it.artifact_type, it.id, it.status, it.revision, it.entered_at
    ))?;
    if let Some(order) = &it.reserved_by {
        output::line(format_args!("being worked on by {order}"))?;
    }
    if let Some(order) = &it.passed {
        output::line(format_args!("passed its gate with {order}, and waits to be confirmed"))?;
    }
    output::line(format_args!("fields   {}", it.fields.text()))?;
    Ok(Exit::Done)
}

/// Fields from the command line, a file or stdin.
fn read(given: Option<&str>) -> Result<Json, CliError> {
    let unreadable = |from: &str, error: io::Error| {
        CliError::usage("input_unreadable", format!("cannot read {from}: {error}"))
            .hint("give a JSON object, `@FILE`, or `-` for stdin")
    };
    let text = match given {
        None => return Ok(Json::null()),
        Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| unreadable("stdin", error))?;
            text
        }
        Some(text) => match text.strip_prefix('@') {
            Some(file) => fs::read_to_string(file).map_err(|error| unreadable(file, error))?,
            None => text.to_owned(),
        },
    };
    Json::from_text(text).map_err(|error| {
        CliError::usage("invalid_input", format!("the fields are no JSON: {error}"))
            .hint("give an object such as '{\"title\": \"fix it\"}'")
    })
}
