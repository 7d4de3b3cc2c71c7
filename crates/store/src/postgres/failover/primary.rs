//! Which server answers: detects that another server has taken over, and whether it has every acknowledged commit.
//!
//! A standby that takes over begins a new timeline, and so does a database that was restored to an earlier time.
//! Every transaction reads the timeline as it begins, read-only transactions included. A transaction that finds an
//! unknown timeline can never commit, and what it read is not passed on. The change is settled before the next
//! transaction, by the first coordinator that notices it, in one row that all coordinators share:
//!
//! - If commits waited for a standby, and the last commit that was acknowledged to this coordinator is present,
//!   nothing was lost: the WAL of a standby is a prefix of its primary's. Leases continue.
//! - Otherwise acknowledged commits may be lost, leases among them. The epoch is raised: no fence is ever issued
//!   twice, and every earlier lease and token is void.
//!
//! A coordinator that later misses an acknowledged commit is evidence against a change that was accepted as lossless,
//! and raises the epoch then. For an engine without timelines there is no such check.
//!
//! An old primary may keep running, with connections that still lead to it. Once a later timeline of the same system
//! was seen ([`super::failover_watch`]), nothing is read from an earlier one or written to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, SimpleQueryMessage};
use verdict::Time;

use crate::epoch;
use crate::failure::{Failure, FailureKind};
use crate::postgres::batch::commit::Marker;
use crate::postgres::connection::connections::Object;
use crate::postgres::errors::{self, StepError};
use crate::postgres::rows::Columns;
use crate::postgres::{Missing, Shared};

/// Reads the server's timeline: the first eight digits of the name of the WAL file that it is writing.
const TIMELINE: &str = "SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";

/// Reads the server's system identifier and timeline, and whether its commits wait for a standby.
const IDENTITY: &str = "SELECT (SELECT system_identifier FROM pg_control_system())::text, \
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), \
    current_setting('synchronous_standby_names') <> '' \
        AND current_setting('synchronous_commit') NOT IN ('off', 'local')";

/// Identity of a server. It changes with a failover or a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::postgres) struct Identity {
    system: String,
    /// Hexadecimal digits of fixed width, so that they sort as the numbers do.
    timeline: String,
}

impl Identity {
    fn written(&self) -> String {
        format!("{}/{}", self.system, self.timeline)
    }
}

/// The current primary, and the store's epoch.
pub(in crate::postgres) struct Primary {
    /// `None` if the engine has no timelines.
    known_server: Option<Mutex<KnownServer>>,
    epoch: AtomicU32,
    /// An unknown timeline was found, and the change is not settled yet.
    is_unsettled: AtomicBool,
    /// The last acknowledged batch of each writer; [`JOINED`] before its first.
    acknowledged: Mutex<HashMap<[u8; 16], i64>>,
}

/// The server that is the current primary.
struct KnownServer {
    /// The server that was settled last.
    known: Identity,
    /// The latest timeline of its system that was seen.
    latest: String,
}

impl KnownServer {
    fn of(known: Identity) -> Self {
        Self { latest: known.timeline.clone(), known }
    }

    /// Whether a later timeline of the same system was seen.
    fn is_behind(&self, found: &Identity) -> bool {
        found.system == self.known.system && found.timeline < self.latest
    }

    /// Makes this server the current one, unless a later timeline was seen in the meantime.
    fn settle(&mut self, found: Identity) {
        if !self.is_behind(&found) {
            *self = Self::of(found);
        }
    }

    fn is_settled(&self, timeline: &str) -> bool {
        timeline == self.known.timeline && timeline >= self.latest.as_str()
    }
}

const ELSEWHERE: &str =
    "another server than the known primary answered; the next batch finds out which one is current";

const BEHIND: &str = "the database server that answered is an old primary; stop it, or, if it was \
    restored on purpose, restart the coordinators";

/// Stands for the number of a batch: the writer was registered, and no batch of it was acknowledged yet.
const JOINED: i64 = 0;

impl Primary {
    /// Identifies the server when the store is opened. Opening for reads only settles nothing.
    pub(in crate::postgres) async fn open(
        client: &mut Client,
        missing: Missing,
        now: Time,
    ) -> Result<Self, StepError> {
        let found = identity(client).await?;
        let epoch = match &found {
            Some(found) if missing == Missing::Create => {
                settle_with(client, found, &HashMap::new(), now).await?
            }
            _ => stored_epoch(client).await?,
        };
        Ok(Self {
            known_server: found.map(|found| Mutex::new(KnownServer::of(found.identity))),
            epoch: AtomicU32::new(epoch),
            is_unsettled: AtomicBool::new(false),
            acknowledged: Mutex::default(),
        })
    }

