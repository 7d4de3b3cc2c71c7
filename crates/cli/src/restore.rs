//! `tenure restore`: a backup becomes the store, and nobody's lease from before counts any more.

use std::path::{Path, PathBuf};

use store::sqlite::backup::{self, Restored};

use crate::backup::{at_text, contents, existing, members, options};
use crate::exit::{Complaint, Ended, Exit};
use crate::output::{self, BOLD, FAINT, Format};
use crate::serve;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file that `tenure backup` wrote
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Where the store shall be [default: where `tenure dev` and `tenure serve` keep it]
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
    /// Replace the store if there is one; what it holds is lost
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(format: Format, arguments: &Arguments) -> Ended {
    if !arguments.backup.exists() {
        let sentence = format!("there is no backup at {}", arguments.backup.display());
        return Err(Complaint::new(Exit::NotFound, "backup_missing", sentence)
            .hint("name the file that `tenure backup` wrote"));
    }
    let store = serve::store_path(arguments.store.as_deref())?;
    let restored =
        backup::restore(&arguments.backup, &store, existing(arguments.force), &options())
            .map_err(|failure| serve::store_trouble(&failure))?;
    match format {
        Format::Json => output::json(&members(&store, &restored.copied))?,
        Format::People => print(&store, &restored)?,
    }
    Ok(Exit::Done)
}

fn print(store: &Path, restored: &Restored) -> Result<(), Complaint> {
    let copied = &restored.copied;
    output::line(format_args!("{BOLD}{}{BOLD:#} holds {}", store.display(), contents(copied)))?;
    if let Some(at) = copied.last_commit_at {
        let text = at_text(at.millis());
        output::line(format_args!("{FAINT}as of{FAINT:#}    {text}; what came later is lost"))?;
    }
    output::line(format_args!(
        "{FAINT}epoch{FAINT:#}    {}: leases and task tokens from before are answered CANCELLED",
        restored.epoch
    ))?;
    output::line(format_args!(
        "{FAINT}next{FAINT:#}     `tenure verify --store {}`, then start the server",
        store.display()
    ))
}
