//! `tenure prove`: shows that a run happened as its record says, or names what does not fit.
//!
//! It reads the store itself and does not ask the server, because the server is part of what is proved. It works on a SQLite
//! file (on a snapshot, while a server uses the file), on a database at any time, and on a bundle: a store file that
//! holds one run, which `--export` writes. All checks are in `store::prove`; here they are printed.

mod print;
mod source;

use std::path::PathBuf;

use coordinator::admit::Keyring;
use coordinator::admit::record_seals;
use store::moving::bundle::{self, Bundled};
use store::prove::{
    self, AnchoredSeal, Evidence, Proof, ProofFinding, SealCheck, SealProof, TaskView,
};
use store::sqlite::copy_target::SqliteCopyTarget;
use store::{Browse, RecordSeal, StoredTask};

use self::source::Source;
use crate::exit::{CliError, CommandResult, Exit};
use crate::open_store::ConfigArgument;
use crate::output::{self, Format};
use crate::{backup, migrate};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run, or of its task [with --bundle: the run of the bundle]
    #[arg(value_name = "RUN", required_unless_present = "bundle")]
    run: Option<String>,
    /// The store that holds the run [default: the one `tenure dev` and `tenure serve` use]
    #[arg(long, value_name = "sqlite:PATH|postgres://…", conflicts_with = "bundle")]
    store: Option<String>,
    #[command(flatten)]
    config: ConfigArgument,
    /// Check a bundle instead of a store
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Write the run with all its rows and seals to a bundle, which can be checked without the store
    #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
    export: Option<PathBuf>,
    /// Check seals with the keys in this file [default: the key file of the store; for a bundle, none]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Compare the seals with this copy of the anchor [default: the one beside the key file]
    #[arg(long, value_name = "FILE")]
    anchor: Option<PathBuf>,
}

/// What the command found.
struct Outcome {
    place: String,
    tasks: Vec<TaskView>,
    proof: Proof,
    seals: SealProof,
    has_keys: bool,
    is_anchored: bool,
    exported: Option<(PathBuf, Bundled)>,
}

impl Outcome {
    fn findings(&self) -> impl Iterator<Item = &ProofFinding> {
        self.proof.findings.iter().chain(&self.seals.findings)
    }
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> CommandResult {
    let source = match &arguments.bundle {
        Some(path) => Source::bundle(path, arguments.anchor.as_deref())?,
        None => {
            let address = arguments.config.store_address(arguments.store.as_deref())?;
            Source::store(&address, arguments.anchor.as_deref()).await?
        }
    };
    let outcome = match &source {
        Source::Sqlite { store, .. } => {
            check(store::Store::browse(store), &source, &arguments).await
        }
        Source::Postgres { store, .. } => {
            check(store::Store::browse(store), &source, &arguments).await
        }
    }?;
    match format {
        Format::Json => output::json(&print::members(&outcome))?,
        Format::People => print::people(&outcome)?,
    }
    Ok(if outcome.findings().next().is_none() { Exit::Done } else { Exit::Failed })
}

async fn check<B: Browse>(
    browse: &B,
    source: &Source,
    arguments: &Arguments,
) -> Result<Outcome, CliError> {
    let trouble = |failure: store::Failure| source.error(&failure);
    let root = root(browse, source, arguments).await?;
    let mut tasks = Vec::new();
    let mut tell = |story: &prove::TaskStory| tasks.push(TaskView::of(story));
    let proof = prove::prove(browse, root.clone(), &mut tell).await.map_err(trouble)?;
    let keyring = source.keyring(arguments.key_file.as_deref()).await?;
    let tenant = root.key().scope.tenant;
    let anchored: Option<AnchoredSeal> = source.anchors().get(&tenant).cloned();
    let judge = |seal: &RecordSeal| judge(keyring.as_ref(), seal);
    let lists_all = arguments.bundle.is_none();
    let evidence = Evidence { judge: &judge, anchor: anchored.as_ref(), lists_all };
    let checked = prove::check_seals(browse, &tenant, &proof.records, &evidence);
    let seals = checked.await.map_err(trouble)?;
    let exported = match &arguments.export {
        Some(path) => Some((path.clone(), export(browse, root, path).await?)),
        None => None,
    };
    let (place, has_keys) = (source.place().to_owned(), keyring.is_some());
    let is_anchored = anchored.is_some();
    Ok(Outcome { place, tasks, proof, seals, has_keys, is_anchored, exported })
}

fn judge(keyring: Option<&Keyring>, seal: &RecordSeal) -> SealCheck {
    keyring.map_or(SealCheck::Unchecked, |keyring| record_seals::judge(keyring, seal))
}

/// The run to prove. One that is not stored any more may still be named by a seal.
async fn root<B: Browse>(
    browse: &B,
    source: &Source,
    arguments: &Arguments,
) -> Result<StoredTask, CliError> {
    let trouble = |failure: store::Failure| source.error(&failure);
    let Some(text) = &arguments.run else {
        let found = prove::only_run(browse).await.map_err(trouble)?;
        return found.ok_or_else(|| not_found("the bundle holds no run"));
    };
    let Some(id) = prove::parse_id(text) else {
        let message = format!("{text} is not the id of a run");
        return Err(
            CliError::usage("invalid_input", message).hint("copy it from `tenure runs list`")
        );
    };
    if let Some(found) = prove::find_task(browse, id).await.map_err(trouble)? {
        return Ok(found);
    }
    match prove::find_sealed(browse, id).await.map_err(trouble)? {
        None => Err(not_found(&format!("there is no run {text} in {}", source.place()))),
        Some((seal, leaf)) => {
            let message = format!(
                "{text} is not stored, but seal {} of tenant {} covers its record, with digest {}",
                seal.n, seal.tenant, leaf.digest
            );
            Err(CliError::new(Exit::Failed, "record_missing", message).hint(
                "retention deletes runs that ended long ago; if yours keeps them, rows were deleted: restore a backup",
            ))
        }
    }
}

fn not_found(message: &str) -> CliError {
    CliError::new(Exit::NotFound, "run_missing", message).hint(
        "name the store that holds the run with --store, or list runs with `tenure runs list`",
    )
}

async fn export<B: Browse>(
    browse: &B,
    root: StoredTask,
    path: &std::path::Path,
) -> Result<Bundled, CliError> {
    let target = SqliteCopyTarget::begin(path, &backup::options())
        .map_err(|failure| migrate::cli_error(&failure))?;
    bundle::export_run(browse, root, target).await.map_err(|failure| migrate::cli_error(&failure))
}
