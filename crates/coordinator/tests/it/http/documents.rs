//! What the documents say about the interface, compared with a server: words for states, figures, members, paths.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use verdict::State;
use wire::Time;

use super::test_server::{Lease, TestServer, both, run, seconds};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn guide() -> String {
    read("docs/guide/worker-in-any-language.md")
}

fn openapi() -> Value {
    serde_json::from_str(&wire::openapi_json()).unwrap()
}

fn names(values: &Value) -> Vec<&str> {
    values.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

/// The number after a row's name in the guide's table of defaults.
fn documented(guide: &str, member: &str) -> u64 {
    let row = guide.split_once(&format!("\n| `{member}` | ")).expect(member).1;
    row.split_once(" |").expect("a cell has an end").0.parse().expect(member)
}

fn ms(value: &Value) -> i64 {
    value.as_str().unwrap().parse::<Time>().unwrap().as_ms()
}

/// A run in each state that a worker and a client can bring about.
async fn run_in_every_state(api: &TestServer) -> Vec<(State, String)> {
    let mut runs = Vec::new();
    let succeeded = api.leased(json!({})).await;
    api.succeed(&succeeded).await.ok();
    runs.push((State::Succeeded, succeeded.run));
    let failed = api.leased(json!({"maxAttempts": 1})).await;
    api.fail(&failed).await.ok();
    runs.push((State::Failed, failed.run));
    let retry = api.leased(json!({"retry": {"baseMs": 60_000}})).await;
    api.fail(&retry).await.ok();
    runs.push((State::Retry, retry.run));
    let cancelled = api.submit(json!({})).await;
    api.cancel(&cancelled, json!({})).await.ok();
    runs.push((State::Cancelled, cancelled));
    runs.push((State::Running, api.leased(json!({"leaseMs": 60_000})).await.run));
    runs.push((State::Queued, api.submit(json!({"queue": "other"})).await));
    let waiting = api.leased(json!({})).await;
    let wait = json!({"key": "w#1", "mode": "all", "for": [{"key": "go#1", "signal": "go"}]});
    let call = waiting.said(json!({"wait": wait}));
    api.post(&format!("/v1/tasks/{}/checkpoints", waiting.task), &waiting.token, call).await.ok();
    runs.push((State::Waiting, waiting.run));
    runs
}

/// The words that the columns `state` of an engine's tables may hold, over all its migrations.
fn words_of_tables(migrations: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(repository().join(migrations)).unwrap();
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let texts = files.map(|path| text(&path));
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let is_column = |line: &String| {
        let start = line.trim_start();
        let is_start = ["state ", "OR state = "].iter().any(|it| start.starts_with(it));
        is_start || line.contains("CHECK (state IN")
    };
    let columns = lines.filter(is_column);
    let words = |line: String| line.split('\'').skip(1).step_by(2).map(str::to_owned).collect();
    columns.flat_map(|line| -> Vec<String> { words(line) }).collect()
}

#[tokio::test]
async fn one_vocabulary_names_the_states_of_a_run() {
    let all: BTreeSet<&str> = State::ALL.iter().map(|state| state.name()).collect();
    // Proves: W-11: the rules, the document, the tables of both engines, the filter and every answer have the same words.
    let documented = openapi()["components"]["schemas"]["State"]["enum"].clone();
    assert_eq!(names(&documented).into_iter().collect::<BTreeSet<_>>(), all);
    let stored: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
    for engine in ["crates/store/migrations", "crates/store/src/postgres/migrations"] {
        assert_eq!(words_of_tables(engine), stored, "{engine}");
    }
    for api in both().await {
        for (state, run) in run_in_every_state(&api).await {
            let name = state.name();
            assert_eq!(api.state(&run).await, name);
            let list = api.get(&format!("/v1/runs?state={name}")).await.ok();
            let listed: Vec<(&Value, &Value)> = list["runs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| (&it["runId"], &it["state"]))
                .collect();
            assert_eq!(listed, [(&json!(run), &json!(name))]);
            assert_eq!(api.get(&format!("/v1/runs/{run}/explain")).await.ok()["state"], name);
        }
        for other in ["pending", "completed", "failed_policy", "canceled", "QUEUED", "success"] {
            let refused = api.get(&format!("/v1/runs?state={other}")).await;
            refused.problem(400, "invalid_argument");
        }
    }
}

#[tokio::test]
async fn the_guide_has_the_defaults_that_hold() {
    let guide = guide();
    let documented = |member: &str| documented(&guide, member);
    for api in both().await {
        // Proves: W-16: leases, tokens, limits and backoff are as documented.
        let bare = json!({"kind": "resize", "queue": "q"});
        api.post("/v1/runs", &api.key, bare).await.ok();
        let lease = api.lease("w1").await;
        let given = |member: &str| lease.envelope[member].as_u64().unwrap();
        assert_eq!(given("heartbeatTimeoutMs"), documented("leaseMs"));
        assert_eq!(given("heartbeatIntervalMs"), documented("heartbeatIntervalMs"));
        assert_eq!(given("cancelGracePeriodMs"), documented("cancelGraceMs"));
        assert_eq!(api.run(&lease.run).await["maxAttempts"], documented("maxAttempts"));
        let lived = ms(&lease.envelope["tokenExpiresAt"]) - ms(&lease.envelope["enqueuedAt"]);
        assert!(guide.contains(&format!("valid for {} seconds", lived / 1000)), "{lived}");
        let deadline = Time::from_ms(ms(&lease.envelope["enqueuedAt"]) + 36_000_000).to_string();
        let long = api.leased(json!({"deadline": deadline})).await;
        let lived = ms(&long.envelope["tokenExpiresAt"]) - ms(&long.envelope["enqueuedAt"]);
        assert!(guide.contains(&format!("up to {} seconds", lived / 1000)), "{lived}");
        api.succeed(&long).await.ok();
        fails_with_documented_pauses(&api, &lease, &guide).await;
        is_lost_as_often_as_documented(&api, documented("lostMax")).await;
    }
}

/// Fails one attempt after the other until the run has failed.
async fn fails_with_documented_pauses(api: &TestServer, lease: &Lease, guide: &str) {
    let (base, cap) = (documented(guide, "retry.baseMs"), documented(guide, "retry.capMs"));
    let mut lease = lease.clone();
    for n in 1..documented(guide, "maxAttempts") {
        let failed_at = ms(&api.fail(&lease).await.ok()["serverTime"]);
        let next_at = ms(&api.run(&lease.run).await["nextAttemptAt"]);
        let pause = u64::try_from(next_at - failed_at).unwrap();
        let exponential = (base << (n - 1)).min(cap);
        assert!((exponential..=exponential + base / 2).contains(&pause), "{pause} after {n}");
        api.pass(verdict::Span::from_millis(pause)).await;
        lease = api.lease("w1").await;
    }
    api.fail(&lease).await.has("state", "failed");
}

async fn is_lost_as_often_as_documented(api: &TestServer, most: u64) {
    let id = api.submit(json!({})).await;
    for n in 1..=most {
        let lease = api.lease("w1").await;
        api.started(&lease).await.ok();
        api.pass(seconds(3)).await;
        let state = if n < most { "retry" } else { "failed" };
        assert_eq!(api.state(&id).await, state, "after {n} lost workers");
    }
}

/// Members that only leases of durable runs have.
const OF_DURABLE_RUNS: [&str; 5] =
    ["checkpoints", "checkpointsAfter", "origin", "parentTaskId", "stage"];

#[tokio::test]
async fn leases_have_the_members_that_the_documents_name() {
    let envelope = &openapi()["components"]["schemas"]["Envelope"];
    let guide = guide();
    for api in both().await {
        // Proves: W-16: envelope fields and the form of identifiers.
        let context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let everything =
            run(json!({"taskKey": "t", "assetId": "a", "deadline": "2099-01-01T00:00:00Z",
            "resources": {"cpuMillicores": 1}, "budget": {"tokens": 9}, "traceparent": context}));
        api.post("/v1/runs", &api.key, everything).await.ok();
        let lease = api.lease("w1").await;
        let given: BTreeSet<&String> = lease.envelope.as_object().unwrap().keys().collect();
        let mut documented: BTreeSet<&String> =
            envelope["properties"].as_object().unwrap().keys().collect();
        documented.retain(|member| !OF_DURABLE_RUNS.contains(&member.as_str()));
        assert_eq!(given, documented);
        let table = guide.split_once("The important members:\n\n").unwrap().1;
        let rows = table.split_once("\n\n").unwrap().0.lines().skip(2);
        let named: Vec<&str> = rows
            .flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2))
            .collect();
        assert!(named.len() >= 5, "{named:?}");
        for member in named {
            assert!(lease.envelope.get(member).is_some(), "{member} in {}", lease.envelope);
        }
        for (id, prefix) in [(&lease.run, "run_"), (&lease.task, "task_")] {
            assert!(guide.contains(&format!("\"{prefix}…\"")) && id.starts_with(prefix), "{id}");
        }
    }
}

