//! `tenure migrate`: a store that nobody serves from moves into another engine, and is proved to be the same.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coordinator::admit::{Keyring, moved_keys};
use serde_json::json;
use store::moving::{self, Arrival, Departure, MoveFailure, Moved, Stage, Tally};
use store::postgres::arrival::{self as databases, PostgresArrival};
use store::postgres::departure::PostgresDeparture;
use store::sqlite::SqliteStore;
use store::sqlite::arrival::{self as files, SqliteArrival};
use store::{Administration, CommitFailure, Failure, PostgresStore, Store, Writer};

use crate::backup::options;
use crate::exit::{Complaint, Ended, Exit};
use crate::opening::{self, StoreAddress};
use crate::output::{self, BOLD, FAINT, Format};
use crate::{profile, serve};

/// How often a person is told how far it has come.
const TELL_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The store to copy; no server may have it open
    #[arg(long, value_name = "sqlite:PATH|postgres://…")]
    from: String,
    /// Where it shall be; nothing may be there
    #[arg(long, value_name = "sqlite:PATH|postgres://…")]
    to: String,
    /// Count what would be copied, check that it could be, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove what a copy that was cut short left at the destination, and begin again
    #[arg(long)]
    discard: bool,
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> Ended {
    let from = opening::store_address(Some(&arguments.from))?;
    let to = opening::store_address(Some(&arguments.to))?;
    if from == to {
        let sentence = "a store cannot be moved to where it is";
        return Err(Complaint::usage("same_store", sentence).hint("name two places"));
    }
    match &from {
        StoreAddress::Sqlite(path) => {
            let store = open_file(path)?;
            let from = Source { address: &from, key_file: path.with_extension("key") };
            with_source(format, &arguments, &store, from, &to).await
        }
        StoreAddress::Postgres(url) => {
            let begun = PostgresDeparture::begin(url, &name(&from)).await;
            let store = begun.map_err(|failure| complaint(&failure))?;
            let key_file = opening::shared_signing_key(store.store()).await?;
            let from = Source { address: &from, key_file };
            with_source(format, &arguments, &store, from, &to).await
        }
    }
}

/// Where a store moves from, with the file of its signing keys.
struct Source<'a> {
    address: &'a StoreAddress,
    key_file: PathBuf,
}

fn open_file(path: &Path) -> Result<SqliteStore, Complaint> {
    if !path.exists() {
        let sentence = format!("there is no store at {}", path.display());
        return Err(Complaint::new(Exit::NotFound, "store_missing", sentence)
            .hint("say where it is with --from sqlite:PATH"));
    }
    SqliteStore::open(path, options()).map_err(|failure| serve::store_trouble(&failure))
}

/// An address as it may be printed.
fn name(address: &StoreAddress) -> String {
    match address {
        StoreAddress::Sqlite(path) => format!("sqlite:{}", path.display()),
        StoreAddress::Postgres(url) => opening::without_password(url),
    }
}

async fn with_source<D: Departure>(
    format: Format,
    arguments: &Arguments,
    departure: &D,
    from: Source<'_>,
    to: &StoreAddress,
) -> Ended {
    let Source { address: from, key_file: from_key } = from;
    let keys = source_keys(departure.store(), &from_key).await?;
    let keys = keys.as_ref();
    if arguments.dry_run {
        return dry_run(format, departure, to, keys).await;
    }
    let (moved, key_file) = match to {
        StoreAddress::Sqlite(path) => {
            if arguments.discard {
                files::discard(path, &options()).map_err(|failure| complaint(&failure))?;
            }
            files::inspect(path).map_err(|failure| complaint(&failure))?;
            let key_file = path.with_extension("key");
            lay_down(keys, &key_file)?;
            let arrival = SqliteArrival::begin(path, &options());
            (carry(format, departure, arrival).await?, key_file)
        }
        StoreAddress::Postgres(url) => {
            if arguments.discard {
                databases::discard(url).await.map_err(|failure| complaint(&failure))?;
            }
            let arrival = PostgresArrival::begin(url, &name(to), &name(from)).await;
            let arrival = arrival.map_err(|failure| complaint(&failure))?;
            let key_file = opening::shared_signing_key(arrival.store()).await?;
            put_in(keys, arrival.store(), &key_file).await?;
            (carry(format, departure, Ok(arrival)).await?, key_file)
        }
    };
    carry_anchor(&from_key, &key_file)?;
    match format {
        Format::Json => output::json(&members(&moved.tally, Some(moved.epoch)))?,
        Format::People => print(from, to, &moved, keys.map(|_| key_file.as_path()))?,
    }
    Ok(Exit::Done)
}

async fn dry_run<D: Departure>(
    format: Format,
    departure: &D,
    to: &StoreAddress,
    keys: Option<&Keyring>,
) -> Ended {
    if let (StoreAddress::Sqlite(path), Some(keys)) = (to, keys) {
        keys.check_room(&path.with_extension("key")).map_err(serve::keyring_trouble)?;
    }
    match to {
        StoreAddress::Sqlite(path) => files::inspect(path),
        StoreAddress::Postgres(url) => databases::inspect(url, &name(to)).await,
    }
    .map_err(|failure| complaint(&failure))?;
    let store = departure.store();
    let tally = moving::survey(store.browse(), store.now()).await;
    let tally = tally.map_err(|failure| complaint(&MoveFailure::Source(failure)))?;
    match format {
        Format::Json => output::json(&members(&tally, None))?,
        Format::People => {
            output::line(format_args!("would copy {} to {}", contents(&tally), name(to)))?;
        }
    }
    Ok(Exit::Done)
}

