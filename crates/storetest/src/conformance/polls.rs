//! Polls with a name.

use store::browse::Browse;
use store::lookup::{Lookup, POLLED_LEASES_MAX};
use store::row::{BatchSpec, PollRef, SPEC_IN_BATCH_BYTES_MAX, TaskWithSpec, Want};
use store::seam::{Batch, Writer};
use verdict::{Name, Scope, Text};

use super::carry::{Call, Poll};
use super::driver::{Driver, caller, granted, key_of};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

async fn poll<F: Fixture>(driver: &mut Driver<F>, worker: &str, name: &str) -> Vec<TaskWithSpec> {
    poll_for(driver, worker, name, 2).await
}

async fn poll_for<F: Fixture>(
    driver: &mut Driver<F>,
    worker: &str,
    name: &str,
    max: usize,
) -> Vec<TaskWithSpec> {
    let want = Want { scope: Scope::default(), queues: vec!["images".into()], kinds: None, max };
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
    let key = key_of(&first[0]);
    driver.about(&key, report(&caller(&first[0]), succeeded())).await;
    // An ended task is no longer part of the answer.
    assert_eq!(poll(driver, "ann", "p1").await, first[1..]);
    assert_eq!(poll(driver, "ann", "p2").await, []);
}

/// What one commit reads does not depend on how long the inputs are that it hands out, nor labels.
pub async fn leaves_what_is_long_to_readers<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let mut long = driver.submission(&scope, "images");
    long.spec.input = format!("\"{}\"", "x".repeat(SPEC_IN_BATCH_BYTES_MAX)).into();
    long.spec.traceparent = Some(Text::from("00-1-2-01"));
    let mut labelled = driver.submission(&scope, "images");
    let label = |n: usize| (format!("label-{n}"), "y".repeat(256));
    labelled.spec.labels = (0..SPEC_IN_BATCH_BYTES_MAX / 256).map(label).collect();
    let specs = [long.spec.clone(), labelled.spec.clone()];
    driver.submit(long).await;
    driver.submit(labelled).await;
    driver.pause().await;
    let leased = poll(driver, "ann", "p1").await;
    assert_eq!(leased.len(), 2);
    for again in [leased, poll(driver, "ann", "p1").await] {
        for (ready, spec) in again.iter().zip(&specs) {
            let (input_bytes, traceparent) = (spec.input.as_str().len(), spec.traceparent.clone());
            // Of a task that the engine has in memory it may give everything.
            if ready.spec.whole().is_none() {
                assert_eq!(ready.spec, BatchSpec::Long { input_bytes, traceparent });
            }
            let found = driver.browse().find(&key_of(ready)).await.expect("it can be read");
            assert_eq!(found.expect("it is there").spec, *spec);
        }
    }
    let recalled = recalled(driver, &["p1"]).await;
    let is_long = |ready: &TaskWithSpec| matches!(ready.spec, BatchSpec::Long { .. });
    assert!(recalled[0].iter().flatten().all(is_long), "a later batch reads none of it");
}

async fn recalled<F: Fixture>(
    driver: &mut Driver<F>,
    names: &[&str],
) -> Vec<Option<Vec<TaskWithSpec>>> {
    driver.pause().await;
    let poll = |name: &&str| PollRef {
        scope: Scope::default(),
        owner: "ann".into(),
        poll: Name::from(*name),
    };
    let polls: Vec<PollRef> = names.iter().map(poll).collect();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch.look_up(Lookup::polls(&polls)).await.expect("polls can be looked up").leased
}

pub async fn looks_up_leases_of_so_many_polls<F: Fixture>(driver: &mut Driver<F>) {
    let each = POLLED_LEASES_MAX * 2 / 3;
    let submissions: Vec<Call> = (0..2 * each + 1)
        .map(|_| Call::Submit(driver.submission(&Scope::default(), "images")))
        .collect();
    driver.ask_all(submissions).await;
    driver.pause().await;
    for (name, max) in [("p1", each), ("p2", each), ("p3", 1)] {
        assert_eq!(poll_for(driver, "ann", name, max).await.len(), max);
    }
    let found = recalled(driver, &["p1", "p0", "p2", "p3"]).await;
    let counts: Vec<_> = found.iter().map(|it| it.as_ref().map(Vec::len)).collect();
    // Without leases nothing is read; whoever waits keeps its place before those behind it.
    assert_eq!(counts, [Some(each), Some(0), None, None]);
    let found = recalled(driver, &["p2", "p3"]).await;
    let counts: Vec<_> = found.iter().map(|it| it.as_ref().map(Vec::len)).collect();
    assert_eq!(counts, [Some(each), Some(1)]);
}
