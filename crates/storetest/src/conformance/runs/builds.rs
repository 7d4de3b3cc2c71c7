//! Runs that are pinned to a build: where they are offered, and what is left of that.

use store::browse::Browse;
use store::row::{Ahead, HeldLeases, QueueDepth, TaskKey, Want};
use store::seam::{Batch, Decided, Store, Writer};
use store::verify::verify;
use verdict::request::{Caller, Grant, Outcome};
use verdict::run::{RunRequest, Then};
use verdict::{Answer, Build, FlowKey, LeaseId, Request, RunAnswer, Scope, Span, State, TaskId};

use super::family::{Delivery, Family, call, finish, lease, step};
use crate::conformance::driver::Driver;
use crate::conformance::fixture::Fixture;

const DAY: Span = Span::from_secs(24 * 60 * 60);

/// Time after which a task that was handed back may be leased again.
const PAUSE: Span = Span::from_secs(60);

/// Leases the run to a worker of a build that pins it.
async fn grant<F: Fixture>(
    driver: &mut Driver<F>,
    family: &mut Family,
    run: &TaskKey,
    build: &str,
) -> Option<Caller> {
    let lease = LeaseId::from_u128(driver.number());
    let build = Some(Box::new(Build { id: build.into(), pins: true }));
    let request = Request::Grant(Grant { lease, owner: "ann".into(), poll: None, build });
    if family.about(driver, run, request).await != Answer::Granted {
        return None;
    }
    let attempt = driver.load(run).await.live().expect("it is leased").attempt;
    let epoch = driver.store().status().epoch;
    Some(Caller { worker: "ann".into(), attempt, lease, epoch })
}

/// A run for which a worker of the build recorded a step, and which it handed back.
async fn pin<F: Fixture>(driver: &mut Driver<F>, family: &mut Family, run: &TaskKey, build: &str) {
    let worker = grant(driver, family, run, build).await.expect("it is free");
    let steps = vec![step("a", "1")];
    family.ask(driver, run, RunRequest::Checkpoint(call(&worker, steps, Then::Continue))).await;
    let then = Then::Report { outcome: Outcome::Released, claims: None };
    family.ask(driver, run, RunRequest::Checkpoint(call(&worker, Vec::new(), then))).await;
    driver.wait(PAUSE);
}

async fn pinned<F: Fixture>(driver: &mut Driver<F>, family: &mut Family, build: &str) -> TaskKey {
    let run = driver.add(&Scope::default(), "flow").await;
    pin(driver, family, &run, build).await;
    run
}

/// The tasks that a poll of this queue would be given.
async fn offered<F: Fixture>(driver: &mut Driver<F>, queue: &str) -> Vec<TaskId> {
    driver.pause().await;
    let want = Want { scope: Scope::default(), queues: vec![queue.into()], kinds: None, max: 9 };
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let now = batch.moment().await.expect("the clock can be read").now;
    let ready = batch.ready(&[want], now).await.expect("ready tasks can be found");
    // What does not fit into its flow key is parked with the commit.
    batch.commit().await.expect("the batch commits");
    ready.into_iter().flatten().map(|ready| ready.task.id).collect()
}

async fn depth<F: Fixture>(driver: &Driver<F>) -> Vec<QueueDepth> {
    driver.browse().queues(Some(&Scope::default())).await.expect("browsing works")
}

pub async fn are_offered_to_their_build_only<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let run = pinned(driver, &mut family, "7").await;
    let free = driver.add(&Scope::default(), "flow").await;
    assert_eq!(offered(driver, "flow").await, [free.id]);
    assert_eq!(offered(driver, "flow@7").await, [run.id]);
    assert_eq!(offered(driver, "flow@8").await, []);
    assert_eq!(grant(driver, &mut family, &run, "8").await, None, "the rules check it again");
    // People see the queue that both were submitted to.
    let depths = depth(driver).await;
    let seen: Vec<_> = depths.iter().map(|it| (it.queue.as_str(), it.ready)).collect();
    assert_eq!(seen, [("flow", 2)]);
    let ahead = driver.browse().count_ahead(&free, 9).await.expect("browsing works");
    assert_eq!(ahead, Ahead::default(), "workers of other builds do not take the pinned run first");
    let worker = grant(driver, &mut family, &run, "7").await.expect("it is the build's");
    let (scope, queues) = (Scope::default(), ["flow".into()]);
    let held = driver.browse().held_leases(&scope, Some(&queues), None, 9).await;
    let held: Vec<HeldLeases> = held.expect("browsing works");
    assert_eq!((held.len(), held[0].queue.as_str(), held[0].count), (1, "flow", 1));
    family.ask(driver, &run, finish(&worker)).await;
    assert_eq!(driver.load(&run).await.state(), Some(State::Succeeded));
    family.check(driver).await;
}

