//! The engine's own check of its file: what SQLite says, and rows without their counterparts.

use rusqlite::Connection;

use super::readers::Read;

/// How many findings of the engine's own check are reported; one is enough to show damage.
const INTEGRITY_MAX: usize = 100;

pub(super) fn integrity(connection: &Connection) -> Read<Vec<String>> {
    let sql = format!("PRAGMA integrity_check({INTEGRITY_MAX})");
    let mut statement = connection.prepare(&sql)?;
    let lines: Read<Vec<String>> = statement.query_map([], |row| row.get(0))?.collect();
    let mut lines: Vec<String> = lines?.into_iter().filter(|line| line != "ok").collect();
    for (what, sql) in STRAYS {
        let count: i64 = connection.query_row(sql, [], |row| row.get(0))?;
        if count > 0 {
            lines.push(format!("{count} {what}"));
        }
    }
    Ok(lines)
}

/// Rows without their counterparts, which the check of a single task cannot find.
const STRAYS: [(&str, &str); 17] = [
    (
        "tasks belong to no run",
        "SELECT count(*) FROM inputs i WHERE i.root IS NOT NULL AND NOT EXISTS
            (SELECT 1 FROM inputs r JOIN inputs p ON p.id = i.parent WHERE r.id = i.root)",
    ),
    (
        "tasks have a parent in one table and none in another",
        "SELECT count(*) FROM inputs i LEFT JOIN live l ON l.row = i.row
         LEFT JOIN done d ON d.row = i.row
         WHERE (i.root IS NULL) <> (coalesce(l.run, d.run) ->> '$.lineage.child' IS NULL)",
    ),
    (
        "checkpoints belong to no task",
        "SELECT count(*) FROM checkpoints c
         WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = c.task)",
    ),
    (
        "children belong to no task",
        "SELECT count(*) FROM children k WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = k.task)",
    ),
    (
        "signals belong to no task",
        "SELECT count(*) FROM signals s WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = s.task)",
    ),
    (
        "logs belong to no task",
        "SELECT count(*) FROM logs g WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE id = g.task)",
    ),
    (
        "steps of plans belong to no task",
        "SELECT count(*) FROM steps p WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = p.task)",
    ),
    (
        "edges of plans join no steps",
        "SELECT count(*) FROM edges e WHERE NOT EXISTS
            (SELECT 1 FROM steps WHERE task = e.task AND key = e.upstream)
         OR NOT EXISTS (SELECT 1 FROM missing_upstreams WHERE task = e.task AND key = e.downstream)",
    ),
    (
        "steps whose edges are not those of their plan",
        "SELECT count(*) FROM steps p
         LEFT JOIN (SELECT task, downstream, count(*) AS n FROM edges GROUP BY task, downstream) e
            ON e.task = p.task AND e.downstream = p.key
         WHERE json_array_length(p.upstreams) <> coalesce(e.n, 0)",
    ),
    (
        "submitted tasks are neither live nor done",
        "SELECT count(*) FROM inputs i WHERE NOT EXISTS (SELECT 1 FROM live WHERE row = i.row)
            AND NOT EXISTS (SELECT 1 FROM done WHERE row = i.row)",
    ),
    ("tasks are both live and done", "SELECT count(*) FROM live JOIN done USING (row)"),
    (
        "live tasks were never submitted under their id",
        "SELECT count(*) FROM live l
         WHERE NOT EXISTS (SELECT 1 FROM inputs i WHERE i.row = l.row AND i.id = l.id)",
    ),
    (
        "ended tasks were never submitted",
        "SELECT count(*) FROM done d WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = d.row)",
    ),
    (
        "history entries belong to no task",
        "SELECT count(*) FROM history h WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = h.task)",
    ),
    (
        "attempts belong to no task",
        "SELECT count(*) FROM attempts a WHERE NOT EXISTS (SELECT 1 FROM inputs WHERE row = a.task)",
    ),
    (
        "tasks wait under a queue key that does not exist",
        "SELECT count(*) FROM inputs i WHERE NOT EXISTS (SELECT 1 FROM lanes WHERE lane = i.lane)",
    ),
    (
        "tasks are in blocks that no list visits",
        "SELECT count(*) FROM inputs i WHERE NOT EXISTS
            (SELECT 1 FROM lane_blocks WHERE lane = i.lane AND block = i.row >> 6)",
    ),
];
