//! `tenure inbox` and `tenure claims`: what waits for a person, and who works on what.

use comfy_table::Cell;
use serde::Serialize;
use tenure::Client;
use wire::approvals::{ApprovalView, ListApprovals};
use wire::topologies::{ClaimView, ListDeployments, ListPauseStates, PauseStateView};
use wire::{ApprovalState, PauseStateState, limits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, FAINT, Format};
use crate::server;

/// The maximum page size of the server.
const PAGE: u32 = *limits::PAGE_ITEMS.end() as u32;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Wanted {
    /// Only this deployment
    #[arg(long, value_name = "NAME")]
    deployment: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Show what waits for a person; so does the command alone
    List(Wanted),
    /// Say that somebody has seen to it
    Close {
        #[arg(value_name = "DEPLOYMENT")]
        deployment: String,
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inbox {
    pause_states: Vec<Pause>,
    approvals: Vec<ApprovalView>,
}

#[derive(Serialize)]
struct Pause {
    deployment: String,
    #[serde(flatten)]
    pause: PauseStateView,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    match arguments.verb.unwrap_or(Verb::List(arguments.wanted)) {
        Verb::List(wanted) => list(&client, format, wanted.deployment).await,
        Verb::Close { deployment, id } => {
            let closed = client.deployments().close_pause_state(&deployment, &id).await;
            let closed = closed.map_err(server::cli_error)?;
            match format {
                Format::Json => output::json(&closed)?,
                Format::People => output::note(format!("{} is closed", closed.id)),
            }
            Ok(Exit::Done)
        }
    }
}

async fn list(client: &Client, format: Format, deployment: Option<String>) -> CommandResult {
    let mut inbox = Inbox { pause_states: Vec::new(), approvals: Vec::new() };
    let is_all = deployment.is_none();
    for name in names(client, deployment).await? {
        inbox.pause_states.extend(pauses(client, &name).await?);
    }
    if is_all {
        inbox.approvals = approvals(client).await?;
    }
    if format == Format::Json {
        output::json(&inbox)?;
        return Ok(Exit::Done);
    }
    if inbox.pause_states.is_empty() && inbox.approvals.is_empty() {
        output::note("nothing waits for a person");
        return Ok(Exit::Done);
    }
    for Pause { deployment, pause } in &inbox.pause_states {
        let subject = pause.subject.as_deref().unwrap_or("the deployment");
        output::line(format_args!("{deployment}  {subject}  {}", pause.reason))?;
        for action in &pause.actions {
            output::line(format_args!("  → {action}"))?;
        }
        output::line(format_args!("  {FAINT}{}{FAINT:#}", pause.id))?;
    }
    for approval in &inbox.approvals {
        let subject = approval.subject.as_deref().unwrap_or(&approval.key);
        output::line(format_args!("{}  {subject}  APPROVAL", approval.run_id))?;
        output::line(format_args!("  → tenure approvals approve {}", approval.approval_id))?;
    }
    Ok(Exit::Done)
}

/// The deployment that is wanted, or all of them.
async fn names(client: &Client, wanted: Option<String>) -> Result<Vec<String>, CliError> {
    if let Some(name) = wanted {
        return Ok(vec![name]);
    }
    let mut page = ListDeployments { cursor: None, limit: Some(PAGE) };
    let mut names = Vec::new();
    loop {
        let next = client.deployments().list(&page).await.map_err(server::cli_error)?;
        names.extend(next.deployments.into_iter().map(|it| it.name));
        page.cursor = next.cursor;
        if page.cursor.is_none() {
            return Ok(names);
        }
    }
}

async fn pauses(client: &Client, name: &str) -> Result<Vec<Pause>, CliError> {
    let state = Some(PauseStateState::Open);
    let mut page = ListPauseStates { state, cursor: None, limit: Some(PAGE) };
    let mut found = Vec::new();
    loop {
        let next = client.deployments().pause_states(name, &page).await;
        let next = next.map_err(server::cli_error)?;
        let named = |pause| Pause { deployment: name.to_owned(), pause };
        found.extend(next.pause_states.into_iter().map(named));
        page.cursor = next.cursor;
        if page.cursor.is_none() {
            return Ok(found);
        }
    }
}

async fn approvals(client: &Client) -> Result<Vec<ApprovalView>, CliError> {
    let state = Some(ApprovalState::Pending);
    let mut page = ListApprovals { state, cursor: None, limit: Some(PAGE) };
    let mut found = Vec::new();
    loop {
        let next = client.approvals().list(&page).await.map_err(server::cli_error)?;
        found.extend(next.approvals);
        page.cursor = next.cursor;
        if page.cursor.is_none() {
            return Ok(found);
        }
    }
}

/// What `--json` prints of a claim.
#[derive(Serialize)]
struct Claimed {
    deployment: String,
    #[serde(flatten)]
    claim: ClaimView,
}

pub(crate) async fn claims(client: Client, format: Format, wanted: Wanted) -> CommandResult {
    let mut claims = Vec::new();
    for name in names(&client, wanted.deployment).await? {
        let found = client.deployments().claims(&name).await.map_err(server::cli_error)?;
        let named = |claim| Claimed { deployment: name.clone(), claim };
        claims.extend(found.claims.into_iter().map(named));
    }
    if format == Format::Json {
        output::json(&claims)?;
        return Ok(Exit::Done);
    }
    if claims.is_empty() {
        output::note("nobody works on an event or a work order");
        return Ok(Exit::Done);
    }
    let heads = ["TYPE", "RESOURCE", "OWNER", "EXPIRES", "HEARTBEAT", "VERSION"];
    let mut table = output::table(&heads);
    for Claimed { claim, .. } in &claims {
        table.add_row([
            Cell::new(&claim.resource_type),
            Cell::new(&claim.resource_id),
            Cell::new(&claim.owner_id),
            Cell::new(claim.lease_expires_at),
            Cell::new(claim.heartbeat_at),
            Cell::new(claim.claim_version),
        ]);
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}
