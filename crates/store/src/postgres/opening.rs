//! Opening a store: connect, migrate the schema to this version, check that scopes are isolated, and find out what an
//! acknowledged commit survives.

use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::QueueMode;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use verdict::Time;

use super::connection::connect_errors;
use super::connection::connections::{Connections, Object, Pool, PoolPurpose};
use super::connection::server_list::{CONNECT_TIMEOUT, ServerList};
use super::errors::StepError;
use super::failover::durability::{self, Durability};
use super::failover::primary::Primary;
use super::rows::Columns;
use super::{Missing, Options, peers, scopes};
use crate::failure::{Failure, FailureKind};
use crate::schema::{Schema, UNRELEASED};

/// Connections for batches: one each for two writers, one to look up a lost commit, one to spare. Between batches a
/// writer queries its next wake-up on the connection that its batch does not need then.
const WRITE_CONNECTIONS_MAX: usize = 4;
/// Connections for keys, limits and other coordinators: one for the periodic reads, one for a read out of turn. Reads
/// on behalf of callers never use them, so a revocation does not wait.
const UPKEEP_CONNECTIONS_MAX: usize = 2;
/// Connections for reads: more would only take database capacity from the writers. All of them may be slow.
const READ_CONNECTIONS_MAX: usize = 4;
/// How often a migration is retried because a peer started at the same moment.
const MIGRATION_TRIES: usize = 5;

/// How long the first commit after opening may take: far longer than any disk needs, and a bound on waiting for a
/// missing standby.
const FIRST_COMMIT_PATIENCE: Duration = Duration::from_secs(60);

const FIRST_COMMIT_MISSED: &str = "the database did not complete a commit within a minute; if it waits for a standby \
    (synchronous_standby_names), check that it is connected, else check what blocks the database";

/// In order; a released step is never edited.
const MIGRATIONS: &[(&str, &str)] = &[("store", include_str!("migrations/V1__store.sql"))];

/// A further step, planted so that tests can upgrade a store and meet one that is newer.
#[cfg(feature = "testing")]
const PLANTED: &[(&str, &str)] =
    &[MIGRATIONS[0], ("planted", include_str!("migrations/planted/V2__planted.sql"))];

/// Sixteen random bytes from the database: this process generates no random values.
pub(super) const RANDOM_ID: &str = "decode(replace(gen_random_uuid()::text, '-', ''), 'hex')";

pub(super) struct OpenedParts {
    pub(super) servers: ServerList,
    pub(super) pool: Pool,
    pub(super) upkeep: Pool,
    pub(super) readers: Pool,
    pub(super) header: Header,
    pub(super) primary: Primary,
    pub(super) durability: Durability,
    /// Whether no other coordinator works on the store.
    pub(super) is_alone: bool,
}

pub(super) struct Header {
    pub(super) last_commit_at: Option<Time>,
    /// The database's clock.
    pub(super) clock: Time,
    /// The latest time at which a coordinator recorded its presence.
    pub(super) said_at: Option<Time>,
    /// A unique name for this open store.
    pub(super) instance: String,
    /// The version of the rules in force.
    pub(super) rules: u32,
    /// The store's id, which does not depend on the database it is in.
    pub(super) store_id: String,
}

pub(super) async fn open(url: &str, options: &Options) -> Result<OpenedParts, Failure> {
    let servers = ServerList::of(url, options)?;
    let pool = pool_of(&servers, PoolPurpose::Batches, WRITE_CONNECTIONS_MAX)?;
    let upkeep = pool_of(&servers, PoolPurpose::Upkeep, UPKEEP_CONNECTIONS_MAX)?;
    let readers = pool_of(&servers, PoolPurpose::Reading, READ_CONNECTIONS_MAX)?;
    // Not from a pool: there may be no store yet, so this connection prepares no statements, and must not stay.
    let mut client = session(url, options).await?;
    let client: &mut Client = &mut client;
    refuse_unfinished(client).await?;
    let durability = durability::find(client)
        .await
        .map_err(|error| error.while_opening("reading the settings"))?;
    if options.missing == Missing::Create {
        durability.refuse_missing_standbys()?;
    }
    migrate(client, options).await?;
    scopes::check(client).await.map_err(|error| error.while_opening("checking the scopes"))?;
    let header = header(client).await.map_err(|error| error.while_opening("reading the header"))?;
    let primary = Primary::open(client, options.missing, header.clock);
    // If the user may not read the state of standbys, a missing standby shows up here: the commit does not end.
    let met = tokio::time::timeout(FIRST_COMMIT_PATIENCE, primary).await;
    let met = met.map_err(|_| Failure::new(FailureKind::Closed, FIRST_COMMIT_MISSED))?;
    let primary = met.map_err(|error| error.while_opening("finding out which server this is"))?;
    let peers = peers::live_names(client, &options.name).await;
    let peers = peers.map_err(|error| error.while_opening("looking for other coordinators"))?;
    let is_alone = peers.is_empty();
    Ok(OpenedParts { servers, pool, upkeep, readers, header, primary, durability, is_alone })
}

