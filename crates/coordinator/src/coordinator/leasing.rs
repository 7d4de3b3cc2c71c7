//! Waiting for work: a poll, and what its commit did not read.

use std::time::Duration;

use store::{BatchSpec, Browse as _, Spec, TaskKey};
use verdict::TaskId;

use super::Coordinator;
use crate::item::{BatchGrant, Granted, Outage, Poll, RequestError, UnavailableReason};
use crate::metrics::WaitingPollGuard;
use crate::worker_signals::SignalWatch;

/// `Retry-After` when what a granted task was submitted with could not be read.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Coordinator {
    /// Waits for work. Returns no grants if the poll times out.
    pub async fn lease(&self, poll: Poll) -> Result<Vec<Granted>, RequestError> {
        let granted = {
            let _waiting = WaitingPollGuard::new(&self.metrics.polls_waiting);
            self.intake.poll(poll).await?
        };
        self.complete(granted).await
    }

    /// Reads what the commit of these grants did not: inputs that are long. What a task was submitted with never changes.
    async fn complete(&self, grants: Vec<BatchGrant>) -> Result<Vec<Granted>, RequestError> {
        let unread = self.intake.unread(&grants);
        let mut granted = Vec::with_capacity(grants.len());
        for grant in grants {
            let spec = match &grant.spec {
                BatchSpec::Whole(spec) => Some(spec.clone()),
                BatchSpec::Long { .. } => self.spec_of(&grant.key()).await?,
            };
            // One that is gone has ended since, and was deleted.
            granted.extend(spec.map(|spec| grant.complete(spec)));
        }
        unread.delivered();
        Ok(granted)
    }

    async fn spec_of(&self, key: &TaskKey) -> Result<Option<Spec>, RequestError> {
        let found = self.browse().find(key).await;
        let found = found.map_err(|failure| {
            tracing::warn!(error = %failure, task = %key.id, "cannot read the input of a granted task");
            let reason = UnavailableReason::of(&failure);
            RequestError::Unavailable(Outage { reason, retry_after: READ_AGAIN_AFTER })
        })?;
        Ok(found.map(|found| found.spec))
    }

    /// As [`lease`](Self::lease), and returns early when a task that the worker already holds has a signal: its worker
    /// should send a heartbeat for it. A poll for no task waits for signals alone.
    pub async fn lease_or_signal(
        &self,
        poll: Poll,
    ) -> Result<(Vec<Granted>, Vec<TaskId>), RequestError> {
        let watch = self.signals.subscribe(&poll);
        let granted = self.lease_unless_raised(poll, &watch).await?;
        Ok((granted, watch.take()))
    }

    async fn lease_unless_raised(
        &self,
        poll: Poll,
        watch: &SignalWatch,
    ) -> Result<Vec<Granted>, RequestError> {
        if watch.is_raised() && poll.max > 0 {
            // A repeated poll still gets the leases that it was granted before.
            return self.lease(Poll { until: tokio::time::Instant::now(), ..poll }).await;
        }
        let (until, draining) = (poll.until, self.intake.draining());
        if poll.max == 0 {
            tokio::select! {
                biased;
                () = watch.raised() => {}
                () = tokio::time::sleep_until(until) => {}
                () = draining.cancelled() => {}
            }
            return Ok(Vec::new());
        }
        tokio::select! {
            // Grants first: a poll that is given up hands them back.
            biased;
            granted = self.lease(poll) => granted,
            () = watch.raised() => Ok(Vec::new()),
        }
    }
}
