//! The worker program of a replay: started with the address and key of the replay, and stopped with everything that it
//! started.

use std::io;
use std::os::fd::AsFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::exit::{CliError, Exit};

/// How long a worker may take to end when it is asked to. It holds nothing that counts.
const STOP_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct WorkerProcess {
    child: Child,
    group: Option<Pid>,
}

impl WorkerProcess {
    /// Its output goes to stderr: stdout is for what the replay found.
    pub(super) fn start(command: &[String], url: &str, key: &str) -> Result<Self, CliError> {
        let (program, arguments) = command.split_first().expect("the parser asks for a program");
        let started = stderr().and_then(|stdout| {
            Command::new(program)
                .args(arguments)
                .env("TENURE_URL", url)
                .env("TENURE_API_KEY", key)
                .env_remove("TENURE_CA_FILE")
                .stdin(Stdio::null())
                .stdout(stdout)
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
        });
        let child = started.map_err(|error| {
            let message = format!("cannot start `{program}`: {error}");
            CliError::usage("program_not_found", message)
                .hint("give the command that starts your worker after two dashes")
        })?;
        let raw = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(WorkerProcess { child, group: raw.and_then(Pid::from_raw) })
    }

    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => describe(status),
            Err(error) => error.to_string(),
        }
    }

    /// Asks it to stop, and ends what is left of it.
    pub(super) async fn stop(mut self) {
        self.signal(Signal::TERM);
        // One that does not end in time is killed below.
        let _ = timeout(STOP_WITHIN, self.child.wait()).await;
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that has ended needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }
}

fn stderr() -> io::Result<Stdio> {
    io::stderr().as_fd().try_clone_to_owned().map(Stdio::from)
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => status.to_string(),
    }
}

pub(super) fn no_interrupts(error: io::Error) -> CliError {
    CliError::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
}
