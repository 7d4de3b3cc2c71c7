//! Durable runs as people see them: drawn, signalled, resumed and listed.

use serde_json::{Value, json};
use tenure::Client;
use wire::answers::{CheckpointAck, Envelope};
use wire::requests::LeaseRequest;

use crate::home::Home;

fn client(home: &Home) -> Client {
    let profile: Value = serde_json::from_slice(&std::fs::read(home.profile()).unwrap()).unwrap();
    let text = |name: &str| profile[name].as_str().unwrap().to_owned();
    Client::new(&text("url"), &text("apiKey")).unwrap()
}

async fn lease(client: &Client) -> Envelope {
    let request = LeaseRequest {
        worker_id: "w1".to_owned(),
        queues: vec!["q".to_owned()],
        max: 1,
        wait_ms: Some(20_000),
        ..LeaseRequest::default()
    };
    client.lease(&request).await.unwrap().leases.remove(0)
}

async fn checkpoint(client: &Client, envelope: &Envelope, mut call: Value) -> CheckpointAck {
    call["attempt"] = json!(envelope.attempt);
    call["workerId"] = json!("w1");
    let call = serde_json::from_str(&call.to_string()).unwrap();
    client.checkpoint(&envelope.task_id, &envelope.task_token, &call).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_drawn_with_its_steps_its_wait_and_its_child() {
    let home = Home::new();
    let _server = home.serve();
    let run = home.submit(&["order", "--queue", "q"]);
    let client = client(&home);
    let order = lease(&client).await;
    let call = json!({
        "steps": [{"key": "charge#1", "outcome": "SUCCEEDED", "result": {"paid": true}}],
        "children": [{"key": "ship#1", "kind": "ship", "queue": "elsewhere"}],
        "wait": {"key": "wait:go#1", "mode": "any", "for": [{"key": "go#1", "signal": "approve"},
            {"key": "ship#1", "child": "ship#1"}]},
    });
    let task = checkpoint(&client, &order, call).await.children[0].task_id.clone();
    let shown = home.run(&["runs", "show", &run]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in [
        "waiting",
        "signal approve or child ship#1",
        "1 started, 1 not ended",
        "SUSPENDED",
        "step  charge#1",
        "{\"paid\":true}",
        "child  ship#1",
        &task,
        "wait  wait:go#1",
    ] {
        assert!(shown.stdout.contains(part), "no `{part}` in {}", shown.stdout);
    }
    let explained = home.run(&["explain", &run]);
    assert!(
        explained
            .stdout
            .contains("waits for the signal `approve` or the end of the child `ship#1`"),
        "{explained:?}"
    );
    // A list shows runs, and tasks of runs to those who ask.
    assert_eq!(home.json(&["runs", "list", "--json"]).as_array().unwrap().len(), 1);
    assert_eq!(home.json(&["runs", "list", "--json", "--children"]).as_array().unwrap().len(), 2);
    assert!(home.run(&["runs", "list"]).stdout.contains("signal approve or child ship#1"));
    // The child shows where it belongs.
    let child = home.run(&["runs", "show", &task]);
    assert!(child.stdout.contains(&format!("{}, as ship#1", order.task_id)), "{child:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reaches_a_waiting_run_once() {
    let home = Home::new();
    let _server = home.serve();
    let run = home.submit(&["order", "--queue", "q"]);
    let client = client(&home);
    let order = lease(&client).await;
    let wait =
        json!({"wait": {"key": "w#1", "mode": "all", "for": [{"key": "go#1", "signal": "go"}]}});
    checkpoint(&client, &order, wait).await;
    let data = "{\"by\": \"ops\"}";
    let signal = ["runs", "signal", &run, "go", "--data", data, "--idempotency-key", "once"];
    let sent = home.run(&signal);
    assert_eq!(
        (sent.code, sent.stdout.trim()),
        (0, &*format!("{run} has the signal go")),
        "{sent:?}"
    );
    let again = home.run(&signal);
    assert!(again.stdout.contains("before, under the same key"), "{again:?}");
    let next = lease(&client).await;
    assert_eq!(next.attempt, 2);
    let taken = &next.checkpoints[0].wait.as_ref().unwrap().signals;
    assert_eq!((taken.len(), taken[0].payload.as_ref().unwrap().text()), (1, "{\"by\":\"ops\"}"));
    let wrong = home.run(&["runs", "signal", &run, "go", "--data", "{by: ops}"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diverged_run_tells_what_differs_and_is_resumed() {
    let home = Home::new();
    let _server = home.serve();
    let run = home.submit(&["order", "--queue", "q"]);
    let client = client(&home);
    let order = lease(&client).await;
    let too_early = home.run(&["runs", "resume", &run]);
    too_early.assert_error(4, "not_diverged", "diverged", "tenure explain");
    let diverged = json!({"diverged": {"branch": "", "index": 3, "recorded": "charge#1",
        "actual": "refund#1 (src/order.rs:7)"}});
    checkpoint(&client, &order, diverged).await;
    let shown = home.run(&["runs", "show", &run]);
    for part in
        ["recorded charge#1", "now refund#1 (src/order.rs:7)", "tenure runs resume", "DIVERGED"]
    {
        assert!(shown.stdout.contains(part), "no `{part}` in {}", shown.stdout);
    }
    let resumed = home.run(&["runs", "resume", &run]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(lease(&client).await.attempt, 2);
}
