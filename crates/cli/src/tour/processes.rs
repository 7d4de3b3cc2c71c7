//! The processes of the tour: a real server and real workers, each in a separate process.
//!
//! Every process ends with the tour, even if the tour is interrupted. [`TIMEOUT`] bounds every
//! wait.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tenure::Client;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use wire::answers::Envelope;

use super::order::OrderMessage;
use super::worker::{Answer, TourMessage, WorkerMode};
use crate::exit::{CliError, Exit};
use crate::profile::Connection;
use crate::server;

/// Nothing the tour waits for takes more than a few seconds, unless work is granted to a worker of the chapter before in the
/// moment in which it dies: then its lease has to expire first.
const TIMEOUT: Duration = Duration::from_millis(2 * super::LONG_LEASE_MS);

pub(crate) const QUEUE: &str = "tour";

pub(crate) struct TourServer {
    pub(crate) client: Client,
    pub(crate) folder: PathBuf,
    pub(crate) connection: Connection,
    server: Child,
}

/// What a server prints with `--json` when it is ready.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadyMessage {
    url: String,
    api_key: Option<String>,
}

impl TourServer {
    /// Starts a server on a free port, with an empty store.
    pub(crate) async fn start(folder: PathBuf) -> Result<TourServer, CliError> {
        crate::profile::make_folder(&folder)?;
        let (server, ready) = serve(&folder).await?;
        let key = ready.api_key.ok_or_else(|| unexpected("a fresh store got no key"))?;
        let connection = Connection { url: ready.url, key };
        Ok(TourServer { client: server::client(&connection, None)?, folder, connection, server })
    }

    pub(crate) fn store(&self) -> PathBuf {
        store(&self.folder)
    }

    /// Kills the server with SIGKILL and starts another one with the same store, at another port.
    pub(crate) async fn kill_and_restart(&mut self) -> Result<(), CliError> {
        self.server.kill().await.map_err(no_process)?;
        let (server, ready) = serve(&self.folder).await?;
        self.server = server;
        self.connection.url = ready.url;
        self.client = server::client(&self.connection, None)?;
        Ok(())
    }

    /// Stops the server so that its store can be inspected from outside.
    pub(crate) async fn stop(&mut self) -> Result<(), CliError> {
        let pid = self.server.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let ended = timeout(TIMEOUT, self.server.wait()).await;
        match ended {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(unexpected(format!("the server ended with {status}"))),
            Ok(Err(error)) => Err(no_process(error)),
            Err(_) => Err(unexpected("the server did not stop")),
        }
    }

