//! A codec hides payloads wherever they are stored, and its digests let a replay recognise them whatever the nonces are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Digest;
use tenure::testing::{FlowTest, ReplayError, replay};
use tenure::{Client, Codec, Ctx, Error, Failure, Flow, Kind, Worker};

use crate::client::{accepted, run};
use crate::coordinator::{Coordinator, Reply, SERVER_TIME, envelope_with, quick};
use crate::durable::first;
use crate::log::Log;
use crate::worker::Running;

const SECRET: &str = "the launch code is 0000";

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// The codec of the vectors: bytes in reverse order, behind a nonce that differs each time if it has one.
#[derive(Default)]
struct Turned {
    key: Vec<u8>,
    nonce: Option<AtomicU8>,
}

impl Turned {
    fn with_nonce() -> Turned {
        Turned { key: b"k".to_vec(), nonce: Some(AtomicU8::new(1)) }
    }
}

impl Codec for Turned {
    fn name(&self) -> &str {
        "turned"
    }

    fn encode(&self, plain: &[u8]) -> Result<Vec<u8>, Problem> {
        let mut stored: Vec<u8> = plain.iter().rev().copied().collect();
        stored.extend(self.nonce.as_ref().map(|nonce| nonce.fetch_add(1, Ordering::Relaxed)));
        Ok(stored)
    }

    fn decode(&self, stored: &[u8]) -> Result<Vec<u8>, Problem> {
        let end = stored.len() - usize::from(self.nonce.is_some());
        Ok(stored[..end].iter().rev().copied().collect())
    }

    fn digest(&self, plain: &[u8]) -> [u8; 32] {
        let mut hmac = Hmac::<sha2::Sha256>::new_from_slice(&self.key).unwrap();
        hmac.update(plain);
        hmac.finalize().into_bytes().into()
    }
}

/// `protocol/scenarios/durable/codec.json`, which every SDK reads.
#[derive(Deserialize)]
struct Vectors {
    key: String,
    values: Vec<Vector>,
    calls: Vec<Called>,
}

