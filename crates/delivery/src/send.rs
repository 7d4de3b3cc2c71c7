//! One call: check, dial, send, read a little of the answer.
//!
//! The outcome says whether the receiver can have seen the request. Before the first byte of it is handed to the
//! connection it cannot: that is [`SendOutcome::NotSent`]. From then on, only a status says what happened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::dial::{CheckedAddress, Dial, Stream, TcpDialer};
use crate::egress::Egress;
use crate::guard::check;
use crate::lookups::Lookups;
use crate::resolve::{Resolve, SystemResolver};
use crate::target::{Refused, Target};
use crate::tls::{Roots, RootsError};

/// Until a connection and its TLS stand. A receiver that is up answers within one round trip of its network.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// For the whole call. Receivers acknowledge and work afterwards.
pub const TOTAL_LIMIT: Duration = Duration::from_secs(15);

/// Until the addresses of a name are known, with the wait for a place to look them up: as long as a whole delivery, also
/// for a call that may take longer.
const LOOKUP_LIMIT: Duration = TOTAL_LIMIT;

/// Maximum bytes of an answer that are read; its head has the same limit.
pub const ANSWER_MAX: usize = 64 * 1024;

/// Maximum bytes of an answer's body that are kept, for people who look for the cause of a failure. More would make
/// deliveries a way to read what others answer (X40).
pub const EXCERPT_MAX: usize = 256;

/// Maximum addresses of a target that are tried. Each may take the whole connect limit.
const TRIED_MAX: usize = 2;

/// Maximum headers of an answer.
const HEADERS_MAX: usize = 100;

#[derive(Clone, Debug)]
pub struct Outgoing {
    /// On whose behalf: each tenant has only a part of the lookups that all share.
    pub tenant: String,
    pub url: String,
    /// Names and values beside `host`, `content-type`, `content-length` and `user-agent`, which are ours.
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The guard refused the target: nothing was dialled.
    Refused(Refused),
    /// No connection came about: the receiver saw nothing.
    NotSent(&'static str),
    /// The request may have been received, and no status came back.
    Unanswered(&'static str),
    Answered(Answered),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub status: u16,
    pub retry_after: Option<String>,
    /// The beginning of the answer's body, printable.
    pub excerpt: String,
    /// The body, as far as the caller wanted it.
    pub body: Vec<u8>,
}

/// Sends calls. Cheap to clone.
#[derive(Clone)]
pub struct Sender {
    egress: Arc<Egress>,
    lookups: Lookups,
    dialer: Arc<dyn Dial>,
    tls: TlsConnector,
    total: Duration,
}

impl Sender {
    pub fn new(egress: Egress, roots: &Roots) -> Result<Self, RootsError> {
        Ok(Self {
            egress: Arc::new(egress),
            lookups: Lookups::new(Arc::new(SystemResolver)),
            dialer: Arc::new(TcpDialer),
            tls: roots.connector()?,
            total: TOTAL_LIMIT,
        })
    }

    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.lookups = Lookups::new(resolver);
        self
    }

    #[must_use]
    pub fn with_dialer(mut self, dialer: Arc<dyn Dial>) -> Self {
        self.dialer = dialer;
        self
    }

    /// A shorter limit of the whole call than [`TOTAL_LIMIT`].
    #[must_use]
    pub fn with_total_limit(mut self, total: Duration) -> Self {
        self.total = total.min(TOTAL_LIMIT);
        self
    }

    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    pub async fn send(&self, outgoing: &Outgoing) -> SendOutcome {
        self.call(outgoing, self.total, EXCERPT_MAX).await
    }

    /// A call whose answer is wanted: it may take this long, and so much of the body is kept.
    pub async fn call(&self, outgoing: &Outgoing, total: Duration, kept_max: usize) -> SendOutcome {
        let target = match Target::parse(&outgoing.url, &self.egress) {
            Ok(target) => target,
            Err(refused) => return SendOutcome::Refused(refused),
        };
        let deadline = Instant::now() + total;
        let connected = timeout_at(deadline, self.connect(&outgoing.tenant, &target)).await;
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(outcome)) => return outcome,
            Err(_) => return SendOutcome::NotSent("no connection in time"),
        };
        let Some(request) = request(&target, outgoing) else {
            return SendOutcome::NotSent("the request has a header that cannot be sent");
        };
        exchange(stream, request, deadline, kept_max).await
    }

    async fn connect(&self, tenant: &str, target: &Target) -> Result<Box<dyn Stream>, SendOutcome> {
        let addresses = self.addresses(tenant, target).await?;
        let mut why = "no connection";
        for address in addresses.into_iter().take(TRIED_MAX) {
            let dialled = async {
                let stream = self.dialer.dial(address).await.map_err(|_| "no connection")?;
                self.secure(target, stream).await
            };
            match timeout(CONNECT_LIMIT, dialled).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(failed)) => why = failed,
                Err(_) => why = "no connection in time",
            }
        }
        Err(SendOutcome::NotSent(why))
    }

    async fn addresses(
        &self,
        tenant: &str,
        target: &Target,
    ) -> Result<Vec<CheckedAddress>, SendOutcome> {
        let lookups = self.lookups.of(tenant);
        match timeout(LOOKUP_LIMIT, check(target, &self.egress, &lookups)).await {
            Ok(checked) => checked.map_err(SendOutcome::Refused),
            Err(_) => Err(SendOutcome::NotSent("no connection in time")),
        }
    }

    async fn secure(
        &self,
        target: &Target,
        stream: Box<dyn Stream>,
    ) -> Result<Box<dyn Stream>, &'static str> {
        if !target.is_tls() {
            return Ok(stream);
        }
        let host = target.host().to_string();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(|_| "no name for TLS")?;
        let stream = self.tls.connect(name, stream).await.map_err(|_| "no TLS with this name")?;
        Ok(Box::new(stream))
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("egress", &self.egress).finish_non_exhaustive()
    }
}

