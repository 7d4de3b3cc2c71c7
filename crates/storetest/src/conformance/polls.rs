//! Polls with a name.

use store::row::{TaskWithSpec, Want};
use verdict::{Name, Scope};

use super::carry::{Call, Poll};
use super::driver::{Driver, caller, granted};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

async fn poll<F: Fixture>(driver: &mut Driver<F>, worker: &str, name: &str) -> Vec<TaskWithSpec> {
    let want = Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max: 2 };
    let first_lease = driver.number() << 32;
    let name = Some(Name::from(name));
    granted(driver.ask(Call::Poll(Poll { want, worker: worker.into(), name, first_lease })).await)
}

pub async fn recalls_what_a_named_poll_was_given<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    for _ in 0..4 {
        driver.add(&scope, "images").await;
    }
    let first = poll(driver, "ann", "p1").await;
    assert_eq!(first.len(), 2);
    // S3-59: the same poll repeated, after its answer was lost, gets the same leases.
    assert_eq!(poll(driver, "ann", "p1").await, first);
    let bob = poll(driver, "bob", "p1").await;
    assert!(bob.iter().all(|ready| !first.contains(ready)));
    assert_eq!(bob.len(), 2);
    let key = super::driver::key_of(&first[0]);
    driver.about(&key, report(&caller(&first[0]), succeeded())).await;
    // An ended task is no longer part of the answer.
    assert_eq!(poll(driver, "ann", "p1").await, first[1..]);
    assert_eq!(poll(driver, "ann", "p2").await, []);
}
