//! The coordinators of the store: one row each. Operators read these rows, and coordinators use them to share the
//! rates of tenants and to agree on a version of the rules. They decide nothing else.
//!
//! In this folder: the hints that peers send each other, and the version of the rules that they agree on.

pub(super) mod hints;
pub(super) mod rules;

use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type};
use verdict::rules::pending_version;
use verdict::{Span, SupportedRules, Text, Time};

use super::opening::RANDOM_ID;
use super::reads::{Client, Read};
use super::rows::Columns;
use super::{Shared, scopes};
use crate::failure::{CommitFailure, Failure, FailureKind};

/// Maximum number of coordinators in the list, most recent first.
const SHOWN_MAX: i64 = 200;

/// A coordinator's writer, as its peers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub name: Text,
    pub version: Text,
    /// The versions of the rules that it can decide by.
    pub supported_rules: SupportedRules,
    pub started_at: Time,
    /// When it last recorded its presence.
    pub seen_at: Time,
    /// When it recorded that it was stopping.
    pub stopped_at: Option<Time>,
    pub last_commit_at: Option<Time>,
    /// The database's time at which this was read.
    pub read_at: Time,
}

impl Peer {
    /// Whether it counts as alive: it recorded its presence or committed a batch within [`PEER_TIMEOUT`], and has not
    /// recorded a stop.
    pub fn is_alive(&self) -> bool {
        let heard_at = self.last_commit_at.map_or(self.seen_at, |at| at.max(self.seen_at));
        self.stopped_at.is_none() && self.read_at.since(heard_at) < PEER_TIMEOUT
    }
}

/// A newer version of the rules that is not in force yet, and the peers that lack it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRules {
    pub version: u32,
    pub lacking: Vec<Text>,
}

/// The version that waits for these peers, while `in_force` is in force.
pub fn pending_rules(in_force: u32, peers: &[Peer]) -> Option<PendingRules> {
    let living: Vec<&Peer> = peers.iter().filter(|peer| peer.is_alive()).collect();
    let known: Vec<SupportedRules> = living.iter().map(|peer| peer.supported_rules).collect();
    let waiting = pending_version(in_force, &known)?;
    let mut lacking: Vec<Text> =
        waiting.lacking.into_iter().map(|place| living[place].name.clone()).collect();
    lacking.sort_unstable();
    lacking.dedup();
    Some(PendingRules { version: waiting.version, lacking })
}

/// Registers a writer and returns the id that marks its batches. Fails if the writer does not support the rules in
/// force.
pub(super) async fn register(shared: &Arc<Shared>) -> Result<[u8; 16], Failure> {
    let (name, now, supported_rules) =
        (shared.name.clone(), shared.clock.now(), shared.rules.known());
    let write = move |client: Client| async move {
        let in_force = rules::join(&client, supported_rules, now).await?;
        let (version, now) = (env!("CARGO_PKG_VERSION"), now.millis());
        let (newest, oldest) = (supported_rules.newest() as i32, supported_rules.oldest() as i32);
        let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
            (&name, Type::TEXT),
            (&version, Type::TEXT),
            (&newest, Type::INT4),
            (&now, Type::INT8),
            (&oldest, Type::INT4),
        ];
        let sql = format!(
            "INSERT INTO tenure.committers \
                (committer, name, version, rules, started_at, seen_at, oldest_rules) \
             VALUES ({RANDOM_ID}, $1, $2, $3, $4, $4, $5) RETURNING committer"
        );
        let rows = client.query_typed(&sql, &parameters).await?;
        Ok((Columns::of(&rows[0]).u128_bytes()?.to_be_bytes(), in_force))
    };
    let joined = shared.in_own_transaction("joining the other coordinators", write).await;
    let (committer, in_force) = joined.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => failure,
    })?;
    shared.rules.observe(in_force);
    shared.primary.acknowledge_join(committer);
    Ok(committer)
}

/// An id for the batches of a further writer of a registered coordinator.
pub(super) async fn new_committer_id(shared: &Arc<Shared>) -> Result<[u8; 16], Failure> {
    let draw = move |client: Client| async move {
        let rows = client.query_typed(&format!("SELECT {RANDOM_ID}"), &[]).await?;
        Ok(Columns::of(&rows[0]).u128_bytes()?.to_be_bytes())
    };
    shared.read_for_writer("naming a second writer", draw).await
}

/// The database's clock, and the latest time at which any coordinator recorded its presence.
pub(super) async fn times(
    client: &tokio_postgres::Client,
) -> Result<(Time, Option<Time>), tokio_postgres::Error> {
    let sql = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8, \
        (SELECT max(c.seen_at) FROM tenure.committers c)";
    let rows = client.query_typed(sql, &[]).await?;
    let said: Option<i64> = rows[0].try_get(1)?;
    Ok((Time::from_millis(rows[0].try_get(0)?), said.map(Time::from_millis)))
}

/// How many markers of a writer are kept. The last one must be: a failover is judged by it, and it prevents late
/// commits of the writer's earlier batches. The others are for diagnosis.
const MARKERS_KEPT: i64 = 100;

