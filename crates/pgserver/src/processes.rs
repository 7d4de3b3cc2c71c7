//! Finds all processes of one server and kills them together.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, Result};

/// Interval between polls for a state that is not announced, and their maximum number: five minutes in all.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const POLLS_MAX: usize = 60_000;

/// Kills the server that runs in a folder, with all processes that it started.
pub(crate) fn kill(data: &Path) -> Result<()> {
    if let Some(parent) = parent(data) {
        // Stopped first, so that it starts no process while the others are killed. It may be dead already.
        let _ = kill_process(parent, Signal::STOP);
    }
    until("a killed server to be gone", || {
        let left = at_work_in(data)?;
        for process in &left {
            // Some exit when they notice that their parent is gone.
            let _ = kill_process(*process, Signal::KILL);
        }
        Ok(left.is_empty())
    })
}

fn parent(data: &Path) -> Option<Pid> {
    let file = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    Pid::from_raw(file.lines().next()?.trim().parse().ok()?)
}

/// Every process of a server has the data folder as its working directory, and no other process does. A process that
/// was missed would keep the server's shared memory, and the next server in that folder would refuse to start.
fn at_work_in(data: &Path) -> Result<Vec<Pid>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc").map_err(Error::file("/proc"))?.flatten() {
        let id = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        let is_there = fs::read_link(entry.path().join("cwd")).is_ok_and(|place| place == data);
        processes.extend(id.filter(|_| is_there));
    }
    Ok(processes)
}

/// Polls until a condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..POLLS_MAX {
        if holds()? {
            return Ok(());
        }
        let (tell, told) = mpsc::channel::<()>();
        let _ = told.recv_timeout(POLL_INTERVAL);
        drop(tell);
    }
    Err(Error::Waited(what.to_owned()))
}
