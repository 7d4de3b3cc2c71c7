//! How a worker stops: the first signal drains, the second hands back what still runs, the third
//! ends the process at once.
//!
//! The messages count programs, not leases: an idle worker has nothing to wait for and says so. A
//! report that is still in flight is delivered in any case.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tenure::Worker;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use super::executable::ProgramGone;
use crate::exit::{CliError, CommandResult, Exit};
use crate::{duration, output, server};

/// The number of programs that run.
#[derive(Debug, Default)]
pub(crate) struct RunningPrograms(AtomicUsize);

/// Counts one program while it runs.
pub(crate) struct RunningProgram<'a>(&'a AtomicUsize);

impl RunningPrograms {
    pub(crate) fn enter(&self) -> RunningProgram<'_> {
        self.0.fetch_add(1, Ordering::SeqCst);
        RunningProgram(&self.0)
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for RunningProgram<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the messages about a stop need to know.
pub(crate) struct Stopping<'a> {
    pub(crate) running: &'a RunningPrograms,
    pub(crate) gone: &'a ProgramGone,
    /// Set once a task was abandoned instead of handed back.
    pub(crate) cut: &'a AtomicBool,
    pub(crate) drain: Duration,
}

/// Works until a signal comes or the program is gone. After the third signal, dropping the worker
/// kills its programs.
pub(crate) async fn work_until_signal(worker: Worker, stopping: Stopping<'_>) -> CommandResult {
    let Stopping { running, gone, cut, drain } = stopping;
    let failed = |error| {
        CliError::new(Exit::Failed, "no_signals", format!("cannot listen for signals: {error}"))
    };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut asked = async || {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    };
    let (begin, draining) = oneshot::channel::<()>();
    let (hurry, hurried) = oneshot::channel::<()>();
    let thrice = async {
        asked().await;
        output::note(first_notice(running.count(), drain));
        let _ = begin.send(());
        asked().await;
        output::note(second_notice(running.count()));
        let _ = hurry.send(());
        asked().await;
    };
    let shutdown = async {
        tokio::select! { _ = draining => {}, () = gone.wait() => {} }
    };
    tokio::select! {
        ended = worker.run_until_cut(shutdown, async { drop(hurried.await) }) => {
            if let Some(error) = gone.error() {
                return Err(error);
            }
            ended.map_err(server::cli_error)?;
            Ok(if cut.load(Ordering::SeqCst) { Exit::DrainCut } else { Exit::Done })
        }
        () = thrice => Ok(Exit::DrainCut),
    }
}

fn first_notice(running: usize, drain: Duration) -> String {
    if running == 0 {
        return "stopping; no program is running".to_owned();
    }
    let drain = duration::format_exact(u64::try_from(drain.as_millis()).unwrap_or(u64::MAX));
    format!(
        "stopping; running programs: {running}, which have {drain} to finish; press Ctrl-C or send \
         SIGTERM again to hand their tasks back now"
    )
}

fn second_notice(running: usize) -> String {
    format!(
        "handing back; programs still running: {running}; press Ctrl-C or send SIGTERM again to stop \
         at once"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_worker_with_running_programs_speaks_of_them() {
        let running = RunningPrograms::default();
        let drain = Duration::from_secs(25);
        assert_eq!(first_notice(running.count(), drain), "stopping; no program is running");
        let one = running.enter();
        let two = running.enter();
        assert!(first_notice(running.count(), drain).contains("programs: 2, which have 25 s"));
        drop(one);
        assert!(second_notice(running.count()).contains("running: 1;"));
        drop(two);
        assert_eq!(running.count(), 0);
    }
}
