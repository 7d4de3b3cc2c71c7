//! Seals over records, and ended tasks as their sealer reads them.

use std::sync::LazyLock;

use rusqlite::{Connection, params};
use verdict::{Name, TaskId};

use super::readers::Read;
use super::rows::{self, Columns, id_bytes};
use crate::administration::Seal;
use crate::columns::listed_spec;
use crate::record_seals::{
    EndedRecord, EndedRecords, Leaf, RecordSeal, SealFilter, SealsOf, leaf_digest, leaves_of,
};
use crate::row::Bodies;

/// Writes a seal, unless it does not follow the newest one of its tenant.
pub(super) fn write(connection: &Connection, seal: &RecordSeal) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO record_seals (tenant, n, at, complete_to, first_end, last_end, count, root, chain, seal,
                leaves)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
             WHERE (SELECT coalesce(max(n), 0) + 1 FROM record_seals WHERE tenant = ?1) = ?2",
        )?
        .execute(params![
            seal.tenant.as_str(),
            i64::try_from(seal.n).unwrap_or(i64::MAX),
            seal.at.millis(),
            seal.complete_to.millis(),
            seal.first_end.millis(),
            seal.last_end.millis(),
            seal.count,
            seal.root.bytes(),
            seal.chain.bytes(),
            seal.seal.0,
            seal.leaf_bytes(),
        ])?;
    Ok(())
}

pub(super) fn seals(connection: &Connection, filter: &SealFilter) -> Read<Vec<RecordSeal>> {
    let (newest, after) = match &filter.of {
        SealsOf::Newest => (true, None),
        SealsOf::After(after) => (false, after.as_ref()),
    };
    let (from, to) = filter.leaves.bounds();
    let sql = format!(
        "SELECT tenant, n, at, complete_to, first_end, last_end, count, root, chain, seal,
            CASE WHEN last_end >= ?1 AND first_end <= ?2 THEN leaves ELSE x'' END
         FROM record_seals s
         WHERE (tenant, n) > (?3, ?4) AND {} AND {} ORDER BY tenant, n LIMIT ?6",
        if filter.tenant.is_some() { "tenant = ?5" } else { "?5 IS NULL" },
        if newest {
            "n = (SELECT max(n) FROM record_seals m WHERE m.tenant = s.tenant)"
        } else {
            "1"
        },
    );
    let parameters = params![
        from,
        to,
        after.map_or("", |(tenant, _)| tenant.as_str()),
        after.map_or(0, |(_, n)| i64::try_from(*n).unwrap_or(i64::MAX)),
        filter.tenant.as_ref().map(Name::as_str),
        i64::try_from(filter.limit).unwrap_or(i64::MAX),
    ];
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(parameters, |row| seal(&mut Columns::of(row)))?.collect()
}

fn seal(columns: &mut Columns<'_>) -> rusqlite::Result<RecordSeal> {
    Ok(RecordSeal {
        tenant: columns.name()?,
        n: columns.take::<i64>()?.unsigned_abs(),
        at: columns.time()?,
        complete_to: columns.time()?,
        first_end: columns.time()?,
        last_end: columns.time()?,
        count: columns.take()?,
        root: columns.digest()?,
        chain: columns.digest()?,
        seal: Seal(columns.take()?),
        leaves: leaves_of(&columns.take::<Vec<u8>>()?),
    })
}

static ENDED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT n.tenant, i.id, d.completed_at, d.record, {} FROM done d
         JOIN inputs i ON i.row = d.row JOIN lanes n ON n.lane = i.lane",
        listed_spec(Bodies::default())
    )
});

pub(super) fn ended(connection: &Connection, of: &EndedRecords) -> Read<Vec<EndedRecord>> {
    match of {
        EndedRecords::Of(ids) => {
            let mut statement =
                connection.prepare_cached(&format!("{} WHERE i.id = ?1", *ENDED))?;
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                let rows = statement.query_map([id_bytes(*id)], ended_row)?;
                found.extend(rows.collect::<Result<Vec<_>, _>>()?);
            }
            Ok(found)
        }
        // In the order of submission: the table is walked once, from its beginning to its end.
        EndedRecords::Since { from, after, limit } => {
            let sql = format!(
                "{} WHERE d.row > coalesce((SELECT row FROM inputs WHERE id = ?1), 0) AND d.completed_at >= ?2
                 ORDER BY d.row LIMIT ?3",
                *ENDED
            );
            let after = after.map_or(Vec::new(), |(_, id)| id_bytes(id).to_vec());
            let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_map(params![after, from.millis(), limit], ended_row)?.collect()
        }
    }
}

fn ended_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<EndedRecord> {
    let mut columns = Columns::of(row);
    let tenant = columns.name()?;
    let task = TaskId::from_u128(u128::from_be_bytes(columns.take()?));
    let (completed_at, record) = (columns.time()?, columns.digest()?);
    let digest = leaf_digest(&record, &rows::spec(&mut columns)?);
    Ok(EndedRecord { tenant, completed_at, leaf: Leaf { task, digest } })
}
