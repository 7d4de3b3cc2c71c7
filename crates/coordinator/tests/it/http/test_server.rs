//! A served coordinator, and the calls of a test.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coordinator::admit::{Keyring, NewKey, Role};
use coordinator::server::{Limits, parse_receivers};
use coordinator::{Coordinator, Options, SeededEntropy, ServeOptions, serve};
use serde_json::{Value, json};
use store::Store;
use store::sqlite::SqliteStore;
use storetest::memory::MemoryBrowse;
use storetest::{ManualClock, MemoryStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::{self, RootCertStore};
use verdict::{Scope, Span};

use crate::faulty::{Faults, FaultyStore};

/// Long enough that a test which waits for it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An HTTP client that trusts no authority; the tests of TLS give it some.
pub(crate) fn browser() -> reqwest::ClientBuilder {
    browser_trusting(RootCertStore::empty())
}

pub(crate) fn browser_trusting(roots: RootCertStore) -> reqwest::ClientBuilder {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder().timeout(PATIENCE).tls_backend_preconfigured(tls)
}

/// One coordinator on one engine.
pub(crate) struct TestServer {
    engine: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) keyring: Keyring,
    /// All three roles in the default scope.
    pub(crate) key: String,
    pub(crate) client_key: String,
    pub(crate) worker_key: String,
    pub(crate) admin_key: String,
    /// All three roles of another tenant.
    pub(crate) foreign_key: String,
    http: reqwest::Client,
    /// For what no call can ask for.
    pub(crate) coordinator: Coordinator,
    _server: Box<dyn Any>,
    _folder: tempfile::TempDir,
}

/// The same server on the reference engine and on SQLite.
pub(crate) async fn both() -> [TestServer; 2] {
    both_with(Limits::default()).await
}

pub(crate) async fn both_with(limits: Limits) -> [TestServer; 2] {
    [memory(limits).await, sqlite(limits).await]
}

async fn memory(limits: Limits) -> TestServer {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    TestServer::start("memory", store, clock, limits, tempfile::tempdir().unwrap()).await
}

async fn sqlite(limits: Limits) -> TestServer {
    let clock = Arc::new(ManualClock::default());
    let folder = tempfile::tempdir().unwrap();
    // Other tests prove what survives a loss of power.
    let options = storetest::unsynced(clock.clone());
    let store = SqliteStore::open(folder.path().join("tenure.db"), options).unwrap();
    TestServer::start("sqlite", store, clock, limits, folder).await
}

/// A server in memory, with a counter of the rows it reads.
pub(crate) async fn counted() -> (TestServer, MemoryBrowse) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::new(clock.clone());
    let browse = store.browse().clone();
    let folder = tempfile::tempdir().unwrap();
    (TestServer::start("memory", store, clock, Limits::default(), folder).await, browse)
}

/// A server whose store fails on demand.
pub(crate) async fn faulty(limits: Limits) -> (TestServer, Arc<Faults>) {
    let clock = Arc::new(ManualClock::default());
    let store = FaultyStore::over(MemoryStore::new(clock.clone()));
    let faults = store.faults.clone();
    let folder = tempfile::tempdir().unwrap();
    (TestServer::start("faulty", store, clock, limits, folder).await, faults)
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("on the engine: {}", self.engine);
        }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) body: Value,
    pub(crate) headers: reqwest::header::HeaderMap,
}

