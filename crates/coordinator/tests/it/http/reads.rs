//! Reading runs: one, many, their history, their record, the queues, the process.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::test_server::{TestServer, both, read_until_closed, seconds};

fn ids(list: &Value) -> Vec<String> {
    let runs = list["runs"].as_array().unwrap();
    runs.iter().map(|run| run["runId"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_run_shows_everything_about_itself() {
    for api in both().await {
        let more = json!({
            "goal": "thumbnails", "labels": {"team": "a"}, "priority": 3, "maxAttempts": 5,
            "assetId": "asset", "taskKey": "key", "input": [1],
        });
        let id = api.submit(more).await;
        let run = api.run(&id).await;
        assert_eq!(run["goal"], "thumbnails");
        assert_eq!(
            (&run["priority"], &run["maxAttempts"], &run["attempt"]),
            (&json!(3), &json!(5), &json!(0))
        );
        assert_eq!((&run["labels"], &run["input"]), (&json!({"team": "a"}), &json!([1])));
        let lease = api.lease("w1").await;
        // S4-44: the last heartbeat is stored with the lease.
        api.pass(seconds(1)).await;
        api.heartbeat(&lease).await.ok();
        let run = api.run(&id).await;
        assert_eq!((&run["state"], &run["lease"]["owner"]), (&json!("running"), &json!("w1")));
        assert!(run["lease"]["heartbeatAt"].as_str() > run["lease"]["acquiredAt"].as_str());
        api.succeed(&lease).await.ok();
        let run = api.run(&id).await;
        assert_eq!((&run["state"], &run["maxAttempts"]), (&json!("succeeded"), &json!(5)));
        assert!(run.get("lease").is_none() && run["completedAt"].is_string());
    }
}

#[tokio::test]
async fn a_lease_is_a_claim_record_kept_apart_from_what_was_submitted() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.heartbeat(&lease).await.ok();
        let run = api.run(&lease.run).await;
        let claim = run["lease"].as_object().unwrap();
        // S0-29: the record has the members that the described schema requires.
        let document = api.get("/openapi.json").await.ok();
        let required = document["components"]["schemas"]["Lease"]["required"].as_array().unwrap();
        for member in required {
            assert!(claim.contains_key(member.as_str().unwrap()), "{member} in {claim:?}");
        }
        // S0-31: the resource it claims. S0-32: its owner. S0-33, S0-34: absolute times in UTC.
        assert_eq!((&run["taskId"], &claim["owner"]), (&json!(lease.task), &json!("w1")));
        for time in ["expiresAt", "heartbeatAt"] {
            assert!(claim[time].as_str().unwrap().ends_with('Z'), "{time} in {claim:?}");
        }
        // S0-35: the compare-and-swap key has grown with the acquisition and the renewal.
        assert_eq!(claim["claimVersion"], 2);
        // S0-28: separate from the task's own facts, and gone with the attempt.
        api.succeed(&lease).await.ok();
        assert!(api.run(&lease.run).await.get("lease").is_none());
    }
}

#[tokio::test]
async fn waiting_for_a_run_ends_with_the_run() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let path = format!("/v1/runs/{}?waitMs=30000", lease.run);
        let (waited, _) = tokio::join!(api.get(&path), api.succeed(&lease));
        waited.has("state", "succeeded");
        // A read does not wait for an ended run or a missing one.
        api.get(&path).await.has("state", "succeeded");
        let missing = "/v1/runs/run_00000000000000000000000000?waitMs=30000";
        api.get(missing).await.problem(404, "run_not_found");
        api.get(&format!("/v1/runs/{}?waitMs=30001", lease.run))
            .await
            .problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn runs_are_listed_newest_first_in_pages() {
    for api in both().await {
        let mut all = Vec::new();
        for _ in 0..5 {
            all.insert(0, api.submit(json!({})).await);
        }
        let first = api.get("/v1/runs?limit=2").await.ok();
        let cursor = first["nextCursor"].as_str().unwrap();
        let second = api.get(&format!("/v1/runs?limit=2&cursor={cursor}")).await.ok();
        let next = second["nextCursor"].as_str().unwrap();
        let last = api.get(&format!("/v1/runs?limit=2&cursor={next}")).await.ok();
        assert_eq!([ids(&first), ids(&second), ids(&last)].concat(), all);
        assert!(last.get("nextCursor").is_none());
    }
}

#[tokio::test]
async fn cursors_are_ours_and_of_this_tenant() {
    for api in both().await {
        // X14
        api.submit(json!({})).await;
        api.submit(json!({})).await;
        let cursor = api.get("/v1/runs?limit=1").await.text("nextCursor");
        let mut changed = cursor.clone().into_bytes();
        changed[3] = if changed[3] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        for (cursor, key) in [(&changed, &api.key), (&cursor, &api.foreign_key)] {
            let got = api.get_as(&format!("/v1/runs?cursor={cursor}"), key).await;
            got.problem(400, "invalid_argument").has("field", "cursor");
        }
    }
}

#[tokio::test]
async fn lists_are_filtered() {
    for api in both().await {
        let labelled = api.submit(json!({"labels": {"team": "a"}})).await;
        let elsewhere = api.submit(json!({"queue": "other"})).await;
        let painted = api.submit(json!({"kind": "paint"})).await;
        api.cancel(&painted, json!({})).await.ok();
        for (query, expected) in [
            ("label=team=a", &labelled),
            ("queue=other", &elsewhere),
            ("kind=paint", &painted),
            ("state=cancelled", &painted),
        ] {
            let list = api.get(&format!("/v1/runs?{query}")).await.ok();
            assert_eq!(ids(&list), [expected.as_str()], "{query}");
        }
    }
}

async fn two_attempts(api: &TestServer) -> String {
    let lease = api.leased(json!({"retry": {"baseMs": 0, "capMs": 0}})).await;
    api.started(&lease).await.ok();
    api.fail(&lease).await.ok();
    let lease = api.lease("w2").await.by("w2");
    let report = json!({
        "outcome": "SUCCEEDED", "output": 7, "completedAt": "2026-03-01T12:00:00Z",
        "metrics": {"cpuTimeMs": 5},
    });
    api.complete(&lease, report).await.ok();
    lease.run
}

#[tokio::test]
async fn history_tells_every_decision_in_order() {
    for api in both().await {
        let run = two_attempts(&api).await;
        let history = api.get(&format!("/v1/runs/{run}/history")).await.ok();
        let entries = history["entries"].as_array().unwrap();
        let told: Vec<_> = entries
            .iter()
            .map(|entry| (entry["kind"].as_str().unwrap(), entry["attempt"].as_u64()))
            .collect();
        let expected = [
            ("submitted", None),
            ("granted", Some(1)),
            ("started", Some(1)),
            ("attempt_closed", Some(1)),
            ("granted", Some(2)),
            ("attempt_closed", Some(2)),
        ];
        assert_eq!(told, expected);
        assert_eq!(entries[3]["detail"]["outcome"], "FAILED");
        assert_eq!(entries[5]["detail"]["state"], "succeeded");
        assert_eq!(history["nextAfter"], 6);
        let rest = api.get(&format!("/v1/runs/{run}/history?after=4&limit=1")).await.ok();
        assert_eq!(rest["entries"], json!([entries[4]]));
        // An ended run has nothing more to wait for.
        let none = api.get(&format!("/v1/runs/{run}/history?after=6&waitMs=30000")).await.ok();
        assert_eq!((&none["entries"], &none["nextAfter"]), (&json!([]), &json!(6)));
    }
}

#[tokio::test]
async fn history_waits_for_news() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let path = format!("/v1/runs/{}/history?after=2&waitMs=30000", lease.run);
        let (news, _) = tokio::join!(api.get(&path), api.started(&lease));
        assert_eq!(news.ok()["entries"][0]["kind"], "started");
    }
}

