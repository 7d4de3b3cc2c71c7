//! `tenure migrate`: copies a store that no server uses to another engine, and proves that the copy
//! is identical.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coordinator::admit::{Keyring, moved_keys};
use serde_json::json;
use store::moving::{self, CopySource, CopyTarget, MoveFailure, Moved, Stage, StoreSummary};
use store::postgres::copy_source::PostgresCopySource;
use store::postgres::copy_target::{self as databases, PostgresCopyTarget};
use store::sqlite::SqliteStore;
use store::sqlite::copy_target::{self as files, SqliteCopyTarget};
use store::{Administration, CommitFailure, Failure, PostgresStore, Store, Writer};

use crate::backup::options;
use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::{self, StoreAddress};
use crate::output::{self, BOLD, FAINT, Format};
use crate::{profile, serve};

/// How often the progress is printed.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The store to copy; no server may have it open
    #[arg(long, value_name = "sqlite:PATH|postgres://…")]
    from: String,
    /// Destination of the store; it must be empty
    #[arg(long, value_name = "sqlite:PATH|postgres://…")]
    to: String,
    /// Count what would be copied, check the destination, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove the remains of an interrupted copy at the destination, and start again
    #[arg(long)]
    discard: bool,
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> CommandResult {
    let from = open_store::store_address(Some(&arguments.from))?;
    let to = open_store::store_address(Some(&arguments.to))?;
    if from == to {
        let message = "--from and --to name the same store";
        return Err(CliError::usage("same_store", message).hint("name two different stores"));
    }
    match &from {
        StoreAddress::Sqlite(path) => {
            let store = open_file(path)?;
            let from = Source { address: &from, key_file: path.with_extension("key") };
            with_source(format, &arguments, &store, from, &to).await
        }
        StoreAddress::Postgres(url) => {
            let begun = PostgresCopySource::begin(url, &name(&from)).await;
            let store = begun.map_err(|failure| cli_error(&failure))?;
            let key_file = open_store::shared_signing_key(store.store()).await?;
            let from = Source { address: &from, key_file };
            with_source(format, &arguments, &store, from, &to).await
        }
    }
}

/// The store to copy, with the file of its signing keys.
struct Source<'a> {
    address: &'a StoreAddress,
    key_file: PathBuf,
}

fn open_file(path: &Path) -> Result<SqliteStore, CliError> {
    if !path.exists() {
        let message = format!("there is no store at {}", path.display());
        return Err(CliError::new(Exit::NotFound, "store_missing", message)
            .hint("give its path with --from sqlite:PATH"));
    }
    SqliteStore::open(path, options()).map_err(|failure| serve::store_error(&failure))
}

/// An address in printable form, without its password.
fn name(address: &StoreAddress) -> String {
    match address {
        StoreAddress::Sqlite(path) => format!("sqlite:{}", path.display()),
        StoreAddress::Postgres(url) => open_store::redact_password(url),
    }
}

async fn with_source<D: CopySource>(
    format: Format,
    arguments: &Arguments,
    source: &D,
    from: Source<'_>,
    to: &StoreAddress,
) -> CommandResult {
    let Source { address: from, key_file: from_key } = from;
    let keys = source_keys(source.store(), &from_key).await?;
    let keys = keys.as_ref();
    if arguments.dry_run {
        return dry_run(format, source, to, keys).await;
    }
    let (moved, key_file) = match to {
        StoreAddress::Sqlite(path) => {
            if arguments.discard {
                files::discard(path, &options()).map_err(|failure| cli_error(&failure))?;
            }
            files::inspect(path).map_err(|failure| cli_error(&failure))?;
            let key_file = path.with_extension("key");
            write_key_file(keys, &key_file)?;
            let target = SqliteCopyTarget::begin(path, &options());
            (copy_store(format, source, target).await?, key_file)
        }
        StoreAddress::Postgres(url) => {
            if arguments.discard {
                databases::discard(url).await.map_err(|failure| cli_error(&failure))?;
            }
            let target = PostgresCopyTarget::begin(url, &name(to), &name(from)).await;
            let target = target.map_err(|failure| cli_error(&failure))?;
            let key_file = open_store::shared_signing_key(target.store()).await?;
            import_keys(keys, target.store(), &key_file).await?;
            (copy_store(format, source, Ok(target)).await?, key_file)
        }
    };
    copy_anchor(&from_key, &key_file)?;
    match format {
        Format::Json => output::json(&members(&moved.summary, Some(moved.epoch)))?,
        Format::People => print(from, to, &moved, keys.map(|_| key_file.as_path()))?,
    }
    Ok(Exit::Done)
}

async fn dry_run<D: CopySource>(
    format: Format,
    source: &D,
    to: &StoreAddress,
    keys: Option<&Keyring>,
) -> CommandResult {
    if let (StoreAddress::Sqlite(path), Some(keys)) = (to, keys) {
        keys.check_unoccupied(&path.with_extension("key")).map_err(serve::keyring_error)?;
    }
    match to {
        StoreAddress::Sqlite(path) => files::inspect(path),
        StoreAddress::Postgres(url) => databases::inspect(url, &name(to)).await,
    }
    .map_err(|failure| cli_error(&failure))?;
    let store = source.store();
    let summary = moving::summarize(store.browse(), store.now()).await;
    let summary = summary.map_err(|failure| cli_error(&MoveFailure::Source(failure)))?;
    match format {
        Format::Json => output::json(&members(&summary, None))?,
        Format::People => {
            output::line(format_args!("would copy {} to {}", contents(&summary), name(to)))?;
        }
    }
    Ok(Exit::Done)
}