async fn carry<D: Departure, A: Arrival>(
    format: Format,
    departure: &D,
    arrival: Result<A, MoveFailure>,
) -> Result<Moved, Complaint> {
    let arrival = arrival.map_err(|failure| complaint(&failure))?;
    let mut told = tokio::time::Instant::now();
    let mut watch = |stage: Stage| {
        if format == Format::People && (told.elapsed() >= TELL_EVERY || stage == Stage::Verifying) {
            told = tokio::time::Instant::now();
            output::note(progress(stage));
        }
    };
    let moved = moving::carry_over(departure, arrival, &mut watch).await;
    moved.map_err(|failure| complaint(&failure))
}

fn progress(stage: Stage) -> String {
    match stage {
        Stage::Copying(tasks) => format!("copied {}", output::count(tasks, "task")),
        Stage::Comparing(tasks) => format!("compared {}", output::count(tasks, "task")),
        Stage::Verifying => "all of it arrived; folding every history again".to_owned(),
    }
}

/// The keys that a server of the old store would use.
async fn source_keys<S: Store>(store: &S, key_file: &Path) -> Result<Option<Keyring>, Complaint> {
    let found = Keyring::of_store(store.browse(), key_file).await;
    found.map_err(serve::keyring_trouble)
}

/// Before there is a store: a server that found it without its keys would make new ones.
fn lay_down(keys: Option<&Keyring>, path: &Path) -> Result<(), Complaint> {
    let Some(keys) = keys else { return Ok(()) };
    make_folder_of(path)?;
    keys.lay_down(path).map_err(serve::keyring_trouble)
}

/// The same in a database, where they are sealed with what lies in the file of its coordinators.
async fn put_in(
    keys: Option<&Keyring>,
    store: &PostgresStore,
    path: &Path,
) -> Result<(), Complaint> {
    let Some(keys) = keys else { return Ok(()) };
    make_folder_of(path)?;
    let ring = keys.sealed_for(path).map_err(serve::keyring_trouble)?;
    let act = Administration { ring: Some(ring), ..Administration::default() };
    let mut writer = store.writer().await.map_err(|failure| of_failure(&failure))?;
    writer.administer(&act).await.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => {
            of_failure(&failure)
        }
    })
}

fn make_folder_of(path: &Path) -> Result<(), Complaint> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => profile::make_folder(folder),
        None => Ok(()),
    }
}

/// By which a cut at the end of the audit is noticed.
fn carry_anchor(from: &Path, to: &Path) -> Result<(), Complaint> {
    moved_keys::carry_anchor(from, to).map_err(|error| {
        let sentence = format!("the store has moved, but not the anchor of its audit: {error}");
        Complaint::new(Exit::Failed, "file_unusable", sentence)
            .hint("copy the file that ends in .anchor beside the new key file yourself")
    })
}

fn contents(tally: &Tally) -> String {
    format!(
        "{}, {}, {}, {}, {} and {}",
        output::count(tally.live, "live task"),
        output::count(tally.ended, "ended one"),
        output::count(tally.attempts, "attempt"),
        output::count(tally.decisions, "decision"),
        output::count(tally.api_keys, "API key"),
        output::count(tally.records, "audit record"),
    )
}

fn members(tally: &Tally, epoch: Option<u32>) -> serde_json::Value {
    json!({
        "dryRun": epoch.is_none(),
        "live": tally.live,
        "ended": tally.ended,
        "attempts": tally.attempts,
        "decisions": tally.decisions,
        "refusals": tally.refusals,
        "idempotencyKeys": tally.keys,
        "apiKeys": tally.api_keys,
        "limits": tally.limits,
        "auditEntries": tally.records,
        "digest": tally.digest.to_string(),
        "epoch": epoch,
    })
}

fn print(
    from: &StoreAddress,
    to: &StoreAddress,
    moved: &Moved,
    key_file: Option<&Path>,
) -> Result<(), Complaint> {
    output::line(format_args!("{BOLD}{}{BOLD:#} holds {}", name(to), contents(&moved.tally)))?;
    output::line(format_args!(
        "{FAINT}checked{FAINT:#}  counts and digest {} on both sides, every history folded again",
        moved.tally.digest
    ))?;
    output::line(format_args!(
        "{FAINT}epoch{FAINT:#}    {}: leases and task tokens from before are answered CANCELLED",
        moved.epoch
    ))?;
    if let Some(path) = key_file {
        let went_along = "the signing keys went along";
        output::line(format_args!(
            "{FAINT}keys{FAINT:#}     {}",
            match to {
                StoreAddress::Sqlite(_) => format!("{went_along} into {}", path.display()),
                StoreAddress::Postgres(_) =>
                    format!("{went_along}, sealed with {}", path.display()),
            }
        ))?;
    }
    output::note(format_args!(
        "{} is unchanged; never serve from it again, or the same work is done twice",
        name(from)
    ));
    Ok(())
}

/// Why it was not moved, and what to do.
pub(crate) fn complaint(failure: &MoveFailure) -> Complaint {
    let hint = match failure {
        MoveFailure::Occupied { .. } => "a move never writes over anything; name an empty place",
        MoveFailure::InUse { .. } => "stop it; one that was killed counts as gone after 15 seconds",
        MoveFailure::Interrupted { .. } => {
            "run the same command with --discard to remove it and begin again"
        }
        MoveFailure::Changed => "stop every server of the old store, and move again with --discard",
        MoveFailure::Differs(_) => {
            "run `tenure verify` on the old store; the new one was not made, remove it with --discard"
        }
        MoveFailure::Source(failure) | MoveFailure::Destination(failure) => {
            return of_failure(failure);
        }
    };
    Complaint::new(Exit::Conflict, failure.code(), failure.to_string()).hint(hint)
}

fn of_failure(failure: &Failure) -> Complaint {
    opening::database_trouble(failure)
}
