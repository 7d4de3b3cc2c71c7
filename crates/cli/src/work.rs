//! `tenure work`: turns any program into a worker.
//!
//! The worker loop, its heartbeats and its obedience to verdicts come from the Rust SDK. Here a
//! task becomes a process: input on stdin, output from stdout, progress on descriptor 3, metadata
//! in the environment, and signals to the whole process group when the task must stop. Through a
//! socket it records steps, waits and asks people, with the commands of [`crate::inside`].

mod door;
mod events;
pub(crate) mod executable;
mod group;
pub(crate) mod mapping;
mod operations;
pub(crate) mod program;
mod progress;
mod stderr_lines;
mod stopping;
pub(crate) mod talk;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tenure::{
    Client, Ctx, Failure, LogLevel, ProgramEnd, Recorder, RecorderEnd, StopReason, Worker,
};
use tokio::sync::{Notify, mpsc};
use wire::requests::Completed;
use wire::{ErrorCategory, Json, Outcome};

use crate::exit::CommandResult;
use crate::output::{self, Format};
use crate::{duration, server};
use door::{Desk, Door};
use executable::ProgramGone;
use mapping::Encoding;
use program::{Finished, LineHandler, Pipes, Stdout};
use progress::Line;
use stderr_lines::TextHandler;
use stopping::{RunningPrograms, Stopping};