/// One connection outside the pools, for single use.
pub(super) async fn session(url: &str, options: &Options) -> Result<Object, Failure> {
    let pool = pool_of(&ServerList::of(url, options)?, PoolPurpose::Reading, 1)?;
    pool.get().await.map_err(connect_errors::connect_failure)
}

/// A session with the TLS settings of a store, for maintenance and measurements.
pub async fn connect(url: &str, name: &str) -> Result<Client, Failure> {
    let connected = ServerList::of(url, &Options::new(name))?.connect().await;
    let (client, connection) = connected.map_err(connect_errors::connect_failure)?;
    tokio::spawn(async move {
        // The client reports the end of the connection.
        let _ = connection.await;
    });
    Ok(client)
}

/// Whether a copy into this database is running or was interrupted.
pub(super) async fn is_copy_unfinished(client: &Client) -> Result<bool, StepError> {
    let rows = client.query_typed("SELECT to_regclass('tenure.arriving')::text", &[]).await?;
    Ok(rows[0].try_get::<_, Option<&str>>(0)?.is_some())
}

/// Refuses an unfinished copy, which is not a store.
async fn refuse_unfinished(client: &Client) -> Result<(), Failure> {
    let is_copy_unfinished = is_copy_unfinished(client)
        .await
        .map_err(|error| error.while_opening("looking for a store"))?;
    if is_copy_unfinished {
        let what = "this database holds a copy of a store that was not finished; run the same \
            `tenure migrate` again with --discard";
        return Err(Failure::new(FailureKind::Unfinished, what));
    }
    Ok(())
}

fn pool_of(servers: &ServerList, purpose: PoolPurpose, size: usize) -> Result<Pool, Failure> {
    Pool::builder(Connections::new(servers.clone(), purpose))
        .max_size(size)
        // The connection that was used last has its plans and catalogue at hand.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(CONNECT_TIMEOUT))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .recycle_timeout(Some(CONNECT_TIMEOUT))
        .build()
        .map_err(|error| {
            Failure::new(FailureKind::Closed, "cannot create a connection pool").because(error)
        })
}

pub(super) const NO_STORE: &str = "this database has no store; check the name of the database in the address: \
    only `tenure serve` creates a store";

async fn migrate(client: &mut Client, options: &Options) -> Result<(), Failure> {
    if options.missing == Missing::Refuse
        && stored_version(client)
            .await
            .map_err(|it| it.while_opening("looking for a store"))?
            .is_none()
    {
        return Err(Failure::new(FailureKind::Closed, NO_STORE));
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match migrate_once(client, steps(options.schema)).await {
            Ok(()) => return Ok(()),
            Err(StepError::Sql(error)) if tries < MIGRATION_TRIES && is_race(&error) => {}
            Err(StepError::Sql(error)) => {
                let what = match error.code() {
                    Some(&SqlState::INSUFFICIENT_PRIVILEGE) => missing_privileges(client).await,
                    _ => NOT_MIGRATED.to_owned(),
                };
                return Err(Failure::new(FailureKind::Closed, what).because(error));
            }
            Err(error) => return Err(error.while_doing("creating the tables")),
        }
    }
}

const NOT_MIGRATED: &str = "the database cannot be migrated to this version; nothing in it was changed, so read \
    the database's log and start again";

