//! Why a run is not running, or has not ended: what holds it, over HTTP.

use coordinator::server::Limits;
use serde_json::{Value, json};
use store::FailureKind;
use verdict::Span;

use super::test_server::{TestServer, both, faulty, run, seconds};

async fn gates(api: &TestServer, run: &str) -> Vec<Value> {
    let answer = api.get(&format!("/v1/runs/{run}/explain")).await.ok();
    assert_eq!(answer["runId"], run);
    answer["gates"].as_array().unwrap().clone()
}

fn names(gates: &[Value]) -> Vec<&str> {
    gates.iter().map(|gate| gate["gate"].as_str().unwrap()).collect()
}

async fn metrics(api: &TestServer) -> String {
    api.get("/metrics").await.body.as_str().unwrap().to_owned()
}

#[track_caller]
fn says(gate: &Value, words: &[&str]) {
    let now = gate["now"].as_str().unwrap();
    for word in words {
        assert!(now.contains(word), "{word} in {gate}");
    }
}

#[tokio::test]
async fn what_waits_for_its_time_says_when() {
    for api in both().await {
        let now = api.get("/v1/runs/run_00000000000000000000000000").await.text("serverTime");
        let at: wire::Time = now.parse().unwrap();
        let after = |ms: i64| wire::Time::from_ms(at.as_ms() + ms).to_string();
        let due = after(60_000);
        let id = api.submit(json!({"runAt": due, "deadline": after(90_000)})).await;
        let found = gates(&api, &id).await;
        assert_eq!(names(&found), ["run_at", "deadline"]);
        assert_eq!(found[0]["at"], due);
        assert!(found[1]["change"].as_str().unwrap().contains("DEADLINE_EXCEEDED"), "{found:?}");
    }
}

#[tokio::test]
async fn what_nobody_asks_for_says_so_even_if_others_poll_the_queue() {
    for api in both().await {
        let other = json!({"workerId": "w9", "queues": ["q"], "kinds": ["other"], "max": 1, "waitMs": 20000});
        let elsewhere = json!({"workerId": "w8", "queues": ["p"], "max": 1, "waitMs": 20000});
        let looks = async {
            while !metrics(&api).await.contains("tenure_polls_waiting 2") {
                tokio::task::yield_now().await;
            }
            let id = api.submit(json!({})).await;
            let found = gates(&api, &id).await;
            // Both polls are answered and the test ends.
            api.submit(json!({"kind": "other"})).await;
            api.submit(json!({"queue": "p"})).await;
            found
        };
        let (found, kind, queue) = tokio::join!(
            looks,
            api.post("/v1/leases", &api.key, other),
            api.post("/v1/leases", &api.key, elsewhere),
        );
        assert_eq!((kind.leases().len(), queue.leases().len()), (1, 1));
        assert_eq!(names(&found), ["no_worker"]);
        says(&found[0], &["resize", "`q`", "running on that queue: 0"]);
        assert!(found[0].get("at").is_none(), "time alone changes nothing");
    }
}

#[tokio::test]
async fn what_stands_behind_others_counts_them() {
    for api in both().await {
        api.submit(json!({"priority": 5, "kind": "other"})).await;
        api.submit(json!({})).await;
        let third = api.submit(json!({})).await;
        api.submit(json!({})).await;
        api.submit(json!({"priority": -1})).await;
        api.submit(json!({"queue": "another", "priority": 9})).await;
        api.post("/v1/runs", &api.foreign_key, run(json!({"priority": 9}))).await.ok();
        let found = gates(&api, &third).await;
        // more urgent first, then older; other queues and other tenants do not count.
        assert_eq!(names(&found), ["no_worker", "ahead"]);
        says(&found[1], &["ahead of it: 1", "of other kinds: 1"]);
    }
}

#[tokio::test]
async fn tasks_of_other_kinds_are_not_ahead_of_a_task_that_no_worker_shares_with_them() {
    for api in both().await {
        api.submit(json!({"kind": "other"})).await;
        let id = api.submit(json!({})).await;
        assert_eq!(names(&gates(&api, &id).await), ["no_worker"]);
    }
}

