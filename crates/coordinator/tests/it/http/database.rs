//! What callers get while the database is in trouble: 503 with a stable code and a retry time, never a wrong answer,
//! and normal service again afterwards without intervention.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coordinator::admit::{NewKey, Role};
use coordinator::http::Timeouts;
use coordinator::server::{Limits, parse_receivers};
use coordinator::{Options, SeededEntropy, ServeOptions, serve};
use pgserver::{Server, SmallVolume, Stop};
use serde_json::{Value, json};
use store::PostgresStore;
use store::postgres::{self, Notify};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};
use verdict::{Digest, Scope};

use super::test_server::browser;

/// Far more tries than a slow machine needs; without a bound, a failure would hang the test.
pub(super) const TRIES_MAX: usize = 2_000;
pub(super) const BETWEEN_TRIES: Duration = Duration::from_millis(30);
/// No lease of these tests expires, however slow the machine is.
const LEASE_MS: u64 = 600_000;
/// Longer than any machine takes, so that whatever is called unknown was not merely slow.
pub(super) const UNHURRIED: Duration = Duration::from_secs(300);
const KEY_FILE: &str = "tenure.key";

/// A coordinator that serves from its own database.
pub(super) struct Served {
    pub(super) server: coordinator::Server,
    pub(super) key: String,
    http: reqwest::Client,
    folder: Arc<TempDir>,
}

pub(super) struct Response {
    pub(super) status: u16,
    retry_after: Option<String>,
    pub(super) body: Value,
}

impl Served {
    async fn start(database: &Server, answer: Duration) -> Self {
        Self::at(&database.conninfo("postgres"), answer).await
    }

