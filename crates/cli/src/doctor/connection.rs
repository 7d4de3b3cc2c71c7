//! Checks of the connection to the server: profile, address, readiness, version, key, clock.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure::{Client, Error};
use wire::admin::{ParkedMessage, TaskSetAside, TenantLimits};
use wire::effects::EffectView;
use wire::{Code, EffectState};

use super::Check;
use crate::args::GlobalArgs;
use crate::profile::{Connection, Profile};
use crate::{duration, effects, output, server};

/// Beyond this, people who compare times are confused.
const SKEW_WARN_MS: u64 = 5_000;

/// Beyond this, deadlines and `--delay` computed here differ noticeably on the server.
const SKEW_FAIL_MS: u64 = 5 * 60 * 1000;

/// A limit is nearly reached when less than one part in this many is left.
const NEAR: u64 = 10;

/// Refusals older than this are not reported.
const RECENT_MS: i64 = 5 * 60 * 1000;

/// No run has this id, so that the answer shows only whether the key is valid and the server's
/// time.
const NO_RUN: &str = "run_00000000000000000000000000";

pub(super) async fn checks(global_args: &GlobalArgs) -> Vec<Check> {
    let mut checks = vec![profile()];
    let chosen = Connection::choose(global_args.url.as_deref(), global_args.key.as_deref());
    let authorities = global_args.ca_file.as_deref();
    match chosen.and_then(|chosen| Ok((server::client(&chosen, authorities)?, chosen))) {
        Ok((client, connection)) => checks.extend(answers(&client, &connection.url).await),
        Err(cli_error) => checks.push(Check::from_error("server", cli_error)),
    }
    checks
}

fn profile() -> Check {
    let path = match Profile::path() {
        Ok(path) => path,
        Err(cli_error) => return Check::from_error("profile", cli_error),
    };
    let shown = path.display();
    match Profile::read(&path) {
        Err(cli_error) => Check::from_error("profile", cli_error),
        Ok(None) => {
            Check::ok("profile", "none; address and key come from flags or the environment")
        }
        Ok(Some(_)) => {
            let mode = fs::metadata(&path).map_or(0, |meta| meta.permissions().mode() & 0o777);
            if mode & 0o077 == 0 {
                return Check::ok("profile", format!("{shown}, readable by its owner only"));
            }
            let found = format!("{shown} holds a key and has mode {mode:o}");
            Check::fail("profile", found, format!("chmod 600 {shown}, and rotate the key"))
        }
    }
}

async fn answers(client: &Client, url: &str) -> Vec<Check> {
    let version = match client.version().await {
        Ok(version) => version.version,
        Err(error) => return vec![Check::from_error("server", server::cli_error(error))],
    };
    let mut checks = vec![Check::ok("server", format!("{url} answers"))];
    checks.extend(ready(client).await);
    checks.push(same_version(&version));
    checks.extend(key_and_clock(client).await);
    checks.extend(limits(client).await);
    checks.extend(tasks(client).await);
    checks.push(deliveries(client).await);
    checks
}

/// The number of tasks that are named; the rest is counted, so that the list stays readable.
const TASKS_SHOWN: usize = 10;

/// Tasks that the server cannot continue. Needs an administrator's key.
async fn tasks(client: &Client) -> Vec<Check> {
    let (mut found, parked) = match client.set_aside().await {
        Ok(found) => (found.tasks, found.messages),
        // A server from before this list existed.
        Err(Error::Refused(problem)) if problem.code() == Some(Code::NotFound) => {
            return Vec::new();
        }
        Err(Error::Refused(problem)) if problem.code() == Some(Code::Forbidden) => {
            return vec![Check::ok(
                "tasks",
                "this key has no permission to list tasks that are set aside",
            )];
        }
        Err(error) => return vec![Check::from_error("tasks", server::cli_error(error))],
    };
    if found.is_empty() && parked.is_empty() {
        return vec![Check::ok("tasks", "none is set aside")];
    }
    let rest = found.split_off(found.len().min(TASKS_SHOWN)).len();
    let mut checks: Vec<Check> = found.iter().map(set_aside).collect();
    checks.extend(parked.iter().take(TASKS_SHOWN).map(parked_message));
    if rest > 0 {
        checks.push(Check::fail(
            "tasks",
            format!("{rest} more are set aside"),
            "see GET /v1/set-aside",
        ));
    }
    checks
}

