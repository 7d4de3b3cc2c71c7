//! Attacks on the connection: sizes, spellings, slowness, odd bytes.

use std::time::Duration;

use coordinator::http::{SlowBodyLimits, Timeouts};
use coordinator::server::Limits;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::test_server::{both, both_with, browser, read_until_closed, run};

const KIB: usize = 1024;

/// JSON of exactly this many bytes, padded with white space after the object.
fn padded(json: serde_json::Value, bytes: usize) -> String {
    let text = json.to_string();
    format!("{text}{}", " ".repeat(bytes - text.len()))
}

#[tokio::test]
async fn bodies_hold_at_their_limit_and_not_beyond() {
    for api in both().await {
        // X20: heartbeat 128 KiB, poll and cancel 512 KiB, submission 1 MiB, completion with steps 4 MiB.
        let lease = api.leased(json!({})).await;
        let beat = format!("/v1/tasks/{}/heartbeat", lease.task);
        let done = format!("/v1/tasks/{}/completed", lease.task);
        let poll = json!({"workerId": "w1", "queues": ["none"], "max": 1});
        let success = lease.said(json!({"outcome": "SUCCEEDED"}));
        let rows = [
            (beat.as_str(), &lease.token, lease.said(json!({})), 128 * KIB),
            ("/v1/leases", &api.key, poll, 512 * KIB),
            ("/v1/runs", &api.key, run(json!({"queue": "other"})), 1024 * KIB),
            (done.as_str(), &lease.token, success, 4096 * KIB),
        ];
        for (path, bearer, body, max) in rows {
            let got = api.post_bytes(path, bearer, padded(body.clone(), max + 1)).await;
            got.problem(413, "body_too_large");
            let got = api.post_bytes(path, bearer, padded(body, max)).await;
            assert!(got.status < 300, "{path}: {got:?}");
        }
        // The largest payload fits together with all other members.
        let input = "x".repeat(256 * KIB - 2);
        assert_eq!(api.post("/v1/runs", &api.key, run(json!({"input": input}))).await.status, 201);
        let got = api.post("/v1/runs", &api.key, run(json!({"input": input + "x"}))).await;
        got.problem(400, "invalid_argument").has("field", "input");
    }
}

