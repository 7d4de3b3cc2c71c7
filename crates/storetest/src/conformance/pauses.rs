//! Paused queues: kept, given to batches, and fenced.

use store::failure::{CommitFailure, FailureKind};
use store::pauses::{PauseChange, QueuePause};
use store::row::Want;
use store::seam::{Batch, Writer};
use store::{Administration, Browse, Store};
use verdict::{Answer, Scope, Span};

use super::carry::{Call, Poll, carry};
use super::driver::{Driver, caller, granted, key_of};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

fn pause(scope: &Scope, queue: &str, at: verdict::Time) -> QueuePause {
    let (scope, reason) = (scope.clone(), Some("a migration".into()));
    QueuePause { scope, queue: queue.into(), at, by: "0123456789abcdef".into(), reason }
}

async fn change<F: Fixture>(driver: &mut Driver<F>, changes: Vec<PauseChange>) {
    driver.pause().await;
    let act = Administration { pauses: changes, ..Administration::default() };
    driver.writer().administer(&act).await.expect("the change is written");
}

fn resume(scope: &Scope, queue: &str) -> PauseChange {
    PauseChange::Resume { scope: scope.clone(), queue: queue.into() }
}

async fn stored<F: Fixture>(driver: &mut Driver<F>) -> Vec<QueuePause> {
    driver.pause().await;
    let paused = driver.browse().paused_queues().await.expect("browsing works");
    paused.iter().cloned().collect()
}

pub async fn are_kept_as_they_are_now<F: Fixture>(driver: &mut Driver<F>) {
    let (scope, other, now) = (Scope::default(), Scope::new("acme", "main"), driver.now());
    assert_eq!(stored(driver).await, []);
    let first = pause(&scope, "images", now);
    let bare = QueuePause { reason: None, ..pause(&other, "images", now) };
    change(driver, vec![PauseChange::Pause(first.clone()), PauseChange::Pause(bare.clone())]).await;
    assert_eq!(stored(driver).await, [bare.clone(), first]);
    let again = pause(&scope, "images", now.plus(Span::from_secs(1)));
    change(driver, vec![PauseChange::Pause(again.clone()), resume(&scope, "nothing")]).await;
    assert_eq!(stored(driver).await, [bare.clone(), again]);
    change(driver, vec![resume(&scope, "images")]).await;
    assert_eq!(stored(driver).await, [bare]);
}

pub async fn grant_nothing_and_let_the_rest_go_on<F: Fixture>(driver: &mut Driver<F>) {
    let (scope, now) = (Scope::default(), driver.now());
    driver.add(&scope, "images").await;
    let running = driver.lease(&scope, "images", 1).await;
    driver.add(&scope, "images").await;
    let mail = driver.add(&scope, "mails").await;
    change(driver, vec![PauseChange::Pause(pause(&scope, "images", now))]).await;
    // Only this queue of this scope; a task that is submitted now waits, too.
    let late = driver.add(&scope, "images").await;
    assert_eq!(driver.lease(&scope, "images", 9).await, []);
    assert_eq!(key_of(&driver.lease(&scope, "mails", 9).await[0]), mail);
    let foreign = Scope::new("acme", "main");
    driver.add(&foreign, "images").await;
    assert_eq!(driver.lease(&foreign, "images", 9).await.len(), 1);
    let done = driver.about(&key_of(&running[0]), report(&caller(&running[0]), succeeded())).await;
    assert!(matches!(done, Answer::Committed { .. }), "{done:?}");
    change(driver, vec![resume(&scope, "images")]).await;
    let waited = driver.lease(&scope, "images", 9).await;
    assert_eq!(waited.len(), 2);
    assert_eq!(key_of(&waited[1]), late);
}

/// A batch that was begun before a pause cannot commit a grant after it.
pub async fn fence_batches_that_began_before<F: Fixture>(driver: &mut Driver<F>) {
    let (scope, now) = (Scope::default(), driver.now());
    let key = driver.add(&scope, "images").await;
    let store = driver.store().clone();
    if store.status().writers < 2 {
        // The only writer pauses between its batches.
        return;
    }
    let mut peer = store.writer().await.expect("a second writer");
    let want = Want { scope: scope.clone(), queues: vec!["images".into()], kinds: None, max: 1 };
    let poll = Poll { want, worker: "ann".into(), name: None, first_lease: 1 << 96 };
    let mut batch = peer.begin().await.expect("a batch can be begun");
    let epoch = store.status().epoch;
    let given = carry(&mut batch, epoch, Call::Poll(poll)).await.expect("the store takes it");
    assert_eq!(granted(given).len(), 1);
    let act = Administration {
        pauses: vec![PauseChange::Pause(pause(&scope, "images", now))],
        ..Administration::default()
    };
    driver.writer().administer(&act).await.expect("the queue is paused");
    let refused = batch.commit().await;
    let is_conflict = |refused: &CommitFailure| {
        matches!(refused, CommitFailure::RolledBack(failure)
            if matches!(failure.kind, FailureKind::Conflict(_)))
    };
    assert!(refused.as_ref().is_err_and(is_conflict), "{refused:?}");
    let batch = peer.begin().await.expect("another batch can be begun");
    assert!(batch.paused().contains(&scope, &"images".into()), "the conflict taught it");
    drop(batch);
    drop(peer);
    let task = driver.load(&key).await;
    assert!(task.live().is_some_and(|task| task.lease().is_none()), "{task:?}");
}
