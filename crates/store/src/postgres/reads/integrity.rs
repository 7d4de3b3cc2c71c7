//! Rows without their counterparts, over whole tables.

use super::{Client, Read};
use crate::postgres::connection::session;
use crate::postgres::rows::Columns;

/// Inconsistent rows that a check of a single task would not find.
const STRAYS: [(&str, &str); 15] = [
    (
        "submitted tasks are neither live nor done",
        "SELECT count(*) FROM tenure.inputs i \
         WHERE NOT EXISTS (SELECT 1 FROM tenure.live l WHERE l.id = i.id) \
            AND NOT EXISTS (SELECT 1 FROM tenure.done d WHERE d.id = i.id)",
    ),
    (
        "tasks are both live and done",
        "SELECT count(*) FROM tenure.live JOIN tenure.done USING (id)",
    ),
    (
        "live tasks were never submitted in their scope",
        "SELECT count(*) FROM tenure.live l WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (l.id, l.tenant, l.workspace))",
    ),
    (
        "ended tasks were never submitted in their scope",
        "SELECT count(*) FROM tenure.done d WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (d.id, d.tenant, d.workspace))",
    ),
    (
        "history entries belong to no task of their scope",
        "SELECT count(*) FROM tenure.history h WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (h.task, h.tenant, h.workspace))",
    ),
    (
        "attempts belong to no task of their scope",
        "SELECT count(*) FROM tenure.attempts a WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (a.task, a.tenant, a.workspace))",
    ),
    (
        "keys belong to no task of their scope",
        "SELECT count(*) FROM tenure.keys k WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (k.task, k.tenant, k.workspace))",
    ),
    (
        "checkpoints belong to no task of their scope",
        "SELECT count(*) FROM tenure.checkpoints c WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (c.task, c.tenant, c.workspace))",
    ),
    (
        "recorded children belong to no task of their scope",
        "SELECT count(*) FROM tenure.children k WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (k.task, k.tenant, k.workspace))",
    ),
    (
        "signals belong to no task of their scope",
        "SELECT count(*) FROM tenure.signals s WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (s.task, s.tenant, s.workspace))",
    ),
    (
        "logs belong to no task of their scope",
        "SELECT count(*) FROM tenure.logs g WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (g.task, g.tenant, g.workspace))",
    ),
    (
        "steps of plans belong to no task of their scope",
        "SELECT count(*) FROM tenure.steps p WHERE NOT EXISTS (SELECT 1 FROM tenure.inputs i \
            WHERE (i.id, i.tenant, i.workspace) = (p.task, p.tenant, p.workspace))",
    ),
    (
        "edges of plans join no steps",
        "SELECT count(*) FROM tenure.edges e WHERE NOT EXISTS (SELECT 1 FROM tenure.steps p \
            WHERE p.task = e.task AND p.key = e.upstream) \
            OR NOT EXISTS (SELECT 1 FROM tenure.missing_upstreams m \
            WHERE m.task = e.task AND m.key = e.downstream)",
    ),
    (
        "steps whose edges are not those of their plan",
        "SELECT count(*) FROM tenure.steps p \
         LEFT JOIN (SELECT task, downstream, count(*) AS n FROM tenure.edges GROUP BY task, downstream) e \
            ON e.task = p.task AND e.downstream = p.key \
         WHERE json_array_length(p.upstreams::json) <> coalesce(e.n, 0)",
    ),
    (
        "items of waits belong to no waiting task of their scope",
        "SELECT count(*) FROM tenure.waits w WHERE NOT EXISTS (SELECT 1 FROM tenure.live l \
            WHERE (l.id, l.tenant, l.workspace) = (w.task, w.tenant, w.workspace) AND l.waiting IS NOT NULL)",
    ),
];

pub(super) async fn check(client: &Client) -> Read<Vec<String>> {
    client.batch_execute(session::WHOLE_TABLES).await?;
    let mut lines = Vec::new();
    for (what, sql) in STRAYS {
        let rows = client.query_typed(sql, &[]).await?;
        let count: i64 = Columns::of(&rows[0]).take()?;
        if count > 0 {
            lines.push(format!("{count} {what}"));
        }
    }
    Ok(lines)
}