#[derive(Clone, Deserialize)]
struct Vector {
    plain: Value,
    stored: Value,
    digest: String,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Called {
    kind: String,
    queue: String,
    input: Value,
    input_digest: String,
}

fn vectors() -> Vectors {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../protocol/scenarios/durable/codec.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn worker(client: Client) -> Worker {
    Worker::new(client).queue("q").retries(quick(10))
}

#[tokio::test]
async fn what_another_language_stored_is_read_and_what_is_stored_is_in_its_form() {
    let coordinator = Coordinator::start().await;
    let vectors = vectors();
    let codec = Turned { key: vectors.key.into_bytes(), nonce: None };
    let client = coordinator.client().with_codec(codec);
    for Vector { plain, stored, .. } in vectors.values {
        let mut ended = run("succeeded");
        ended["output"] = stored.clone();
        coordinator.once("/run_1", Reply::Json(200, ended));
        assert_eq!(client.run("run_1").output::<Value>().await.unwrap(), plain);

        coordinator.once("/runs", Reply::Json(201, accepted(1)));
        client.submit("k", &plain).queue("q").await.unwrap();
        let sent = coordinator.to("/v1/runs").pop().unwrap().json();
        // The order of members is the writer's own: what is sent is in the form, and reads as the value.
        let mut ended = run("succeeded");
        ended["output"] = sent["input"].clone();
        assert_eq!(sent["input"]["$codec"], stored["$codec"]);
        coordinator.once("/run_1", Reply::Json(200, ended));
        assert_eq!(client.run("run_1").output::<Value>().await.unwrap(), plain);
    }
}

#[tokio::test]
async fn inputs_are_identified_as_in_every_language() {
    let coordinator = Coordinator::start().await;
    let vectors = vectors();
    let codec = Turned { key: vectors.key.into_bytes(), nonce: None };
    let (values, calls) = (vectors.values.clone(), vectors.calls.clone());
    let worker = worker(coordinator.client().with_codec(codec));
    let running = Running::start(worker.durable("work", move |flow: Flow, _: u32| {
        let (values, calls) = (values.clone(), calls.clone());
        async move {
            for Vector { plain, .. } in &values {
                flow.step("v", async |_| Ok(1)).input(plain).await?;
            }
            for Called { kind, queue, input, .. } in &calls {
                flow.call(kind.as_str(), input).queue(queue).detach().await?;
            }
            Ok(())
        }
    }));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let mut items: Vec<Value> =
        coordinator.to("/v1/checkpoints").iter().flat_map(|call| call.items()).collect();
    items.extend(coordinator.reports());
    let digests = |member: &str| -> Vec<String> {
        let members = items.iter().filter_map(|item| item[member].as_array()).flatten();
        members.map(|it| it["inputDigest"].as_str().unwrap().to_owned()).collect()
    };
    let expected: Vec<String> = vectors.values.into_iter().map(|it| it.digest).collect();
    assert_eq!(digests("steps"), expected);
    let expected: Vec<String> = vectors.calls.into_iter().map(|it| it.input_digest).collect();
    assert_eq!(digests("children"), expected);
}

#[tokio::test]
async fn nothing_that_is_sent_shows_a_payload() {
    let coordinator = Coordinator::start().await;
    let client = coordinator.client().with_codec(Turned::with_nonce());
    let task = Kind::<String, String>::new("task").queue("q").input_schema(r#"{"title": "no"}"#);
    let echo = async |_: Ctx, text: String| Ok(text);
    let worker = worker(client.clone()).handle(task, echo).durable(
        "work",
        |flow: Flow, text: String| async move {
            let copy: String = flow.step("copy", async |_| Ok(text.clone())).await?;
            flow.call("child", &copy).queue("q").detach().await?;
            Ok(copy)
        },
    );
    let running = Running::start(worker);
    client.run("run_1").signal("go", SECRET).await.unwrap_err();
    client.submit("k", SECRET).queue("q").await.unwrap_err();
    let stored = coordinator.to("/v1/runs")[0].json()["input"].clone();
    let plan = |n, kind| {
        envelope_with(
            n,
            json!({ "kind": kind, "attempt": 1, "input": stored, "heartbeatIntervalMs": 60_000 }),
        )
    };
    coordinator.offer([plan(1, "task"), plan(2, "work")]);
    running.until_committed(2).await;
    running.end().await.unwrap();
    let reports = coordinator.reports();
    assert!(reports.iter().all(|report| report["outcome"] == "SUCCEEDED"), "{reports:?}");
    assert!(reports.iter().all(|report| report["output"]["$codec"] == "turned"), "{reports:?}");
    for call in coordinator.calls.all() {
        let body = String::from_utf8_lossy(&call.bytes).into_owned();
        assert!(!body.contains(SECRET), "{} shows {body}", call.path);
    }
    let announced = coordinator.to("/leases")[0].json()["announce"]["kinds"].clone();
    assert!(!announced.to_string().contains("inputSchema"), "{announced}");
}

#[tokio::test]
async fn a_replay_with_other_nonces_is_the_same_run() {
    // S2-90: what is recorded is not executed again, although every encoding of it differs.
    let coordinator = Coordinator::start().await;
    let executed = Arc::new(Log::new());
    let noted = Arc::clone(&executed);
    let client = coordinator.client().with_codec(Turned::with_nonce());
    let running = Running::start(worker(client).durable("work", move |flow: Flow, n: u32| {
        let noted = Arc::clone(&noted);
        async move {
            for name in ["a", "b"] {
                flow.step(name, async |_| {
                    noted.push(name.to_owned());
                    Ok(SECRET.to_owned())
                })
                .input(&n)
                .await?;
            }
            Ok(n)
        }
    }));
    coordinator.offer([first(1)]);
    running.until_committed(1).await;
    let step = coordinator.to("/v1/checkpoints")[0].items()[0]["steps"][0].clone();
    let recorded = json!({
        "number": 1, "key": "a#1", "kind": "STEP", "outcome": "SUCCEEDED", "recordedAt": SERVER_TIME,
        "result": step["result"], "inputDigest": step["inputDigest"],
    });
    let again = json!({
        "attempt": 2, "leaseId": "lease_9", "heartbeatIntervalMs": 60_000, "seed": 7, "checkpoints": [recorded],
    });
    coordinator.offer([envelope_with(1, again)]);
    running.until_committed(2).await;
    running.end().await.unwrap();
    assert_eq!(executed.all(), ["a", "b", "b"]);
    assert_eq!(coordinator.reports()[1]["outcome"], "SUCCEEDED");
}

#[tokio::test]
async fn one_without_the_codec_is_told_which_it_needs() {
    let coordinator = Coordinator::start().await;
    let stored = vectors().values.pop().unwrap().stored;
    let mut ended = run("succeeded");
    ended["output"] = stored.clone();
    coordinator.once("/run_1", Reply::Json(200, ended));
    let error = coordinator.client().run("run_1").output::<Value>().await.unwrap_err();
    assert!(matches!(&error, Error::Setup(why) if why.contains("codec `turned`")), "{error}");

    let echo = async |_: Ctx, value: Value| Ok::<_, Failure>(value);
    let running = Running::start(worker(coordinator.client()).handle("work", echo));
    coordinator.offer([envelope_with(1, json!({ "attempt": 1, "input": stored }))]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let report = &coordinator.reports()[0];
    assert_eq!(report["error"]["category"], "CONFIGURATION");
    assert!(report["error"]["message"].as_str().unwrap().contains("codec `turned`"), "{report}");
}

/// A durable function with a step that has an input.
async fn launch(flow: Flow, code: String) -> Result<String, Failure> {
    let sent: String = flow.step("send", async |_| Ok(code.clone())).input(&code).await?;
    Ok(format!("sent {sent}"))
}

/// A golden file as `tenure export` writes it, with payloads as they are stored.
fn golden(codec: &Turned, name: &str) -> std::path::PathBuf {
    let stored = |value: &Value| {
        let bytes = codec.encode(value.to_string().as_bytes()).unwrap();
        json!({ "$codec": "turned", "data": STANDARD.encode(bytes) })
    };
    let digest = codec.digest(json!(SECRET).to_string().as_bytes());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines = [
        json!({ "head": { "taskId": "task_1", "input": stored(&json!(SECRET)), "seed": 7,
            "createdAt": SERVER_TIME, "attempt": 1 } }),
        json!({ "checkpoint": { "number": 1, "key": "send#1", "kind": "STEP", "outcome": "SUCCEEDED",
            "result": stored(&json!("it")), "inputDigest": digest, "recordedAt": SERVER_TIME } }),
        json!({ "end": { "state": "succeeded", "output": stored(&json!("sent it")) } }),
    ];
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let seal: String =
        sha2::Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
    let path = std::env::temp_dir().join(format!("tenure-{name}-{}.jsonl", std::process::id()));
    std::fs::write(&path, format!("{body}{}\n", json!({ "seal": { "sha256": seal } }))).unwrap();
    path
}

#[test]
fn a_golden_file_of_stored_payloads_replays_with_their_codec() {
    let path = golden(&Turned::with_nonce(), "replay");
    let function = FlowTest::new(launch, &String::new());
    replay(&function, &path, Turned::with_nonce()).unwrap();

    // The digest of the input is that of another key: the code looks as if it had changed.
    let other_key = Turned { key: b"other".to_vec(), ..Turned::with_nonce() };
    let stopped = replay(&function, &path, other_key).unwrap_err();
    assert!(matches!(&stopped, ReplayError::Stopped { .. }), "{stopped}");

    struct Renamed(Turned);
    impl Codec for Renamed {
        fn name(&self) -> &str {
            "renamed"
        }
        fn encode(&self, plain: &[u8]) -> Result<Vec<u8>, Problem> {
            self.0.encode(plain)
        }
        fn decode(&self, stored: &[u8]) -> Result<Vec<u8>, Problem> {
            self.0.decode(stored)
        }
        fn digest(&self, plain: &[u8]) -> [u8; 32] {
            self.0.digest(plain)
        }
    }
    let unread = replay(&function, &path, Renamed(Turned::with_nonce())).unwrap_err();
    assert!(unread.to_string().contains("the input was written by the codec `turned`"), "{unread}");
    std::fs::remove_file(path).unwrap();
}
