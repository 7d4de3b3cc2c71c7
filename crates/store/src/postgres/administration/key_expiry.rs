//! Removes idempotency keys of tasks that ended long ago, a page at a time.
//!
//! The rules define how long a key counts. An expired key has no effect, so removing it changes no answer. Every
//! coordinator scans the table in key order and starts again at the end. A page that was mostly expired is followed
//! by the next at once, so the table holds at most about twice the keys that count.

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};
use verdict::{Retention, Time};

use crate::postgres::connection::session;
use crate::postgres::scopes;

/// Keys per statement.
const PAGE: i64 = 2_000;
/// Pages per run: far more keys than are written between two runs.
const PAGES_MAX: usize = 50;

/// The position of the scan.
#[derive(Default)]
pub(in crate::postgres) struct KeyExpiry {
    after: (String, String, String),
}

impl KeyExpiry {
    /// Scans a page, or more if many keys are expired.
    pub(in crate::postgres) async fn run(
        &mut self,
        client: &Client,
        now: Time,
    ) -> Result<(), tokio_postgres::Error> {
        for _ in 0..PAGES_MAX {
            if self.page(client, now).await? * 2 < PAGE as u64 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns how many keys were removed.
    async fn page(&mut self, client: &Client, now: Time) -> Result<u64, tokio_postgres::Error> {
        client.batch_execute(session::BEGIN).await?;
        client.query_typed(scopes::SET, &[(&scopes::ALL, Type::TEXT)]).await?;
        let left = self.walk(client, now).await;
        client.batch_execute(if left.is_ok() { "END" } else { "ROLLBACK" }).await?;
        left
    }

    async fn walk(&mut self, client: &Client, now: Time) -> Result<u64, tokio_postgres::Error> {
        let select = "SELECT k.tenant, k.workspace, k.key, k.task, d.completed_at FROM tenure.keys k \
            LEFT JOIN tenure.done d ON d.id = k.task \
            WHERE (k.tenant, k.workspace, k.key) > ($1, $2, $3) \
            ORDER BY k.tenant, k.workspace, k.key LIMIT $4";
        let (tenant, workspace, key) = &self.after;
        let parameters: [(&(dyn ToSql + Sync), Type); 4] =
            [(tenant, Type::TEXT), (workspace, Type::TEXT), (key, Type::TEXT), (&PAGE, Type::INT8)];
        let rows = client.query_typed(select, &parameters).await?;
        let mut old: [Vec<String>; 3] = Default::default();
        let mut tasks: Vec<Vec<u8>> = Vec::new();
        for row in &rows {
            let ended: Option<i64> = row.try_get(4)?;
            let ended = ended.map(|at| Time::from_millis(at).plus(Retention::AGE_MIN));
            if ended.is_some_and(|until| until.has_come(now)) {
                for (at, column) in old.iter_mut().enumerate() {
                    column.push(row.try_get(at)?);
                }
                tasks.push(row.try_get(3)?);
            }
        }
        self.after = match rows.last().filter(|_| rows.len() as i64 == PAGE) {
            Some(last) => (last.try_get(0)?, last.try_get(1)?, last.try_get(2)?),
            None => Default::default(),
        };
        if tasks.is_empty() {
            return Ok(0);
        }
        // Deletes a key only if it still belongs to the same task: it may have been used again in the meantime.
        let delete = "DELETE FROM tenure.keys k \
            USING unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) AS u(tenant, workspace, key, task) \
            WHERE k.tenant = u.tenant AND k.workspace = u.workspace AND k.key = u.key AND k.task = u.task";
        let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
            (&old[0], Type::TEXT_ARRAY),
            (&old[1], Type::TEXT_ARRAY),
            (&old[2], Type::TEXT_ARRAY),
            (&tasks, Type::BYTEA_ARRAY),
        ];
        client.execute_typed(delete, &parameters).await
    }
}