/// Effects that were not delivered and wait for a person. Needs the key of an administrator or a reader.
async fn deliveries(client: &Client) -> Check {
    let mut found = Vec::new();
    for state in [EffectState::Dead, EffectState::Unknown] {
        match effects::in_state(client, state).await {
            Ok(effects) => found.extend(effects.into_iter().filter(|it| it.blocks != Some(false))),
            Err(error) if error.code == Code::Forbidden.as_str() => {
                return Check::ok("deliveries", "this key has no permission to list effects");
            }
            Err(error) => return Check::from_error("deliveries", error),
        }
    }
    stuck(&found)
}

fn stuck(effects: &[EffectView]) -> Check {
    let Some(oldest) = effects.iter().min_by_key(|effect| effect.decided_at) else {
        return Check::ok("deliveries", "no effect waits for a person");
    };
    let mut endpoints: Vec<&str> = effects.iter().map(|effect| effect.endpoint.as_str()).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    let count = output::count(effects.len() as u64, "effect");
    let (endpoints, since) = (endpoints.join(", "), oldest.decided_at);
    let found =
        format!("{count} to {endpoints} not delivered, with everything behind; since {since}");
    Check::warn("deliveries", found, "tenure inbox, then tenure effects redrive")
}

fn set_aside(task: &TaskSetAside) -> Check {
    let TaskSetAside { task_id, why, tries, .. } = task;
    let found = format!("{task_id} is set aside after {tries} tries: {why}");
    let remedy = "other tasks continue; run `tenure verify` to check the store; restore a backup, or \
        report a bug; the task is retried automatically, also by a newer version";
    Check::fail("tasks", found, remedy)
}

fn parked_message(message: &ParkedMessage) -> Check {
    let ParkedMessage { from_task_id, to_task_id, why } = message;
    let found = format!("a message from {from_task_id} to {to_task_id} was refused ({why})");
    let remedy = "other tasks continue; run `tenure verify` to check the store, cancel the run by force if it must \
        end, and report a bug";
    Check::fail("messages", found, remedy)
}

/// Limits of tenants that are reached or nearly reached. Needs an administrator's key.
async fn limits(client: &Client) -> Vec<Check> {
    let all = match client.limits().list().await {
        Ok(found) => found.limits,
        Err(Error::Refused(problem)) if problem.code() == Some(Code::Forbidden) => {
            return vec![Check::ok("limits", "this key has no permission to list limits")];
        }
        Err(error) => return vec![Check::from_error("limits", server::cli_error(error))],
    };
    let now = duration::now();
    let pressing: Vec<Check> =
        all.iter().flat_map(|tenant| [runs_of(tenant), rate_of(tenant, now)]).flatten().collect();
    if pressing.is_empty() {
        let count = all.len();
        return vec![Check::ok(
            "limits",
            format!("no tenant is near a limit; tenants with limits: {count}"),
        )];
    }
    pressing
}

fn runs_of(tenant: &TenantLimits) -> Option<Check> {
    let (now, most) = (tenant.unfinished_runs_now, tenant.unfinished_runs?);
    let left = most.saturating_sub(now);
    if left > most / NEAR {
        return None;
    }
    let then = if left == 0 { "new runs are refused" } else { "soon new runs are refused" };
    let name = &tenant.tenant_id;
    let found = format!("{name} has {now} of {most} unfinished runs: {then}");
    let remedy = format!(
        "wait, cancel runs, or raise the quota: tenure limits set {name} --unfinished-runs"
    );
    Some(Check::warn("limits", found, remedy))
}

fn rate_of(tenant: &TenantLimits, now: wire::Time) -> Option<Check> {
    let (rate, left) = (tenant.requests_per_second?, tenant.requests_left_now?);
    let is_spent = left <= tenant.burst.unwrap_or(rate) / NEAR as u32;
    let refused_at = tenant.limited_at.filter(|at| now.as_ms() - at.as_ms() <= RECENT_MS);
    let name = &tenant.tenant_id;
    let found = match (refused_at, is_spent) {
        (Some(at), _) => format!("{name} was refused at {at}, at {rate} requests per second"),
        (None, true) => format!("{name} has {left} requests left, at {rate} per second"),
        (None, false) => return None,
    };
    let remedy = format!(
        "send fewer requests, or raise the limit: tenure limits set {name} --requests-per-second"
    );
    Some(Check::warn("limits", found, remedy))
}

