//! A list that grows, and a way to wait for its content.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;

/// Only a failing test takes this long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Log<T> {
    entries: Mutex<Vec<T>>,
    grew: Notify,
}

impl<T: Clone> Log<T> {
    pub(crate) fn new() -> Log<T> {
        Log { entries: Mutex::new(Vec::new()), grew: Notify::new() }
    }

    pub(crate) fn push(&self, entry: T) {
        self.entries.lock().unwrap().push(entry);
        self.grew.notify_waiters();
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.entries.lock().unwrap().clone()
    }

    /// Waits until `is_enough` holds, and returns everything so far.
    pub(crate) async fn until(&self, what: &str, is_enough: impl Fn(&[T]) -> bool) -> Vec<T> {
        let waited = tokio::time::timeout(TIMEOUT, async {
            loop {
                let mut grew = std::pin::pin!(self.grew.notified());
                grew.as_mut().enable();
                let entries = self.all();
                if is_enough(&entries) {
                    return entries;
                }
                grew.await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("never happened: {what}"))
    }
}