fn request(target: &Target, outgoing: &Outgoing) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(target.path_and_query())
        .header(header::HOST, target.authority())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("tenure/", env!("CARGO_PKG_VERSION")));
    for (name, value) in &outgoing.headers {
        let value = HeaderValue::from_str(value).ok()?;
        request = request.header(HeaderName::from_static(name), value);
    }
    request.body(Full::new(outgoing.body.clone())).ok()
}

async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<Full<Bytes>>,
    deadline: Instant,
    kept_max: usize,
) -> SendOutcome {
    let handshake = http1::Builder::new()
        .max_headers(HEADERS_MAX)
        .max_buf_size(ANSWER_MAX)
        .handshake(TokioIo::new(stream));
    let Ok((mut sender, connection)) = handshake.await else {
        return SendOutcome::NotSent("no connection");
    };
    // The connection is driven beside the call and ends with it.
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    match timeout_at(deadline, sender.send_request(request)).await {
        Ok(Ok(response)) => SendOutcome::Answered(read(response, deadline, kept_max).await),
        Ok(Err(_)) => SendOutcome::Unanswered("the connection ended before a status"),
        Err(_) => SendOutcome::Unanswered("no status in time"),
    }
}

/// The status counts even if the rest of the answer does not come.
async fn read(response: Response<Incoming>, deadline: Instant, kept_max: usize) -> Answered {
    let status = response.status().as_u16();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut body = response.into_body();
    let (mut kept, mut length) = (Vec::new(), 0);
    while length < ANSWER_MAX.max(kept_max) {
        let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await else { break };
        let Ok(data) = frame.into_data() else { break };
        length += data.len();
        let room = kept_max - kept.len();
        kept.extend_from_slice(&data[..data.len().min(room)]);
    }
    let excerpt = printable(&kept[..kept.len().min(EXCERPT_MAX)]);
    Answered { status, retry_after, excerpt, body: kept }
}

fn printable(bytes: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    bytes.iter().map(|byte| if is_plain(byte) { char::from(*byte) } else { '.' }).collect()
}