    pub(in crate::postgres) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Appends the timeline query to the statements that begin a transaction.
    pub(in crate::postgres) fn with_timeline_query(&self, begin: &str) -> String {
        if self.known_server.is_some() { format!("{begin}; {TIMELINE}") } else { begin.to_owned() }
    }

    /// Checks that the server that answered is the current primary. If it is not, the transaction must not continue.
    pub(in crate::postgres) fn check_timeline(
        &self,
        answer: &[SimpleQueryMessage],
    ) -> Result<(), Failure> {
        let Some(known_server) = &self.known_server else { return Ok(()) };
        let met = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        if met.is_some_and(|met| lock(known_server).is_settled(met)) {
            return Ok(());
        }
        tracing::warn!(?met, "another server answers, or the same server after a restore");
        self.is_unsettled.store(true, Ordering::SeqCst);
        Err(Failure::new(FailureKind::Unavailable, ELSEWHERE))
    }

    /// Records a server that takes writes, as the failover watch saw it. Returns whether it is the latest of its
    /// system.
    pub(in crate::postgres) fn observe(&self, seen: &Identity) -> bool {
        let Some(known_server) = &self.known_server else { return false };
        let mut known_server = lock(known_server);
        if seen.system != known_server.known.system || known_server.is_behind(seen) {
            return false;
        }
        if seen.timeline > known_server.latest {
            tracing::warn!(server = seen.written(), "another server has become primary");
            known_server.latest.clone_from(&seen.timeline);
            self.is_unsettled.store(true, Ordering::SeqCst);
        }
        true
    }

    /// Whether a session outside the pools still leads to the current primary.
    pub(in crate::postgres) async fn is_reached_by(
        &self,
        client: &Client,
    ) -> Result<bool, tokio_postgres::Error> {
        let Some(known_server) = &self.known_server else { return Ok(true) };
        let met = read_identity(client).await?;
        let known_server = lock(known_server);
        Ok(met.is_some_and(|met| met == known_server.known && !known_server.is_behind(&met)))
    }

    /// Records a batch as durable. Called before its callers are answered.
    pub(in crate::postgres) fn acknowledge(&self, marker: Marker) {
        lock(&self.acknowledged).insert(marker.committer, marker.n);
    }

    /// Records the registration of a writer. Called before the registration returns. After a failover this is evidence
    /// to look for, even if the writer never commits a batch.
    pub(in crate::postgres) fn acknowledge_join(&self, committer: [u8; 16]) {
        lock(&self.acknowledged).insert(committer, JOINED);
    }

