//! One HTTP call: serialises the body once, sends it as often as the retry limit allows, reads the
//! answer.
//!
//! A call is repeated only if nothing was decided ([`Error::is_retryable`]), and every repetition
//! carries the same bytes, so that the coordinator recognises it. This module knows no routes.

use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use reqwest::Url;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::Code;
use wire::answers::Problem;

use crate::Error;
use crate::connections::{
    CONNECT_TIMEOUT, Connections, IDLE_CONNECTIONS_MAX, IDLE_MAX, host_of, path_of,
};
use crate::endpoints::Endpoints;
use crate::error::NoAnswer;
use crate::root_certificates::RootCertificates;

/// Timeout for an answer, in addition to the wait that the call asks for: the longest commit plus a
/// reserve.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// The limit on `Retry-After`: a server may ask the client to wait, but must not hang it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// Enough of a foreign answer to recognise its sender.
const ECHO_CHARS_MAX: usize = 120;

/// Some 2 s of retries: a restart behind a load balancer, and no longer than a caller is willing to
/// wait.
const REPETITIONS: usize = 4;
/// Longer than a short stall of the server, shorter than people notice.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
/// Finds a server soon after it returns from a longer outage.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// How often a call is repeated that got no decision: bounded, with exponential backoff.
///
/// ```
/// use std::time::Duration;
///
/// let patient = tenure::Retries::new(8)
///     .backoff(Duration::from_millis(100), Duration::from_secs(10));
/// # let _ = patient;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    pub(crate) times: usize,
    pub(crate) initial_backoff: Duration,
    pub(crate) max_backoff: Duration,
}

impl Retries {
    /// Never repeats a call.
    pub const NONE: Retries = Retries::new(0).backoff(Duration::ZERO, Duration::ZERO);

    /// Up to `times` repetitions after the first try, with pauses that grow from 100 ms to 5 s.
    pub const fn new(times: usize) -> Retries {
        Retries { times, initial_backoff: INITIAL_BACKOFF, max_backoff: MAX_BACKOFF }
    }

    /// The pause before the first repetition; it doubles, with jitter, up to `max`.
    pub const fn backoff(self, initial: Duration, max: Duration) -> Retries {
        Retries { initial_backoff: initial, max_backoff: max, ..self }
    }

    fn schedule(self) -> ExponentialBuilder {
        ExponentialBuilder::default()
            .with_min_delay(self.initial_backoff)
            .with_max_delay(self.max_backoff)
            .with_max_times(self.times)
            .with_jitter()
    }
}

impl Default for Retries {
    fn default() -> Retries {
        Retries::new(REPETITIONS)
    }
}

/// A call that can be sent any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    url: Url,
    authorization: HeaderValue,
    idempotency_key: Option<HeaderValue>,
    body: Option<Bytes>,
    timeout: Duration,
}

impl Call {
    pub(crate) fn get(url: Url, authorization: HeaderValue) -> Call {
        Call {
            method: Method::GET,
            url,
            authorization,
            idempotency_key: None,
            body: None,
            timeout: ANSWER_TIMEOUT,
        }
    }

    pub(crate) fn post(
        url: Url,
        authorization: HeaderValue,
        body: &impl Serialize,
    ) -> Result<Call, Error> {
        let body = serde_json::to_vec(body)
            .map_err(|source| Error::Setup(format!("the request has no JSON form: {source}")))?;
        Ok(Call { method: Method::POST, body: Some(body.into()), ..Call::get(url, authorization) })
    }

    /// The call is made with a task's token.
    pub(crate) fn authorization(mut self, authorization: HeaderValue) -> Call {
        self.authorization = authorization;
        self
    }

    pub(crate) fn idempotency_key(mut self, key: &str) -> Result<Call, Error> {
        let value = HeaderValue::from_str(key).map_err(|_| {
            Error::Setup("an idempotency key holds printable ASCII characters only".to_owned())
        })?;
        self.idempotency_key = Some(value);
        Ok(self)
    }

