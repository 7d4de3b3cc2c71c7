//! `tenure verify`: is what is stored what was decided? Offline, on a store nobody serves from.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use store::sqlite::{Options, SqliteStore};
use store::verify::Report;
use store::{Ahead, Store, SystemClock};

use crate::exit::{Complaint, Ended, Exit};
use crate::output::{self, BAD, Format, GOOD};
use crate::serve;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The store to check [default: the one `tenure dev` and `tenure serve` use]
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> Ended {
    let path = serve::store_path(arguments.store.as_deref())?;
    if !path.exists() {
        let sentence = format!("there is no store at {}", path.display());
        return Err(Complaint::new(Exit::NotFound, "store_missing", sentence)
            .hint("say where it is with --store sqlite:PATH"));
    }
    let report = check(&path).await?;
    match format {
        Format::Json => output::json(&members(&report))?,
        Format::People => print(&path, &report)?,
    }
    Ok(if report.findings.is_empty() { Exit::Done } else { Exit::Failed })
}

async fn check(path: &PathBuf) -> Result<Report, Complaint> {
    // Nothing is decided here, so a clock that was once wrong is no reason not to look.
    let options = Options { ahead: Ahead::Accept, ..Options::new(Arc::new(SystemClock::start())) };
    let store =
        SqliteStore::open(path, options).map_err(|failure| serve::store_trouble(&failure))?;
    store::verify::verify(store.browse()).await.map_err(|failure| serve::store_trouble(&failure))
}

fn members(report: &Report) -> serde_json::Value {
    let findings: Vec<serde_json::Value> = report
        .findings
        .iter()
        .map(|finding| json!({ "taskId": finding.task.map(|id| id.to_string()), "message": finding.what }))
        .collect();
    json!({
        "tasks": report.tasks,
        "entries": report.entries,
        "attempts": report.attempts,
        "findings": findings,
    })
}

fn print(path: &std::path::Path, report: &Report) -> Result<(), Complaint> {
    for finding in &report.findings {
        output::line(format_args!("{BAD}finding{BAD:#} {finding}"))?;
    }
    let (style, found) = match report.findings.len() {
        0 => (GOOD, "no findings".to_owned()),
        n => (BAD, output::count(n as u64, "finding")),
    };
    output::line(format_args!(
        "{style}{found}{style:#} in {}, {} and {} of {}",
        output::count(report.tasks, "task"),
        output::count(report.attempts, "attempt"),
        output::count(report.entries, "decision"),
        path.display()
    ))
}
