//! A worker under test, and its normal cycle: fetch, start, execute, report, repeat.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::wire::Outcome;
use tenure::{Ctx, Error, Failure, Worker, WorkerEvent};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::coordinator::{API_KEY, Coordinator, Reply, envelope, envelope_with, problem, quick};
use crate::log::{Log, TIMEOUT};

/// A worker that runs beside the test.
pub(crate) struct Running {
    pub(crate) events: Arc<Log<WorkerEvent>>,
    shutdown: CancellationToken,
    cut: CancellationToken,
    ended: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub(crate) fn start<S: Send + 'static>(worker: Worker<S>) -> Running {
        let events = Arc::new(Log::new());
        let seen = Arc::clone(&events);
        let shutdown = CancellationToken::new();
        let until = shutdown.clone().cancelled_owned();
        let worker = worker.on_event(move |event| seen.push(event.clone()));
        let cut = CancellationToken::new();
        let ended = tokio::spawn(worker.run_until_cut(until, cut.clone().cancelled_owned()));
        Running { events, shutdown, cut, ended }
    }

    pub(crate) fn ask_to_end(&self) {
        self.shutdown.cancel();
    }

    pub(crate) async fn end(self) -> Result<(), Error> {
        self.shutdown.cancel();
        self.ended.await.unwrap()
    }

    /// Asks to end, and then again.
    pub(crate) async fn cut(self) -> Result<(), Error> {
        self.shutdown.cancel();
        self.cut.cancel();
        self.ended.await.unwrap()
    }

    pub(crate) async fn join(self) -> Result<(), Error> {
        let ended = tokio::time::timeout(TIMEOUT, self.ended).await;
        ended.expect("a worker that was refused goes on").unwrap()
    }

    pub(crate) async fn until(&self, what: &str, is_it: impl Fn(&WorkerEvent) -> bool) {
        self.events.until(what, |events| events.iter().any(&is_it)).await;
    }

    pub(crate) async fn until_committed(&self, count: usize) {
        let is_commit = |event: &&WorkerEvent| matches!(event, WorkerEvent::Committed { .. });
        let committed = |events: &[WorkerEvent]| events.iter().filter(is_commit).count() >= count;
        self.events.until("reports committed", committed).await;
    }
}

/// A worker of queue `q` with quick retries and no task yet.
pub(crate) fn worker(coordinator: &Coordinator) -> Worker {
    Worker::new(coordinator.client())
        .name("tester")
        .queue("q")
        .retries(quick(4))
        .cleanup_timeout(Duration::from_millis(50))
}

pub(crate) fn echo(worker: Worker) -> Worker {
    worker.handle("work", |_: Ctx, input: Value| async move { Ok(input) })
}

#[tokio::test]
async fn after_committed_nothing_of_an_attempt_is_left() {
    // Proves: S3-17: its place is free, its code is gone with all that it captured, and its lease is forgotten.
    const TASKS: u32 = 5;
    let coordinator = Coordinator::start().await;
    let resource = Arc::new(());
    let captured = Arc::clone(&resource);
    let running = Running::start(worker(&coordinator).concurrency(1).handle(
        "work",
        move |ctx: Ctx, n: u32| {
            let held = (Arc::clone(&captured), ctx);
            async move {
                let _to_the_end = held;
                Ok(n)
            }
        },
    ));
    for n in 1..=TASKS {
        coordinator.offer([envelope(n)]);
        running.until_committed(n as usize).await;
        coordinator.until("/leases", n as usize + 1).await;
        // One reference is the test's, the other is kept by the function for the next attempt.
        assert_eq!(Arc::strong_count(&resource), 2, "after task {n}");
    }
    // A worker that still knew the first lease would treat this as a repeated answer to the same
    // poll.
    coordinator.offer([envelope(1)]);
    running.until_committed(TASKS as usize + 1).await;
    running.end().await.unwrap();
    assert_eq!(Arc::strong_count(&resource), 1, "the worker itself is gone");
    let asked: Vec<Value> =
        coordinator.to("/leases").iter().map(|call| call.json()["max"].clone()).collect();
    assert!(asked.len() > TASKS as usize + 1, "{asked:?}");
    assert!(asked.iter().all(|max| *max == json!(1)), "every place is free again: {asked:?}");
}