    /// The first coordinator of the database at this address.
    pub(super) async fn at(address: &str, answer: Duration) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let key = NewKey::generate(&mut SeededEntropy::new(11), Scope::default(), &Role::ALL);
        let text = key.text().to_owned();
        let server = serve_from(address, &folder.path().join(KEY_FILE), vec![key], answer).await;
        Self { server, key: text, http: browser().build().unwrap(), folder }
    }

    /// Another coordinator of the same store, on the same machine, possibly through another address.
    pub(super) async fn beside(&self, address: &str) -> Self {
        let key_file = self.folder.path().join(KEY_FILE);
        let server = serve_from(address, &key_file, Vec::new(), UNHURRIED).await;
        let (key, http, folder) = (self.key.clone(), self.http.clone(), self.folder.clone());
        Self { server, key, http, folder }
    }

    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        bearer: &str,
        body: Option<Value>,
    ) -> Response {
        let url = format!("http://{}{path}", self.server.local_addr());
        let request = self.http.request(method.parse().unwrap(), url).bearer_auth(bearer);
        let request = match body {
            Some(Value::Object(mut body)) => {
                let key =
                    body.remove("idempotencyKey").and_then(|key| Some(key.as_str()?.to_owned()));
                let request = request.json(&body);
                key.into_iter().fold(request, |request, key| request.header("idempotency-key", key))
            }
            _ => request,
        };
        let answer = request.timeout(UNHURRIED).send().await.expect("it always answers");
        let retry_after = answer.headers().get("retry-after").map(|it| it.to_str().unwrap().into());
        let status = answer.status().as_u16();
        Response { status, retry_after, body: answer.json().await.unwrap_or(Value::Null) }
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Response {
        self.ask("POST", path, &self.key, Some(body)).await
    }

    pub(super) async fn get(&self, path: &str) -> Response {
        self.ask("GET", path, &self.key, None).await
    }

    pub(super) async fn submit(&self, name: &str) -> Response {
        self.post("/v1/runs", run(name, json!({}))).await
    }

    /// Repeats a request until it is not refused because of trouble. Returns the answer, and the codes of the
    /// refusals.
    pub(super) async fn at_last(
        &self,
        path: &str,
        bearer: &str,
        body: &Value,
    ) -> (Response, Vec<String>) {
        let mut refused = Vec::new();
        loop {
            let got = self.ask("POST", path, bearer, Some(body.clone())).await;
            if got.status < 500 {
                return (got, refused);
            }
            refused.push(got.undecided());
            assert!(refused.len() < TRIES_MAX, "{:?}", got.body);
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    }

    /// Waits until work is processed again.
    pub(super) async fn is_ready_again(&self) {
        for _ in 0..TRIES_MAX {
            if self.get("/readyz").await.status == 200 {
                return;
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        panic!("it never becomes ready again");
    }

    async fn runs(&self) -> usize {
        let listed = self.get("/v1/runs?limit=100").await;
        assert_eq!(listed.status, 200, "{:?}", listed.body);
        listed.body["runs"].as_array().unwrap().len()
    }

    /// Leases what was submitted, for longer than any test lasts.
    pub(super) async fn lease(&self) -> Value {
        let poll = json!({"workerId": "w", "queues": ["q"], "max": 1, "waitMs": 20_000});
        let got = self.post("/v1/leases", poll).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        got.body["leases"][0].clone()
    }

    pub(super) async fn verify(&self) {
        let report = store::verify::verify(self.server.coordinator().store().browse()).await;
        assert_eq!(report.unwrap().findings, Vec::new());
    }
}

impl Response {
    /// Nothing was decided: no verdict, a stable code, and a retry time.
    #[track_caller]
    pub(super) fn undecided(&self) -> String {
        assert_eq!(self.status, 503, "{:?}", self.body);
        assert!(self.body.get("verdict").is_none(), "{:?}", self.body);
        let after_ms = self.body["retryAfterMs"].as_u64().expect("a time to come back");
        let header = self.retry_after.as_deref().expect("a time to come back");
        assert_eq!(header, after_ms.div_ceil(1_000).to_string(), "{:?}", self.body);
        self.body["error"].as_str().unwrap().to_owned()
    }
}

pub(super) fn run(name: &str, input: Value) -> Value {
    json!({"kind": "k", "queue": "q", "input": input, "leaseMs": LEASE_MS, "idempotencyKey": name})
}

/// A session of the administrator.
pub(super) async fn client(database: &Server) -> Client {
    let (client, connection) =
        tokio_postgres::connect(&database.conninfo("postgres"), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn serve_from(
    address: &str,
    key_file: &Path,
    new_keys: Vec<NewKey>,
    answer: Duration,
) -> coordinator::Server {
    let options = postgres::Options { notify: Notify::Off, ..postgres::Options::new("test") };
    let store = PostgresStore::open(address, options).await.unwrap();
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), key_file);
    options.new_keys = new_keys;
    options.receivers = parse_receivers(&["127.0.0.0/8".to_owned()]).unwrap();
    options.coordinator = Options::default();
    let timeouts = Timeouts { answer, progress: answer, ..Timeouts::default() };
    options.limits = Limits { timeouts, ..Limits::default() };
    serve(store, options).await.unwrap()
}

/// Every call that needs the database, and the code it is refused with.
pub(super) async fn all_calls(
    served: &Served,
    lease: &Value,
    run_id: &str,
) -> Vec<(String, String)> {
    let token = lease["taskToken"].as_str().unwrap();
    let said =
        |more: Value| super::test_server::merged(json!({"attempt": 1, "workerId": "w"}), more);
    let task = |call: &str| format!("/v1/tasks/{}/{call}", lease["taskId"].as_str().unwrap());
    let done = json!({"outcome": "SUCCEEDED", "output": 1});
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1});
    let calls = [
        ("POST", "/v1/runs".to_owned(), &served.key[..], Some(run("refused", json!({})))),
        ("POST", "/v1/leases".to_owned(), &served.key, Some(poll)),
        ("POST", task("started"), token, Some(said(json!({})))),
        ("POST", task("heartbeat"), token, Some(said(json!({})))),
        ("POST", task("completed"), token, Some(said(done))),
        ("POST", format!("/v1/runs/{run_id}/cancel"), &served.key, Some(json!({}))),
        ("GET", format!("/v1/runs/{run_id}"), &served.key, None),
        ("GET", "/v1/runs".to_owned(), &served.key, None),
        ("GET", "/v1/queues".to_owned(), &served.key, None),
        ("POST", "/v1/keys".to_owned(), &served.key, Some(json!({"roles": ["client"]}))),
    ];
    let mut codes = Vec::new();
    for (method, path, bearer, body) in calls {
        let got = served.ask(method, &path, bearer, body).await;
        codes.push((format!("{method} {path}"), got.undecided()));
    }
    codes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_unavailable_and_missed_by_nobody_afterwards() {
    // S2-104, R-35: every call gets a definite refusal, and afterwards service resumes without intervention.
    let database = Server::builder().start().unwrap();
    let served = Served::start(&database, UNHURRIED).await;
    let submitted = served.submit("first").await;
    assert_eq!(submitted.status, 201, "{:?}", submitted.body);
    let run_id = submitted.body["runId"].as_str().unwrap().to_owned();
    let lease = served.lease().await;
    for how in [Stop::Fast, Stop::Immediate] {
        database.stop(how).unwrap();
        for (call, code) in all_calls(&served, &lease, &run_id).await {
            assert_eq!(code, "unavailable", "{call}: nothing was sent that could be unknown");
        }
        let ready = served.get("/readyz").await;
        assert_eq!((ready.status, &ready.body["ready"]), (503, &json!(false)), "{:?}", ready.body);
        assert_eq!(served.get("/livez").await.status, 200, "no reason to restart it");
        database.start().unwrap();
        served.is_ready_again().await;
    }
    // Refused calls did not happen, and the worker still has its lease.
    assert_eq!(served.runs().await, 1);
    let report = json!({"attempt": 1, "workerId": "w", "outcome": "SUCCEEDED", "output": 1});
    let path = format!("/v1/tasks/{}/completed", lease["taskId"].as_str().unwrap());
    let (done, _) = served.at_last(&path, lease["taskToken"].as_str().unwrap(), &report).await;
    assert_eq!((done.status, &done.body["verdict"]), (200, &json!("COMMITTED")), "{:?}", done.body);
    served.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_end_cost_a_repetition_and_leave_nothing_unknown() {
    // S2-104: wherever a batch was cut, even at COMMIT, its real outcome is looked up; no key creates a second run.
    const CALLERS: usize = 8;
    const EACH: usize = 6;
    let database = Server::builder().without_fsync().start().unwrap();
    let admin = client(&database).await;
    let served = Served::start(&database, UNHURRIED).await;
    let submitting = (0..CALLERS).map(|caller| {
        let served = &served;
        async move {
            let mut codes = Vec::new();
            for n in 0..EACH {
                let name = format!("{caller}-{n}");
                let body = run(&name, json!({}));
                let (got, refused) = served.at_last("/v1/runs", &served.key, &body).await;
                assert!([200, 201].contains(&got.status), "{:?}", got.body);
                codes.extend(refused);
            }
            codes
        }
    });
    let cutting = async {
        for _ in 0..CALLERS {
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE application_name LIKE 'tenure %'";
            admin.batch_execute(cut).await.unwrap();
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    };
    let (refused, ()) = tokio::join!(futures_util::future::join_all(submitting), cutting);
    let is_definite = |code: &String| code == "unavailable";
    assert!(refused.iter().flatten().all(is_definite), "{refused:?}");
    served.is_ready_again().await;
    assert_eq!(served.runs().await, CALLERS * EACH);
    served.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_takes_too_long_is_unavailable_and_the_next_is_not() {
    // F44, S2-104: cancelled by the server, as by statement_timeout, while another session holds a table lock.
    let database = Server::builder().without_fsync().start().unwrap();
    let (admin, other) = (client(&database).await, client(&database).await);
    let served = Served::start(&database, UNHURRIED).await;
    other.batch_execute("BEGIN; LOCK TABLE tenure.inputs IN ACCESS EXCLUSIVE MODE").await.unwrap();
    // Every session that waits is cancelled: the batch, and all other readers of the table.
    let cancelling = async {
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
            WHERE application_name LIKE 'tenure %' AND wait_event_type = 'Lock'";
        loop {
            admin.query(cancel, &[]).await.unwrap();
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    };
    let refused = tokio::select! {
        refused = served.submit("held") => refused,
        () = cancelling => unreachable!("it never ends"),
    };
    assert_eq!(refused.undecided(), "unavailable");
    other.batch_execute("ROLLBACK").await.unwrap();
    let body = run("held", json!({}));
    let (got, _) = served.at_last("/v1/runs", &served.key, &body).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
    assert_eq!(served.runs().await, 1);
}

/// Large and nearly random, so that the database cannot compress it.
fn large_input(n: usize) -> Value {
    let line = |i: u32| Digest::of(&[&n.to_be_bytes(), &i.to_be_bytes()]).to_string();
    Value::String((0..3_000).map(line).collect::<String>())
}

/// Room for an empty database and some of the inputs above.
const VOLUME_BYTES: usize = 56 << 20;
/// Removed when space is needed.
const BALLAST_BYTES: usize = 22 << 20;
/// Far more than fit.
const SUBMISSIONS_MAX: usize = 500;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_volume_is_unavailable_for_what_is_new_and_open_for_what_is_read() {
    // S2-104, S2-57: what does not fit is refused as such, acknowledged runs can be read, and no restart is needed.
    let volume = SmallVolume::mount(VOLUME_BYTES).unwrap();
    let database = Server::builder().on_volume(&volume.path()).start().unwrap();
    volume.lay_ballast(BALLAST_BYTES).unwrap();
    let served = Served::start(&database, UNHURRIED).await;
    let mut accepted = 0;
    let refused = loop {
        assert!(accepted < SUBMISSIONS_MAX, "the volume is never full");
        let name = accepted.to_string();
        let got = served.post("/v1/runs", run(&name, large_input(accepted))).await;
        if got.status != 201 {
            break got;
        }
        accepted += 1;
    };
    assert_eq!(refused.undecided(), "unavailable");
    assert!(
        refused.body["message"].as_str().unwrap().contains("its disk is full"),
        "{}",
        refused.body
    );
    assert!(accepted > 0);
    assert_eq!(served.runs().await, accepted.min(100), "reading needs no room");
    volume.drop_ballast().unwrap();
    let body = run(&accepted.to_string(), large_input(accepted));
    let (got, _) = served.at_last("/v1/runs", &served.key, &body).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
    served.is_ready_again().await;
    served.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_does_not_end_is_unknown_and_repeating_it_is_safe() {
    // S2-104, S2-115: the one case in which the outcome is unknown; the same key finds the run that exists after all.
    let database = Server::builder().start().unwrap();
    let served = Served::start(&database, Duration::from_millis(500)).await;
    let body = run("once", json!({}));
    database.set("synchronous_standby_names", "absent").unwrap();
    // Calls before the setting is in force get a normal answer.
    let mut first = 0;
    let refused = loop {
        first += 1;
        let name = format!("before-{first}");
        let got = served.submit(&name).await;
        if got.status >= 500 {
            break (name, got);
        }
        assert!([200, 201].contains(&got.status), "{:?}", got.body);
    };
    assert_eq!(refused.1.undecided(), "unknown_outcome");
    let ready = served.get("/readyz").await;
    assert_eq!((ready.status, &ready.body["ready"]), (503, &json!(false)), "{:?}", ready.body);
    let again = served.post("/v1/runs", body.clone()).await;
    assert_eq!(again.undecided(), "unknown_outcome", "nothing is answered from what may be lost");
    database.set("synchronous_standby_names", "").unwrap();
    served.is_ready_again().await;
    let (one, _) = served.at_last("/v1/runs", &served.key, &body).await;
    let (other, _) = served.at_last("/v1/runs", &served.key, &body).await;
    assert_eq!(one.body["runId"], other.body["runId"]);
    let (found, _) = served.at_last("/v1/runs", &served.key, &run(&refused.0, json!({}))).await;
    assert!([200, 201].contains(&found.status), "{:?}", found.body);
    let expected = first + 1;
    for _ in 0..TRIES_MAX {
        let listed = served.get("/v1/runs?limit=100").await;
        if listed.status == 200 {
            assert_eq!(listed.body["runs"].as_array().unwrap().len(), expected);
            return;
        }
    }
    panic!("it cannot be read again");
}
