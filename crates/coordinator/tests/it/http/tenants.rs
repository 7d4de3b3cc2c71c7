//! What one tenant does cannot be felt by another: work is counted, pages are bounded, and nothing is a way around a limit.

use serde_json::{Value, json};

use super::test_server::{TestServer, both, counted, seconds};
use super::topologies::{EXECUTION, apply};

/// Where each list takes its bound in bytes from. A new list stands here, with its reason.
const LISTS: [(&str, &str); 21] = [
    ("/v1/approvals", "objects: a page of 4 MiB"),
    ("/v1/audit", "entries have no bodies of callers"),
    ("/v1/deployments", "objects: a page of 4 MiB"),
    ("/v1/deployments/{deployment}/artifacts/{type}", "objects: a page of 4 MiB"),
    ("/v1/deployments/{deployment}/pause-states", "objects: a page of 4 MiB"),
    ("/v1/deployments/{deployment}/workorders", "objects: a page of 4 MiB"),
    ("/v1/effects", "effects without their bodies, which are objects of their own"),
    ("/v1/flow-keys", "names and counts"),
    ("/v1/keys", "keys with their queues: a page of 4 MiB"),
    ("/v1/kinds", "a scope announces 4 MiB at most, a list has no schemas, and a page of 4 MiB"),
    ("/v1/recovery/candidates", "objects: a page of 4 MiB"),
    (
        "/v1/recovery/candidates/{candidate}/history",
        "the log keeps a bounded number of small states",
    ),
    ("/v1/runs", "tasks: a page of 4 MiB"),
    ("/v1/runs/{runId}/children", "references to tasks"),
    ("/v1/runs/{runId}/history", "entries: a page of 4 MiB"),
    ("/v1/runs/{runId}/logs", "lines: a page of 256 KiB"),
    ("/v1/runs/{runId}/plan", "steps: a page of 4 MiB"),
    ("/v1/runs/{runId}/record", "attempts: a page of 4 MiB"),
    ("/v1/runs/{runId}/steps", "records: a page of 4 MiB"),
    ("/v1/schedules", "objects: a page of 4 MiB"),
    (
        "/v1/schedules/{schedule}/history",
        "the log keeps a bounded number of states, without inputs",
    ),
];

/// Lists that only those read who hold a lease, or that list processes.
const OTHER_LISTS: [&str; 2] = ["/v1/tasks/{taskId}/checkpoints", "/v1/workers"];

/// What else answers with several of something, without pages. A new one stands here, with its reason.
const WITHOUT_PAGES: [(&str, &str); 17] = [
    ("/readyz", "one entry for each check"),
    ("/v1/approvals/{approvalId}", "an approval has bounded roles, keys and votes"),
    ("/v1/audit/verify", "findings are cut at a number"),
    ("/v1/budgets", "a small entry for each budget that an administrator set"),
    ("/v1/deployments/{deployment}/claims", "cut at a number of small entries"),
    ("/v1/effects/{effectId}", "the log keeps a bounded number of tries, each with a cut reason"),
    ("/v1/endpoints", "a workspace has a hundred at most"),
    ("/v1/endpoints/{endpoint}", "an endpoint has bounded queues and types"),
    ("/v1/limits", "a small entry for each tenant whose limits an administrator set"),
    ("/v1/queues", "busy half of the time, and cut at a number of queues"),
    ("/v1/recovery/candidates/{candidate}", "a bounded number of samples"),
    ("/v1/recovery/policies", "a small entry for each policy that an administrator set"),
    ("/v1/runs/{runId}", "each list in it is cut at a number, and has a route with pages"),
    ("/v1/runs/{runId}/explain", "gates name a bounded number of things"),
    ("/v1/schedules/{schedule}/preview", "as many instants as asked for, a hundred at most"),
    ("/v1/session", "a key has bounded roles and queues, and may do what there are routes for"),
    ("/v1/set-aside", "cut at a number of small entries"),
];

