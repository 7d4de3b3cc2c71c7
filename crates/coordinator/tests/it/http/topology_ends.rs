//! Events that end otherwise than by their role, and gates that can never be carried out: each leaves explicit state, once, with
//! what to do next, however it came about, even if the coordinator dies right after it (A0-11).

use std::path::Path;
use std::time::Duration;

use coordinator::admit::{NewKey, Role};
use coordinator::{Coordinator, Options, SeededEntropy, ServeOptions, Server, Submission, serve};
use serde_json::{Value, json};
use store::{PostgresStore, Spec, TaskKey, postgres};
use storetest::Database;
use verdict::request::{Cancel, CancelMode};
use verdict::topology::event_queue;
use verdict::{Json, Scope, TaskId};

use super::test_server::{TestServer, both, browser, seconds};
use super::topologies::{BAKERY, apply, artifact, executed, executor, orders, pauses, until};
use crate::harness::{PATIENCE, submission};

/// How often the task of an event may be lost.
const TRIES: usize = 100;

async fn create(api: &TestServer, id: &str) {
    let made =
        api.post("/v1/deployments/bakery/artifacts/dough", &api.key, json!({"id": id})).await;
    assert_eq!(made.status, 201, "{made:?}");
}

async fn rise(api: &TestServer, id: &str) {
    create(api, id).await;
    let path = format!("/v1/deployments/bakery/artifacts/dough/{id}/transition");
    api.post(&path, &api.key, json!({"to": "risen"})).await.ok();
}

/// The run of the newest event of a kind.
async fn event_run(api: &TestServer, kind: &str) -> String {
    let events = api.get(&format!("/v1/runs?kind={kind}")).await.ok();
    events["runs"][0]["runId"].as_str().unwrap().to_owned()
}

/// The pause states for this reason, once there are so many; each tells what to do.
async fn paused(api: &TestServer, reason: &str, count: usize) -> Vec<Value> {
    let of_reason = |found: &Value| -> Vec<Value> {
        let all = found["pauseStates"].as_array().unwrap().iter();
        all.filter(|it| it["reason"] == reason).cloned().collect()
    };
    let path = "bakery/pause-states";
    let found = until(api, path, |found| of_reason(found).len() >= count).await;
    let found = of_reason(&found);
    assert_eq!(found.len(), count, "{found:?}");
    for pause in &found {
        assert!((1..=3).contains(&pause["actions"].as_array().unwrap().len()), "{pause}");
    }
    found
}

/// Gives roles time to look again, which must change nothing.
async fn look_again(api: &TestServer) {
    for id in ["look-1", "look-2"] {
        create(api, id).await;
        api.pass(seconds(1)).await;
    }
}

#[tokio::test]
async fn an_event_that_is_cancelled_leaves_a_pause_state_and_can_be_tried_again() {
    // A0-11
    for api in both().await {
        apply(&api, "bakery", BAKERY).await;
        rise(&api, "a").await;
        let first = executor(&api, "kitchen").await;
        // The oven is taken, so this one waits.
        rise(&api, "b").await;
        let run = event_run(&api, "dough-risen").await;
        api.cancel(&run, json!({})).await.ok();
        assert_eq!(api.state(&run).await, "cancelled");
        let pause = &paused(&api, "CANCELLED", 1).await[0];
        assert_eq!((&pause["subject"], &pause["state"]), (&json!("dough/b"), &json!("open")));
        assert!(pause.to_string().contains(&run), "{pause}");
        let b = artifact(&api, "bakery/artifacts/dough/b").await;
        assert_eq!((&b["status"], &b["reservedBy"]), (&json!("risen"), &Value::Null));
        let golden = json!({"outcome": "SUCCEEDED", "output": {"colour": "golden"}});
        api.complete(&first, golden).await.ok();
        until(&api, "bakery/artifacts/dough/a", |it| it["status"] == "bread").await;
        look_again(&api).await;
        assert_eq!(orders(&api, "bakery").await.len(), 1, "nothing follows by itself");
        paused(&api, "CANCELLED", 1).await;
        // What the pause state suggests works.
        api.post(&format!("/v1/runs/{run}/retry"), &api.key, json!({})).await;
        executed(&api, "kitchen", json!({"colour": "golden"})).await;
        until(&api, "bakery/artifacts/dough/b", |it| it["status"] == "bread").await;
        let events: Vec<Value> =
            orders(&api, "bakery").await.iter().map(|it| it["event"].clone()).collect();
        assert_eq!(events.len(), 2, "{events:?}");
    }
}

