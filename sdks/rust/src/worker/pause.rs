//! Growing pauses between tries, within the bounds of [`Retries`].

use std::time::Duration;

use crate::Retries;

/// Even a caller that wants no pauses must not spin.
const PAUSE_MIN: Duration = Duration::from_millis(1);

pub(crate) struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    pub(crate) fn new(retries: Retries) -> Pause {
        let first = retries.first_pause.max(PAUSE_MIN);
        Pause { next: first, longest: retries.longest_pause.max(first) }
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(self.longest);
    }
}
