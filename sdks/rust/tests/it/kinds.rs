//! Typed kinds: what a worker serves follows from them, results have their types, and handlers get the worker's state.

use std::sync::Arc;

use serde_json::json;
use tenure::{Ctx, Error, Failure, Flow, Kind, NewRun, When, Worker};

use crate::client::accepted;
use crate::coordinator::{Coordinator, Reply, SERVER_TIME, envelope_with};
use crate::worker::Running;

const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
const COUNT: Kind<u32, u32> = Kind::new("count");

async fn greet(_: Ctx, greeting: Arc<str>, name: String) -> Result<String, Failure> {
    Ok(format!("{greeting}, {name}!"))
}

async fn count(_: Flow, _: Arc<str>, n: u32) -> Result<u32, Failure> {
    Ok(n + 1)
}

#[tokio::test]
async fn a_worker_polls_the_queues_of_its_kinds_and_hands_its_state_over() {
    let coordinator = Coordinator::start().await;
    let greeting: Arc<str> = "Hello".into();
    let worker = Worker::new(coordinator.client()).with_state(greeting);
    let worker = worker.handle(GREET, greet).durable(COUNT, count).handle("again", greet);
    let running = Running::start(worker);
    coordinator.offer([
        envelope_with(1, json!({"kind": "greet", "input": "Ada"})),
        envelope_with(2, json!({"kind": "count", "input": 7})),
    ]);
    running.until_committed(2).await;
    running.end().await.unwrap();

    let poll = coordinator.to("/leases")[0].json();
    assert_eq!(poll["queues"], json!(["mail", "default"]));
    assert_eq!(poll["kinds"], json!(["again", "count", "greet"]));
    let mut outputs: Vec<_> =
        coordinator.reports().into_iter().map(|it| it["output"].clone()).collect();
    outputs.sort_by_key(ToString::to_string);
    assert_eq!(outputs, [json!("Hello, Ada!"), json!(8)]);
}

#[tokio::test]
async fn a_worker_without_a_queue_says_what_to_do() {
    let coordinator = Coordinator::start().await;
    let worker =
        Worker::new(coordinator.client()).handle("by-name", |_: Ctx, n: u32| async move { Ok(n) });
    let error = Running::start(worker).join().await.unwrap_err();
    assert!(error.to_string().contains("`.queue(…)`"), "{error}");
}

#[tokio::test]
async fn a_result_has_the_type_of_its_kind_and_an_error_the_place_in_the_value() {
    let coordinator = Coordinator::start().await;
    coordinator.once("/runs", Reply::Json(201, accepted(1)));
    let run = |output| {
        json!({
            "runId": "run_1", "taskId": "task_1", "tenantId": "default", "workspaceId": "default",
            "kind": "k", "queue": "q", "state": "succeeded", "attempt": 1, "failures": 0, "lost": 0, "maxAttempts": 3,
            "priority": 0, "createdAt": SERVER_TIME, "serverTime": SERVER_TIME, "output": output,
        })
    };
    coordinator.once("/run_1", Reply::Json(200, run(json!("Hello"))));
    let client = coordinator.client();
    let greeted = client.submit(GREET, "Ada").await.unwrap();
    assert_eq!(greeted.result().await.unwrap(), "Hello");
    let submitted = coordinator.to("/v1/runs")[0].json();
    assert_eq!(
        (&submitted["kind"], &submitted["queue"], &submitted["input"]),
        (&json!("greet"), &json!("mail"), &json!("Ada"))
    );

    coordinator
        .once("/run_1", Reply::Json(200, run(json!({"lines": [{"cents": 1}, {"cents": "two"}]}))));
    #[derive(Debug, serde::Deserialize)]
    struct Line {
        #[expect(dead_code, reason = "it is read and not used")]
        cents: u64,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Order {
        #[expect(dead_code, reason = "it is read and not used")]
        lines: Vec<Line>,
    }
    const ORDER: Kind<(), Order> = Kind::new("order");
    let error = client.run("run_1").of(ORDER).result().await.unwrap_err();
    assert!(
        matches!(&error, Error::OutputUnreadable { source, .. } if source.path() == "lines[1].cents"),
        "{error}"
    );
}

#[tokio::test]
async fn a_schedule_has_its_instants_and_the_run_of_a_kind() {
    let coordinator = Coordinator::start().await;
    let nightly = When::cron("0 3 * * *").time_zone("Europe/Berlin").paused();
    // What the coordinator answers does not matter here.
    let _ = coordinator.client().schedules().create("n", nightly, NewRun::new(COUNT, &7)).await;
    let sent = coordinator.to("/schedules")[0].json();
    assert_eq!(
        (&sent["name"], &sent["cron"], &sent["timeZone"]),
        (&json!("n"), &json!("0 3 * * *"), &json!("Europe/Berlin"))
    );
    assert_eq!(
        (&sent["run"]["kind"], &sent["run"]["queue"], &sent["run"]["input"]),
        (&json!("count"), &json!("default"), &json!(7))
    );
    assert_eq!(sent["paused"], json!(true));
}
