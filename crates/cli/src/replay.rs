//! `tenure replay`: serves recorded runs to an unmodified worker program, and tells where its code differs from the record.
//!
//! The worker gets the address and key of a server on loopback that answers from golden files alone. Nothing is stored,
//! no child is started and no other server is called. A run is over at the first difference, or when the worker has reached
//! the recorded end; the command ends when every run is over, and stops the worker.

mod finding;
mod judge;
mod recording;
mod routes;
mod stage;
mod worker;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use self::finding::Finding;
use self::judge::{Judge, Judged, Mode};
use self::recording::Recording;
use self::stage::Stage;
use self::worker::WorkerProcess;
use crate::duration;
use crate::exit::{CliError, CommandResult, Exit};
use crate::export::golden::{Golden, Head};
use crate::export::seal::{self, Key, Sealed};
use crate::output::{self, BAD, FAINT, Format, GOOD};

/// How long a worker that asks for other work only is waited for: it may poll for several queues, one after the other.
const OTHER_WORK: Duration = Duration::from_secs(5);

/// Unguessable by other programs on the machine while the replay lasts.
const SECRET_BYTES: usize = 16;

const ABOUT: &str = "\
The command after the two dashes starts the worker. It finds the recorded runs at TENURE_URL, with the key in
TENURE_API_KEY, as it would find those of `tenure dev`.

The first difference stops a run before any of its steps is executed. A step is executed only if the code goes
on where the record ends, or with --execute: let such a worker reach no service that counts.";

#[derive(Debug, clap::Args)]
#[command(after_help = ABOUT)]
pub(crate) struct Arguments {
    /// Golden files of `tenure export`
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Withhold what is recorded: the worker executes each step, and the results are compared
    #[arg(long)]
    execute: bool,
    /// How long to wait for the worker's next call, also for its first
    #[arg(long, value_name = "SPAN", default_value = "2m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    key: seal::KeyArguments,
    /// The command that starts the worker
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Why the replay ended.
enum Ended {
    Over,
    Silent,
    Exited(String),
}

pub(crate) async fn run(format: Format, arguments: Arguments) -> CommandResult {
    let key = arguments.key.read()?;
    let mode = if arguments.execute { Mode::Execute } else { Mode::Replay };
    let (mut heads, mut judges) = (Vec::new(), Vec::new());
    for file in &arguments.files {
        let recording = Recording::new(read(file, key.as_ref())?);
        refuse_open_run(&recording, mode)?;
        heads.push(recording.golden.head.clone());
        judges.push(Judge::new(recording, mode));
    }
    let stage = Arc::new(Stage::new(judges, &secret()?));
    let url = serve(Arc::clone(&stage)).await?;
    let mut worker = WorkerProcess::start(&arguments.command, &url, &stage.api_key)?;
    let ended = follow(&stage, &mut worker, arguments.timeout).await;
    worker.stop().await;
    let span = duration::format_exact(arguments.timeout.as_millis() as u64);
    let judged = match ended? {
        Ended::Over => stage.judged(|_| unreachable!("every run is over")),
        Ended::Silent => {
            stage.judged(|was_leased| Finding::Silent { was_leased, span: span.clone() })
        }
        Ended::Exited(how) => stage.judged(|_| Finding::Exited { how: how.clone() }),
    };
    for ((file, head), judged) in arguments.files.iter().zip(&heads).zip(&judged) {
        tell(format, &file.display().to_string(), head, judged)?;
    }
    conclude(&judged)
}

fn read(file: &std::path::Path, key: Option<&Key>) -> Result<Golden, CliError> {
    let (golden, sealed) = Golden::read(file, key)?;
    let shown = file.display();
    match sealed {
        Sealed::Unsigned => output::warning(format_args!("{shown} is not signed")),
        Sealed::Unchecked => output::warning(format_args!(
            "the signature of {shown} is not checked: give its key with --key-file or TENURE_EXPORT_KEY"
        )),
        Sealed::Signed | Sealed::Changed => {}
    }
    Ok(golden)
}

/// Steps that are executed anew have an end to be compared with only if the function itself came to it.
fn refuse_open_run(recording: &Recording, mode: Mode) -> Result<(), CliError> {
    if mode == Mode::Replay || recording.has_own_end() {
        return Ok(());
    }
    let (run, state) = (&recording.golden.head.run_id, recording.golden.end.state);
    let message =
        format!("{run} is {state}: its function has not returned, so nothing says where to stop");
    Err(CliError::usage("no_recorded_end", message)
        .hint("replay it without --execute, or export it again when it has succeeded"))
}

fn secret() -> Result<String, CliError> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        let message = format!("the system gives no random bytes: {error}");
        CliError::new(Exit::Failed, "failed", message)
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn serve(stage: Arc<Stage>) -> Result<String, CliError> {
    let listen = async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    };
    let (listener, address) = listen.await.map_err(|error| {
        let message = format!("cannot listen on loopback: {error}");
        CliError::new(Exit::Failed, "cannot_listen", message)
            .hint("check that the machine has a loopback interface and free ports")
    })?;
    let url = format!("http://{address}");
    let app = routes::App { stage, url: url.as_str().into() };
    // It ends with the process.
    drop(tokio::spawn(async move { axum::serve(listener, routes::routes(app)).await }));
    Ok(url)
}