/// The statements that an administrator must run for this user in this database, and no more.
const RIGHTS: &str = "SELECT concat_ws('; ', \
    CASE WHEN r.oid IS NULL THEN 'CREATE ROLE tenure_rows NOLOGIN' END, \
    CASE WHEN r.oid IS NULL OR NOT pg_has_role(current_user, r.oid, 'MEMBER') \
        THEN format('GRANT tenure_rows TO %I', current_user) END, \
    CASE WHEN NOT has_database_privilege(current_database(), 'CREATE') \
        THEN format('GRANT CREATE ON DATABASE %I TO %I', current_database(), current_user) END) \
    FROM (SELECT current_user) u LEFT JOIN pg_roles r ON r.rolname = 'tenure_rows'";

async fn missing_privileges(client: &Client) -> String {
    let asked = client.query_typed(RIGHTS, &[]).await.ok();
    let rights: Option<String> = asked.and_then(|rows| rows.first()?.try_get(0).ok());
    match rights.filter(|rights| !rights.is_empty()) {
        Some(rights) => format!(
            "the database's user has no permission to prepare it; as an administrator run: {rights}; then start again"
        ),
        None => "the database's user has no permission to prepare it; use the user that created the store and owns the schema \
            tenure, or allow this one to create roles"
            .to_owned(),
    }
}

/// Whether another program owns the schema: it is not empty, and never had a store.
const FOREIGN: &str = "SELECT to_regclass('tenure.migrations') IS NULL AND EXISTS (SELECT 1 FROM pg_class c \
    WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = 'tenure'))";

const OF_SOMETHING_ELSE: &str = "the schema tenure of this database does not hold a store; give Tenure \
    a separate database, or remove that schema";

async fn refuse_foreign(client: &Client) -> Result<(), StepError> {
    let is_foreign = client.query_typed(FOREIGN, &[]).await?[0].try_get(0)?;
    if is_foreign {
        return Err(Failure::new(FailureKind::Closed, OF_SOMETHING_ELSE).into());
    }
    Ok(())
}

/// Two coordinators that start together conflict in the catalogue, whose IF NOT EXISTS does not wait.
fn is_race(error: &tokio_postgres::Error) -> bool {
    let raced = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_SCHEMA,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
    ];
    error.code().is_some_and(|code| raced.contains(code))
        || error.to_string().contains("tuple concurrently updated")
}

/// The role that does not own the tables, so that row-level security policies apply to it.
const ROLE: &str = "DO $$ BEGIN \
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'tenure_rows') THEN \
        CREATE ROLE tenure_rows NOLOGIN; \
    END IF; \
    IF NOT pg_has_role(current_user, 'tenure_rows', 'MEMBER') THEN \
        EXECUTE format('GRANT tenure_rows TO %I', current_user); \
    END IF; \
    END $$";

/// The steps from an empty database to this version.
fn steps(schema: Schema) -> &'static [(&'static str, &'static str)] {
    match schema {
        Schema::Current => MIGRATIONS,
        #[cfg(feature = "testing")]
        Schema::Planted => PLANTED,
    }
}

