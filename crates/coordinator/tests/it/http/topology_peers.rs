//! Deployments over one database: the roles of two coordinators look at the same artifacts, events and work orders, and each
//! transition makes one event, each event one work order, each work order one run record.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use coordinator::admit::{NewKey, Role};
use coordinator::{SeededEntropy, ServeOptions, Server, serve};
use serde_json::{Value, json};
use store::{PostgresStore, postgres};
use storetest::Database;
use verdict::Scope;

use super::test_server::browser;
use crate::harness::PATIENCE;

const ARTIFACTS: usize = 120;

const WORKSHOP: &str = "
topology: workshop
artifacts:
  plank:
    statuses: [rough, clamped, smooth]
    initial: rough
    final: [smooth]
    transitions:
      - {from: rough, to: clamped, by: 'role:foreman'}
      - {from: clamped, to: rough, by: 'role:inspector'}
      - {from: clamped, to: smooth, by: 'role:inspector'}
events: {plank-arrived: {on: transition, artifact: plank, status: rough}}
workOrders: {sand: {kind: sander, queue: bench, budget: {time: 1h}, gate: feel}}
gates:
  feel:
    checks: [{name: even, require: {path: output.grit, op: at-least, value: 200}}]
    pass: {to: smooth, actions: [Stack it.]}
    fail: {to: rough, actions: [Sand it again.]}
roles:
  porter: {uses: readiness, emits: [plank-arrived]}
  foreman: {uses: scheduler, event: plank-arrived, workOrder: sand, to: clamped}
  hands: {uses: runner, workOrders: [sand]}
  inspector: {uses: gate, workOrders: [sand]}
limits: {executors: 100, cycles: 3}
";

async fn start(database: &Database, key_file: &Path, new_keys: Vec<NewKey>) -> Server {
    let store = PostgresStore::open(database.url(), postgres::Options::new("test")).await;
    let mut options = ServeOptions::new("127.0.0.1:0".parse().unwrap(), key_file);
    options.new_keys = new_keys;
    serve(store.expect("the database opens"), options).await.expect("it is served")
}

struct Caller {
    http: reqwest::Client,
    key: String,
}

impl Caller {
    async fn post(&self, server: &Server, path: &str, body: Value) -> Value {
        let url = format!("http://{}{path}", server.local_addr());
        let answer = self.http.post(url).bearer_auth(&self.key).json(&body).send().await.unwrap();
        let (status, body) = (answer.status(), answer.json::<Value>().await.unwrap());
        assert!(status.is_success(), "{path}: {body}");
        body
    }

    async fn get(&self, server: &Server, path: &str) -> Value {
        let url = format!("http://{}{path}", server.local_addr());
        let answer = self.http.get(url).bearer_auth(&self.key).send().await.unwrap();
        answer.json().await.unwrap()
    }

    /// Executes what is ready, and returns how much that was. The first try of every plank is too coarse.
    async fn execute(&self, server: &Server, tried: &mut BTreeSet<String>) -> usize {
        let poll = json!({"workerId": "w", "queues": ["bench"], "max": 50, "waitMs": 200});
        let leases = self.post(server, "/v1/leases", poll).await["leases"].clone();
        let leases = leases.as_array().unwrap();
        let report = |lease: &Value| {
            let plank = lease["input"]["artifacts"][0]["id"].as_str().unwrap().to_owned();
            let grit = if tried.insert(plank) { 80 } else { 400 };
            json!({"taskId": lease["taskId"], "taskToken": lease["taskToken"], "workerId": "w",
                "attempt": lease["attempt"], "outcome": "SUCCEEDED", "output": {"grit": grit}})
        };
        let reports: Vec<Value> = leases.iter().map(report).collect();
        if !reports.is_empty() {
            self.post(server, "/v1/reports", json!({"reports": reports})).await;
        }
        leases.len()
    }

    async fn smooth(&self, server: &Server) -> usize {
        let path = "/v1/deployments/workshop/artifacts/plank?status=smooth&limit=1000";
        self.get(server, path).await["artifacts"].as_array().map_or(0, Vec::len)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_cause_has_one_effect_whoever_looks() {
    // S0-10, S0-37, S0-49, S0-50, S0-51, S0-52, S0-53, S0-54, S1-28, S1-29, S1-38, W-28
    let (database, folder) = (Database::create(), tempfile::tempdir().unwrap());
    let key_file = folder.path().join("tenure.key");
    let key = NewKey::generate(&mut SeededEntropy::new(13), Scope::default(), &Role::ALL);
    let caller = Caller { http: browser().build().unwrap(), key: key.text().to_owned() };
    let one = start(&database, &key_file, vec![key]).await;
    let two = start(&database, &key_file, Vec::new()).await;
    let topology = topology::read(WORKSHOP).unwrap();
    let body = json!({"topology": topology.declaration()});
    caller.post(&one, "/v1/deployments/workshop", body).await;
    for n in 0..ARTIFACTS {
        let server = if n % 2 == 0 { &one } else { &two };
        let path = "/v1/deployments/workshop/artifacts/plank";
        caller.post(server, path, json!({"id": format!("p{n:03}")})).await;
    }
    let mut tried = BTreeSet::new();
    let mut executed = 0;
    let work = async {
        while caller.smooth(&one).await < ARTIFACTS {
            for server in [&one, &two] {
                executed += caller.execute(server, &mut tried).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::time::timeout(3 * PATIENCE, work).await;
    assert!(ended.is_ok(), "{} of {ARTIFACTS} are smooth", caller.smooth(&one).await);
    assert_eq!(executed, 2 * ARTIFACTS, "each plank was sanded twice and no more");
    let path = "/v1/deployments/workshop/workorders?limit=1000";
    let orders = caller.get(&two, path).await["workOrders"].clone();
    let orders = orders.as_array().unwrap();
    let states = |state: &str| orders.iter().filter(|it| it["state"] == state).count();
    assert_eq!((states("passed"), states("failed"), states("active")), (ARTIFACTS, ARTIFACTS, 0));
    let events: BTreeSet<&str> = orders.iter().map(|it| it["event"].as_str().unwrap()).collect();
    assert_eq!(events.len(), orders.len(), "an event makes one work order");
    one.shutdown().await;
    two.shutdown().await;
}