#[tokio::test]
async fn a_declared_length_is_refused_before_a_byte_of_it_comes() {
    for api in both().await {
        // X20: by length, and by chunks without end.
        let head = format!(
            "POST /v1/leases HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\n",
            api.key
        );
        let declared = api
            .raw(format!("{head}content-length: 99999999\r\nconnection: close\r\n\r\n").as_bytes())
            .await;
        assert!(declared.starts_with("HTTP/1.1 413"), "{declared}");
        assert!(declared.contains("\"error\":\"body_too_large\""));
        let chunk = format!("{:x}\r\n{}\r\n", 64 * KIB, " ".repeat(64 * KIB));
        let endless = format!("{head}transfer-encoding: chunked\r\n\r\n{}", chunk.repeat(12));
        let answer = api.raw(endless.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    }
}

#[tokio::test]
async fn only_plain_json_is_read() {
    for api in both().await {
        // X22, X31
        let request = || api.request("POST", "/v1/runs").bearer_auth(&api.key).body("{}");
        for kind in
            ["text/plain", "application/xml", "application/json; charset=latin1", "json", ""]
        {
            let got = api.send(request().header("content-type", kind)).await;
            got.problem(415, "unsupported_media_type");
        }
        for encoding in ["gzip", "br", "zstd", "gzip, identity"] {
            let request = request().header("content-type", "application/json");
            let got = api.send(request.header("content-encoding", encoding)).await;
            got.problem(415, "unsupported_media_type");
        }
        let good = api.request("POST", "/v1/runs").bearer_auth(&api.key);
        let good = good.header("content-type", "Application/JSON; charset=UTF-8");
        assert_eq!(api.send(good.body(run(json!({})).to_string())).await.status, 201);
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_told_so() {
    for api in both().await {
        // X31, X33: nothing hidden, no method override.
        for path in
            ["/", "/v1", "/v1/nothing", "/v1/runs/", "/v2/runs", "/debug", "/v1/tasks/x/started/y"]
        {
            api.get(path).await.problem(404, "not_found");
        }
        for (method, path) in [
            ("PUT", "/v1/runs"),
            ("DELETE", "/v1/queues"),
            ("TRACE", "/livez"),
            ("GET", "/v1/leases"),
        ] {
            let got = api.send(api.request(method, path).bearer_auth(&api.key)).await;
            got.problem(405, "method_not_allowed");
            assert!(got.headers.contains_key("allow"), "{path}");
        }
        let task = "/v1/tasks/task_00000000000000000000000000/started";
        let got = api.send(api.request("GET", task).header("x-http-method-override", "POST")).await;
        got.problem(405, "method_not_allowed").has("verdict", "REJECTED");
    }
}

#[tokio::test]
async fn one_path_has_one_spelling() {
    for api in both().await {
        // X25: escapes, dots, empty segments, NUL.
        let id = api.submit(json!({})).await;
        let spellings = [
            format!("/v1/runs/%72un_{}", &id[4..]),
            format!("/v1/runs/{id}%2fcancel"),
            format!("/v1/runs/{id}%00"),
            format!("/v1//runs/{id}"),
            format!("/v1/./runs/{id}"),
            format!("/v1/x/../runs/{id}"),
            format!("/v1/x/%2e%2e/runs/{id}"),
            format!("/v1/runs/{id};x=1"),
            format!("/v1/runs/{id}%252f"),
            format!("/v1/runs\\{id}"),
        ];
        for path in spellings {
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
                api.key
            );
            let answer = api.raw(request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
        }
        api.get(&format!("/v1/runs/{id}.")).await.problem(404, "run_not_found");
        api.get(&format!("/v1/runs/{}", id.to_lowercase())).await.problem(404, "run_not_found");
        api.get(&format!("/v1/runs/{}", id.replace("run_", "task_")))
            .await
            .problem(404, "run_not_found");
    }
}

#[tokio::test]
async fn uris_and_heads_have_a_limit() {
    for api in both().await {
        // X25: 4 KiB of URI, 64 headers, 16 KiB of head.
        let path = |bytes: usize| format!("/livez?{}", "x".repeat(bytes - "/livez?".len()));
        assert_eq!(api.get(&path(4096)).await.status, 200);
        api.get(&path(4097)).await.problem(414, "uri_too_long");
        let head = |count: usize, bytes: usize| {
            let headers: String =
                (0..count - 2).map(|n| format!("x-{n}: {}\r\n", "v".repeat(bytes))).collect();
            format!("GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n")
        };
        let status = |answer: String| answer.lines().next().unwrap_or("").to_owned();
        assert!(status(api.raw(head(64, 1).as_bytes()).await).contains("200"));
        assert!(status(api.raw(head(65, 1).as_bytes()).await).contains("431"));
        assert!(status(api.raw(head(20, 1000).as_bytes()).await).contains("431"));
    }
}

#[tokio::test]
async fn broken_and_smuggled_heads_are_refused_and_closed() {
    for api in both().await {
        // X19: nothing of it reaches a route, nothing answers 5xx, nothing is created.
        let body = r#"{"kind":"k","queue":"q"}"#;
        let auth =
            format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", api.key);
        let length = format!("content-length: {}\r\n", body.len());
        let heads = [
            "GET / HTTP/9.9\r\n\r\n".to_owned(),
            "\r\n\0\0\0\0".to_owned(),
            "GARBAGE\r\n\r\n".to_owned(),
            "GET /livez HTTP/1.1\r\nhost : x\r\n\r\n".to_owned(),
            "GET /livez HTTP/1.1\r\nhost: x\r\n folded: y\r\n\r\n".to_owned(),
            "GET /livez HTTP/1.1\r\nx: a\0b\r\n\r\n".to_owned(),
            format!(
                "POST /v1/runs HTTP/1.1\r\nhost: x\r\n{auth}content-length: 5\r\n{length}\r\n{body}"
            ),
            format!("POST /v1/runs HTTP/1.1\r\nhost: x\r\n{auth}content-length: -1\r\n\r\n{body}"),
            format!("POST /v1/runs HTTP/1.1\r\nhost: x\r\n{auth}content-length: +24\r\n\r\n{body}"),
            format!(
                "POST /v1/runs HTTP/1.1\r\nhost: x\r\n{auth}transfer-encoding: gzip\r\n\r\n{body}"
            ),
            format!(
                "POST /v1/runs HTTP/1.1\r\nhost: x\r\n{auth}transfer-encoding: chunked\r\n\r\nzz\r\n{body}"
            ),
            format!(
                "POST /v1/runs HTTP/1.1\r\nhost: x\r\n{auth}transfer-encoding: chunked, x\r\n\r\n{body}"
            ),
        ];
        // Length and chunks together: read as chunks, answered once, closed; the rest is never a request.
        let both = format!(
            "POST /v1/runs HTTP/1.1\r\nhost: x\r\n{auth}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n\
             0\r\n\r\nPOST /v1/runs HTTP/1.1\r\nhost: x\r\n{auth}{length}\r\n{body}"
        );
        for head in heads.into_iter().chain([both]) {
            let answer = api.raw(head.as_bytes()).await;
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{head:?}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count().max(1), 1, "{head:?}: {answer}");
        }
        assert_eq!(api.get("/v1/runs").await.ok()["runs"], json!([]));
    }
}

#[tokio::test]
async fn a_slow_head_is_cut_and_others_are_not_kept_waiting() {
    let limits = Limits { head_within: Duration::from_millis(100), ..Limits::default() };
    for api in both_with(limits).await {
        // X21: the head has begun and does not end.
        let mut slow = api.connect().await;
        slow.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n").await.unwrap();
        assert_eq!(api.get("/livez").await.status, 200);
        assert_eq!(read_until_closed(&mut slow).await, "");
    }
}

#[tokio::test]
async fn a_silent_connection_is_cut() {
    let limits = Limits { idle: Duration::from_millis(100), ..Limits::default() };
    for api in both_with(limits).await {
        // X21
        let mut silent = api.connect().await;
        assert_eq!(read_until_closed(&mut silent).await, "");
        let mut used = api.connect().await;
        used.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        assert!(read_until_closed(&mut used).await.ends_with("ok\n"));
    }
}

#[tokio::test]
async fn a_slow_body_is_told_and_cut() {
    let body = SlowBodyLimits { grace: Duration::from_millis(100), bytes_per_second: 1024 };
    let timeouts = Timeouts { body, ..Timeouts::default() };
    for api in both_with(Limits { timeouts, ..Limits::default() }).await {
        // X21
        let head = format!(
            "POST /v1/runs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{",
            api.key
        );
        let answer = api.raw(head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("\"error\":\"request_timeout\""));
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed() {
    let limits = Limits { connections: 2, ..Limits::default() };
    for api in both_with(limits).await {
        // X21: the third is closed without an answer; a free slot is used again.
        let first = api.connect().await;
        let second = api.connect().await;
        let mut third = api.connect().await;
        assert_eq!(read_until_closed(&mut third).await, "");
        drop((first, second));
        loop {
            let answer =
                api.raw(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
            if answer.starts_with("HTTP/1.1 200") {
                break;
            }
            assert_eq!(answer, "");
        }
    }
}

#[tokio::test]
async fn callbacks_do_not_follow_the_host_header() {
    for api in both().await {
        // X18
        api.submit(json!({})).await;
        let request = api.request("POST", "/v1/leases").bearer_auth(&api.key);
        let request =
            request.header("host", "evil.example").header("x-forwarded-host", "evil.example");
        let body = json!({"workerId": "w1", "queues": ["q"], "max": 1});
        let got = api.send(request.json(&body)).await;
        assert_eq!(got.body["leases"][0]["callbackBaseUrl"], format!("http://{}", api.address));
    }
}

#[tokio::test]
async fn http2_is_spoken_too() {
    for api in both().await {
        let client = browser().http2_prior_knowledge().build().unwrap();
        let url = format!("http://{}/v1/runs", api.address);
        let response =
            client.post(url).bearer_auth(&api.key).json(&run(json!({}))).send().await.unwrap();
        assert_eq!(response.version(), reqwest::Version::HTTP_2);
        assert_eq!(response.status(), 201);
    }
}
