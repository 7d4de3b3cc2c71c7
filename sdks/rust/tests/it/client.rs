//! The typed client: what it sends, what it repeats, and its error messages.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::wire::requests::{Completed, Heartbeat, Started};
use tenure::{CancelMode, Client, Code, Error, Json, NewRun, Outcome, Retries, State, Verdict};

use crate::coordinator::{API_KEY, Coordinator, Reply, SERVER_TIME, problem, quick};

pub(crate) fn accepted(n: u32) -> Value {
    json!({
        "runId": format!("run_{n}"), "taskId": format!("task_{n}"), "state": "queued",
        "createdAt": SERVER_TIME, "memberOfTheFuture": true,
    })
}

pub(crate) fn run(state: &str) -> Value {
    json!({
        "runId": "run_1", "taskId": "task_1", "tenantId": "default", "workspaceId": "default",
        "kind": "k", "queue": "q", "state": state, "attempt": 0, "failures": 0, "lost": 0,
        "maxAttempts": 3, "priority": 0, "createdAt": SERVER_TIME, "serverTime": SERVER_TIME,
        "memberOfTheFuture": {},
    })
}

fn submission() -> NewRun {
    let input = Json::from_text(r#"{"b":1.0,"a":[]}"#.to_owned()).unwrap();
    NewRun::new("k", &input).queue("q")
}

fn completed() -> Completed {
    Completed {
        spend: None,
        attempt: 1,
        worker_id: "w".to_owned(),
        outcome: Outcome::Succeeded,
        completed_at: None,
        output: None,
        error: None,
        metrics: None,
        cancelled_during_phase: None,
        partial_progress: None,
        traceparent: None,
        steps: Vec::new(),
        children: Vec::new(),
        effects: Vec::new(),
        next: false,
        log: Vec::new(),
    }
}

#[tokio::test]
async fn a_submission_without_answer_is_repeated_with_the_same_bytes_and_key() {
    // S3-51, S3-53: a generated key makes the repetition safe, although the caller gave none.
    let coordinator = Coordinator::start().await;
    coordinator.once("/runs", Reply::Broken);
    coordinator.once("/runs", problem(503, "unavailable"));
    coordinator.once("/runs", problem(429, "too_many_requests"));
    coordinator.always("/runs", Reply::Json(201, accepted(1)));
    let client = coordinator.client();
    let answer = client.submit_run(submission()).accept().await.unwrap();
    assert_eq!((answer.run_id.as_str(), answer.state), ("run_1", State::Queued));
    client.submit_run(submission()).await.unwrap();

    let calls = coordinator.to("/v1/runs");
    assert_eq!(calls.len(), 5);
    assert!(calls[..4].windows(2).all(|pair| pair[0].bytes == pair[1].bytes));
    let keys: Vec<_> = calls.iter().map(|call| call.idempotency_key.clone().unwrap()).collect();
    assert!(keys[..4].iter().all(|key| *key == keys[0]));
    assert_ne!(keys[3], keys[4]);
    // Opaque input is sent byte for byte.
    assert!(String::from_utf8_lossy(&calls[0].bytes).contains(r#"{"b":1.0,"a":[]}"#));
    assert_eq!(calls[0].bearer, format!("Bearer {API_KEY}"));
}

#[tokio::test]
async fn a_given_key_is_the_key_and_never_a_member_of_a_single_run() {
    let coordinator = Coordinator::start().await;
    coordinator.always("/runs", Reply::Json(200, accepted(1)));
    let client = coordinator.client();
    client.submit_run(submission()).idempotency_key("avatar-42").await.unwrap();
    let calls = coordinator.to("/v1/runs");
    assert_eq!(calls[0].idempotency_key.as_deref(), Some("avatar-42"));
    assert_eq!(calls[0].json().get("idempotencyKey"), None);
}

#[tokio::test]
async fn every_run_of_a_batch_gets_a_key() {
    let coordinator = Coordinator::start().await;
    let results = json!({ "results": [accepted(1), { "error": "invalid_argument", "message": "m", "field": "kind" }] });
    coordinator.once("/runs", Reply::Json(200, results));
    let batch = [submission().idempotency_key("mine"), submission()];
    let answers = coordinator.client().submit_many(batch).await.unwrap();
    let [Ok(run), Err(refusal)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(run.id(), "run_1");
    assert!(matches!(refusal, Error::Refused(_)), "{refusal:?}");
    assert_eq!((refusal.code(), refusal.message().as_str()), (Some(Code::InvalidArgument), "m"));
    assert_eq!((refusal.status(), refusal.is_retryable()), (Some(400), false));
    assert_eq!(refusal.to_string(), "invalid_argument: m (member `kind`)");
    let runs = coordinator.to("/v1/runs")[0].items();
    assert_eq!(runs[0]["idempotencyKey"], "mine");
    assert!(runs[1]["idempotencyKey"].as_str().unwrap().starts_with("auto-"));
}

#[tokio::test]
async fn repetitions_are_bounded() {
    // S3-52: and the last failure says that the call may have taken effect.
    let coordinator = Coordinator::start().await;
    coordinator.always("/runs", Reply::Broken);
    let client = coordinator.client().with_retries(quick(2));
    let error = client.submit_run(submission()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("may have taken effect"), "{error}");
    assert_eq!(coordinator.to("/v1/runs").len(), 3);
}

#[tokio::test]
async fn a_decision_is_never_a_reason_to_repeat() {
    // S3-54, S3-55, S3-12: whatever the verdict is, the call was answered.
    let table = [
        (409, "attempt_mismatch", Verdict::Cancelled),
        (410, "task_expired", Verdict::Cancelled),
        (409, "conflicting_report", Verdict::Rejected),
        (400, "invalid_argument", Verdict::Rejected),
        (401, "invalid_token", Verdict::Rejected),
        (404, "task_not_found", Verdict::Rejected),
        (422, "unknown_lease", Verdict::Rejected),
        (500, "internal", Verdict::Rejected),
    ];
    for (status, code, verdict) in table {
        let coordinator = Coordinator::start().await;
        coordinator.always("/completed", problem(status, code));
        let client = coordinator.client();
        let error = client.completed("task_1", "token", &completed()).await.unwrap_err();
        assert_eq!(error.code(), Some(code.parse().unwrap()));
        assert_eq!((error.status(), error.verdict()), (Some(status), Some(verdict)), "{code}");
        assert!(!error.is_retryable());
        assert_eq!(coordinator.calls.all().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn an_unknown_outcome_is_an_error_of_its_own() {
    let coordinator = Coordinator::start().await;
    coordinator.always("/runs", problem(503, "unknown_outcome"));
    let client = coordinator.client().with_retries(quick(1));
    let error = client.submit_run(submission()).await.unwrap_err();
    assert!(matches!(error, Error::UnknownOutcome(_)), "{error:?}");
    assert_eq!((error.code(), error.verdict()), (Some(Code::UnknownOutcome), None));
    assert!(error.to_string().contains("same idempotency key"), "{error}");
    assert_eq!(coordinator.to("/v1/runs").len(), 2);
}

#[tokio::test]
async fn without_a_server_the_error_says_how_to_start_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(&url, "key").unwrap().with_retries(Retries::NONE);
    let error = client.queues().list().await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { url: named, .. } if *named == url));
    let text = error.to_string();
    assert!(text.contains("tenure dev") && text.contains("TENURE_URL"), "{text}");
}

#[tokio::test]
async fn an_answer_of_somebody_else_is_recognised() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/queues", Reply::Json(200, json!("hello")));
    coordinator.once("/queues", Reply::Json(404, json!("nothing here")));
    let client = coordinator.client();
    for status in [200, 404] {
        let error = client.queues().list().await.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
        assert_eq!(error.status(), Some(status));
        assert!(error.to_string().contains("check that the address"), "{error}");
    }
}

#[tokio::test]
async fn addresses_keys_and_ids_that_cannot_be_sent_are_refused_here() {
    for url in ["", "localhost", "ftp://x"] {
        assert!(matches!(Client::new(url, "key"), Err(Error::Setup(_))), "{url}");
    }
    assert!(matches!(Client::new("http://x", "a\nb"), Err(Error::Setup(_))));
    let client = Client::new("http://127.0.0.1:1", "key").unwrap();
    for id in ["", ".", ".."] {
        assert!(matches!(client.run(id).status().await, Err(Error::Setup(_))), "{id}");
    }
}

#[tokio::test]
async fn waiting_repeats_long_polls_until_the_run_has_ended() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/run_1", Reply::Json(200, run("queued")));
    coordinator.once("/run_1", Reply::Json(200, run("running")));
    coordinator.always("/run_1", Reply::Json(200, run("succeeded")));
    let ended = coordinator.client().run("run_1").wait().await.unwrap();
    assert_eq!(ended.state, State::Succeeded);
    let calls = coordinator.to("/v1/runs/run_1");
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.query == "waitMs=30000"));
}

