//! Schedules over HTTP: what fires when, what becomes of an instant that cannot, and who may say so.

use serde_json::{Value, json};
use store::Clock as _;

use super::test_server::{TestServer, both, merged, seconds};

/// A schedule every ten seconds, of runs in queue `q`.
fn every_ten(name: &str, more: Value) -> Value {
    let run = json!({"kind": "k", "queue": "q", "input": {"n": 1}, "leaseMs": 60_000});
    merged(json!({"name": name, "everyMs": 10_000, "run": run}), more)
}

async fn create(api: &TestServer, body: Value) -> Value {
    let created = api.post("/v1/schedules", &api.key, body).await;
    assert_eq!(created.status, 201, "{:?}", created.body);
    created.body
}

async fn show(api: &TestServer, name: &str) -> Value {
    api.get(&format!("/v1/schedules/{name}")).await.ok()
}

async fn say(api: &TestServer, name: &str, verb: &str, body: Value) -> Value {
    let said = api.post(&format!("/v1/schedules/{name}/{verb}"), &api.key, body).await;
    assert!(said.status < 300, "{verb}: {:?}", said.body);
    said.body
}

/// The runs that a schedule submitted, the newest first.
async fn runs(api: &TestServer, schedule: &Value) -> Vec<Value> {
    let id = schedule["scheduleId"].as_str().unwrap();
    let found = api.get(&format!("/v1/runs?label=tenure.schedule%3D{id}")).await.ok();
    found["runs"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_instant_is_one_run_until_the_schedule_is_deleted() {
    for api in both().await {
        let created = create(&api, every_ten("s", json!({"overlap": "allow"}))).await;
        assert_eq!((&created["state"], &created["fired"]), (&json!("active"), &json!(0)));
        api.pass(seconds(9)).await;
        assert_eq!(runs(&api, &created).await.len(), 0);
        api.pass(seconds(22)).await;
        let found = runs(&api, &created).await;
        assert_eq!(found.len(), 3, "{found:?}");
        let schedule = show(&api, "s").await;
        assert_eq!((&schedule["fired"], &schedule["run"]["kind"]), (&json!(3), &json!("k")));
        assert_eq!(schedule["last"]["runId"], found[0]["runId"]);
        let run = api.run(found[0]["runId"].as_str().unwrap()).await;
        let key = run["idempotencyKey"].as_str().unwrap();
        assert!(key.starts_with("sched/sched_"), "{key}");
        // Its history has the creation and every firing, the newest first and a page at a time.
        let page = api.get("/v1/schedules/s/history?limit=3").await.ok();
        let fired: Vec<&Value> =
            page["entries"].as_array().unwrap().iter().map(|it| &it["schedule"]["fired"]).collect();
        assert_eq!(
            (fired, &page["nextBefore"]),
            (vec![&json!(3), &json!(2), &json!(1)], &json!(2))
        );
        let last = api.get("/v1/schedules/s/history?before=2").await.ok();
        assert_eq!((last["entries"].as_array().unwrap().len(), last.get("nextBefore")), (1, None));
        assert!(last["entries"][0]["keyId"].is_string(), "who created it: {last}");
        let gone = say(&api, "s", "delete", json!({})).await;
        assert_eq!(gone["state"], "deleted");
        api.pass(seconds(30)).await;
        assert_eq!(runs(&api, &created).await.len(), 3);
        api.get("/v1/schedules/s").await.problem(404, "schedule_not_found");
        // Its name is free again, and its own instants are not those of the old one.
        let again = create(&api, every_ten("s", json!({}))).await;
        assert_ne!(again["scheduleId"], created["scheduleId"]);
        let listed = api.get("/v1/schedules").await.ok();
        assert_eq!(listed["schedules"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn an_instant_is_skipped_while_the_run_before_has_not_ended() {
    for api in both().await {
        let schedule = create(&api, every_ten("s", json!({}))).await;
        api.pass(seconds(31)).await;
        assert_eq!(runs(&api, &schedule).await.len(), 1);
        assert_eq!(show(&api, "s").await["skipped"], 2);
        let lease = api.lease("w1").await;
        api.succeed(&lease).await.ok();
        api.pass(seconds(10)).await;
        assert_eq!(runs(&api, &schedule).await.len(), 2);
    }
}

#[tokio::test]
async fn or_it_waits_for_the_end_of_that_run() {
    for api in both().await {
        let schedule = create(&api, every_ten("s", json!({"overlap": "queue"}))).await;
        api.pass(seconds(31)).await;
        assert_eq!(
            (runs(&api, &schedule).await.len(), &show(&api, "s").await["waiting"]),
            (1, &json!(2))
        );
        for fired in 2..=3 {
            let lease = api.lease("w1").await;
            api.succeed(&lease).await.ok();
            api.pass(seconds(9)).await;
            assert!(runs(&api, &schedule).await.len() >= fired);
        }
    }
}

#[tokio::test]
async fn or_that_run_is_cancelled() {
    for api in both().await {
        let schedule = create(&api, every_ten("s", json!({"overlap": "cancelOlder"}))).await;
        api.pass(seconds(21)).await;
        let states: Vec<Value> =
            runs(&api, &schedule).await.iter().map(|run| run["state"].clone()).collect();
        assert_eq!(states, ["queued", "cancelled"]);
    }
}

#[tokio::test]
async fn of_instants_in_an_outage_the_latest_fires_or_all_of_them() {
    for api in both().await {
        let one = create(&api, every_ten("one", json!({}))).await;
        let all = every_ten("all", json!({"overlap": "allow", "catchUp": "all"}));
        let all = create(&api, all).await;
        let none = create(&api, every_ten("none", json!({"catchUpWindowMs": 10_000}))).await;
        // The clock jumps: for that long, nothing ran.
        api.clock.advance(seconds(65));
        api.pass(seconds(1)).await;
        assert_eq!(runs(&api, &one).await.len(), 1);
        assert_eq!(runs(&api, &all).await.len(), 6);
        assert_eq!(show(&api, "one").await["missed"], 5);
        assert_eq!(
            (runs(&api, &none).await.len(), &show(&api, "none").await["missed"]),
            (1, &json!(5))
        );
    }
}

#[tokio::test]
async fn an_instant_waits_for_room_in_the_quota_and_a_paused_queue_holds_its_run() {
    for api in both().await {
        let limits = json!({"tenantId": "default", "unfinishedRuns": 1});
        api.post("/v1/limits", &api.admin_key, limits).await.ok();
        let held = api.submit(json!({})).await;
        let schedule = create(&api, every_ten("s", json!({}))).await;
        api.pass(seconds(11)).await;
        assert_eq!(
            (runs(&api, &schedule).await.len(), &show(&api, "s").await["waiting"]),
            (0, &json!(1))
        );
        let full = api.post("/v1/schedules/s/trigger", &api.key, json!({})).await;
        full.problem(429, "quota_reached");
        api.post("/v1/queues/q/pause", &api.key, json!({})).await.ok();
        api.cancel(&held, json!({})).await;
        api.pass(seconds(3)).await;
        let found = runs(&api, &schedule).await;
        assert_eq!((found.len(), &found[0]["state"]), (1, &json!("queued")));
        assert!(api.poll("w1").await.is_empty(), "the queue is paused");
    }
}

#[tokio::test]
async fn it_is_paused_resumed_triggered_backfilled_and_changed() {
    for api in both().await {
        let schedule = create(&api, every_ten("s", json!({"paused": true}))).await;
        let begun = api.clock.wall();
        api.pass(seconds(31)).await;
        assert_eq!(runs(&api, &schedule).await.len(), 0);
        let triggered = say(&api, "s", "trigger", json!({})).await;
        let lease = api.lease("w1").await;
        assert_eq!(triggered["runId"], lease.run.as_str());
        let history = api.get("/v1/schedules/s/history?limit=1").await.ok();
        let (newest, by) = (&history["entries"][0], api.key.split('_').nth(1).unwrap());
        assert_eq!((&newest["keyId"], &newest["schedule"]["fired"]), (&json!(by), &json!(1)));
        api.succeed(&lease).await.ok();
        let at = |count| wire::Time::from_ms(begun.plus(seconds(count)).millis());
        let range = json!({"from": at(0), "to": at(20)});
        assert_eq!(say(&api, "s", "backfill", range).await["waiting"], 2);
        api.pass(seconds(2)).await;
        assert_eq!(runs(&api, &schedule).await.len(), 2, "one after the other");
        let lease = api.lease("w1").await;
        api.succeed(&lease).await.ok();
        api.pass(seconds(3)).await;
        let lease = api.lease("w1").await;
        api.succeed(&lease).await.ok();
        let future = json!({"from": at(0), "to": at(1_000)});
        let refused = api.post("/v1/schedules/s/backfill", &api.key, future).await;
        refused.problem(400, "invalid_argument").has("field", "to");
        let changed = say(&api, "s", "update", json!({"cron": "@daily"})).await;
        assert_eq!((&changed["cron"], &changed["timeZone"]), (&json!("@daily"), &json!("UTC")));
        assert_eq!(changed.get("everyMs"), None);
        let resumed = say(&api, "s", "resume", json!({})).await;
        assert!(resumed["nextAt"].as_str().unwrap().ends_with("T00:00:00.000Z"), "{resumed}");
        let preview = api.get("/v1/schedules/s/preview?count=10").await.ok();
        assert_eq!(preview["instants"].as_array().unwrap().len(), 10);
        assert_eq!(preview["instants"][0], resumed["nextAt"]);
    }
}

#[tokio::test]
async fn a_template_may_have_a_plan_a_budget_and_a_time_to_live() {
    for api in both().await {
        let steps = json!([{"key": "a", "kind": "k", "queue": "q"}, {"key": "b", "kind": "k", "queue": "q"}]);
        let body = json!({"name": "plan", "everyMs": 10_000, "run": {"plan": {"steps": steps}}});
        let planned = create(&api, body).await;
        let run = json!({"kind": "k", "queue": "q", "budget": {"tokens": 5}, "ttlMs": 4_000});
        let body = json!({"name": "budget", "everyMs": 10_000, "run": run});
        let limited = create(&api, body).await;
        api.pass(seconds(15)).await;
        assert_eq!(runs(&api, &planned).await.len(), 1);
        let run = runs(&api, &limited).await[0]["runId"].as_str().unwrap().to_owned();
        let run = api.run(&run).await;
        assert_eq!(run["error"]["reason"], "TTL_EXPIRED");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_schedule_is_said_by_name() {
    for api in both().await {
        create(&api, every_ten("s", json!({}))).await;
        let twice = api.post("/v1/schedules", &api.key, every_ten("s", json!({}))).await;
        twice.problem(409, "schedule_exists");
        let wrong = [
            (json!({"cron": "@daily"}), "cron"),
            (json!({"everyMs": null, "cron": "61 * * * *"}), "cron"),
            (json!({"everyMs": null, "cron": "@daily", "timeZone": "Mars/Base"}), "timeZone"),
            (json!({"catchUp": "all"}), "catchUp"),
            (json!({"everyMs": 10}), "everyMs"),
            (json!({"name": "sched_1"}), "name"),
            (json!({"run": {"kind": "k"}}), "run.queue"),
            (
                json!({"run": {"kind": "k", "queue": "q", "idempotencyKey": "x"}}),
                "run.idempotencyKey",
            ),
        ];
        for (more, field) in wrong {
            let refused = api.post("/v1/schedules", &api.key, every_ten("t", more)).await;
            refused.problem(400, "invalid_argument").has("field", field);
        }
        // A client cannot take the key of an instant.
        let run = json!({"kind": "k", "queue": "q", "idempotencyKey": "sched/x/1"});
        let taken = api.post("/v1/runs", &api.key, json!({"runs": [run]})).await;
        assert_eq!(taken.ok()["results"][0]["error"], "invalid_argument");
        for verb in ["pause", "resume", "trigger", "delete"] {
            let path = format!("/v1/schedules/none/{verb}");
            api.post(&path, &api.key, json!({})).await.problem(404, "schedule_not_found");
            // Another tenant sees nothing of it.
            let path = format!("/v1/schedules/s/{verb}");
            api.post(&path, &api.foreign_key, json!({})).await.problem(404, "schedule_not_found");
        }
    }
}
