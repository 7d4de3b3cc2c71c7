//! One connection: HTTP/1.1 or HTTP/2 by what the client begins with, watched for silence.
//!
//! hyper's own header timeout also runs while a kept-alive connection is idle, so that it cannot tell
//! a slow head from a client that has nothing to ask. The watch here can: a head that began must end
//! within its time, and no connection may stay silent longer than the idle time.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use super::Limits;
use super::stream::Stream;

/// Room for every header in use and a token, several times over.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// Requests one HTTP/2 connection may have in flight: a worker with its batch of leases.
const STREAMS_MAX: u32 = 100;

/// Streams a client may open and reset before we have looked at them (rapid reset).
const PENDING_RESETS_MAX: usize = 20;

/// How an HTTP/2 connection is asked whether it still lives.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// What an HTTP/2 client begins with: from then on heads are frames, and no longer the first bytes.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2";

pub(super) async fn serve_connection(
    stream: Stream,
    routes: Router,
    limits: Limits,
    closing: CancellationToken,
) {
    let watch = Arc::new(Watch::new(limits.head_within, limits.idle));
    let io = TokioIo::new(Watched { stream, watch: watch.clone() });
    let builder = builder();
    let service = TowerToHyperService::new(counted(routes, watch.clone()));
    let connection = builder.serve_connection(io, service);
    let overdue = watch.overdue();
    tokio::pin!(connection, overdue);
    let mut is_closing = false;
    loop {
        tokio::select! {
            // Nearly every wake-up is the connection's.
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error = &*error, "a connection ended early");
                }
                return;
            }
            () = &mut overdue => return,
            () = closing.cancelled(), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // The watch does this, and better.
        .header_read_timeout(None)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER_WITHIN);
    builder
}

/// The routes, with every request counted until its answer is sent.
fn counted(
    routes: Router,
    watch: Arc<Watch>,
) -> impl Service<
    hyper::Request<Incoming>,
    Response = hyper::Response<InFlightBody>,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone {
    tower::service_fn(move |request: hyper::Request<Incoming>| {
        let in_flight = InFlight::begin(&watch);
        let answered = routes.clone().oneshot(request.map(Body::new));
        async move {
            let response = answered.await?;
            Ok(response.map(|body| InFlightBody { body, _in_flight: in_flight }))
        }
    })
}

/// What the connection has been doing.
struct Watch {
    head_within: Duration,
    idle: Duration,
    began: Instant,
    /// Milliseconds after `began` when a byte last moved.
    moved_ms: AtomicU64,
    in_flight: AtomicUsize,
    /// Frames come at any time there, and say nothing about a head.
    is_http2: AtomicBool,
    /// When the first byte of a head came that is not complete yet.
    head: Mutex<Option<Instant>>,
}

impl Watch {
    fn new(head_within: Duration, idle: Duration) -> Self {
        Self {
            head_within,
            idle,
            began: tokio::time::Instant::now(),
            moved_ms: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
            head: Mutex::new(None),
        }
    }

    fn moved(&self) {
        let passed = self.began.elapsed().as_millis() as u64;
        self.moved_ms.store(passed, Ordering::Relaxed);
    }

    fn head(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.head.lock().expect("no code panics while it notes a time")
    }

    /// Bytes that come while no request is in flight begin a head.
    fn received(&self, bytes: &[u8]) {
        self.moved();
        if bytes.starts_with(HTTP2_PREFACE) {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        if in_flight > 0 || self.is_http2.load(Ordering::Relaxed) {
            return;
        }
        self.head().get_or_insert_with(tokio::time::Instant::now);
    }

    fn deadline(&self) -> Instant {
        let moved = self.began + Duration::from_millis(self.moved_ms.load(Ordering::Relaxed));
        let silent = moved + self.idle;
        let head = *self.head();
        let head = head.filter(|_| !faultpoint::mutant(33));
        head.map_or(silent, |began| silent.min(began + self.head_within))
    }

    /// Resolves when the connection has taken too long. Looks again before any head that began
    /// meanwhile could be late, so that a head has to wake nobody when it begins: that would poll
    /// the connection a second time for every request.
    async fn overdue(&self) {
        loop {
            let now = tokio::time::Instant::now();
            let deadline = self.deadline();
            if deadline <= now {
                return;
            }
            tokio::time::sleep_until(deadline.min(now + self.head_within)).await;
        }
    }
}

/// A request, from its complete head to the end of its answer.
struct InFlight {
    watch: Arc<Watch>,
}

impl InFlight {
    fn begin(watch: &Arc<Watch>) -> Self {
        watch.in_flight.fetch_add(1, Ordering::Relaxed);
        *watch.head() = None;
        Self { watch: watch.clone() }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.watch.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer's body, which keeps its request counted.
struct InFlightBody {
    body: Body,
    _in_flight: InFlight,
}

impl http_body::Body for InFlightBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The stream, telling the watch what moves.
struct Watched {
    stream: Stream,
    watch: Arc<Watch>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let received = &buf.filled()[before..];
        if !received.is_empty() {
            self.watch.received(received);
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if matches!(written, Poll::Ready(Ok(count)) if count > 0) {
            self.watch.moved();
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
            self.watch.moved();
        }
        written
    }
}
