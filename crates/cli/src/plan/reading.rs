//! Reads a plan from YAML or JSON, and remembers on which line each step begins.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Spanned;
use wire::plan::Plan;

use crate::exit::CliError;

/// The largest plan that is read: ten thousand steps with short inputs, and more than a server takes in one call.
const PLAN_BYTES_MAX: u64 = 16 * 1024 * 1024;

pub(super) struct PlanFile {
    pub(super) plan: Plan,
    lines: Vec<u64>,
}

/// The steps of a plan, for their places in the file.
#[derive(Deserialize)]
struct Places {
    steps: Vec<Spanned<IgnoredAny>>,
}

impl PlanFile {
    /// The line on which the step in this place begins, from 1.
    pub(super) fn line_of(&self, place: usize) -> Option<u64> {
        self.lines.get(place).copied().filter(|line| *line > 0)
    }
}

pub(super) fn read(file: &Path) -> Result<PlanFile, CliError> {
    let text = read_text(file).map_err(|error| unreadable(file, &error))?;
    let plan = parse(&text).map_err(|message| {
        let message = format!("{} is not a plan: {message}", file.display());
        CliError::usage("plan_unreadable", message)
            .hint("a plan is an object with `steps`; see `docs/guide/plans.md` for all members")
    })?;
    // A file that is a plan has these places. Without them only the lines are missing from messages.
    let places = serde_saphyr::from_str::<Places>(&text).map(|places| places.steps);
    let line = |step: &Spanned<IgnoredAny>| step.referenced.line();
    let lines = places.unwrap_or_default().iter().map(line).collect();
    Ok(PlanFile { plan, lines })
}

fn read_text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().take(PLAN_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        File::open(file)?.take(PLAN_BYTES_MAX + 1).read_to_string(&mut text)
    };
    if read? as u64 > PLAN_BYTES_MAX {
        let message = format!("it has more than {PLAN_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

fn unreadable(file: &Path, error: &io::Error) -> CliError {
    let message = format!("cannot read {}: {error}", file.display());
    CliError::usage("input_unreadable", message).hint("give a YAML or JSON file with a plan")
}

/// JSON is read as JSON, which keeps numbers as they are written. Everything else is YAML.
fn parse(text: &str) -> Result<Plan, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let value: serde_json::Value =
        serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    serde_json::from_str(&value.to_string()).map_err(|error| without_place(&error))
}

/// The place is one in the JSON that the YAML was turned into, and would mislead.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&place).unwrap_or(&message).to_owned()
}
