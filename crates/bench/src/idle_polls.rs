//! Workers that wait for nothing, beside one that works: long polls of queues that stay empty, a hundred on each
//! connection, as clients of HTTP/2 hold them.

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

/// How many wait in a measurement that figures are promised for.
pub(crate) const MANY: usize = 10_000;

/// How many wait in a trial.
pub(crate) const FEW: usize = 200;

/// As many streams as the server takes on one connection.
const STREAMS: usize = 100;

/// As many as a worker of the SDK asks for.
const LEASES: usize = 8;

/// As long as a poll may wait: whoever comes back in between would be part of the measurement.
const WAIT_MS: u64 = 30_000;

/// How long all of them may take to arrive, on a machine that is busy with other things.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// How often to look whether they have.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

type Stream = SendRequest<Full<Bytes>>;

/// Polls that wait until this is dropped.
pub(crate) struct IdlePolls {
    _waiting: JoinSet<()>,
}

impl IdlePolls {
    /// Begins, and returns once all of them wait.
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
    // Its end is noticed by whoever waits on it.
    Ok((stream, async { drop(connection.await) }))
}

/// One worker: polls a queue of its own again and again. It ends with its connection.
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
            // A server that has no seat for it, or no more connection: then the polls are not counted as waiting.
            _ => return,
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Waits until the server says that so many workers wait.
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
