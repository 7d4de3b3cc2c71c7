//! A coordinator that a program embeds and serves at the same time: both interfaces agree, and HTTP can be left
//! out.

use std::process::Command;
use std::sync::Arc;

use coordinator::admit::{NewKey, Role};
use coordinator::{Coordinator, Options, Poll, SeededEntropy, ServeOptions, requests, serve};
use serde_json::{Value, json};
use storetest::{ManualClock, MemoryStore};
use verdict::{Answer, Scope};

use super::test_server::{PATIENCE, browser};

#[path = "../../../examples/embed.rs"]
#[expect(dead_code, reason = "the test calls what `main` prints")]
mod embed;

/// The same coordinator, embedded and over HTTP.
struct Embedded {
    coordinator: Coordinator,
    url: String,
    key: String,
    http: reqwest::Client,
    _folder: tempfile::TempDir,
}

impl Embedded {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = MemoryStore::new(Arc::new(ManualClock::default()));
        let key = NewKey::generate(&mut SeededEntropy::new(1), Scope::default(), &Role::ALL);
        let mut options =
            ServeOptions::new("127.0.0.1:0".parse().unwrap(), folder.path().join("signing.key"));
        options.new_keys = vec![key.clone()];
        options.coordinator =
            Options { entropy: Box::new(SeededEntropy::new(7)), ..Options::default() };
        let server = serve(store, options).await.unwrap();
        Self {
            coordinator: server.coordinator().clone(),
            url: format!("http://{}", server.local_addr()),
            key: key.text().to_owned(),
            http: browser().timeout(PATIENCE).build().unwrap(),
            _folder: folder,
        }
    }

    /// Submits without HTTP. Returns the run, and whether it already existed.
    async fn submit_inside(&self, run: &Value, key: &str) -> Result<(String, bool), Answer> {
        let mut run = run.clone();
        run["idempotencyKey"] = json!(key);
        let run = wire::parse(run.to_string().as_bytes()).unwrap();
        let submission = requests::submission(&Scope::default(), run).unwrap();
        match self.coordinator.submit(vec![submission]).await.remove(0).unwrap().answer {
            Answer::Accepted { task, replayed, .. } => Ok((task.run_name(), replayed)),
            other => Err(other),
        }
    }

    async fn post(&self, path: &str, bearer: &str, key: &str, body: &Value) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.url)).bearer_auth(bearer);
        let answered = request.header("idempotency-key", key).json(body).send().await.unwrap();
        (answered.status().as_u16(), answered.json().await.unwrap())
    }

    async fn submit_over_http(&self, run: &Value, key: &str) -> (u16, String) {
        let (status, body) = self.post("/v1/runs", &self.key, key, run).await;
        (status, body["runId"].as_str().or(body["error"].as_str()).unwrap().to_owned())
    }
}

fn run() -> Value {
    json!({
        "kind": "k", "queue": "q", "input": {"b": 1.0, "a": [1, 2]}, "priority": 3,
        "labels": {"z": "1", "a": "2"}, "retry": {"baseMs": 10}, "resources": {"timeoutMs": 60_000},
    })
}

/// The same run in another order and spelling.
fn run_again() -> Value {
    let text = r#"{"queue":"q","kind":"k","resources":{"timeoutMs":60000},"retry":{"baseMs":10},
        "labels":{"a":"2","z":"1"},"priority":3,"input":{"a":[1,2],"b":1}}"#;
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn a_key_used_inside_is_known_over_http_and_the_other_way_round() {
    let here = Embedded::start().await;
    let (inside, replayed) = here.submit_inside(&run(), "first").await.unwrap();
    assert!(!replayed);
    assert_eq!(here.submit_over_http(&run_again(), "first").await, (200, inside));
    let (status, over_http) = here.submit_over_http(&run(), "second").await;
    assert_eq!(status, 201);
    assert_eq!(here.submit_inside(&run_again(), "second").await.unwrap(), (over_http, true));
    // A different run under the same key is refused in both ways.
    let mut other = run();
    other["priority"] = json!(4);
    let refused = (422, "idempotency_key_reused".to_owned());
    assert_eq!(here.submit_over_http(&other, "first").await, refused);
    assert!(matches!(here.submit_inside(&other, "second").await, Err(Answer::Refused(_))));
}

fn same_poll() -> Poll {
    Poll {
        scope: Scope::default(),
        worker: "w".into(),
        queues: vec!["q".into()],
        kinds: None,
        max: 1,
        until: tokio::time::Instant::now(),
        poll: Some("p".into()),
        build: None,
    }
}

#[tokio::test]
async fn a_report_made_inside_is_replayed_over_http() {
    // R-5: the same report gets its recorded answer, another one for the same lease is refused.
    let here = Embedded::start().await;
    here.submit_inside(&run(), "first").await.unwrap();
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1, "pollId": "p"});
    let (_, leased) = here.post("/v1/leases", &here.key, "-", &poll).await;
    let text = |member: &str| leased["leases"][0][member].as_str().unwrap();
    // A poll with the same name gets the same lease.
    let granted = here.coordinator.lease(same_poll()).await.unwrap().remove(0);
    let report = json!({"attempt": 1, "workerId": "w", "outcome": "SUCCEEDED", "output": {"a": 1}});
    let completed = wire::parse(report.to_string().as_bytes()).unwrap();
    let inside = requests::report(granted.caller(), completed).unwrap();
    let committed = here.coordinator.report(granted.key(), inside).await.unwrap().answer;
    assert!(matches!(committed, Answer::Committed { replayed: false, .. }), "{committed:?}");
    let path = format!("/v1/tasks/{}/completed", text("taskId"));
    let (status, again) = here.post(&path, text("taskToken"), "-", &report).await;
    assert_eq!((status, &again["replayed"]), (200, &json!(true)), "{again}");
    let mut other = report;
    other["output"] = json!({"a": 2});
    let (status, refused) = here.post(&path, text("taskToken"), "-", &other).await;
    assert_eq!((status, &refused["error"]), (409, &json!("conflicting_report")), "{refused}");
}

#[tokio::test]
async fn what_the_limits_forbid_is_refused_inside_as_over_http() {
    let run = wire::requests::SubmitRun {
        kind: "two words".to_owned(),
        queue: "q".to_owned(),
        ..wire::requests::SubmitRun::default()
    };
    let refused = requests::submission(&Scope::default(), run).unwrap_err();
    assert_eq!(refused.field, "kind");
}

#[tokio::test]
async fn the_example_runs_to_its_result() {
    assert_eq!(embed::run().await.unwrap(), r#"{"greeting": "Hello, Ada"}"#);
}

/// The dependency tree of a coordinator without default features.
fn tree_without_http() -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--offline", "--package", "tenure-coordinator", "--no-default-features"]);
    command.args(["--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    let told = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    String::from_utf8(told.stdout).unwrap()
}

#[test]
fn http_can_be_left_out() {
    let tree = tree_without_http();
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"tenure-store"), "{names:?}");
    for left_out in ["axum", "hyper", "hyper-util", "tower", "rustls", "tokio-postgres"] {
        assert!(!names.contains(&left_out), "{left_out} is in the tree of an embedded coordinator");
    }
}
