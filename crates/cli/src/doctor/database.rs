//! What a database that coordinators share promises, and what it does not.

use store::Store;
use store::postgres::{self, Awaited, PostgresStore};

use super::Check;
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
    if let Some(warning) = store.link().warning() {
        let (sentence, remedy) = warning.split_once(": ").unwrap_or((warning, "see above"));
        checks.push(Check::warn("connection", sentence, remedy));
    }
    checks.push(rules(&store).await);
    for warning in found.warnings() {
        let (sentence, remedy) = warning.split_once("; ").unwrap_or((warning, "see above"));
        checks.push(Check::warn("durability", sentence, remedy));
    }
    checks
}

/// Which rules decide, and whom newer ones wait for.
async fn rules(store: &PostgresStore) -> Check {
    let in_force = store.rules_in_force();
    let fellows = match store.fellows().await {
        Ok(fellows) => fellows,
        Err(failure) => return Check::trouble("rules", opening::database_trouble(&failure)),
    };
    match postgres::awaited(in_force, &fellows) {
        None => Check::ok("rules", format!("version {in_force} is in force")),
        Some(Awaited { version, lacking }) => {
            let names: Vec<&str> = lacking.iter().map(|name| name.as_str()).collect();
            let found =
                format!("version {in_force} is in force; version {version} waits for others");
            let names = names.join(", ");
            Check::warn(
                "rules",
                found,
                format!("bring these to the same version, or stop them: {names}"),
            )
        }
    }
}
