//! Where a program reaches its worker: a socket for each attempt, and who comes through it.
//!
//! Invariants:
//! - operations go one after the other: what a program does at once would be recorded in an order that another attempt need not
//!   repeat, so a second one is refused while the first is under way;
//! - the folder of the socket can be entered by its user alone, and is gone with the attempt.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tenure::{Spend, Step};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::talk::{Asked, Done, Line, Told, Used};

/// Programs whose commands wait to be heard. The rest waits in the system.
const CALLERS_MAX: usize = 32;
const BUSY: &str = "another command of this program is under way, and operations are recorded one after the other; \
                    wait for it before the next one";

/// The socket of one attempt.
#[derive(Debug)]
pub(super) struct Door {
    folder: PathBuf,
    path: PathBuf,
    listener: UnixListener,
}

impl Door {
    pub(super) fn open() -> io::Result<Door> {
        let random = getrandom::u64().map_err(io::Error::other)?;
        let folder = std::env::temp_dir().join(format!("tenure-{random:016x}"));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let path = folder.join("worker");
        let listener = UnixListener::bind(&path);
        match listener {
            Ok(listener) => Ok(Door { folder, path, listener }),
            Err(error) => {
                let _ = std::fs::remove_dir(&folder);
                Err(error)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Hears everybody who comes. Never ends by itself.
    pub(super) async fn serve(&self, desk: &Arc<Desk>) {
        let mut callers = JoinSet::new();
        loop {
            tokio::select! {
                came = self.listener.accept(), if callers.len() < CALLERS_MAX => {
                    if let Ok((stream, _)) = came {
                        callers.spawn(Arc::clone(desk).meet(stream));
                    }
                }
                Some(_) = callers.join_next() => {}
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// An operation that a program asked for.
pub(super) struct Operation {
    pub(super) asked: Asked,
    pub(super) line: Line,
    /// Until it is given back, no other operation begins.
    pub(super) turn: OwnedSemaphorePermit,
}

/// What the door and the recording of one attempt share.
pub(super) struct Desk {
    /// `None` after the last operation.
    operations: mpsc::Sender<Option<Operation>>,
    turn: Arc<Semaphore>,
    /// The step whose command runs: what is spent meanwhile is spent by it.
    running: Mutex<Option<Step>>,
}

impl Desk {
    pub(super) fn new() -> (Arc<Desk>, mpsc::Receiver<Option<Operation>>) {
        let (operations, asked) = mpsc::channel(1);
        let turn = Arc::new(Semaphore::new(1));
        (Arc::new(Desk { operations, turn, running: Mutex::new(None) }), asked)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.turn.available_permits() == 0
    }

    /// Says that no operation will follow.
    pub(super) async fn close(&self) {
        let _ = self.operations.send(None).await;
    }

    pub(super) fn set_running(&self, step: Option<Step>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    async fn meet(self: Arc<Desk>, stream: UnixStream) {
        let mut line = Line::new(stream);
        let Ok(asked) = line.hear::<Asked>().await else { return };
        let done = match asked {
            Asked::Spend(used) if self.is_spent_by_step(used) => Done::default(),
            asked => match Arc::clone(&self.turn).try_acquire_owned() {
                Ok(turn) => {
                    let _ = self.operations.send(Some(Operation { asked, line, turn })).await;
                    return;
                }
                Err(_) => Done { exit: 2, note: Some(BUSY.to_owned()), value: None },
            },
        };
        let _ = line.say(&Told::Done(done)).await;
    }

    /// Adds to what the running step uses. Returns `false` if none runs.
    fn is_spent_by_step(&self, used: Used) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|step| step.spend(spend(used))).is_some()
    }
}

pub(super) fn spend(used: Used) -> Spend {
    let Used { tokens, tool_calls, cost_micros } = used;
    Spend { tokens, tool_calls, cost_micros }
}