#[tokio::test]
async fn waiting_ends_with_its_time_and_tells_the_state() {
    let coordinator = Coordinator::start().await;
    coordinator.always("/run_1", Reply::Json(200, run("running")));
    let waited = coordinator.client().run("run_1").wait_timeout(Duration::ZERO).await.unwrap();
    assert_eq!(waited.state, State::Running);
    assert_eq!(coordinator.to("/v1/runs/run_1")[0].query, "waitMs=0");
}

#[tokio::test]
async fn a_record_comes_with_all_its_attempts() {
    let coordinator = Coordinator::start().await;
    let at = "2026-01-01T00:00:00Z";
    let attempt = |n: u32| {
        json!({
            "attempt": n, "leaseId": "l", "fence": n, "owner": "w", "outcome": "LOST",
            "grantedAt": at, "endedAt": at,
        })
    };
    let page = |attempts: [u32; 2], next: Option<u32>| {
        json!({
            "runId": "run_1", "state": "failed", "kind": "k", "queue": "q", "inputDigest": "i",
            "attempts": attempts.map(attempt), "nextAfter": next, "createdAt": at,
            "completedAt": at, "durationMs": 0, "digest": "d",
        })
    };
    coordinator.once("/record", Reply::Json(200, page([1, 2], Some(2))));
    coordinator.once("/record", Reply::Json(200, page([3, 4], None)));
    let record = coordinator.client().run("run_1").record().await.unwrap();
    let attempts: Vec<u32> = record.attempts.iter().map(|attempt| attempt.attempt).collect();
    assert_eq!((attempts, record.next_after), (vec![1, 2, 3, 4], None));
    let asked: Vec<String> = coordinator.to("/record").into_iter().map(|call| call.query).collect();
    assert_eq!(asked, ["", "after=2"]);
}