/// Records the presence of these writers, and deletes their old markers.
pub(super) async fn record_presence(
    client: &tokio_postgres::Client,
    committers: &[[u8; 16]],
    now: Time,
) -> Result<(), tokio_postgres::Error> {
    let (ids, now): (Vec<&[u8]>, i64) =
        (committers.iter().map(|id| &id[..]).collect(), now.millis());
    let present = "UPDATE tenure.committers SET seen_at = $2 WHERE committer = ANY ($1)";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&ids, Type::BYTEA_ARRAY), (&now, Type::INT8)];
    client.execute_typed(present, &parameters).await?;
    let clear = "DELETE FROM tenure.batches b WHERE b.committer = ANY ($1) AND b.n < \
        (SELECT max(m.n) FROM tenure.batches m WHERE m.committer = b.committer) - $2";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&ids, Type::BYTEA_ARRAY), (&MARKERS_KEPT, Type::INT8)];
    client.execute_typed(clear, &parameters).await?;
    Ok(())
}

/// Records that a writer stops. Best effort: otherwise peers notice after [`PEER_TIMEOUT`].
async fn record_stop(client: &Client, committer: [u8; 16], now: Time) -> Read<()> {
    let (committer, now) = (&committer[..], now.millis());
    let sql = "UPDATE tenure.committers SET seen_at = $2, stopped_at = $2 WHERE committer = $1";
    client.execute_typed(sql, &[(&committer, Type::BYTEA), (&now, Type::INT8)]).await?;
    Ok(())
}

pub(super) fn deregister(shared: &Arc<Shared>, committer: [u8; 16]) {
    let (shared, now) = (shared.clone(), shared.clock.now());
    let runtime = shared.runtime.clone();
    let (end, ended) = tokio::sync::oneshot::channel();
    shared.deregistrations.add(ended);
    runtime.spawn(async move {
        let write = move |client: Client| async move { record_stop(&client, committer, now).await };
        if let Err(failure) = shared.in_own_transaction("leaving the coordinators", write).await {
            tracing::debug!(error = %failure, "cannot record that this writer left");
        }
        // The receiver may be gone.
        let _ = end.send(());
    });
}

/// A coordinator records its presence every five seconds; after three missed intervals it no longer counts as alive.
pub const PEER_TIMEOUT: Span = Span::from_secs(15);

/// Number of live coordinators, this one included.
pub(super) async fn count(client: &Client, now: Time) -> Read<u32> {
    let since = now.millis().saturating_sub(PEER_TIMEOUT.millis() as i64);
    let sql = "SELECT count(*) FROM tenure.committers WHERE stopped_at IS NULL AND seen_at > $1";
    let rows = client.query_typed(sql, &[(&since, Type::INT8)]).await?;
    let there = Columns::of(&rows[0]).take::<i64>()?;
    Ok(u32::try_from(there).unwrap_or(u32::MAX).max(1))
}

pub(super) async fn list(shared: &Arc<Shared>) -> Result<Vec<Peer>, Failure> {
    let read_at = shared.clock.now();
    shared
        .read("listing coordinators", scopes::ALL.to_owned(), move |client| async move {
            let sql = "SELECT c.name, c.version, c.oldest_rules, c.rules, c.started_at, c.seen_at, c.stopped_at, \
                (SELECT b.at FROM tenure.batches b WHERE b.committer = c.committer AND b.at >= 0 \
                    ORDER BY b.n DESC LIMIT 1) \
                FROM tenure.committers c ORDER BY c.started_at DESC, c.committer LIMIT $1";
            let rows = client.query_typed(sql, &[(&SHOWN_MAX, Type::INT8)]).await?;
            let read = |row: &tokio_postgres::Row| {
                let mut columns = Columns::of(row);
                Ok(Peer {
                    name: columns.take::<&str>()?.into(),
                    version: columns.take::<&str>()?.into(),
                    supported_rules: supported_rules(&mut columns)?,
                    started_at: columns.time()?,
                    seen_at: columns.time()?,
                    stopped_at: columns.optional_time()?,
                    last_commit_at: columns.optional_time()?,
                    read_at,
                })
            };
            rows.iter().map(read).collect()
        })
        .await
}

/// The versions of the rules in a row.
pub(super) fn supported_rules(columns: &mut Columns<'_>) -> Result<SupportedRules, Failure> {
    let (oldest, newest) = (columns.count()?, columns.count()?);
    let senseless = || {
        Failure::new(FailureKind::Fatal, "a coordinator's oldest rules are newer than its newest")
    };
    SupportedRules::from_numbers(oldest, newest).ok_or_else(senseless)
}

/// Names of live coordinators, except `but`.
pub(super) async fn live_names(client: &tokio_postgres::Client, but: &str) -> Read<Vec<String>> {
    let sql = "SELECT c.name FROM tenure.committers c WHERE c.stopped_at IS NULL AND c.name <> $1 \
        AND greatest(c.seen_at, (SELECT max(b.at) FROM tenure.batches b \
                WHERE b.committer = c.committer)) \
            > floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 - $2 ORDER BY c.name";
    let silence_max = PEER_TIMEOUT.millis() as i64;
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&but, Type::TEXT), (&silence_max, Type::INT8)];
    let rows = client.query_typed(sql, &parameters).await?;
    rows.iter().map(|row| Ok(Columns::of(row).take()?)).collect()
}
