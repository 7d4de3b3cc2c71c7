//! Watches a connection, and reports when it has taken too long.
//!
//! hyper's header timeout also runs while a kept-alive connection is idle, so it cannot distinguish a slow head
//! from a client that has nothing to ask. This monitor can. It detects four ways to hold a slot for nothing: a
//! head that does not end, silence, an answer that is not read, and bytes without an authenticated request.
//! HTTP/2's pings move bytes and are not requests.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::Limits;
use super::answer::UnreadResponse;
use super::stream::Stream;
use crate::metrics::DisconnectReason;

/// The preface of an HTTP/2 client: after it, heads are frames and no longer the first bytes of a request.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2";

/// "Never", for times stored as milliseconds.
const NEVER: u64 = u64::MAX;

pub(super) struct ConnectionMonitor {
    limits: Limits,
    began: Instant,
    /// When a byte last moved, in milliseconds after `began`.
    moved_ms: AtomicU64,
    /// When a request with a valid key or token last arrived or was answered, in milliseconds after `began`.
    authenticated_ms: AtomicU64,
    in_flight: AtomicUsize,
    /// HTTP/2 frames arrive at any time and do not mark the beginning of a head.
    is_http2: AtomicBool,
    pending: Mutex<PendingIo>,
}

/// What the connection waits for from the client.
#[derive(Default)]
struct PendingIo {
    /// When the first byte of a still incomplete head arrived.
    head: Option<Instant>,
    /// Answers that were handed over and not fully read. One for HTTP/1, one for each stream of HTTP/2.
    answers: Vec<(u64, UnreadResponse)>,
}

impl ConnectionMonitor {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            began: tokio::time::Instant::now(),
            moved_ms: AtomicU64::new(0),
            authenticated_ms: AtomicU64::new(NEVER),
            in_flight: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
            pending: Mutex::default(),
        }
    }

    fn passed_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn moved(&self) {
        self.moved_ms.store(self.passed_ms(), Ordering::Relaxed);
    }

    fn pending(&self) -> MutexGuard<'_, PendingIo> {
        self.pending.lock().expect("no code panics while it notes a time")
    }

    /// Bytes that arrive while no request is in flight begin a head.
    fn received(&self, bytes: &[u8]) {
        self.moved();
        if bytes.starts_with(HTTP2_PREFACE) {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        if in_flight > 0 || self.is_http2.load(Ordering::Relaxed) {
            return;
        }
        self.pending().head.get_or_insert_with(tokio::time::Instant::now);
    }

    /// Records a request whose key or token is valid, or that needs none because the operator opened its route.
    fn mark_authenticated(&self) {
        self.authenticated_ms.store(self.passed_ms(), Ordering::Relaxed);
    }

    /// Records bytes of an answer that the client can now read.
    pub(super) fn hand_over(&self, answer: u64, bytes: usize) {
        let now = tokio::time::Instant::now();
        let mut pending = self.pending();
        match pending.answers.iter_mut().find(|(number, _)| *number == answer) {
            Some((_, unread)) => unread.hand_over(bytes),
            None => {
                pending.answers.push((answer, UnreadResponse::new(bytes, now, &self.limits.answer)))
            }
        }
    }

    /// Records bytes of an answer that the client read, or that will never be sent.
    pub(super) fn taken(&self, answer: u64, bytes: usize) {
        let now = tokio::time::Instant::now();
        let mut pending = self.pending();
        let Some(at) = pending.answers.iter().position(|(number, _)| *number == answer) else {
            return;
        };
        if pending.answers[at].1.taken(bytes, now, &self.limits.answer) {
            pending.answers.swap_remove(at);
            self.refresh_authenticated();
        }
    }

    /// Records progress of an authenticated request, if there ever was one.
    fn refresh_authenticated(&self) {
        if self.authenticated_ms.load(Ordering::Relaxed) != NEVER {
            self.mark_authenticated();
        }
    }

    /// When the connection will have taken too long, and for which reason.
    fn deadline(&self) -> (Instant, DisconnectReason) {
        let after = |ms: u64| self.began + Duration::from_millis(ms);
        let silent = after(self.moved_ms.load(Ordering::Relaxed)) + self.limits.idle;
        let pending = self.pending();
        let head = pending.head.filter(|_| !faultpoint::mutant(33));
        let head = head.map(|began| (began + self.limits.head_within, DisconnectReason::SlowHead));
        let unread = pending.answers.iter().map(|(_, unread)| unread.deadline()).min();
        let unread = unread.map(|deadline| (deadline, DisconnectReason::SlowReader));
        let is_busy = self.in_flight.load(Ordering::Relaxed) > 0 || !pending.answers.is_empty();
        let unauthenticated_deadline = self
            .unauthenticated_deadline(is_busy)
            .map(|deadline| (deadline, DisconnectReason::NoKey));
        let others = [head, unread, unauthenticated_deadline].into_iter().flatten();
        others.fold((silent, DisconnectReason::Silent), |first, other| {
            if other.0 < first.0 { other } else { first }
        })
    }

    /// When an unauthenticated connection must close. An authenticated one may wait for its answers.
    fn unauthenticated_deadline(&self, is_busy: bool) -> Option<Instant> {
        let within = self.limits.authenticate_within;
        match self.authenticated_ms.load(Ordering::Relaxed) {
            NEVER => Some(self.began + within),
            _ if is_busy => None,
            authenticated => Some(self.began + Duration::from_millis(authenticated) + within),
        }
    }

    /// Resolves when the connection has taken too long. It checks again before any wait that began meanwhile
    /// could time out, so the beginning of a wait needs no wake-up: that would poll the connection a second
    /// time for every request.
    pub(super) async fn timed_out(&self) -> DisconnectReason {
        let look_within = self.limits.head_within.min(self.limits.answer.grace);
        loop {
            let now = tokio::time::Instant::now();
            let (deadline, why) = self.deadline();
            if deadline <= now {
                return why;
            }
            tokio::time::sleep_until(deadline.min(now + look_within)).await;
        }
    }
}

