//! Seals over records, and ended tasks as their sealer reads them.

use std::sync::LazyLock;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use verdict::Name;

use super::Parameter;
use crate::administration::Seal;
use crate::columns::listed_spec;
use crate::failure::Failure;
use crate::postgres::reads::{Client, Read, as_limit};
use crate::postgres::rows::{self, Columns, id_bytes};
use crate::record_seals::{
    EndedRecord, EndedRecords, Leaf, RecordSeal, SealFilter, SealsOf, leaf_digest, leaves_of,
};
use crate::row::Bodies;

const WRITE: &str = "INSERT INTO tenure.record_seals (tenant, n, at, complete_to, first_end, last_end, count, \
        root, chain, seal, leaves) \
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11 \
    WHERE (SELECT coalesce(max(n), 0) + 1 FROM tenure.record_seals WHERE tenant = $1) = $2";

/// Writes a seal, unless it does not follow the newest one of its tenant. Acts are serialised, so none comes between.
pub(super) async fn write(client: &Client, seal: &RecordSeal) -> Read<()> {
    let (tenant, n) = (seal.tenant.as_str(), i64::try_from(seal.n).unwrap_or(i64::MAX));
    let (at, complete_to) = (seal.at.millis(), seal.complete_to.millis());
    let (first_end, last_end) = (seal.first_end.millis(), seal.last_end.millis());
    let count = i64::from(seal.count);
    let (root, chain) = (&seal.root.bytes()[..], &seal.chain.bytes()[..]);
    let (code, leaves) = (&seal.seal.0[..], seal.leaf_bytes());
    let parameters: [Parameter<'_>; 11] = [
        (&tenant, Type::TEXT),
        (&n, Type::INT8),
        (&at, Type::INT8),
        (&complete_to, Type::INT8),
        (&first_end, Type::INT8),
        (&last_end, Type::INT8),
        (&count, Type::INT8),
        (&root, Type::BYTEA),
        (&chain, Type::BYTEA),
        (&code, Type::BYTEA),
        (&leaves, Type::BYTEA),
    ];
    client.execute_typed(WRITE, &parameters).await?;
    Ok(())
}

const SEALS: &str = "SELECT tenant, n, at, complete_to, first_end, last_end, count, root, chain, seal, \
        CASE WHEN last_end >= $1 AND first_end <= $2 THEN leaves ELSE ''::bytea END \
    FROM tenure.record_seals s \
    WHERE (tenant, n) > ($3, $4) AND ($5::text IS NULL OR tenant = $5) \
        AND (NOT $7 OR n = (SELECT max(n) FROM tenure.record_seals m WHERE m.tenant = s.tenant)) \
    ORDER BY tenant, n LIMIT $6";

pub(in crate::postgres) async fn seals(
    client: &Client,
    filter: &SealFilter,
) -> Read<Vec<RecordSeal>> {
    let (newest, after) = match &filter.of {
        SealsOf::Newest => (true, None),
        SealsOf::After(after) => (false, after.as_ref()),
    };
    let (from, to) = filter.leaves.bounds();
    let after_tenant = after.map_or("", |(tenant, _)| tenant.as_str());
    let after_n = after.map_or(0, |(_, n)| i64::try_from(*n).unwrap_or(i64::MAX));
    let tenant = filter.tenant.as_ref().map(Name::as_str);
    let limit = as_limit(filter.limit);
    let parameters: [Parameter<'_>; 7] = [
        (&from, Type::INT8),
        (&to, Type::INT8),
        (&after_tenant, Type::TEXT),
        (&after_n, Type::INT8),
        (&tenant, Type::TEXT),
        (&limit, Type::INT8),
        (&newest, Type::BOOL),
    ];
    let rows = client.query_typed(SEALS, &parameters).await?;
    rows.iter().map(|row| Ok(seal(&mut Columns::of(row))?)).collect()
}

fn seal(columns: &mut Columns<'_>) -> Result<RecordSeal, Failure> {
    Ok(RecordSeal {
        tenant: columns.name()?,
        n: columns.take::<i64>()?.unsigned_abs(),
        at: columns.time()?,
        complete_to: columns.time()?,
        first_end: columns.time()?,
        last_end: columns.time()?,
        count: u32::try_from(columns.take::<i64>()?).unwrap_or(u32::MAX),
        root: columns.digest()?,
        chain: columns.digest()?,
        seal: Seal(columns.take::<&[u8]>()?.try_into().unwrap_or([0; Seal::BYTES])),
        leaves: leaves_of(columns.take::<&[u8]>()?),
    })
}

static ENDED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT i.tenant, i.id, d.completed_at, d.record, {} FROM tenure.done d \
         JOIN tenure.inputs i ON i.id = d.id",
        listed_spec(Bodies::default())
    )
});

pub(in crate::postgres) async fn ended(
    client: &Client,
    of: &EndedRecords,
) -> Read<Vec<EndedRecord>> {
    let rows = match of {
        EndedRecords::Of(ids) => {
            let ids: Vec<Vec<u8>> = ids.iter().map(|id| id_bytes(*id).to_vec()).collect();
            let sql = format!("{} WHERE d.id = ANY ($1)", *ENDED);
            client.query_typed(&sql, &[(&ids, Type::BYTEA_ARRAY)]).await?
        }
        EndedRecords::Since { from, after, limit } => {
            let since = after.map_or(from.millis(), |(at, _)| at.millis());
            let id = after.map_or(Vec::new(), |(_, id)| id_bytes(id).to_vec());
            let limit = as_limit(*limit);
            let sql = format!(
                "{} WHERE d.completed_at >= $1 AND (d.completed_at, d.id) > ($1, $2) \
                 ORDER BY d.completed_at, d.id LIMIT $3",
                *ENDED
            );
            let parameters: [Parameter<'_>; 3] =
                [(&since, Type::INT8), (&id, Type::BYTEA), (&limit, Type::INT8)];
            client.query_typed(&sql, &parameters).await?
        }
    };
    rows.iter().map(|row: &Row| Ok(ended_row(&mut Columns::of(row))?)).collect()
}

fn ended_row(columns: &mut Columns<'_>) -> Result<EndedRecord, Failure> {
    let (tenant, task) = (columns.name()?, columns.task_id()?);
    let (completed_at, record) = (columns.time()?, columns.digest()?);
    let digest = leaf_digest(&record, &rows::spec(columns)?);
    Ok(EndedRecord { tenant, completed_at, leaf: Leaf { task, digest } })
}
