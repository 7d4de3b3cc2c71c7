//! Which credential opens which route: every route against every principal.

use serde_json::json;

use super::test_server::{TestServer, both};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wants {
    Client,
    Worker,
    Admin,
    Task,
}

const ROUTES: [(&str, &str, Wants); 29] = [
    ("POST", "/v1/runs", Wants::Client),
    ("GET", "/v1/runs", Wants::Client),
    ("GET", "/v1/runs/run_00000000000000000000000000", Wants::Client),
    ("POST", "/v1/runs/run_00000000000000000000000000/cancel", Wants::Client),
    ("GET", "/v1/runs/run_00000000000000000000000000/history", Wants::Client),
    ("GET", "/v1/runs/run_00000000000000000000000000/logs", Wants::Client),
    ("GET", "/v1/runs/run_00000000000000000000000000/record", Wants::Client),
    ("GET", "/v1/runs/run_00000000000000000000000000/explain", Wants::Client),
    ("GET", "/v1/runs/run_00000000000000000000000000/steps", Wants::Client),
    ("GET", "/v1/runs/run_00000000000000000000000000/children", Wants::Client),
    ("GET", "/v1/runs/run_00000000000000000000000000/plan", Wants::Client),
    ("POST", "/v1/runs/run_00000000000000000000000000/signals", Wants::Client),
    ("POST", "/v1/runs/run_00000000000000000000000000/resume", Wants::Client),
    ("GET", "/v1/queues", Wants::Client),
    ("POST", "/v1/leases", Wants::Worker),
    ("POST", "/v1/reports", Wants::Worker),
    ("POST", "/v1/checkpoints", Wants::Worker),
    ("POST", "/v1/starts", Wants::Worker),
    ("POST", "/v1/heartbeats", Wants::Worker),
    ("POST", "/v1/keys", Wants::Admin),
    ("GET", "/v1/keys", Wants::Admin),
    ("GET", "/v1/audit", Wants::Admin),
    ("POST", "/v1/signing-keys/rotate", Wants::Admin),
    ("POST", "/v1/keys/0000000000000000/rotate", Wants::Admin),
    ("POST", "/v1/keys/0000000000000000/revoke", Wants::Admin),
    ("POST", "/v1/tasks/task_00000000000000000000000000/started", Wants::Task),
    ("POST", "/v1/tasks/task_00000000000000000000000000/heartbeat", Wants::Task),
    ("POST", "/v1/tasks/task_00000000000000000000000000/checkpoints", Wants::Task),
    ("POST", "/v1/tasks/task_00000000000000000000000000/completed", Wants::Task),
];

async fn ask(
    api: &TestServer,
    method: &str,
    path: &str,
    bearer: Option<&str>,
) -> super::test_server::Response {
    let request = api.request(method, path);
    let request = match bearer {
        Some(bearer) => request.bearer_auth(bearer),
        None => request,
    };
    // Not JSON: a route that reads it before authentication would answer 400.
    let request = request.header("content-type", "application/json");
    api.send(if method == "POST" { request.body("not json") } else { request }).await
}

#[tokio::test]
async fn every_route_takes_exactly_its_principal() {
    for api in both().await {
        // X10: off the diagonal everything is refused, before the body is read.
        let lease = api.leased(json!({})).await;
        for (method, path, wants) in ROUTES {
            let keys = [(&api.client_key, Wants::Client), (&api.worker_key, Wants::Worker)];
            for (key, is) in keys {
                let got = ask(&api, method, path, Some(key)).await;
                match wants {
                    Wants::Task => {
                        got.problem(401, "invalid_token").has("verdict", "REJECTED");
                    }
                    wants if wants == is => {
                        assert!(got.status != 401 && got.status != 403, "{path}");
                    }
                    Wants::Client | Wants::Worker | Wants::Admin => {
                        got.problem(403, "forbidden");
                    }
                }
            }
            let admin = ask(&api, method, path, Some(&api.admin_key)).await;
            let token = ask(&api, method, path, Some(&lease.token)).await;
            let nobody = ask(&api, method, path, None).await;
            let garbage = ask(&api, method, path, Some("tnr_x_y_z")).await;
            match wants {
                Wants::Task => {
                    admin.problem(401, "invalid_token");
                    nobody.problem(401, "invalid_token");
                    garbage.problem(401, "invalid_token");
                    // The right class of credential: the body is parsed, and is no JSON.
                    token.problem(400, "invalid_argument").has("verdict", "REJECTED");
                }
                Wants::Client | Wants::Worker | Wants::Admin => {
                    match wants {
                        Wants::Admin => assert!(![401, 403].contains(&admin.status), "{path}"),
                        _ => drop(admin.problem(403, "forbidden")),
                    }
                    for got in [token, nobody, garbage] {
                        got.problem(401, "unauthenticated");
                        assert_eq!(got.headers["www-authenticate"], "Bearer");
                    }
                }
            }
        }
        assert_eq!(api.state(&lease.run).await, "running");
    }
}

#[tokio::test]
async fn credentials_come_as_bearer_only() {
    for api in both().await {
        // X01
        for value in ["", "Bearer", "Bearer ", &format!("Basic {}", api.key), &api.key] {
            let request = api.request("GET", "/v1/runs").header("authorization", value);
            api.send(request).await.problem(401, "unauthenticated");
        }
        let request =
            api.request("GET", "/v1/runs").header("authorization", format!("bearer {}", api.key));
        assert_eq!(api.send(request).await.status, 200);
    }
}

#[tokio::test]
async fn a_foreign_run_and_a_missing_run_look_the_same() {
    for api in both().await {
        // X13, X16: the same status, members and texts; only request id and time differ.
        let run = api.submit(json!({"goal": "canary-7f3"})).await;
        let (missing, odd) = ("run_00000000000000000000000000", "run_x");
        for suffix in ["", "/history", "/logs", "/record", "/explain"] {
            let mut answers = Vec::new();
            for id in [run.as_str(), missing, odd] {
                let got = api.get_as(&format!("/v1/runs/{id}{suffix}"), &api.foreign_key).await;
                got.problem(404, "run_not_found");
                let mut body = got.body.clone();
                for member in ["requestId", "serverTime"] {
                    body.as_object_mut().unwrap().remove(member);
                }
                assert!(!body.to_string().contains("canary"));
                answers.push(body);
            }
            assert!(answers.iter().all(|answer| *answer == answers[0]));
        }
        let path = format!("/v1/runs/{run}/cancel");
        api.post(&path, &api.foreign_key, json!({})).await.problem(404, "run_not_found");
        let list = api.get_as("/v1/runs", &api.foreign_key).await.ok();
        assert_eq!(list["runs"], json!([]));
        let queues = api.get_as("/v1/queues", &api.foreign_key).await.ok();
        assert_eq!(queues["queues"], json!([]));
        let poll = json!({"workerId": "w", "queues": ["q"], "max": 1});
        let leases = api.post("/v1/leases", &api.foreign_key, poll).await.ok();
        assert_eq!(leases["leases"], json!([]));
        assert_eq!(api.state(&run).await, "queued");
    }
}