    /// Removes a stopped writer, and with it the evidence of its commits.
    pub(in crate::postgres) fn forget(&self, committer: &[u8; 16]) {
        lock(&self.acknowledged).remove(committer);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics with it in hand")
}

/// Called before a transaction begins. Determines the current primary, if it has changed.
pub(in crate::postgres) async fn settle_failover(shared: &Shared) -> Result<(), Failure> {
    let primary = &shared.primary;
    let Some(known_server) =
        primary.known_server.as_ref().filter(|_| primary.is_unsettled.load(Ordering::SeqCst))
    else {
        return Ok(());
    };
    // Idle connections may lead to the old server; a new one leads to wherever the address points now.
    shared.drop_idle_connections();
    let doing = |error: StepError| error.while_doing("finding out which server took over");
    let mut client = shared.pool.get().await.map_err(errors::no_connection)?;
    let found = identity(&client).await.map_err(doing)?;
    let gone = || {
        Failure::new(FailureKind::Unavailable, "the server does not report its timeline any more")
    };
    let found = found.ok_or_else(gone)?;
    if lock(known_server).is_behind(&found.identity) {
        drop(Object::take(client));
        return Err(Failure::new(FailureKind::Unavailable, BEHIND));
    }
    let is_new = lock(known_server).known != found.identity;
    if is_new {
        let acknowledged = lock(&primary.acknowledged).clone();
        let now = shared.clock.now();
        let epoch = settle_with(&mut client, &found, &acknowledged, now).await.map_err(doing)?;
        let before = primary.epoch.swap(epoch, Ordering::SeqCst);
        let server = found.identity.written();
        tracing::warn!(server, before, epoch, "followed a failover to another server");
        // Candidates may come from commits that are lost.
        shared.memory().candidates.forget_all();
    }
    primary.is_unsettled.store(false, Ordering::SeqCst);
    lock(known_server).settle(found.identity);
    Ok(())
}

struct ServerState {
    identity: Identity,
    /// Whether a commit waits for a standby.
    waits: bool,
}

/// `None` if the engine lacks these functions.
async fn identity(client: &Client) -> Result<Option<ServerState>, StepError> {
    let rows = match client.query_typed(IDENTITY, &[]).await {
        Ok(rows) => rows,
        Err(error) if is_unknown(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut columns = Columns::of(&rows[0]);
    let identity = Identity { system: columns.take()?, timeline: columns.take()? };
    Ok(Some(ServerState { identity, waits: columns.take()? }))
}

/// The server's identity, if it takes writes.
pub(in crate::postgres) async fn read_identity(
    client: &Client,
) -> Result<Option<Identity>, tokio_postgres::Error> {
    let sql = "SELECT (SELECT system_identifier FROM pg_control_system())::text, CASE WHEN pg_is_in_recovery() \
        THEN NULL ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END";
    let rows = client.query_typed(sql, &[]).await?;
    let (system, timeline) = (rows[0].try_get(0)?, rows[0].try_get::<_, Option<String>>(1)?);
    Ok(timeline.map(|timeline| Identity { system, timeline }))
}

pub(in crate::postgres) fn is_unknown(error: &tokio_postgres::Error) -> bool {
    let unknown = [
        SqlState::UNDEFINED_FUNCTION,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_OBJECT,
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::INSUFFICIENT_PRIVILEGE,
    ];
    error.code().is_some_and(|code| unknown.contains(code))
}

async fn stored_epoch(client: &Client) -> Result<u32, StepError> {
    let rows = client.query_typed("SELECT epoch FROM tenure.meta", &[]).await?;
    Ok(Columns::of(&rows[0]).count()?)
}

/// The server as the store recorded it.
struct StoredServer {
    epoch: u32,
    server: Option<String>,
    waits: bool,
    /// The server for which the epoch was raised.
    raised_for: Option<String>,
}

/// Settles a change under the lock of the shared row, so that each change is settled once.
async fn settle_with(
    client: &mut Client,
    found: &ServerState,
    acknowledged: &HashMap<[u8; 16], i64>,
    now: Time,
) -> Result<u32, StepError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute("SET LOCAL ROLE tenure_rows; SET LOCAL lock_timeout = '5s'").await?;
    let sql = "SELECT epoch, server, waits, raised_for FROM tenure.meta FOR UPDATE";
    let rows = transaction.query_typed(sql, &[]).await?;
    let mut columns = Columns::of(&rows[0]);
    let stored_server = StoredServer {
        epoch: columns.count()?,
        server: columns.take()?,
        waits: columns.take()?,
        raised_for: columns.take()?,
    };
    let evidence = evidence(&transaction, acknowledged).await?;
    let server = found.identity.written();
    let raises = may_have_lost_commits(&stored_server, &server, evidence);
    let epoch =
        if raises { epoch::above(&[stored_server.epoch], now)? } else { stored_server.epoch };
    let stored = i32::try_from(epoch).unwrap_or(i32::MAX);
    let raised_for = raises.then_some(server.as_str());
    let update = "UPDATE tenure.meta SET epoch = $1, server = $2, waits = $3, \
        raised_for = coalesce($4, raised_for)";
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&stored, Type::INT4),
        (&server, Type::TEXT),
        (&found.waits, Type::BOOL),
        (&raised_for, Type::TEXT),
    ];
    transaction.execute_typed(update, &parameters).await?;
    transaction.commit().await?;
    Ok(epoch)
}

/// Whether the commits that were acknowledged to this coordinator are present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitEvidence {
    /// Nothing was acknowledged to this coordinator that it could look for.
    None,
    AllPresent,
    Missing,
}

async fn evidence(
    client: &tokio_postgres::Transaction<'_>,
    acknowledged: &HashMap<[u8; 16], i64>,
) -> Result<CommitEvidence, StepError> {
    if acknowledged.is_empty() {
        return Ok(CommitEvidence::None);
    }
    let committers: Vec<&[u8]> = acknowledged.keys().map(|id| &id[..]).collect();
    let numbers: Vec<i64> = acknowledged.values().copied().collect();
    let sql = "SELECT count(*) FROM unnest($1::bytea[], $2::int8[]) AS told(committer, n) \
        WHERE EXISTS (SELECT 1 FROM tenure.batches b WHERE b.committer = told.committer \
                AND b.n = told.n AND b.at >= 0) \
            OR (told.n = 0 AND EXISTS (SELECT 1 FROM tenure.committers c \
                WHERE c.committer = told.committer))";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&committers, Type::BYTEA_ARRAY), (&numbers, Type::INT8_ARRAY)];
    let rows = client.query_typed(sql, &parameters).await?;
    let there: i64 = Columns::of(&rows[0]).take()?;
    Ok(if there == acknowledged.len() as i64 {
        CommitEvidence::AllPresent
    } else {
        CommitEvidence::Missing
    })
}

