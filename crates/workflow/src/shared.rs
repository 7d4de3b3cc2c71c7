//! What the run and every context of its code share: the state behind a lock that is never held while code runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use serde::Serialize;

use crate::Digest;
use crate::alarm::Alarm;
use crate::core::Core;

pub(crate) struct Shared {
    pub(crate) alarm: Arc<Alarm>,
    core: Mutex<Core>,
}

impl Shared {
    pub(crate) fn new(core: Core) -> Shared {
        let alarm = Arc::new(Alarm::default());
        alarm.ring();
        Shared { alarm, core: Mutex::new(core) }
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        // A panic of the user's code never happens under the lock.
        act(&mut self.core.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What identifies a value. Code that the user gave computes it, so not under the lock.
    pub(crate) fn digest_of<T: Serialize + ?Sized>(
        &self,
        value: &T,
    ) -> Result<Digest, serde_json::Error> {
        let digest = self.with(|core| core.digest());
        Digest::under(digest.as_ref(), value)
    }

    /// Whether the coordinator stores values in a form that it cannot read.
    pub(crate) fn is_sealed(&self) -> bool {
        self.with(|core| core.digest()).is_some()
    }

    /// Wakes every operation that waits, outside of the lock: a waker may be code of the user's executor.
    pub(crate) fn wake_code(&self) {
        for waker in self.with(Core::take_wakers) {
            waker.wake();
        }
    }

    /// Waits until there is an answer. It is asked again after every event.
    pub(crate) async fn until<T>(&self, mut answer: impl FnMut(&mut Core) -> Option<T>) -> T {
        std::future::poll_fn(|cx| {
            self.with(|core| match answer(core) {
                Some(answer) => Poll::Ready(answer),
                None => {
                    core.park(cx.waker());
                    Poll::Pending
                }
            })
        })
        .await
    }
}
