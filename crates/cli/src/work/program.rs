//! One attempt by a program: input on stdin, output from stdout, progress on descriptor 3, and how
//! to stop it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::limits::{PAYLOAD_BYTES_MAX, STACK_TRACE_BYTES_MAX};

use super::group::{self, Group};
use super::progress::{self, LINE_BYTES_MAX, Line};
use super::stderr_lines::{StderrLines, TextHandler};
use crate::output;

/// How long a program that lost its lease may clean up: its work is void, and only the lease's last
/// second is left before another worker may start.
pub(crate) const LOST_GRACE: Duration = Duration::from_millis(800);
/// How long the pipes may stay open after the program and its group have ended: a process that left
/// the session may hold them open indefinitely.
const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const CHUNK_BYTES: usize = 8 * 1024;

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Stdout,
    /// The end of its stderr output.
    pub(crate) stderr_tail: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stdout {
    Whole(Vec<u8>),
    TooLarge,
}

/// Called for each line while the program runs.
pub(crate) type LineHandler = Box<dyn FnMut(Line) + Send>;

/// What goes through the pipes of a program.
pub(crate) struct Pipes {
    pub(crate) input: String,
    pub(crate) listener: LineHandler,
    /// Put before each line of stderr that is shown, so that programs that run side by side can be
    /// told apart.
    pub(crate) stderr_prefix: Option<String>,
    /// Gets stderr as lines.
    pub(crate) stderr_lines: TextHandler,
}

/// Runs a program to its end. When `stop` completes, the program gets SIGTERM, and after the grace
/// period that `stop` returns it is killed, with all its child processes.
pub(crate) async fn execute(
    command: Command,
    pipes: Pipes,
    stop: impl Future<Output = Duration>,
) -> io::Result<Finished> {
    let Pipes { input, listener, stderr_prefix, stderr_lines } = pipes;
    let started = group::start(command).await?;
    let group = started.group;
    let _ends_with_me = KillOnDrop(group.clone());
    let mut ended = started.ended;
    let feed = tokio::spawn(feed(ChildStdin::from_std(started.stdin)?, input));
    let stdout = ChildStdout::from_std(started.stdout)?;
    let mut stdout = ReadTask::of(tokio::spawn(collect(stdout, group.clone())));
    let stderr = ChildStderr::from_std(started.stderr)?;
    let mut stderr = ReadTask::of(tokio::spawn(pass_through(stderr, stderr_prefix, stderr_lines)));
    let lines = ReadTask::of(tokio::spawn(listen(started.progress, listener)));

    tokio::pin!(stop);
    let status = tokio::select! {
        status = &mut ended => status,
        grace = &mut stop => {
            end(&group, &mut ended, grace).await
        }
    };
    feed.abort();
    let status = status.map_err(io::Error::other)??;
    lines.finish().await;
    Ok(Finished {
        status,
        stdout: stdout.take().await.unwrap_or(Stdout::Whole(Vec::new())),
        stderr_tail: stderr.take().await.unwrap_or_default(),
    })
}

/// Dropping an attempt kills its program.
struct KillOnDrop(Arc<Group>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.signal(Signal::KILL);
    }
}

type ExitReceiver = tokio::sync::oneshot::Receiver<io::Result<ExitStatus>>;
type ExitResult = Result<io::Result<ExitStatus>, tokio::sync::oneshot::error::RecvError>;

async fn end(group: &Group, ended: &mut ExitReceiver, grace: Duration) -> ExitResult {
    group.signal(Signal::TERM);
    match timeout(grace, &mut *ended).await {
        Ok(status) => status,
        Err(_) => {
            group.signal(Signal::KILL);
            ended.await
        }
    }
}

/// Reads a pipe beside the program, and gives up if the pipe stays open after the program has
/// ended.
struct ReadTask<T>(Option<JoinHandle<T>>);

impl<T> ReadTask<T> {
    fn of(task: JoinHandle<T>) -> ReadTask<T> {
        ReadTask(Some(task))
    }

    async fn take(&mut self) -> Option<T> {
        let mut task = self.0.take()?;
        match timeout(PIPE_DRAIN_TIMEOUT, &mut task).await {
            Ok(read) => read.ok(),
            Err(_) => {
                task.abort();
                None
            }
        }
    }

    async fn finish(mut self) {
        self.take().await;
    }
}

/// A dropped worker must not leave readers behind.
impl<T> Drop for ReadTask<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

async fn feed(mut stdin: ChildStdin, input: String) {
    // A program need not read its input.
    let _ = stdin.write_all(input.as_bytes()).await;
    let _ = stdin.shutdown().await;
}