/// Whether the server processes work, and what it reports about its certificate.
async fn ready(client: &Client) -> Vec<Check> {
    let ready = match client.ready().await {
        Ok(ready) => ready,
        Err(error) => return vec![Check::from_error("ready", server::cli_error(error))],
    };
    let (certificate, others): (Vec<_>, Vec<_>) =
        ready.checks.into_iter().partition(|check| check.name == "certificate");
    let why: Vec<String> = others.into_iter().filter_map(|check| check.detail).collect();
    let works = if ready.ready {
        Check::ok("ready", "the server processes work")
    } else {
        let remedy = "see the server's log; common causes are a full or hanging disk, and a database that does not answer";
        Check::fail("ready", format!("the server processes no work: {}", why.join("; ")), remedy)
    };
    let shown = certificate.into_iter().map(|check| match check.detail {
        None => {
            Check::ok("certificate", "the files are valid and the newest certificate is served")
        }
        Some(detail) => {
            Check::warn("certificate", detail, "fix the files, then send SIGHUP to the server")
        }
    });
    std::iter::once(works).chain(shown).collect()
}

fn same_version(theirs: &str) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    if theirs == ours {
        return Check::ok("version", format!("{ours}, client and server"));
    }
    let remedy = "use the same version; each may refuse what only the other knows";
    Check::warn("version", format!("client {ours}, server {theirs}"), remedy)
}

async fn key_and_clock(client: &Client) -> Vec<Check> {
    let problem = match client.run(NO_RUN).status().await {
        Err(Error::Refused(problem)) => problem,
        Err(error) => return vec![Check::from_error("key", server::cli_error(error))],
        Ok(_) => return vec![Check::ok("key", "accepted")],
    };
    let clock = clock(problem.server_time.as_ms() - duration::now().as_ms());
    let key = match problem.code() {
        Some(Code::RunNotFound) => Check::ok("key", "accepted, and can read runs"),
        // A worker's key is valid; it only lacks this permission.
        Some(Code::Forbidden) => Check::ok("key", "accepted, but has no permission to read runs"),
        _ => Check::from_error("key", server::cli_error(Error::Refused(problem))),
    };
    vec![key, clock]
}

fn clock(skew_ms: i64) -> Check {
    let spelled = duration::format_ms(skew_ms.saturating_abs());
    let found = match skew_ms {
        0.. => format!("the server's is {spelled} ahead"),
        _ => format!("the server's is {spelled} behind"),
    };
    let remedy = "synchronise both machines with a time server";
    match skew_ms.unsigned_abs() {
        ..SKEW_WARN_MS => Check::ok("clock", found),
        SKEW_WARN_MS..SKEW_FAIL_MS => Check::warn("clock", found, remedy),
        _ => Check::fail("clock", found, remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;

    #[test]
    fn clocks_far_apart_are_told_in_both_directions() {
        let grades = [0, -4_999, 6_000, -299_000, 301_000].map(|apart| clock(apart).grade);
        assert_eq!(grades, [Grade::Ok, Grade::Ok, Grade::Warn, Grade::Warn, Grade::Fail]);
        assert!(clock(-6_000).found.contains("behind") && clock(6_000).found.contains("ahead"));
    }

    fn tenant(unfinished: u64, left: u32, limited_ms_ago: Option<i64>) -> TenantLimits {
        TenantLimits {
            tenant_id: "acme".to_owned(),
            requests_per_second: Some(20),
            burst: None,
            unfinished_runs: Some(100),
            unfinished_runs_now: unfinished,
            requests_left_now: Some(left),
            limited_at: limited_ms_ago.map(|ago| wire::Time::from_ms(1_000_000 - ago)),
            changed_at: wire::Time::from_ms(0),
        }
    }

    #[test]
    fn a_limit_is_told_when_it_holds_or_nearly_holds() {
        let now = wire::Time::from_ms(1_000_000);
        let runs = |unfinished| runs_of(&tenant(unfinished, 20, None)).map(|check| check.found);
        assert_eq!(runs(89), None);
        assert!(
            runs(90).unwrap().ends_with("90 of 100 unfinished runs: soon new runs are refused")
        );
        assert!(runs(100).unwrap().ends_with("100 unfinished runs: new runs are refused"));
        let rate = |left, ago| rate_of(&tenant(0, left, ago), now).map(|check| check.found);
        assert_eq!((rate(3, None), rate(20, Some(RECENT_MS + 1))), (None, None));
        assert!(rate(2, None).unwrap().contains("has 2 requests left"));
        assert!(rate(20, Some(1_000)).unwrap().contains("was refused at"));
    }

    #[test]
    fn another_version_is_a_warning() {
        assert_eq!(same_version(env!("CARGO_PKG_VERSION")).grade, Grade::Ok);
        assert_eq!(same_version("99.0.0").grade, Grade::Warn);
    }
}
