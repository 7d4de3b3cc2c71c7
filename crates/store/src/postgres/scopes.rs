//! The scopes of a transaction, which row-level security policies compare with every row, and the check at every
//! start that the policies are in force.

use std::collections::BTreeSet;

use tokio_postgres::Client;
use tokio_postgres::types::Type;
use verdict::Scope;

use super::errors::StepError;
use crate::failure::{Failure, FailureKind};

/// Separators between tenant and workspace, and between scopes. Names hold no control characters.
const HALVES: char = '\u{1f}';
const SCOPES: char = '\u{1e}';

/// All scopes, for sweeps, verification and administration.
pub(super) const ALL: &str = "*";

pub(super) const SET: &str = "SELECT set_config('tenure.scopes', $1, true)";

/// The scopes named so far. They only grow within a transaction; `*` holds for one step.
#[derive(Default)]
pub(super) struct Scopes {
    named: BTreeSet<Scope>,
    is_all: bool,
}

impl Scopes {
    /// Adds scopes. Returns the setting that the next statement needs, if it changed.
    pub(super) fn add<'s>(&mut self, scopes: impl Iterator<Item = &'s Scope>) -> Option<String> {
        let before = self.named.len();
        for scope in scopes {
            if !self.named.contains(scope) {
                self.named.insert(scope.clone());
            }
        }
        let is_changed = self.named.len() > before || self.is_all;
        self.is_all = false;
        is_changed.then(|| self.setting())
    }

    pub(super) fn all(&mut self) -> Option<String> {
        (!std::mem::replace(&mut self.is_all, true)).then(|| ALL.to_owned())
    }

    fn setting(&self) -> String {
        let scopes: Vec<String> = self.named.iter().map(setting).collect();
        scopes.join(&SCOPES.to_string())
    }
}

/// One scope in the syntax of the policies.
pub(super) fn setting(scope: &Scope) -> String {
    format!("{}{HALVES}{}", scope.tenant.as_str(), scope.workspace.as_str())
}

/// Every table with rows of tasks or keys.
const SCOPED: [&str; 23] = [
    "inputs",
    "live",
    "done",
    "attempts",
    "history",
    "refused",
    "keys",
    "api_keys",
    "audit",
    "checkpoints",
    "children",
    "signals",
    "waits",
    "messages",
    "record_seals",
    "objects",
    "object_log",
    "steps",
    "edges",
    "missing_upstreams",
    "logs",
    "spend",
    "flow_starts",
];

/// Checks that scopes are isolated: by the catalogue's entries for each table and for the role, and by a trial that
/// is rolled back.
pub(super) async fn check(client: &mut Client) -> Result<(), StepError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute("SET LOCAL ROLE tenure_rows").await?;
    refuse_open_tables(transaction.client()).await?;
    refuse_powers(transaction.client()).await?;
    try_scopes(transaction.client()).await?;
    transaction.rollback().await?;
    Ok(())
}

/// Refuses a table whose policies are not in force, or that has none, or one that is always true.
async fn refuse_open_tables(client: &Client) -> Result<(), StepError> {
    let tables: Vec<&str> = SCOPED.to_vec();
    let sql = "SELECT t.name FROM unnest($1::text[]) AS t(name) \
        LEFT JOIN pg_class c ON c.relname = t.name \
            AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'tenure') \
        WHERE c.relrowsecurity IS NOT TRUE \
            OR (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid \
                AND pg_get_expr(p.polqual, p.polrelid) LIKE '%tenure.scopes()%') <> 1 \
            OR (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid) <> 1 LIMIT 1";
    let rows = client.query_typed(sql, &[(&tables, Type::TEXT_ARRAY)]).await?;
    match rows.first() {
        None => Ok(()),
        Some(row) => {
            let table: &str = row.try_get(0)?;
            let what = format!(
                "row-level security of tenure.{table} is not in force; enable it and restore its policy of_scope"
            );
            Err(Failure::new(FailureKind::Closed, what).into())
        }
    }
}

/// Refuses a role that bypasses the policies.
async fn refuse_powers(client: &Client) -> Result<(), StepError> {
    let sql = "SELECT r.rolsuper OR r.rolbypassrls OR EXISTS (SELECT 1 FROM pg_class c \
            WHERE c.relowner = r.oid AND c.relnamespace = \
                (SELECT oid FROM pg_namespace WHERE nspname = 'tenure')) \
        FROM pg_roles r WHERE r.rolname = 'tenure_rows'";
    let rows = client.query_typed(sql, &[]).await?;
    if rows[0].try_get(0)? {
        let what = "the role tenure_rows can bypass row-level security; revoke superuser, BYPASSRLS \
            and the ownership of tables in schema tenure from it";
        return Err(Failure::new(FailureKind::Closed, what).into());
    }
    Ok(())
}

/// Writes a row, and checks that a query without a scope does not see it.
async fn try_scopes(client: &Client) -> Result<(), StepError> {
    let probe = setting(&Scope::new("tenure.probe", "tenure.probe"));
    let set =
        async |setting: &str| client.query_typed(SET, &[(&setting, Type::TEXT)]).await.map(drop);
    set(&probe).await?;
    client
        .batch_execute(
            "INSERT INTO tenure.inputs (id, tenant, workspace, queue, kind, priority, created_at, \
                fingerprint, input) VALUES ('\\x00000000000000000000000000000000', 'tenure.probe', \
                'tenure.probe', 'probe', 'probe', 0, 0, decode(repeat('00', 32), 'hex'), '{}')",
        )
        .await?;
    set("").await?;
    for table in SCOPED {
        let sql = format!("SELECT 1 FROM tenure.{table} LIMIT 1");
        if !client.query_typed(&sql, &[]).await?.is_empty() {
            let what = format!(
                "a query that names no scope sees rows of tenure.{table}: row-level security is not in force"
            );
            return Err(Failure::new(FailureKind::Closed, what).into());
        }
    }
    set(&probe).await?;
    if client.query_typed("SELECT 1 FROM tenure.inputs", &[]).await?.len() != 1 {
        let what = "a query that names its scope does not see exactly its own rows";
        return Err(Failure::new(FailureKind::Closed, what).into());
    }
    Ok(())
}
