//! Wakes the driver, and notices when something other than `flow` wakes the code.
//!
//! The code is polled with a waker of the engine. Operations of `flow` wake it while the engine runs, and the work of a
//! step wakes it through [`WorkWaker`]. Any other wake comes from a timer, a socket or a task that the code awaits by
//! itself: a replay could not repeat that.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

#[derive(Default)]
pub(crate) struct Alarm {
    is_woken: AtomicBool,
    /// The engine itself runs.
    is_inside: AtomicBool,
    /// Wakes that pass through the work of a step right now.
    working: AtomicUsize,
    is_foreign: AtomicBool,
    driver: Mutex<Option<Waker>>,
}

impl Alarm {
    /// Runs a part of the engine. A wake that arrives meanwhile reaches the driver afterwards.
    pub(crate) fn inside<T>(&self, engine: impl FnOnce() -> T) -> T {
        self.is_inside.store(true, SeqCst);
        let result = engine();
        self.is_inside.store(false, SeqCst);
        if self.is_woken.load(SeqCst) {
            self.wake_driver();
        }
        result
    }

    pub(crate) fn set_driver(&self, waker: &Waker) {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *driver {
            Some(known) => known.clone_from(waker),
            None => *driver = Some(waker.clone()),
        }
    }

    /// Has the code polled, whatever it waits for.
    pub(crate) fn ring(&self) {
        self.is_woken.store(true, SeqCst);
    }

    /// Whether the code was woken since the last time.
    pub(crate) fn take_woken(&self) -> bool {
        self.is_woken.swap(false, SeqCst)
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign.load(SeqCst)
    }

    fn wake_driver(&self) {
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, SeqCst);
        if self.is_inside.load(SeqCst) {
            return;
        }
        if self.working.load(SeqCst) == 0 {
            self.is_foreign.store(true, SeqCst);
        }
        self.wake_driver();
    }
}

/// What the work of a step is polled with: its wakes pass on to the code around it, and are expected.
pub(crate) struct WorkWaker {
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) outer: Waker,
}

impl Wake for WorkWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.alarm.working.fetch_add(1, SeqCst);
        self.outer.wake_by_ref();
        self.alarm.working.fetch_sub(1, SeqCst);
    }
}
