//! `tenure coordinators`: the coordinators of a shared store, their versions, when each was last
//! seen, and the version of the rules in force.

use serde_json::json;
use store::Store;
use store::postgres::{self, Peer, PendingRules, PostgresStore};

use crate::duration;
use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::{self, StoreAddress};
use crate::output::{self, BAD, FAINT, Format, GOOD};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The database that coordinators share
    #[arg(long, value_name = "postgres://…")]
    store: Option<String>,
    /// Also list coordinators that have stopped
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> CommandResult {
    let StoreAddress::Postgres(url) = open_store::store_address(arguments.store.as_deref())? else {
        let message = "a SQLite store has one coordinator: the server that has it open";
        return Err(CliError::usage("postgres_only", message)
            .hint("give the database with --store postgres://…"));
    };
    let store = open_store::open_read_only(&url).await?;
    let peers = peers_of(&store).await?;
    let shown: Vec<&Peer> =
        peers.iter().filter(|peer| arguments.all || peer.stopped_at.is_none()).collect();
    let rules_status = RulesStatus::among(&store, &peers);
    match format {
        Format::Json => {
            let members = |peer: &&Peer| members(peer, &rules_status);
            output::json(&shown.iter().map(members).collect::<Vec<_>>())?;
        }
        Format::People => {
            shown.iter().try_for_each(|peer| print(peer))?;
            output::line(&rules_status)?;
            if let Some(names) = rules_status.lacking() {
                output::line(format_args!("it waits for: {names}"))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// The version of the rules in force, and newer ones that wait.
pub(crate) struct RulesStatus {
    in_force: u32,
    pending_rules: Option<PendingRules>,
}

impl RulesStatus {
    pub(crate) async fn of(store: &PostgresStore) -> Result<Self, CliError> {
        Ok(Self::among(store, &peers_of(store).await?))
    }

    fn among(store: &PostgresStore, peers: &[Peer]) -> Self {
        let in_force = store.status().rules;
        Self { in_force, pending_rules: postgres::pending_rules(in_force, peers) }
    }

    /// The names of the coordinators that keep a newer version from taking effect.
    pub(crate) fn lacking(&self) -> Option<String> {
        let names = self.pending_rules.as_ref()?.lacking.iter().map(|name| name.as_str());
        Some(names.collect::<Vec<_>>().join(", "))
    }

    /// The newer version that waits for this coordinator.
    fn waits_for(&self, peer: &Peer) -> Option<u32> {
        let pending_rules =
            self.pending_rules.as_ref().filter(|it| it.lacking.contains(&peer.name));
        pending_rules.map(|pending_rules| pending_rules.version)
    }
}

impl std::fmt::Display for RulesStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "version {} of the rules is in force", self.in_force)?;
        match &self.pending_rules {
            Some(pending_rules) => {
                write!(f, "; version {} waits until all know it", pending_rules.version)
            }
            None => Ok(()),
        }
    }
}

async fn peers_of(store: &PostgresStore) -> Result<Vec<Peer>, CliError> {
    store.peers().await.map_err(|failure| open_store::database_error(&failure))
}

fn state(peer: &Peer) -> &'static str {
    match peer.stopped_at {
        Some(_) => "stopped",
        None if peer.is_alive() => "alive",
        None => "missing",
    }
}

fn silence_ms(peer: &Peer) -> u64 {
    peer.read_at.since(peer.seen_at).millis()
}

/// UTC with three fractional digits, as everywhere.
fn instant(millis: i64) -> String {
    let instant = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{instant:.3}")
}

fn members(peer: &Peer, rules_status: &RulesStatus) -> serde_json::Value {
    json!({
        "name": peer.name.as_str(),
        "state": state(peer),
        "version": peer.version.as_str(),
        "rules": peer.supported_rules.newest(),
        "rulesOldest": peer.supported_rules.oldest(),
        "rulesInForce": rules_status.in_force,
        "holdsBackRules": rules_status.waits_for(peer),
        "startedAt": instant(peer.started_at.millis()),
        "silentMs": silence_ms(peer),
        "lastCommitAt": peer.last_commit_at.map(|at| instant(at.millis())),
    })
}

fn print(peer: &Peer) -> Result<(), CliError> {
    let state = state(peer);
    let style = if state == "missing" { BAD } else { GOOD };
    output::line(format_args!(
        "{style}{state:8}{style:#} {:32} version {}, rules {}, {FAINT}seen {} ago{FAINT:#}",
        peer.name.as_str(),
        peer.version.as_str(),
        peer.supported_rules,
        duration::format_ms(i64::try_from(silence_ms(peer)).unwrap_or(i64::MAX)),
    ))
}
