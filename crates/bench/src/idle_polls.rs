//! Idle workers beside one that works: long polls of queues that stay empty, a hundred on each
//! connection, as HTTP/2 clients hold them.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::BenchError;
use crate::http::Connection;
use crate::remote::Remote;

/// The number of polls in a measurement for which figures are promised.
pub(crate) const MANY: usize = 10_000;

/// The number of polls in a trial.
pub(crate) const FEW: usize = 200;

/// The maximum number of streams that the server allows on one connection.
const STREAMS: usize = 100;

/// As many as a worker of the SDK asks for.
const LEASES: usize = 8;

/// The maximum wait of a poll: a poll that returns in between would be part of the measurement.
const WAIT_MS: u64 = 30_000;

/// How long all polls may take to arrive, on a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a worker that was refused waits before it polls again, as a worker of the SDK does.
const REFUSED_PAUSE: Duration = Duration::from_millis(200);

/// How often to check whether they have arrived.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

type Stream = SendRequest<Full<Bytes>>;

/// Polls that wait until this is dropped.
pub(crate) struct IdlePolls {
    _waiting: JoinSet<()>,
}

impl IdlePolls {
    /// Starts the polls, and returns once all of them wait.
    pub(crate) async fn begin(remote: &Remote, count: usize) -> Result<Self, BenchError> {
        let address = remote.addresses[0];
        let mut waiting = JoinSet::new();
        let mut begun = 0;
        while begun < count {
            let (stream, connection) = open(address).await?;
            waiting.spawn(connection);
            for n in begun..count.min(begun + STREAMS) {
                waiting.spawn(wait(stream.clone(), address, remote.key.clone(), n));
            }
            begun += STREAMS;
        }
        arrived(address, &remote.key, count).await?;
        Ok(Self { _waiting: waiting })
    }
}

async fn open(address: SocketAddr) -> Result<(Stream, impl Future<Output = ()>), BenchError> {
    let io = TokioIo::new(TcpStream::connect(address).await?);
    let (stream, connection) = http2::handshake(TokioExecutor::new(), io).await?;
    // The users of the stream notice when the connection ends.
    Ok((stream, async { drop(connection.await) }))
}

/// One worker: polls its queue repeatedly. It ends with its connection.
async fn wait(mut stream: Stream, address: SocketAddr, key: String, n: usize) {
    let body = format!(
        r#"{{"workerId":"idle-{n}","queues":["idle-{n}"],"max":{LEASES},"waitMs":{WAIT_MS}}}"#
    );
    loop {
        let request = Request::post(format!("http://{address}/v1/leases"))
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.clone())))
            .expect("a request of plain parts");
        let answered = match stream.send_request(request).await {
            Ok(answer) if answer.status() == StatusCode::OK => answer.into_body().collect().await,
            // Ten thousand polls that arrive within one commit are more than the server queues.
            Ok(answer) if answer.status() == StatusCode::SERVICE_UNAVAILABLE => {
                tokio::time::sleep(REFUSED_PAUSE).await;
                continue;
            }
            // The server refused the poll for good, or the connection is gone: the poll does not
            // count as waiting.
            _ => return,
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Waits until the server reports `count` waiting workers.
async fn arrived(address: SocketAddr, key: &str, count: usize) -> Result<(), BenchError> {
    let mut connection = Connection::open(address).await?;
    let end = Instant::now() + CONNECT_TIMEOUT;
    loop {
        let waiting = waiting(&mut connection, key).await?;
        if waiting >= count {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(BenchError::NotWaiting { waiting, count });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn waiting(connection: &mut Connection, key: &str) -> Result<usize, BenchError> {
    let metrics = connection.get("/metrics", key).await?;
    let metrics = String::from_utf8_lossy(metrics);
    let line = metrics.lines().find_map(|line| line.strip_prefix("tenure_polls_waiting "));
    Ok(line.and_then(|count| count.trim().parse().ok()).unwrap_or(0))
}
