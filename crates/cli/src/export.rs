//! `tenure export`: a durable run as a golden file, which `tenure replay` serves to a worker later.
//!
//! It reads the run over HTTP, as any client could, and writes the file as a whole or not at all. It decides nothing about
//! the run: one that has not ended is exported as far as it is recorded.

pub(crate) mod golden;
pub(crate) mod seal;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;
use tenure::{Client, RunHandle};
use wire::answers::{Checkpoint, Run};

use self::golden::{End, Golden, Head};
use self::seal::Key;
use crate::exit::{CliError, CommandResult, Exit};
use crate::output::{self, Format};
use crate::server;

/// How often a run that changes while it is read is read again.
const READS_MAX: usize = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The id of a run, or of one of its tasks
    #[arg(value_name = "RUN")]
    id: String,
    /// The file to write [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    key: seal::KeyArguments,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    let key = arguments.key.read()?;
    if let Some(file) = arguments.output.as_deref().filter(|_| !arguments.force) {
        refuse_existing(file)?;
    }
    let golden = read(&client, &arguments.id).await?;
    let text = golden.to_text(key.as_ref());
    match &arguments.output {
        None => output::line(text.trim_end())?,
        Some(file) => {
            write(file, &text)?;
            tell(format, file, &golden, key.as_ref())?;
        }
    }
    if key.is_none() {
        output::warning("the file is not signed; give a key with --key-file or TENURE_EXPORT_KEY");
    }
    Ok(Exit::Done)
}

/// Reads run and record. A run that records something in between is read again, so that both belong together.
async fn read(client: &Client, id: &str) -> Result<Golden, CliError> {
    let server = client.version().await.map_err(server::cli_error)?.version;
    let handle = client.run(id);
    let mut before = handle.status().await.map_err(server::cli_error)?;
    for _ in 0..READS_MAX {
        let checkpoints = handle.steps().await.map_err(server::cli_error)?;
        let after = handle.status().await.map_err(server::cli_error)?;
        if is_same(&before, &after) {
            return golden(after, checkpoints, server);
        }
        before = after;
    }
    Err(busy(&handle))
}

fn is_same(before: &Run, after: &Run) -> bool {
    let counts = |run: &Run| {
        let durable = run.durable.as_ref();
        (run.state, run.attempt, durable.map(|it| (it.steps, it.children, it.live_children)))
    };
    counts(before) == counts(after)
}

fn golden(run: Run, checkpoints: Vec<Checkpoint>, server: String) -> Result<Golden, CliError> {
    let Some(durable) = run.durable.as_ref().filter(|_| !checkpoints.is_empty()) else {
        return Err(nothing_recorded(&run));
    };
    let head = Head::of(&run, durable.seed, server);
    let end = End::of(run, checkpoints.len());
    Ok(Golden { head, checkpoints, end })
}

fn nothing_recorded(run: &Run) -> CliError {
    let message = format!("{} has recorded no step, wait or child to replay", run.run_id);
    CliError::new(Exit::Conflict, "nothing_recorded", message)
        .hint("export a run of a durable function after its first step")
}

fn busy(handle: &RunHandle) -> CliError {
    let message = format!("{} recorded something during each of {READS_MAX} reads", handle.id());
    CliError::new(Exit::Conflict, "run_busy", message)
        .hint("export it again when it waits or has ended; `tenure runs watch` follows it")
}

fn refuse_existing(file: &Path) -> Result<(), CliError> {
    if !file.exists() {
        return Ok(());
    }
    let message = format!("{} exists already", file.display());
    Err(CliError::new(Exit::Conflict, "file_exists", message)
        .hint("choose another file, or replace this one with --force"))
}

/// Written beside its place and renamed: nobody reads half a file.
fn write(file: &Path, text: &str) -> Result<(), CliError> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written = create_private(&beside)
        .and_then(|mut part| part.write_all(text.as_bytes()).and_then(|()| part.sync_all()))
        .and_then(|()| std::fs::rename(&beside, file));
    written.map_err(|error| {
        // What cannot be removed is not in the way of the next export.
        let _ = std::fs::remove_file(&beside);
        let message = format!("cannot write {}: {error}", file.display());
        CliError::new(Exit::Failed, "file_unusable", message).hint("check the folder and its space")
    })
}

/// What a run recorded is as private as the run.
fn create_private(file: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let created = options.open(file)?;
    // It may be there already, with other rights, if an export was interrupted.
    #[cfg(unix)]
    created.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(created)
}

fn tell(format: Format, file: &Path, golden: &Golden, key: Option<&Key>) -> Result<(), CliError> {
    let (run, state) = (&golden.head.run_id, golden.end.state);
    let count = golden.checkpoints.len();
    if format == Format::Json {
        let (path, signed) = (file.display().to_string(), key.is_some());
        return output::json(
            &json!({"path": path, "runId": run, "state": state, "checkpoints": count, "signed": signed}),
        );
    }
    let count = output::count(count as u64, "checkpoint");
    output::line(format_args!("{} has {run}, {state}, with {count}", file.display()))?;
    output::note(format_args!(
        "replay it with `tenure replay {} -- WORKER`; protect it like the run: it holds inputs and results",
        file.display()
    ));
    Ok(())
}
