//! `tenure coordinators`: who works on a shared store, which version, since when it was not heard of, and by which
//! rules all of them decide.

use serde_json::json;
use store::Store;
use store::postgres::{self, Awaited, Fellow, PostgresStore};

use crate::exit::{Complaint, Ended, Exit};
use crate::opening::{self, StoreAddress};
use crate::output::{self, BAD, FAINT, Format, GOOD};
use crate::span;

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
    let fellows = fellows_of(&store).await?;
    let shown: Vec<&Fellow> =
        fellows.iter().filter(|fellow| arguments.all || fellow.stopped_at.is_none()).collect();
    let standing = Standing::among(&store, &fellows);
    match format {
        Format::Json => {
            let members = |fellow: &&Fellow| members(fellow, &standing);
            output::json(&shown.iter().map(members).collect::<Vec<_>>())?;
        }
        Format::People => {
            shown.iter().try_for_each(|fellow| print(fellow))?;
            output::line(&standing)?;
            if let Some(names) = standing.lacking() {
                output::line(format_args!("it waits for: {names}"))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// By which rules everybody decides, and which newer ones wait.
pub(crate) struct Standing {
    in_force: u32,
    awaited: Option<Awaited>,
}

impl Standing {
    pub(crate) async fn of(store: &PostgresStore) -> Result<Self, Complaint> {
        Ok(Self::among(store, &fellows_of(store).await?))
    }

    fn among(store: &PostgresStore, fellows: &[Fellow]) -> Self {
        let in_force = store.rules_in_force();
        Self { in_force, awaited: postgres::awaited(in_force, fellows) }
    }

    /// The names of those without whom newer rules would be in force.
    pub(crate) fn lacking(&self) -> Option<String> {
        let names = self.awaited.as_ref()?.lacking.iter().map(|name| name.as_str());
        Some(names.collect::<Vec<_>>().join(", "))
    }

    /// Which newer version waits for this one.
    fn waits_for(&self, fellow: &Fellow) -> Option<u32> {
        let awaited = self.awaited.as_ref().filter(|it| it.lacking.contains(&fellow.name));
        awaited.map(|awaited| awaited.version)
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "version {} of the rules is in force", self.in_force)?;
        match &self.awaited {
            Some(awaited) => write!(f, "; version {} waits until all have it", awaited.version),
            None => Ok(()),
        }
    }
}

async fn fellows_of(store: &PostgresStore) -> Result<Vec<Fellow>, Complaint> {
    store.fellows().await.map_err(|failure| opening::database_trouble(&failure))
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

fn members(fellow: &Fellow, standing: &Standing) -> serde_json::Value {
    json!({
        "name": fellow.name.as_str(),
        "state": state(fellow),
        "version": fellow.version.as_str(),
        "rules": fellow.knows.newest(),
        "rulesOldest": fellow.knows.oldest(),
        "rulesInForce": standing.in_force,
        "holdsBackRules": standing.waits_for(fellow),
        "startedAt": instant(fellow.started_at.millis()),
        "silentMs": silence_ms(fellow),
        "lastCommitAt": fellow.last_commit_at.map(|at| instant(at.millis())),
    })
}

fn print(fellow: &Fellow) -> Result<(), Complaint> {
    let state = state(fellow);
    let style = if state == "missing" { BAD } else { GOOD };
    output::line(format_args!(
        "{style}{state:8}{style:#} {:32} version {}, rules {}, {FAINT}heard {} ago{FAINT:#}",
        fellow.name.as_str(),
        fellow.version.as_str(),
        fellow.knows,
        span::spell_ms(i64::try_from(silence_ms(fellow)).unwrap_or(i64::MAX)),
    ))
}
