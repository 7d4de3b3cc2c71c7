//! Lists, histories and records that could be large: what they leave out, where a page ends, what they read.

use serde_json::{Value, json};

use super::test_server::{TestServer, both, counted};

/// The members of a run that a list leaves out by default.
fn without_bodies(mut run: Value) -> Value {
    let members = run.as_object_mut().unwrap();
    members.remove("input");
    members.remove("output");
    members.remove("serverTime");
    if let Some(error) = members.get_mut("error") {
        error.as_object_mut().unwrap().remove("stackTrace");
    }
    run
}

/// Runs in several states, with bodies and everything else that a list shows.
async fn some_runs(api: &TestServer) -> Vec<String> {
    let more = json!({
        "input": {"width": 640}, "maxAttempts": 1, "labels": {"team": "a"}, "goal": "thumbnails",
        "deadline": "2100-01-01T00:00:00Z",
    });
    let done = api.leased(more.clone()).await;
    let report = json!({"outcome": "SUCCEEDED", "output": [1, 2]});
    api.complete(&done, report).await.ok();
    let broken = api.leased(more.clone()).await;
    let error = json!({"category": "USER_CODE", "message": "it broke", "stackTrace": "at line 1"});
    api.complete(&broken, json!({"outcome": "FAILED", "error": error})).await.ok();
    let running = api.leased(more.clone()).await;
    let mut later = more;
    later["runAt"] = json!("2099-01-01T00:00:00Z");
    let waiting = api.submit(later).await;
    vec![waiting, running.run, broken.run, done.run]
}

#[tokio::test]
async fn lists_leave_bodies_out_unless_asked() {
    for api in both().await {
        let ids = some_runs(&api).await;
        let plain = api.get("/v1/runs").await.ok();
        let every = "/v1/runs?include=input,output,stackTrace";
        let whole = api.get(every).await.ok();
        for (place, id) in ids.iter().enumerate() {
            let mut run = api.run(id).await;
            let listed = &plain["runs"][place];
            assert!(listed.get("input").is_none() && listed.get("output").is_none(), "{listed}");
            // All other members equal those of the run: its limits too, whether it has ended or not.
            assert_eq!(without_bodies(listed.clone()), without_bodies(run.clone()));
            assert!(listed["error"].get("stackTrace").is_none(), "{listed}");
            run["serverTime"] = whole["runs"][place]["serverTime"].clone();
            assert_eq!(whole["runs"][place], run, "asked for, it is all there");
        }
        assert_eq!(plain["runs"][2]["error"]["message"], "it broke");
        assert_eq!(plain["runs"][3]["maxAttempts"], 1);
        let outputs = api.get("/v1/runs?include=output&state=succeeded").await.ok();
        assert_eq!(outputs["runs"][0]["output"], json!([1, 2]));
        assert!(outputs["runs"][0].get("input").is_none());
        for odd in ["error", "input,", ""] {
            let got = api.get(&format!("/v1/runs?include={odd}")).await;
            got.problem(400, "invalid_argument").has("field", "include");
        }
    }
}

#[tokio::test]
async fn a_list_reads_no_history() {
    let (api, browse) = counted().await;
    some_runs(&api).await;
    let before = browse.rows_read();
    let list = api.get("/v1/runs?limit=1000&include=input,output").await.ok();
    assert_eq!(list["runs"].as_array().unwrap().len(), 4);
    assert_eq!(browse.rows_read(), before, "what a list shows comes with its rows");
}

#[tokio::test]
async fn a_page_is_no_larger_than_a_few_megabytes() {
    const RUNS: usize = 24;
    for api in both().await {
        let input = "x".repeat(200 * 1024);
        for _ in 0..RUNS {
            api.submit(json!({"input": input})).await;
        }
        let mut path = "/v1/runs?limit=1000&include=input".to_owned();
        let mut seen = 0;
        let first = api.get(&path).await.ok();
        assert_eq!(first["stopped"], "bytes", "the page says why it is short");
        assert_eq!(
            first["searchedTo"],
            first["runs"].as_array().unwrap().last().unwrap()["createdAt"]
        );
        assert!(first.get("searched").is_none());
        loop {
            let page = api.get(&path).await.ok();
            let runs = page["runs"].as_array().unwrap().len();
            let bytes = page.to_string().len();
            assert!(bytes < 5 * 1024 * 1024, "{bytes} bytes with {runs} runs");
            seen += runs;
            let Some(cursor) = page["nextCursor"].as_str() else { break };
            path = format!("/v1/runs?limit=1000&include=input&cursor={cursor}");
        }
        assert_eq!(seen, RUNS);
        let light = api.get("/v1/runs?limit=1000").await.ok();
        assert_eq!(light["runs"].as_array().unwrap().len(), RUNS, "without bodies it is one page");
        assert!(light.get("nextCursor").is_none() && light.get("stopped").is_none());
    }
}

