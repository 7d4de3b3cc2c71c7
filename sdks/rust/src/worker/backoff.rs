//! Growing pauses between retries, within the bounds of [`Retries`].

use std::time::Duration;

use crate::Retries;

/// Prevents a busy loop even if the caller sets no pauses.
const BACKOFF_MIN: Duration = Duration::from_millis(1);

pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    pub(crate) fn new(retries: Retries) -> Backoff {
        let first = retries.initial_backoff.max(BACKOFF_MIN);
        Backoff { next: first, max: retries.max_backoff.max(first) }
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(self.max);
    }
}