/// Lets a route report to the connection that its caller was authenticated.
#[derive(Clone)]
pub(crate) struct ConnectionAuth(pub(super) Arc<ConnectionMonitor>);

impl ConnectionAuth {
    pub(crate) fn mark_authenticated(&self) {
        self.0.mark_authenticated();
    }
}

/// A request, from its complete head to the end of its answer.
pub(super) struct InFlight {
    pub(super) monitor: Arc<ConnectionMonitor>,
}

impl InFlight {
    pub(super) fn begin(monitor: &Arc<ConnectionMonitor>) -> Self {
        monitor.in_flight.fetch_add(1, Ordering::Relaxed);
        monitor.pending().head = None;
        Self { monitor: monitor.clone() }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.monitor.refresh_authenticated();
        self.monitor.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that reports to the monitor which bytes move.
pub(super) struct MonitoredStream {
    pub(super) stream: Stream,
    pub(super) monitor: Arc<ConnectionMonitor>,
}

impl AsyncRead for MonitoredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let received = &buf.filled()[before..];
        if !received.is_empty() {
            self.monitor.received(received);
        }
        read
    }
}

impl AsyncWrite for MonitoredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if matches!(written, Poll::Ready(Ok(count)) if count > 0) {
            self.monitor.moved();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        if matches!(written, Poll::Ready(Ok(count)) if count > 0) {
            self.monitor.moved();
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn monitor() -> Arc<ConnectionMonitor> {
        Arc::new(ConnectionMonitor::new(Limits::default()))
    }

    /// Moves bytes all the time, as pings do.
    async fn ping_for(monitor: &ConnectionMonitor, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < until {
            monitor.received(b"ping");
            monitor.moved();
            tokio::time::sleep(SECOND).await;
        }
    }

    fn is_over(monitor: &ConnectionMonitor) -> Option<DisconnectReason> {
        let (deadline, why) = monitor.deadline();
        (deadline <= tokio::time::Instant::now()).then_some(why)
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_without_a_request_that_somebody_vouches_for_hold_no_seat() {
        // X21: the preface makes it HTTP/2, and pings arrive every second.
        let monitor = monitor();
        monitor.received(HTTP2_PREFACE);
        ping_for(&monitor, Limits::default().authenticate_within - SECOND).await;
        assert_eq!(is_over(&monitor), None);
        // Requests that need no key do not keep it open either.
        drop(InFlight::begin(&monitor));
        ping_for(&monitor, SECOND).await;
        assert_eq!(is_over(&monitor), Some(DisconnectReason::NoKey));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_vouched_for_may_wait_for_its_answer_and_a_while_longer() {
        let monitor = monitor();
        monitor.received(HTTP2_PREFACE);
        let request = InFlight::begin(&monitor);
        ConnectionAuth(monitor.clone()).mark_authenticated();
        ping_for(&monitor, Limits::default().authenticate_within * 10).await;
        assert_eq!(is_over(&monitor), None, "a followed history lasts for hours");
        drop(request);
        ping_for(&monitor, Limits::default().authenticate_within - SECOND).await;
        assert_eq!(is_over(&monitor), None);
        ping_for(&monitor, SECOND).await;
        assert_eq!(is_over(&monitor), Some(DisconnectReason::NoKey));
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_that_is_not_taken_is_noticed_beside_others_that_are() {
        // F60, X21: each stream of HTTP/2 is judged separately.
        let monitor = monitor();
        let _requests = [InFlight::begin(&monitor), InFlight::begin(&monitor)];
        ConnectionAuth(monitor.clone()).mark_authenticated();
        monitor.hand_over(1, 1_000_000);
        for _ in 0..Limits::default().answer.grace.as_secs() {
            assert_eq!(is_over(&monitor), None);
            monitor.hand_over(2, 1_000_000);
            monitor.taken(2, 1_000_000);
            ping_for(&monitor, SECOND).await;
        }
        assert_eq!(is_over(&monitor), Some(DisconnectReason::SlowReader));
        monitor.taken(1, 1_000_000);
        assert_eq!(is_over(&monitor), None);
        assert!(monitor.pending().answers.is_empty(), "what is taken is not kept");
    }
}
