//! Keys and the audit: written together, outside batches.
//!
//! In this folder: the removal of expired idempotency keys, and of tasks that ended long ago; pauses of queues; seals over records.

pub(super) mod key_expiry;
pub(super) mod pauses;
pub(super) mod pruning;
pub(super) mod record_seals;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use verdict::{Name, TaskId, Time};

use super::reads::{Client, Read, as_limit, set_scopes};
use super::rows::Columns;
use super::{peers, scopes};
use crate::administration::{
    self, Administration, AdministrationRows, ApiKey, Audit, AuditFilter, Audited, PreviousSecret,
    RingChange, Seal, SealedRing, TenantLimits,
};
use crate::failure::{Failure, FailureKind};

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Everything in one round trip.
pub(super) async fn rows(client: &Client, now: Time) -> Read<AdministrationRows> {
    let (api_keys, tenant_limits, ring, coordinators) = futures_util::join!(
        api_keys(client),
        tenant_limits(client),
        ring(client),
        peers::count(client, now),
    );
    Ok(AdministrationRows {
        api_keys: api_keys?,
        tenant_limits: tenant_limits?,
        ring: ring?,
        coordinators: coordinators?,
    })
}

/// Writes one act. Acts are serialised, so that records are numbered without gaps.
pub(super) async fn write(client: &Client, act: &Administration) -> Read<()> {
    set_scopes(client, Some(scopes::ALL.to_owned())).await?;
    client.query_typed("SELECT epoch FROM tenure.meta FOR UPDATE", &[]).await?;
    if let Some(follows) = act.follows {
        let rows = client.query_typed("SELECT max(n) FROM tenure.audit", &[]).await?;
        let last: Option<i64> = Columns::of(&rows[0]).take()?;
        if last.unwrap_or(0).unsigned_abs() != follows {
            return Err(administration::audit_conflict().into());
        }
    }
    if let Some(change) = &act.ring {
        write_ring(client, change).await?;
    }
    for key in &act.keys {
        write_key(client, key).await?;
    }
    for limits in &act.limits {
        write_limits(client, limits).await?;
    }
    pauses::write(client, &act.pauses).await?;
    for (key, at) in &act.uses {
        write_use(client, key, *at).await?;
    }
    for seal in &act.record_seals {
        record_seals::write(client, seal).await?;
    }
    for audit in &act.audit {
        write_audit(client, audit).await?;
    }
    Ok(())
}

async fn write_ring(client: &Client, change: &RingChange) -> Read<()> {
    let before = change.before.and_then(|version| i64::try_from(version).ok()).unwrap_or(0);
    let sql = match change.before {
        None => {
            "INSERT INTO tenure.ring (one, version, sealed) VALUES (1, $1 + 1, $2) \
            ON CONFLICT (one) DO NOTHING"
        }
        Some(_) => "UPDATE tenure.ring SET version = version + 1, sealed = $2 WHERE version = $1",
    };
    let parameters: [Parameter<'_>; 2] = [(&before, Type::INT8), (&change.sealed, Type::BYTEA)];
    if client.execute_typed(sql, &parameters).await? == 0 {
        let what = "another coordinator changed the signing keys first";
        return Err(Failure::new(FailureKind::Conflict(TaskId::from_u128(0)), what).into());
    }
    Ok(())
}

async fn ring(client: &Client) -> Read<Option<SealedRing>> {
    let rows = client.query_typed("SELECT version, sealed FROM tenure.ring", &[]).await?;
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        let version: i64 = columns.take()?;
        Ok(SealedRing { version: version.unsigned_abs(), sealed: columns.take()? })
    };
    rows.first().map(read).transpose()
}

const WRITE_KEY: &str = "INSERT INTO tenure.api_keys (id, tenant, workspace, roles, digest, created_at, \
        name, queues, expires_at, revoked_at, previous, previous_until) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
    ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant, workspace = excluded.workspace, \
        roles = excluded.roles, digest = excluded.digest, created_at = excluded.created_at, \
        name = excluded.name, queues = excluded.queues, expires_at = excluded.expires_at, \
        revoked_at = excluded.revoked_at, previous = excluded.previous, \
        previous_until = excluded.previous_until";

