//! Checks of a shared database: its guarantees, its gaps, and what a coordinator needs besides it.

use std::path::Path;

use super::{Check, machine};
use crate::coordinators::RulesStatus;
use crate::exit::CliError;
use crate::open_store;

/// Checks that the database is reachable, has a known format and separates scopes, and how durable
/// its commits are.
pub(super) async fn checks(url: &str) -> Vec<Check> {
    let store = match open_store::open_read_only(url).await {
        Ok(store) => store,
        Err(cli_error) => return vec![Check::from_error("database", cli_error)],
    };
    let found = store.durability();
    let place = open_store::redact_password(url);
    let reached = format!("PostgreSQL {} at {place}; scopes are isolated", found.server);
    let settings = format!(
        "fsync {}, full_page_writes {}, synchronous_commit {}, synchronous standbys: {}",
        if found.fsync { "on" } else { "off" },
        if found.full_page_writes { "on" } else { "off" },
        found.synchronous_commit,
        if found.synchronous_standbys.is_empty() { "none" } else { &found.synchronous_standbys },
    );
    let mut checks = vec![Check::ok("database", reached), Check::ok("durability", settings)];
    for warning in found.warnings() {
        let (message, remedy) = warning.split_once("; ").unwrap_or((warning, "see above"));
        checks.push(Check::warn("durability", message, remedy));
    }
    if found.waits_for_standby() && !found.lacks_standbys() {
        checks.push(Check::ok("failover", found.failover()));
    }
    if let Some(warning) = store.link().warning() {
        let (message, remedy) = warning.split_once(": ").unwrap_or((warning, "see above"));
        checks.push(Check::warn("connection", message, remedy));
    }
    checks.push(match open_store::shared_signing_key(&store).await {
        Ok(path) => signing_key(&path),
        Err(cli_error) => Check::from_error("signing key", cli_error),
    });
    checks.push(rules(RulesStatus::of(&store).await));
    checks.push(machine::open_files());
    checks
}

/// The file that decrypts the signing keys in the database: without it no coordinator starts on
/// this machine.
fn signing_key(path: &Path) -> Check {
    if path.exists() {
        return machine::owner_only("signing key", path);
    }
    let found = format!("there is none at {}", path.display());
    let remedy = "ignore this if coordinators run elsewhere; else copy the file of the same name from a machine \
        whose coordinators work";
    Check::warn("signing key", found, remedy)
}

/// The version of the rules in force, and the coordinators that a newer one waits for.
fn rules(rules_status: Result<RulesStatus, CliError>) -> Check {
    let rules_status = match rules_status {
        Ok(rules_status) => rules_status,
        Err(cli_error) => return Check::from_error("rules", cli_error),
    };
    match rules_status.lacking() {
        None => Check::ok("rules", rules_status.to_string()),
        Some(names) => {
            let remedy = format!("upgrade or stop these coordinators: {names}");
            Check::warn("rules", rules_status.to_string(), remedy)
        }
    }
}