/// The Markdown pages for users.
fn pages() -> Vec<(PathBuf, String)> {
    let folders = ["docs/guide", "docs/operate", "docs/errors"].map(|name| repository().join(name));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|it| it == "md"));
    paths.chain([repository().join("README.md")]).map(|path| (path.clone(), text(&path))).collect()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A path with `{}` for each parameter, however a page writes it.
fn shape(path: &str) -> String {
    let parts = path.trim_end_matches('/').split('/');
    let is_parameter = |part: &str| part.starts_with(['{', '$', ':']) || part.ends_with('…');
    parts.map(|part| if is_parameter(part) { "{}" } else { part }).collect::<Vec<_>>().join("/")
}

#[test]
fn every_path_in_the_documents_is_served() {
    // Proves: W-16: no page names an endpoint or a prefix that does not exist.
    let document = openapi();
    let served: BTreeSet<String> =
        document["paths"].as_object().unwrap().keys().map(|path| shape(path)).collect();
    let mut found = 0;
    for (page, text) in pages() {
        for (at, _) in text.match_indices("/v1/") {
            let ends = |c: char| !(c.is_ascii_alphanumeric() || "/{}$_-…".contains(c));
            let path = &text[at..][..text[at..].find(ends).unwrap_or(text.len() - at)];
            assert!(served.contains(&shape(path)), "{path} in {}", page.display());
            found += 1;
        }
    }
    assert!(found > 20, "{found} paths: the pages are read");
}