#[tokio::test]
async fn a_run_that_waits_for_people_says_what_to_type_and_when_time_decides() {
    for api in both().await {
        let ask = |terms: Value| {
            let item = json!({"key": "pay#1", "approval": terms});
            json!({"wait": {"key": "w#1", "mode": "all", "for": [item]}})
        };
        let terms = json!({"quorum": 2, "expiresInMs": 8000, "default": "REJECTED"});
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, ask(terms)).await.has("state", "waiting");
        let found = gates(&api, &lease.run).await;
        assert_eq!(names(&found), ["waiting"]);
        says(&found[0], &["waits for the approval appr_", "0 of 2", "counts as rejected"]);
        let change = found[0]["change"].as_str().unwrap();
        assert!(change.starts_with("`tenure approvals show appr_"), "{change}");
        let run = api.run(&lease.run).await;
        let item = &run["durable"]["waiting"]["wait"]["for"][0];
        assert_eq!(found[0]["at"], item["expiresAt"], "the expiry, not the limit of the wait");
        assert!(item["expiresAt"].is_string(), "{run}");
        api.pass(seconds(9)).await;
        assert_eq!(names(&gates(&api, &lease.run).await)[0], "no_worker", "it goes on by then");
        let again = api.lease("w1").await;
        api.succeed(&again).await.ok();
        // Without an expiry only the limit of the wait ends it.
        let lease = api.leased(json!({})).await;
        api.checkpoint(&lease, ask(json!({}))).await.has("state", "waiting");
        let found = gates(&api, &lease.run).await;
        assert!(found[0]["change"].as_str().unwrap().contains("WAIT_TIMEOUT"), "{found:?}");
    }
}

#[tokio::test]
async fn a_run_that_waits_for_a_signal_says_how_to_send_it() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let go = json!({"key": "go#1", "signal": "go"});
        let wait = json!({"wait": {"key": "w#1", "mode": "any", "for": [go]}});
        api.checkpoint(&lease, wait).await.has("state", "waiting");
        let found = gates(&api, &lease.run).await;
        says(&found[0], &["waits for the signal `go`"]);
        let command = format!("tenure runs signal {} go", lease.run);
        assert!(found[0]["change"].as_str().unwrap().contains(&command), "{found:?}");
    }
}

#[tokio::test]
async fn a_grant_is_unheard_until_its_worker_speaks_and_leased_after() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        let found = gates(&api, &lease.run).await;
        assert_eq!(names(&found), ["unheard"]);
        says(&found[0], &["w1", "0 of at most 10"]);
        let progress = lease.said(json!({"progressPct": 40, "message": "half way"}));
        api.call(&lease, "heartbeat", progress).await.ok();
        let found = gates(&api, &lease.run).await;
        // S2-101: a running attempt always has a bound.
        assert_eq!(names(&found), ["leased", "stall"]);
        says(&found[0], &["attempt 1 is held by w1", "40 %", "half way"]);
        assert_eq!(found[0]["at"], api.run(&lease.run).await["lease"]["expiresAt"]);
    }
}

#[tokio::test]
async fn a_failed_attempt_waits_for_its_backoff() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.fail(&lease).await.ok();
        let found = gates(&api, &lease.run).await;
        assert_eq!(names(&found), ["backoff"]);
        says(&found[0], &["failed: 1 of at most 3"]);
        assert_eq!(found[0]["at"], api.run(&lease.run).await["nextAttemptAt"]);
    }
}

#[tokio::test]
async fn a_cancel_is_untold_then_told() {
    for api in both().await {
        let lease = api.leased(json!({"leaseMs": 60000, "cancelGraceMs": 5000})).await;
        api.started(&lease).await.ok();
        api.cancel(&lease.run, json!({})).await.ok();
        assert_eq!(names(&gates(&api, &lease.run).await), ["cancel_untold", "leased"]);
        api.pass(seconds(1)).await;
        api.heartbeat(&lease).await.has("shouldCancel", true);
        let found = gates(&api, &lease.run).await;
        assert_eq!(names(&found), ["cancel_told", "leased"]);
        assert!(found[0]["at"].as_str() < found[1]["at"].as_str(), "the grace ends first");
    }
}

#[tokio::test]
async fn an_attempt_with_a_limit_says_when_it_is_over() {
    for api in both().await {
        let lease = api.leased(json!({"resources": {"timeoutMs": 5000}})).await;
        let found = gates(&api, &lease.run).await;
        assert_eq!(names(&found), ["unheard", "attempt_limit"]);
        assert!(found[1]["at"].is_string(), "{found:?}");
    }
}