#[tokio::test]
async fn a_filter_that_nothing_passes_says_how_far_it_searched() {
    // One more than a page looks at (`store::row::SCAN_MAX`).
    const SEARCHED: usize = 10_000;
    const BATCH: usize = 1_000;
    for api in both().await {
        let wanted = api.submit(json!({"labels": {"team": "blue"}})).await;
        let runs = vec![json!({"kind": "resize", "queue": "images"}); BATCH];
        for _ in 0..SEARCHED / BATCH {
            api.post("/v1/runs", &api.key, json!({"runs": runs})).await.ok();
        }
        let path = "/v1/runs?label=team%3Dblue";
        let empty = api.get(path).await.ok();
        assert_eq!(empty["runs"], json!([]));
        assert_eq!((&empty["stopped"], &empty["searched"]), (&json!("scan"), &json!(SEARCHED)));
        assert!(empty["searchedTo"].is_string(), "{empty}");
        let cursor = empty["nextCursor"].as_str().unwrap();
        let rest = api.get(&format!("{path}&cursor={cursor}")).await.ok();
        assert_eq!(rest["runs"][0]["runId"], wanted, "the search goes on where it stopped");
        assert!(rest.get("stopped").is_none() && rest.get("searched").is_none(), "{rest}");
    }
}

/// A run that failed this many times and is leased again.
async fn often_failed(api: &TestServer, times: usize) -> super::test_server::Lease {
    let policy = json!({"maxAttempts": 100, "retry": {"baseMs": 0, "capMs": 0}});
    let mut lease = api.leased(policy).await;
    for _ in 0..times {
        api.fail(&lease).await.ok();
        lease = api.lease("w1").await;
    }
    lease
}

async fn history(api: &TestServer, run: &str, query: &str) -> Vec<Value> {
    let page = api.get(&format!("/v1/runs/{run}/history?{query}")).await.ok();
    page["entries"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_page_of_a_history_numbers_its_attempts_alike() {
    for api in both().await {
        let lease = often_failed(&api, 3).await;
        api.started(&lease).await.ok();
        api.cancel(&lease.run, json!({})).await.ok();
        let whole = history(&api, &lease.run, "limit=1000").await;
        assert_eq!(whole.last().unwrap()["attempt"], 4);
        for after in 0..whole.len() {
            for limit in [1, 2, 1000] {
                let query = format!("after={after}&limit={limit}");
                let page = history(&api, &lease.run, &query).await;
                let end = whole.len().min(after + limit);
                assert_eq!(page, whole[after..end], "{query}");
            }
        }
    }
}

#[tokio::test]
async fn a_page_of_a_history_costs_no_more_at_its_end() {
    // A client that follows a run with many attempts reads each entry once.
    let (api, browse) = counted().await;
    let lease = often_failed(&api, 90).await;
    let count = history(&api, &lease.run, "limit=1000").await.len();
    for after in [count - 1, count - 2, count / 2] {
        let before = browse.rows_read();
        let page = history(&api, &lease.run, &format!("after={after}&limit=1")).await;
        assert_eq!(page.len(), 1);
        let read = browse.rows_read() - before;
        assert!(read <= 1 + 64, "{read} rows for one entry behind {after} of {count}");
    }
}

#[tokio::test]
async fn a_record_shows_its_attempts_in_pages() {
    for api in both().await {
        let lease = often_failed(&api, 4).await;
        api.succeed(&lease).await.ok();
        let path = format!("/v1/runs/{}/record", lease.run);
        let whole = api.get(&path).await.ok();
        let attempts = whole["attempts"].as_array().unwrap();
        assert_eq!((attempts.len(), whole.get("nextAfter")), (5, None));
        let first = api.get(&format!("{path}?limit=2")).await.ok();
        assert_eq!(first["attempts"], json!(attempts[..2]));
        assert_eq!((&first["nextAfter"], &first["digest"]), (&json!(2), &whole["digest"]));
        let next = api.get(&format!("{path}?limit=2&after=2")).await.ok();
        assert_eq!((&next["attempts"], &next["nextAfter"]), (&json!(attempts[2..4]), &json!(4)));
        let last = api.get(&format!("{path}?limit=2&after=4")).await.ok();
        assert_eq!(last["attempts"], json!(attempts[4..]));
        assert!(last.get("nextAfter").is_none());
        api.get(&format!("{path}?limit=0")).await.problem(400, "invalid_argument");
    }
}

#[tokio::test]
async fn a_wrong_query_names_its_parameter_first() {
    for api in both().await {
        for (query, said) in [("state=done", "state: `done` is not one of"), ("foo=1", "foo: ")] {
            let refused = api.get(&format!("/v1/runs?{query}")).await;
            let message = refused.problem(400, "invalid_argument").text("message");
            assert!(message.starts_with(&format!("the query is invalid: {said}")), "{message}");
        }
    }
}