pub async fn return_to_their_build_after_a_loss<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let run = pinned(driver, &mut family, "7").await;
    grant(driver, &mut family, &run, "7").await.expect("it is the build's");
    driver.wait(DAY);
    family.sweep(driver).await;
    driver.wait(PAUSE);
    assert_eq!(driver.load(&run).await.state(), Some(State::Retry));
    assert_eq!(offered(driver, "flow").await, []);
    assert_eq!(offered(driver, "flow@7").await, [run.id]);
    family.check(driver).await;
}

pub async fn leave_their_queue_with_the_pin<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let run = pinned(driver, &mut family, "7").await;
    assert_eq!(offered(driver, "flow@7").await, [run.id]);
    let unpinned = family.ask(driver, &run, RunRequest::Unpin).await;
    assert!(matches!(unpinned, Answer::Run(it) if matches!(*it, RunAnswer::Unpinned { .. })));
    assert_eq!(offered(driver, "flow@7").await, []);
    assert_eq!(offered(driver, "flow").await, [run.id]);
    // It has records, so that the next worker's build is its build at once.
    let worker = grant(driver, &mut family, &run, "8").await.expect("it is free");
    let then = Then::Report { outcome: Outcome::Released, claims: None };
    family.ask(driver, &run, RunRequest::Checkpoint(call(&worker, Vec::new(), then))).await;
    driver.wait(PAUSE);
    assert_eq!(offered(driver, "flow").await, []);
    assert_eq!(offered(driver, "flow@8").await, [run.id]);
    family.check(driver).await;
}

pub async fn wait_for_a_slot_of_their_key<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let mut submissions = Vec::new();
    for queue in ["flow", "other"] {
        let mut submission = driver.submission(&Scope::default(), queue);
        submission.submit.flow = Some(Box::new(FlowKey::new("customer", 1)));
        submissions.push(submission);
    }
    let [run, other] = [0, 1].map(|n: usize| submissions[n].task_key());
    for submission in submissions {
        driver.submit(submission).await;
    }
    pin(driver, &mut family, &run, "7").await;
    let worker = lease(driver, "other").await;
    assert_eq!(offered(driver, "flow@7").await, [], "its key is full");
    family.ask(driver, &other, finish(&worker)).await;
    assert_eq!(offered(driver, "flow").await, []);
    assert_eq!(offered(driver, "flow@7").await, [run.id]);
    family.check(driver).await;
}

pub async fn leave_nothing_behind<F: Fixture>(driver: &mut Driver<F>) {
    let mut family = Family::new(Delivery::AtOnce);
    let ended = pinned(driver, &mut family, "7").await;
    let live = pinned(driver, &mut family, "8").await;
    let worker = grant(driver, &mut family, &ended, "7").await.expect("it is the build's");
    family.ask(driver, &ended, finish(&worker)).await;
    driver.wait(DAY);
    driver.wait(PAUSE);
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let found = batch.ended(None, 9).await.expect("ends can be looked at");
    let forgotten: Vec<_> = found.iter().map(|it| it.position).collect();
    assert_eq!(forgotten.len(), 1);
    batch.save(Decided { forgotten, ..Decided::default() }).await.expect("it ended a day ago");
    batch.commit().await.expect("the batch commits");
    assert_eq!(offered(driver, "flow@8").await, [live.id], "a run of another build stays");
    let again = pinned(driver, &mut family, "7").await;
    assert_eq!(offered(driver, "flow@7").await, [again.id]);
    let found = verify(driver.store().browse()).await.expect("the store can be read");
    assert_eq!((found.tasks, found.findings), (2, Vec::new()));
}
