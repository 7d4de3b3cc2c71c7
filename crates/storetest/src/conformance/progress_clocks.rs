//! Progress clocks: what is stored of them, and when they wake the store.

use store::browse::{Browse, RowsAfter};
use store::row::TaskKey;
use store::seam::Writer;
use verdict::request::{Caller, Extend, Heartbeat, Started};
use verdict::{
    Answer, AttemptOutcome, OnStall, Progress, ProgressClock, ProgressMark, Reason, Request, Scope,
    Span, State, Subject, Task, Time,
};

use super::driver::{Driver, caller};
use super::fixture::Fixture;

const AFTER: Span = Span::from_secs(20);

/// A task whose worker has started and sends heartbeats.
async fn started<F: Fixture>(driver: &mut Driver<F>, action: OnStall) -> (TaskKey, Caller) {
    let scope = Scope::default();
    let mut submission = driver.submission(&scope, "images");
    submission.submit.policy.progress_clock = Some(ProgressClock { after: AFTER, action });
    let key = submission.task_key();
    driver.submit(submission).await;
    let caller = caller(&driver.lease(&scope, "images", 1).await[0]);
    let start = Started { caller: caller.clone(), claimed_at: None };
    driver.about(&key, Request::Started(start)).await;
    (key, caller)
}

fn beat(caller: &Caller, percent: Option<u8>) -> Request {
    let progress = percent.map(|percent| Progress { percent: Some(percent), message: None });
    Request::Heartbeat(Heartbeat { caller: caller.clone(), progress })
}

async fn live<F: Fixture>(driver: &mut Driver<F>, key: &TaskKey) -> Task {
    match driver.load(key).await {
        Subject::Live(task) => task,
        other => panic!("still live, and not {:?}", other.state()),
    }
}

async fn mark<F: Fixture>(driver: &mut Driver<F>, key: &TaskKey) -> Option<ProgressMark> {
    live(driver, key).await.lease().and_then(|lease| lease.progress_mark)
}

async fn next_wake<F: Fixture>(driver: &mut Driver<F>) -> Option<Time> {
    driver.writer().next_wake().await.expect("the store says when to wake")
}

pub async fn stall_at_their_instant<F: Fixture>(driver: &mut Driver<F>) {
    let (key, caller) = started(driver, OnStall::Warn).await;
    let begun = driver.now();
    assert_eq!(driver.writer().shortest_lease(), Some(AFTER), "a silence of ours matters sooner");
    driver.wait(Span::from_secs(15));
    driver.about(&key, beat(&caller, None)).await;
    assert_eq!(next_wake(driver).await, Some(begun.plus(AFTER)));
    driver.wait(Span::from_millis(4_999));
    assert_eq!(driver.sweep().await, []);
    driver.wait(Span::from_millis(1));
    assert_eq!(driver.sweep().await, [(key.id, Answer::Done)]);
    let stalled_at = Some(driver.now());
    assert_eq!(mark(driver, &key).await, Some(ProgressMark { at: begun, stalled_at }));
    assert_eq!(driver.sweep().await, [], "a stall is found once");
}

pub async fn are_kept_with_what_heartbeats_say<F: Fixture>(driver: &mut Driver<F>) {
    let (key, caller) = started(driver, OnStall::Warn).await;
    driver.wait(AFTER);
    driver.sweep().await;
    driver.about(&key, beat(&caller, Some(10))).await;
    let at = driver.now();
    assert_eq!(mark(driver, &key).await, Some(ProgressMark { at, stalled_at: None }));
    driver.wait(Span::from_secs(7));
    // The same progress again is none.
    driver.about(&key, beat(&caller, Some(10))).await;
    assert_eq!(mark(driver, &key).await, Some(ProgressMark { at, stalled_at: None }));
    assert_eq!(next_wake(driver).await, Some(at.plus(AFTER)));
}

pub async fn take_back_what_is_stuck<F: Fixture>(driver: &mut Driver<F>) {
    let (key, caller) = started(driver, OnStall::Requeue).await;
    driver.wait(AFTER);
    assert_eq!(driver.sweep().await, [(key.id, Answer::Done)]);
    let late = driver.about(&key, beat(&caller, Some(99))).await;
    assert!(matches!(late, Answer::Refused(_)), "{late:?}");
    let again = driver.lease(&Scope::default(), "images", 1).await;
    assert_eq!((again[0].task.attempt, again[0].task.lost), (2, 1));
    let rows = driver.browse().rows(&key, RowsAfter::Attempt(0), 99).await;
    let attempts = rows.expect("browsing works").attempts;
    let ended = (attempts[0].outcome, attempts[0].reason);
    assert_eq!(ended, (AttemptOutcome::Revoked, Some(Reason::Stalled)));
    assert_eq!(mark(driver, &key).await, None, "the next attempt has its own clock");
}

pub async fn cancel_what_is_stuck<F: Fixture>(driver: &mut Driver<F>) {
    let (key, caller) = started(driver, OnStall::Cancel).await;
    driver.wait(AFTER);
    driver.sweep().await;
    let told = driver.about(&key, beat(&caller, None)).await;
    assert!(matches!(told, Answer::Alive { cancel: Some(_), .. }), "{told:?}");
    driver.wait(Span::from_secs(30));
    assert_eq!(driver.sweep().await, [(key.id, Answer::Done)]);
    let Subject::Done(done) = driver.load(&key).await else { panic!("the grace is over") };
    assert_eq!((done.end.state, done.end.reason), (State::Failed, Some(Reason::CancelTimeout)));
    let reason = done.cancel.and_then(|cancel| cancel.reason).expect("a reason was given");
    assert!(reason.as_str().starts_with("STALLED"), "{}", reason.as_str());
}

pub async fn stand_still_while_nobody_could_be_heard<F: Fixture>(driver: &mut Driver<F>) {
    let (key, _) = started(driver, OnStall::Requeue).await;
    let stalled_since = driver.now();
    driver.wait(Span::from_secs(300));
    let gap = Span::from_secs(300);
    driver.about(&key, Request::Extend(Extend { stalled_since, gap })).await;
    assert_eq!(live(driver, &key).await.stalls_at(), Some(driver.now().plus(AFTER)));
    assert_eq!(driver.sweep().await, []);
}
