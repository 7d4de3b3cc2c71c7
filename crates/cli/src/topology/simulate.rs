//! `tenure topology simulate`: what would happen, told in virtual time.

use std::path::PathBuf;

use serde::Serialize;
use topology::claim::Claim;
use topology::deployment::{Artifact, Event, PauseState, RunRecord, WorkOrder};
use topology::simulate::{self, Entry, InboxItem, Report, Script, Unmet};

use super::{print_problems, read, read_text};
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BOLD, FAINT, Format};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A topology: a YAML or JSON file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// What people do and what executors return: a YAML or JSON file
    #[arg(long, value_name = "FILE")]
    script: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'r> {
    ended_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut_after: Option<u64>,
    artifacts: Vec<&'r Artifact>,
    events: Vec<&'r Event>,
    work_orders: Vec<&'r WorkOrder>,
    run_records: Vec<&'r RunRecord>,
    pause_states: Vec<&'r PauseState>,
    claims: &'r [Claim],
    inbox: &'r [InboxItem],
    log: &'r [Entry],
    refused: &'r [String],
    unmet: &'r [Unmet],
}

pub(super) fn run(format: Format, arguments: &Arguments) -> CommandResult {
    let topology = read(format, &arguments.file)?;
    let text = read_text(&arguments.script)?;
    let script = match Script::read(&text, &topology) {
        Ok(script) => script,
        Err(problems) => {
            let message = print_problems(format, &arguments.script, "script", &problems)?;
            return Err(CliError::new(Exit::Failed, "script_invalid", message)
                .hint("see `docs/guide/topologies.md` for what a script may say"));
        }
    };
    let report = simulate::run(&topology, &script);
    match format {
        Format::Json => output::json(&shown(&report))?,
        Format::People => print(&report)?,
    }
    if let Some(turns) = report.cut_after {
        return Err(cut(turns));
    }
    expected(&report.unmet)
}

fn cut(turns: u64) -> CliError {
    let message = format!("the simulation was stopped after {turns} turns, and more was to happen");
    CliError::new(Exit::Failed, "simulation_cut", message).hint(
        "read the last entries: what repeats has no end; a script that needs more says `turns`, or ends earlier with `until`",
    )
}

fn shown(report: &Report) -> Shown<'_> {
    let deployment = &report.deployment;
    Shown {
        ended_at: report.ended_at,
        cut_after: report.cut_after,
        artifacts: deployment.artifacts.values().collect(),
        events: deployment.events.values().collect(),
        work_orders: deployment.work_orders.values().collect(),
        run_records: deployment.run_records.values().collect(),
        pause_states: deployment.pauses.values().collect(),
        claims: &report.claims,
        inbox: &report.inbox,
        log: &report.log,
        refused: &report.refused,
        unmet: &report.unmet,
    }
}

fn print(report: &Report) -> Result<(), CliError> {
    for entry in &report.log {
        output::line(format_args!("{entry}"))?;
    }
    let (passed, failed) = report.gates();
    output::line(format_args!(
        "{BOLD}Ended:{BOLD:#} {}, {}, {passed} passed and {failed} failed their gate.",
        output::count(report.deployment.events.len() as u64, "event"),
        output::count(report.deployment.work_orders.len() as u64, "work order"),
    ))?;
    for artifact in report.deployment.artifacts.values() {
        output::line(format_args!("  {}  {}", artifact.name, artifact.status))?;
    }
    for refused in &report.refused {
        output::line(format_args!("{FAINT}Refused: {refused}{FAINT:#}"))?;
    }
    if !report.inbox.is_empty() {
        output::line(format_args!("{BOLD}Waits for a person:{BOLD:#}"))?;
    }
    for item in &report.inbox {
        output::line(format_args!(
            "  {}: {}  {FAINT}{}{FAINT:#}",
            item.about,
            item.actions.join("; "),
            item.why
        ))?;
    }
    Ok(())
}

fn expected(unmet: &[Unmet]) -> CommandResult {
    let Some(first) = unmet.first() else {
        return Ok(Exit::Done);
    };
    let found = first
        .found
        .as_ref()
        .map_or_else(|| "does not exist".to_owned(), |it| format!("ended in {it}"));
    let more =
        if unmet.len() == 1 { String::new() } else { format!(", and {} more", unmet.len() - 1) };
    let message =
        format!("{} {found}, and the script expects {}{more}", first.artifact, first.expected);
    Err(CliError::new(Exit::Failed, "simulation_unmet", message)
        .hint("read what happened above, then correct the topology or `expect` in the script"))
}