/// Reads up to the size limit of an output; a program that writes more is killed.
async fn collect(mut stdout: ChildStdout, group: Arc<Group>) -> Stdout {
    let mut bytes = Vec::new();
    let limit = PAYLOAD_BYTES_MAX as u64 + 1;
    let _ = (&mut stdout).take(limit).read_to_end(&mut bytes).await;
    if bytes.len() > PAYLOAD_BYTES_MAX {
        group.signal(Signal::KILL);
        return Stdout::TooLarge;
    }
    Stdout::Whole(bytes)
}

/// Copies stderr to the terminal and to the log of the attempt, and keeps its end.
async fn pass_through(
    mut stderr: impl AsyncRead + Unpin,
    prefix: Option<String>,
    handler: TextHandler,
) -> String {
    let mut logged = StderrLines::new(handler);
    let mut tail: Vec<u8> = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut lines = PrefixedLines::new(prefix);
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        let shown = lines.shown(&chunk[..read]);
        let _ = anstream::stderr().lock().write_all(&shown);
        logged.take(&chunk[..read]);
        tail.extend_from_slice(&chunk[..read]);
        let surplus = tail.len().saturating_sub(STACK_TRACE_BYTES_MAX);
        tail.drain(..surplus);
    }
    let _ = anstream::stderr().lock().write_all(&lines.rest());
    logged.finish();
    String::from_utf8_lossy(&tail).into_owned()
}

/// Puts a prefix before each line. A line is shown once it is whole, so that the lines of several
/// programs do not mix; a very long one is shown in pieces.
struct PrefixedLines {
    prefix: Option<String>,
    begun: Vec<u8>,
}

impl PrefixedLines {
    fn new(prefix: Option<String>) -> PrefixedLines {
        PrefixedLines { prefix, begun: Vec::new() }
    }

    /// What can be shown after these bytes have come.
    fn shown(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(prefix) = &self.prefix else { return bytes.to_vec() };
        let mut shown = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            let is_whole = self.begun.ends_with(b"\n");
            if is_whole || self.begun.len() >= CHUNK_BYTES {
                shown.extend_from_slice(prefix.as_bytes());
                shown.append(&mut self.begun);
                if !is_whole {
                    shown.push(b'\n');
                }
            }
        }
        shown
    }

    /// The last line, if the program did not end it.
    fn rest(&mut self) -> Vec<u8> {
        match (&self.prefix, self.begun.is_empty()) {
            (Some(prefix), false) => [prefix.as_bytes(), &self.begun, b"\n"].concat(),
            _ => Vec::new(),
        }
    }
}

