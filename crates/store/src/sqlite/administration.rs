//! API keys, limits and the audit: written together, outside batches.

use rusqlite::{Connection, params};
use verdict::{Name, Time};

use super::rows::Columns;
use super::writer::SqliteWriter;
use super::{errors, pauses, reads, record_seals};
use crate::administration::{
    self, Administration, AdministrationRows, ApiKey, Audit, AuditFilter, Audited, PreviousSecret,
    Seal, TenantLimits,
};
use crate::failure::{CommitFailure, Failure, FailureKind};

type Sql<T> = rusqlite::Result<T>;

const API_KEY: &str = "id, tenant, workspace, roles, digest, created_at, name, queues, expires_at, \
                       revoked_at, previous, previous_until, last_used_at";

const AUDIT: &str =
    "n, at, tenant, workspace, actor, action, object, code, times, before, after, request, seal";

const LIMITS: &str = "tenant, requests_per_second, burst, unfinished_runs, changed_at";

/// One transaction. A failure before COMMIT is undone; a failure of COMMIT may have an unknown outcome.
pub(super) fn write(writer: &mut SqliteWriter, act: &Administration) -> Result<(), CommitFailure> {
    let doing = "saving an administrative change";
    let connection = &writer.connection;
    if let Some(follows) = act.follows {
        let last: Sql<Option<i64>> =
            connection.query_row("SELECT max(n) FROM audit", [], |row| row.get(0));
        let last = last.map_err(errors::while_doing(doing)).map_err(CommitFailure::RolledBack)?;
        if last.unwrap_or(0).unsigned_abs() != follows {
            return Err(CommitFailure::RolledBack(administration::audit_conflict()));
        }
    }
    if act.ring.is_some() {
        return Err(CommitFailure::RolledBack(administration::no_shared_ring()));
    }
    let written = connection.execute_batch("BEGIN IMMEDIATE").and_then(|()| {
        faultpoint::point!("admin.begun");
        act.keys.iter().try_for_each(|key| write_key(connection, key))?;
        act.limits.iter().try_for_each(|limits| write_limits(connection, limits))?;
        act.pauses.iter().try_for_each(|change| pauses::write(connection, change))?;
        act.uses.iter().try_for_each(|(key, at)| write_use(connection, key, *at))?;
        act.record_seals.iter().try_for_each(|seal| record_seals::write(connection, seal))?;
        act.audit.iter().try_for_each(|audit| write_audit(connection, audit))
    });
    if let Err(error) = written {
        roll_back(writer);
        return Err(CommitFailure::RolledBack(errors::while_doing(doing)(error)));
    }
    faultpoint::point!("admin.before_commit");
    match connection.execute_batch("COMMIT") {
        Ok(()) => {
            faultpoint::point!("admin.after_commit");
            writer.paused = writer.paused.changed(&act.pauses);
            Ok(())
        }
        Err(error) if errors::commit_left_nothing(&error) => {
            roll_back(writer);
            Err(CommitFailure::RolledBack(errors::while_doing(doing)(error)))
        }
        Err(error) => {
            writer.shared.poison();
            roll_back(writer);
            let what = "a commit failed and may or may not have happened";
            Err(CommitFailure::Unknown(Failure::new(FailureKind::Fatal, what).because(error)))
        }
    }
}

/// A transaction that stays open would include whatever is written next.
fn roll_back(writer: &SqliteWriter) {
    let is_open = !writer.connection.is_autocommit();
    if is_open && writer.connection.execute_batch("ROLLBACK").is_err() {
        writer.shared.poison();
    }
}

fn write_key(connection: &Connection, key: &ApiKey) -> Sql<()> {
    let previous = key.previous.as_ref();
    connection
        .prepare_cached(
            "INSERT INTO api_keys (id, tenant, workspace, roles, digest, created_at, name, queues,
                expires_at, revoked_at, previous, previous_until)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant,
                workspace = excluded.workspace, roles = excluded.roles, digest = excluded.digest,
                created_at = excluded.created_at, name = excluded.name, queues = excluded.queues,
                expires_at = excluded.expires_at, revoked_at = excluded.revoked_at,
                previous = excluded.previous, previous_until = excluded.previous_until",
        )?
        .execute(params![
            key.id.as_str(),
            key.scope.tenant.as_str(),
            key.scope.workspace.as_str(),
            list(&key.roles),
            key.digest.bytes(),
            key.created_at.millis(),
            key.name.as_ref().map(|name| name.as_str()),
            key.queues.as_deref().map(list),
            key.expires_at.map(|at| at.millis()),
            key.revoked_at.map(|at| at.millis()),
            previous.map(|previous| previous.digest.bytes()),
            previous.map(|previous| previous.until.millis()),
        ])?;
    Ok(())
}

fn write_use(connection: &Connection, key: &Name, at: Time) -> Sql<()> {
    let sql = "UPDATE api_keys SET last_used_at = ?2 WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![key.as_str(), at.millis()])?;
    Ok(())
}

fn write_limits(connection: &Connection, limits: &TenantLimits) -> Sql<()> {
    let TenantLimits { tenant, requests_per_second, burst, unfinished_runs, changed_at } = limits;
    connection
        .prepare_cached(
            "INSERT INTO tenant_limits (tenant, requests_per_second, burst, unfinished_runs, changed_at)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant) DO UPDATE SET
                requests_per_second = excluded.requests_per_second, burst = excluded.burst,
                unfinished_runs = excluded.unfinished_runs, changed_at = excluded.changed_at",
        )?
        .execute(params![
            tenant.as_str(),
            requests_per_second,
            burst,
            unfinished_runs.map(|runs| i64::try_from(runs).unwrap_or(i64::MAX)),
            changed_at.millis(),
        ])?;
    Ok(())
}

