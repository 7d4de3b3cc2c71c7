//! Deletes tasks that ended long ago, with all their rows, and nothing else.

use store::browse::{Browse, RowsAfter};
use store::failure::FailureKind;
use store::row::{EndedTask, TaskKey};
use store::seam::{Batch, Decided, Store, Writer};
use store::spend::{SpendQuery, spend_rows};
use store::verify::verify;
use verdict::request::{Cancel, CancelMode};
use verdict::scope_budget::{Day, whole_tenant};
use verdict::{Amounts, Answer, Request, Scope, Span, Subject};

use super::carry::Submission;
use super::driver::{Driver, caller};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

const DAY: Span = Span::from_secs(24 * 60 * 60);

async fn ended<F: Fixture>(driver: &mut Driver<F>) -> Vec<EndedTask> {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch.ended(None, 100).await.expect("ends can be looked at")
}

/// Deletes these, if the store agrees.
async fn forget<F: Fixture>(driver: &mut Driver<F>, gone: &[EndedTask]) -> Result<(), FailureKind> {
    driver.pause().await;
    let positions: Vec<_> = gone.iter().map(|ended| ended.position).collect();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch
        .save(Decided { forgotten: positions, ..Decided::default() })
        .await
        .map_err(|failure| failure.kind)?;
    batch.commit().await.expect("the batch commits");
    Ok(())
}

/// Runs a task of this queue until it succeeds.
async fn run<F: Fixture>(driver: &mut Driver<F>, submission: Submission) -> TaskKey {
    let key = submission.task_key();
    let queue = submission.submit.queue.clone();
    driver.submit(submission).await;
    let leased = driver.lease(&key.scope, queue.as_str(), 1).await;
    driver.about(&key, report(&caller(&leased[0]), succeeded())).await;
    key
}

/// Two that ended, an hour apart; one that has waited since before them; and the newest, which waits.
async fn two_ends<F: Fixture>(driver: &mut Driver<F>) -> [TaskKey; 4] {
    let scope = Scope::default();
    let waits = driver.add(&scope, "waiting").await;
    let first = driver.submission(&scope, "first").with_key("order 1");
    let first = run(driver, first).await;
    driver.wait(Span::from_secs(3_600));
    let second = driver.submission(&scope, "second").with_key("order 2");
    let second = run(driver, second).await;
    let latest = driver.add(&scope, "waiting").await;
    [waits, first, second, latest]
}

pub async fn forgets_ended_tasks_whole<F: Fixture>(driver: &mut Driver<F>) {
    let [waits, first, second, _] = two_ends(driver).await;
    driver.wait(DAY);
    let ends = ended(driver).await;
    // In order of submission, which deleting in slices relies on.
    assert_eq!(ends.len(), 2);
    assert!(ends[0].position < ends[1].position && ends[0].created_at <= ends[1].created_at);
    assert_eq!(ends[1].completed_at.since(ends[0].completed_at), Span::from_secs(3_600));
    forget(driver, &ends[..1]).await.expect("it ended a day ago");
    assert_eq!(driver.load(&first).await, Subject::Absent);
    let browse = driver.browse();
    assert_eq!(browse.find(&first).await.expect("browsing works"), None);
    assert_eq!(
        browse.rows(&first, RowsAfter::Entry(0), 9).await.expect("browsing works").history,
        []
    );
    assert_eq!(
        browse.rows(&first, RowsAfter::Attempt(0), 99).await.expect("browsing works").attempts,
        []
    );
    assert_eq!(
        browse.rows(&first, RowsAfter::Refusal(None), 99).await.expect("browsing works").refused,
        []
    );
    assert_eq!(ended(driver).await, ends[1..]);
    // All other tasks are unchanged, and the store is intact.
    assert!(driver.load(&waits).await.live().is_some());
    assert_eq!(
        driver
            .browse()
            .rows(&second, RowsAfter::Attempt(0), 99)
            .await
            .expect("browsing works")
            .attempts
            .len(),
        1
    );
    let found = verify(driver.store().browse()).await.expect("the store can be read");
    assert_eq!((found.tasks, found.findings), (3, Vec::new()));
    // its key is free, and belongs to the next task that uses it.
    let heir = driver.submission(&Scope::default(), "first").with_key("order 1");
    let id = heir.submit.id;
    let taken = driver.submit(heir).await;
    assert!(matches!(taken, Answer::Accepted { task, replayed: false, .. } if task == id));
    driver.wait(Span::from_secs(30 * 3_600));
    let again = driver.submission(&Scope::default(), "first").with_key("order 1");
    let found = driver.submit(again).await;
    assert!(matches!(found, Answer::Accepted { task, replayed: true, .. } if task == id));
}

