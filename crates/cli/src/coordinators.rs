//! `tenure coordinators`: who works on a shared store, which version, and since when it was not heard of.

use serde_json::json;
use store::postgres::{Fellow, SILENCE_MAX};

use crate::exit::{Complaint, Ended, Exit};
use crate::opening::{self, StoreAddress};
use crate::output::{self, BAD, FAINT, Format, GOOD};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The database that coordinators share
    #[arg(long, value_name = "postgres://…")]
    store: Option<String>,
    /// Also those that have stopped
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> Ended {
    let StoreAddress::Postgres(url) = opening::store_address(arguments.store.as_deref())? else {
        let sentence = "a SQLite store has one coordinator: the server that has it open";
        return Err(Complaint::usage("postgres_only", sentence)
            .hint("give the database with --store postgres://…"));
    };
    let store = opening::look_into(&url).await?;
    let fellows = store.fellows().await.map_err(|failure| opening::database_trouble(&failure))?;
    let shown: Vec<&Fellow> =
        fellows.iter().filter(|fellow| arguments.all || fellow.stopped_at.is_none()).collect();
    match format {
        Format::Json => {
            output::json(&shown.iter().map(|fellow| members(fellow)).collect::<Vec<_>>())?;
        }
        Format::People => shown.iter().try_for_each(|fellow| print(fellow))?,
    }
    Ok(Exit::Done)
}

fn state(fellow: &Fellow) -> &'static str {
    match fellow.stopped_at {
        Some(_) => "stopped",
        None if silence_ms(fellow) > SILENCE_MAX.millis() => "missing",
        None => "alive",
    }
}

fn silence_ms(fellow: &Fellow) -> u64 {
    fellow.read_at.since(fellow.seen_at).millis()
}

/// As everywhere: UTC with three digits of a second.
fn instant(millis: i64) -> String {
    let instant = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{instant:.3}")
}

fn members(fellow: &Fellow) -> serde_json::Value {
    json!({
        "name": fellow.name.as_str(),
        "state": state(fellow),
        "version": fellow.version.as_str(),
        "rules": fellow.knows.newest(),
        "startedAt": instant(fellow.started_at.millis()),
        "silentMs": silence_ms(fellow),
        "lastCommitAt": fellow.last_commit_at.map(|at| instant(at.millis())),
    })
}

fn print(fellow: &Fellow) -> Result<(), Complaint> {
    let state = state(fellow);
    let style = if state == "missing" { BAD } else { GOOD };
    output::line(format_args!(
        "{style}{state:8}{style:#} {:32} version {}, rules {} {FAINT}heard {} ms ago{FAINT:#}",
        fellow.name.as_str(),
        fellow.version.as_str(),
        fellow.knows,
        silence_ms(fellow),
    ))
}
