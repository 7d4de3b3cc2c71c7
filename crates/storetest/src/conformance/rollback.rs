//! A batch is atomic.

use store::browse::Browse;
use store::row::{Filter, IdempotencyKey};
use store::seam::{Batch, Decided, Lookup, Store, Writer};
use verdict::{Scope, Span, Subject};

use super::carry::{Call, carry};
use super::driver::Driver;
use super::fixture::Fixture;

pub async fn leaves_nothing_of_a_dropped_batch<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let kept = driver.add(&scope, "images").await;
    let before = driver.load(&kept).await;
    let lost = driver.submission(&scope, "letters").with_key("k");
    let poll = super::Poll {
        want: store::row::Want {
            scope: scope.clone(),
            queues: vec!["images".into(), "letters".into()],
            kinds: None,
            max: 9,
        },
        worker: "ann".into(),
        name: Some("p".into()),
        first_lease: driver.number() << 32,
    };
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    for ask in [Call::Submit(lost.clone()), Call::Poll(poll)] {
        carry(&mut batch, 1, ask).await.expect("the store takes what was decided");
    }
    drop(batch);
    // S2-104: what was not committed has no effect: no row, no key, no lease, no position in a queue.
    assert_eq!(driver.load(&lost.task_key()).await, Subject::Absent);
    assert_eq!(driver.load(&kept).await, before);
    let filter = Filter { limit: 9, ..Filter::default() };
    let listing = driver.browse().list(&scope, &filter).await.expect("browsing works");
    assert_eq!(listing.tasks.len(), 1);
    let key = IdempotencyKey { scope: scope.clone(), text: "k".into() };
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    assert_eq!(batch.look_up(Lookup::keys(&[key])).await.expect("holders works").owners, [None]);
    drop(batch);
    assert_eq!(driver.lease(&scope, "images", 9).await.len(), 1);
    assert_eq!(driver.lease(&scope, "letters", 9).await, []);
}

pub async fn shows_nothing_before_the_commit<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let submission = driver.submission(&scope, "images");
    let key = submission.task_key();
    let browse = driver.browse().clone();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    carry(&mut batch, 1, Call::Submit(submission)).await.expect("the store takes it");
    // S2-105, R-25: readers see it only once it is durable.
    assert_eq!(browse.find(&key).await.expect("browsing works"), None);
    batch.commit().await.expect("the batch commits");
    assert!(browse.find(&key).await.expect("browsing works").is_some());
    drop(browse);
    assert!(driver.load(&key).await.live().is_some());
}

/// After a restart the time of the last commit is known, also if that commit changed nothing.
pub async fn pulses_without_changes<F: Fixture>(driver: &mut Driver<F>) {
    driver.add(&Scope::default(), "images").await;
    driver.wait(Span::from_secs(7));
    let now = driver.now();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    assert_eq!(batch.moment().await.expect("the clock can be read").now, now);
    batch.save(Decided::keep_alive()).await.expect("the store takes it");
    batch.commit().await.expect("the batch commits");
    driver.wait(Span::from_secs(7));
    driver.reopen().await;
    assert_eq!(driver.store().status().last_commit_at, Some(now));
}
