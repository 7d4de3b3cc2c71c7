//! The Rust client and worker against the built server, as a program uses them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{CancelMode, Client, Code, Ctx, Error, ErrorCategory, Failure, State, Worker};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::home::{Home, Process};
use crate::operate_backup::client;

const QUEUE: &str = "images";

#[derive(Serialize, Deserialize)]
struct Image {
    path: String,
    width: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Thumbnail {
    path: String,
}

/// A server with a worker of the queue.
struct Service {
    client: Client,
    stop: CancellationToken,
    worker: JoinHandle<Result<(), Error>>,
    _server: Process,
    _home: Home,
}

impl Service {
    fn start() -> Service {
        let home = Home::new();
        let server = home.serve();
        let client = client(&home);
        let stop = CancellationToken::new();
        let worker = Worker::new(client.clone())
            .queue(QUEUE)
            .handle("resize", resize)
            .handle("album", album)
            .handle("wait", |ctx, _: ()| async move {
                ctx.cancelled().await;
                Err::<(), Failure>(Failure::cancelled())
            });
        let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
        Service { client, stop, worker, _server: server, _home: home }
    }

    async fn end(self) {
        self.stop.cancel();
        self.worker.await.unwrap().unwrap();
    }

    /// A run that its worker holds until it is asked to stop.
    async fn held(&self) -> tenure::RunHandle {
        let submission = self.client.submit("wait", &()).queue(QUEUE);
        let run = submission.heartbeat_interval(Duration::from_millis(500)).await.unwrap();
        let mut history = run.history().wait(Duration::from_secs(30));
        loop {
            let page = history.clone().await.unwrap();
            if page.entries.iter().any(|entry| entry.kind == "started") {
                return run;
            }
            history = history.after(page.next_after);
        }
    }
}

async fn resize(_: Ctx, image: Image) -> Result<Thumbnail, Failure> {
    if image.width == 0 {
        return Err(Failure::permanent("the width must not be zero"));
    }
    Ok(Thumbnail { path: format!("{}@{}", image.path, image.width) })
}

/// Submits a run for each image, and waits for them.
async fn album(ctx: Ctx, paths: Vec<String>) -> Result<Vec<Thumbnail>, Failure> {
    let mut thumbnails = Vec::new();
    for path in paths {
        let key = format!("{}-{path}", ctx.run_id());
        let image = Image { path, width: 80 };
        let run = ctx.client().submit("resize", &image).queue(QUEUE).idempotency_key(key).await?;
        thumbnails.push(run.output().await?);
    }
    Ok(thumbnails)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_are_typed_and_failures_are_errors_with_their_reason() {
    let service = Service::start();
    let resize = |width| {
        let image = Image { path: "cat".to_owned(), width };
        service.client.submit("resize", &image).queue(QUEUE)
    };
    let nowhere = service.client.submit("resize", &()).await.unwrap_err();
    assert!(nowhere.to_string().contains("queue"), "{nowhere}");
    let thumbnail: Thumbnail = resize(80).await.unwrap().output().await.unwrap();
    assert_eq!(thumbnail.path, "cat@80");

    let error = resize(0).await.unwrap().output::<Thumbnail>().await.unwrap_err();
    let failure = error.run_failure().unwrap();
    assert_eq!((failure.state, failure.attempt), (State::Failed, 1));
    assert_eq!(failure.category, Some(ErrorCategory::UserCode));
    assert_eq!(failure.reason, "NOT_RETRYABLE");
    assert_eq!(failure.message, "the width must not be zero");
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_repeated_finds_the_same_run() {
    let service = Service::start();
    let image = |width| Image { path: "cat".to_owned(), width };
    let submit =
        |image| service.client.submit("resize", &image).queue(QUEUE).idempotency_key("cat");
    let first = submit(image(80)).await.unwrap();
    assert_eq!(submit(image(80)).await.unwrap().id(), first.id());
    assert_eq!(submit(image(80)).accept().await.unwrap().replayed, Some(true));
    let other = submit(image(81)).await.unwrap_err();
    assert_eq!(other.code(), Some(Code::IdempotencyKeyReused), "{other}");
    assert!(!other.is_retryable(), "{other}");

    let mixed = [submission("cat"), submission("dog"), submission("dog")];
    let runs = service.client.submit_many(mixed).await.unwrap();
    let [Ok(cat), Ok(dog), Ok(same)] = &runs[..] else { panic!("{runs:?}") };
    assert!(cat.id() == first.id() && dog.id() != cat.id() && same.id() == dog.id());
    service.end().await;
}

fn submission(key: &str) -> tenure::NewRun {
    let image = Image { path: "cat".to_owned(), width: 80 };
    tenure::NewRun::new("resize", &image).queue(QUEUE).idempotency_key(key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_cancel_lets_the_worker_end_and_an_immediate_one_does_not_wait() {
    let service = Service::start();
    let asked = service.held().await;
    let accepted = asked.cancel().reason("enough").await.unwrap();
    assert_eq!(accepted.state, State::Running, "the worker has its grace period");
    let ended = asked.wait().await.unwrap();
    assert_eq!((ended.state, ended.cancel_reason.as_deref()), (State::Cancelled, Some("enough")));
    let failure = asked.output::<()>().await.unwrap_err();
    assert_eq!(failure.run_failure().unwrap().state, State::Cancelled);

    let taken = service.held().await;
    let accepted = taken.cancel().mode(CancelMode::Immediate).await.unwrap();
    assert_eq!(accepted.state, State::Cancelled, "the worker is not waited for");
    let taken = service.held().await;
    assert_eq!(taken.cancel_now().await.unwrap().state, State::Cancelled);
    service.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_submits_further_work_and_reads_its_output() {
    let service = Service::start();
    let album = service.client.submit("album", &["cat", "dog"]).queue(QUEUE).await.unwrap();
    let thumbnails: Vec<Thumbnail> = album.output().await.unwrap();
    let paths: Vec<&str> = thumbnails.iter().map(|thumbnail| thumbnail.path.as_str()).collect();
    assert_eq!(paths, ["cat@80", "dog@80"]);
    service.end().await;
}
