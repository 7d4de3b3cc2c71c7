//! `tenure epoch raise`: begins a new epoch in a store that other tools restored.

use serde_json::json;
use store::postgres::copy_target;
use store::sqlite::backup;

use crate::backup::options;
use crate::exit::{CommandResult, Exit};
use crate::open_store::{self, StoreAddress};
use crate::output::{self, Format};
use crate::{migrate, restore, serve};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    /// Raise the epoch after other tools restored the store, before you start a server on it
    Raise(Arguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The store; no server may have it open [default: the one `tenure dev` and `tenure serve` use]
    #[arg(long, value_name = "sqlite:PATH|postgres://…")]
    store: Option<String>,
}

pub(crate) async fn run(format: Format, verb: Verb) -> CommandResult {
    let Verb::Raise(arguments) = verb;
    let (before, after) = match open_store::store_address(arguments.store.as_deref())? {
        StoreAddress::Sqlite(path) => backup::begin_epoch(&path, &options())
            .map_err(|failure| serve::store_error(&failure))?,
        StoreAddress::Postgres(url) => {
            let raised = copy_target::raise_epoch(&url, &open_store::redact_password(&url)).await;
            let raised = raised.map_err(|failure| migrate::cli_error(&failure))?;
            // The recorded end of the audit may be later than the restored one.
            let key_file =
                open_store::shared_signing_key(&open_store::open_read_only(&url).await?).await?;
            restore::set_anchor_aside(&key_file)?;
            raised
        }
    };
    match format {
        Format::Json => output::json(&json!({ "before": before, "epoch": after }))?,
        Format::People => output::line(format_args!(
            "epoch {after}, after {before}: older leases and task tokens are answered CANCELLED"
        ))?,
    }
    Ok(Exit::Done)
}