#[tokio::test]
async fn history_streams_as_events_until_the_end() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let mut stream = api.connect().await;
        let request = format!(
            "GET /v1/runs/{}/history HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
             accept: text/event-stream\r\nlast-event-id: 1\r\nconnection: close\r\n\r\n",
            lease.run, api.key
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut seen = String::new();
        while !seen.contains("event: granted") {
            let mut part = [0; 4096];
            let count = stream.read(&mut part).await.unwrap();
            assert!(count > 0, "closed early: {seen}");
            seen.push_str(&String::from_utf8_lossy(&part[..count]));
        }
        assert!(
            seen.contains("content-type: text/event-stream") && !seen.contains("event: submitted")
        );
        api.succeed(&lease).await.ok();
        // The stream ends with the run.
        seen.push_str(&read_until_closed(&mut stream).await);
        assert!(seen.contains("event: attempt_closed") && seen.contains("id: 3"), "{seen}");
    }
}

#[tokio::test]
async fn a_record_is_the_provenance_of_an_ended_run() {
    for api in both().await {
        // S2-44: input, output, every attempt, and one digest over all.
        let waiting = api.submit(json!({"queue": "other"})).await;
        api.get(&format!("/v1/runs/{waiting}/record")).await.problem(404, "not_found");
        let run = two_attempts(&api).await;
        let record = api.get(&format!("/v1/runs/{run}/record")).await.ok();
        let attempts = record["attempts"].as_array().unwrap();
        assert_eq!((&record["state"], attempts.len()), (&json!("succeeded"), 2));
        assert_eq!(
            (&attempts[0]["outcome"], &attempts[0]["category"]),
            (&json!("FAILED"), &json!("USER_CODE"))
        );
        assert_eq!(
            (&attempts[1]["outcome"], &attempts[1]["owner"]),
            (&json!("SUCCEEDED"), &json!("w2"))
        );
        // R-31, S4-29: the worker's times and measurements are claims, stored beside the
        // coordinator's.
        let claims =
            json!({"completedAt": "2026-03-01T12:00:00.000Z", "metrics": {"cpuTimeMs": 5}});
        assert_eq!(attempts[1]["claims"], claims);
        for member in ["inputDigest", "outputDigest", "digest"] {
            assert_eq!(record[member].as_str().unwrap().len(), 64, "{member}");
        }
    }
}

