//! Rates of flow keys: never more starts in a window than the rate says, also over restarts, and no task that is forgotten.

use store::browse::Browse;
use store::row::{FlowFilter, FlowKeyRow, TaskWithSpec, Want};
use store::seam::{Store, Writer};
use verdict::flow::{Rate, Terms, UNLIMITED};
use verdict::request::{Outcome, Report};
use verdict::{Answer, Digest, FlowKey, Refusal, Request, Scope, Span, Time};

use super::carry::{Call, CallResult, Poll, Submission, carry};
use super::driver::{Driver, caller, key_of};
use super::fixture::Fixture;

const PER: Span = Span::from_secs(10);

fn terms(limit: u32, count: u32) -> Terms {
    Terms { limit, rate: Some(Rate { count, per: PER }) }
}

fn rated(mut submission: Submission, key: &str, terms: Terms) -> Submission {
    submission.submit.flow = Some(Box::new(FlowKey::new(key, terms)));
    submission
}

async fn add<F: Fixture>(driver: &mut Driver<F>, queue: &str, terms: Terms) {
    let submission = rated(driver.submission(&Scope::default(), queue), "acme", terms);
    let answer = driver.submit(submission).await;
    assert!(matches!(answer, Answer::Accepted { .. }), "{answer:?}");
}

async fn lease<F: Fixture>(driver: &mut Driver<F>, queue: &str) -> Vec<TaskWithSpec> {
    driver.lease(&Scope::default(), queue, 9).await
}

async fn end<F: Fixture>(driver: &mut Driver<F>, leased: &TaskWithSpec) {
    let outcome = Outcome::Succeeded { output: None };
    let (caller, digest) = (caller(leased), Digest::of(&[]));
    let report = Request::Report(Report { caller, outcome, digest, claims: None, by: None });
    let answer = driver.about(&key_of(leased), report).await;
    assert!(matches!(answer, Answer::Committed { .. }), "{answer:?}");
}

async fn row<F: Fixture>(driver: &Driver<F>) -> FlowKeyRow {
    let scope = Scope::default();
    let filter = FlowFilter { scope, key: None, after: None, limit: 9, holders: 3 };
    driver.browse().flow_keys(&filter).await.expect("browsing works").remove(0)
}

pub async fn start_no_more_than_their_rate<F: Fixture>(driver: &mut Driver<F>) {
    // Over all queues of the scope, and a key that may start none keeps no other task from its worker.
    for queue in ["images", "mails", "images", "mails", "images"] {
        add(driver, queue, terms(UNLIMITED, 2)).await;
    }
    driver.add(&Scope::default(), "images").await;
    let first = lease(driver, "images").await;
    assert_eq!(first.len(), 3, "two with the key, and the one without");
    let opens_at = driver.now().plus(PER);
    // Ends free no start.
    end(driver, &first[0]).await;
    end(driver, &first[1]).await;
    assert_eq!(lease(driver, "mails").await, []);
    let full = row(driver).await;
    assert_eq!((full.rate.map(|it| it.left), full.parked()), (Some(0), 3));
    assert!(
        full.opens_at.is_some_and(|at| at <= opens_at && at.plus(Span::from_secs(5)) > opens_at)
    );
    driver.wait(Span::from_millis(PER.millis() - 2_000));
    assert_eq!(lease(driver, "mails").await, [], "the window is not over");
    driver.wait(Span::from_secs(3));
    assert_eq!(lease(driver, "mails").await.len(), 2);
    assert_eq!(lease(driver, "images").await, [], "two have started again");
    driver.wait(PER);
    assert_eq!(lease(driver, "images").await.len(), 1, "none is forgotten");
}