async fn write_key(client: &Client, key: &ApiKey) -> Read<()> {
    let (id, tenant) = (key.id.as_str(), key.scope.tenant.as_str());
    let workspace = key.scope.workspace.as_str();
    let (roles, queues) = (list(&key.roles), key.queues.as_deref().map(list));
    let (digest, created_at) = (&key.digest.bytes()[..], key.created_at.millis());
    let name = key.name.as_ref().map(|name| name.as_str());
    let expires_at = key.expires_at.map(|at| at.millis());
    let revoked_at = key.revoked_at.map(|at| at.millis());
    let previous = key.previous.as_ref().map(|previous| &previous.digest.bytes()[..]);
    let previous_until = key.previous.as_ref().map(|previous| previous.until.millis());
    let parameters: [Parameter<'_>; 12] = [
        (&id, Type::TEXT),
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&roles, Type::TEXT),
        (&digest, Type::BYTEA),
        (&created_at, Type::INT8),
        (&name, Type::TEXT),
        (&queues, Type::TEXT),
        (&expires_at, Type::INT8),
        (&revoked_at, Type::INT8),
        (&previous, Type::BYTEA),
        (&previous_until, Type::INT8),
    ];
    client.execute_typed(WRITE_KEY, &parameters).await?;
    Ok(())
}

async fn write_use(client: &Client, key: &Name, at: Time) -> Read<()> {
    let (key, at) = (key.as_str(), at.millis());
    let sql = "UPDATE tenure.api_keys SET last_used_at = $2 WHERE id = $1";
    client.execute_typed(sql, &[(&key, Type::TEXT), (&at, Type::INT8)]).await?;
    Ok(())
}

async fn write_limits(client: &Client, limits: &TenantLimits) -> Read<()> {
    let sql = "INSERT INTO tenure.tenant_limits (tenant, requests_per_second, burst, unfinished_runs, \
            changed_at) VALUES ($1, $2, $3, $4, $5) \
        ON CONFLICT (tenant) DO UPDATE SET requests_per_second = excluded.requests_per_second, \
            burst = excluded.burst, unfinished_runs = excluded.unfinished_runs, \
            changed_at = excluded.changed_at";
    let tenant = limits.tenant.as_str();
    let requests_per_second = limits.requests_per_second.map(i64::from);
    let burst = limits.burst.map(i64::from);
    let runs = limits.unfinished_runs.map(|runs| i64::try_from(runs).unwrap_or(i64::MAX));
    let changed_at = limits.changed_at.millis();
    let parameters: [Parameter<'_>; 5] = [
        (&tenant, Type::TEXT),
        (&requests_per_second, Type::INT8),
        (&burst, Type::INT8),
        (&runs, Type::INT8),
        (&changed_at, Type::INT8),
    ];
    client.execute_typed(sql, &parameters).await?;
    Ok(())
}

async fn tenant_limits(client: &Client) -> Read<Vec<TenantLimits>> {
    let sql = "SELECT tenant, requests_per_second, burst, unfinished_runs, changed_at \
        FROM tenure.tenant_limits ORDER BY tenant COLLATE \"C\"";
    let rows = client.query_typed(sql, &[]).await?;
    let small = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(TenantLimits {
            tenant: columns.name()?,
            requests_per_second: columns.take::<Option<i64>>()?.map(small),
            burst: columns.take::<Option<i64>>()?.map(small),
            unfinished_runs: columns.take::<Option<i64>>()?.map(i64::unsigned_abs),
            changed_at: columns.time()?,
        })
    };
    rows.iter().map(read).collect()
}

fn list(names: &[Name]) -> String {
    let names: Vec<&str> = names.iter().map(Name::as_str).collect();
    serde_json::to_string(&names).expect("names are text")
}

const WRITE_AUDIT: &str = "INSERT INTO tenure.audit (n, at, tenant, workspace, actor, action, object, \
        code, times, before, after, request, seal) \
    SELECT coalesce((SELECT max(n) FROM tenure.audit), 0) + 1, $1, $2, $3, $4, $5, $6, $7, $8, $9, \
        $10, $11, $12";