/// Runs all missing steps in one transaction under a lock, so that each runs once and completely.
async fn migrate_once(client: &mut Client, steps: &[(&str, &str)]) -> Result<(), StepError> {
    if missing_steps(client, steps).await? == Some(0) {
        return Ok(());
    }
    refuse_foreign(client).await?;
    client.batch_execute(ROLE).await?;
    let transaction = client.transaction().await?;
    transaction
        .batch_execute(
            "CREATE SCHEMA IF NOT EXISTS tenure; \
             CREATE TABLE IF NOT EXISTS tenure.migrations \
                (version bigint PRIMARY KEY, name text NOT NULL, digest text NOT NULL, \
                 applied_at timestamptz NOT NULL DEFAULT now()); \
             LOCK TABLE tenure.migrations IN EXCLUSIVE MODE",
        )
        .await?;
    // A peer may have run them while this one waited for the lock.
    let missing = missing_steps(transaction.client(), steps).await?.unwrap_or(steps.len());
    let begin = steps.len() - missing;
    for (version, (name, sql)) in (1_i64..).zip(steps).skip(begin) {
        transaction.batch_execute(sql).await?;
        let insert = "INSERT INTO tenure.migrations (version, name, digest) VALUES ($1, $2, $3)";
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&version, Type::INT8), (name, Type::TEXT), (&digest(sql), Type::TEXT)];
        transaction.execute_typed(insert, &values).await?;
    }
    if begin == 0 {
        let insert =
            format!("INSERT INTO tenure.meta (one, store_id, epoch) VALUES (1, {RANDOM_ID}, 1)");
        transaction.batch_execute(&insert).await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// How many of the steps the store lacks; `None` if there is no store. Refuses a store that has other steps than these.
async fn missing_steps(
    client: &Client,
    steps: &[(&str, &str)],
) -> Result<Option<usize>, StepError> {
    if stored_version(client).await?.is_none() {
        return Ok(None);
    }
    // Through JSON, because an unreleased build had no such column.
    let sql =
        "SELECT coalesce(to_jsonb(m) ->> 'digest', '') FROM tenure.migrations m ORDER BY m.version";
    let rows = client.query_typed(sql, &[]).await?;
    let applied: Vec<String> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let refuse = |what: String| Err(Failure::new(FailureKind::Closed, what).into());
    if steps.iter().zip(&applied).any(|((_, sql), theirs)| digest(sql) != *theirs) {
        return refuse(format!("the store in this database {UNRELEASED}"));
    }
    let (theirs, ours) = (applied.len(), steps.len());
    if theirs > ours {
        return refuse(format!(
            "the database has format {theirs} and this Tenure knows formats up to {ours}; \
             start the newer Tenure that wrote it"
        ));
    }
    Ok(Some(ours - theirs))
}

/// What a store remembers of a step that was applied to it.
fn digest(sql: &str) -> String {
    verdict::Digest::of_bytes(sql.as_bytes()).to_string()
}

pub(super) async fn stored_version(client: &Client) -> Result<Option<i64>, StepError> {
    let known = client.query_typed("SELECT to_regclass('tenure.migrations')::text", &[]).await?;
    if known[0].try_get::<_, Option<&str>>(0)?.is_none() {
        return Ok(None);
    }
    let rows = client.query_typed("SELECT max(version) FROM tenure.migrations", &[]).await?;
    Ok(rows[0].try_get(0)?)
}

/// Reads the last commit of any committer, the clock and the rules in force.
async fn header(client: &Client) -> Result<Header, StepError> {
    let sql = "SELECT (SELECT max(last.at) FROM tenure.committers c CROSS JOIN LATERAL \
            (SELECT b.at FROM tenure.batches b WHERE b.committer = c.committer AND b.at >= 0 \
             ORDER BY b.n DESC LIMIT 1) last), \
        floor(extract(epoch FROM clock_timestamp()) * 1000)::int8, \
        (SELECT max(c.seen_at) FROM tenure.committers c), gen_random_uuid()::text, \
        (SELECT m.rules FROM tenure.meta m), (SELECT encode(m.store_id, 'hex') FROM tenure.meta m)";
    let rows = client.query_typed(sql, &[]).await?;
    let mut columns = Columns::of(&rows[0]);
    Ok(Header {
        last_commit_at: columns.optional_time()?,
        clock: columns.time()?,
        said_at: columns.optional_time()?,
        instance: columns.take()?,
        rules: columns.count()?,
        store_id: columns.take()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For hints, and for the failover watch.
    const OTHERS: usize = 2;

    #[test]
    fn operators_are_told_how_many_connections_there_are() {
        let all = WRITE_CONNECTIONS_MAX + UPKEEP_CONNECTIONS_MAX + READ_CONNECTIONS_MAX + OTHERS;
        assert_eq!(all, 12, "say so in the pages, and in what is said of a full database");
        for page in [
            include_str!("../../../../docs/operate/postgres.md"),
            include_str!("../../../../docs/operate/scaling.md"),
            include_str!("connection/connect_errors.rs"),
        ] {
            assert!(page.contains("twelve") && !page.contains("up to nine"));
        }
    }
}