/// Whether acknowledged commits, and leases among them, may be lost.
fn may_have_lost_commits(
    stored_server: &StoredServer,
    server: &str,
    evidence: CommitEvidence,
) -> bool {
    let Some(before) = stored_server.server.as_deref() else { return false };
    if before == server {
        let is_raised = stored_server.raised_for.as_deref() == Some(server);
        return evidence == CommitEvidence::Missing && !is_raised;
    }
    !(stored_server.waits && evidence == CommitEvidence::AllPresent)
}

/// Records whether commits wait for a standby. An operator may change this at any time.
pub(in crate::postgres) async fn record_standby_wait(
    client: &Client,
) -> Result<(), tokio_postgres::Error> {
    let found = match client.query_typed(IDENTITY, &[]).await {
        Err(error) if is_unknown(&error) => return Ok(()),
        other => other?,
    };
    let waits: bool = found[0].try_get(2)?;
    let server = format!("{}/{}", found[0].try_get::<_, &str>(0)?, found[0].try_get::<_, &str>(1)?);
    // Only for the settled server: a new one is judged by the recorded setting of the old one.
    let update = "UPDATE tenure.meta SET waits = $1 WHERE waits <> $1 AND server = $2";
    client.execute_typed(update, &[(&waits, Type::BOOL), (&server, Type::TEXT)]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored_server(server: Option<&str>, waits: bool) -> StoredServer {
        let server = server.map(str::to_owned);
        StoredServer { epoch: 1, server, waits, raised_for: None }
    }

    #[test]
    fn a_new_server_is_believed_only_with_a_standby_and_a_witness() {
        // A2, S3-24: a change that is not proven lossless raises the epoch.
        for (waits, evidence, expected) in [
            (true, CommitEvidence::AllPresent, false),
            (true, CommitEvidence::None, true),
            (true, CommitEvidence::Missing, true),
            (false, CommitEvidence::AllPresent, true),
            (false, CommitEvidence::None, true),
        ] {
            let before = stored_server(Some("1/a"), waits);
            assert_eq!(
                may_have_lost_commits(&before, "1/b", evidence),
                expected,
                "{waits} {evidence:?}"
            );
        }
    }

    fn identity(system: &str, timeline: &str) -> Identity {
        Identity { system: system.to_owned(), timeline: timeline.to_owned() }
    }

    #[test]
    fn a_server_counts_no_more_when_a_later_one_of_its_system_was_seen() {
        let primary = Primary {
            known_server: Some(Mutex::new(KnownServer::of(identity("1", "00000009")))),
            epoch: AtomicU32::new(1),
            is_unsettled: AtomicBool::new(false),
            acknowledged: Mutex::default(),
        };
        let is_unsettled = || primary.is_unsettled.load(Ordering::SeqCst);
        assert!(primary.observe(&identity("1", "00000009")));
        assert!(!primary.observe(&identity("1", "00000008")), "an old one that lives on");
        assert!(!primary.observe(&identity("2", "0000000B")), "another database altogether");
        assert!(!is_unsettled());
        assert!(primary.observe(&identity("1", "0000000A")));
        assert!(is_unsettled());
        let mut known_server = lock(primary.known_server.as_ref().expect("it was given"));
        assert!(!known_server.is_settled("00000009") && !known_server.is_settled("0000000A"));
        assert!(known_server.is_behind(&identity("1", "00000009")));
        // Settling the old server once more changes nothing.
        known_server.settle(identity("1", "00000009"));
        assert!(!known_server.is_settled("00000009"));
        known_server.settle(identity("1", "0000000A"));
        assert!(known_server.is_settled("0000000A"));
        // A copy in another database has another system, so any timeline is accepted.
        assert!(!known_server.is_behind(&identity("2", "00000001")));
        known_server.settle(identity("2", "00000001"));
        assert!(known_server.is_settled("00000001"));
    }

    #[test]
    fn a_known_server_is_doubted_once_by_whoever_misses_something() {
        let mut before = stored_server(Some("1/b"), true);
        assert!(!may_have_lost_commits(&before, "1/b", CommitEvidence::AllPresent));
        assert!(!may_have_lost_commits(&before, "1/b", CommitEvidence::None));
        assert!(may_have_lost_commits(&before, "1/b", CommitEvidence::Missing));
        before.raised_for = Some("1/b".to_owned());
        assert!(!may_have_lost_commits(&before, "1/b", CommitEvidence::Missing));
        assert!(!may_have_lost_commits(&stored_server(None, false), "1/b", CommitEvidence::None));
    }
}