async fn listen(pipe: File, mut listener: LineHandler) {
    let Ok(pipe) = pipe::Receiver::from_owned_fd(OwnedFd::from(pipe)) else { return };
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    let limit = LINE_BYTES_MAX as u64;
    while let Ok(1..) = (&mut reader).take(limit).read_until(b'\n', &mut line).await {
        match progress::parse(&String::from_utf8_lossy(&line)) {
            Ok(line) => listener(line),
            Err(ignored) => output::warning(ignored.0),
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::sync::mpsc;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    fn pipes(input: &str, listener: LineHandler) -> Pipes {
        let stderr_lines = Box::new(|_: &str| {});
        Pipes { input: input.to_owned(), listener, stderr_prefix: None, stderr_lines }
    }

    async fn run(script: &str, input: &str) -> Finished {
        let never = std::future::pending();
        execute(shell(script), pipes(input, Box::new(|_| {})), never).await.unwrap()
    }

    fn whole(finished: &Finished) -> String {
        match &finished.stdout {
            Stdout::Whole(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            Stdout::TooLarge => panic!("more than expected"),
        }
    }

    /// Reaped, or a zombie that waits for init to reap it.
    fn is_gone(pid: &str) -> bool {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")),
            Err(_) => true,
        }
    }

    async fn until_gone(pid: &str) {
        let gone = async {
            while !is_gone(pid) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(10), gone).await.expect("the process ends");
    }

    fn pid_in(file: &Path) -> String {
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    #[tokio::test]
    async fn input_goes_in_and_output_comes_out() {
        let finished = run("cat; echo said >&2; exit 3", r#"{"a":1}"#).await;
        assert_eq!(whole(&finished), r#"{"a":1}"#);
        assert_eq!((finished.status.code(), finished.stderr_tail.as_str()), (Some(3), "said\n"));
    }

    #[tokio::test]
    async fn a_program_need_not_read_its_input() {
        let finished = run("exit 0", &"x".repeat(PAYLOAD_BYTES_MAX)).await;
        assert!(finished.status.success());
    }

    #[tokio::test]
    async fn only_the_end_of_a_long_stderr_is_kept() {
        let finished = run("head -c 100000 /dev/zero | tr '\\0' x >&2; echo the end >&2", "").await;
        assert_eq!(finished.stderr_tail.len(), STACK_TRACE_BYTES_MAX);
        assert!(finished.stderr_tail.ends_with("the end\n"));
    }

    #[tokio::test]
    async fn output_beyond_the_limit_ends_the_program() {
        let finished = run("yes", "").await;
        assert_eq!(finished.stdout, Stdout::TooLarge);
        assert!(!finished.status.success());
    }

    #[test]
    fn lines_of_programs_side_by_side_say_whose_they_are() {
        let mut lines = PrefixedLines::new(Some("run_1: ".to_owned()));
        assert_eq!(lines.shown(b"on"), b"");
        assert_eq!(lines.shown(b"e\ntwo\nthr"), b"run_1: one\nrun_1: two\n");
        assert_eq!(lines.rest(), b"run_1: thr\n");
        let mut lines = PrefixedLines::new(Some("run_1: ".to_owned()));
        let shown = lines.shown(&vec![b'x'; CHUNK_BYTES]);
        assert_eq!(shown.len(), "run_1: ".len() + CHUNK_BYTES + 1, "nothing is kept without end");
        let mut alone = PrefixedLines::new(None);
        assert_eq!((alone.shown(b"40 %\r"), alone.rest()), (b"40 %\r".to_vec(), Vec::new()));
    }

    #[tokio::test]
    async fn progress_lines_are_heard_in_order() {
        let (tell, mut told) = mpsc::channel(8);
        let listener: LineHandler = Box::new(move |line| tell.try_send(line).unwrap());
        let script =
            "echo progress 10 begun >&3; echo nonsense >&3; echo message on >&$TENURE_PROGRESS_FD";
        let mut command = shell(script);
        command.env("TENURE_PROGRESS_FD", "3");
        execute(command, pipes("", listener), std::future::pending()).await.unwrap();
        let first = Line::Progress { percent: 10.0, message: Some("begun".to_owned()) };
        assert_eq!(told.recv().await, Some(first));
        assert_eq!(told.recv().await, Some(Line::Message("on".to_owned())));
        assert_eq!(told.recv().await, None);
    }

    #[tokio::test]
    async fn a_group_that_ignores_sigterm_is_killed_as_a_whole() {
        // S4-52, S4-53: after a cancel no process of the attempt is left, not even grandchildren
        // that ignore SIGTERM.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("grandchild");
        let deaf = "trap '' TERM; while :; do sleep 1; done";
        let script = format!(
            "trap '' TERM; sh -c \"{deaf}\" & echo $! > {}; echo message ready >&3; {deaf}",
            file.display()
        );
        let (tell, mut told) = mpsc::channel(1);
        let listener: LineHandler = Box::new(move |_| {
            let _ = tell.try_send(());
        });
        let ready = async {
            told.recv().await;
            Duration::from_millis(50)
        };
        let finished = execute(shell(&script), pipes("", listener), ready).await.unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&finished.status), Some(9));
        until_gone(&pid_in(&file)).await;
    }

    #[tokio::test]
    async fn a_program_that_heeds_sigterm_is_not_killed() {
        let (tell, mut told) = mpsc::channel(1);
        let listener: LineHandler = Box::new(move |_| {
            let _ = tell.try_send(());
        });
        let ready = async {
            told.recv().await;
            Duration::from_secs(30)
        };
        let script =
            "trap 'echo tidied; exit 0' TERM; echo message ready >&3; while :; do sleep 0.05; done";
        let finished = execute(shell(script), pipes("", listener), ready).await.unwrap();
        assert_eq!((finished.status.code(), whole(&finished).as_str()), (Some(0), "tidied\n"));
    }

    #[tokio::test]
    async fn what_a_program_leaves_running_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("left");
        let finished =
            run(&format!("sleep 1000 & echo $! > {}; echo done", file.display()), "").await;
        assert_eq!(whole(&finished), "done\n");
        until_gone(&pid_in(&file)).await;
    }

    #[tokio::test]
    async fn a_dropped_attempt_takes_its_program_with_it() {
        // S3-28: whatever makes the worker drop an attempt, its program does not continue.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        let (tell, mut told) = mpsc::channel(1);
        let listener: LineHandler = Box::new(move |_| {
            let _ = tell.try_send(());
        });
        let script = format!("echo $$ > {}; echo message ready >&3; sleep 1000", file.display());
        let attempt = execute(shell(&script), pipes("", listener), std::future::pending());
        tokio::select! {
            ended = attempt => panic!("{ended:?} too early"),
            _ = told.recv() => {}
        }
        until_gone(&pid_in(&file)).await;
    }

    #[tokio::test]
    async fn a_program_that_cannot_be_started_is_an_error_with_its_cause() {
        let missing = Command::new("/nowhere/program");
        let error = execute(missing, pipes("", Box::new(|_| {})), std::future::pending()).await;
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