#[tokio::test]
async fn as_many_tasks_as_it_has_places_run_at_once_and_none_harms_another() {
    // Proves: S2-5: the worker dispatches what it leased, isolates tasks from each other, and bounds how many run.
    const PLACES: usize = 2;
    let coordinator = Coordinator::start().await;
    let (executed, places) = (Arc::new(Log::new()), Arc::new(()));
    let finish = CancellationToken::new();
    let (log, place, until) = (Arc::clone(&executed), Arc::clone(&places), finish.clone());
    let running = Running::start(worker(&coordinator).concurrency(PLACES).handle(
        "work",
        move |_: Ctx, n: u32| {
            let (log, held, until) = (Arc::clone(&log), Arc::clone(&place), until.clone());
            async move {
                // Two references are the test's and the handler's; each task under way has one more.
                log.push((n, Arc::strong_count(&held) - 2));
                assert_ne!(n, 1, "number one is unlucky");
                until.cancelled().await;
                Ok(n)
            }
        },
    ));
    coordinator.offer([envelope(1), envelope(2), envelope(3), envelope(4)]);
    // The first one panics. Its place is free for the third, beside the second, which goes on; the fourth waits.
    executed.until("three tasks", |seen| seen.len() == 3).await;
    running.until_committed(1).await;
    finish.cancel();
    running.until_committed(4).await;
    running.end().await.unwrap();
    let seen = executed.all();
    assert!(seen.iter().all(|(_, at_once)| *at_once <= PLACES), "{seen:?}");
    assert_eq!(seen.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 2, 3, 4]);
    let mut outcomes: Vec<(String, String)> = coordinator
        .reports()
        .iter()
        .map(|report| {
            let text = |name: &str| report[name].as_str().unwrap().to_owned();
            (text("taskId"), text("outcome"))
        })
        .collect();
    outcomes.sort();
    let outcomes: Vec<&str> = outcomes.iter().map(|(_, outcome)| outcome.as_str()).collect();
    assert_eq!(outcomes, ["FAILED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]);
}

#[tokio::test]
async fn a_lease_that_is_answered_twice_is_executed_once() {
    // Proves: S3-60: the answer to a poll arrives again while its task runs.
    let coordinator = Coordinator::start().await;
    let executed = Arc::new(Log::new());
    let finish = CancellationToken::new();
    let (log, until) = (Arc::clone(&executed), finish.clone());
    let running = Running::start(worker(&coordinator).concurrency(3).handle(
        "work",
        move |_: Ctx, n: u32| {
            log.push(n);
            let until = until.clone();
            async move {
                until.cancelled().await;
                Ok(n)
            }
        },
    ));
    coordinator.offer([envelope(1)]);
    executed.until("execution", |seen| !seen.is_empty()).await;
    coordinator.offer([envelope(1), envelope(1)]);
    // The slot was released, so the next poll asks for as many leases as the one before.
    coordinator.until("/leases", 3).await;
    coordinator.offer([envelope(2)]);
    executed.until("the other task", |seen| seen.contains(&2)).await;
    finish.cancel();
    running.until_committed(2).await;
    running.end().await.unwrap();
    assert_eq!(executed.all(), [1, 2]);
    assert_eq!(coordinator.starts("task_1"), 1);
    assert_eq!(coordinator.reports().len(), 2);
}

#[tokio::test]
async fn a_worker_leases_starts_executes_reports_and_asks_again() {
    // S3-7: request a lease, execute, report the outcome, accept the answer, and start over. S3-13,
    // S3-14, S3-16, S3-18: after COMMITTED the slot is free, and the task is neither reported nor
    // executed again.
    let coordinator = Coordinator::start().await;
    let running = Running::start(echo(worker(&coordinator)).concurrency(1));
    coordinator.offer([envelope(1)]);
    running.until_committed(1).await;
    coordinator.offer([envelope(2)]);
    running.until_committed(2).await;
    let events = running.events.all();
    running.end().await.unwrap();

    let order: Vec<String> = coordinator.calls.all().into_iter().map(|call| call.path).collect();
    let place = |path: &str| order.iter().position(|p| p.ends_with(path)).unwrap();
    assert!(place("/v1/leases") < place("/v1/starts"));
    assert!(place("/v1/starts") < place("/v1/reports"));
    assert_eq!((coordinator.starts("task_1"), coordinator.starts("task_2")), (1, 1));

    let reports = coordinator.reports();
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0]["outcome"], "SUCCEEDED");
    assert_eq!((&reports[0]["taskId"], &reports[0]["output"]), (&json!("task_1"), &json!(1)));
    assert_eq!((&reports[0]["taskToken"], &reports[0]["attempt"]), (&json!("token_1"), &json!(2)));
    let committed = |n: u32| WorkerEvent::Committed {
        task_id: format!("task_{n}"),
        attempt: 2,
        outcome: Outcome::Succeeded,
        error: None,
    };
    assert_eq!(events, [committed(1), committed(2)]);
}

