//! `tenure plan check FILE`: whether a plan would be accepted, without a server.
//!
//! The file is YAML, of which JSON is a part. The check is that of the wire; this module says where in the file a step is
//! and shows what the plan comes to. It submits nothing.

pub(crate) mod reading;

use std::path::{Path, PathBuf};

use serde::Serialize;
use wire::plan::{Ceiling, Compiled, Plan, PlanForm, PlanProblem};

use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BAD, BOLD, FAINT, Format};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Check a plan, and show what it comes to
    Check(Arguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A YAML or JSON file; `-` is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// What `--json` prints of a plan that is right.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    form: &'static str,
    steps: usize,
    edges: usize,
    references: usize,
    longest_path: usize,
}

/// What `--json` prints of a plan that is wrong.
#[derive(Serialize)]
struct Problems<'a> {
    problems: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<&'a str>,
    field: &'a str,
    message: &'a str,
}

/// A file with a plan, to be submitted: the server checks it as `plan check` does.
pub(crate) fn of_file(file: &Path) -> Result<reading::PlanFile, CliError> {
    reading::read(file)
}

pub(crate) fn run(format: Format, verb: &Verb) -> CommandResult {
    let Verb::Check(arguments) = verb;
    let read = reading::read(&arguments.file)?;
    match read.plan.compile() {
        Ok(compiled) => accept(format, &read, &compiled),
        Err(problems) => refuse(format, &arguments.file.display().to_string(), &read, &problems),
    }
}

fn accept(format: Format, read: &reading::PlanFile, compiled: &Compiled) -> CommandResult {
    let plan = &read.plan;
    let summary = Summary {
        form: match compiled.form {
            PlanForm::Stages => "stages",
            PlanForm::Steps => "steps",
        },
        steps: plan.steps.len(),
        edges: compiled.edges(),
        references: compiled.references.iter().map(Vec::len).sum(),
        longest_path: compiled.longest_path,
    };
    match format {
        Format::Json => output::json(&summary)?,
        Format::People => {
            print(plan, compiled, &summary)?;
            for said in read.about() {
                output::line(format_args!("{FAINT}{said}{FAINT:#}"))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn print(plan: &Plan, compiled: &Compiled, summary: &Summary) -> Result<(), CliError> {
    let Summary { steps, edges, longest_path, .. } = summary;
    match compiled.form {
        PlanForm::Stages => output::line(format_args!(
            "{BOLD}The plan is right.{BOLD:#} One task with {}, one after the other:",
            count(*steps, "stage")
        ))?,
        PlanForm::Steps => output::line(format_args!(
            "{BOLD}The plan is right.{BOLD:#} {} with {}, {longest_path} on the longest path:",
            count(*steps, "task"),
            count(*edges, "edge")
        ))?,
    }
    for place in compiled.order.iter().take(STEPS_SHOWN) {
        let step = &plan.steps[*place];
        let names: Vec<&str> =
            compiled.upstreams[*place].iter().map(|it| plan.steps[*it].key.as_str()).collect();
        let after =
            if names.is_empty() { String::new() } else { format!(" after {}", names.join(", ")) };
        let what = match &step.approval {
            None => format!("{} in {}", step.kind, step.queue),
            Some(terms) => format!("asks people, {} must approve", terms.quorum.unwrap_or(1)),
        };
        let most = step.ceiling.as_ref().map_or_else(String::new, at_most);
        output::line(format_args!("  {}  {FAINT}{what}{after}{most}{FAINT:#}", step.key))?;
    }
    if compiled.order.len() > STEPS_SHOWN {
        output::line(format_args!("  … and {} more", compiled.order.len() - STEPS_SHOWN))?;
    }
    Ok(())
}

/// What a step may use, as people read it.
fn at_most(ceiling: &Ceiling) -> String {
    let Ceiling { cost_micros, tokens, tool_calls, steps } = ceiling;
    let units = [
        ("costMicros", cost_micros),
        ("tokens", tokens),
        ("toolCalls", tool_calls),
        ("steps", steps),
    ];
    let limits =
        units.into_iter().filter_map(|(unit, limit)| Some(format!("{} {unit}", (*limit)?)));
    let limits: Vec<String> = limits.collect();
    if limits.is_empty() { String::new() } else { format!(", at most {}", limits.join(", ")) }
}

/// About as many steps as fit on a screen.
const STEPS_SHOWN: usize = 40;

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn refuse(
    format: Format,
    file: &str,
    read: &reading::PlanFile,
    problems: &[PlanProblem],
) -> CommandResult {
    let line = |problem: &PlanProblem| problem.step.and_then(|place| read.line_of(place));
    match format {
        Format::Json => {
            let shown = problems.iter().map(|problem| Shown {
                line: line(problem),
                step: problem.key.as_deref(),
                field: &problem.field,
                message: &problem.message,
            });
            output::json(&Problems { problems: shown.collect() })?;
        }
        Format::People => {
            for problem in problems {
                let place =
                    line(problem).map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
                output::line(format_args!("{BAD}{place}{BAD:#}: {problem}"))?;
            }
        }
    }
    let message = format!("{file} is no valid plan: {}", count(problems.len(), "problem"));
    Err(CliError::new(Exit::Failed, "plan_invalid", message)
        .hint("correct what is listed, and check again"))
}
