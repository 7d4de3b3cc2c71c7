//! What the passing of time changes.

use std::collections::BTreeSet;

use store::browse::{Browse, RowsAfter};
use store::row::Want;
use store::seam::{Batch, Plan, Selection, Writer};
use verdict::request::{Extend, Started};
use verdict::{Answer, AttemptOutcome, Reason, Request, Scope, Span, State, Subject, TaskId};

use super::carry::{Call, CallResult};
use super::driver::{Driver, caller, key_of};
use super::fixture::Fixture;

pub async fn finds_what_is_due_earliest_first<F: Fixture>(driver: &mut Driver<F>) {
    let mut made: Vec<TaskId> = Vec::new();
    for after in [30, 10, 20, 500] {
        let mut submission = driver.submission(&Scope::default(), "images");
        submission.submit.policy.deadline = Some(driver.now().plus(Span::from_secs(after)));
        made.push(submission.submit.id);
        driver.submit(submission).await;
    }
    driver.wait(Span::from_secs(30));
    driver.pause().await;
    let now = driver.now();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let due = |tasks: Vec<verdict::Task>| tasks.into_iter().map(|task| task.id).collect::<Vec<_>>();
    assert_eq!(
        due(batch.select(Selection::Due { now }, 2).await.expect("due works")),
        [made[1], made[2]]
    );
    assert_eq!(
        due(batch.select(Selection::Due { now }, 9).await.expect("due works")),
        [made[1], made[2], made[0]]
    );
    drop(batch);
    let swept = driver.sweep().await;
    assert_eq!(swept.len(), 3);
    assert!(swept.iter().all(|(_, answer)| *answer == Answer::Done));
    // A swept task is no longer due.
    assert_eq!(driver.sweep().await, []);
}

/// An excluded task is left out of everything that is selected, and others take its place.
pub async fn leaves_out_what_is_avoided<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let mut made: Vec<TaskId> = Vec::new();
    for _ in 0..4 {
        let mut submission = driver.submission(&scope, "images");
        submission.submit.policy.deadline = Some(driver.now().plus(Span::from_secs(10)));
        made.push(submission.submit.id);
        driver.submit(submission).await;
    }
    let running = driver.lease(&scope, "images", 2).await;
    let ids = |tasks: Vec<verdict::Task>| tasks.into_iter().map(|task| task.id).collect::<Vec<_>>();
    assert_eq!(running.iter().map(|ready| ready.task.id).collect::<Vec<_>>(), made[..2]);
    driver.pause().await;
    let now = driver.now();
    let excluded = BTreeSet::from([made[0], made[2]]);
    let want = Want { scope, queues: vec!["images".into()], kinds: None, max: 1 };
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch
        .prepare(Plan { exclude: Some(&excluded), ..Plan::default() })
        .await
        .expect("the plan is taken");
    let ready = batch.ready(&[want], now).await.expect("ready works").remove(0);
    assert_eq!(ids(ready.into_iter().map(|ready| ready.task).collect()), [made[3]]);
    let running = batch.select(Selection::Running { after: None }, 1).await;
    assert_eq!(ids(running.expect("running works")), [made[1]]);
    drop(batch);
    driver.wait(Span::from_secs(10));
    driver.pause().await;
    let now = driver.now();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch
        .prepare(Plan { exclude: Some(&excluded), ..Plan::default() })
        .await
        .expect("the plan is taken");
    assert_eq!(
        ids(batch.select(Selection::Due { now }, 2).await.expect("due works")),
        [made[1], made[3]]
    );
}

pub async fn takes_over_after_a_loss<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let first = caller(&driver.lease(&scope, "images", 1).await[0]);
    driver.about(&key, Request::Started(Started { caller: first.clone(), claimed_at: None })).await;
    driver.wait(Span::from_millis(89_999));
    assert_eq!(driver.sweep().await, []);
    driver.wait(Span::from_millis(1));
    // S0-48, S2-56, S2-103: the lease expires and another worker gets the task, with a new fence.
    assert_eq!(driver.sweep().await, [(key.id, Answer::Done)]);
    let second = driver.lease(&scope, "images", 1).await;
    assert_eq!(second[0].task.attempt, 2);
    let attempts = driver
        .browse()
        .rows(&key, RowsAfter::Attempt(0), 99)
        .await
        .expect("browsing works")
        .attempts;
    assert_eq!(attempts[0].outcome, AttemptOutcome::Lost);
    assert_eq!(attempts[0].reason, Some(Reason::HeartbeatTimeout));
    let fence = second[0].task.lease().map(|lease| lease.fence);
    assert!(fence > Some(attempts[0].fence));
    assert_eq!(driver.load(&key).await.state(), Some(State::Running));
}

pub async fn walks_running_tasks<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    for _ in 0..5 {
        driver.add(&scope, "images").await;
    }
    let leased = driver.lease(&scope, "images", 4).await;
    let stalled_since = driver.now();
    driver.wait(Span::from_secs(300));
    let request = Request::Extend(Extend { stalled_since, gap: Span::from_secs(300) });
    let said = driver.ask(Call::OfRunning { request, page: 3 }).await;
    // Every running task once, in order of id, page by page; the waiting one is not among them.
    let expected = leased.iter().map(|ready| (ready.task.id, Answer::Done)).collect();
    assert_eq!(said, CallResult::Each(expected));
    for ready in &leased {
        let Subject::Live(task) = driver.load(&key_of(ready)).await else { panic!("still live") };
        assert_eq!(
            task.lease().map(|lease| lease.expires_at),
            Some(stalled_since.plus(Span::from_secs(390)))
        );
    }
}
