//! What a database that coordinators share promises, what it does not, and what a coordinator needs beside it.

use std::path::Path;

use super::{Check, machine};
use crate::coordinators::Standing;
use crate::exit::Complaint;
use crate::opening;

/// Reachable, of a format we know, scopes kept apart; and how durable an acknowledgement is.
pub(super) async fn checks(url: &str) -> Vec<Check> {
    let store = match opening::look_into(url).await {
        Ok(store) => store,
        Err(complaint) => return vec![Check::trouble("database", complaint)],
    };
    let found = store.durability();
    let place = opening::without_password(url);
    let reached = format!("PostgreSQL {} at {place}; scopes are kept apart", found.server);
    let settings = format!(
        "fsync {}, full_page_writes {}, synchronous_commit {}, synchronous standbys: {}",
        if found.fsync { "on" } else { "off" },
        if found.full_page_writes { "on" } else { "off" },
        found.synchronous_commit,
        if found.synchronous_standbys.is_empty() { "none" } else { &found.synchronous_standbys },
    );
    let mut checks = vec![Check::ok("database", reached), Check::ok("durability", settings)];
    for warning in found.warnings() {
        let (sentence, remedy) = warning.split_once("; ").unwrap_or((warning, "see above"));
        checks.push(Check::warn("durability", sentence, remedy));
    }
    if found.waits_for_standby() && !found.waits_in_vain() {
        checks.push(Check::ok("failover", found.failover()));
    }
    if let Some(warning) = store.link().warning() {
        let (sentence, remedy) = warning.split_once(": ").unwrap_or((warning, "see above"));
        checks.push(Check::warn("connection", sentence, remedy));
    }
    checks.push(match opening::shared_signing_key(&store).await {
        Ok(path) => signing_key(&path),
        Err(complaint) => Check::trouble("signing key", complaint),
    });
    checks.push(rules(Standing::of(&store).await));
    checks.push(machine::open_files());
    checks
}

/// What opens the signing keys in the database: without it no coordinator starts on this machine.
fn signing_key(path: &Path) -> Check {
    if path.exists() {
        return machine::private("signing key", path);
    }
    let found = format!("there is none at {}", path.display());
    let remedy = "nothing, if coordinators run elsewhere; else copy the file of the same name from a machine \
        whose coordinators work";
    Check::warn("signing key", found, remedy)
}

/// Which rules decide, and whom newer ones wait for.
fn rules(standing: Result<Standing, Complaint>) -> Check {
    let standing = match standing {
        Ok(standing) => standing,
        Err(complaint) => return Check::trouble("rules", complaint),
    };
    match standing.lacking() {
        None => Check::ok("rules", standing.to_string()),
        Some(names) => {
            let remedy = format!("bring these to the same version, or stop them: {names}");
            Check::warn("rules", standing.to_string(), remedy)
        }
    }
}