    /// The call asks the server to hold it open for this long.
    pub(crate) fn with_wait(mut self, wait_ms: Option<u64>) -> Call {
        self.timeout = ANSWER_TIMEOUT + Duration::from_millis(wait_ms.unwrap_or(0));
        self
    }

    /// The time limit for an answer.
    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Call {
        self.timeout = timeout;
        self
    }
}

/// Connections to the coordinators of one store. They belong to the runtime that opened them, hence
/// [`Transport::with_new_connections`].
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    http: Http,
    retries: Retries,
    root_certificates: RootCertificates,
    endpoints: Endpoints,
}

#[derive(Clone, Debug)]
enum Http {
    Direct(Connections),
    /// For the proxy that the environment names.
    Proxied(reqwest::Client),
}

/// The variables that name a proxy.
const PROXY: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

impl Http {
    fn new(root_certificates: &RootCertificates) -> Result<Http, Error> {
        let tls = root_certificates.client_config()?;
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !PROXY.iter().any(is_set) {
            return Ok(Http::Direct(Connections::new(tls)));
        }
        let http = reqwest::Client::builder()
            .http1_only()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build();
        let failed = |why| Error::Setup(format!("cannot create an HTTP client: {why}"));
        http.map(Http::Proxied).map_err(failed)
    }

    async fn send(
        &self,
        url: &Url,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<Response<Bytes>, NoAnswer> {
        match self {
            Http::Direct(connections) => connections.call(url, request, limit).await,
            Http::Proxied(client) => proxied(client, url, request, limit).await.map_err(|why| {
                let why = why.without_url();
                if why.is_connect() { NoAnswer::connecting(why) } else { NoAnswer::broken(why) }
            }),
        }
    }
}

async fn proxied(
    client: &reqwest::Client,
    url: &Url,
    request: Request<Full<Bytes>>,
    limit: Duration,
) -> Result<Response<Bytes>, reqwest::Error> {
    let (head, body) = request.into_parts();
    let body = body.into_inner().unwrap_or_default();
    let request = client.request(head.method, url.clone()).headers(head.headers).body(body);
    let response = request.timeout(limit).send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut answer = Response::new(response.bytes().await?);
    (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
    Ok(answer)
}

impl Transport {
    pub(crate) fn new(
        retries: Retries,
        root_certificates: RootCertificates,
        endpoints: Endpoints,
    ) -> Result<Transport, Error> {
        let http = Http::new(&root_certificates)?;
        Ok(Transport { http, retries, root_certificates, endpoints })
    }

    /// The same settings with new connections, for another runtime.
    pub(crate) fn with_new_connections(&self) -> Result<Transport, Error> {
        Transport::new(self.retries, self.root_certificates.clone(), self.endpoints.clone())
    }

    /// The same settings with other trusted root certificates.
    pub(crate) fn with_root_certificates(
        &self,
        root_certificates: RootCertificates,
    ) -> Result<Transport, Error> {
        Transport::new(self.retries, root_certificates, self.endpoints.clone())
    }

    pub(crate) fn with_retries(mut self, retries: Retries) -> Transport {
        self.retries = retries;
        self
    }

    /// The answer of the first try that got a decision.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        let answer = (|| self.try_once(call))
            .retry(self.retries.schedule())
            .when(|failure| failure.error.is_retryable())
            .adjust(|failure, backoff| match (backoff, failure.retry_after) {
                // One coordinator's `Retry-After` says nothing about the next coordinator, which is
                // tried now. A rate is the tenant's, and every coordinator applies it.
                (backoff, _) if self.endpoints.is_multiple() && !is_rate(&failure.error) => backoff,
                (Some(backoff), Some(asked)) => Some(backoff.max(asked.min(RETRY_AFTER_MAX))),
                (backoff, _) => backoff,
            })
            .await
            .map_err(|failure| failure.error)?;
        read(call, answer.status, &answer.body)
    }

    /// Returns any answer, refusals included: for probes, where a 503 is an answer and not a reason
    /// to retry.
    pub(crate) async fn probe<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        let answer = self
            .send(call, self.endpoints.current_index())
            .await
            .map_err(|failure| failure.error)?;
        read(call, answer.status, &answer.body)
    }

