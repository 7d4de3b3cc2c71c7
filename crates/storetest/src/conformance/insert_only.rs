//! Rows that are written once: the store refuses a caller that writes them again.

use store::browse::{Browse, RowsAfter};
use store::failure::FailureKind;
use store::row::{Change, TaskKey};
use store::seam::{Batch, Decided, Lookup, Writer};
use verdict::request::{Cancel, CancelMode};
use verdict::{Context, Moment, Request, Scope, Subject};

use super::carry::change;
use super::driver::{Driver, caller};
use super::fixture::Fixture;
use super::reports::{failed, report, succeeded};

/// Tries to save and commit, and asserts that the store refuses.
async fn refuses<F: Fixture>(driver: &mut Driver<F>, change: Change) {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    let is_refused = match batch.save(Decided::changes(vec![change])).await {
        Err(_) => true,
        Ok(()) => batch.commit().await.is_err(),
    };
    assert!(is_refused, "the store wrote over what was written once");
}

/// The change that a cancel would make to the current task.
async fn next_change<F: Fixture>(driver: &mut Driver<F>, key: &TaskKey) -> Change {
    let subject = driver.load(key).await;
    let request = Request::Cancel(Cancel { reason: None, mode: CancelMode::Immediate });
    let at = Moment { now: driver.now(), epoch: 1, rules: verdict::Rules::NEWEST };
    let (_, change) = change(subject, Context::default(), &request, at);
    change.expect("a live task can be cancelled")
}

pub async fn refuses_to_change_what_ended<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let leased = driver.lease(&scope, "images", 1).await;
    let stale = next_change(driver, &key).await;
    driver.about(&key, report(&caller(&leased[0]), succeeded())).await;
    let done = driver.load(&key).await;
    // S2-41, S2-108, S2-111: not even a caller that breaks the rules can change an ended task.
    refuses(driver, stale.clone()).await;
    // Nor can a caller make it live again.
    let revived = Change { before: None, after: Subject::Live(leased[0].task.clone()), ..stale };
    refuses(driver, Change { spec: leased[0].spec.clone().whole().cloned(), ..revived }).await;
    assert_eq!(driver.load(&key).await, done);
}

/// No number is truncated or made negative by a narrow column: the change is refused, and the task is named.
pub async fn refuses_numbers_that_no_column_holds<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    driver.lease(&scope, "images", 1).await;
    let before = driver.load(&key).await;
    let beat =
        Change { entries: Vec::new(), closed: Vec::new(), ..next_change(driver, &key).await };
    type Spoil = fn(&mut verdict::Task);
    let spoils: [Spoil; 7] = [
        |task| task.claim_version = 1 << 31,
        |task| task.revision = 1 << 31,
        |task| task.entries = u32::MAX,
        |task| task.attempt = 1 << 31,
        |task| task.failures = 1 << 31,
        |task| task.lost = 1 << 31,
        |task| task.undelivered = 1 << 31,
    ];
    for spoil in spoils {
        let mut after = before.clone();
        let Subject::Live(task) = &mut after else { panic!("it runs") };
        spoil(task);
        driver.pause().await;
        let mut batch = driver.writer().begin().await.expect("a batch can be begun");
        let lookup = Lookup::tasks(std::slice::from_ref(&key));
        batch.look_up(lookup).await.expect("loading works");
        let change = Change { after, ..beat.clone() };
        let failure =
            batch.save(Decided::changes(vec![change])).await.expect_err("no column holds it");
        // W-27: the claim version never decreases, not even in a table.
        assert_eq!((failure.kind, failure.task), (FailureKind::Invalid, Some(key.id)));
        drop(batch);
        assert_eq!(driver.load(&key).await, before);
    }
}

pub async fn refuses_a_second_row_for_an_attempt<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let key = driver.add(&scope, "images").await;
    let leased = driver.lease(&scope, "images", 1).await;
    driver.about(&key, report(&caller(&leased[0]), failed())).await;
    let attempts = driver
        .browse()
        .rows(&key, RowsAfter::Attempt(0), 99)
        .await
        .expect("browsing works")
        .attempts;
    let again = Change { closed: attempts.clone(), ..next_change(driver, &key).await };
    // S3-12: the answer given to an attempt is final.
    refuses(driver, again).await;
    assert_eq!(
        driver
            .browse()
            .rows(&key, RowsAfter::Attempt(0), 99)
            .await
            .expect("browsing works")
            .attempts,
        attempts
    );
}

pub async fn refuses_gaps_in_history<F: Fixture>(driver: &mut Driver<F>) {
    let key = driver.add(&Scope::default(), "images").await;
    let honest = next_change(driver, &key).await;
    let mut again = honest.clone();
    again.entries[0].n = 1;
    // every decision has its own entry, numbered once.
    refuses(driver, again).await;
    assert_eq!(
        driver
            .browse()
            .rows(&key, RowsAfter::Entry(0), 9)
            .await
            .expect("browsing works")
            .history
            .len(),
        1
    );
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch.save(Decided::changes(vec![honest])).await.expect("the honest change is taken");
    batch.commit().await.expect("the batch commits");
    assert_eq!(
        driver
            .browse()
            .rows(&key, RowsAfter::Entry(0), 9)
            .await
            .expect("browsing works")
            .history
            .len(),
        2
    );
}
