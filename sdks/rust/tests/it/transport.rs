//! The worker's calls over a bad network: repeated with the same bytes, a bounded number of times.

use serde_json::{Value, json};
use tenure::WorkerEvent;

use crate::coordinator::{Call, Coordinator, Reply, envelope, problem, quick};
use crate::worker::{Running, echo, worker};

fn all_equal(calls: &[Call]) -> bool {
    calls.windows(2).all(|pair| pair[0].bytes == pair[1].bytes)
}

#[tokio::test]
async fn a_report_without_answer_is_repeated_with_the_same_bytes() {
    // S3-51, S3-53, S3-62, S3-63: transport failures may be retried, and the coordinator recognises
    // the repetition.
    let coordinator = Coordinator::start().await;
    coordinator.once("/reports", Reply::Broken);
    coordinator.once("/reports", problem(503, "unknown_outcome"));
    coordinator.once("/reports", problem(429, "too_many_requests"));
    let running = Running::start(echo(worker(&coordinator)));
    coordinator.offer([envelope(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let calls = coordinator.to("/reports");
    assert_eq!(calls.len(), 4);
    assert!(all_equal(&calls));
}

#[tokio::test]
async fn only_the_undecided_reports_of_a_batch_are_repeated() {
    // S3-12, S3-54: a decided report is final; an undecided one is sent again.
    let coordinator = Coordinator::start().await;
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    coordinator.once("/reports", Reply::Gate(std::sync::Arc::clone(&gate)));
    let answer = |n: u32, status: u16, verdict: Value| json!({ "taskId": format!("task_{n}"), "status": status, "verdict": verdict });
    let answers = [answer(2, 200, json!("COMMITTED")), answer(3, 503, Value::Null)];
    let server_time = crate::coordinator::SERVER_TIME;
    let mixed = json!({ "answers": answers, "serverTime": server_time });
    coordinator.once("/reports", Reply::Json(200, mixed));
    let running = Running::start(echo(worker(&coordinator)).concurrency(1));
    coordinator.offer([envelope(1)]);
    coordinator.until("/reports", 1).await;
    coordinator.offer([envelope(2)]);
    coordinator.until("/leases", 3).await;
    coordinator.offer([envelope(3)]);
    coordinator.until("/leases", 4).await;
    gate.notify_one();
    running.until_committed(3).await;
    running.end().await.unwrap();
    let reported: Vec<Value> =
        coordinator.reports().iter().map(|report| report["taskId"].clone()).collect();
    assert_eq!(reported, ["task_1", "task_2", "task_3", "task_3"]);
}

#[tokio::test]
async fn repetitions_of_a_report_are_bounded() {
    // S3-52: after the last try the worker gives up and reports it.
    for reply in [Reply::Broken, Reply::Each(json!({ "status": 503, "verdict": null }))] {
        let coordinator = Coordinator::start().await;
        coordinator.always("/reports", reply);
        let running = Running::start(echo(worker(&coordinator)).retries(quick(2)));
        coordinator.offer([envelope(1)]);
        let given_up = |event: &WorkerEvent| matches!(event, WorkerEvent::Unanswered { .. });
        running.until("given up", given_up).await;
        running.end().await.unwrap();
        assert_eq!(coordinator.to("/reports").len(), 3);
    }
}

#[tokio::test]
async fn a_start_without_answer_is_repeated_and_bounded() {
    // S3-51, S3-52, S3-53: and nothing is executed if no answer arrives in the end.
    let coordinator = Coordinator::start().await;
    coordinator.always("/starts", Reply::Broken);
    let running = Running::start(echo(worker(&coordinator)).retries(quick(2)));
    coordinator.offer([envelope(1)]);
    let given_up = |event: &WorkerEvent| matches!(event, WorkerEvent::Unanswered { .. });
    running.until("given up", given_up).await;
    running.end().await.unwrap();
    let calls = coordinator.to("/starts");
    assert_eq!(calls.len(), 3);
    assert!(all_equal(&calls));
    assert!(coordinator.reports().is_empty());
}

#[tokio::test]
async fn a_worker_says_soon_and_not_all_the_time_that_nothing_answers() {
    let is_told = |event: &&WorkerEvent| matches!(event, WorkerEvent::Unreachable { .. });
    // A single call would be repeated ten times before it fails, which takes most of a minute.
    for (lost, times_told) in [(4, 0), (5, 1), (60, 1)] {
        let coordinator = Coordinator::start().await;
        for _ in 0..lost {
            coordinator.once("/leases", Reply::Broken);
        }
        let running = Running::start(echo(worker(&coordinator)).retries(quick(10)));
        coordinator.offer([envelope(1)]);
        running.until_committed(1).await;
        let events = running.events.all();
        assert_eq!(events.iter().filter(is_told).count(), times_told, "{lost} lost: {events:?}");
        running.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_poll_whose_answer_was_lost_is_repeated_under_its_id() {
    // S3-9, S3-53: leases whose answer was lost are returned again. A worker survives an outage
    // that is longer than the retries of one call.
    let coordinator = Coordinator::start().await;
    for _ in 0..7 {
        coordinator.once("/leases", Reply::Broken);
    }
    let running = Running::start(echo(worker(&coordinator)).retries(quick(1)));
    coordinator.offer([envelope(1)]);
    running.until_committed(1).await;
    coordinator.until("/leases", 9).await;
    let has_told = |event: &WorkerEvent| matches!(event, WorkerEvent::Unreachable { .. });
    assert!(running.events.all().iter().any(has_told));
    running.end().await.unwrap();
    let calls = coordinator.to("/leases");
    assert!(all_equal(&calls[..8]));
    assert_ne!(calls[7].json()["pollId"], calls[8].json()["pollId"]);
}
