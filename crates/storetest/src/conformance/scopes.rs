//! A scope never sees rows of another one.

use store::browse::{Browse, RowsAfter};
use store::row::{Filter, IdempotencyKey, Listing, PollRef, TaskKey};
use store::seam::{Batch, Lookup, Writer};
use verdict::{Scope, Span, Subject};

use super::driver::{Driver, caller};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

/// The same ids, keys, queues and names, requested from scopes that differ in one half only.
pub async fn never_leak<F: Fixture>(driver: &mut Driver<F>) {
    let ours = Scope::new("acme", "main");
    let theirs =
        [Scope::new("acme", "side"), Scope::new("evil", "main"), Scope::new("acm", "emain")];
    let mut canary = driver.submission(&ours, "images").with_key("k");
    canary.spec.labels = [("secret".to_owned(), "canary".to_owned())].into();
    let live = canary.task_key();
    driver.submit(canary.clone()).await;
    let ended = driver.add(&ours, "other").await;
    let leased = driver.lease(&ours, "other", 1).await;
    driver.about(&ended, report(&caller(&leased[0]), succeeded())).await;
    for scope in &theirs {
        for id in [live.id, ended.id] {
            check_task(driver, &TaskKey { scope: scope.clone(), id }).await;
        }
        // keys, queues and lists of another scope are as if they did not exist.
        let filter = Filter { limit: 99, ..Filter::default() };
        let listing = driver.browse().list(scope, &filter).await.expect("browsing works");
        assert_eq!(listing, Listing::default());
        assert_eq!(driver.browse().queues(Some(scope)).await.expect("browsing works"), []);
        assert_eq!(driver.lease(scope, "images", 9).await, []);
        let mut batch = driver.writer().begin().await.expect("a batch can be begun");
        let key = IdempotencyKey { scope: scope.clone(), text: "k".into() };
        assert_eq!(
            batch.look_up(Lookup::keys(&[key])).await.expect("holders works").owners,
            [None]
        );
        let poll = PollRef { scope: scope.clone(), owner: "ann".into(), poll: "p".into() };
        assert_eq!(
            batch.look_up(Lookup::polls(&[poll])).await.expect("polled works").leased,
            [Some(vec![])]
        );
    }
    // the same key in another scope is another key.
    let twin = driver.submission(&theirs[0], "images").with_key("k");
    let twin_key = twin.task_key();
    driver.submit(twin).await;
    driver.wait(Span::from_secs(1));
    assert!(driver.load(&twin_key).await.live().is_some());
    assert_eq!(driver.lease(&theirs[0], "images", 9).await.len(), 1);
    assert_eq!(driver.lease(&ours, "images", 9).await.len(), 1);
}

async fn check_task<F: Fixture>(driver: &mut Driver<F>, key: &TaskKey) {
    assert_eq!(driver.load(key).await, Subject::Absent);
    let browse = driver.browse();
    assert_eq!(browse.find(key).await.expect("browsing works"), None);
    assert!(browse.overview(key, 99).await.expect("browsing works").is_none());
    assert_eq!(
        browse.rows(key, RowsAfter::Entry(0), 99).await.expect("browsing works").history,
        []
    );
    assert_eq!(
        browse.rows(key, RowsAfter::Attempt(0), 99).await.expect("browsing works").attempts,
        []
    );
    assert_eq!(
        browse.rows(key, RowsAfter::Refusal(None), 99).await.expect("browsing works").refused,
        []
    );
}
