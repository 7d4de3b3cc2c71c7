//! What a key that is limited to a queue may do about runs that are partly elsewhere, on every route that it may call.
//!
//! The rows are those of the matrix, so a new route that admits such keys fails here until somebody says what it does about them.

use coordinator::admit::Role;
use serde_json::{Value, json};

use super::matrix::{ROWS, Row, Wants};
use super::test_server::{Lease, Response, TestServer, both, merged, run};

/// What a step, stage or child elsewhere returned.
const SECRET: &str = "returned in the queue b";

/// What a route does about a run with a task in another queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// It names the run: not found.
    NamesIt,
    /// It lists things, and neither the run nor a part of it is among them.
    LeavesItOut,
    /// It is about everything of the workspace: refused to limited keys.
    Refuses,
    /// It names nothing that belongs to a run.
    IsElsewhere,
}

/// `None` for a route that no limited key may call.
fn does(row: &Row) -> Option<Does> {
    if !matches!(row.wants, Wants::Key(Role::Client) | Wants::Read | Wants::ReadAll) {
        return None;
    }
    Some(match row.path {
        path if path.contains("{runId}") => Does::NamesIt,
        "/v1/runs" if row.method == "POST" => Does::IsElsewhere,
        "/v1/runs" | "/v1/waits" | "/v1/queues" | "/v1/workers" | "/v1/kinds" => Does::LeavesItOut,
        "/v1/recovery/policies" => Does::LeavesItOut,
        "/v1/flow-keys" | "/v1/recovery/candidates" => Does::Refuses,
        path if path.starts_with("/v1/recovery/candidates/") => Does::Refuses,
        path if path.starts_with("/v1/deployments") => Does::Refuses,
        "/v1/schedules" if row.method == "GET" => Does::Refuses,
        path if path.starts_with("/v1/schedules") => Does::IsElsewhere,
        other => panic!("say what {} {other} does about runs of other queues", row.method),
    })
}

impl TestServer {
    async fn limited_to_a(&self, role: &str) -> String {
        let wanted = json!({"roles": [role], "queues": ["a"]});
        self.post("/v1/keys", &self.admin_key, wanted).await.text("secret")
    }

    async fn of_steps(&self, steps: Value) -> String {
        self.post("/v1/runs", &self.key, json!({"plan": {"steps": steps}})).await.text("runId")
    }

    /// Leases from both queues, and reports each with a text that names its queue, until nothing is ready.
    async fn report_all(&self) {
        loop {
            let body = json!({"workerId": "w1", "queues": ["a", "b"], "max": 10});
            let leases: Vec<Lease> = self.post("/v1/leases", &self.key, body).await.leases();
            if leases.is_empty() {
                return;
            }
            for lease in leases {
                let queue = lease.envelope["queue"].as_str().unwrap();
                let output = format!("returned in the queue {queue}");
                let report = json!({"outcome": "SUCCEEDED", "output": output});
                self.complete(&lease, report).await.ok();
            }
        }
    }

    /// A durable run in `a` with a child in `queue`, which waits for it.
    async fn parent_of(&self, queue: &str) -> String {
        let id = self.submit(json!({"queue": "a"})).await;
        let body = json!({"workerId": "w1", "queues": ["a"], "kinds": ["resize"], "max": 1});
        let parent = self.post("/v1/leases", &self.key, body).await.leases().remove(0);
        let child = run(json!({"key": "c#1", "queue": queue}));
        let items = json!([{"key": "c#1", "child": "c#1"}]);
        let wait = json!({"key": "join#1", "mode": "all", "for": items});
        self.checkpoint(&parent, json!({"children": [child], "wait": wait})).await.ok();
        id
    }

    async fn try_row(&self, row: &Row, id: &str, key: &str) -> Response {
        let path = row.path.replace("{runId}", id).replace("{deployment}", "d");
        let path =
            path.replace("{type}", "t").replace("{artifact}", "a").replace("{candidate}", "rec_0");
        let request = self.request(row.method, &path).bearer_auth(key);
        let body = match row.path {
            "/v1/waits" => Some(json!({"runIds": [id]})),
            _ => row.body.map(|body| serde_json::from_str(body).unwrap()),
        };
        let request = match &body {
            Some(body) => request.json::<Value>(body),
            None => request,
        };
        self.send(request).await
    }
}

/// A step, or a stage if no step has upstreams.
fn step(key: &str, queue: &str, upstreams: Option<&[&str]>) -> Value {
    let step = json!({"key": key, "kind": "k", "queue": queue, "leaseMs": 2000});
    match upstreams {
        Some(upstreams) => merged(step, json!({"dependsOn": upstreams})),
        None => step,
    }
}

fn graph(other: &str) -> Value {
    json!([
        step("one", "a", Some(&[])),
        step("two", other, Some(&["one"])),
        step("three", "a", Some(&["two"]))
    ])
}

fn stages(other: &str) -> Value {
    json!([step("one", "a", None), step("two", other, None)])
}

/// Runs of the queue `a` with a part in `other`: under way, and ended.
async fn runs_with(api: &TestServer, other: &str) -> Vec<String> {
    let mut runs = vec![
        api.of_steps(graph(other)).await,
        api.of_steps(stages(other)).await,
        api.parent_of(other).await,
    ];
    api.report_all().await;
    for id in &runs {
        assert_eq!(api.state(id).await, "succeeded", "{id}");
    }
    runs.push(api.of_steps(stages(other)).await);
    runs.push(api.of_steps(graph(other)).await);
    // What is part of such a run is no run of its own.
    let plan = api.get(&format!("/v1/runs/{}/plan", runs.last().unwrap())).await.ok();
    let task = plan["steps"][0]["taskId"].as_str().unwrap();
    runs.push(task.replace("task_", "run_"));
    runs
}

