//! What clients of one tenant make a server hold: bodies that they do not finish, and answers that they do not read.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::test_server::{TestServer, both, browser, run};

/// As much as a tenant may hold of each, and what submissions leave to calls under leases.
const PART: usize = 128 * 1024 * 1024;
const LEFT: usize = PART / 8;

const BODY: usize = 1024 * 1024;

impl TestServer {
    async fn key_in(&self, tenant: &str, roles: &[&str]) -> String {
        let wanted = json!({"roles": roles, "tenantId": tenant, "workspaceId": "main"});
        self.post("/v1/keys", &self.admin_key, wanted).await.text("secret")
    }

    /// A submission of which the last byte is missing.
    async fn unfinished(&self, key: &str) -> TcpStream {
        let mut stream = self.connect().await;
        let head = format!(
            "POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {BODY}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server may have answered and closed before it has read everything.
        let _ = stream.write_all(" ".repeat(BODY - 1).as_bytes()).await;
        stream
    }
}

/// Whether nothing has come from the server yet.
fn is_unanswered(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0]);
    matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_of_a_tenant_take_its_part_and_no_room_of_others() {
    for api in both().await {
        let (busy, calm) = (
            api.key_in("busy", &["client", "worker"]).await,
            api.key_in("calm", &["client"]).await,
        );
        // A lease of the tenant whose submissions stand still.
        api.post("/v1/runs", &busy, run(json!({"leaseMs": 600_000}))).await;
        let poll = json!({"workerId": "w1", "queues": ["q"], "max": 1});
        let lease = api.post("/v1/leases", &busy, poll).await.leases().remove(0);
        let fitting = (PART - LEFT) / (BODY - 1);
        let mut held = Vec::new();
        for _ in 0..fitting {
            held.push(api.unfinished(&busy).await);
        }
        // The bodies are counted as they arrive, so what is beyond is refused in the end.
        let refused = loop {
            let mut late = api.unfinished(&busy).await;
            let mut first = [0; 4096];
            let got = tokio::io::AsyncReadExt::read(&mut late, &mut first);
            match tokio::time::timeout(std::time::Duration::from_secs(5), got).await {
                Ok(Ok(read)) if read > 0 => {
                    break String::from_utf8_lossy(&first[..read]).into_owned();
                }
                _ => held.push(late),
            }
        };
        assert!(
            refused.starts_with("HTTP/1.1 429") && refused.contains("too_many_requests"),
            "{refused}"
        );
        assert!(refused.to_lowercase().contains("retry-after:"), "{refused}");
        // On a busy machine one that was sent before is the one that is refused.
        let unanswered = held.iter().filter(|stream| is_unanswered(stream)).count();
        assert!(unanswered <= fitting + 1, "{unanswered} bodies are held");
        let other = api.post("/v1/runs", &calm, run(json!({}))).await;
        assert_eq!(other.status, 201, "{other:?}");
        api.succeed(&lease).await.ok();
        drop(held);
        // What is not received any more is not held.
        let mut tries = 0;
        while api.post("/v1/runs", &busy, run(json!({"input": "x".repeat(100_000)}))).await.status
            != 201
        {
            tries += 1;
            assert!(tries < 1_000, "the bodies of closed connections are still held");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_not_read_take_the_part_of_their_tenant_and_no_room_of_others() {
    for api in both().await {
        let (busy, calm) =
            (api.key_in("busy", &["client"]).await, api.key_in("calm", &["client"]).await);
        // A page of four megabytes.
        let input = "x".repeat(250_000);
        for _ in 0..16 {
            let body = run(json!({"input": input}));
            assert_eq!(api.post("/v1/runs", &busy, body).await.status, 201);
        }
        // Over HTTP/2 the server keeps what does not fit into the window of a stream.
        let client = browser().http2_prior_knowledge().http2_initial_stream_window_size(65_535);
        let client = client.build().unwrap();
        let path = api.url("/v1/runs?include=input");
        let mut unread = Vec::new();
        let refused = loop {
            let answer = client.get(&path).bearer_auth(&busy).send().await.unwrap();
            if answer.status() != 200 {
                break answer;
            }
            unread.push(answer);
            assert!(unread.len() < 64, "nobody is refused");
        };
        assert_eq!(refused.status(), 429);
        assert!(refused.headers().contains_key("retry-after"));
        assert!(refused.text().await.unwrap().contains("too_many_requests"));
        assert!((30..40).contains(&unread.len()), "{} answers are held", unread.len());
        assert_eq!(api.get_as("/v1/runs?include=input", &calm).await.status, 200);
        assert_eq!(api.post("/v1/runs", &calm, run(json!({}))).await.status, 201);
        // What was done is said, another page is not, and one that is read late is whole.
        assert_eq!(api.post("/v1/runs", &busy, run(json!({}))).await.status, 201);
        let again = api.get_as("/v1/runs?include=input", &busy).await;
        again.problem(429, "too_many_requests");
        for answer in unread {
            assert!(answer.bytes().await.unwrap().len() > 3_000_000);
        }
        api.get_as("/v1/runs", &busy).await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_answer_carries_some_megabytes_of_composed_inputs_and_the_rest_is_granted_to_the_next()
{
    const RUNS: usize = 48;
    // A quarter of a megabyte for each stage, written once and composed from what the stage before returned.
    const OUTPUT: usize = 250 * 1024;
    for api in both().await {
        let composed = json!({"key": "b", "kind": "k", "queue": "q2", "input": {"$from": "a"}});
        let plan = json!({"steps": [{"key": "a", "kind": "k", "queue": "q"}, composed]});
        for _ in 0..RUNS {
            api.post("/v1/runs", &api.key, json!({"plan": plan})).await;
            let first = api.lease("w1").await;
            let done = json!({"outcome": "SUCCEEDED", "output": "x".repeat(OUTPUT)});
            api.complete(&first, done).await.ok();
        }
        let (mut seen, mut polls) = (std::collections::BTreeSet::new(), 0);
        while seen.len() < RUNS {
            polls += 1;
            assert!(polls <= RUNS, "{} of {RUNS} after {polls} polls", seen.len());
            let poll = json!({"workerId": "w1", "queues": ["q2"], "max": RUNS, "waitMs": 10_000});
            let answer = api.post("/v1/leases", &api.key, poll).await.ok();
            let bytes = answer.to_string().len();
            assert!(bytes < 10 * 1024 * 1024, "{bytes} bytes");
            for lease in answer["leases"].as_array().unwrap() {
                assert!(seen.insert(lease["taskId"].to_string()), "granted twice: {lease}");
            }
        }
        assert!(polls > 1);
    }
}
