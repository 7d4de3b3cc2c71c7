//! Records a history from any number of threads, in one order.
//!
//! The order number is assigned while the event is written, under one lock: a call whose return was recorded before
//! another call's invocation has the smaller number. Record an invocation before the request is sent, and a return
//! after the answer is complete.

use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Instant;

use crate::event::{Event, EventKind};
use crate::text;

/// Records the events of a history.
pub struct Recorder {
    began: Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    next_at: u64,
    next_call: u64,
    events: Vec<Event>,
    sink: Option<Box<dyn Write + Send>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Recorder {
    /// Keeps events in memory, and also writes each one to `sink`, so that it survives a crash.
    pub fn new(sink: Option<Box<dyn Write + Send>>) -> Self {
        let inner = Inner { next_at: 1, next_call: 1, events: Vec::new(), sink };
        #[expect(
            clippy::disallowed_methods,
            reason = "a history says when its writer saw something; nothing is decided by it"
        )]
        let began = Instant::now();
        Self { began, inner: Mutex::new(inner) }
    }

    /// Returns the number of the next call.
    pub fn next_call(&self) -> u64 {
        let mut inner = self.lock();
        inner.next_call += 1;
        inner.next_call - 1
    }

    pub fn record(&self, who: &str, what: EventKind) -> io::Result<()> {
        let mut inner = self.lock();
        let clock = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let event = Event { at: inner.next_at, who: who.to_owned(), clock: Some(clock), what };
        inner.next_at += 1;
        if let Some(sink) = &mut inner.sink {
            writeln!(sink, "{}", text::write(&event))?;
        }
        inner.events.push(event);
        Ok(())
    }

    /// The number of events so far.
    pub fn len(&self) -> usize {
        self.lock().events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All events so far.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics with the history in hand")
    }
}
