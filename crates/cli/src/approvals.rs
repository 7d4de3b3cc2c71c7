//! `tenure approvals …`: what runs wait for people to decide, and the decision.

use comfy_table::Cell;
use tenure::Client;
use wire::approvals::{ApprovalView, DecideApproval, ListApprovals};
use wire::{ApprovalDecision, ApprovalState, limits};

use crate::exit::{CliError, CommandResult, Exit};
use crate::key_names::KeyNames;
use crate::output::{self, Format};
use crate::{server, visible};

/// More approvals than a person reads.
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
    /// List closed approvals instead of pending ones
    #[arg(long)]
    closed: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// List approvals; so does the command alone
    List(Listing),
    /// Show one approval: what it is about, its digest, who may decide, and the votes
    Show {
        #[arg(value_name = "APPROVAL")]
        id: String,
    },
    /// Approve; needs a key that the approval names, or with the role approver if it names none, and one that did not ask
    Approve(Word),
    /// Reject; needs the same
    Reject(Word),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Word {
    #[arg(value_name = "APPROVAL")]
    id: String,
    /// The digest of what you looked at, if the approval has one (`tenure approvals show`)
    #[arg(long, value_name = "SHA-256")]
    digest: Option<String>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    match arguments.verb.unwrap_or(Verb::List(arguments.listing)) {
        Verb::List(listing) => list(&client, format, listing.closed).await,
        Verb::Show { id } => show(&client, format, &id).await,
        Verb::Approve(word) => decide(&client, format, ApprovalDecision::Approved, word).await,
        Verb::Reject(word) => decide(&client, format, ApprovalDecision::Rejected, word).await,
    }
}

async fn list(client: &Client, format: Format, is_closed: bool) -> CommandResult {
    let state = if is_closed { ApprovalState::Closed } else { ApprovalState::Pending };
    let mut page = ListApprovals { state: Some(state), cursor: None, limit: Some(PAGE) };
    let mut approvals = Vec::new();
    loop {
        let next = client.approvals().list().with(page.clone()).await.map_err(server::cli_error)?;
        approvals.extend(next.approvals);
        page.cursor = next.cursor;
        if page.cursor.is_none() || approvals.len() >= LIMIT_MAX {
            break;
        }
    }
    if format == Format::Json {
        output::json(&approvals)?;
        return Ok(Exit::Done);
    }
    if approvals.is_empty() {
        output::note("no run waits for an approval");
        return Ok(Exit::Done);
    }
    let mut table = output::table(&["APPROVAL", "RUN", "SUBJECT", "VOTES", "EXPIRES", "OUTCOME"]);
    for approval in &approvals {
        table.add_row(row(approval));
    }
    output::print_table(&table)?;
    Ok(Exit::Done)
}

fn row(approval: &ApprovalView) -> [Cell; 6] {
    [
        Cell::new(&approval.approval_id),
        Cell::new(&approval.run_id),
        Cell::new(visible::sentence(approval.subject.as_deref().unwrap_or(&approval.key))),
        Cell::new(format!("{} of {}", approval.votes.len(), approval.quorum)),
        Cell::new(approval.expires_at.map(|at| at.to_string()).unwrap_or_default()),
        Cell::new(approval.outcome.map(|outcome| outcome.as_str()).unwrap_or_default()),
    ]
}

async fn show(client: &Client, format: Format, id: &str) -> CommandResult {
    let approval = client.approvals().get(id).await.map_err(server::cli_error)?;
    match format {
        Format::Json => output::json(&approval)?,
        Format::People => describe(&approval, &KeyNames::of(client).await)?,
    }
    Ok(Exit::Done)
}

fn describe(approval: &ApprovalView, names: &KeyNames) -> Result<(), CliError> {
    let outcome = approval.outcome.map_or(approval.state.as_str(), |outcome| outcome.as_str());
    output::line(format_args!("{}  {outcome}", approval.approval_id))?;
    output::line(format_args!("run      {}  {}", approval.run_id, approval.key))?;
    if let Some(subject) = &approval.subject {
        output::line(format_args!("subject  {}", visible::sentence(subject)))?;
    }
    if let Some(digest) = quoted(approval) {
        output::line(format_args!("digest   {digest}"))?;
    }
    if let Some(content) = &approval.content {
        output::line(format_args!("content\n{}", visible::content(content)))?;
    }
    let who: Vec<&str> = approval.roles.iter().chain(&approval.keys).map(String::as_str).collect();
    let who = if who.is_empty() { "approver".to_owned() } else { who.join(", ") };
    output::line(format_args!("decides  {who} ({} needed)", approval.quorum))?;
    if let Some(at) = approval.expires_at {
        output::line(format_args!("expires  {at}"))?;
    }
    for vote in &approval.votes {
        let comment = visible::sentence(vote.comment.as_deref().unwrap_or_default());
        let (decision, key, at) = (vote.decision.as_str(), names.spell(&vote.key_id), vote.at);
        output::line(format_args!("vote     {decision} by {key} at {at}  {comment}"))?;
    }
    if is_forged(approval) {
        output::note("the content is not what the run asked about: its digest is another one");
    }
    if approval.state == ApprovalState::Pending {
        output::line(format_args!("approve  {}", command("approve", approval)))?;
        output::line(format_args!("reject   {}", command("reject", approval)))?;
    }
    Ok(())
}

/// What a decision quotes: the digest of what is shown, computed here, or the one that the approval names without showing anything.
fn quoted(approval: &ApprovalView) -> Option<String> {
    approval.content.as_deref().map(visible::digest).or_else(|| approval.digest.clone())
}

/// Whether another content is shown than the run asked about.
fn is_forged(approval: &ApprovalView) -> bool {
    approval.content.is_some() && quoted(approval) != approval.digest
}

/// What to type to decide.
pub(crate) fn command(verb: &str, approval: &ApprovalView) -> String {
    let id = &approval.approval_id;
    let digest = quoted(approval).map(|digest| format!(" --digest {digest}"));
    format!("tenure approvals {verb} {id}{}", digest.unwrap_or_default())
}

async fn decide(
    client: &Client,
    format: Format,
    decision: ApprovalDecision,
    word: Word,
) -> CommandResult {
    let Word { id, digest, comment } = word;
    let word = DecideApproval { decision, digest, comment };
    let decided = client.approvals().decide(&id, decision).with(word).await;
    let decided = decided.map_err(server::cli_error)?;
    if format == Format::Json {
        output::json(&decided)?;
        return Ok(Exit::Done);
    }
    match decided.outcome {
        Some(outcome) => output::line(format_args!("{id} is {}", outcome.as_str()))?,
        None => output::line(format_args!("{id} has your vote and needs more of them"))?,
    }
    Ok(Exit::Done)
}