async fn write_audit(client: &Client, audit: &Audit) -> Read<()> {
    // The count saturates at the column's maximum.
    let (at, times) = (audit.at.millis(), i32::try_from(audit.times).unwrap_or(i32::MAX));
    let (tenant, workspace) = (audit.scope.tenant.as_str(), audit.scope.workspace.as_str());
    let (actor, action) = (audit.actor.as_str(), audit.action.as_str());
    let (object, code) = (audit.object.as_str(), audit.code.as_ref().map(Name::as_str));
    let before = audit.before.as_ref().map(|digest| &digest.bytes()[..]);
    let after = audit.after.as_ref().map(|digest| &digest.bytes()[..]);
    let request = audit.request.as_ref().map(Name::as_str);
    let seal = audit.seal.as_ref().map(|seal| &seal.0[..]);
    let parameters: [Parameter<'_>; 12] = [
        (&at, Type::INT8),
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
        (&actor, Type::TEXT),
        (&action, Type::TEXT),
        (&object, Type::TEXT),
        (&code, Type::TEXT),
        (&times, Type::INT4),
        (&before, Type::BYTEA),
        (&after, Type::BYTEA),
        (&request, Type::TEXT),
        (&seal, Type::BYTEA),
    ];
    client.execute_typed(WRITE_AUDIT, &parameters).await?;
    Ok(())
}

async fn api_keys(client: &Client) -> Read<Vec<ApiKey>> {
    let sql = "SELECT id, tenant, workspace, roles, digest, created_at, name, queues, expires_at, \
        revoked_at, previous, previous_until, last_used_at FROM tenure.api_keys ORDER BY id COLLATE \"C\"";
    let rows = client.query_typed(sql, &[]).await?;
    rows.iter().map(|row| Ok(api_key(&mut Columns::of(row))?)).collect()
}

fn api_key(columns: &mut Columns<'_>) -> Result<ApiKey, Failure> {
    Ok(ApiKey {
        id: columns.name()?,
        scope: columns.scope()?,
        roles: {
            let roles: &str = columns.take()?;
            names(columns, roles)?
        },
        digest: columns.digest()?,
        created_at: columns.time()?,
        name: columns.optional_text()?,
        queues: {
            let queues: Option<&str> = columns.take()?;
            queues.map(|queues| names(columns, queues)).transpose()?
        },
        expires_at: columns.optional_time()?,
        revoked_at: columns.optional_time()?,
        previous: {
            let digest = columns.optional_digest()?;
            let until = columns.optional_time()?;
            digest.zip(until).map(|(digest, until)| PreviousSecret { digest, until })
        },
        last_used_at: columns.optional_time()?,
    })
}

fn names(columns: &Columns<'_>, text: &str) -> Result<Vec<Name>, Failure> {
    let names: Vec<String> =
        serde_json::from_str(text).map_err(|error| columns.unreadable(error))?;
    Ok(names.into_iter().map(Name::from).collect())
}

pub(super) async fn audit(client: &Client, filter: &AuditFilter) -> Read<Vec<Audited>> {
    let before = filter.before.and_then(|n| i64::try_from(n).ok()).unwrap_or(i64::MAX);
    let limit = as_limit(filter.limit);
    let tenant = filter.tenant.as_ref().map(Name::as_str);
    let workspace = filter.workspace.as_ref().map(Name::as_str);
    let sql = "SELECT n, at, tenant, workspace, actor, action, object, code, times, before, after, \
            request, seal FROM tenure.audit \
        WHERE n < $1 AND ($3::text IS NULL OR tenant = $3) AND ($4::text IS NULL OR workspace = $4) \
        ORDER BY n DESC LIMIT $2";
    let parameters: [Parameter<'_>; 4] = [
        (&before, Type::INT8),
        (&limit, Type::INT8),
        (&tenant, Type::TEXT),
        (&workspace, Type::TEXT),
    ];
    let rows = client.query_typed(sql, &parameters).await?;
    rows.iter().map(|row: &Row| Ok(audited(&mut Columns::of(row))?)).collect()
}

fn audited(columns: &mut Columns<'_>) -> Result<Audited, Failure> {
    let n: i64 = columns.take()?;
    let audit = Audit {
        at: columns.time()?,
        scope: columns.scope()?,
        actor: columns.name()?,
        action: columns.name()?,
        object: columns.take::<&str>()?.into(),
        code: columns.optional_name()?,
        times: columns.count()?,
        before: columns.optional_digest()?,
        after: columns.optional_digest()?,
        request: columns.optional_name()?,
        seal: columns.optional_fixed::<{ Seal::BYTES }>()?.map(Seal),
    };
    Ok(Audited { n: n.unsigned_abs(), audit })
}