#[tokio::test]
async fn every_call_goes_to_its_path_with_its_query_and_body() {
    // S4-74: the client library has every call. S4-2, S4-3, S4-4, S4-6, S4-14: the calls of a task
    // carry its token, in camelCase.
    let coordinator = Coordinator::start().await;
    for path in [
        "/cancel",
        "/retry",
        "/history",
        "/record",
        "/queues",
        "/workers",
        "/version",
        "/heartbeat",
        "/completed",
    ] {
        coordinator.always(path, problem(404, "not_found"));
    }
    coordinator.always("/v1/runs", Reply::Json(200, json!({ "runs": [run("queued")] })));
    coordinator.always("/readyz", Reply::Json(503, json!({ "ready": false, "checks": [] })));
    let client = coordinator.client();

    let list = client.runs().state(State::Retry).label("a", "b c").has_label("d").limit(5);
    assert_eq!(list.include_input().include_output().await.unwrap().runs.len(), 1);
    assert!(!client.ready().await.unwrap().ready);
    let beat = Heartbeat { attempt: 1, worker_id: "w".to_owned(), ..Heartbeat::default() };
    let started = Started { attempt: 1, worker_id: "w".to_owned(), started_at: None };
    client.started("task_1", "token", &started).await.unwrap();
    client.heartbeat("task_1", "token", &beat).await.unwrap_err();
    client.completed("task_1", "token", &completed()).await.unwrap_err();
    let run = client.run("run_1");
    run.cancel_now().reason("why").await.unwrap_err();
    run.cancel().await.unwrap_err();
    run.cancel().mode(CancelMode::Immediate).await.unwrap_err();
    run.history().after(3).wait(Duration::from_millis(10)).await.unwrap_err();
    run.retry().idempotency_key("again").await.unwrap_err();
    client.run("run/1").record().await.unwrap_err();
    client.queues().list().await.unwrap_err();
    client.workers().list().after("w1").limit(2).await.unwrap_err();
    client.version().await.unwrap_err();

    let made: Vec<(String, String, String)> = coordinator
        .calls
        .all()
        .into_iter()
        .map(|call| (call.path, call.query, String::from_utf8_lossy(&call.bytes).into_owned()))
        .collect();
    let expected = [
        ("/v1/runs", "include=input%2Coutput&label=a%3Db+c&label=d&limit=5&state=retry", ""),
        ("/readyz", "", ""),
        ("/v1/tasks/task_1/started", "", r#"{"attempt":1,"workerId":"w"}"#),
        ("/v1/tasks/task_1/heartbeat", "", r#"{"attempt":1,"workerId":"w"}"#),
        ("/v1/tasks/task_1/completed", "", r#"{"attempt":1,"workerId":"w","outcome":"SUCCEEDED"}"#),
        ("/v1/runs/run_1/cancel", "", r#"{"reason":"why","force":true}"#),
        ("/v1/runs/run_1/cancel", "", "{}"),
        ("/v1/runs/run_1/cancel", "", r#"{"force":true}"#),
        ("/v1/runs/run_1/history", "after=3&waitMs=10", ""),
        ("/v1/runs/run_1/retry", "", "{}"),
        ("/v1/runs/run%2F1/record", "", ""),
        ("/v1/queues", "", ""),
        ("/v1/workers", "after=w1&limit=2", ""),
        ("/version", "", ""),
    ];
    let expected = expected.map(|(p, q, b)| (p.to_owned(), q.to_owned(), b.to_owned()));
    assert_eq!(made, expected);
    assert_eq!(coordinator.to("/heartbeat")[0].bearer, "Bearer token");
}

#[tokio::test]
async fn of_several_coordinators_the_next_is_asked_where_one_decides_nothing() {
    // S3-51: one endpoint is gone, one shuts down, one decides; whichever the client starts with.
    let [going, last] = [Coordinator::start().await, Coordinator::start().await];
    going.always("/runs", problem(503, "shutting_down"));
    last.always("/runs", Reply::Json(201, accepted(1)));
    let list = format!("http://127.0.0.1:1, {},{}", going.url(), last.url());
    for _ in 0..6 {
        let client = Client::new(&list, API_KEY).unwrap().with_retries(quick(2));
        let answer = client.submit_run(submission()).await.unwrap();
        assert_eq!(answer.id(), "run_1");
        let asked = going.to("/runs").len();
        client.submit_run(submission()).await.unwrap();
        assert_eq!(going.to("/runs").len(), asked, "who answered is asked again");
    }
    // A refusal is an answer: no other endpoint is tried.
    last.always("/runs", problem(400, "invalid_argument"));
    let client = Client::new(&format!("{},{}", last.url(), last.url()), API_KEY).unwrap();
    let before = last.to("/runs").len();
    client.submit_run(submission()).await.unwrap_err();
    assert_eq!(last.to("/runs").len(), before + 1);
}