#[tokio::test]
async fn an_ended_run_says_how_and_nothing_would_change_it() {
    for api in both().await {
        let lease = api.leased(json!({})).await;
        api.succeed(&lease).await.ok();
        let found = gates(&api, &lease.run).await;
        assert_eq!(names(&found), ["ended"]);
        says(&found[0], &["succeeded with attempt 1"]);
        assert!(found[0].get("change").is_none() && found[0].get("at").is_none());
        let id = api.submit(json!({})).await;
        api.cancel(&id, json!({})).await.ok();
        says(&gates(&api, &id).await[0], &["cancelled (CANCEL_REQUESTED) with attempt 0"]);
        let lease = api.leased(json!({"maxAttempts": 1})).await;
        api.fail(&lease).await.has("state", "failed");
        says(&gates(&api, &lease.run).await[0], &[&format!("`tenure runs retry {}`", lease.run)]);
        let lease = api.leased(json!({"budget": {"steps": 1}})).await;
        let step = |key: &str| json!({"key": key, "outcome": "SUCCEEDED"});
        let steps = json!({"steps": [step("a#1"), step("b#1")]});
        api.checkpoint(&lease, steps).await.has("state", "halted");
        let way = format!("`tenure runs continue {} --budget", lease.run);
        says(&gates(&api, &lease.run).await[0], &["halted", &way]);
    }
}

#[tokio::test]
async fn what_only_the_store_holds_is_ready() {
    // A worker waits and no task is ahead, but the commit that would grant it fails.
    let (api, faults) = faulty(Limits::default()).await;
    let now = api.get("/v1/runs/run_00000000000000000000000000").await.text("serverTime");
    let at: wire::Time = now.parse().unwrap();
    let due = wire::Time::from_ms(at.as_ms() + 5_000).to_string();
    let id = api.submit(json!({"runAt": due})).await;
    let poll = json!({"workerId": "w", "queues": ["q"], "max": 1, "waitMs": 30000});
    let looks = async {
        while !metrics(&api).await.contains("tenure_polls_waiting 1") {
            tokio::task::yield_now().await;
        }
        faults.fail_every_write(FailureKind::Unavailable);
        api.clock.advance(Span::from_secs(6));
        let found = gates(&api, &id).await;
        faults.heal();
        // Another submission wakes the carrier, and the poll is answered.
        api.submit(json!({"queue": "other"})).await;
        found
    };
    let (found, granted) = tokio::join!(looks, api.post("/v1/leases", &api.key, poll));
    assert_eq!(names(&found), ["ready"]);
    says(&found[0], &["workers waiting for it: 1", "no task of its kind ahead of it"]);
    assert_eq!(granted.leases()[0].run, id);
}

#[tokio::test]
async fn a_tenant_whose_rate_is_spent_says_that_its_workers_cannot_poll() {
    for api in both().await {
        let id = api.submit(json!({})).await;
        let limit = json!({"tenantId": "default", "requestsPerSecond": 1, "burst": 20});
        api.post("/v1/limits", &api.admin_key, limit).await.ok();
        assert_eq!(names(&gates(&api, &id).await), ["no_worker"], "there is plenty");
        for _ in 0..16 {
            api.get("/v1/runs?limit=1").await.ok();
        }
        // This call is the eighteenth: a tenth is left.
        let found = gates(&api, &id).await;
        assert_eq!(names(&found), ["tenant_rate", "no_worker"]);
        says(&found[0], &["`default`", "1 requests per second, 20 at once", "has 2 left"]);
        assert!(found[0].get("at").is_none(), "it does not hold yet: {found:?}");
        api.get("/v1/runs?limit=1").await.ok();
        let found = gates(&api, &id).await;
        says(&found[0], &["has 0 left", "polls of its workers are refused"]);
        assert!(found[0]["at"].is_string(), "{found:?}");
        // A refused caller learns when to retry, and an administrator sees it.
        api.get(&format!("/v1/runs/{id}/explain")).await.problem(429, "too_many_requests");
        let limits = api.get_as("/v1/limits", &api.admin_key).await.ok();
        assert_eq!(limits["limits"][0]["requestsLeftNow"], 0, "{limits}");
        assert!(limits["limits"][0]["limitedAt"].is_string(), "{limits}");
    }
}

#[tokio::test]
async fn a_tenant_with_as_many_runs_as_it_may_have_says_that_new_ones_are_refused() {
    for api in both().await {
        let limit = json!({"tenantId": "default", "unfinishedRuns": 10});
        api.post("/v1/limits", &api.admin_key, limit).await.ok();
        let lease = api.leased(json!({})).await;
        for _ in 0..7 {
            api.submit(json!({})).await;
        }
        assert_eq!(names(&gates(&api, &lease.run).await), ["unheard"], "there is plenty");
        api.submit(json!({})).await;
        let found = gates(&api, &lease.run).await;
        assert_eq!(names(&found), ["unheard", "tenant_runs"]);
        says(&found[1], &["9 of 10 unfinished runs", "soon"]);
        api.submit(json!({})).await;
        says(
            &gates(&api, &lease.run).await[1],
            &["10 of 10 unfinished runs: new runs are refused"],
        );
        api.succeed(&lease).await.ok();
        assert_eq!(names(&gates(&api, &lease.run).await), ["ended"], "an end waits for nothing");
    }
}
