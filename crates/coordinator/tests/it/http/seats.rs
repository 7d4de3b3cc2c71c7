//! Connections that hold slots and memory for nothing: slow heads, slow bodies, unread answers, pings without a key,
//! and a fleet that returns at once.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use coordinator::http::{SlowBodyLimits, Timeouts};
use coordinator::server::{Limits, SlowReaderLimits};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use super::test_server::{PATIENCE, TestServer, both, both_with, browser, read_until_closed, run};

/// A short limit, for tests that wait until it is reached.
const SHORT: Duration = Duration::from_millis(200);

/// Answers of 185 KiB each: more than the kernel buffers for a client that reads nothing.
const PIPELINED: usize = 100;

const GET_MUCH: &[u8] = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n";

fn impatient() -> Limits {
    let answer = SlowReaderLimits { grace: SHORT, bytes_per_second: 16 * 1024 };
    Limits { answer, ..Limits::default() }
}

impl TestServer {
    /// How many connections the server has closed for this reason.
    async fn turned(&self, reason: &str) -> u64 {
        let page = self.get("/metrics").await.body;
        let series = format!("tenure_connections_turned_away_total{{reason=\"{reason}\"}} ");
        let line = page.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&series));
        line.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
    }

    async fn until_turned(&self, reason: &str, count: u64) {
        let turned = async { while self.turned(reason).await < count {} };
        tokio::time::timeout(PATIENCE, turned).await.expect("they are turned away");
    }

    /// A connection that requests much and reads nothing: its kernel buffers are as small as possible.
    async fn greedy(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(self.address).await.unwrap();
        stream.write_all(&GET_MUCH.repeat(PIPELINED)).await.unwrap();
        stream
    }
}

#[tokio::test]
async fn who_reads_an_answer_a_byte_at_a_time_is_cut() {
    for api in both_with(impatient()).await {
        // F60, X21: it reads, and even sends bytes, all the time, but reads its answers too slowly.
        let mut slow = api.greedy().await;
        let reading = async {
            while slow.write_all(b"\r").await.is_ok() {
                // Part of its behaviour, not how the test waits.
                let _ = slow.read_u8().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the server ends it");
        api.until_turned("slow_reader", 1).await;
        assert_eq!(api.get("/livez").await.status, 200);
    }
}

#[tokio::test]
async fn who_keeps_a_window_shut_is_cut_while_other_streams_flow() {
    for api in both_with(impatient()).await {
        // F60, X21: HTTP/2 holds the answer back, so nothing is written, and yet the connection is not silent.
        let client = browser().http2_prior_knowledge().http2_initial_stream_window_size(65_535);
        let client = client.build().unwrap();
        let get = |path: &str| client.get(format!("http://{}{path}", api.address)).send();
        let mut shut = get("/openapi.json").await.unwrap();
        assert_eq!(get("/livez").await.unwrap().status(), 200);
        let flowing = async {
            while api.turned("slow_reader").await == 0 {
                // Over the same connection, until it is closed, perhaps during this call.
                let _ = get("/livez").await;
            }
        };
        tokio::time::timeout(PATIENCE, flowing).await.expect("it is turned away");
        let rest = async {
            while let Ok(Some(_)) = shut.chunk().await {}
            shut.chunk().await
        };
        assert!(rest.await.is_err(), "its connection is gone");
    }
}

#[tokio::test]
async fn who_reads_as_fast_as_is_asked_gets_everything() {
    for api in both().await {
        let mut stream = api.greedy().await;
        let last = b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(last).await.unwrap();
        let answers = read_until_closed(&mut stream).await;
        assert_eq!(answers.matches("HTTP/1.1 200").count(), PIPELINED + 1);
        assert!(answers.ends_with("ok\n"));
    }
}

/// A frame of HTTP/2 on stream 0.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, 0, 0, 0, 0, 0], payload].concat()
}

const SETTINGS: u8 = 4;
const PING: u8 = 6;

#[tokio::test]
async fn pings_hold_no_seat_without_a_key() {
    let limits = Limits { authenticate_within: SHORT, ..Limits::default() };
    for api in both_with(limits).await {
        // X21: it speaks HTTP/2, sends and answers pings, and never authenticates.
        let (mut from, mut to) = api.connect().await.into_split();
        let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, &[])].concat();
        to.write_all(&preface).await.unwrap();
        let pinging = tokio::spawn(async move {
            while to.write_all(&frame(PING, b"are you?")).await.is_ok() {
                // Part of its behaviour, not how the test waits.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let mut heard = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, from.read_to_end(&mut heard)).await;
        let _ = ended.expect("the server closes the connection");
        assert!(heard.windows(8).any(|bytes| bytes == b"are you?"), "it was alive");
        drop(from);
        pinging.await.unwrap();
        assert_eq!(api.turned("no_key").await, 1);
    }
}

#[tokio::test]
async fn requests_without_a_key_hold_no_seat_and_a_waiting_worker_keeps_its_own() {
    let limits = Limits { authenticate_within: SHORT, ..Limits::default() };
    for api in both_with(limits).await {
        // X21: over HTTP/1, too. The worker's poll waits several times as long as an unauthenticated connection may
        // stay.
        let mut stranger = api.connect().await;
        let asking = async {
            while stranger.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.is_ok() {
                let mut answer = [0; 512];
                if !matches!(stranger.read(&mut answer).await, Ok(1..)) {
                    return;
                }
            }
        };
        let body = json!({"workerId": "w", "queues": ["none"], "max": 1, "waitMs": 1_000});
        let poll = api.post("/v1/leases", &api.worker_key, body);
        let (asked, polled) = tokio::join!(tokio::time::timeout(PATIENCE, asking), poll);
        asked.expect("the server closes the connection");
        assert_eq!(polled.ok()["leases"], json!([]));
    }
}

/// Connections of each kind; together they are a thousand.
const SLOW_OF_EACH: usize = 333;

#[tokio::test]
async fn a_thousand_slow_clients_are_closed_and_others_are_not_kept_waiting() {
    // X21: slow heads, slow bodies and slow reads at once.
    let body = SlowBodyLimits { grace: SHORT, bytes_per_second: 1024 };
    let timeouts = Timeouts { body, ..Timeouts::default() };
    let limits = Limits { head_within: SHORT, timeouts, ..impatient() };
    let each = SLOW_OF_EACH.min(descriptors() / 8);
    // Connections end before a request reaches the engine, so one engine is enough.
    let [_, api] = both_with(limits).await;
    let lease = api.leased(json!({})).await;
    let body = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{",
        api.key
    );
    let mut slow = Vec::new();
    for _ in 0..each {
        let mut head = api.connect().await;
        head.write_all(b"GET /livez HTTP/1.1\r\nhost:").await.unwrap();
        let mut sender = api.connect().await;
        sender.write_all(body.as_bytes()).await.unwrap();
        slow.extend([head, sender, api.greedy().await]);
    }
    api.submit(json!({"queue": "other"})).await;
    api.heartbeat(&lease).await.has("verdict", "COMMITTED");
    api.succeed(&lease).await.has("verdict", "COMMITTED");
    let each = each as u64;
    api.until_turned("slow_head", each).await;
    api.until_turned("slow_reader", each).await;
    for stream in slow.iter_mut().skip(1).step_by(3) {
        let told = read_until_closed(stream).await;
        assert!(told.starts_with("HTTP/1.1 408"), "{told}");
    }
    let page = api.get("/metrics").await.body;
    let open = page.as_str().unwrap().lines().find(|it| it.starts_with("tenure_connections "));
    let open: usize = open.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(open < each as usize, "{open} seats are still taken");
}

/// Workers that return at once.
const FLEET: usize = 10_000;

/// How many of them may try at the same time: a little more than the server has slots.
const AT_ONCE: usize = 4_500;

/// The tenant's requests per second; time stands still here.
const RATE: usize = 50;

/// How many file descriptors this process may have.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX)
}

/// Polls over a separate connection, again whenever there is no slot.
async fn come_back(api: &TestServer, worker: usize) -> (u16, Value) {
    let body = json!({"workerId": format!("w{worker}"), "queues": ["q"], "max": 1}).to_string();
    let request = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        api.worker_key,
        body.len()
    );
    loop {
        let answer = api.raw(request.as_bytes()).await;
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { continue };
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        return (status, serde_json::from_str(body).unwrap());
    }
}