impl Response {
    /// A problem with this code, and with every member that both conventions require.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, &self.body["error"]), (status, &json!(code)), "{self:?}");
        assert_eq!(self.kind, "application/problem+json");
        assert_eq!(self.body["status"], status);
        for member in ["type", "title", "detail", "message", "requestId", "serverTime"] {
            assert!(self.body[member].is_string(), "no {member} in {self:?}");
        }
        assert_eq!(self.headers["x-request-id"], self.body["requestId"].as_str().unwrap());
        self
    }

    #[track_caller]
    pub(crate) fn has(&self, member: &str, value: impl Into<Value>) -> &Self {
        assert_eq!(self.body[member], value.into(), "{member} of {self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }

    pub(crate) fn text(&self, member: &str) -> String {
        self.body[member].as_str().unwrap_or_else(|| panic!("no {member} in {self:?}")).to_owned()
    }
}

impl TestServer {
    async fn start<S: Store>(
        engine: &'static str,
        store: S,
        clock: Arc<ManualClock>,
        limits: Limits,
        folder: tempfile::TempDir,
    ) -> Self {
        let mut entropy = SeededEntropy::new(11);
        let mut key = |scope, roles: &[Role]| NewKey::generate(&mut entropy, scope, roles);
        let keys = [
            key(Scope::default(), &Role::ALL),
            key(Scope::default(), &[Role::Client]),
            key(Scope::default(), &[Role::Worker]),
            key(Scope::default(), &[Role::Admin]),
            key(Scope::new("other", "default"), &Role::ALL),
        ];
        let texts = keys.each_ref().map(|key| key.text().to_owned());
        let keyring_path = folder.path().join("signing.key");
        let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), &keyring_path);
        options.new_keys = keys.to_vec();
        options.limits = limits;
        // Receivers of these tests are on this machine.
        options.receivers = parse_receivers(&["127.0.0.0/8".to_owned()]).unwrap();
        options.coordinator =
            Options { entropy: Box::new(SeededEntropy::new(7)), ..Options::default() };
        let server = serve(store, options).await.expect("a fresh store is served");
        let [key, client_key, worker_key, admin_key, foreign_key] = texts;
        Self {
            engine,
            address: server.local_addr(),
            clock,
            keyring: Keyring::open(&keyring_path).unwrap(),
            key,
            client_key,
            worker_key,
            admin_key,
            foreign_key,
            http: browser().build().unwrap(),
            coordinator: server.coordinator().clone(),
            _server: Box::new(server),
            _folder: folder,
        }
    }

    /// Refuses new work from now on, and keeps serving.
    pub(crate) fn drain(&self) {
        self.coordinator.drain();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Response {
        let response = request.send().await.expect("the server answers");
        let headers = response.headers().clone();
        let kind = headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let text = response.text().await.expect("the answer is complete");
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Response { status, kind: kind.unwrap_or_default(), body, headers }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method.parse().unwrap(), self.url(path))
    }

    pub(crate) async fn post(&self, path: &str, bearer: &str, body: Value) -> Response {
        self.send(self.request("POST", path).bearer_auth(bearer).json(&body)).await
    }

    /// A body that need not be JSON, sent as if it were.
    pub(crate) async fn post_bytes(
        &self,
        path: &str,
        bearer: &str,
        body: impl Into<Vec<u8>>,
    ) -> Response {
        let request = self.request("POST", path).bearer_auth(bearer);
        self.send(request.header("content-type", "application/json").body(body.into())).await
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.get_as(path, &self.key).await
    }

    pub(crate) async fn get_as(&self, path: &str, bearer: &str) -> Response {
        self.send(self.request("GET", path).bearer_auth(bearer)).await
    }

    /// Submits a run to queue `q` with a short lease, and returns its id.
    pub(crate) async fn submit(&self, more: Value) -> String {
        self.post("/v1/runs", &self.key, run(more)).await.text("runId")
    }

    /// A run's state, without the time of the request.
    pub(crate) async fn run(&self, id: &str) -> Value {
        let mut run = self.get(&format!("/v1/runs/{id}")).await.ok();
        // A refusal leaves the run unchanged; it is recorded beside it.
        for beside in ["serverTime", "refused"] {
            run.as_object_mut().unwrap().remove(beside);
        }
        run
    }

    pub(crate) async fn state(&self, id: &str) -> String {
        self.run(id).await["state"].as_str().unwrap().to_owned()
    }

    /// Polls once for work of queue `q`.
    pub(crate) async fn poll(&self, worker: &str) -> Vec<Lease> {
        let body = json!({"workerId": worker, "queues": ["q"], "max": 10});
        self.post("/v1/leases", &self.key, body).await.leases()
    }

    pub(crate) async fn lease(&self, worker: &str) -> Lease {
        let mut leases = self.poll(worker).await;
        assert_eq!(leases.len(), 1, "exactly one task is ready");
        leases.remove(0)
    }

    /// Submits and leases in one call.
    pub(crate) async fn leased(&self, more: Value) -> Lease {
        self.submit(more).await;
        self.lease("w1").await
    }

    pub(crate) async fn call(&self, lease: &Lease, call: &str, body: Value) -> Response {
        self.post(&format!("/v1/tasks/{}/{call}", lease.task), &lease.token, body).await
    }

    pub(crate) async fn started(&self, lease: &Lease) -> Response {
        self.call(lease, "started", lease.said(json!({}))).await
    }

    pub(crate) async fn heartbeat(&self, lease: &Lease) -> Response {
        self.call(lease, "heartbeat", lease.said(json!({}))).await
    }

    pub(crate) async fn complete(&self, lease: &Lease, more: Value) -> Response {
        self.call(lease, "completed", lease.said(more)).await
    }

    pub(crate) async fn succeed(&self, lease: &Lease) -> Response {
        self.complete(lease, json!({"outcome": "SUCCEEDED", "output": {"rowCount": 1}})).await
    }

    pub(crate) async fn fail(&self, lease: &Lease) -> Response {
        let error = json!({"category": "USER_CODE", "message": "no"});
        self.complete(lease, json!({"outcome": "FAILED", "error": error})).await
    }

    pub(crate) async fn cancel(&self, run: &str, body: Value) -> Response {
        self.post(&format!("/v1/runs/{run}/cancel"), &self.key, body).await
    }

    /// Lets time pass while the coordinator runs: in steps too small to look like a stall.
    pub(crate) async fn pass(&self, span: Span) {
        const STEP: u64 = 400;
        let mut left = span.millis();
        while left > 0 {
            let step = left.min(STEP);
            self.clock.advance(Span::from_millis(step));
            // Waits for a round of the carrier.
            self.get("/readyz").await.ok();
            left -= step;
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes as they are and reads until the server closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(bytes).await;
        read_until_closed(&mut stream).await
    }
}

