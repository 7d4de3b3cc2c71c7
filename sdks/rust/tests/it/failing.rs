//! Failures of a task's own code: reported once, with a category, and never retried by the worker.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure::{Ctx, Failure};

use crate::coordinator::{Coordinator, envelope, envelope_with};
use crate::log::Log;
use crate::worker::{Running, worker};

fn fail(how: &str) -> Result<(), Failure> {
    match how {
        "user_code" => Err(Failure::user_code("broken")),
        "data" => Err(Failure::data("broken")),
        "config" => Err(Failure::config("broken")),
        "infra" => Err(Failure::infra("broken")),
        "timeout" => Err(Failure::timeout("broken")),
        "permanent" => Err(Failure::permanent("broken")),
        "unasked" => Err(Failure::cancelled()),
        other => other.parse::<u32>().map(|_| ()).map_err(Failure::from),
    }
}

#[tokio::test]
async fn every_failure_is_reported_once_with_its_category() {
    // S3-56, S4-58, W-15: an error is reported with a category. S3-57, S3-58, S3-68: the worker
    // does not decide whether there is another attempt: nothing runs twice.
    let table = [
        ("user_code", "USER_CODE", None),
        ("data", "DATA_QUALITY", None),
        ("config", "CONFIGURATION", None),
        ("infra", "INFRASTRUCTURE", None),
        ("timeout", "TIMEOUT", None),
        ("permanent", "USER_CODE", Some(false)),
        ("unasked", "USER_CODE", None),
        ("any other error", "USER_CODE", None),
    ];
    for (how, category, retryable) in table {
        let coordinator = Coordinator::start().await;
        let executed = Arc::new(Log::new());
        let ran = Arc::clone(&executed);
        let running =
            Running::start(worker(&coordinator).handle("work", move |_: Ctx, how: String| {
                ran.push(how.clone());
                async move { fail(&how) }
            }));
        coordinator.offer([envelope_with(1, json!({ "input": how }))]);
        running.until_committed(1).await;
        running.end().await.unwrap();
        let reports = coordinator.reports();
        assert_eq!((reports.len(), executed.all().len()), (1, 1), "{how}");
        assert_eq!(reports[0]["outcome"], "FAILED", "{how}");
        assert_eq!(reports[0]["error"]["category"], category, "{how}");
        assert_eq!(reports[0]["error"].get("retryable"), retryable.map(Value::Bool).as_ref());
        assert_ne!(reports[0]["error"]["message"], "", "{how}");
        assert_eq!(reports[0].get("output"), None, "{how}");
    }
}

#[tokio::test]
async fn a_panic_is_a_failure_with_its_place_and_the_worker_goes_on() {
    // S3-56, S4-58: a panic is a local execution failure like any other.
    let coordinator = Coordinator::start().await;
    let running = Running::start(worker(&coordinator).concurrency(1).handle(
        "work",
        |_: Ctx, n: u32| async move {
            assert_ne!(n, 1, "number one is unlucky");
            Ok(n)
        },
    ));
    coordinator.offer([envelope(1), envelope(2)]);
    running.until_committed(2).await;
    running.end().await.unwrap();
    let reports = coordinator.reports();
    let error = &reports[0]["error"];
    assert_eq!(error["category"], "USER_CODE");
    assert!(error["message"].as_str().unwrap().contains("number one is unlucky"), "{error}");
    assert!(error["stackTrace"].as_str().unwrap().contains("failing.rs"), "{error}");
    assert_eq!(reports[1]["outcome"], "SUCCEEDED");
}

#[tokio::test]
async fn an_input_the_task_cannot_read_is_a_matter_of_data() {
    // S4-58, S4-60.
    let coordinator = Coordinator::start().await;
    let running =
        Running::start(worker(&coordinator).handle("work", |_: Ctx, n: u32| async move { Ok(n) }));
    coordinator.offer([envelope_with(1, json!({ "input": { "not": "a number" } }))]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.reports()[0]["error"]["category"], "DATA_QUALITY");
}

#[tokio::test]
async fn a_task_that_overruns_its_own_time_is_stopped_and_reported() {
    // S3-56, S4-63: a timeout is a local execution failure.
    let coordinator = Coordinator::start().await;
    let running =
        Running::start(worker(&coordinator).handle("work", |_: Ctx, _: Value| async move {
            std::future::pending::<()>().await;
            Ok(())
        }));
    coordinator.offer([envelope_with(1, json!({ "resources": { "timeoutMs": 20 } }))]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let report = &coordinator.reports()[0];
    assert_eq!(
        (&report["outcome"], &report["error"]["category"]),
        (&json!("FAILED"), &json!("TIMEOUT"))
    );
}

#[tokio::test]
async fn a_result_of_any_shape_arrives_as_it_was_returned() {
    // S4-28: the output is the task's own.
    let coordinator = Coordinator::start().await;
    let output =
        json!({ "materializationId": "m", "rowCount": 3, "byteSize": 9, "outputPath": "p" });
    let returned = output.clone();
    let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, _: u32| {
        let returned = returned.clone();
        async move { Ok(returned) }
    }));
    coordinator.offer([envelope(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.reports()[0]["output"], output);
}
