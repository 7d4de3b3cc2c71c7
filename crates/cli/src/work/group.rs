//! One program with all its child processes, in a separate session that can be killed as a whole.
//!
//! One thread per program starts it, waits for it, kills what it left behind, and only then reaps
//! its process id. So a signal never reaches an unrelated process that reuses the id. And because
//! the system ties a program to the thread that started it, the program dies with this process even
//! if that is killed.
//!
//! A process that leaves the session on purpose (`setsid`) is out of reach; only a container could
//! hold it.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::sync::oneshot;

/// The descriptor to which a program writes its progress lines.
pub(crate) const PROGRESS_FD: i32 = 3;

/// A program that was started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) group: Arc<Group>,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
    pub(crate) progress: File,
    /// Completes when the program and its group have ended.
    pub(crate) ended: oneshot::Receiver<io::Result<ExitStatus>>,
}

/// Sends signals to a program and all its child processes.
#[derive(Debug)]
pub(crate) struct Group {
    pid: Pid,
    state: Mutex<GroupState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupState {
    Alive,
    /// The process id may belong to another process by now.
    Reaped,
}

impl Group {
    pub(crate) fn signal(&self, signal: Signal) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == GroupState::Alive {
            // The only failure is that no process is left, which is the purpose of the signal.
            let _ = rustix::process::kill_process_group(self.pid, signal);
        }
    }

    /// Waits for the program, kills what it left behind, and reaps its process id.
    fn reap(&self, child: &mut std::process::Child) -> io::Result<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(error) = rustix::process::waitid(WaitId::Pid(self.pid), options) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        self.signal(Signal::KILL);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = GroupState::Reaped;
        child.wait()
    }
}

/// Starts a program in a separate session, with pipes for its input, output and progress.
pub(crate) async fn start(command: Command) -> io::Result<Started> {
    let (tell_started, started) = oneshot::channel();
    let (tell_ended, ended) = oneshot::channel();
    std::thread::Builder::new().name("program".to_owned()).spawn(move || {
        match spawn(command) {
            Ok((mut child, progress)) => {
                let group =
                    Arc::new(Group { pid: pid_of(&child), state: Mutex::new(GroupState::Alive) });
                let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
                // The receiver is gone only if the worker is shutting down, and then the group is
                // killed too.
                let _ = tell_started.send(Ok((Arc::clone(&group), pipes, progress)));
                let _ = tell_ended.send(group.reap(&mut child));
            }
            Err(error) => {
                let _ = tell_started.send(Err(error));
            }
        }
    })?;
    let (group, pipes, progress) = started.await.map_err(io::Error::other)??;
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        unreachable!("spawn asked for three pipes");
    };
    Ok(Started { group, stdin, stdout, stderr, progress, ended })
}

fn pid_of(child: &std::process::Child) -> Pid {
    let raw = i32::try_from(child.id()).expect("process ids are positive and fit");
    Pid::from_raw(raw).expect("a started process has an id above 0")
}

#[expect(unsafe_code, reason = "what happens between fork and exec cannot be said otherwise")]
fn spawn(mut command: Command) -> io::Result<(std::process::Child, File)> {
    // Created first: this occupies descriptor 3 if it was free, so that none of the pipes that std
    // opens between fork and exec can be the one that is replaced below.
    let (reader, writer): (PipeReader, PipeWriter) = io::pipe()?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let parent = rustix::process::getpid();
    // SAFETY: the closure only makes system calls that are allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            die_with_parent(parent)?;
            place(&writer)
        });
    }
    let child = command.spawn()?;
    Ok((child, File::from(OwnedFd::from(reader))))
}

#[cfg(target_os = "linux")]
fn die_with_parent(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the line above.
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::from(rustix::io::Errno::SRCH))
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_parent: Pid) -> io::Result<()> {
    Ok(())
}

/// Makes the pipe descriptor 3 of the program.
#[expect(unsafe_code, reason = "descriptor 3 has no owner yet in the forked child")]
fn place(writer: &PipeWriter) -> io::Result<()> {
    if writer.as_raw_fd() == PROGRESS_FD {
        return Ok(rustix::io::fcntl_setfd(writer, FdFlags::empty())?);
    }
    // SAFETY: this is the forked child; nothing else in it uses descriptor 3, and it is not closed here.
    let mut target = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(PROGRESS_FD) });
    Ok(rustix::io::dup2(writer, &mut target)?)
}
