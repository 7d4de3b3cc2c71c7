//! `tenure coordinators`: who works on a shared store, which version, since when it was not heard of, and by which
//! rules all of them decide.

use serde_json::json;
use store::Store;
use store::postgres::{self, Awaited, Fellow};

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
    let in_force = store.rules_in_force();
    let awaited = postgres::awaited(in_force, &fellows);
    match format {
        Format::Json => {
            let rules = Rules { in_force, awaited: awaited.as_ref() };
            output::json(&shown.iter().map(|fellow| members(fellow, &rules)).collect::<Vec<_>>())?;
        }
        Format::People => {
            shown.iter().try_for_each(|fellow| print(fellow))?;
            output::line(format_args!("{}", rules_line(in_force, awaited.as_ref())))?;
        }
    }
    Ok(Exit::Done)
}

/// By which rules everybody decides, and which newer ones wait.
struct Rules<'a> {
    in_force: u32,
    awaited: Option<&'a Awaited>,
}

fn rules_line(in_force: u32, awaited: Option<&Awaited>) -> String {
    match awaited {
        None => format!("rules {in_force} are in force"),
        Some(Awaited { version, lacking }) => {
            let names: Vec<&str> = lacking.iter().map(|name| name.as_str()).collect();
            let names = names.join(", ");
            format!(
                "rules {in_force} are in force; rules {version} wait until all have them: {names}"
            )
        }
    }
}

fn state(fellow: &Fellow) -> &'static str {
    match fellow.stopped_at {
        Some(_) => "stopped",
        None if fellow.is_living() => "alive",
        None => "missing",
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

fn members(fellow: &Fellow, rules: &Rules<'_>) -> serde_json::Value {
    let holds_back =
        rules.awaited.filter(|awaited| awaited.lacking.contains(&fellow.name)).map(|it| it.version);
    json!({
        "name": fellow.name.as_str(),
        "state": state(fellow),
        "version": fellow.version.as_str(),
        "rules": fellow.knows.newest(),
        "rulesOldest": fellow.knows.oldest(),
        "rulesInForce": rules.in_force,
        "holdsBackRules": holds_back,
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