/// Whether an answer has a list at its top.
fn has_list(document: &Value, operation: &Value) -> bool {
    let answer = &operation["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    let resolved = |schema: &Value| match schema["$ref"].as_str() {
        Some(name) => document.pointer(name.trim_start_matches('#')).unwrap().clone(),
        None => schema.clone(),
    };
    let is_list = |member: &Value| resolved(member)["type"].to_string().contains("array");
    let members = resolved(answer);
    members["properties"].as_object().is_some_and(|members| members.values().any(is_list))
}

#[tokio::test]
async fn what_answers_with_several_of_something_without_pages_says_what_bounds_it() {
    let [api, _] = both().await;
    let document = api.get("/openapi.json").await.ok();
    let paths = document["paths"].as_object().unwrap().iter();
    let lists = paths.filter(|(_, it)| has_list(&document, it) && !has_pages(it));
    let found: Vec<&str> = lists.map(|(path, _)| path.as_str()).collect();
    let known: Vec<&str> = WITHOUT_PAGES.iter().map(|(path, _)| *path).collect();
    assert_eq!(found, known);
}

fn has_pages(operation: &Value) -> bool {
    let parameters = operation["get"]["parameters"].as_array();
    parameters.into_iter().flatten().any(|it| it["name"] == "limit")
}

#[tokio::test]
async fn every_list_has_a_bound_in_bytes() {
    let [api, _] = both().await;
    let document = api.get("/openapi.json").await.ok();
    let paths = document["paths"].as_object().unwrap().iter();
    let lists: Vec<&str> =
        paths.filter(|(_, it)| has_pages(it)).map(|(path, _)| path.as_str()).collect();
    let known = |path: &&&str| {
        !LISTS.iter().any(|(known, _)| known == *path) && !OTHER_LISTS.contains(path)
    };
    let unknown: Vec<&&str> = lists.iter().filter(known).collect();
    assert!(unknown.is_empty(), "say what bounds the bytes of a page of {unknown:?}");
    assert_eq!(lists.len(), LISTS.len() + OTHER_LISTS.len(), "each of them exists");
}

#[tokio::test]
async fn a_page_of_keys_with_many_queues_ends_with_its_bytes_and_the_next_one_goes_on() {
    const KEYS: usize = 170;
    let [api, _] = both().await;
    let name = |n: usize| format!("{n:03}-{}", "q".repeat(120));
    let queues: Vec<String> = (0..256).map(name).collect();
    for _ in 0..KEYS {
        let wanted = json!({"roles": ["worker"], "queues": queues});
        api.post("/v1/keys", &api.admin_key, wanted).await.ok();
    }
    let (mut path, mut seen) = ("/v1/keys?limit=1000".to_owned(), 0);
    loop {
        let page = api.get_as(&path, &api.admin_key).await.ok();
        let bytes = page.to_string().len();
        assert!(bytes < 5 * 1024 * 1024, "{bytes} bytes");
        let keys = page["keys"].as_array().unwrap();
        seen += keys.iter().filter(|key| key["queues"].is_array()).count();
        let Some(after) = page["nextAfter"].as_str() else { break };
        path = format!("/v1/keys?limit=1000&after={after}");
    }
    assert_eq!(seen, KEYS);
    assert!(path.contains("after"), "it was more than one page");
}

