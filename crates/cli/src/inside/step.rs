//! `tenure step NAME -- COMMAND`: runs a command once and records its output. In later attempts the output is printed again, and
//! the command is not run.

use std::io::Write;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;
use wire::ErrorCategory;
use wire::limits::{MESSAGE_BYTES_MAX, PAYLOAD_BYTES_MAX};

use super::{connect, finish, millis, name, stopped};
use crate::duration;
use crate::exit::CommandResult;
use crate::work::mapping::{self, Encoding};
use crate::work::talk::{Asked, Came, Line, Told};

const CHUNK_BYTES: usize = 8 * 1024;
/// The exit code of a command whose time is over, as `timeout(1)` says it.
const TIMED_OUT: u8 = 124;
/// The exit codes by which shells say that a command cannot be run, and that a signal ended it.
const NOT_RUN: u8 = 127;
const BY_SIGNAL: i32 = 128;

#[derive(Debug, clap::Args)]
pub(crate) struct StepArguments {
    /// The step's name: the same one a second time is a second step
    #[arg(value_parser = name)]
    name: String,
    /// How often it is tried when the command fails
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// The pause after the first try, doubled after each
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = duration::parse)]
    pause: Duration,
    /// How long one try may take; then the command is killed and has failed with 124
    #[arg(long, value_name = "SPAN", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// The command. It gets TENURE_IDEMPOTENCY_KEY, the same in every try and attempt
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) async fn step(arguments: StepArguments) -> CommandResult {
    let StepArguments { name, tries, pause, timeout, command } = arguments;
    let mut line = connect().await?;
    let asked = Asked::Step { name, tries, pause_ms: millis(pause) };
    let Ok(()) = line.say(&asked).await else { return Err(stopped().await) };
    loop {
        match line.hear().await {
            Ok(Told::Done(done)) => return finish(done),
            Ok(Told::Execute { idempotency_key, number }) => {
                let executed = Executed { command: &command, idempotency_key, number, timeout };
                let Ok(()) = tell(&mut line, executed).await else { return Err(stopped().await) };
            }
            Err(_) => return Err(stopped().await),
        }
    }
}

/// Executes the command and says what came of it. Without the worker, the command must not go on.
async fn tell(line: &mut Line, executed: Executed<'_>) -> std::io::Result<()> {
    let came = tokio::select! {
        came = executed.run() => came,
        () = line.gone() => return Err(std::io::ErrorKind::UnexpectedEof.into()),
    };
    line.say(&came).await
}

/// One try of the command.
struct Executed<'a> {
    command: &'a [String],
    idempotency_key: String,
    number: u32,
    timeout: Option<Duration>,
}

impl Executed<'_> {
    async fn run(&self) -> Came {
        let [program, arguments @ ..] = self.command else {
            unreachable!("the command line demands a command");
        };
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command.env("TENURE_IDEMPOTENCY_KEY", &self.idempotency_key);
        command.env("TENURE_STEP_TRY", self.number.to_string());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let message = format!("cannot run `{program}`: {error}");
                return failed(NOT_RUN, ErrorCategory::Configuration, message);
            }
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let ended = async {
            let stdout = stdout.expect("it was asked for");
            let stderr = stderr.expect("it was asked for");
            tokio::join!(child.wait(), collected(stdout), shown(stderr))
        };
        match timeout(self.timeout.unwrap_or(Duration::MAX), ended).await {
            Ok((Ok(status), stdout, stderr)) => judged(status, &stdout, &stderr),
            Ok((Err(error), ..)) => {
                failed(NOT_RUN, ErrorCategory::Infrastructure, error.to_string())
            }
            Err(_) => {
                let message = format!("`{program}` was killed, its time was over");
                failed(TIMED_OUT, ErrorCategory::Timeout, message)
            }
        }
    }
}

fn failed(exit: u8, category: ErrorCategory, message: String) -> Came {
    Came::Failed { exit, category, message }
}

fn judged(status: ExitStatus, stdout: &[u8], stderr: &str) -> Came {
    if !status.success() {
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        let code = status.code().or_else(|| signal.map(|signal| BY_SIGNAL + signal));
        let exit = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        return failed(exit, mapping::category(status), mapping::message(status, stderr));
    }
    match mapping::output(stdout, Encoding::Text) {
        Ok(output) => Came::Output(output),
        Err(why) => failed(1, ErrorCategory::DataQuality, why),
    }
}

/// Up to one byte more than can be recorded. The rest is read and dropped, so that the command can end.
async fn collected(mut pipe: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        let room = (PAYLOAD_BYTES_MAX + 1).saturating_sub(bytes.len());
        bytes.extend_from_slice(&chunk[..read.min(room)]);
    }
    bytes
}

/// Copies it to our own, and keeps its end.
async fn shown(mut pipe: impl AsyncRead + Unpin) -> String {
    let mut tail: Vec<u8> = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        let _ = anstream::stderr().lock().write_all(&chunk[..read]);
        tail.extend_from_slice(&chunk[..read]);
        let surplus = tail.len().saturating_sub(MESSAGE_BYTES_MAX);
        tail.drain(..surplus);
    }
    String::from_utf8_lossy(&tail).into_owned()
}
