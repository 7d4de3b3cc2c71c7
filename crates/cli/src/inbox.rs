//! `tenure inbox` and `tenure claims`: what waits for a person, and who works on what.

use comfy_table::Cell;
use serde::Serialize;
use tenure::Client;
use wire::approvals::{ApprovalView, ListApprovals};
use wire::effects::EffectView;
use wire::topologies::{ClaimView, ListDeployments, ListPauseStates, PauseStateView};
use wire::{ApprovalState, Code, EffectState, PauseStateState, limits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, FAINT, Format};
use crate::{approvals, effects, server, visible};

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
    /// Say that it is done: it leaves the inbox
    Close {
        #[arg(value_name = "DEPLOYMENT")]
        deployment: String,
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// What `--json` prints.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inbox {
    pause_states: Vec<Pause>,
    approvals: Vec<ApprovalView>,
    /// Effects that were given up or may have arrived, and block what is behind them.
    effects: Vec<EffectView>,
    /// What the key may not list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_allowed: Vec<&'static str>,
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
    let inbox = Inbox::read(client, deployment).await?;
    match format {
        Format::Json => output::json(&inbox)?,
        Format::People => inbox.print()?,
    }
    Ok(Exit::Done)
}

impl Inbox {
    /// Everything, or only what waits in one deployment. What the key may not list is named, and the rest is shown.
    pub(crate) async fn read(
        client: &Client,
        deployment: Option<String>,
    ) -> Result<Inbox, CliError> {
        let mut inbox = Inbox::default();
        let is_all = deployment.is_none();
        let pauses = pauses_of(client, deployment).await;
        if !is_all {
            return Ok(Inbox { pause_states: pauses?, ..inbox });
        }
        inbox.pause_states = inbox.allowed("deployments", pauses)?;
        inbox.approvals = inbox.allowed("approvals", pending_approvals(client).await)?;
        for state in [EffectState::Dead, EffectState::Unknown] {
            let found = effects::in_state(client, state).await;
            // One that was passed by, by a person or by its endpoint's setting, waits for no person.
            let found = inbox.allowed("effects", found)?.into_iter();
            inbox.effects.extend(found.filter(|effect| effect.blocks != Some(false)));
        }
        Ok(inbox)
    }

    /// What was found; nothing, with a note, if the key has no permission to look.
    fn allowed<T: Default>(
        &mut self,
        what: &'static str,
        found: Result<T, CliError>,
    ) -> Result<T, CliError> {
        match found {
            Err(error) if error.code == Code::Forbidden.as_str() => {
                if !self.not_allowed.contains(&what) {
                    self.not_allowed.push(what);
                }
                Ok(T::default())
            }
            found => found,
        }
    }

    fn is_empty(&self) -> bool {
        self.pause_states.is_empty() && self.approvals.is_empty() && self.effects.is_empty()
    }

    fn print(&self) -> Result<(), CliError> {
        self.pause_states.iter().try_for_each(print_pause)?;
        self.approvals.iter().try_for_each(print_approval)?;
        self.effects.iter().try_for_each(print_effect)?;
        if self.is_empty() {
            output::note("nothing waits for a person");
        }
        if !self.not_allowed.is_empty() {
            let what = self.not_allowed.join(" and ");
            output::note(format_args!("this key may not list {what}; an administrator's key may"));
        }
        Ok(())
    }
}

fn print_pause(Pause { deployment, pause }: &Pause) -> Result<(), CliError> {
    let subject = pause.subject.as_deref().unwrap_or("the deployment");
    output::line(format_args!("{deployment}  {subject}  {}", pause.reason))?;
    for action in &pause.actions {
        output::line(format_args!("  → {action}"))?;
    }
    output::line(format_args!("  → tenure inbox close {deployment} {}", pause.id))
}

fn print_approval(approval: &ApprovalView) -> Result<(), CliError> {
    let subject = visible::sentence(approval.subject.as_deref().unwrap_or(&approval.key));
    let (run, id) = (&approval.run_id, &approval.approval_id);
    let until = approval.expires_at.map(|at| format!(", expires at {at}")).unwrap_or_default();
    output::line(format_args!("{run}  {subject}  APPROVAL{until}"))?;
    if let Some(content) = &approval.content {
        let shown = visible::content(content);
        shown.lines().try_for_each(|line| output::line(format_args!("  {line}")))?;
    }
    output::line(format_args!("  → tenure approvals show {id}"))?;
    if approval.has_content && approval.content.is_none() {
        // What is too long for a list is read before it is approved.
        return Ok(());
    }
    output::line(format_args!("  → {}", approvals::command("approve", approval)))
}

fn print_effect(effect: &EffectView) -> Result<(), CliError> {
    let EffectView { effect_id, run_id, endpoint, aggregate, r#type: kind, tries, .. } = effect;
    let last = effect.last_try.as_ref().and_then(|it| match (it.status, &it.note) {
        (Some(status), _) => Some(format!(", the last was answered {status}")),
        (None, note) => note.as_ref().map(|note| format!(", the last: {note}")),
    });
    let tries = if *tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") };
    let last = last.unwrap_or_default();
    let word = if effect.state == EffectState::Unknown { "UNKNOWN" } else { "DEAD" };
    output::line(format_args!("{run_id}  {kind} to {endpoint}, {tries}{last}  {word}"))?;
    output::line(format_args!("  {FAINT}{aggregate} waits behind it{FAINT:#}"))?;
    output::line(format_args!("  → tenure effects show {effect_id}"))?;
    match effect.state {
        EffectState::Unknown => {
            output::line(format_args!("  → tenure effects reconcile {effect_id} --arrived"))
        }
        _ => output::line(format_args!("  → tenure effects redrive {effect_id}")),
    }
}

async fn pauses_of(client: &Client, deployment: Option<String>) -> Result<Vec<Pause>, CliError> {
    let mut found = Vec::new();
    for name in names(client, deployment).await? {
        found.extend(pauses(client, &name).await?);
    }
    Ok(found)
}

/// The deployment that is wanted, or all of them.
async fn names(client: &Client, wanted: Option<String>) -> Result<Vec<String>, CliError> {
    if let Some(name) = wanted {
        return Ok(vec![name]);
    }
    let mut page = ListDeployments { cursor: None, limit: Some(PAGE) };
    let mut names = Vec::new();
    loop {
        let next =
            client.deployments().list().with(page.clone()).await.map_err(server::cli_error)?;
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
        let next = client.deployments().pause_states(name).with(page.clone()).await;
        let next = next.map_err(server::cli_error)?;
        let named = |pause| Pause { deployment: name.to_owned(), pause };
        found.extend(next.pause_states.into_iter().map(named));
        page.cursor = next.cursor;
        if page.cursor.is_none() {
            return Ok(found);
        }
    }
}

async fn pending_approvals(client: &Client) -> Result<Vec<ApprovalView>, CliError> {
    let state = Some(ApprovalState::Pending);
    let mut page = ListApprovals { state, cursor: None, limit: Some(PAGE) };
    let mut found = Vec::new();
    loop {
        let next = client.approvals().list().with(page.clone()).await.map_err(server::cli_error)?;
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
        output::note("no worker holds an event or a work order");
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