#[tokio::test]
async fn an_event_whose_every_try_is_lost_leaves_one_pause_state() {
    // A0-11
    for api in both().await {
        let outside = "to: in-oven, track: hot, outside: true, lease: 2s}";
        apply(&api, "bakery", &BAKERY.replace("to: in-oven, track: hot}", outside)).await;
        rise(&api, "a").await;
        let run = event_run(&api, "dough-risen").await;
        let take = json!({"workerId": "w", "max": 1});
        let path = "/v1/deployments/bakery/roles/oven-keeper/turns";
        let mut tries = 0;
        while api.state(&run).await != "failed" {
            assert!(pauses(&api, "bakery").await.is_empty(), "after {tries} tries");
            let taken = api.post(path, &api.key, take.clone()).await.ok();
            if let Some(turn) = taken["turns"].as_array().unwrap().first() {
                tries += 1;
                let renew = json!({"workerId": "w", "claim": turn["claim"]});
                api.post(&format!("{path}/renew"), &api.key, renew).await.ok();
            }
            api.pass(seconds(3)).await;
        }
        assert_eq!(tries, TRIES);
        assert_eq!(api.state(&run).await, "failed");
        let pause = &paused(&api, "HALTED", 1).await[0];
        assert_eq!(pause["subject"], "dough/a");
        look_again(&api).await;
        paused(&api, "HALTED", 1).await;
        assert!(orders(&api, "bakery").await.is_empty());
    }
}

