//! `tenure topology`: checks, compares and simulates topology files without a server, and puts them in force on one.
//!
//! The check and the roles are those of `crates/topology`; this module reads files and shows what came of it.

mod deploy;
mod role;
mod simulate;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tenure::Client;
use topology::diff::{self, Difference};
use topology::reading::FILE_BYTES_MAX;
use topology::{Problem, Topology};

use self::deploy::Act;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BAD, BOLD, FAINT, Format};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Check a topology, and show what it declares
    Validate(OneFile),
    /// Show what changes between two versions of a topology
    Diff(TwoFiles),
    /// Run a topology in virtual time, with scripted people and executors
    Simulate(simulate::Arguments),
    /// Print the JSON Schema of topology files
    Schema,
    /// Show what a file would change on the server, and what stands in the way
    Plan(deploy::Applied),
    /// Put a topology in force; needs a key with the role admin
    Apply(deploy::Applied),
    /// List the topologies in force
    List,
    /// Show a deployment: who may move what, and its work orders
    Show(deploy::Named),
    /// Let the roles of a deployment do nothing; what executors have goes on
    Pause(deploy::Named),
    /// Let the roles of a deployment work again
    Resume(deploy::Named),
    /// Delete a deployment that has no active work order
    Delete(deploy::Named),
    /// Take the turns of a role that is declared with `outside: true`, until stopped
    Role(role::Arguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneFile {
    /// A YAML or JSON file; `-` is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TwoFiles {
    /// The version before
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The version after
    #[arg(value_name = "AFTER")]
    after: PathBuf,
}

pub(crate) async fn run(
    connect: impl FnOnce() -> Result<Client, CliError>,
    format: Format,
    verb: &Verb,
) -> CommandResult {
    match verb {
        Verb::Validate(arguments) => validate(format, &arguments.file),
        Verb::Diff(arguments) => show_diff(format, &arguments.before, &arguments.after),
        Verb::Simulate(arguments) => simulate::run(format, arguments),
        Verb::Schema => {
            output::line(format_args!("{}", topology::SCHEMA.trim_end()))?;
            Ok(Exit::Done)
        }
        Verb::Plan(applied) => deploy::plan(&connect()?, format, applied).await,
        Verb::Apply(applied) => deploy::apply(&connect()?, format, applied).await,
        Verb::List => deploy::list(&connect()?, format).await,
        Verb::Show(named) => deploy::show(&connect()?, format, named).await,
        Verb::Pause(named) => deploy::act(&connect()?, format, named, Act::Pause).await,
        Verb::Resume(named) => deploy::act(&connect()?, format, named, Act::Resume).await,
        Verb::Delete(named) => deploy::act(&connect()?, format, named, Act::Delete).await,
        Verb::Role(arguments) => role::run(&connect()?, format, arguments).await,
    }
}

/// What `--json` prints of a topology that is right.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'t> {
    topology: &'t str,
    version: &'t str,
    artifacts: Vec<&'t String>,
    events: Vec<&'t String>,
    roles: Vec<&'t String>,
    work_orders: Vec<&'t String>,
}

fn validate(format: Format, file: &Path) -> CommandResult {
    let topology = read(format, file)?;
    let declared = topology.declaration();
    let summary = Summary {
        topology: topology.name(),
        version: topology.digest(),
        artifacts: declared.artifacts.keys().collect(),
        events: declared.events.keys().collect(),
        roles: declared.roles.keys().collect(),
        work_orders: declared.work_orders.keys().collect(),
    };
    match format {
        Format::Json => output::json(&summary)?,
        Format::People => print(&topology, &summary)?,
    }
    Ok(Exit::Done)
}