/// One coordinator has the store: it keeps its signing keys in a file and shares limits with no other.
pub(super) fn rows(connection: &Connection) -> Sql<AdministrationRows> {
    Ok(AdministrationRows {
        api_keys: api_keys(connection)?,
        tenant_limits: tenant_limits(connection)?,
        ring: None,
        coordinators: 1,
    })
}

fn tenant_limits(connection: &Connection) -> Sql<Vec<TenantLimits>> {
    let sql = reads::select(LIMITS, "tenant_limits ORDER BY tenant");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([], |row| {
        let mut columns = Columns::of(row);
        Ok(TenantLimits {
            tenant: columns.name()?,
            requests_per_second: columns.take()?,
            burst: columns.take()?,
            unfinished_runs: columns.take::<Option<i64>>()?.map(i64::unsigned_abs),
            changed_at: columns.time()?,
        })
    })?;
    rows.collect()
}

/// Names as JSON.
pub(super) fn list(names: &[Name]) -> String {
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    serde_json::to_string(&names).expect("names are text")
}

fn write_audit(connection: &Connection, audit: &Audit) -> Sql<()> {
    let Audit { at, scope, actor, action, object, code, times, before, after, request, seal } =
        audit;
    connection
        .prepare_cached(
            "INSERT INTO audit (at, tenant, workspace, actor, action, object, code, times, before,
                after, request, seal)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            at.millis(),
            scope.tenant.as_str(),
            scope.workspace.as_str(),
            actor.as_str(),
            action.as_str(),
            object.as_str(),
            code.as_ref().map(Name::as_str),
            times,
            before.as_ref().map(|digest| digest.bytes()),
            after.as_ref().map(|digest| digest.bytes()),
            request.as_ref().map(Name::as_str),
            seal.as_ref().map(|seal| seal.0),
        ])?;
    Ok(())
}

fn api_keys(connection: &Connection) -> Sql<Vec<ApiKey>> {
    let sql = reads::select(API_KEY, "api_keys ORDER BY id");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map([], |row| api_key(&mut Columns::of(row)))?.collect()
}

fn api_key(columns: &mut Columns<'_>) -> Sql<ApiKey> {
    Ok(ApiKey {
        id: columns.name()?,
        scope: columns.scope()?,
        roles: {
            let roles: String = columns.take()?;
            names(columns, &roles)?
        },
        digest: columns.digest()?,
        created_at: columns.time()?,
        name: columns.optional_text()?,
        queues: {
            let queues: Option<String> = columns.take()?;
            queues.map(|queues| names(columns, &queues)).transpose()?
        },
        expires_at: columns.optional_time()?,
        revoked_at: columns.optional_time()?,
        previous: {
            let digest: Option<[u8; 32]> = columns.take()?;
            let until = columns.optional_time()?;
            digest.zip(until).map(|(digest, until)| PreviousSecret {
                digest: verdict::Digest::from_bytes(digest),
                until,
            })
        },
        last_used_at: columns.optional_time()?,
    })
}

fn names(columns: &Columns<'_>, text: &str) -> Sql<Vec<Name>> {
    let names = serde_json::from_str::<Vec<String>>(text);
    let names = names.map_err(|error| columns.unreadable(error))?;
    Ok(names.into_iter().map(Name::from).collect())
}

pub(super) fn audit(connection: &Connection, filter: &AuditFilter) -> Sql<Vec<Audited>> {
    let before = filter.before.and_then(|n| i64::try_from(n).ok()).unwrap_or(i64::MAX);
    let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
    let tenant = filter.tenant.as_ref().map(Name::as_str);
    let workspace = filter.workspace.as_ref().map(Name::as_str);
    // Two separate conditions, so that a tenant's page uses the index instead of a scan.
    let of_tenant = if tenant.is_some() { "tenant = ?3" } else { "?3 IS NULL" };
    let from = format!(
        "audit WHERE {of_tenant} AND n < ?1 AND (?4 IS NULL OR workspace = ?4)
         ORDER BY n DESC LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&reads::select(AUDIT, &from))?;
    statement
        .query_map(params![before, limit, tenant, workspace], |row| audited(&mut Columns::of(row)))?
        .collect()
}

fn audited(columns: &mut Columns<'_>) -> Sql<Audited> {
    let n: i64 = columns.take()?;
    let optional_digest = |columns: &mut Columns<'_>| {
        let bytes = columns.take::<Option<[u8; 32]>>()?;
        Ok::<_, rusqlite::Error>(bytes.map(verdict::Digest::from_bytes))
    };
    let audit = Audit {
        at: columns.time()?,
        scope: columns.scope()?,
        actor: columns.name()?,
        action: columns.name()?,
        object: columns.take::<String>()?.into(),
        code: columns.optional_name()?,
        times: columns.take()?,
        before: optional_digest(columns)?,
        after: optional_digest(columns)?,
        request: columns.optional_name()?,
        seal: columns.take::<Option<[u8; Seal::BYTES]>>()?.map(Seal),
    };
    Ok(Audited { n: n.unsigned_abs(), audit })
}