#[tokio::test]
async fn a_run_with_a_part_in_another_queue_does_not_exist_for_a_limited_key_on_any_route() {
    for api in both().await {
        // X13
        let hidden = runs_with(&api, "b").await;
        for role in ["client", "reader"] {
            let key = api.limited_to_a(role).await;
            for row in ROWS {
                let Some(does) = does(row) else { continue };
                if role == "reader" && row.wants == Wants::Key(Role::Client) {
                    continue;
                }
                for id in &hidden {
                    let got = api.try_row(row, id, &key).await;
                    let said = got.body.to_string();
                    let shows = hidden.iter().any(|id| said.contains(&id["run_".len()..]));
                    match does {
                        Does::NamesIt => {
                            got.problem(404, "run_not_found");
                        }
                        Does::Refuses => {
                            got.problem(403, "forbidden");
                        }
                        Does::LeavesItOut if row.path == "/v1/waits" => {
                            assert_eq!(got.body["notFound"], json!([id]), "{got:?}");
                        }
                        Does::LeavesItOut => {
                            assert!(got.status == 200 && !shows, "{row:?}: {got:?}")
                        }
                        Does::IsElsewhere => continue,
                    }
                    assert!(!said.contains(SECRET), "{row:?}: {said}");
                }
            }
        }
        for id in &hidden[3..] {
            assert_ne!(api.state(id).await, "cancelled", "{id}");
        }
    }
}

#[tokio::test]
async fn a_run_of_several_tasks_in_the_queues_of_a_key_is_its_own() {
    for api in both().await {
        let own = runs_with(&api, "a").await;
        let (client, reader) = (api.limited_to_a("client").await, api.limited_to_a("reader").await);
        for id in &own {
            for route in ["", "/history", "/plan", "/children", "/steps", "/explain"] {
                api.get_as(&format!("/v1/runs/{id}{route}"), &reader).await.ok();
            }
        }
        let listed = api.get_as("/v1/runs", &reader).await.ok();
        assert_eq!(listed["runs"].as_array().unwrap().len(), 5, "{listed}");
        let waited = api.post("/v1/waits", &reader, json!({"runIds": own})).await.ok();
        assert_eq!(waited["notFound"], json!([]), "{waited}");
        assert_eq!(waited["ended"].as_array().unwrap().len(), 3, "{waited}");
        api.post(&format!("/v1/runs/{}/cancel", own[3]), &client, json!({})).await.ok();
        assert_eq!(api.state(&own[3]).await, "cancelled");
    }
}

#[tokio::test]
async fn a_list_of_hidden_runs_ends_and_says_how_far_it_looked() {
    for api in both().await {
        let mixed = json!({"plan": {"steps": stages("b")}});
        let runs = vec![mixed; 130];
        api.post("/v1/runs", &api.key, json!({"runs": runs})).await.ok();
        let newest = api.submit(json!({"queue": "a"})).await;
        let reader = api.limited_to_a("reader").await;
        let first = api.get_as("/v1/runs?limit=50", &reader).await.ok();
        assert_eq!(first["runs"][0]["runId"], json!(newest), "{first}");
        assert_eq!(
            (&first["stopped"], &first["searched"]),
            (&json!("scan"), &json!(101)),
            "{first}"
        );
        let cursor = first["nextCursor"].as_str().unwrap();
        let rest = api.get_as(&format!("/v1/runs?limit=50&cursor={cursor}"), &reader).await.ok();
        assert_eq!((&rest["runs"], rest.get("nextCursor")), (&json!([]), None), "{rest}");
    }
}

#[tokio::test]
async fn a_submission_that_waits_shows_a_limited_key_nothing_of_another_queue() {
    for api in both().await {
        let key = api.limited_to_a("client").await;
        let submitted = json!({"queue": "a", "idempotencyKey": "once"});
        let keyed = run(submitted);
        let id = api.post("/v1/runs", &key, json!({"runs": [keyed.clone()]})).await.ok();
        let id = id["results"][0]["runId"].as_str().unwrap().to_owned();
        api.get_as(&format!("/v1/runs/{id}"), &key).await.ok();
        // Its worker, which is not limited, starts a child elsewhere.
        let body = json!({"workerId": "w1", "queues": ["a"], "kinds": ["resize"], "max": 1});
        let parent = api.post("/v1/leases", &api.key, body).await.leases().remove(0);
        let child = run(json!({"key": "c#1", "queue": "b"}));
        api.checkpoint(&parent, json!({"children": [child]})).await.ok();
        api.get_as(&format!("/v1/runs/{id}"), &key).await.problem(404, "run_not_found");
        api.complete(&parent, json!({"outcome": "SUCCEEDED", "output": SECRET})).await.ok();
        api.report_all().await;
        assert_eq!(api.state(&id).await, "succeeded");
        let request = api.request("POST", "/v1/runs?waitMs=1000").bearer_auth(&key);
        let request = request.header("idempotency-key", "once");
        let again = api.send(request.json(&run(json!({"queue": "a"})))).await;
        assert_eq!((again.status, &again.body["runId"]), (200, &json!(id)), "{again:?}");
        assert!(!again.body.to_string().contains(SECRET), "{again:?}");
    }
}
