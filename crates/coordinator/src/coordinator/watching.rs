//! Callers that wait for something that happens to a task: woken by the commit, and looking by themselves only where other
//! coordinators write.

#[cfg(feature = "http")]
use std::sync::Arc;
use std::time::Duration;

use store::Failure;
use verdict::TaskId;

use super::Coordinator;
#[cfg(feature = "http")]
use crate::recent_runs::SubmittedRun;
#[cfg(feature = "http")]
use crate::task_watch::TaskWatch;
use crate::task_watch::{Awaited, Occasion};

/// How often a wait for a task polls the store for changes by other coordinators.
const WATCH_POLL_INTERVAL: Duration = Duration::from_millis(250);

impl Coordinator {
    /// Calls `look` until it returns a value, or `wait` is over: at once, and whenever what is awaited has happened.
    pub async fn watch_until<T, F>(
        &self,
        task: TaskId,
        awaited: Awaited,
        wait: Duration,
        mut look: impl FnMut(Occasion) -> F,
    ) -> Result<Option<T>, Failure>
    where
        F: Future<Output = Result<Option<T>, Failure>>,
    {
        // Before `look` is called, so that nothing in between is missed.
        let watching = self.watch.subscribe(&[task], awaited);
        let deadline = tokio::time::Instant::now() + wait;
        let draining = self.intake.draining();
        let mut occasion = Occasion::Routine;
        loop {
            if let Some(found) = look(occasion).await? {
                return Ok(Some(found));
            }
            // If other coordinators write too, only polling finds their changes.
            let look_again = tokio::time::Instant::now() + WATCH_POLL_INTERVAL;
            let others = self.has_peers();
            occasion = tokio::select! {
                // In a fixed order, so that equal runs of a simulation stay equal.
                biased;
                () = watching.happened() => Occasion::Woken,
                () = tokio::time::sleep_until(deadline) => return Ok(None),
                () = tokio::time::sleep_until(look_again), if others => Occasion::Routine,
                () = draining.cancelled() => return Ok(None),
            };
        }
    }

    /// Registers a caller that waits for the ends of these tasks.
    #[cfg(feature = "http")]
    pub(crate) fn watch_ends(&self, tasks: &[TaskId]) -> TaskWatch {
        self.watch.subscribe(tasks, Awaited::End)
    }

    /// Waits for the next news, and no longer than until `deadline` or until the coordinator drains.
    #[cfg(feature = "http")]
    pub(crate) async fn next_end(
        &self,
        watch: &TaskWatch,
        deadline: tokio::time::Instant,
    ) -> Option<Occasion> {
        let look_again = tokio::time::Instant::now() + WATCH_POLL_INTERVAL;
        let draining = self.intake.draining();
        tokio::select! {
            // In a fixed order, so that equal runs of a simulation stay equal.
            biased;
            () = watch.happened() => Some(Occasion::Woken),
            () = tokio::time::sleep_until(deadline) => None,
            () = tokio::time::sleep_until(look_again), if self.has_peers() => Some(Occasion::Routine),
            () = draining.cancelled() => None,
        }
    }

    /// The run as it was submitted here a moment ago, if it has not ended. Its end at a peer may not be known here yet, so
    /// it counts only for as long as a waiting caller would not look either.
    #[cfg(feature = "http")]
    pub(crate) fn recent_run(&self, id: TaskId) -> Option<Arc<SubmittedRun>> {
        let run = self.recent_runs.get(id)?;
        let age = self.now().since(run.at);
        (!self.has_peers() || u128::from(age.millis()) < WATCH_POLL_INTERVAL.as_millis())
            .then_some(run)
    }

    /// Whether other coordinators write to the same store.
    pub(crate) fn has_peers(&self) -> bool {
        self.store.status().writers > 1
    }

    /// How many tasks callers wait for now.
    pub fn count_watched(&self) -> usize {
        self.watch.count()
    }
}
