//! Cancelling many runs by what they have in common: look, say what would happen, ask, do it.
//!
//! Built on the two calls that everybody has, list and cancel, so that nothing can be cancelled here
//! that could not be cancelled one by one. What matched is fixed before anything is done: a run that
//! is submitted meanwhile is not touched.

use std::io::{IsTerminal, Write};

use serde::Serialize;
use tenure::{Client, Error, Force};
use tokio::task::JoinSet;
use wire::answers::Run;
use wire::requests::ListRuns;
use wire::{Code, State};

use crate::exit::{Complaint, Ended, Exit};
use crate::output::{self, Format};
use crate::server;

/// What has not ended can be cancelled.
const UNENDED: [State; 3] = [State::Queued, State::Retry, State::Running];

/// Cancels that are under way at once: they share commits, and leave the server to others too.
const AT_ONCE: usize = 16;

/// As many as the server lists on one page.
const PAGE: u32 = 1_000;

/// Runs that are named in a preview; the rest is a number.
const SHOWN: usize = 10;

pub(crate) const LIMIT_DEFAULT: u32 = 1_000;
pub(crate) const LIMIT_MAX: i64 = 100_000;

/// What the runs have in common.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(id = "common", multiple = true)]
pub(crate) struct Common {
    /// Every run of this queue
    #[arg(long, short)]
    queue: Option<String>,
    /// Every run of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Every run in this state: queued, retry or running [default: all three]
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Every run with this label
    #[arg(long, value_name = "NAME=VALUE")]
    label: Option<String>,
}

/// How to go about it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Manner {
    /// Say what would be cancelled, and do nothing
    #[arg(long, requires = "common")]
    dry_run: bool,
    /// Do it without asking
    #[arg(long, short, requires = "common")]
    yes: bool,
    /// At most this many, the newest
    #[arg(long, short = 'n', requires = "common", default_value_t = LIMIT_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    limit: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    dry_run: bool,
    /// More match than were looked at.
    more: bool,
    matched: Vec<String>,
    /// Nobody held them: they have ended.
    cancelled: u64,
    /// A worker has them and was asked to stop.
    asked: u64,
    /// Somebody was faster.
    ended_meanwhile: u64,
}

pub(crate) async fn cancel(
    client: Client,
    format: Format,
    common: Common,
    manner: Manner,
    reason: Option<String>,
    force: Force,
) -> Ended {
    refuse_ended(common.state)?;
    let (runs, more) = matching(&client, &common, manner.limit).await?;
    let matched: Vec<String> = runs.iter().map(|run| run.run_id.clone()).collect();
    let mut outcome = Outcome { dry_run: manner.dry_run, more, matched, ..Outcome::default() };
    if format == Format::People {
        preview(&runs, more)?;
    }
    if !manner.dry_run && !runs.is_empty() {
        if !manner.yes {
            ask(runs.len())?;
        }
        cancel_all(&client, &mut outcome, reason, force).await?;
    }
    match format {
        Format::Json => output::json(&outcome)?,
        Format::People => conclude(&outcome)?,
    }
    Ok(Exit::Done)
}

fn refuse_ended(state: Option<State>) -> Result<(), Complaint> {
    match state {
        Some(state) if !UNENDED.contains(&state) => {
            let sentence = format!("runs that are {state} have ended and cannot be cancelled");
            Err(Complaint::usage("state_ended", sentence)
                .hint("give --state queued, retry or running, or leave it out"))
        }
        _ => Ok(()),
    }
}

