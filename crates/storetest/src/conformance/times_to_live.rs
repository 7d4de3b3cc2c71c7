//! Times to live: when they wake the store, and what they end.

use store::row::TaskKey;
use store::seam::Writer;
use verdict::request::Started;
use verdict::{Answer, Reason, Request, Scope, Span, State, Subject, Time};

use super::driver::{Driver, caller};
use super::fixture::Fixture;

const TTL: Span = Span::from_secs(20);

async fn waiting<F: Fixture>(driver: &mut Driver<F>) -> TaskKey {
    let mut submission = driver.submission(&Scope::default(), "images");
    submission.submit.policy.ttl = Some(TTL);
    let key = submission.task_key();
    driver.submit(submission).await;
    key
}

async fn next_wake<F: Fixture>(driver: &mut Driver<F>) -> Option<Time> {
    driver.writer().next_wake().await.expect("the store says when to wake")
}

pub async fn end_what_no_worker_took<F: Fixture>(driver: &mut Driver<F>) {
    let key = waiting(driver).await;
    let end = driver.now().plus(TTL);
    assert_eq!(next_wake(driver).await, Some(end));
    driver.wait(Span::from_millis(19_999));
    assert_eq!(driver.sweep().await, []);
    driver.wait(Span::from_millis(1));
    assert_eq!(driver.sweep().await, [(key.id, Answer::Done)]);
    let Subject::Done(done) = driver.load(&key).await else { panic!("has ended") };
    assert_eq!((done.end.state, done.end.reason), (State::Failed, Some(Reason::TtlExpired)));
    assert_eq!(next_wake(driver).await, None);
}

pub async fn leave_alone_what_a_worker_took<F: Fixture>(driver: &mut Driver<F>) {
    let key = waiting(driver).await;
    let scope = Scope::default();
    let caller = caller(&driver.lease(&scope, "images", 1).await[0]);
    let start = Started { caller, claimed_at: None };
    driver.about(&key, Request::Started(start)).await;
    driver.wait(TTL);
    assert_eq!(driver.sweep().await, []);
    // The worker is lost. The retry waits for another one as long as it takes.
    driver.wait(Span::from_secs(90));
    assert_eq!(driver.sweep().await, [(key.id, Answer::Done)]);
    driver.wait(Span::from_secs(3_600));
    assert_eq!(driver.sweep().await, []);
    assert_eq!(driver.lease(&scope, "images", 1).await.len(), 1);
}