#[tokio::test]
async fn calls_carry_the_key_of_the_worker_or_the_token_of_the_task() {
    // S4-6, S4-65: the token of the attempt authorises its calls, each of which names the attempt.
    let coordinator = Coordinator::start().await;
    let running = Running::start(echo(worker(&coordinator)));
    coordinator.offer([envelope(1)]);
    running.until_committed(1).await;
    running.end().await.unwrap();

    let starts = &coordinator.to("/v1/starts")[0];
    assert_eq!(starts.bearer, format!("Bearer {API_KEY}"));
    let start = &starts.items()[0];
    assert_eq!((&start["taskToken"], &start["attempt"]), (&json!("token_1"), &json!(2)));
    let poll = &coordinator.to("/leases")[0];
    assert_eq!(poll.bearer, format!("Bearer {API_KEY}"));
    assert_eq!(poll.json()["queues"], json!(["q"]));
    assert_eq!(poll.json()["kinds"], json!(["work"]));
    assert_eq!(poll.json()["waitMs"], 30_000);
}

#[tokio::test]
async fn every_start_of_a_worker_is_another_worker() {
    let coordinator = Coordinator::start().await;
    let mut names = Vec::new();
    // A worker that ends makes one more call, for its open poll.
    for polls in [1, 3] {
        let running = Running::start(echo(worker(&coordinator)));
        let calls = coordinator.until("/leases", polls).await;
        names.push(calls.last().unwrap().json()["workerId"].as_str().unwrap().to_owned());
        running.end().await.unwrap();
    }
    assert!(names.iter().all(|name| name.starts_with("tester-")), "{names:?}");
    assert_ne!(names[0], names[1]);
}

