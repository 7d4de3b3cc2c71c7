//! Signals: values that clients send to a run by name. They are kept until the run takes them, in the order of arrival.

use crate::id::{Digest, Json, Name};

/// A signal as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SignalCall {
    pub name: Name,
    /// The idempotency key. A signal without one is a new signal each time it arrives.
    pub key: Option<Name>,
    pub payload: Option<Json>,
    /// Digest of name and payload: the same key must mean the same signal.
    pub digest: Digest,
}

/// A signal as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signal {
    /// Its place among all signals of the task, from 1. Signals of one name are taken in this order.
    pub number: u32,
    pub name: Name,
    pub key: Option<Name>,
    pub payload: Option<Json>,
    pub digest: Digest,
}

impl Signal {
    /// What the signal adds to the bytes that are not taken.
    pub fn bytes(&self) -> u32 {
        let payload = self.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        u32::try_from(self.name.as_str().len() + payload).unwrap_or(u32::MAX)
    }
}

/// What a task counts of its signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SignalCounts {
    pub received: u32,
    /// Not taken yet.
    pub pending: u32,
    pub pending_bytes: u32,
}
