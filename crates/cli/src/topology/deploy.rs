//! `tenure topology apply | plan | list | show | pause | resume | delete`: topologies in force on a server.
//!
//! A file is checked here first, so that what is wrong with it is told with line and column before anything is sent.

use std::path::PathBuf;

use comfy_table::Cell;
use tenure::Client;
use topology::Topology;
use wire::topologies::{DeploymentView, ListDeployments, TopologyPlan};
use wire::{Json, WorkOrderState, limits};

use super::read;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::server;

/// The maximum page size of the server.
const PAGE: u32 = *limits::PAGE_ITEMS.end() as u32;

#[derive(Debug, clap::Args)]
pub(crate) struct Applied {
    /// A YAML or JSON file; `-` is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The name of the deployment [default: the name of the topology]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// The name of the deployment
    #[arg(value_name = "NAME")]
    name: String,
}

impl Applied {
    /// The topology of the file, and the name of its deployment.
    fn read(&self, format: Format) -> Result<(Topology, String), CliError> {
        let topology = read(format, &self.file)?;
        let name = self.name.clone().unwrap_or_else(|| topology.name().to_owned());
        Ok((topology, name))
    }
}

fn json(topology: &Topology) -> Json {
    let text = serde_json::to_string(topology.declaration());
    let text = text.expect("a declaration has only members that JSON can hold");
    Json::from_text(text).expect("it was just written")
}

pub(super) async fn apply(client: &Client, format: Format, applied: &Applied) -> CommandResult {
    let (topology, name) = applied.read(format)?;
    let made = client.deployments().apply(&name, json(&topology)).await;
    let made = made.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&made)?,
        Format::People => output::line(format_args!(
            "{BOLD}{} is {}.{BOLD:#} {FAINT}{}{FAINT:#}",
            made.name, made.state, made.version
        ))?,
    }
    Ok(Exit::Done)
}

pub(super) async fn plan(client: &Client, format: Format, applied: &Applied) -> CommandResult {
    let (topology, name) = applied.read(format)?;
    let plan = client.deployments().plan(&name, json(&topology)).await;
    let plan = plan.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&plan)?,
        Format::People => describe(&name, &plan)?,
    }
    if plan.obstacles.is_empty() {
        return Ok(Exit::Done);
    }
    let message = format!("{name} cannot take this version: {}", plan.obstacles.join("; "));
    Err(CliError::new(Exit::Failed, "topology_blocked", message)
        .hint("move these artifacts first, or keep in the file what they need"))
}

fn describe(name: &str, plan: &TopologyPlan) -> Result<(), CliError> {
    match &plan.from {
        None => output::line(format_args!("{name} does not exist yet; all of the file is new."))?,
        Some(from) if *from == plan.to => {
            output::line(format_args!("{name} has this version already; nothing would change."))?;
        }
        Some(_) => {
            for difference in &plan.differences {
                output::line(format_args!("{difference}"))?;
            }
            let ends = if plan.in_flight == 1 { "ends" } else { "end" };
            let orders = output::count(u64::from(plan.in_flight), "active work order");
            output::line(format_args!(
                "{FAINT}{orders} {ends} under the version that made them.{FAINT:#}"
            ))?;
        }
    }
    Ok(())
}

pub(super) async fn list(client: &Client, format: Format) -> CommandResult {
    let mut page = ListDeployments { cursor: None, limit: Some(PAGE) };
    let mut found = Vec::new();
    loop {
        let next =
            client.deployments().list().with(page.clone()).await.map_err(server::cli_error)?;
        found.extend(next.deployments);
        page.cursor = next.cursor;
        if page.cursor.is_none() {
            break;
        }
    }
    if format == Format::Json {
        output::json(&found)?;
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        output::note("no topology is in force; `tenure topology apply FILE` puts one there");
        return Ok(Exit::Done);
    }
    let mut table = output::table(&["DEPLOYMENT", "STATE", "TOPOLOGY", "VERSION", "SINCE"]);
    for it in &found {
        table.add_row([
            Cell::new(&it.name),
            Cell::new(it.state),
            Cell::new(&it.topology),
            Cell::new(short(&it.version)),
            Cell::new(it.applied_at),
        ]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

/// Enough of a digest to tell versions apart.
fn short(version: &str) -> &str {
    let hex = version.strip_prefix("sha256:").unwrap_or(version);
    hex.get(..12).unwrap_or(hex)
}

pub(super) async fn show(client: &Client, format: Format, named: &Named) -> CommandResult {
    let shown = client.deployments().get(&named.name).await.map_err(server::cli_error)?;
    if format == Format::Json {
        output::json(&shown)?;
        return Ok(Exit::Done);
    }
    output::line(format_args!(
        "{BOLD}{}{BOLD:#}  {}  {FAINT}{}{FAINT:#}",
        shown.name, shown.state, shown.version
    ))?;
    print_declared(&shown)?;
    for state in WorkOrderState::ALL {
        let found = client.deployments().work_orders(&named.name).state(*state).limit(PAGE).await;
        let found = found.map_err(server::cli_error)?;
        let count = found.work_orders.len();
        let orders = match found.cursor {
            Some(_) => format!("{count} or more work orders"),
            None => output::count(count as u64, "work order"),
        };
        output::line(format_args!("  {orders} {state}"))?;
    }
    Ok(Exit::Done)
}

/// Artifact types with the changes of their statuses, and who may make them.
fn print_declared(shown: &DeploymentView) -> Result<(), CliError> {
    let text = shown.declaration.as_ref().map(|declared| declared.text().to_owned());
    let Some(Ok(topology)) = text.as_deref().map(topology::read) else { return Ok(()) };
    for (name, artifact) in &topology.declaration().artifacts {
        output::line(format_args!(
            "  artifact {name}  {FAINT}{}{FAINT:#}",
            artifact.statuses.join(", ")
        ))?;
        for it in &artifact.transitions {
            output::line(format_args!(
                "    {} → {}  {FAINT}by {}{FAINT:#}",
                it.from, it.to, it.by
            ))?;
        }
    }
    Ok(())
}

/// What is done to a deployment by its name alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Pause,
    Resume,
    Delete,
}

pub(super) async fn act(client: &Client, format: Format, named: &Named, act: Act) -> CommandResult {
    let deployments = client.deployments();
    let done = match act {
        Act::Pause => deployments.pause(&named.name).await,
        Act::Resume => deployments.resume(&named.name).await,
        Act::Delete => deployments.delete(&named.name).await,
    };
    let done = done.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&done)?,
        Format::People => output::note(format!("{} is {}", done.name, done.state)),
    }
    Ok(Exit::Done)
}
