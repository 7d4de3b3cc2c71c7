//! Connections to coordinators: HTTP/1.1 over TCP or TLS, one call at a time on each, kept for later calls.
//!
//! The task that makes a call drives its connection itself. HTTP clients usually have a task for each connection, and every
//! call is handed over between tasks several times; on an idle machine a handover may wake another processor, which takes
//! longer than the call. For the same reason a connection has one timer, which is not set anew for each call.
//!
//! Not here: repetitions, and what an answer means. A program whose environment names a proxy uses another client.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use http::response::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use reqwest::Url;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_rustls::TlsConnector;

use crate::error::NoAnswer;
use crate::worker::lease_state::locked;

/// A coordinator on the same network accepts within milliseconds; this detects a black hole.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Below the server's idle timeout, so that a reused connection has rarely just been closed.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(30);
/// Enough for all calls that a busy process has in flight.
pub(crate) const IDLE_CONNECTIONS_MAX: usize = 256;
/// How long a connection's timer is set for, unless a call must end earlier.
const TIMER: Duration = Duration::from_secs(15);

type Driver = BoxFuture<'static, hyper::Result<()>>;
type Answered = Result<(Parts, Bytes), hyper::Error>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connections of one runtime. Cheap to clone; clones share them.
#[derive(Clone)]
pub(crate) struct Connections {
    tls: TlsConnector,
    /// By scheme, host and port.
    idle: Arc<Mutex<HashMap<String, Vec<Idle>>>>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
    timer: Pin<Box<Sleep>>,
    waker: Arc<OwnWaker>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

impl Connections {
    pub(crate) fn new(tls: ClientConfig) -> Connections {
        Connections { tls: TlsConnector::from(Arc::new(tls)), idle: Arc::default() }
    }

    /// Sends the request to the host of `url`, and waits for the whole answer for at most `limit`.
    pub(crate) async fn call(
        &self,
        url: &Url,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<Response<Bytes>, NoAnswer> {
        let until = Instant::now() + limit;
        let place = place_of(url);
        let mut connection = match self.take(&place) {
            Some(connection) => connection,
            None => self.open(url, limit.min(CONNECT_TIMEOUT)).await?,
        };
        let (head, body) = connection.exchange(request, until).await?;
        if !connection.sender.is_closed() {
            self.put(place, connection);
        }
        Ok(Response::from_parts(head, body))
    }

    /// A connection that the server has not closed.
    fn take(&self, place: &str) -> Option<Connection> {
        loop {
            let Idle { mut connection, since } = locked(&self.idle).get_mut(place)?.pop()?;
            if since.elapsed() < IDLE_MAX && connection.is_open() {
                return Some(connection);
            }
        }
    }

    fn put(&self, place: String, connection: Connection) {
        let since = Instant::now();
        let mut idle = locked(&self.idle);
        let idle = idle.entry(place).or_default();
        // The one that was used last is taken first, so the oldest is at the beginning.
        if idle.len() == IDLE_CONNECTIONS_MAX || idle.first().is_some_and(|it| it.is_old(since)) {
            idle.remove(0);
        }
        idle.push(Idle { connection, since });
    }

    async fn open(&self, url: &Url, limit: Duration) -> Result<Connection, NoAnswer> {
        let opened = timeout(limit, self.stream(url)).await;
        let stream = opened.map_err(|_| NoAnswer::connecting("it took too long to connect"))??;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(NoAnswer::connecting)?;
        Ok(Connection {
            sender,
            driver: Box::pin(connection),
            timer: Box::pin(sleep_until(Instant::now() + TIMER)),
            waker: Arc::default(),
        })
    }

    async fn stream(&self, url: &Url) -> Result<Box<dyn Stream>, NoAnswer> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = url.port_or_known_default().unwrap_or_default();
        let stream = TcpStream::connect((host, port)).await.map_err(NoAnswer::connecting)?;
        stream.set_nodelay(true).map_err(NoAnswer::connecting)?;
        if url.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(NoAnswer::connecting)?;
        let stream = self.tls.connect(name, stream).await.map_err(NoAnswer::connecting)?;
        Ok(Box::new(stream))
    }
}

fn place_of(url: &Url) -> String {
    format!("{}:{}", url.scheme(), host_of(url))
}

/// Host and port, as a request names them.
pub(crate) fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Path and query, as a request names them.
pub(crate) fn path_of(url: &Url) -> String {
    let path = url.path();
    url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
}

impl Idle {
    fn is_old(&self, now: Instant) -> bool {
        now - self.since >= IDLE_MAX
    }
}

impl Connection {
    /// Whether the server has kept it open, as far as the machine knows.
    fn is_open(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.driver.as_mut().poll(&mut cx).is_pending() && !self.sender.is_closed()
    }

    /// One call. If this is dropped, or fails, the connection is of no use any more.
    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        until: Instant,
    ) -> Result<(Parts, Bytes), NoAnswer> {
        if until < self.timer.deadline() {
            self.timer.as_mut().reset(until);
        }
        let Connection { sender, driver, timer, waker } = self;
        let mut answer = std::pin::pin!(async {
            sender.ready().await?;
            let (head, body) = sender.send_request(request).await?.into_parts();
            Ok((head, body.collect().await?.to_bytes()))
        });
        std::future::poll_fn(|cx| {
            let polled = waker.clone().poll(cx, |cx| {
                if let Poll::Ready(answered) = answer.as_mut().poll(cx) {
                    return Poll::Ready(Answered::from(answered));
                }
                if driver.as_mut().poll(cx).is_ready() {
                    // Its end, once it is dropped, tells the other half why.
                    *driver = Box::pin(std::future::pending());
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            });
            match polled {
                Poll::Ready(answered) => Poll::Ready(answered.map_err(NoAnswer::broken)),
                Poll::Pending if is_late(timer.as_mut(), until, cx) => {
                    Poll::Ready(Err(NoAnswer::broken("it took too long")))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// Whether the time of the call is over. Otherwise the timer will wake the task before it is.
fn is_late(mut timer: Pin<&mut Sleep>, until: Instant, cx: &mut Context<'_>) -> bool {
    while timer.as_mut().poll(cx).is_ready() {
        let now = Instant::now();
        if now >= until {
            return true;
        }
        timer.as_mut().reset(until.min(now + TIMER));
    }
    false
}

/// Wakes the task of the call, but not while it runs: what one half of a call does for the other is done in the same turn.
#[derive(Default)]
struct OwnWaker {
    task: AtomicWaker,
    is_polling: AtomicBool,
    is_woken: AtomicBool,
}

/// How often a call goes on in one turn of its task: as often as one half of it wakes the other. A task that has done much in its turn
/// is told to go on later by every resource of the runtime that it asks, and has to let others run first.
const TURNS_MAX: usize = 8;

impl OwnWaker {
    fn poll<T>(
        self: Arc<Self>,
        cx: &mut Context<'_>,
        mut work: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.task.register(cx.waker());
        let waker = Waker::from(Arc::clone(&self));
        for _ in 0..TURNS_MAX {
            self.is_woken.store(false, Ordering::SeqCst);
            self.is_polling.store(true, Ordering::SeqCst);
            let polled = work(&mut Context::from_waker(&waker));
            self.is_polling.store(false, Ordering::SeqCst);
            if polled.is_ready() || !self.is_woken.swap(false, Ordering::SeqCst) {
                return polled;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for OwnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if !self.is_polling.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}
