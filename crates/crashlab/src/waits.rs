//! Waits with a timeout. Only a failing experiment reaches the timeout, and the error names what it waited for.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than any single step takes on a machine with a tenth of a core to spare.
pub const TIMEOUT: Duration = Duration::from_secs(300);

/// Polling interval for changes without a notification.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub async fn within<T>(what: &str, happens: impl Future<Output = T>) -> Result<T> {
    let happened = tokio::time::timeout(TIMEOUT, happens).await;
    happened.with_context(|| format!("waited {} s for {what}", TIMEOUT.as_secs()))
}

/// Polls until `look` returns something, and returns `None` on timeout.
pub fn until<T>(mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let mut looks = TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        let Some(left) = looks.checked_sub(1) else { return Ok(None) };
        looks = left;
        pause();
    }
}

/// The pause between two polls.
fn pause() {
    let (tell, told) = mpsc::channel::<()>();
    let _ = told.recv_timeout(POLL_INTERVAL);
    drop(tell);
}

/// Waits for a process to end and returns its status.
pub fn death(child: &mut Child, what: &str) -> Result<ExitStatus> {
    match until(|| Ok(child.try_wait()?))? {
        Some(status) => Ok(status),
        None => bail!("waited {} s for {what} to end", TIMEOUT.as_secs()),
    }
}

/// The first line that a process prints; empty if it ends without output.
pub fn first_line(child: &mut Child, what: &str) -> Result<String> {
    let stdout = child.stdout.take().context("the output is piped")?;
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line).map(|_| line);
        // The receiver may have timed out.
        let _ = tell.send(read);
    });
    let said = told.recv_timeout(TIMEOUT);
    Ok(said.with_context(|| format!("waited {} s for {what}", TIMEOUT.as_secs()))??)
}

/// Runs a command to its end, or kills it on timeout.
pub fn run(command: &mut Command) -> Result<Output> {
    let what = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("start {what}"))?;
    let pid = Pid::from_child(&child);
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = tell.send(child.wait_with_output());
    });
    match told.recv_timeout(TIMEOUT) {
        Ok(output) => Ok(output?),
        Err(_) => {
            kill_process(pid, Signal::KILL)?;
            bail!("waited {} s for the end of {what}", TIMEOUT.as_secs())
        }
    }
}
