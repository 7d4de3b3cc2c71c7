//! Cancels, from the request to the end.

use store::browse::{Browse, RowsAfter};
use verdict::request::{Cancel, CancelMode, Heartbeat};
use verdict::{Answer, Reason, Request, Scope, Span, State, Subject};

use super::driver::{Driver, caller};
use super::fixture::Fixture;

fn cancel() -> Request {
    Request::Cancel(Cancel { reason: Some("user_requested".into()), mode: CancelMode::Graceful })
}

pub async fn stops_waiting_tasks_at_once<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let requested_at = driver.now();
    let accepted = Answer::CancelAccepted { state: State::Cancelled, requested_at };
    assert_eq!(driver.about(&key, cancel()).await, accepted);
    // S2-23: no poll gets it, and no attempt was ever made.
    assert!(driver.lease(&scope, "images", 9).await.is_empty());
    assert!(
        driver
            .browse()
            .rows(&key, RowsAfter::Attempt(0), 99)
            .await
            .expect("browsing works")
            .attempts
            .is_empty()
    );
    driver.wait(Span::from_secs(5));
    assert_eq!(driver.about(&key, cancel()).await, accepted);
}

pub async fn asks_running_tasks_and_then_insists<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let caller = caller(&driver.lease(&scope, "images", 1).await[0]);
    driver.about(&key, cancel()).await;
    let beat = Request::Heartbeat(Heartbeat { caller, progress: None });
    let heard = driver.about(&key, beat.clone()).await;
    assert!(matches!(heard, Answer::Alive { cancel: Some(_), .. }), "{heard:?}");
    driver.wait(Span::from_millis(29_999));
    driver.about(&key, beat).await;
    assert_eq!(driver.sweep().await, []);
    driver.wait(Span::from_millis(1));
    // W-13, S4-56: the store finds it when the grace is over, although its lease has not expired.
    assert_eq!(driver.sweep().await, [(key.id, Answer::Done)]);
    let Subject::Done(done) = driver.load(&key).await else { panic!("the task has ended") };
    assert_eq!(done.end.reason, Some(Reason::CancelTimeout));
    assert_eq!(done.cancel.and_then(|cancel| cancel.reason), Some("user_requested".into()));
}