#[tokio::test]
async fn a_fleet_that_comes_back_at_once_is_told_to_come_back_at_different_times() {
    // F59, G5, G6: 10,000 workers over as many connections, some 4,500 of them at the same time (fewer where this
    // process may have fewer open files). Calls of a worker that holds a lease are accepted throughout.
    let [_, api] = both().await;
    let lease = api.leased(json!({})).await;
    let limits = json!({"tenantId": "default", "requestsPerSecond": RATE});
    api.post("/v1/limits", &api.admin_key, limits).await.ok();
    let at_once = AT_ONCE.min(descriptors().saturating_sub(256) / 2);
    let places = Semaphore::new(at_once);
    let fleet = join_all((0..FLEET).map(|worker| {
        let (api, places) = (&api, &places);
        async move {
            let _place = places.acquire().await.unwrap();
            come_back(api, worker).await
        }
    }));
    let working = async {
        for _ in 0..20 {
            api.heartbeat(&lease).await.has("verdict", "COMMITTED");
        }
        api.succeed(&lease).await.has("verdict", "COMMITTED");
    };
    let (answers, ()) = tokio::join!(fleet, working);
    let refused: Vec<&Value> =
        answers.iter().filter(|(status, _)| *status == 429).map(|(_, body)| body).collect();
    let served = answers.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!((served, refused.len()), (RATE, FLEET - RATE));
    let told: BTreeSet<u64> =
        refused.iter().map(|body| body["retryAfterMs"].as_u64().unwrap()).collect();
    assert!(told.len() >= 8, "they would come back together: {told:?}");
    let next = api.post("/v1/runs", &api.key, run(json!({}))).await;
    next.problem(429, "too_many_requests");
}

#[tokio::test]
async fn callers_of_a_coordinator_that_stops_are_told_to_come_back_at_different_times() {
    // F59: for every temporary refusal, not only by a rate. The pause itself is the same for all of them here.
    let (api, faults) = super::test_server::faulty(Limits::default()).await;
    faults.commit_unknown.store(true, Ordering::SeqCst);
    // The next commit stops it, whether it is this run's or the record of the key's use.
    api.post("/v1/runs", &api.key, run(json!({}))).await;
    let mut told = BTreeSet::new();
    for _ in 0..32 {
        let got = api.post("/v1/runs", &api.key, run(json!({}))).await;
        got.problem(503, "shutting_down");
        told.insert(got.body["retryAfterMs"].as_u64().unwrap());
    }
    assert!(told.len() >= 8, "{told:?}");
}
