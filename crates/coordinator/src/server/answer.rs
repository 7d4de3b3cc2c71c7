//! An answer in transit: how much of it the client has read, and how slowly it may read.
//!
//! An unread answer holds memory, and its connection holds a slot. Bytes handed to the connection are counted
//! until they have left this process, also while HTTP/2 keeps them back because the client's window is full. The
//! time limit is like that of request bodies: a grace period, then a minimum rate. Fast reading earlier earns no
//! pause longer than the grace period.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use super::monitor::{ConnectionMonitor, InFlight};
use crate::http::byte_budget::HeldBytes;

/// How slowly an answer may be read.
#[derive(Clone, Copy, Debug)]
pub struct SlowReaderLimits {
    /// How long the client may read nothing at all.
    pub grace: Duration,
    pub bytes_per_second: u64,
}

impl Default for SlowReaderLimits {
    /// Half a minute covers a lost connection's retransmissions and the bursts in which a full window opens. The
    /// rate is that of a poor mobile network; the largest answer of leases would take an hour at it.
    fn default() -> Self {
        Self { grace: Duration::from_secs(30), bytes_per_second: 16 * 1024 }
    }
}

impl SlowReaderLimits {
    fn earned(&self, bytes: usize) -> Duration {
        Duration::from_micros(bytes as u64 * 1_000_000 / self.bytes_per_second.max(1))
    }
}

/// The unread bytes of one answer, and the time left to read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnreadResponse {
    bytes: usize,
    since: Instant,
    left: Duration,
}

impl UnreadResponse {
    pub(super) fn new(bytes: usize, now: Instant, limits: &SlowReaderLimits) -> Self {
        Self { bytes, since: now, left: limits.grace }
    }

    pub(super) fn hand_over(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Records bytes that were read. Returns whether nothing is left to read.
    pub(super) fn taken(&mut self, bytes: usize, now: Instant, limits: &SlowReaderLimits) -> bool {
        let left = self.left.saturating_sub(now.duration_since(self.since));
        self.left = limits.grace.min(left + limits.earned(bytes));
        self.since = now;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.bytes == 0
    }

    pub(super) fn deadline(&self) -> Instant {
        self.since + self.left
    }
}

/// Numbers answers, so that each stream of a connection is tracked separately.
static ANSWERS: AtomicU64 = AtomicU64::new(0);

/// An answer's body, which keeps its request counted as in flight.
pub(super) struct AnswerBody {
    body: Body,
    number: u64,
    in_flight: InFlight,
    /// What it takes of its tenant's part, until it is read.
    held: Option<Arc<Mutex<HeldBytes>>>,
}

impl AnswerBody {
    pub(super) fn new(body: Body, in_flight: InFlight, held: Option<HeldBytes>) -> Self {
        let number = ANSWERS.fetch_add(1, Ordering::Relaxed);
        Self { body, number, in_flight, held: held.map(|held| Arc::new(Mutex::new(held))) }
    }
}

impl http_body::Body for AnswerBody {
    type Data = CountedBytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<CountedBytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map_ok(|frame| {
            let held = self.held.clone();
            frame.map_data(|bytes| {
                CountedBytes::new(bytes, self.number, &self.in_flight.monitor, held)
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes of an answer, counted until they are sent or dropped.
pub(super) struct CountedBytes {
    bytes: Bytes,
    answer: u64,
    monitor: Arc<ConnectionMonitor>,
    held: Option<Arc<Mutex<HeldBytes>>>,
}

impl CountedBytes {
    fn new(
        bytes: Bytes,
        answer: u64,
        monitor: &Arc<ConnectionMonitor>,
        held: Option<Arc<Mutex<HeldBytes>>>,
    ) -> Self {
        if !bytes.is_empty() {
            monitor.hand_over(answer, bytes.len());
        }
        Self { bytes, answer, monitor: monitor.clone(), held }
    }

    fn taken(&self, count: usize) {
        self.monitor.taken(self.answer, count);
        if let Some(held) = &self.held {
            held.lock().unwrap_or_else(PoisonError::into_inner).shrink(count);
        }
    }
}

impl Buf for CountedBytes {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.taken(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        let copied = self.bytes.copy_to_bytes(count);
        self.taken(count);
        copied
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        if self.bytes.has_remaining() {
            self.taken(self.bytes.remaining());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: SlowReaderLimits =
        SlowReaderLimits { grace: Duration::from_secs(10), bytes_per_second: 100 };

    #[tokio::test(start_paused = true)]
    async fn an_answer_may_be_taken_at_the_minimum_rate_and_not_slower() {
        // F60, X21: a megabyte, for a client that reads 100 bytes a second and for one that reads 99.
        for (per_second, is_fair) in [(100, true), (99, false)] {
            let mut unread = UnreadResponse::new(1_000_000, Instant::now(), &PATIENCE);
            let mut was_late = false;
            for _ in 0..2_000 {
                tokio::time::advance(Duration::from_secs(1)).await;
                was_late |= unread.deadline() < Instant::now();
                assert!(!unread.taken(per_second, Instant::now(), &PATIENCE));
            }
            assert_eq!(was_late, !is_fair, "{per_second} bytes a second");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_quickly_buys_no_longer_pause() {
        let mut unread = UnreadResponse::new(1_000_000, Instant::now(), &PATIENCE);
        assert!(!unread.taken(900_000, Instant::now(), &PATIENCE));
        assert_eq!(unread.deadline(), Instant::now() + PATIENCE.grace);
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(unread.taken(100_000, Instant::now(), &PATIENCE));
    }
}
