//! Work that is pushed: handlers behind a URL, for functions of a cloud and services that cannot poll.
//!
//! Each request is verified, run once, and answered with its report. Heartbeats and checkpoints go to the coordinator as those
//! of a polling worker do, from a thread that the code cannot block, with the client's key and the task's token.
//!
//! Invariants: what is not signed for this URL is not run; a copy of a push is not run again; a report is given once, in the
//! answer, or by a call if the sender is gone.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use webhook::{
    HEADER_ID, HEADER_PUSH_TOKEN, HEADER_SIGNATURE, HEADER_TIMESTAMP, PushVerifier, RecentIds,
    Secret, Seen,
};
use wire::answers::Envelope;
use wire::requests::Report;

use crate::worker::lease_state::locked;
use crate::worker::{Begun, HeartbeatThread, SharedState, run_pushed};
use crate::{Error, Worker};

/// An envelope with a large input, recorded checkpoints and labels.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// What an endpoint without a free slot asks for, in seconds.
const BUSY_SECONDS: u64 = 1;
/// What the coordinator knows of its own push; `next` is a wish of workers that poll.
const KNOWN_TO_SENDER: [&str; 5] = ["taskId", "taskToken", "workerId", "attempt", "next"];

/// A service for one URL: mount it in axum or any other framework that takes tower services.
///
/// The worker's name is the name of the endpoint, its concurrency bounds what runs at once, and its handlers are what the
/// endpoint can do; it is not run. `secret` is what `tenure endpoints create` printed, and `url` the address exactly as it was
/// registered.
///
/// ```no_run
/// use tenure::{Ctx, Failure, Kind, Worker, push};
///
/// const GREET: Kind<String, String> = Kind::new("greet").queue("hello");
///
/// async fn greet(_: Ctx, name: String) -> Result<String, Failure> {
///     Ok(format!("Hello, {name}!"))
/// }
///
/// # fn example() -> Result<(), tenure::Error> {
/// let worker = Worker::from_env()?.name("hello").handle(GREET, greet);
/// let service = push::handler(worker, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "https://example.com/work")?;
/// // axum::Router::new().route_service("/work", service)
/// # let _ = service; Ok(()) }
/// ```
pub fn handler<S>(worker: Worker<S>, secret: &str, url: &str) -> Result<PushHandler, Error> {
    let secret = Secret::parse(secret).map_err(|why| Error::Setup(why.to_string()))?;
    let worker_id = format!("push:{}", worker.given_name()).into();
    let Begun { shared, heartbeat_thread, concurrency, .. } = worker.begin(worker_id)?;
    let receiver = Receiver {
        shared,
        heartbeat_thread,
        verifier: PushVerifier::new(secret, url),
        recent: Mutex::default(),
        slots: Arc::new(Semaphore::new(concurrency)),
    };
    Ok(PushHandler { receiver: Arc::new(receiver) })
}

/// Runs what is pushed to one URL. See [`handler`]. Cheap to clone; clones share slots and the memory of copies.
#[derive(Clone)]
pub struct PushHandler {
    receiver: Arc<Receiver>,
}

impl fmt::Debug for PushHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushHandler").finish_non_exhaustive()
    }
}

impl PushHandler {
    /// Answers one request, for servers that have no tower services.
    pub async fn handle(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Response<Full<Bytes>> {
        let envelope = match self.receiver.admit(method, headers, body) {
            Ok(admitted) => admitted,
            Err(refusal) => return *refusal,
        };
        self.receiver.run(envelope).await
    }
}

struct Receiver {
    shared: Arc<SharedState>,
    heartbeat_thread: HeartbeatThread,
    verifier: PushVerifier,
    recent: Mutex<RecentIds>,
    slots: Arc<Semaphore>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.heartbeat_thread.stop();
    }
}

/// A task to run, and its slot.
struct Admitted {
    envelope: Envelope,
    permit: OwnedSemaphorePermit,
}

impl Receiver {
    /// What is to be run, or the answer to a request that is not.
    fn admit(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Admitted, Box<Response<Full<Bytes>>>> {
        if method != Method::POST {
            return Err(Box::new(empty(StatusCode::METHOD_NOT_ALLOWED)));
        }
        let header =
            |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let id = header(HEADER_ID);
        let now = unix_seconds();
        let signed =
            (id, header(HEADER_TIMESTAMP), header(HEADER_SIGNATURE), header(HEADER_PUSH_TOKEN));
        if let Err(why) = self.verifier.verify(signed, body, now) {
            tracing::warn!(%why, "a push was refused");
            return Err(Box::new(empty(StatusCode::UNAUTHORIZED)));
        }
        let envelope = serde_json::from_slice(body).map_err(|why| {
            tracing::error!(%why, "a push is not a task");
            Box::new(empty(StatusCode::BAD_REQUEST))
        })?;
        let permit = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| Box::new(busy()))?;
        // A copy of an attempt that is, or was, under way.
        if locked(&self.recent).note(id, now) != Seen::First {
            return Err(Box::new(empty(StatusCode::ACCEPTED)));
        }
        Ok(Admitted { envelope, permit })
    }

    /// The code runs on a separate task: a sender that hangs up does not interrupt it, and its report is not lost.
    async fn run(&self, Admitted { envelope, permit }: Admitted) -> Response<Full<Bytes>> {
        let (answer, answered) = oneshot::channel();
        let running = run_pushed(Arc::clone(&self.shared), envelope, answer);
        tokio::spawn(async move {
            running.await;
            drop(permit);
        });
        match answered.await {
            Ok(Some(report)) => told(&report),
            // A call has ended the attempt, or its lease is lost.
            Ok(None) | Err(_) => empty(StatusCode::ACCEPTED),
        }
    }
}

/// What the timestamp of a signature is compared with: it is the sender's wall clock.
#[expect(clippy::disallowed_methods, reason = "a signature is old or new by the wall clock")]
fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

fn told(report: &Report) -> Response<Full<Bytes>> {
    let mut members = match serde_json::to_value(report) {
        Ok(serde_json::Value::Object(members)) => members,
        _ => unreachable!("a report is an object"),
    };
    members.retain(|name, _| !KNOWN_TO_SENDER.contains(&name.as_str()));
    let body = serde_json::Value::Object(members).to_string();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn busy() -> Response<Full<Bytes>> {
    let mut response = empty(StatusCode::SERVICE_UNAVAILABLE);
    response.headers_mut().insert(RETRY_AFTER, BUSY_SECONDS.into());
    response
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response
}

impl<B> tower::Service<Request<B>> for PushHandler
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let handler = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
                return Ok(empty(StatusCode::PAYLOAD_TOO_LARGE));
            };
            Ok(handler.handle(&parts.method, &parts.headers, &body.to_bytes()).await)
        })
    }
}