const PROTOCOL: &str = "\
How a program takes part:
  stdin   the input, as JSON
  stdout  the output: valid JSON as it is, other text as {\"text\": …}, at most 256 KiB;
          any bytes as {\"base64\": …} with --output-base64
  stderr  shown here, and kept with the attempt (`tenure runs show RUN --logs`), the newest 64 KiB;
          its end becomes the message of a failure
  fd 3    progress: lines `progress 40 halfway` or `message reading`; sent every 3 s at most
  env     TENURE_TASK_ID, _RUN_ID, _KIND, _QUEUE, _ATTEMPT, _FENCE, _LEASE_ID, _DEADLINE,
          _WORKER_ID, _PROGRESS_FD, _SOCKET, and TRACEPARENT

What a program can do with this binary, so that it goes on where it was after a crash:
  tenure step charge -- ./charge.sh 7    run once and record; later attempts print the output again
  tenure sleep 5m                        wait without a process: the program ends here, and
  tenure wait-for go --within 1d         runs again from its beginning when the time is over, a
  tenure ask ship --subject \"Ship 7?\"    signal came, people decided, or a child has ended
  tenure child resize --queue img --input 7
  tenure effect crm order.paid --body 7  deliver once to a registered endpoint
  tenure spend tokens=812                count against the budget of the run
  tenure progress 40 halfway

Exit codes of a program:
  0                             SUCCEEDED
  65 66                         FAILED, DATA_QUALITY: the input is at fault
  64 67 72 77 78 126 127        FAILED, CONFIGURATION: a setting, or a missing program
  68 69 71 73-76 129-159        FAILED, INFRASTRUCTURE: the environment; also death by a signal
  124                           FAILED, TIMEOUT
  all others                    FAILED, USER_CODE

A cancel sends SIGTERM to everything the program started, and SIGKILL shortly before the run's
grace period ends. After a lost lease it has less than a second. Processes that a program leaves
running when it exits are killed.

Ctrl-C or SIGTERM stops the worker: it leases nothing more and waits for its programs for the time
of --drain. Those that still run then get SIGTERM, and their tasks are handed back to the queue
without counting as a failure.";

#[derive(Debug, clap::Args)]
#[command(after_help = PROTOCOL)]
pub(crate) struct Arguments {
    /// Queue to lease tasks from; may be repeated
    #[arg(long = "queue", short, required = true, value_name = "QUEUE")]
    queues: Vec<String>,
    /// The program to run for each task
    #[arg(long, value_name = "PROGRAM")]
    exec: String,
    /// Only tasks of this kind; may be repeated [default: every kind]
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Maximum number of programs that run at the same time
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// Name of this worker [default: the program's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long to wait for running tasks after Ctrl-C or SIGTERM
    #[arg(long, value_name = "SPAN", default_value = "25s", value_parser = duration::parse)]
    drain: Duration,
    /// Take any bytes as output, as {"base64": …}; without this, output that is not UTF-8 fails
    #[arg(long)]
    output_base64: bool,
    /// Arguments for the program
    #[arg(last = true, value_name = "ARGS")]
    args: Vec<String>,
}

pub(crate) async fn run(client: Client, format: Format, arguments: Arguments) -> CommandResult {
    executable::check(&arguments.exec)?;
    // Checked before the first poll, so that a wrong address is an error here and not a worker that
    // waits.
    client.version().await.map_err(server::cli_error)?;
    let program = Arc::new(Program {
        exec: arguments.exec,
        args: arguments.args,
        encoding: if arguments.output_base64 { Encoding::Base64 } else { Encoding::Text },
        is_alone: arguments.concurrency == 1,
        gone: ProgramGone::new(),
        running: RunningPrograms::default(),
    });
    let name = arguments.name.unwrap_or_else(|| default_name(&program.exec));
    let cut = Arc::new(AtomicBool::new(false));
    let mut worker = Worker::new(client)
        .name(&name)
        .concurrency(usize::from(arguments.concurrency))
        .shutdown_timeout(arguments.drain)
        // Little beside the start of a program, which may do anything.
        .await_starts()
        .on_event(events::observer(format, Arc::clone(&cut)));
    for queue in &arguments.queues {
        worker = worker.queue(queue);
    }
    let shared = Arc::clone(&program);
    worker = worker.handle_program(&arguments.kinds, move |ctx, recorder| {
        let program = Arc::clone(&shared);
        async move { program.attempt(ctx, recorder).await }
    });
    if format == Format::People {
        output::note(format_args!(
            "{name} works on {} with {}; Ctrl-C to stop",
            arguments.queues.join(", "),
            program.exec
        ));
    }
    let Program { running, gone, .. } = &*program;
    let stopping = Stopping { running, gone, cut: &cut, drain: arguments.drain };
    stopping::work_until_signal(worker, stopping).await
}

/// The last part of the program's path, reduced to a name that the wire accepts.
fn default_name(exec: &str) -> String {
    let last = exec.rsplit('/').next().unwrap_or(exec);
    let name: String = last
        .chars()
        .filter(|c| wire::names::is_name(c.encode_utf8(&mut [0; 4])))
        .take(64)
        .collect();
    if name.is_empty() { "worker".to_owned() } else { name }
}

/// How an attempt came to its end.
enum Ended {
    Program(Finished),
    /// A wait, a divergence or a crossed limit has ended it.
    Closed,
}

fn no_socket(error: &std::io::Error) -> Failure {
    Failure::infra(format!(
        "cannot make the socket for the program in {}: {error}; set TMPDIR to a folder with a short name",
        std::env::temp_dir().display()
    ))
}

fn broken_step(step: &str) -> Failure {
    Failure::infra(format!(
        "`tenure step {step}` was gone before it said what came of its command; nothing is recorded, and another \
         attempt does the step again"
    ))
}

fn left_behind() -> Failure {
    Failure::user_code(
        "the program ended while one of its `tenure` commands was under way; let it wait for each of them",
    )
}

struct Program {
    exec: String,
    args: Vec<String>,
    encoding: Encoding,
    /// Whether one program runs at a time, so that its messages need no name.
    is_alone: bool,
    gone: ProgramGone,
    running: RunningPrograms,
}

impl Program {
    async fn attempt(&self, ctx: Ctx, recorder: Recorder) -> ProgramEnd {
        let _running = self.running.enter();
        match self.run(&ctx, &recorder).await {
            Ok(Ended::Program(finished)) => {
                let output = judge(&ctx, finished, self.encoding);
                ProgramEnd::Finished(output.map(Option::unwrap_or_default))
            }
            Ok(Ended::Closed) => ProgramEnd::Closed,
            Err(failure) => ProgramEnd::Finished(Err(failure)),
        }
    }

    /// Runs the program, and does what it asks for meanwhile.
    async fn run(&self, ctx: &Ctx, recorder: &Recorder) -> Result<Ended, Failure> {
        let door = Door::open().map_err(|error| no_socket(&error))?;
        let mut command = self.command(ctx);
        command.env(talk::SOCKET_VARIABLE, door.path());
        let pipes = Pipes {
            input: ctx.input().text().to_owned(),
            listener: listener(ctx),
            stderr_prefix: (!self.is_alone).then(|| format!("{}: ", ctx.run_id())),
            stderr_lines: logger(ctx),
        };
        let (desk, asked) = Desk::new();
        let (broken, mut breaks) = mpsc::channel(1);
        let closed = Notify::new();
        let stop = async {
            tokio::select! {
                grace = grace_when_stopped(ctx) => grace,
                // Its attempt is over: nothing that it does from here on may happen.
                () = closed.notified() => Duration::ZERO,
            }
        };
        let mut execution = std::pin::pin!(program::execute(command, pipes, stop));
        let function = operations::function(asked, Arc::clone(&desk), broken, ctx.stage());
        let mut recording = std::pin::pin!(recorder.run(function));
        let mut serving = std::pin::pin!(door.serve(&desk));
        let mut end = None;
        let finished = loop {
            tokio::select! {
                biased;
                finished = &mut execution => break finished,
                recorded = &mut recording, if end.is_none() => {
                    if !matches!(recorded, RecorderEnd::Stopped) {
                        closed.notify_one();
                    }
                    end = Some(recorded);
                }
                Some(step) = breaks.recv(), if end.is_none() => {
                    closed.notify_one();
                    end = Some(RecorderEnd::Failed(broken_step(&step)));
                }
                () = &mut serving => {}
            }
        };
        let finished = finished.map_err(|error| self.not_started(&error))?;
        let is_clean = finished.status.success() && ctx.stop_reason().is_none();
        let end = match end {
            None if is_clean && desk.is_busy() => RecorderEnd::Failed(left_behind()),
            // What is recorded and was not asked for is a divergence.
            None if is_clean => {
                desk.close().await;
                recording.await
            }
            None => RecorderEnd::Stopped,
            Some(end) => end,
        };
        match end {
            RecorderEnd::Closed => Ok(Ended::Closed),
            RecorderEnd::Failed(failure) if ctx.stop_reason().is_none() => Err(failure),
            _ => Ok(Ended::Program(finished)),
        }
    }

    fn command(&self, ctx: &Ctx) -> Command {
        let mut command = Command::new(&self.exec);
        command.args(&self.args);
        // The worker's key is valid for more than one task, and the program does not need it.
        command.env_remove("TENURE_API_KEY");
        command.envs(facts(ctx));
        command.env("PATH", path_with_this_binary());
        command
    }

    /// A program that is gone is no failure of the task, and would be the same for the next one: the
    /// worker stops and hands back. Any other error is the machine's, and may pass.
    fn not_started(&self, error: &std::io::Error) -> Failure {
        let message = format!("cannot run `{}`: {error}", self.exec);
        if executable::is_unusable(error) {
            self.gone.set(&message);
            return Failure::hand_back(message);
        }
        Failure::infra(message)
    }
}

/// The search path, with the folder of this binary at its end: a program finds `tenure` wherever that was started from.
fn path_with_this_binary() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    std::env::join_paths(std::env::split_paths(&path).chain(folder)).unwrap_or(path)
}

/// The environment variables that describe the attempt to the program.
fn facts(ctx: &Ctx) -> BTreeMap<&'static str, String> {
    let mut facts = BTreeMap::from([
        ("TENURE_TASK_ID", ctx.task_id().to_owned()),
        ("TENURE_RUN_ID", ctx.run_id().to_owned()),
        ("TENURE_KIND", ctx.kind().to_owned()),
        ("TENURE_QUEUE", ctx.queue().to_owned()),
        ("TENURE_ATTEMPT", ctx.attempt().to_string()),
        ("TENURE_FENCE", ctx.fence().to_string()),
        ("TENURE_LEASE_ID", ctx.lease_id().to_owned()),
        ("TENURE_DEADLINE", ctx.deadline().map(|at| at.to_string()).unwrap_or_default()),
        ("TENURE_WORKER_ID", ctx.worker_id().to_owned()),
        ("TENURE_PROGRESS_FD", group::PROGRESS_FD.to_string()),
    ]);
    if let Some(trace) = ctx.trace() {
        facts.insert("TRACEPARENT", trace.to_string());
    }
    facts
}