#[tokio::test]
async fn runs_that_did_not_succeed_have_records_too() {
    for api in both().await {
        // W-4, S2-114: failed, cancelled before its first attempt, and revoked in the middle of one.
        let failed = api.leased(json!({"maxAttempts": 1})).await;
        api.fail(&failed).await.ok();
        let waiting = api.submit(json!({})).await;
        api.cancel(&waiting, json!({})).await.ok();
        let revoked = api.leased(json!({})).await;
        api.cancel(&revoked.run, json!({"force": true})).await.ok();
        let rows = [
            (failed.run.as_str(), "failed", "ATTEMPTS_EXHAUSTED", vec!["FAILED"]),
            (waiting.as_str(), "cancelled", "CANCEL_REQUESTED", vec![]),
            (revoked.run.as_str(), "cancelled", "CANCEL_FORCED", vec!["REVOKED"]),
        ];
        for (run, state, reason, outcomes) in rows {
            let record = api.get(&format!("/v1/runs/{run}/record")).await.ok();
            assert_eq!(
                (&record["state"], &record["error"]["reason"]),
                (&json!(state), &json!(reason))
            );
            let attempts = record["attempts"].as_array().unwrap();
            let found: Vec<_> =
                attempts.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
            assert_eq!(found, outcomes, "{run}");
        }
    }
}