/// Waits until every run is over, or nothing more happens.
async fn follow(
    stage: &Stage,
    worker: &mut WorkerProcess,
    limit: Duration,
) -> Result<Ended, CliError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(worker::no_interrupts)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(worker::no_interrupts)?;
    let mut progress = stage.progress();
    loop {
        progress.mark_unchanged();
        if stage.is_over() {
            return Ok(Ended::Over);
        }
        let limit = if stage.is_unwanted() { limit.min(OTHER_WORK) } else { limit };
        tokio::select! {
            biased;
            _ = interrupt.recv() => return Err(interrupted()),
            _ = terminate.recv() => return Err(interrupted()),
            _ = progress.changed() => {}
            how = worker.ended() => {
                return Ok(if stage.is_over() { Ended::Over } else { Ended::Exited(how) });
            }
            () = sleep(limit) => return Ok(Ended::Silent),
        }
    }
}

fn interrupted() -> CliError {
    CliError::new(Exit::Interrupted, "interrupted", "the replay was interrupted")
        .hint("run it again: a replay changes nothing")
}

fn tell(format: Format, file: &str, head: &Head, judged: &Judged) -> Result<(), CliError> {
    let Head { run_id, kind, .. } = head;
    if format == Format::Json {
        let mut told = json!({"file": file, "runId": run_id, "kind": kind, "same": true});
        if let Judged::Differs(finding) = judged {
            told["same"] = json!(false);
            told["difference"] = finding.to_json();
        }
        return output::json_line(&told);
    }
    match judged {
        Judged::Same => {
            output::line(format_args!("{GOOD}same{GOOD:#}     {kind}  {run_id}  {file}"))
        }
        Judged::Differs(finding) => {
            output::line(format_args!("{BAD}differs{BAD:#}  {kind}  {run_id}  {file}"))?;
            output::line(format_args!("         {}", finding.sentence()))?;
            finding.details().into_iter().try_for_each(|(name, value)| {
                output::line(format_args!("{FAINT}{name:>17}{FAINT:#}  {value}"))
            })
        }
    }
}

/// The first difference decides about the code.
fn conclude(judged: &[Judged]) -> CommandResult {
    let differing: Vec<&Finding> = judged
        .iter()
        .filter_map(|judged| match judged {
            Judged::Same => None,
            Judged::Differs(finding) => Some(finding),
        })
        .collect();
    let Some(first) = differing.first() else { return Ok(Exit::Done) };
    let message = format!(
        "{} of {} did not replay: {}",
        differing.len(),
        output::count(judged.len() as u64, "run"),
        first.sentence()
    );
    Err(match first {
        Finding::NotTaken { .. } => CliError::new(Exit::Failed, "kind_not_taken", message)
            .hint("start the worker that executes this kind, on the queue of the recorded run"),
        Finding::Silent { .. } => CliError::new(Exit::Failed, "worker_silent", message)
            .hint("check that the worker reads TENURE_URL; give it more time with --timeout"),
        Finding::Exited { .. } => CliError::new(Exit::Failed, "worker_exited", message)
            .hint("its own output, above, says why; it must work until it is stopped"),
        _ => CliError::new(Exit::Failed, "replay_differs", message).hint(
            "keep the old code for runs under way, or finish them before the new code is deployed",
        ),
    })
}