/// Adds what the program writes to stderr to the log of its attempt.
fn logger(ctx: &Ctx) -> TextHandler {
    let ctx = ctx.clone();
    Box::new(move |text| ctx.log(LogLevel::Info, text))
}

/// Reports the program's progress to the coordinator. Percentage and message stay until the program
/// changes them.
fn listener(ctx: &Ctx) -> LineHandler {
    let ctx = ctx.clone();
    let (mut percent, mut message) = (f64::NAN, String::new());
    Box::new(move |line| {
        match line {
            Line::Progress { percent: now, message: said } => {
                percent = now;
                if let Some(said) = said {
                    message = said;
                }
            }
            Line::Message(said) => message = said,
        }
        ctx.progress(percent, &message);
    })
}

/// Completes when the program must stop, and returns its grace period.
fn grace_when_stopped(ctx: &Ctx) -> impl Future<Output = Duration> {
    let ctx = ctx.clone();
    async move {
        ctx.cancelled().await;
        match ctx.stop_reason() {
            Some(StopReason::CancelRequested { .. }) => {
                before_cancel_timeout(ctx.envelope().cancel_grace_period_ms)
            }
            _ => program::LOST_GRACE,
        }
    }
}

/// The part of the grace period that is reserved for killing the program and delivering the report.
const REPORT_RESERVE: Duration = Duration::from_secs(2);