pub async fn keeps_what_may_still_be_asked_about<F: Fixture>(driver: &mut Driver<F>) {
    let [_, first, second, latest] = two_ends(driver).await;
    driver.wait(Span::from_millis(DAY.millis() - 1));
    let ends = ended(driver).await;
    // one millisecond less than a day after the end its key still finds it.
    assert_eq!(forget(driver, &ends[1..]).await, Err(FailureKind::Invalid));
    assert_eq!(forget(driver, &ends).await, Err(FailureKind::Invalid));
    assert!(matches!(driver.load(&first).await, Subject::Done(_)), "all of them or none");
    forget(driver, &ends[..1]).await.expect("it ended more than a day ago");
    // The rows are gone: there is nothing left to delete, and no live task in their place.
    assert_eq!(forget(driver, &ends[..1]).await, Err(FailureKind::Invalid));
    assert!(matches!(driver.load(&second).await, Subject::Done(_)));
    let cancel = Request::Cancel(Cancel { reason: None, mode: CancelMode::Graceful });
    driver.about(&latest, cancel).await;
    let young = ended(driver).await;
    assert!(young.iter().all(|end| end.position >= ends[1].position));
    driver.wait(DAY);
    forget(driver, &ends[1..]).await.expect("it ended more than a day ago by now");
}

pub async fn keeps_everything_when_a_batch_is_dropped<F: Fixture>(driver: &mut Driver<F>) {
    let [_, first, ..] = two_ends(driver).await;
    driver.wait(DAY);
    let ends = ended(driver).await;
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch
        .save(Decided { forgotten: vec![ends[0].position], ..Decided::default() })
        .await
        .expect("it ended a day ago");
    drop(batch);
    // S2-104: what was not committed has no effect.
    assert!(matches!(driver.load(&first).await, Subject::Done(_)));
    assert_eq!(
        driver
            .browse()
            .rows(&first, RowsAfter::Attempt(0), 99)
            .await
            .expect("browsing works")
            .attempts
            .len(),
        1
    );
    assert_eq!(ended(driver).await, ends);
}

/// What was used is a sum of its workspace and day, and belongs to no run: a budget in force counts it after the runs that used it are
/// forgotten (W-10).
pub async fn keeps_what_was_used<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let submission = driver.submission(&scope, "first");
    let run = run(driver, submission).await;
    // The newest task is never forgotten.
    driver.add(&scope, "waiting").await;
    driver.pause().await;
    let used = Amounts { tokens: 9, ..Amounts::default() };
    let spend = spend_rows(&scope, Day(3), used).to_vec();
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    batch.moment().await.expect("the clock can be read");
    batch.save(Decided { spend, ..Decided::default() }).await.expect("sums can be saved");
    batch.commit().await.expect("the batch commits");
    driver.wait(DAY);
    let ends = ended(driver).await;
    forget(driver, &ends).await.expect("it ended a day ago");
    assert_eq!(driver.load(&run).await, Subject::Absent);
    let wanted = [scope.clone(), whole_tenant(&scope.tenant)]
        .map(|scope| SpendQuery { scope, since: Day(0) });
    let found = driver.browse().spend(&wanted).await.expect("browsing works");
    assert_eq!(found, [used, used]);
}
