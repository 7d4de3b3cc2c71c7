//! The program under test: started, watched, stopped.
//!
//! Each process has a group of its own, so that what it started ends with it. Its lines on stderr are events of the case;
//! a client's lines on stdout are its answers.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::case::{Role, Subject};
use crate::coordinator::Coordinator;

/// How long a subject may take to end when it is told to, beyond its own shutdown timeout.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// A process that is killed is gone at once, unless the machine is starved.
const KILLED_WITHIN: Duration = Duration::from_secs(10);
/// Lines that a program under test may write; more are counted, not kept.
const LINES_MAX: usize = 500;

/// What every process of a case is started with.
pub(crate) struct Start {
    pub(crate) command: Vec<String>,
    pub(crate) subject: Subject,
    pub(crate) urls: String,
}

pub(crate) struct Process {
    group: Option<Pid>,
    pub(crate) stdin: Option<ChildStdin>,
    /// The kit ended it, so its exit code says nothing.
    is_killed: Arc<AtomicBool>,
    is_over: watch::Receiver<bool>,
}

/// Whether a process ended when it was told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    InTime,
    Killed,
}

impl Process {
    pub(crate) fn start(start: &Start, coordinator: &Arc<Coordinator>) -> io::Result<Process> {
        let (program, arguments) =
            start.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let settings = serde_json::to_string(&start.subject).map_err(io::Error::other)?;
        let mut child = Command::new(program)
            .args(arguments)
            .env("TENURE_URL", &start.urls)
            .env("TENURE_API_KEY", &coordinator.api_key)
            .env("TENURE_CONFORM", settings)
            .env_remove("TENURE_CA_FILE")
            .envs(&start.subject.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let stdin = child.stdin.take();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(lines(stderr, Arc::clone(coordinator), "stderr"));
        }
        if let Some(stdout) = child.stdout.take() {
            let name = if start.subject.role == Role::Client { "said" } else { "stdout" };
            tokio::spawn(lines(stdout, Arc::clone(coordinator), name));
        }
        let is_killed = Arc::new(AtomicBool::new(false));
        let (over, is_over) = watch::channel(false);
        tokio::spawn(follow(child, Arc::clone(coordinator), Arc::clone(&is_killed), over));
        Ok(Process { group, stdin, is_killed, is_over })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let Some(group) = self.group.filter(|_| !*self.is_over.borrow()) else { return };
        // SIGTERM is for the program; the rest is for everything that it started too.
        let _ = match signal {
            Signal::TERM => kill_process(group, signal),
            _ => kill_process_group(group, signal),
        };
    }

    /// Ends it without a word.
    pub(crate) async fn kill(&mut self) {
        self.is_killed.store(true, Ordering::Relaxed);
        self.signal(Signal::KILL);
        let _ = timeout(KILLED_WITHIN, self.is_over.wait_for(|over| *over)).await;
    }

    /// Asks it to end, and ends what is left of it.
    pub(crate) async fn stop(mut self, shutdown: Duration) -> Stopped {
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        drop(self.stdin.take());
        let ended = timeout(shutdown + STOP_WITHIN, self.is_over.wait_for(|over| *over)).await;
        let is_in_time = ended.is_ok();
        if let Some(group) = self.group {
            // What it left behind.
            let _ = kill_process_group(group, Signal::KILL);
        }
        if is_in_time { Stopped::InTime } else { Stopped::Killed }
    }

    pub(crate) async fn say(&mut self, line: &Value) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        stdin.write_all(format!("{line}\n").as_bytes()).await?;
        stdin.flush().await
    }
}

/// Notes the end of a process.
async fn follow(
    mut child: Child,
    coordinator: Arc<Coordinator>,
    is_killed: Arc<AtomicBool>,
    over: watch::Sender<bool>,
) {
    let status = child.wait().await.ok();
    let name = if is_killed.load(Ordering::Relaxed) { "killed" } else { "exit" };
    let code = status.and_then(|status| status.code());
    coordinator.model().log.event(name, json!({"code": code}));
    let _ = over.send(true);
    coordinator.tell();
}

/// Notes the lines of a stream; those of a client are JSON.
async fn lines(stream: impl AsyncRead + Unpin, coordinator: Arc<Coordinator>, name: &'static str) {
    let mut lines = BufReader::new(stream).lines();
    let mut count = 0;
    while let Ok(Some(line)) = lines.next_line().await {
        count += 1;
        if count > LINES_MAX {
            continue;
        }
        let members = match name {
            "said" => serde_json::from_str(&line).unwrap_or(json!({"text": line})),
            _ => json!({"text": line}),
        };
        let is_ready = name == "said" && members["ready"] == true;
        let name = if is_ready { "opened" } else { name };
        coordinator.model().log.event(name, members);
        coordinator.tell();
    }
}