    async fn try_once(&self, call: &Call) -> Result<Answer, Failure> {
        let endpoint = self.endpoints.current_index();
        let tried = self.try_at(call, endpoint).await;
        let is_undecided =
            |failure: &Failure| failure.error.is_retryable() && !is_rate(&failure.error);
        if tried.as_ref().is_err_and(is_undecided) {
            self.endpoints.advance_past(endpoint);
        }
        tried
    }

    async fn try_at(&self, call: &Call, endpoint: usize) -> Result<Answer, Failure> {
        let answer = self.send(call, endpoint).await?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let (error, asked_ms) = refusal(call, &answer);
        // The body has milliseconds, the header only whole seconds.
        Err(Failure { error, retry_after: asked_ms.or(answer.retry_after) })
    }

    async fn send(&self, call: &Call, endpoint: usize) -> Result<Answer, Failure> {
        let url = self.endpoints.url_at(&call.url, endpoint);
        let request = request(call, &url).map_err(Failure::setup)?;
        let answered = self.http.send(&url, request, call.timeout).await;
        let (head, body) = answered.map_err(|why| Failure::no_response(&url, why))?.into_parts();
        let retry_after = head.headers.get(RETRY_AFTER).and_then(seconds);
        Ok(Answer { status: head.status, retry_after, body })
    }
}

fn request(call: &Call, url: &Url) -> Result<Request<Full<Bytes>>, Error> {
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(path_of(url))
        .header(HOST, host_of(url))
        .header(USER_AGENT, concat!("tenure-rust/", env!("CARGO_PKG_VERSION")))
        .header(AUTHORIZATION, &call.authorization);
    if let Some(key) = &call.idempotency_key {
        request = request.header("Idempotency-Key", key);
    }
    if call.body.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    let body = Full::new(call.body.clone().unwrap_or_default());
    let invalid = |why| Error::Setup(format!("`{url}` is not an address: {why}"));
    request.body(body).map_err(invalid)
}

struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Bytes,
}

struct Failure {
    error: Error,
    retry_after: Option<Duration>,
}

impl Failure {
    fn no_response(url: &Url, source: NoAnswer) -> Failure {
        let url = origin(url);
        Failure::setup(Error::Unreachable { url, source: Arc::new(source) })
    }

    fn setup(error: Error) -> Failure {
        Failure { error, retry_after: None }
    }
}

/// Whether the tenant's rate was exceeded: another coordinator would refuse the call too.
fn is_rate(error: &Error) -> bool {
    error.status() == Some(429)
}

fn refusal(call: &Call, answer: &Answer) -> (Error, Option<Duration>) {
    let Ok(problem) = serde_json::from_slice::<Problem>(&answer.body) else {
        let text: String =
            String::from_utf8_lossy(&answer.body).chars().take(ECHO_CHARS_MAX).collect();
        let why = format!("status {} with `{text}`", answer.status.as_u16());
        return (protocol_error(call, answer.status, why), None);
    };
    let asked = problem.retry_after_ms.map(Duration::from_millis);
    let error = match problem.code() {
        Some(Code::UnknownOutcome) => Error::UnknownOutcome(Box::new(problem)),
        _ => Error::Refused(Box::new(problem)),
    };
    (error, asked)
}

fn read<T: DeserializeOwned>(call: &Call, status: StatusCode, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|why| protocol_error(call, status, why.to_string()))
}

fn protocol_error(call: &Call, status: StatusCode, why: String) -> Error {
    Error::Protocol { url: call.url.to_string(), status: status.as_u16(), why }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn seconds(value: &HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