fn print(topology: &Topology, summary: &Summary<'_>) -> Result<(), CliError> {
    output::line(format_args!(
        "{BOLD}The topology {} is valid.{BOLD:#} {FAINT}{}{FAINT:#}",
        summary.topology, summary.version
    ))?;
    let declared = topology.declaration();
    for (name, artifact) in &declared.artifacts {
        output::line(format_args!(
            "  artifact {name}  {FAINT}{}{FAINT:#}",
            artifact.statuses.join(", ")
        ))?;
    }
    for (name, role) in &declared.roles {
        let logic = serde_json::to_value(role.uses).unwrap_or_default();
        output::line(format_args!(
            "  role {name}  {FAINT}{}{FAINT:#}",
            logic.as_str().unwrap_or_default()
        ))?;
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownDiff<'t> {
    before: &'t str,
    after: &'t str,
    differences: Vec<ShownDifference<'t>>,
}

#[derive(Serialize)]
struct ShownDifference<'t> {
    path: &'t str,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'t serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'t serde_json::Value>,
}

fn show_diff(format: Format, before: &Path, after: &Path) -> CommandResult {
    let (before, after) = (read(format, before)?, read(format, after)?);
    let differences = diff::between(&before, &after);
    match format {
        Format::Json => output::json(&ShownDiff {
            before: before.digest(),
            after: after.digest(),
            differences: differences.iter().map(shown).collect(),
        })?,
        Format::People if differences.is_empty() => {
            output::line(format_args!(
                "Both files are the same version. {FAINT}{}{FAINT:#}",
                before.digest()
            ))?;
        }
        Format::People => {
            for difference in &differences {
                output::line(format_args!("{difference}"))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn shown(difference: &Difference) -> ShownDifference<'_> {
    let (path, before, after) = match difference {
        Difference::Added { path, value } => (path, None, Some(value)),
        Difference::Removed { path, value } => (path, Some(value), None),
        Difference::Changed { path, before, after } => (path, Some(before), Some(after)),
        Difference::Reordered { path } => (path, None, None),
    };
    ShownDifference { path, before, after }
}

/// A checked topology, or its problems on stdout and an error that counts them.
fn read(format: Format, file: &Path) -> Result<Topology, CliError> {
    let text = read_text(file)?;
    match topology::read(&text) {
        Ok(topology) => Ok(topology),
        Err(problems) => {
            let message = print_problems(format, file, "topology", &problems)?;
            Err(CliError::new(Exit::Failed, "topology_invalid", message).hint(
                "correct what is listed and check again; `tenure topology schema` prints what may be written",
            ))
        }
    }
}

fn read_text(file: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    // One byte more than is accepted, so that the reader refuses it and not the file system.
    let limit = FILE_BYTES_MAX as u64 + 1;
    let read = if file == Path::new("-") {
        io::stdin().take(limit).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|opened| opened.take(limit).read_to_string(&mut text))
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => {
            let message = format!("cannot read {}: {error}", file.display());
            Err(CliError::usage("input_unreadable", message).hint("give a YAML or JSON file"))
        }
    }
}

/// What `--json` prints of a file that is wrong.
#[derive(Serialize)]
struct Problems<'p> {
    problems: Vec<ShownProblem<'p>>,
}

#[derive(Serialize)]
struct ShownProblem<'p> {
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
    path: &'p str,
    message: &'p str,
}

/// Prints the problems and says how many there are.
fn print_problems(
    format: Format,
    file: &Path,
    what: &str,
    problems: &[Problem],
) -> Result<String, CliError> {
    match format {
        Format::Json => {
            output::json(&Problems { problems: problems.iter().map(shown_problem).collect() })?
        }
        Format::People => {
            for problem in problems {
                output::line(format_args!("{BAD}{}{BAD:#}:{problem}", file.display()))?;
            }
        }
    }
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    Ok(format!("{} is no valid {what}: {count}", file.display()))
}

fn shown_problem(problem: &Problem) -> ShownProblem<'_> {
    ShownProblem {
        line: problem.place.map(|place| place.line),
        column: problem.place.map(|place| place.column),
        path: &problem.path,
        message: &problem.message,
    }
}
