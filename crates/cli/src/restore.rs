//! `tenure restore`: replaces the store with a backup; leases from before become void.

use std::path::{Path, PathBuf};

use coordinator::admit::record_seals;
use coordinator::admit::seal::anchor_path;
use store::sqlite::backup::{self, Restored};

use crate::backup::{at_text, contents, existing, members, options};
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::serve;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file that `tenure backup` wrote
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// The store to replace or create [default: the one `tenure dev` and `tenure serve` use]
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
    /// Replace the store if it exists; its content is lost
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(format: Format, arguments: &Arguments) -> CommandResult {
    if !arguments.backup.exists() {
        let message = format!("there is no backup at {}", arguments.backup.display());
        return Err(CliError::new(Exit::NotFound, "backup_missing", message)
            .hint("name the file that `tenure backup` wrote"));
    }
    let store = serve::store_path(arguments.store.as_deref())?;
    let restored =
        backup::restore(&arguments.backup, &store, existing(arguments.force), &options())
            .map_err(|failure| serve::store_error(&failure))?;
    set_anchor_aside(&store.with_extension("key"))?;
    match format {
        Format::Json => output::json(&members(&store, &restored.copied))?,
        Format::People => print(&store, &restored)?,
    }
    Ok(Exit::Done)
}

/// The anchor records the end of the audit of the store that was replaced. It is kept for
/// comparison, but the restored audit need not reach it.
pub(crate) fn set_anchor_aside(key_file: &Path) -> Result<(), CliError> {
    let (audit, seals) = (anchor_path(key_file), record_seals::anchor::path(key_file));
    set_aside(&audit, "anchor.before-restore")?;
    set_aside(&seals, "seals.before-restore")
}

fn set_aside(anchor: &Path, extension: &str) -> Result<(), CliError> {
    match std::fs::rename(anchor, anchor.with_extension(extension)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let message = format!("cannot rename {}: {error}", anchor.display());
            Err(CliError::new(Exit::Failed, "file_unusable", message)
                .hint("rename it; else `tenure verify` reports that the audit was truncated"))
        }
        _ => Ok(()),
    }
}

fn print(store: &Path, restored: &Restored) -> Result<(), CliError> {
    let copied = &restored.copied;
    output::line(format_args!("{BOLD}{}{BOLD:#} holds {}", store.display(), contents(copied)))?;
    if let Some(at) = copied.last_commit_at {
        let text = at_text(at.millis());
        output::line(format_args!("{FAINT}as of{FAINT:#}    {text}; later changes are lost"))?;
    }
    output::line(format_args!(
        "{FAINT}epoch{FAINT:#}    {}: older leases and task tokens are answered CANCELLED",
        restored.epoch
    ))?;
    output::line(format_args!(
        "{FAINT}next{FAINT:#}     `tenure verify --store {}`, then start the server",
        store.display()
    ))
}