#[tokio::test]
async fn queues_tell_what_waits_and_runs() {
    for api in both().await {
        api.submit(json!({})).await;
        api.lease("w1").await;
        api.submit(json!({})).await;
        api.submit(json!({"runAt": "2099-01-01T00:00:00Z"})).await;
        let queues = api.get("/v1/queues").await.ok();
        let queue = &queues["queues"][0];
        assert_eq!(queue["queue"], "q");
        assert_eq!(
            (&queue["ready"], &queue["delayed"], &queue["running"]),
            (&json!(1), &json!(1), &json!(1))
        );
        assert!(queue["oldestReadyAt"].is_string());
    }
}

#[tokio::test]
async fn health_metrics_and_description_are_open() {
    for api in both().await {
        api.submit(json!({"queue": "secret-queue"})).await;
        let open = |path| api.send(api.request("GET", path));
        assert_eq!(open("/livez").await.body, json!("ok\n"));
        let ready = open("/readyz").await;
        assert_eq!((ready.status, &ready.body["ready"]), (200, &json!(true)));
        open("/version").await.has("api", "v1");
        assert!(open("/openapi.json").await.body["paths"]["/v1/runs"].is_object());
        let metrics = open("/metrics").await;
        let text = metrics.body.as_str().unwrap();
        for line in [
            "tenure_tasks_submitted_total 1\n",
            "tenure_tasks_ready 1\n",
            "tenure_tasks_running 0\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("secret-queue"));
    }
}

#[tokio::test]
async fn every_problem_names_a_page_that_the_server_itself_has() {
    for api in both().await {
        let problem = api.send(api.request("GET", "/v1/runs")).await;
        let page = problem.problem(401, "unauthenticated").text("type");
        assert_eq!(page, "/errors/unauthenticated");
        for code in wire::Code::ALL {
            let page = api.send(api.request("GET", &code.type_uri())).await;
            assert_eq!((page.status, page.kind.as_str()), (200, "text/markdown; charset=utf-8"));
            assert!(page.body.as_str().unwrap().contains(code.as_str()), "{code}");
        }
        // As people paste it: the code as it is printed.
        let pasted = api.send(api.request("GET", "/errors/budget_spent")).await;
        assert_eq!(pasted.status, 200, "{pasted:?}");
        api.send(api.request("GET", "/errors/nonsense")).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn what_a_worker_says_of_the_time_is_kept_and_decides_nothing() {
    for api in both().await {
        // R-31, S2-113, F64: a clock a year ahead and one in 1970 move no lease, no order, no retry.
        let lease = api.leased(json!({})).await;
        let path = format!("/v1/tasks/{}", lease.task);
        let body = |more: Value| {
            let mut body = json!({"attempt": 1, "workerId": "w1"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let ahead = body(json!({"startedAt": "2099-01-01T00:00:00Z"}));
        api.post(&format!("{path}/started"), &lease.token, ahead).await.ok();
        let behind = body(json!({"outcome": "SUCCEEDED", "completedAt": "1970-01-01T00:00:00Z"}));
        api.post(&format!("{path}/completed"), &lease.token, behind).await.ok();
        let run = api.run(&lease.run).await;
        let times = ["createdAt", "startedAt", "completedAt"].map(|it| run[it].as_str().unwrap());
        assert!(times.is_sorted(), "{times:?}");
        let history = api.get(&format!("/v1/runs/{}/history", lease.run)).await.ok();
        let started = &history["entries"][2]["detail"];
        assert_eq!(started["workerStartedAt"], "2099-01-01T00:00:00.000Z");
        assert!(started["clockSkewMs"].as_i64().unwrap() > 0, "{started}");
        let record = api.get(&format!("/v1/runs/{}/record", lease.run)).await.ok();
        let attempt = &record["attempts"][0];
        assert_eq!(attempt["claims"]["completedAt"], "1970-01-01T00:00:00.000Z");
        assert!(attempt["clockSkewMs"].as_i64().unwrap() < 0, "{attempt}");
    }
}