#[tokio::test]
async fn a_task_sees_its_attempt() {
    let coordinator = Coordinator::start().await;
    let work = |ctx: Ctx, _: Value| async move {
        let deadline = ctx.deadline().map(|deadline| deadline.to_string());
        let owner = ctx.worker_id().split('-').next().unwrap().to_owned();
        let ids = [ctx.run_id(), ctx.task_id(), ctx.lease_id(), ctx.kind(), &owner];
        Ok(json!([ids, ctx.attempt(), ctx.fence(), deadline]))
    };
    let running = Running::start(worker(&coordinator).handle_any(work));
    let deadline = "2026-03-01T12:05:00.000Z";
    coordinator.offer([envelope_with(1, json!({ "kind": "other", "deadline": deadline }))]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    let seen = &coordinator.reports()[0]["output"];
    let ids = ["run_1", "task_1", "lease_1", "other", "tester"];
    assert_eq!(*seen, json!([ids, 2, 4_294_967_297_u64, deadline]));
    // A worker with a handler for any kind asks for every kind.
    assert_eq!(coordinator.to("/leases")[0].json().get("kinds"), None);
}

#[tokio::test]
async fn a_late_answer_to_started_delays_the_execution() {
    // S3-8: answers may be delayed; nothing is executed before one arrives.
    let coordinator = Coordinator::start().await;
    let gate = Arc::new(tokio::sync::Notify::new());
    coordinator.once("/starts", Reply::Gate(Arc::clone(&gate)));
    let executed = Arc::new(Log::new());
    let ran = Arc::clone(&executed);
    let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, n: u32| {
        ran.push(n);
        async move { Ok(n) }
    }));
    coordinator.offer([envelope(1)]);
    coordinator.until_started(1).await;
    coordinator.offer([envelope(2)]);
    running.until_committed(1).await;
    assert_eq!(executed.all(), [2]);
    gate.notify_one();
    running.until_committed(2).await;
    assert_eq!(executed.all(), [2, 1]);
    running.end().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_is_handed_out_twice_is_carried_once() {
    // S3-9, S3-60: any answer may be duplicated.
    let coordinator = Coordinator::start().await;
    let finish = CancellationToken::new();
    let until = finish.clone();
    let running = Running::start(worker(&coordinator).handle("work", move |_: Ctx, n: u32| {
        let until = until.clone();
        async move {
            until.cancelled().await;
            Ok(n)
        }
    }));
    coordinator.offer([envelope(1)]);
    coordinator.until_started(1).await;
    coordinator.offer([envelope(1), envelope(2)]);
    coordinator.until_started(2).await;
    finish.cancel();
    running.until_committed(2).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.starts("task_1"), 1);
    assert_eq!(coordinator.reports().len(), 2);
}

#[tokio::test]
async fn a_worker_that_is_refused_ends_and_says_why() {
    // S3-37, S3-38, S3-39: an invalid poll is fatal, surfaced, and not repeated.
    let coordinator = Coordinator::start().await;
    coordinator.always("/leases", problem(401, "unauthenticated"));
    let running = Running::start(echo(worker(&coordinator)));
    let error = running.join().await.unwrap_err();
    assert_eq!(error.code(), Some(tenure::wire::Code::Unauthenticated));
    assert!(error.to_string().contains("TENURE_API_KEY"), "{error}");
    assert_eq!(coordinator.to("/leases").len(), 1);
}

#[tokio::test]
async fn a_worker_without_queue_or_task_is_told_so() {
    let client = || tenure::Client::new("http://127.0.0.1:1", "key").unwrap();
    let no_queue = echo(Worker::new(client())).run_until(async {}).await.unwrap_err();
    assert!(no_queue.to_string().contains(".queue("), "{no_queue}");
    let no_task = Worker::new(client()).queue("q").run_until(async {}).await.unwrap_err();
    assert!(no_task.to_string().contains(".handle("), "{no_task}");
}

#[tokio::test]
async fn a_kind_without_a_task_fails_as_a_matter_of_configuration() {
    // S4-58: errors that the worker itself finds have a category too.
    let coordinator = Coordinator::start().await;
    let running = Running::start(echo(worker(&coordinator)));
    coordinator.offer([envelope_with(1, json!({ "kind": "unheard-of" }))]);
    running.until_committed(1).await;
    running.end().await.unwrap();
    assert_eq!(coordinator.reports()[0]["error"]["category"], "CONFIGURATION");
}

#[tokio::test]
async fn the_hello_worker_fits_twenty_lines() {
    // S4-74: the client library needs only a few lines for a hello-world worker.
    let hello = include_str!("../../examples/hello.rs");
    assert!(hello.lines().count() <= 20);
    let task = |_: Ctx, name: String| async move { Ok::<_, Failure>(format!("Hello, {name}!")) };
    let greeting = tenure::testing::run_inline(task, "Ada").await.unwrap();
    assert_eq!(greeting, "Hello, Ada!");
}

#[test]
fn the_first_page_shows_the_program_that_is_measured() {
    let example = include_str!("../../examples/greet.rs");
    let (_, program) = example.split_once("\n\n").unwrap();
    assert!(include_str!("../../../../docs/start/first-task.md").contains(program));
}