/// All of a long grace period except the reserve; half of a short one.
fn before_cancel_timeout(grace_ms: u64) -> Duration {
    let grace = Duration::from_millis(grace_ms);
    grace.saturating_sub(REPORT_RESERVE).max(grace / 2)
}

/// What the program's exit means for the task.
fn judge(ctx: &Ctx, finished: Finished, encoding: Encoding) -> Result<Option<Json>, Failure> {
    // Whatever a program does after SIGTERM, it did not complete its work.
    if ctx.stop_reason().is_some() {
        return Err(Failure::cancelled());
    }
    let bytes = match finished.stdout {
        Stdout::Whole(bytes) => bytes,
        Stdout::TooLarge => return Err(Failure::permanent(mapping::too_large())),
    };
    if !finished.status.success() {
        let message = mapping::message(finished.status, &finished.stderr_tail);
        let error = of_category(mapping::category(finished.status), message);
        return Err(error.with_stack_trace(finished.stderr_tail));
    }
    let output = mapping::output(&bytes, encoding).map_err(Failure::permanent)?;
    acceptable(output).map_err(Failure::permanent)
}

fn of_category(category: ErrorCategory, message: String) -> Failure {
    match category {
        ErrorCategory::UserCode | ErrorCategory::Cancelled => Failure::user_code(message),
        ErrorCategory::DataQuality => Failure::data(message),
        ErrorCategory::Infrastructure => Failure::infra(message),
        ErrorCategory::Configuration => Failure::config(message),
        ErrorCategory::Timeout => Failure::timeout(message),
    }
}

/// The coordinator refuses a report whose output exceeds its limits (nesting, for example). A
/// failure with a reason is better than a report that is refused.
fn acceptable(output: Option<Json>) -> Result<Option<Json>, String> {
    let report = Completed {
        spend: None,
        attempt: 1,
        worker_id: "worker".to_owned(),
        outcome: Outcome::Succeeded,
        completed_at: None,
        output,
        error: None,
        metrics: None,
        cancelled_during_phase: None,
        partial_progress: None,
        traceparent: None,
        steps: Vec::new(),
        children: Vec::new(),
        effects: Vec::new(),
        next: false,
        log: Vec::new(),
    };
    let body = serde_json::to_vec(&report).map_err(|error| error.to_string())?;
    match wire::parse::<Completed>(&body) {
        Ok(_) => Ok(report.output),
        Err(fault) => Err(format!("the program's output cannot be recorded: {fault}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_is_named_after_its_program() {
        assert_eq!(default_name("./jobs/resize.sh"), "resize.sh");
        assert_eq!(default_name("/bin/ö ö"), "worker");
    }

    #[test]
    fn the_kill_comes_before_the_coordinator_gives_up() {
        assert_eq!(before_cancel_timeout(30_000), Duration::from_secs(28));
        assert_eq!(before_cancel_timeout(1_000), Duration::from_millis(500));
        assert_eq!(before_cancel_timeout(0), Duration::ZERO);
    }

    #[test]
    fn output_the_coordinator_would_refuse_is_a_failure_with_a_reason() {
        let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
        let refused = acceptable(Json::from_text(deep).ok()).unwrap_err();
        assert!(refused.contains("cannot be recorded"), "{refused}");
        assert!(acceptable(Json::from_text("[1]".to_owned()).ok()).unwrap().is_some());
    }
}
