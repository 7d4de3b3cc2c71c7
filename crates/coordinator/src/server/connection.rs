//! One connection: HTTP/1.1 or HTTP/2, detected from its first bytes, and watched by
//! [`ConnectionMonitor`].

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::{Service, ServiceExt};

use super::Limits;
use super::answer::AnswerBody;
use super::monitor::{ConnectionAuth, ConnectionMonitor, InFlight, MonitoredStream};
use super::stream::Stream;
use crate::http::byte_budget::UnreadAnswer;
use crate::metrics::{DisconnectReason, Metrics};

/// Room for every header in use and a token, several times over.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// Concurrent requests on one HTTP/2 connection: enough for a worker with its batch of leases.
const STREAMS_MAX: u32 = 100;

/// Streams a client may open and reset before the server has handled them (rapid reset).
const PENDING_RESETS_MAX: usize = 20;

/// The interval and timeout of keep-alive pings on HTTP/2 connections.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How long an unauthenticated connection has to receive the notice that it is closed: one round trip.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

pub(super) async fn serve_connection(
    stream: Stream,
    routes: Router,
    limits: Limits,
    metrics: &Metrics,
    closing: CancellationToken,
) {
    let monitor = Arc::new(ConnectionMonitor::new(limits));
    let io = TokioIo::new(MonitoredStream { stream, monitor: monitor.clone() });
    let builder = builder();
    let service = TowerToHyperService::new(counted(routes, monitor.clone()));
    let connection = builder.serve_connection(io, service);
    let timed_out = monitor.timed_out();
    tokio::pin!(connection, timed_out);
    let mut is_closing = false;
    let mut leave_at: Option<Instant> = None;
    loop {
        tokio::select! {
            // Nearly every wake-up comes from the connection.
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error = &*error, "a connection ended early");
                }
                return;
            }
            why = &mut timed_out, if leave_at.is_none() => {
                metrics.count_disconnect(why);
                if why != DisconnectReason::NoKey {
                    return;
                }
                // The client may have just sent a request; a graceful shutdown lets it retry elsewhere.
                connection.as_mut().graceful_shutdown();
                leave_at = Some(tokio::time::Instant::now() + LEAVE_WITHIN);
            }
            () = until(leave_at) => return,
            () = closing.cancelled(), if !is_closing => {
                is_closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Resolves at `then`, or never.
async fn until(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then).await,
        None => std::future::pending().await,
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // `ConnectionMonitor` does this more precisely.
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

/// The routes, with every request counted as in flight until its answer is sent.
fn counted(
    routes: Router,
    monitor: Arc<ConnectionMonitor>,
) -> impl Service<
    hyper::Request<Incoming>,
    Response = hyper::Response<AnswerBody>,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone {
    tower::service_fn(move |mut request: hyper::Request<Incoming>| {
        let in_flight = InFlight::begin(&monitor);
        request.extensions_mut().insert(ConnectionAuth(monitor.clone()));
        let answered = routes.clone().oneshot(request.map(Body::new));
        async move {
            let mut response = answered.await?;
            let held = response.extensions_mut().remove::<UnreadAnswer>();
            let held = held.and_then(|held| held.take());
            Ok(response.map(|body| AnswerBody::new(body, in_flight, held)))
        }
    })
}