    pub(crate) fn worker(
        &self,
        name: &str,
        mode: WorkerMode,
        tasks: u32,
    ) -> Result<WorkerProcess, CliError> {
        let mode = clap::ValueEnum::to_possible_value(&mode).expect("no mode is skipped");
        let mut process = self
            .command()?
            .args(["tour-worker", "--queue", QUEUE, "--name", name])
            .args(["--manner", mode.get_name(), "--tasks", &tasks.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(no_process)?;
        let lines = lines_of(&mut process);
        Ok(WorkerProcess {
            name: name.to_owned(),
            pid: process.id().unwrap_or_default(),
            process,
            lines,
        })
    }
}

/// What a command of this program printed, and whether it succeeded.
pub(crate) struct Printed {
    pub(crate) is_success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TourServer {
    /// A worker that executes orders, and hangs before a step if one is named.
    pub(crate) fn order_worker(
        &self,
        name: &str,
        hang_before: Option<&str>,
    ) -> Result<OrderWorker, CliError> {
        let mut command = self.command()?;
        command.args(["tour-orders", "--queue", QUEUE, "--name", name]);
        command.args(hang_before.into_iter().flat_map(|step| ["--hang-before", step]));
        let mut process = command.stdout(Stdio::piped()).spawn().map_err(no_process)?;
        let lines = lines_of(&mut process);
        let pid = process.id().unwrap_or_default();
        Ok(OrderWorker { name: name.to_owned(), pid, process, lines })
    }

    /// Runs a command of this program against the server.
    pub(crate) async fn run_command(&self, arguments: &[&str]) -> Result<Printed, CliError> {
        let output = self.command()?.args(arguments).output();
        let output = timeout(TIMEOUT, output).await.map_err(|_| unexpected("a command hangs"))?;
        let output = output.map_err(no_process)?;
        Ok(Printed {
            is_success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Replays a golden file with the worker of orders, and returns what was found.
    pub(crate) async fn replay(
        &self,
        file: &str,
        changes: &[&str],
    ) -> Result<serde_json::Value, CliError> {
        let me = std::env::current_exe().map_err(no_process)?;
        let me = me.to_string_lossy();
        let mut arguments = vec!["replay", "--json", file, "--", &me, "tour-orders"];
        arguments.extend(["--queue", QUEUE, "--name", "dora"]);
        arguments.extend(changes);
        let printed = self.run_command(&arguments).await?;
        serde_json::from_str(printed.stdout.trim())
            .map_err(|error| unexpected(format!("replay: {error}: {}", printed.stderr)))
    }

    fn command(&self) -> Result<Command, CliError> {
        let mut command = this_program()?;
        command.env("TENURE_URL", &self.connection.url);
        command.env("TENURE_API_KEY", &self.connection.key);
        Ok(command)
    }
}

/// A process that executes orders.
pub(crate) struct OrderWorker {
    pub(crate) name: String,
    pub(crate) pid: u32,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl OrderWorker {
    /// The step that it executes next, and the fence of its lease.
    pub(crate) async fn executed(&mut self) -> Result<(String, u64), CliError> {
        match read(&mut self.lines, "a step").await? {
            OrderMessage::Executed { step, fence } => Ok((step, fence)),
            other => Err(unexpected(format!("{} said {other:?} before a step", self.name))),
        }
    }

    /// The step before which it hangs.
    pub(crate) async fn reached(&mut self) -> Result<String, CliError> {
        match read(&mut self.lines, "the next step").await? {
            OrderMessage::Reached { step } => Ok(step),
            other => Err(unexpected(format!("{} said {other:?} and did not hang", self.name))),
        }
    }

    /// SIGKILL: no last message, no cleanup.
    pub(crate) async fn kill(mut self) -> Result<(), CliError> {
        self.process.kill().await.map_err(no_process)
    }
}

/// A worker process.
pub(crate) struct WorkerProcess {
    pub(crate) name: String,
    pub(crate) pid: u32,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl WorkerProcess {
    pub(crate) async fn granted(&mut self) -> Result<Envelope, CliError> {
        match self.next_message("a lease").await? {
            TourMessage::Granted { envelope } => Ok(*envelope),
            other => Err(unexpected(format!("{} said {other:?} before a lease", self.name))),
        }
    }

    pub(crate) async fn asked_to_stop(&mut self) -> Result<Option<String>, CliError> {
        match self.next_message("a request to stop").await? {
            TourMessage::AskedToStop { reason } => Ok(reason),
            other => Err(unexpected(format!("{} said {other:?} before being asked", self.name))),
        }
    }

    pub(crate) async fn answered(&mut self) -> Result<Answer, CliError> {
        match self.next_message("an answer").await? {
            TourMessage::Answered { answer } => Ok(answer),
            other => Err(unexpected(format!("{} said {other:?} before an answer", self.name))),
        }
    }

    async fn next_message(&mut self, what: &str) -> Result<TourMessage, CliError> {
        read(&mut self.lines, what).await
    }

    /// SIGKILL: no last message, no cleanup.
    pub(crate) async fn kill(mut self) -> Result<(), CliError> {
        self.process.kill().await.map_err(no_process)
    }
}

/// Starts a server on a free port, which may call receivers on this machine.
async fn serve(folder: &Path) -> Result<(Child, ReadyMessage), CliError> {
    let store = format!("sqlite:{}", store(folder).display());
    let mut server = this_program()?
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--seal-records"])
        .args(["--allow-private-receivers", "127.0.0.0/8", "--store", &store])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(no_process)?;
    let mut lines = lines_of(&mut server);
    let ready: ReadyMessage = read(&mut lines, "the server's address").await?;
    // Keeps the pipe open: a server that cannot write would fail.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok((server, ready))
}

fn store(folder: &Path) -> PathBuf {
    folder.join("tenure.db")
}

/// This program, without the variables in the person's environment that name servers.
pub(crate) fn this_program() -> Result<Command, CliError> {
    let mut command = Command::new(std::env::current_exe().map_err(no_process)?);
    command.env_remove("TENURE_URL").env_remove("TENURE_API_KEY");
    command.stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

fn lines_of(process: &mut Child) -> Lines<BufReader<ChildStdout>> {
    let stdout = process.stdout.take().expect("the process was started with a piped stdout");
    BufReader::new(stdout).lines()
}

async fn read<T: for<'de> Deserialize<'de>>(
    lines: &mut Lines<BufReader<ChildStdout>>,
    what: &str,
) -> Result<T, CliError> {
    let line = timeout(TIMEOUT, lines.next_line())
        .await
        .map_err(|_| unexpected(format!("waited {} s for {what}", TIMEOUT.as_secs())))?;
    let line = line.map_err(no_process)?;
    let line = line.ok_or_else(|| unexpected(format!("a process ended before {what}")))?;
    serde_json::from_str(&line)
        .map_err(|error| unexpected(format!("{what} is not readable: {error}")))
}

fn no_process(error: std::io::Error) -> CliError {
    CliError::new(Exit::Failed, "tour_failed", format!("a process of the tour failed: {error}"))
}

pub(crate) fn unexpected(what: impl std::fmt::Display) -> CliError {
    CliError::new(Exit::Failed, "tour_failed", format!("the tour failed: {what}"))
        .hint("this is a bug in Tenure; `tenure verify` on the tour's store may say more")
}

/// Ends the tour with an error if an expectation does not hold.
pub(crate) fn expect(holds: bool, what: impl std::fmt::Display) -> Result<(), CliError> {
    if holds { Ok(()) } else { Err(unexpected(what)) }
}