async fn copy_store<D: CopySource, A: CopyTarget>(
    format: Format,
    source: &D,
    target: Result<A, MoveFailure>,
) -> Result<Moved, CliError> {
    let target = target.map_err(|failure| cli_error(&failure))?;
    let mut told = tokio::time::Instant::now();
    let mut watch = |stage: Stage| {
        if format == Format::People
            && (told.elapsed() >= PROGRESS_INTERVAL || stage == Stage::Verifying)
        {
            told = tokio::time::Instant::now();
            output::note(progress(stage));
        }
    };
    let moved = moving::move_store(source, target, &mut watch).await;
    moved.map_err(|failure| cli_error(&failure))
}

fn progress(stage: Stage) -> String {
    match stage {
        Stage::Copying(tasks) => format!("copied {}", output::count(tasks, "task")),
        Stage::Comparing(tasks) => format!("compared {}", output::count(tasks, "task")),
        Stage::Verifying => "the copy is complete; replaying every history".to_owned(),
    }
}

/// The signing keys that a server of the old store would use.
async fn source_keys<S: Store>(store: &S, key_file: &Path) -> Result<Option<Keyring>, CliError> {
    let found = Keyring::of_store(store.browse(), key_file).await;
    found.map_err(serve::keyring_error)
}

/// Written before the store exists: a server that found the store without its keys would create new
/// ones.
fn write_key_file(keys: Option<&Keyring>, path: &Path) -> Result<(), CliError> {
    let Some(keys) = keys else { return Ok(()) };
    make_folder_of(path)?;
    keys.write_to(path).map_err(serve::keyring_error)
}

/// The same for a database, where the keys are encrypted with the key in the file of its
/// coordinators.
async fn import_keys(
    keys: Option<&Keyring>,
    store: &PostgresStore,
    path: &Path,
) -> Result<(), CliError> {
    let Some(keys) = keys else { return Ok(()) };
    make_folder_of(path)?;
    let ring = keys.sealed_for(path).map_err(serve::keyring_error)?;
    let act = Administration { ring: Some(ring), ..Administration::default() };
    let mut writer = store.writer().await.map_err(|failure| of_failure(&failure))?;
    writer.administer(&act).await.map_err(|failure| match failure {
        CommitFailure::RolledBack(failure) | CommitFailure::Unknown(failure) => {
            of_failure(&failure)
        }
    })
}

fn make_folder_of(path: &Path) -> Result<(), CliError> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => profile::make_folder(folder),
        None => Ok(()),
    }
}

/// Copies the anchor, which detects that the end of the audit was cut off.
fn copy_anchor(from: &Path, to: &Path) -> Result<(), CliError> {
    moved_keys::copy_anchor(from, to).map_err(|error| {
        let message =
            format!("the store was moved, but the anchor of its audit was not copied: {error}");
        CliError::new(Exit::Failed, "file_unusable", message)
            .hint("copy the file that ends in .anchor beside the new key file")
    })
}

fn contents(summary: &StoreSummary) -> String {
    format!(
        "{}, {}, {}, {}, {} and {}",
        output::count(summary.live, "live task"),
        output::count(summary.ended, "ended one"),
        output::count(summary.attempts, "attempt"),
        output::count(summary.decisions, "decision"),
        output::count(summary.api_keys, "API key"),
        output::count(summary.records, "audit record"),
    )
}

fn members(summary: &StoreSummary, epoch: Option<u32>) -> serde_json::Value {
    json!({
        "dryRun": epoch.is_none(),
        "live": summary.live,
        "ended": summary.ended,
        "attempts": summary.attempts,
        "decisions": summary.decisions,
        "refusals": summary.refusals,
        "idempotencyKeys": summary.keys,
        "apiKeys": summary.api_keys,
        "limits": summary.limits,
        "pausedQueues": summary.pauses,
        "auditEntries": summary.records,
        "digest": summary.digest.to_string(),
        "epoch": epoch,
    })
}

fn print(
    from: &StoreAddress,
    to: &StoreAddress,
    moved: &Moved,
    key_file: Option<&Path>,
) -> Result<(), CliError> {
    output::line(format_args!("{BOLD}{}{BOLD:#} holds {}", name(to), contents(&moved.summary)))?;
    output::line(format_args!(
        "{FAINT}checked{FAINT:#}  counts and digest {} are equal, every history was replayed",
        moved.summary.digest
    ))?;
    output::line(format_args!(
        "{FAINT}epoch{FAINT:#}    {}: older leases and task tokens are answered CANCELLED",
        moved.epoch
    ))?;
    if let Some(path) = key_file {
        let went_along = "the signing keys were copied";
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
        "{} is unchanged; do not serve from it again, or the same work runs twice",
        name(from)
    ));
    Ok(())
}

/// Why the store was not copied, and what to do.
pub(crate) fn cli_error(failure: &MoveFailure) -> CliError {
    let hint = match failure {
        MoveFailure::Occupied { .. } => "nothing is overwritten; name an empty destination",
        MoveFailure::InUse { .. } => {
            "stop it; a killed coordinator counts as stopped after 15 seconds"
        }
        MoveFailure::Interrupted { .. } => {
            "run the same command with --discard to remove it and start again"
        }
        MoveFailure::Changed => "stop every server of the old store, and move again with --discard",
        MoveFailure::Differs(_) => {
            "run `tenure verify` on the old store; the new one was not created, remove it with --discard"
        }
        MoveFailure::Source(failure) | MoveFailure::Destination(failure) => {
            return of_failure(failure);
        }
    };
    CliError::new(Exit::Conflict, failure.code(), failure.to_string()).hint(hint)
}

fn of_failure(failure: &Failure) -> CliError {
    open_store::database_error(failure)
}