#[tokio::test]
async fn an_event_that_its_role_gives_up_leaves_one_pause_state_for_each_time() {
    // A0-11: also one about the deployment itself, which no artifact remembers.
    for api in both().await {
        apply(&api, "bakery", BAKERY).await;
        rise(&api, "a").await;
        let first = executor(&api, "kitchen").await;
        let request = json!({"type": "closing-time", "key": "today"});
        api.post("/v1/deployments/bakery/events", &api.key, request).await;
        let run = event_run(&api, "closing-time").await;
        api.cancel(&run, json!({})).await.ok();
        assert_eq!(paused(&api, "CANCELLED", 1).await[0]["subject"], Value::Null);
        // A version without the role, and a retry of the event by hand.
        let janitor = BAKERY.lines().find(|line| line.contains("janitor:")).unwrap();
        let other = janitor.replace("closing-time", "opening-time");
        let without =
            BAKERY.replace(janitor, &other).replace("closing-time: {on", "opening-time: {on");
        apply(&api, "bakery", &without).await;
        let golden = json!({"outcome": "SUCCEEDED", "output": {"colour": "golden"}});
        api.complete(&first, golden).await.ok();
        for times in 1..=2 {
            let again = api.post(&format!("/v1/runs/{run}/retry"), &api.key, json!({})).await;
            assert!(again.status < 300, "{again:?}");
            let told = paused(&api, "HALTED", times).await;
            let said = told[0]["actions"][0].as_str().unwrap();
            assert!(said.contains("no role of the version in force takes"), "{said}");
            api.pass(seconds(1)).await;
        }
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_read_leaves_a_pause_state() {
    // A0-11: rows of a store may be damaged, or written by a program that is not known yet.
    for api in both().await {
        apply(&api, "bakery", BAKERY).await;
        let whole = submission("dough-risen");
        let spec = Spec { input: Json::from("{\"no\": \"event\"}"), ..whole.spec.clone() };
        let queue = event_queue("bakery", None);
        let reply = api.coordinator.submit(vec![Submission { queue, spec, ..whole }]).await;
        assert!(reply[0].is_ok(), "{reply:?}");
        let pause = &paused(&api, "HALTED", 1).await[0];
        let run = event_run(&api, "dough-risen").await;
        assert!(pause["id"].as_str().unwrap().contains(&run), "{pause}");
        assert!(pause["actions"][0].as_str().unwrap().contains("no event"), "{pause}");
    }
}

#[tokio::test]
async fn a_pass_that_cannot_be_carried_out_fails_the_work_order_with_the_reason() {
    // A0-11, S0-52: an artifact has the name of the one that the gate would create.
    for api in both().await {
        apply(&api, "bakery", BAKERY).await;
        let id = "wo/dough-risen/dough/a/2";
        let made =
            api.post("/v1/deployments/bakery/artifacts/receipt", &api.key, json!({"id": id}));
        assert_eq!(made.await.status, 201);
        rise(&api, "a").await;
        executed(&api, "kitchen", json!({"colour": "golden"})).await;
        until(&api, "bakery/workorders", |it| it["workOrders"][0]["record"].is_object()).await;
        let order = &orders(&api, "bakery").await[0];
        assert_eq!(order["record"]["gateResult"], "FAIL", "{order}");
        let reason = &order["record"]["gateReasons"][0];
        assert_eq!(reason["check"], "consequences", "{reason}");
        assert_eq!(paused(&api, "GATE_FAILED", 1).await[0]["subject"], "dough/a");
        // It was let go: the next work order has another name.
        executed(&api, "kitchen", json!({"colour": "golden"})).await;
        until(&api, "bakery/artifacts/dough/a", |it| it["status"] == "bread").await;
    }
}

async fn open(database: &Database) -> PostgresStore {
    let store = PostgresStore::open(database.url(), postgres::Options::new("test")).await;
    store.expect("the database opens")
}

async fn start(database: &Database, key_file: &Path, new_keys: Vec<NewKey>) -> Server {
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), key_file);
    options.new_keys = new_keys;
    serve(open(database).await, options).await.expect("it is served")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_ends_an_event_may_die_before_anybody_is_told() {
    // A0-11: the end and its note are one commit, and the next coordinator finds the note.
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let key_file = folder.path().join("tenure.key");
    let key = NewKey::generate(&mut SeededEntropy::new(17), Scope::default(), &Role::ALL);
    let (http, secret) = (browser().build().unwrap(), key.text().to_owned());
    let post = async |server: &Server, path: &str, body: Value| -> Value {
        let url = format!("http://{}{path}", server.local_addr());
        let answer = http.post(url).bearer_auth(&secret).json(&body).send().await.unwrap();
        answer.json().await.unwrap()
    };
    let server = start(&database, &key_file, vec![key]).await;
    // No process takes the turns of the role, so the event waits.
    let outside = "workOrder: tidy, track: cold, outside: true, lists";
    let yaml = BAKERY.replace("workOrder: tidy, track: cold, lists", outside);
    let declared = topology::read(&yaml).unwrap();
    let body = json!({"topology": declared.declaration()});
    post(&server, "/v1/deployments/bakery", body).await;
    let request = json!({"type": "closing-time", "key": "today"});
    let asked = post(&server, "/v1/deployments/bakery/events", request).await;
    let run = asked["runId"].as_str().unwrap().to_owned();
    server.shutdown().await;
    // A coordinator that is not served has no roles: it ends the event and writes no pause state.
    let options = Options { entropy: Box::new(SeededEntropy::new(3)), ..Options::default() };
    let silent = Coordinator::start(open(&database).await, options).await.expect("it starts");
    let task = TaskKey { scope: Scope::default(), id: TaskId::parse(&run).unwrap() };
    let cancel = Cancel { reason: None, mode: CancelMode::Graceful };
    silent.cancel(task, cancel).await.expect("it is decided");
    silent.stop().await;
    let server = start(&database, &key_file, Vec::new()).await;
    let path = format!("http://{}/v1/deployments/bakery/pause-states", server.local_addr());
    let told = async {
        loop {
            let found = http.get(&path).bearer_auth(&secret).send().await.unwrap();
            let found: Value = found.json().await.unwrap();
            let found = found["pauseStates"].as_array().unwrap().clone();
            if !found.is_empty() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await.expect("it is told in time");
    assert_eq!((told.len(), &told[0]["reason"]), (1, &json!("CANCELLED")), "{told:?}");
    server.shutdown().await;
}