/// Reads until the server closes, which it must within the test's patience.
pub(crate) async fn read_until_closed(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A reset is a close too.
    let _ = read.expect("the server closes the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Response {
    pub(crate) fn leases(self) -> Vec<Lease> {
        let body = self.ok();
        body["leases"].as_array().unwrap().iter().map(Lease::from).collect()
    }
}

/// An envelope, and the calls of its worker.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) envelope: Value,
    pub(crate) task: String,
    pub(crate) run: String,
    pub(crate) token: String,
    pub(crate) worker: String,
}

impl From<&Value> for Lease {
    fn from(envelope: &Value) -> Self {
        let text = |member: &str| envelope[member].as_str().unwrap().to_owned();
        Self {
            envelope: envelope.clone(),
            task: text("taskId"),
            run: text("runId"),
            token: text("taskToken"),
            worker: String::from("w1"),
        }
    }
}

impl Lease {
    pub(crate) fn by(self, worker: &str) -> Self {
        Self { worker: worker.to_owned(), ..self }
    }

    pub(crate) fn attempt(&self) -> u64 {
        self.envelope["attempt"].as_u64().unwrap()
    }

    /// The members of every call, and more.
    pub(crate) fn said(&self, more: Value) -> Value {
        merged(json!({"attempt": self.attempt(), "workerId": self.worker}), more)
    }
}

pub(crate) fn run(more: Value) -> Value {
    merged(json!({"kind": "resize", "queue": "q", "leaseMs": 2000}), more)
}

pub(crate) fn merged(mut base: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("members are an object") };
    base.as_object_mut().unwrap().extend(more);
    base
}

pub(crate) const fn seconds(seconds: u64) -> Span {
    Span::from_secs(seconds)
}
