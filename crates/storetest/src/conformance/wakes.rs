//! When to wake, and the store's time.

use store::seam::{Store, Writer};
use verdict::{Scope, Span, Time};

use super::driver::Driver;
use super::fixture::Fixture;

async fn next_wake<F: Fixture>(driver: &mut Driver<F>) -> Option<Time> {
    driver.writer().next_wake().await.expect("the store says when to wake")
}

pub async fn names_the_earliest_instant<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    assert_eq!(next_wake(driver).await, None);
    assert_eq!(driver.writer().shortest_lease(), None);
    let start = driver.now();
    let mut delayed = driver.submission(&scope, "images");
    delayed.submit.run_at = Some(start.plus(Span::from_secs(50)));
    driver.submit(delayed).await;
    assert_eq!(next_wake(driver).await, Some(start.plus(Span::from_secs(50))));
    let mut short = driver.submission(&scope, "images");
    short.submit.policy.lease = Span::from_secs(40);
    driver.submit(short).await;
    assert_eq!(driver.lease(&scope, "images", 9).await.len(), 1);
    // S2-100: lease expiry is an instant to wake at, and no lease is forgotten.
    assert_eq!(next_wake(driver).await, Some(start.plus(Span::from_secs(40))));
    assert_eq!(driver.writer().shortest_lease(), Some(Span::from_secs(40)));
    driver.wait(Span::from_secs(45));
    // An overdue instant is still reported, until the task is swept.
    assert_eq!(next_wake(driver).await, Some(start.plus(Span::from_secs(40))));
    driver.sweep().await;
    assert!(next_wake(driver).await >= Some(start.plus(Span::from_secs(45))));
    assert_eq!(driver.writer().shortest_lease(), None);
}

/// The wall clock may be set back; the store's time does not follow it, not even across a restart.
pub async fn never_runs_backwards<F: Fixture>(driver: &mut Driver<F>) {
    driver.wait(Span::from_secs(100));
    driver.add(&Scope::default(), "images").await;
    let before = driver.now();
    driver.clock().set_wall(Time::from_millis(before.millis() - 600_000));
    // one clock decides, and it only moves forwards.
    assert!(driver.now() >= before);
    driver.reopen().await;
    assert!(driver.now() >= before);
    assert_eq!(driver.store().status().last_commit_at, Some(before));
    driver.wait(Span::from_secs(5));
    assert_eq!(driver.now(), before.plus(Span::from_secs(5)));
}