#[tokio::test]
async fn a_page_of_large_artifacts_ends_with_its_bytes_and_the_next_one_goes_on() {
    const COUNT: usize = 12;
    const EACH: usize = 480_000;
    for api in both().await {
        apply(&api, "execution", EXECUTION).await;
        let fields = json!({"title": "t", "acceptance_criteria": ["x".repeat(EACH)],
            "objective_type": "TICKET", "importance": 1, "urgency": 1});
        for n in 0..COUNT {
            let path = "/v1/deployments/execution/artifacts/objective";
            let body = json!({"id": format!("T-{n:02}"), "fields": fields});
            assert_eq!(api.post(path, &api.key, body).await.status, 201);
        }
        let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let path = "/v1/deployments/execution/artifacts/objective?limit=1000";
            let page = api.get(&format!("{path}{cursor}")).await.ok();
            let bytes = page.to_string().len();
            assert!(bytes <= store::PAGE_BYTES_MAX + EACH + 10_000, "{bytes} bytes in one page");
            let found = page["artifacts"].as_array().unwrap();
            seen.extend(found.iter().map(|it| it["id"].as_str().unwrap().to_owned()));
            pages += 1;
            match page["cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let all: Vec<String> = (0..COUNT).map(|n| format!("T-{n:02}")).collect();
        assert_eq!(seen, all, "each one once");
        assert_eq!(pages, 2);
    }
}

/// Definitions that each refer twice to the one before.
fn doubling(levels: usize) -> Value {
    let mut definitions = json!({"a0": {"type": "object"}});
    for level in 1..=levels {
        let before = json!({"$ref": format!("#/$defs/a{}", level - 1)});
        definitions[format!("a{level}")] = json!({"allOf": [before, before]});
    }
    json!({"$defs": definitions, "$ref": format!("#/$defs/a{levels}")})
}

#[tokio::test]
async fn a_schema_whose_work_doubles_is_refused_by_plan_and_apply() {
    for api in both().await {
        let mut declared =
            serde_json::to_value(topology::read(EXECUTION).unwrap().declaration()).unwrap();
        declared["artifacts"]["objective"]["schema"] = doubling(40);
        let body = json!({"topology": declared});
        for (path, key) in [
            ("/v1/deployments/execution/plan", &api.key),
            ("/v1/deployments/execution", &api.admin_key),
        ] {
            let refused = api.post(path, key, body.clone()).await;
            refused.problem(400, "invalid_argument");
            let message = refused.text("message");
            assert!(
                message.contains("artifacts.objective.schema: this JSON Schema costs too much")
            );
        }
    }
}

#[tokio::test]
async fn fields_that_do_not_fit_are_refused_before_the_commit_and_a_large_value_says_why() {
    for api in both().await {
        let mut declared =
            serde_json::to_value(topology::read(EXECUTION).unwrap().declaration()).unwrap();
        declared["artifacts"]["objective"]["schema"] = doubling(8);
        let body = json!({"topology": declared});
        api.post("/v1/deployments/execution", &api.admin_key, body).await.ok();
        let path = "/v1/deployments/execution/artifacts/objective";
        let list: Vec<u32> = (0..60_000).collect();
        let large = json!({"id": "large", "fields": {"list": list}});
        let refused = api.post(path, &api.key, large).await;
        refused.problem(400, "invalid_argument");
        assert!(refused.text("message").contains("make the value smaller"), "{refused:?}");
        let small = json!({"id": "small", "fields": {"list": [1, 2, 3]}});
        assert_eq!(api.post(path, &api.key, small).await.status, 201);
    }
}

fn children(from: usize, count: usize) -> Value {
    let child = |n| json!({"key": format!("c#{n}"), "kind": "k", "queue": "children"});
    json!({"children": (from..from + count).map(child).collect::<Vec<Value>>()})
}

#[tokio::test]
async fn children_count_against_the_quota_of_their_tenant() {
    for api in both().await {
        let parent = api.leased(json!({"leaseMs": 600_000})).await;
        api.limit(json!({"tenantId": "default", "unfinishedRuns": 1})).await.ok();
        api.checkpoint(&parent, children(0, 60)).await.ok();
        // Nothing of a call is recorded that has no room, and what it asks for fits once others have ended.
        let more = children(60, 41);
        api.checkpoint(&parent, more.clone()).await.problem(429, "quota_reached");
        api.checkpoint(&parent, children(60, 40)).await.ok();
        api.checkpoint(&parent, children(100, 1)).await.problem(429, "quota_reached");
        let poll = json!({"workerId": "w1", "queues": ["children"], "max": 1});
        let ended = api.post("/v1/leases", &api.key, poll).await.leases().remove(0);
        api.succeed(&ended).await.ok();
        api.checkpoint(&parent, children(100, 1)).await.ok();
        api.checkpoint(&parent, children(101, 1)).await.problem(429, "quota_reached");
    }
}

#[tokio::test]
async fn steps_of_plans_count_against_the_quota_as_children_do() {
    for api in both().await {
        api.limit(json!({"tenantId": "default", "unfinishedRuns": 2})).await.ok();
        let step = |n: usize| {
            let after = if n == 0 { json!([]) } else { json!(["s0"]) };
            json!({"key": format!("s{n}"), "kind": "k", "queue": "q", "dependsOn": after})
        };
        let plan =
            |count: usize| json!({"plan": {"steps": (0..count).map(step).collect::<Vec<_>>()}});
        let submit = |count: usize| api.post("/v1/runs", &api.key, plan(count));
        submit(201).await.problem(429, "quota_reached");
        submit(150).await.ok();
        submit(51).await.problem(429, "quota_reached");
        submit(50).await.ok();
    }
}

#[tokio::test]
async fn a_checkpoint_that_starts_children_counts_against_the_rate_and_others_do_not() {
    for api in both().await {
        let parent = api.leased(json!({"leaseMs": 600_000})).await;
        api.limit(json!({"tenantId": "default", "requestsPerSecond": 1})).await.ok();
        api.checkpoint(&parent, children(0, 2)).await.ok();
        api.checkpoint(&parent, children(2, 2)).await.problem(429, "too_many_requests");
        let step = json!({"steps": [{"key": "s#1", "outcome": "SUCCEEDED"}]});
        api.checkpoint(&parent, step).await.ok();
        api.pass(seconds(1)).await;
        api.checkpoint(&parent, children(2, 2)).await.ok();
    }
}

#[tokio::test]
async fn runs_that_schedules_start_count_against_the_rate_and_wait_for_it() {
    for api in both().await {
        let schedule = |name: String| {
            let run = json!({"kind": "k", "queue": "q"});
            json!({"name": name, "everyMs": 10_000, "overlap": "allow", "run": run})
        };
        for n in 0..4 {
            let made = api.post("/v1/schedules", &api.key, schedule(format!("s{n}"))).await;
            assert_eq!(made.status, 201);
        }
        let limits = json!({"tenantId": "default", "requestsPerSecond": 1, "burst": 2});
        api.limit(limits).await.ok();
        api.pass(seconds(12)).await;
        let fired = fired(&api).await;
        assert!((1..4).contains(&fired), "{fired} of four fired within two seconds");
        // The others wait, and are made up for.
        api.limit(json!({"tenantId": "default"})).await.ok();
        api.pass(seconds(5)).await;
        assert_eq!(self::fired(&api).await, 4);
    }
}

/// How many runs schedules have submitted. Asked by an administrator, who has no rate.
async fn fired(api: &TestServer) -> u64 {
    let metrics = api.get("/metrics").await.body;
    let text = metrics.as_str().unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("tenure_schedule_instants_total{outcome=\"fired\"}"));
    let line = line.unwrap_or_else(|| panic!("no count of fired instants in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// More than a tenant's share of the readers.
const WAITING_READS: usize = 8;

#[tokio::test]
async fn reads_that_wait_for_news_take_no_more_than_their_tenants_share() {
    let (api, browse) = counted().await;
    let mut runs = Vec::new();
    for _ in 0..WAITING_READS {
        let run = json!({"kind": "k", "queue": "q"});
        runs.push(api.post("/v1/runs", &api.key, run).await.text("runId"));
    }
    browse.hold_rows(true);
    let paths: Vec<String> =
        runs.iter().map(|run| format!("/v1/runs/{run}/history?waitMs=1")).collect();
    let reading = futures_util::future::join_all(paths.iter().map(|path| api.get(path)));
    let looking = async {
        browse.until_held(3).await;
        // A whole call of another tenant: the other reads have had their chance.
        api.get_as("/v1/queues", &api.foreign_key).await.ok();
        let held = browse.held_now();
        browse.hold_rows(false);
        held
    };
    let (answers, held) = tokio::join!(reading, looking);
    assert_eq!(held, 3, "the other readers are left to other tenants");
    assert!(answers.into_iter().all(|answer| answer.status == 200), "and each of them is answered");
}