pub async fn wake_when_their_rate_opens<F: Fixture>(driver: &mut Driver<F>) {
    add(driver, "images", terms(UNLIMITED, 1)).await;
    add(driver, "images", terms(UNLIMITED, 1)).await;
    let first = lease(driver, "images").await;
    let granted = first[0].task.lease().expect("it is leased").acquired_at;
    end(driver, &first[0]).await;
    // Nothing else would wake a coordinator: no lease lives, and no task is due.
    assert_eq!(lease(driver, "images").await, []);
    let wake = next_wake(driver).await;
    assert_eq!(wake, Some(granted.plus(PER)));
    driver.wait(PER);
    assert_eq!(lease(driver, "images").await.len(), 1);
}

async fn next_wake<F: Fixture>(driver: &mut Driver<F>) -> Option<Time> {
    driver.writer().next_wake().await.expect("the store can be read")
}

pub async fn remember_starts_over_restarts_and_ends<F: Fixture>(driver: &mut Driver<F>) {
    add(driver, "images", terms(UNLIMITED, 1)).await;
    let first = lease(driver, "images").await;
    end(driver, &first[0]).await;
    driver.reopen().await;
    // No task of the key lives, and its start still counts.
    add(driver, "images", terms(UNLIMITED, 1)).await;
    assert_eq!(lease(driver, "images").await, []);
    driver.reopen().await;
    assert_eq!(lease(driver, "images").await, []);
    driver.wait(PER);
    assert_eq!(lease(driver, "images").await.len(), 1);
}

pub async fn have_a_limit_beside_the_rate<F: Fixture>(driver: &mut Driver<F>) {
    for _ in 0..4 {
        add(driver, "images", terms(1, 2)).await;
    }
    let one = lease(driver, "images").await;
    assert_eq!(one.len(), 1, "one slot");
    end(driver, &one[0]).await;
    let two = lease(driver, "images").await;
    assert_eq!(two.len(), 1, "two starts");
    end(driver, &two[0]).await;
    assert_eq!(lease(driver, "images").await, [], "the slot is free, and no start is left");
    driver.wait(PER);
    assert_eq!(lease(driver, "images").await.len(), 1, "two starts, one slot");
    let other = rated(driver.submission(&Scope::default(), "mails"), "acme", terms(1, 3));
    let (in_force, asked) = (terms(1, 2), terms(1, 3));
    let refusal = Refusal::FlowLimitConflict { key: "acme".into(), in_force, asked };
    assert_eq!(driver.submit(other).await, Answer::Refused(refusal));
}

pub async fn count_no_start_of_a_dropped_batch<F: Fixture>(driver: &mut Driver<F>) {
    add(driver, "images", terms(UNLIMITED, 1)).await;
    driver.pause().await;
    let epoch = driver.store().status().epoch;
    let first_lease = driver.number() << 32;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let want = Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max: 4 };
    let poll = Poll { want, worker: "ann".into(), name: None, first_lease };
    let granted = carry(&mut batch, epoch, Call::Poll(poll)).await.expect("the store gives");
    assert!(matches!(granted, CallResult::Granted(tasks) if tasks.len() == 1));
    drop(batch);
    let leased = lease(driver, "images").await;
    if leased.is_empty() {
        // What was dropped is rolled back by then.
        driver.reopen().await;
        assert_eq!(lease(driver, "images").await.len(), 1, "nothing has started");
    }
}

pub async fn start_thousands_without_losing_one<F: Fixture>(driver: &mut Driver<F>) {
    const TASKS: usize = 1_000;
    let rate = Some(Rate { count: 250, per: PER });
    let mut left = TASKS;
    let mut submissions = Vec::new();
    for _ in 0..TASKS {
        let plain = driver.submission(&Scope::default(), "images");
        let submission = rated(plain, "acme", Terms { limit: UNLIMITED, rate });
        submissions.push(Call::Submit(submission));
    }
    driver.ask_all(submissions).await;
    while left > 0 {
        let mut started = 0;
        loop {
            let leased = driver.lease(&Scope::default(), "images", 100).await;
            if leased.is_empty() {
                break;
            }
            started += leased.len();
        }
        assert!(started <= 250 && started > 0, "{started} of {left}");
        left -= started;
        driver.wait(PER);
    }
}