/// The newest runs of every state that is asked for, and whether there are more.
async fn matching(
    client: &Client,
    common: &Common,
    limit: u32,
) -> Result<(Vec<Run>, bool), Complaint> {
    let states = common.state.map_or(UNENDED.to_vec(), |state| vec![state]);
    let mut runs: Vec<Run> = Vec::new();
    for state in states {
        let mut query = ListRuns {
            state: Some(state),
            queue: common.queue.clone(),
            kind: common.kind.clone(),
            label: common.label.clone(),
            limit: Some(PAGE),
            ..ListRuns::default()
        };
        loop {
            let page = client.list(&query).await.map_err(server::complaint)?;
            runs.extend(page.runs);
            query.cursor = page.next_cursor;
            if query.cursor.is_none() || runs.len() > limit as usize {
                break;
            }
        }
    }
    // A run that went from one state to the next between two pages was listed twice.
    runs.sort_by(|one, other| other.run_id.cmp(&one.run_id));
    runs.dedup_by(|one, other| one.run_id == other.run_id);
    let more = runs.len() > limit as usize;
    runs.truncate(limit as usize);
    Ok((runs, more))
}

fn preview(runs: &[Run], more: bool) -> Result<(), Complaint> {
    if runs.is_empty() {
        output::note("no run matches; nothing to do");
        return Ok(());
    }
    for run in runs.iter().take(SHOWN) {
        let Run { run_id, kind, queue, state, .. } = run;
        output::line(format_args!("{run_id}  {kind} on {queue}  {state}"))?;
    }
    if runs.len() > SHOWN {
        output::line(format_args!("… and {} others", runs.len() - SHOWN))?;
    }
    if more {
        output::note(format_args!("more match; --limit takes more than {} at once", runs.len()));
    }
    Ok(())
}

fn ask(count: usize) -> Result<(), Complaint> {
    let unsure = || {
        let sentence = format!("{count} runs match and nobody said yes");
        Complaint::usage("not_confirmed", sentence).hint("look with --dry-run, then say --yes")
    };
    if !std::io::stdin().is_terminal() {
        return Err(unsure());
    }
    let mut stderr = anstream::stderr().lock();
    write!(stderr, "Cancel {}? [y/N] ", output::count(count as u64, "run"))?;
    stderr.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(unsure()),
    }
}

async fn cancel_all(
    client: &Client,
    outcome: &mut Outcome,
    reason: Option<String>,
    force: Force,
) -> Result<(), Complaint> {
    let mut under_way = JoinSet::new();
    for id in outcome.matched.clone() {
        if under_way.len() >= AT_ONCE
            && let Some(answer) = under_way.join_next().await
        {
            tally(outcome, answer.expect("cancels do not panic"))?;
        }
        let (client, reason) = (client.clone(), reason.clone());
        under_way.spawn(async move { client.cancel(&id, reason.as_deref(), force).await });
    }
    while let Some(answer) = under_way.join_next().await {
        tally(outcome, answer.expect("cancels do not panic"))?;
    }
    Ok(())
}

fn tally(
    outcome: &mut Outcome,
    answer: Result<wire::answers::CancelAccepted, Error>,
) -> Result<(), Complaint> {
    match answer {
        Ok(accepted) if accepted.state == State::Running => outcome.asked += 1,
        Ok(_) => outcome.cancelled += 1,
        Err(error) if error.code() == Some(Code::RunAlreadyTerminal) => {
            outcome.ended_meanwhile += 1;
        }
        Err(error) => {
            let done = outcome.cancelled + outcome.asked;
            let complaint = server::complaint(error);
            let sentence = format!("stopped after {done} runs: {}", complaint.sentence);
            let hint = "run it again: runs that are cancelled already do not match any more";
            return Err(Complaint { sentence, ..complaint }.hint(hint));
        }
    }
    Ok(())
}

fn conclude(outcome: &Outcome) -> Result<(), Complaint> {
    let Outcome { matched, cancelled, asked, ended_meanwhile, .. } = outcome;
    if matched.is_empty() {
        return Ok(());
    }
    if outcome.dry_run {
        let many = output::count(matched.len() as u64, "run");
        return output::line(format_args!("would cancel {many}; nothing was done"));
    }
    output::line(format_args!(
        "{cancelled} cancelled, {asked} asked to stop, {ended_meanwhile} ended meanwhile"
    ))
}
